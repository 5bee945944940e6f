import json
import logging
import os
import select
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kb_core.embedders import FastEmbedEmbedder, embedder_from_config, hub
from kb_core.embedders.hub_models import DEFAULT_MODEL, find_model
from kb_core.errors import EmbedderError, EmbedderUnavailableError

MINILM = Path(__file__).parents[4] / "shared" / "models" / "all-MiniLM-L6-v2-int8"
CLS, SEP, RED, BLUE, QUERY, COLON = 2, 3, 4, 5, 9, 11

MakeModel = Callable[..., Path]


def test_token_vectors_are_averaged_and_normalised(make_model: MakeModel) -> None:
    vector = FastEmbedEmbedder(model_path=make_model()).embed_documents(["red"])[0]
    # [CLS] red [SEP] are three different one-hot rows: their mean is 1/3 each, at unit length 1/sqrt(3).
    assert vector[[CLS, RED, SEP]] == pytest.approx([3**-0.5] * 3)
    assert np.count_nonzero(vector) == 3


def test_first_token_pooling_takes_the_first_token(make_model: MakeModel) -> None:
    vector = FastEmbedEmbedder(model_path=make_model(), pooling="cls").embed_documents(["red"])[0]
    assert np.flatnonzero(vector).tolist() == [CLS]


def test_pooling_is_read_from_the_sentence_transformers_config(make_model: MakeModel) -> None:
    directory = make_model()
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    assert FastEmbedEmbedder(model_path=directory).config()["pooling"] == "cls"


def test_a_model_that_pools_by_itself_is_left_to_it(make_model: MakeModel) -> None:
    vector = FastEmbedEmbedder(model_path=make_model(pooled=True)).embed_documents(["red blue"])[0]
    # The maximum over [CLS] red blue [SEP]: four ones, at unit length 1/2.
    assert vector[[CLS, RED, BLUE, SEP]] == pytest.approx([0.5] * 4)


@pytest.mark.parametrize(
    "file", ["model.onnx", "onnx/model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx", "my.onnx"]
)
def test_a_directory_may_be_laid_out_in_any_usual_way(make_model: MakeModel, file: str) -> None:
    assert FastEmbedEmbedder(model_path=make_model(file=file)).embed_documents(["red"]).shape == (1, 12)


def test_a_directory_given_as_model_is_taken_as_one(make_model: MakeModel) -> None:
    directory = make_model()
    embedder = FastEmbedEmbedder(model=str(directory))
    assert embedder.fingerprint == FastEmbedEmbedder(model_path=directory).fingerprint


def test_several_onnx_files_of_unknown_names_are_not_guessed_among(make_model: MakeModel) -> None:
    make_model(file="a.onnx")
    with pytest.raises(ValueError, match=r"holds a\.onnx, b\.onnx; name the right one model\.onnx"):
        FastEmbedEmbedder(model_path=make_model(file="b.onnx"))


def test_a_missing_directory_and_one_without_a_model_are_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailableError, match="must be a directory with an ONNX model, got '/no/such'"):
        FastEmbedEmbedder(model_path="/no/such")
    with pytest.raises(EmbedderUnavailableError, match=r"holds no ONNX model; looked for model\.onnx"):
        FastEmbedEmbedder(model_path=tmp_path)


def test_an_unknown_model_is_refused_with_the_most_alike_ones() -> None:
    with pytest.raises(ValueError, match=r"got 'bge-small-en-v1\.5'; did you mean .*BAAI/bge-small-en-v1\.5"):
        FastEmbedEmbedder("bge-small-en-v1.5")
    with pytest.raises(ValueError, match="model_path=, a directory; got '/models/bge-small'"):
        FastEmbedEmbedder("/models/bge-small")


@pytest.mark.parametrize("option", ["threads", "batch_size", "dimension"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_numbers_out_of_range_are_refused(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{option} must be 1 or more, got {value}"):
        FastEmbedEmbedder(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_texts_of_any_length_come_back_in_their_order(make_model: MakeModel, batch_size: int) -> None:
    texts = ["red", "red blue fish bird", "blue", "", "green fish", "blue", "bird bird bird bird bird"]
    embedder = FastEmbedEmbedder(model_path=make_model(), batch_size=batch_size)
    together = embedder.embed_documents(texts)
    alone = np.vstack([embedder.embed_documents([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_a_repeated_text_is_run_once(make_model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = FastEmbedEmbedder(model_path=make_model())
    seen: list[str] = []
    passage_embed = embedder.load().passage_embed

    def note(texts: list[str], **options: object) -> object:
        seen.extend(texts)
        return passage_embed(texts, **options)

    monkeypatch.setattr(embedder.load(), "passage_embed", note)
    embedder.embed_documents(["red", "blue", "red", " "])
    assert sorted(seen) == ["blue", "red"]


def test_prefixes_go_before_queries_and_passages(make_model: MakeModel) -> None:
    embedder = FastEmbedEmbedder(model="intfloat/e5-small-v2", model_path=make_model())
    assert (embedder.query_prefix, embedder.passage_prefix) == ("query: ", "passage: ")
    assert set(np.flatnonzero(embedder.embed_query("red"))) == {CLS, QUERY, COLON, RED, SEP}
    assert not embedder.embed_documents(["red"])[0][QUERY]


def test_prefixes_that_lie_beside_the_model_win(make_model: MakeModel) -> None:
    directory = make_model()
    prompts = {"prompts": {"query": "ask: ", "document": "doc: "}}
    (directory / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    embedder = FastEmbedEmbedder(model="intfloat/e5-small-v2", model_path=directory)
    assert (embedder.query_prefix, embedder.passage_prefix) == ("ask: ", "doc: ")


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-small-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("nomic-ai/nomic-embed-text-v1.5-Q", "search_query: ", "search_document: "),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("jinaai/jina-embeddings-v2-base-de", "", ""),
    ],
)
def test_models_get_the_prefixes_of_their_cards(model: str, query: str, passage: str) -> None:
    embedder = FastEmbedEmbedder(model)
    assert (embedder.query_prefix, embedder.passage_prefix) == (query, passage)


def test_what_is_known_of_the_default_model_is_what_fastembed_says() -> None:
    found = find_model(DEFAULT_MODEL.name)
    assert (found.name, found.dimension, found.source.lower()) == (
        DEFAULT_MODEL.name,
        DEFAULT_MODEL.dimension,
        DEFAULT_MODEL.source.lower(),
    )


def test_the_fingerprint_tells_models_of_equal_dimension_apart(make_model: MakeModel) -> None:
    one, other = make_model("one"), make_model("other")
    onnx = bytearray((other / "model.onnx").read_bytes())
    onnx[-60] ^= 1
    (other / "model.onnx").write_bytes(onnx)
    assert FastEmbedEmbedder(model_path=one).fingerprint != FastEmbedEmbedder(model_path=other).fingerprint
    assert FastEmbedEmbedder("BAAI/bge-small-en").fingerprint != FastEmbedEmbedder("BAAI/bge-small-en-v1.5").fingerprint
    assert FastEmbedEmbedder().fingerprint != FastEmbedEmbedder(query_prefix="").fingerprint
    assert FastEmbedEmbedder().fingerprint == FastEmbedEmbedder("baai/BGE-small-en-v1.5").fingerprint


def test_a_directory_that_moved_has_the_same_fingerprint(make_model: MakeModel, tmp_path: Path) -> None:
    before = FastEmbedEmbedder(model_path=make_model("old"))
    (tmp_path / "old").rename(tmp_path / "new")
    assert FastEmbedEmbedder(model_path=tmp_path / "new").fingerprint == before.fingerprint


def test_fingerprint_and_config_load_no_model(make_model: MakeModel, no_network: list[object]) -> None:
    for embedder in (FastEmbedEmbedder(), FastEmbedEmbedder(model_path=make_model())):
        assert f"dimension={embedder.dimension}" in embedder.fingerprint
        rebuilt = embedder_from_config(json.loads(json.dumps(embedder.config())))
        assert rebuilt.fingerprint == embedder.fingerprint
        assert embedder._loaded.model is None
    assert no_network == []


def test_the_dimension_is_measured_where_no_config_tells(make_model: MakeModel) -> None:
    directory = make_model(dimension=12)
    (directory / "config.json").unlink()
    assert FastEmbedEmbedder(model_path=directory).dimension == 12


def test_a_config_that_tells_a_wrong_dimension_is_found_out(make_model: MakeModel) -> None:
    directory = make_model(dimension=12)
    (directory / "config.json").write_text(json.dumps({"hidden_size": 99, "pad_token_id": 0}))
    with pytest.raises(EmbedderError, match="must return vectors of dimension 99, got 12"):
        FastEmbedEmbedder(model_path=directory).embed_documents(["red"])


def test_texts_past_the_input_limit_are_counted_and_warned_of_once(
    make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = FastEmbedEmbedder(model_path=make_model(limit=16))
    # 16 tokens less [CLS] and [SEP] leave 14.
    fits, late = "red " * 14, "red " * 14 + "blue"
    vectors = embedder.embed_documents([fits, late, "red"])
    assert embedder.n_truncated == 1
    assert vectors[1][BLUE] == 0
    embedder.embed_documents([late])
    assert embedder.n_truncated == 2
    warned = [r.getMessage() for r in caplog.records if "longer than" in r.getMessage()]
    assert len(warned) == 1
    assert warned[0].startswith("1 of 3 texts are longer than the 14 tokens that the model reads; vector search cannot")


def test_a_cached_model_needs_no_network(
    cached_model: tuple[Path, Path], no_network: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, _ = cached_model
    assert FastEmbedEmbedder(cache_dir=cache).embed_documents(["red"]).shape == (1, 384)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert FastEmbedEmbedder(cache_dir=cache).embed_query("red").shape == (384,)
    assert no_network == []


def test_the_offline_flag_means_no_network_at_all(
    tmp_path: Path, no_network: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EmbedderUnavailableError, match=r"not cached and HF_HUB_OFFLINE is set; .*model_path="):
        FastEmbedEmbedder(cache_dir=tmp_path).embed_documents(["red"])
    assert no_network == []


@pytest.mark.usefixtures("hub_allowed")
def test_an_unreachable_hub_is_given_up_and_not_asked_again_at_once(tmp_path: Path, no_network: list[object]) -> None:
    for _ in range(2):
        with pytest.raises(EmbedderUnavailableError, match=r"huggingface\.co cannot be reached: ConnectError"):
            FastEmbedEmbedder(cache_dir=tmp_path).embed_documents(["red"])
    assert len(no_network) == 1


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("hub_allowed")
def test_a_name_server_that_never_answers_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()

    def look_up(*_: object, **__: object) -> None:
        answer.wait(300)
        raise OSError("no such name")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    monkeypatch.setattr(hub, "TIMEOUT_S", 0.2)
    try:
        with pytest.raises(EmbedderUnavailableError, match=r"did not answer within 0\.2 s"):
            FastEmbedEmbedder(cache_dir=tmp_path).embed_documents(["red"])
    finally:
        answer.set()


@pytest.mark.parametrize("n_bytes", [0, 100])
def test_a_truncated_cached_model_is_removed_and_the_others_stay(
    cached_model: tuple[Path, Path], n_bytes: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache, onnx = cached_model
    other = cache / "models--Qdrant--other" / "snapshots" / "1" / "model.onnx"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"another model")
    onnx.write_bytes(onnx.read_bytes()[:n_bytes])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        EmbedderUnavailableError, match=r"cached files were damaged .* and have been removed, and HF_HUB"
    ):
        FastEmbedEmbedder(cache_dir=cache).embed_documents(["red"])
    assert not onnx.exists()
    assert other.exists()


def test_a_model_that_fails_for_another_reason_is_not_removed(
    cached_model: tuple[Path, Path], no_network: list[object]
) -> None:
    cache, onnx = cached_model
    from onnx import load, save

    model = load(str(onnx))
    model.ir_version = 999
    save(model, str(onnx))
    with pytest.raises(EmbedderUnavailableError, match=r"bge-small-en-v1\.5 cannot be loaded: .*IR version"):
        FastEmbedEmbedder(cache_dir=cache).embed_documents(["red"])
    assert onnx.exists()


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_damaged_files_of_the_user_are_named_and_never_deleted(make_model: MakeModel, file: str) -> None:
    directory = make_model()
    (directory / file).write_bytes((directory / file).read_bytes()[:20])
    embedder = FastEmbedEmbedder(model_path=directory)
    with pytest.raises(EmbedderUnavailableError, match=r"tiny' cannot be loaded \(.*its files were left as they are"):
        embedder.embed_documents(["red"])
    assert (directory / file).read_bytes()


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_embeds_as_its_parent_does(make_model: MakeModel) -> None:
    embedder = FastEmbedEmbedder(model_path=make_model())
    before = embedder.embed_documents(["red", "blue fish"])
    embedder._loaded.lock.acquire()  # as if another thread were loading just then
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, embedder.embed_documents(["red", "blue fish"]).tobytes())
        finally:
            os._exit(0)
    embedder._loaded.lock.release()
    try:
        os.close(writer)
        assert select.select([reader], [], [], 30)[0], "the child hangs"
        assert os.read(reader, 1 << 16) == before.tobytes()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)


def test_a_failing_run_is_an_embedder_error(make_model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = FastEmbedEmbedder(model_path=make_model())

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("bad_alloc")

    monkeypatch.setattr(embedder.load(), "passage_embed", fail)
    with pytest.raises(EmbedderError, match="FastEmbedEmbedder failed on 1 texts: RuntimeError: bad_alloc"):
        embedder.embed_documents(["red"])


@pytest.mark.skipif(
    not MINILM.is_dir(), reason="the all-MiniLM-L6-v2 model is not in the neighbouring folder of shared files"
)
def test_a_real_model_puts_like_meaning_together(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    embedder = FastEmbedEmbedder(model_path=MINILM)
    passages = [
        "You may send goods back within 30 days.",
        "The ferry leaves at nine.",
        "Bread bakes for forty minutes.",
    ]
    scores = embedder.embed_documents(passages) @ embedder.embed_query("how long do I have to return something?")
    assert int(np.argmax(scores)) == 0
    # Alone or among others: run one at a time, an int8 model gives the very same vector.
    np.testing.assert_array_equal(embedder.embed_documents(passages)[1], embedder.embed_documents(passages[1:2])[0])
    assert embedder.embed_documents([" ".join(["filler"] * 990 + ["zebra"])]).shape == (1, 384)
    assert embedder.n_truncated == 1
