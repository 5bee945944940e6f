"""`kb delete`, `kb clear`, `kb reembed`."""


def sources(answer):
    return [document["source"] for document in answer("list")]


def test_a_document_is_deleted_by_a_beginning_of_its_id(kb, answer, filled):
    document = next(document for document in answer("list") if document["source"] == "handbook/returns.md")
    assert kb("delete", document["id"][:10]).stdout == "deleted 1 document\n"
    assert sources(answer) == ["handbook/errors.md", "handbook/shipping.md"]
    assert "30 days" not in kb("search", "days").stdout


def test_a_chunk_is_deleted_and_the_document_goes_with_its_last_one(kb, answer, filled):
    (chunk_id,) = answer("show", "returns.md")["chunks"]
    assert kb("delete", chunk_id).stdout == "deleted 1 chunk\n"
    assert sources(answer) == ["handbook/errors.md", "handbook/shipping.md"]


def test_every_document_of_a_source_is_deleted(answer, filled):
    assert answer("delete", "--source", "handbook/errors.md") == {"documents": 1, "chunks": 0}
    assert sources(answer) == ["handbook/returns.md", "handbook/shipping.md"]


def test_nothing_is_deleted_where_one_of_several_is_not_there(kb, answer, filled):
    ids = [document["id"] for document in answer("list")]
    kb("delete", ids[0], "zebra", code=1)
    kb("delete", ids[0], "--source", "no/such.md", code=1)
    assert len(sources(answer)) == 3


def test_a_source_is_no_id_so_that_a_typo_deletes_nothing(kb, answer, filled):
    kb("delete", "returns.md", code=1)
    kb("delete", code=2)
    assert len(sources(answer)) == 3


def test_clear_asks_and_takes_no_for_an_answer(kb, answer, filled):
    for typed in ("n\n", ""):
        result = kb("clear", typed=typed, code=1)
        assert "Erase 3 documents" in result.stderr
        assert "nothing was erased" in result.stderr
    assert len(sources(answer)) == 3


def test_clear_erases_after_a_yes_and_any_embedder_may_follow(kb, answer, filled):
    assert kb("clear", typed="y\n").stdout == "erased 3 documents\n"
    assert sources(answer) == []
    assert kb("search", "days").stdout == "No results found.\n"
    kb("add", "handbook", "--embedder", "static")
    assert kb("clear", "--yes", "--json").stdout == '{\n  "documents": 3\n}\n'


def test_reembed_moves_to_another_embedder(kb, answer, filled):
    assert kb("reembed", "static").stdout.startswith("embedded 3 texts with StaticEmbedder")
    assert answer("status")["embedder"].startswith("StaticEmbedder")
    assert "30 days" in kb("search", "sending things back", "-k", "1").stdout
    kb("reembed", "nonsense", code=2)
