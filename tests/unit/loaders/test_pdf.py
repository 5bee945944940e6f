import io
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kb_core.errors import LoaderError
from kb_core.loaders import Limits, load_file, pdf, pdf_worker

QUICK = Limits(page_seconds=1.0)


def load(tmp_path, data, **options):
    path = tmp_path / "a.pdf"
    path.write_bytes(data)
    return load_file(path, source="a.pdf", **options)


def reason(tmp_path, data, **options):
    with pytest.raises(LoaderError) as caught:
        load(tmp_path, data, **options)
    return str(caught.value)


def endless(make_pdf):
    """Millions of operators in a few kilobytes: one page that takes many seconds."""
    return make_pdf([""], content=b"BT /F1 12 Tf " + b"(a) Tj " * 3_000_000 + b" ET")


def test_pages_are_joined_and_each_character_knows_its_page(tmp_path, make_pdf):
    loaded = load(tmp_path, make_pdf(["Returns within 30 days.", "Shipping is free.", "Bye"]))
    (document,) = loaded.documents
    assert document.content == "Returns within 30 days.\n\nShipping is free.\n\nBye"
    assert document.metadata == {"n_pages": 3, "file_name": "a.pdf", "file_type": ".pdf"}
    assert loaded.page_starts == [0, 25, 44]  # 23 characters and a blank line, then 17 and a blank line
    assert [loaded.page_of(at) for at in (0, 24, 25, 43, 44, 46)] == [1, 1, 2, 2, 3, 3]
    assert loaded.warnings == []


def test_a_text_file_has_no_pages(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    assert load_file(tmp_path / "a.txt").page_of(0) is None


def test_pages_without_text_keep_their_number_and_are_warned_of(tmp_path, make_pdf):
    loaded = load(tmp_path, make_pdf(["One", "", "Three"]))
    assert loaded.page_of(loaded.documents[0].content.index("Three")) == 3
    assert loaded.warnings == ["'a.pdf': 1 of 3 pages hold no text (scanned?)"]


def test_the_title_is_kept(tmp_path, make_pdf):
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(make_pdf(["x"])))
    writer.add_metadata({"/Title": "Handbook"})
    buffer = io.BytesIO()
    writer.write(buffer)
    assert load(tmp_path, buffer.getvalue()).documents[0].metadata["title"] == "Handbook"


@pytest.mark.parametrize(("password", "is_readable"), [("", True), ("secret", False)])
def test_an_encrypted_file_is_read_without_a_password_or_refused(tmp_path, make_pdf, password, is_readable):
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(make_pdf(["hello"])))
    writer.encrypt(password, algorithm="RC4-128")
    buffer = io.BytesIO()
    writer.write(buffer)
    if is_readable:
        assert load(tmp_path, buffer.getvalue()).documents[0].content == "hello"
    else:
        assert "encrypted and needs a password" in reason(tmp_path, buffer.getvalue())


def test_a_damaged_table_of_offsets_is_rebuilt(tmp_path, make_pdf):
    good = make_pdf(["hello there"])
    end = good.rindex(b"startxref")
    for bad in (good[:end] + b"startxref\n99999\n%%EOF", good.replace(b"0000000", b"1111111")):
        assert load(tmp_path, bad).documents[0].content == "hello there"


def test_damaged_files_are_refused_by_name_with_a_reason(tmp_path, make_pdf):
    good = make_pdf(["hello"])
    assert "'a.pdf': it is empty (0 bytes)" in reason(tmp_path, b"")
    assert "damaged" in reason(tmp_path, b"no pdf at all" * 100)
    assert "damaged" in reason(tmp_path, good[:200])
    assert "damaged" in reason(tmp_path, good.replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"))
    assert "damaged" in reason(tmp_path, good.replace(b"/Catalog", b"/Nothing").replace(b"/Root", b"/Toor"))


def test_a_file_without_text_is_refused_as_scanned(tmp_path, make_pdf):
    assert "its 2 pages hold no text (scanned?)" in reason(tmp_path, make_pdf(["", ""]))


def test_a_page_that_never_ends_is_given_up_and_the_next_file_is_read(tmp_path, make_pdf):
    assert "took longer than 1 s" in reason(tmp_path, endless(make_pdf), limits=QUICK)
    assert load(tmp_path, make_pdf(["next"])).documents[0].content == "next"


def test_limits_of_pages_text_and_time_are_kept(tmp_path, make_pdf):
    data = make_pdf(["one", "two", "three"])
    assert "has 3 pages; the most that is read are 2" in reason(tmp_path, data, limits=Limits(max_pages=2))
    assert "longer than 6 characters" in reason(tmp_path, data, limits=Limits(max_chars=6))
    assert "took too long: 0 of 3 pages" in reason(tmp_path, data, limits=Limits(file_seconds=0))


def test_a_reader_that_died_is_started_again(tmp_path, make_pdf):
    assert load(tmp_path, make_pdf(["one"])).documents[0].content == "one"
    pdf._reader._process.kill()
    pdf._reader._process.wait()
    assert load(tmp_path, make_pdf(["two"])).documents[0].content == "two"


def test_a_reader_that_dies_at_work_is_reported(tmp_path, make_pdf):
    data = endless(make_pdf)
    assert load(tmp_path, make_pdf(["one"])).documents[0].content == "one"
    killer = threading.Thread(target=_kill_at_work, args=(pdf._reader,))
    killer.start()
    assert "crash" in reason(tmp_path, data)
    killer.join()
    assert load(tmp_path, make_pdf(["two"])).documents[0].content == "two"


def _kill_at_work(reader):
    while not reader.lock.locked():
        time.sleep(0.01)
    time.sleep(0.3)
    reader._process.kill()


def test_many_threads_get_each_its_own_file(tmp_path, make_pdf):
    found = {}

    def read(number):
        path = tmp_path / f"{number}.pdf"
        path.write_bytes(make_pdf([f"file {number}"]))
        found[number] = load_file(path).documents[0].content

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"file {number}" for number in range(8)}


@pytest.mark.parametrize("executable", ["", "/nonexistent/python", "false"])
def test_where_no_interpreter_can_be_started_files_are_read_in_this_process(
    tmp_path, make_pdf, monkeypatch, executable, caplog
):
    pdf._reader.stop()
    monkeypatch.setattr(sys, "executable", shutil.which(executable) or executable)
    assert load(tmp_path, make_pdf(["one", "two"])).page_starts == [0, 5]
    assert "took too long" in reason(tmp_path, make_pdf(["one"]), limits=Limits(file_seconds=0))
    assert bool(caplog.records) == bool(executable)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_and_its_parent_read_each_for_itself(tmp_path, make_pdf):
    (tmp_path / "a.pdf").write_bytes(make_pdf(["hello"]))
    program = (
        "import os\n"
        "from kb_core.loaders import load_file\n"
        "assert load_file('a.pdf').documents[0].content == 'hello'\n"
        "child = os.fork()\n"
        "for _ in range(20):\n"
        "    assert load_file('a.pdf').documents[0].content == 'hello'\n"
        "assert not child or os.waitpid(child, 0)[1] == 0\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_the_reader_ends_with_its_parent(tmp_path, make_pdf):
    (tmp_path / "a.pdf").write_bytes(make_pdf(["hello"]))
    program = (
        "import os, signal\n"
        "from kb_core.loaders import load_file, pdf\n"
        "load_file('a.pdf')\n"
        "print(pdf._reader._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    for _ in range(200):
        if not _is_running(int(run.stdout)):
            return
        time.sleep(0.05)
    pytest.fail("the reader outlived its parent")


def _is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_one_broken_page_does_not_cost_the_others(make_pdf):
    class Page:
        def extract_text(self):
            raise ValueError("broken")

    class Reader:
        pages = (Page(),)

    failures = []
    assert pdf_worker._page_text(Reader(), 1, failures) == ""
    assert failures == ["page 1 could not be read (ValueError)"]
    result = pdf_worker._result(["", "text", ""], failures, "")
    assert result["warnings"] == ["page 1 could not be read (ValueError)", "1 of 3 pages hold no text (scanned?)"]
