"""The registry: which loader reads which files, by suffix."""

from kb_core.loaders.docx import load_docx
from kb_core.loaders.html import load_html
from kb_core.loaders.json import load_json
from kb_core.loaders.loaded import Loader
from kb_core.loaders.pdf import load_pdf
from kb_core.loaders.table import load_table
from kb_core.loaders.text import load_text, load_unknown

# fmt: off
PROSE_SUFFIXES = frozenset({
    ".txt", ".text", ".md", ".markdown", ".mdx", ".rst", ".adoc", ".asciidoc", ".org", ".tex", ".bib", ".log",
    ".textile", ".wiki", ".srt", ".vtt", ".po", ".eml",
})

CODE_SUFFIXES = frozenset({
    ".py", ".pyi", ".pyx", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte", ".css",
    ".scss", ".sass", ".less", ".java", ".kt", ".kts", ".scala", ".groovy", ".gradle", ".clj", ".c", ".h", ".cc",
    ".cpp", ".cxx", ".hh", ".hpp", ".cs", ".fs", ".vb", ".m", ".mm", ".swift", ".go", ".rs", ".zig", ".d", ".rb",
    ".php", ".pl", ".pm", ".lua", ".r", ".jl", ".hs", ".ml", ".mli", ".ex", ".exs", ".erl", ".elm", ".dart", ".pas",
    ".f90", ".asm", ".sql", ".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".cmd", ".proto", ".graphql",
    ".thrift", ".tf", ".hcl", ".nix", ".cmake", ".mk", ".sol", ".el", ".lisp", ".scm", ".vim", ".diff", ".patch",
})

DATA_SUFFIXES = frozenset({
    ".xml", ".xsd", ".xsl", ".svg", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".properties",
    ".geojson", ".json5", ".jsonc",
})

TEXT_SUFFIXES = PROSE_SUFFIXES | CODE_SUFFIXES | DATA_SUFFIXES

UNREADABLE_SUFFIXES = frozenset({
    # office and book formats without a loader
    ".doc", ".dot", ".xls", ".xlsx", ".xlsm", ".xlsb", ".ppt", ".pptx", ".pps", ".odt", ".ods", ".odp", ".rtf",
    ".pages", ".numbers", ".key", ".epub", ".mobi", ".djvu", ".ps", ".eps", ".msg", ".pst", ".vsdx",
    # pictures, sound, film, fonts, models
    ".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".heic", ".avif", ".ico", ".icns", ".psd",
    ".ai", ".mp3", ".wav", ".flac", ".ogg", ".oga", ".opus", ".m4a", ".aac", ".wma", ".mp4", ".m4v", ".mov",
    ".avi", ".mkv", ".webm", ".wmv", ".mpg", ".mpeg", ".ttf", ".otf", ".woff", ".woff2", ".eot", ".stl", ".blend",
    ".glb",
    # archives, disk images, packages
    ".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".lz4", ".7z", ".rar", ".tar", ".jar", ".war", ".whl", ".egg",
    ".deb", ".rpm", ".apk", ".dmg", ".iso", ".img", ".cab", ".msi", ".crx", ".xpi",
    # compiled
    ".exe", ".dll", ".so", ".dylib", ".a", ".o", ".obj", ".lib", ".pdb", ".class", ".pyc", ".pyo", ".pyd", ".wasm",
    ".bin", ".elc", ".beam",
    # data and models
    ".db", ".sqlite", ".sqlite3", ".mdb", ".accdb", ".parquet", ".feather", ".arrow", ".orc", ".avro", ".npy",
    ".npz", ".h5", ".hdf5", ".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".safetensors", ".onnx", ".gguf",
    ".tfrecord", ".faiss", ".mat", ".rds", ".rdata",
    # keys, certificates, secrets
    ".p12", ".pfx", ".jks", ".keystore", ".der", ".gpg", ".pem", ".env",
})
# fmt: on

LOADERS: dict[str, Loader] = {
    **dict.fromkeys(TEXT_SUFFIXES, load_text),
    **dict.fromkeys((".html", ".htm", ".xhtml"), load_html),
    **dict.fromkeys((".csv", ".tsv", ".tab"), load_table),
    **dict.fromkeys((".json", ".jsonl", ".ndjson", ".ipynb"), load_json),
    ".pdf": load_pdf,
    ".docx": load_docx,
}
"""Loader by suffix, in lower case with its dot. A new family is a module with a `Loader`, and a line here."""

known_suffixes = frozenset(LOADERS) | UNREADABLE_SUFFIXES
"""Every suffix that names a file type, also of those that no loader reads."""


def loader_for(suffix: str) -> Loader | None:
    """Give the loader for a suffix in lower case; None where no loader reads such files.

    A file of unknown suffix, or without one (README, Makefile), is read as text if its content is.
    """
    if suffix in UNREADABLE_SUFFIXES:
        return None
    return LOADERS.get(suffix, load_unknown)
