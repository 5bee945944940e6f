"""KBRetriever: what it returns, how it is told what to do, and that it keeps LangChain's contract."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import create_retriever_tool
from pydantic import BaseModel, ValidationError

from kb_core import EmbedderError, InvalidFilterError, LocalKB
from kb_core.embedders import HashingEmbedder
from kb_core.formatting import format_result
from kb_langchain import KBRetriever

QUERY = "how many days do I have to return something for a refund?"
GERMAN = {"lang": "de"}


def ids(documents: list[Any]) -> list[str]:
    return [document.id for document in documents]


@pytest.fixture
def retriever(kb: LocalKB) -> KBRetriever:
    return KBRetriever(kb=kb)


class TestDocuments:
    def test_ids_order_and_scores_are_those_of_the_knowledge_base(self, kb: LocalKB, retriever: KBRetriever) -> None:
        expected = kb.search(QUERY)
        found = retriever.invoke(QUERY)
        assert [(hit.id, hit.metadata["score"]) for hit in found] == [(hit.chunk.id, hit.score) for hit in expected]
        assert len(found) == 5

    def test_the_contents_joined_are_byte_for_byte_what_the_tool_says(
        self, kb: LocalKB, retriever: KBRetriever
    ) -> None:
        found = retriever.invoke(QUERY)
        assert "\n\n".join(hit.page_content for hit in found) == kb.as_tool().call(QUERY)
        assert found[0].page_content.startswith("[Score: ")

    def test_raw_content_is_the_text_of_the_chunk(self, kb: LocalKB) -> None:
        found = KBRetriever(kb=kb, scored_content=False).invoke(QUERY)
        assert [hit.page_content for hit in found] == [hit.chunk.content for hit in kb.search(QUERY)]

    def test_metadata_holds_the_chunk_its_place_and_its_scores(self, kb: LocalKB, retriever: KBRetriever) -> None:
        hit, document = kb.search(QUERY, 1)[0], retriever.invoke(QUERY, top_k=1)[0]
        assert document.metadata == {
            "lang": "en",
            "page": hit.chunk.metadata["page"],
            "url": hit.chunk.metadata["url"],
            "since": hit.chunk.metadata["since"].isoformat(),
            "source": hit.chunk.metadata["source"],
            "chunk_id": hit.chunk.id,
            "document_id": hit.chunk.document_id,
            "start_char": 0,
            "end_char": len(hit.chunk.content),
            "index": 0,
            "score": hit.score,
            "score_type": "fused",
            "vector_score": hit.vector_score,
            "keyword_score": hit.keyword_score,
            "also_in": [],
        }
        assert type(document.metadata["score"]) is float

    def test_documents_are_valid_json_and_survive_langchains_serialisation(self, retriever: KBRetriever) -> None:
        found = retriever.invoke(QUERY)
        json.dumps([hit.metadata for hit in found], allow_nan=False)
        assert [Document.model_validate_json(hit.model_dump_json()) for hit in found] == found
        assert "not_implemented" not in dumps(found)

    def test_offsets_point_into_the_document(self) -> None:
        text = " ".join(f"Sentence {number} is about tents and poles." for number in range(40))
        with LocalKB("long", persist=False, embedder=HashingEmbedder(), chunk_size=100, chunk_overlap=0) as kb:
            kb.add_text(text, source="tents.txt")
            found = KBRetriever(kb=kb, scored_content=False, top_k=3).invoke("sentence 17 about poles")
        assert len(found) == 3
        for hit in found:
            assert text[hit.metadata["start_char"] : hit.metadata["end_char"]] == hit.page_content

    def test_each_call_gives_fresh_objects(self, retriever: KBRetriever) -> None:
        first = retriever.invoke(QUERY)
        before = [dict(hit.metadata) for hit in first]
        for hit in first:
            hit.metadata["relevance_score"] = 1.0
            hit.metadata.pop("source")
        assert [hit.metadata for hit in retriever.invoke(QUERY)] == before

    def test_the_score_can_have_another_key(self, kb: LocalKB) -> None:
        found = KBRetriever(kb=kb, score_key="relevance_score").invoke(QUERY)
        assert [hit.metadata["relevance_score"] for hit in found] == [hit.score for hit in kb.search(QUERY)]
        assert "score" not in found[0].metadata

    def test_without_a_score_key_nothing_in_a_document_depends_on_the_query(self, kb: LocalKB) -> None:
        retriever = KBRetriever(kb=kb, top_k=6, score_key=None, scored_content=False)
        one = {hit.id: hit for hit in retriever.invoke(QUERY)}
        other = {hit.id: hit for hit in retriever.invoke("is wear covered, or a gift card?")}
        assert len(one.keys() & other.keys()) == 6
        assert one == other

    def test_metadata_of_the_users_own_named_score_stays_when_the_score_goes_elsewhere(self) -> None:
        with LocalKB("reviews", persist=False, embedder=HashingEmbedder()) as kb:
            kb.add_text("A tent that kept us dry.", source="review", metadata={"score": 5})
            assert KBRetriever(kb=kb, score_key="relevance_score").invoke("dry tent")[0].metadata["score"] == 5
            assert KBRetriever(kb=kb, score_key=None).invoke("dry tent")[0].metadata["score"] == 5

    @pytest.mark.parametrize("query", ["", "   "])
    def test_a_blank_query_finds_nothing(self, retriever: KBRetriever, query: str) -> None:
        assert retriever.invoke(query) == []

    def test_an_empty_knowledge_base_finds_nothing(self) -> None:
        with LocalKB("empty", persist=False, embedder=HashingEmbedder()) as kb:
            assert KBRetriever(kb=kb).invoke(QUERY) == []


class TestOptions:
    @pytest.mark.parametrize("name", ["top_k", "k"])
    @pytest.mark.parametrize("number", [0, 1, 3, 6, 50])
    def test_the_number_of_documents_is_kept_however_it_is_given(self, kb: LocalKB, name: str, number: int) -> None:
        expected = [hit.chunk.id for hit in kb.search(QUERY, number)]
        plain = KBRetriever(kb=kb)
        configurable = plain.configurable_fields(**{name: ConfigurableField(id="number")})
        for found in (
            KBRetriever(kb=kb, **{name: number}).invoke(QUERY),
            plain.invoke(QUERY, **{name: number}),
            plain.bind(**{name: number}).invoke(QUERY),
            configurable.invoke(QUERY, config={"configurable": {"number": number}}),
        ):
            assert ids(found) == expected

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("where", GERMAN),
            ("where", {"page": {"$gte": 4}}),
            ("min_score", 0.5),
            ("search_type", "keyword"),
            ("search_type", "vector"),
            ("alpha", 0.0),
            ("alpha", 1.0),
        ],
    )
    def test_every_search_option_works_however_it_is_given(self, kb: LocalKB, name: str, value: Any) -> None:
        expected = [(hit.chunk.id, hit.score) for hit in kb.search(QUERY, **{name: value})]
        assert expected
        plain = KBRetriever(kb=kb)
        configurable = plain.configurable_fields(**{name: ConfigurableField(id="option")})
        for found in (
            KBRetriever(kb=kb, **{name: value}).invoke(QUERY),
            plain.invoke(QUERY, **{name: value}),
            plain.bind(**{name: value}).invoke(QUERY),
            configurable.invoke(QUERY, config={"configurable": {"option": value}}),
        ):
            assert [(hit.id, hit.metadata["score"]) for hit in found] == expected

    def test_an_option_of_a_call_takes_the_place_of_the_retrievers_own_and_none_does_not(self, kb: LocalKB) -> None:
        retriever = KBRetriever(kb=kb, where=GERMAN, top_k=1)
        assert ids(retriever.invoke(QUERY, where=None, top_k=None)) == ids(retriever.invoke(QUERY))
        assert ids(retriever.invoke(QUERY, where={}, top_k=6)) == ids(KBRetriever(kb=kb, top_k=6).invoke(QUERY))

    def test_a_filter_changed_after_construction_does_not_change_the_retriever(self, kb: LocalKB) -> None:
        where: dict[str, Any] = {"lang": {"$in": ["de"]}}
        retriever = KBRetriever(kb=kb, where=where)
        where["lang"]["$in"].append("en")
        assert len(retriever.invoke(QUERY)) == 1

    @pytest.mark.parametrize("name", ["topk", "n_results", "filter", "score_key"])
    def test_an_unknown_argument_of_a_call_is_an_error_that_names_it(self, retriever: KBRetriever, name: str) -> None:
        with pytest.raises(TypeError, match=rf"takes k, top_k, where.*got {name}"):
            retriever.invoke(QUERY, **{name: 3})
        with pytest.raises(TypeError, match=name):
            retriever.bind(**{name: 3}).invoke(QUERY)

    async def test_an_unknown_argument_is_an_error_in_async_calls_too(self, retriever: KBRetriever) -> None:
        with pytest.raises(TypeError, match="got topk"):
            await retriever.ainvoke(QUERY, topk=3)

    def test_k_and_top_k_together_are_an_error(self, kb: LocalKB, retriever: KBRetriever) -> None:
        with pytest.raises(TypeError, match="got both"):
            retriever.invoke(QUERY, k=1, top_k=2)
        with pytest.raises(TypeError, match="got both"):
            KBRetriever(kb=kb, k=1, top_k=2)

    @pytest.mark.parametrize("name", ["topk", "filter", "search_kwargs"])
    def test_an_unknown_field_is_an_error_that_names_it(self, kb: LocalKB, name: str) -> None:
        with pytest.raises(ValidationError, match=name):
            KBRetriever(kb=kb, **{name: 3})

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("top_k", -1, "greater than or equal to 0"),
            ("top_k", "3", "valid integer"),
            ("top_k", True, "valid integer"),
            ("top_k", 2.5, "valid integer"),
            ("k", -1, "greater than or equal to 0"),
            ("alpha", 1.5, "less than or equal to 1"),
            ("min_score", float("nan"), "finite number"),
            ("where", {"page": {"$near": 3}}, "near"),
            ("where", ["lang"], "must be a mapping"),
            ("score_key", "chunk_id", "chunk_id"),
            ("kb", "policies", "knowledge base such as LocalKB, got str"),
        ],
    )
    def test_a_wrong_value_is_an_error_at_construction(self, kb: LocalKB, name: str, value: Any, message: str) -> None:
        with pytest.raises(ValidationError, match=message):
            KBRetriever(**{"kb": kb, name: value})

    @pytest.mark.parametrize("value", [-1, "3", True, 2.5])
    def test_a_wrong_number_is_an_error_at_a_call(self, retriever: KBRetriever, value: Any) -> None:
        with pytest.raises((ValueError, TypeError), match="top_k"):
            retriever.invoke(QUERY, top_k=value)

    def test_a_wrong_filter_is_an_error_at_a_call(self, retriever: KBRetriever) -> None:
        with pytest.raises(InvalidFilterError, match="near"):
            retriever.invoke(QUERY, where={"page": {"$near": 3}})

    def test_an_error_does_not_quote_the_values_given(self, kb: LocalKB) -> None:
        with pytest.raises(ValidationError) as caught:
            KBRetriever(kb=kb, min_score="sk-secret")
        assert "sk-secret" not in str(caught.value)

    def test_it_runs_inside_a_chain_configured_from_outside(self, kb: LocalKB) -> None:
        chain = KBRetriever(kb=kb).configurable_fields(k=ConfigurableField(id="k")) | ids
        assert chain.invoke(QUERY, config={"configurable": {"k": 2}}) == [hit.chunk.id for hit in kb.search(QUERY, 2)]


class SlowEmbedder(HashingEmbedder):
    """Blocks its thread at each query, as a model or a service does."""

    seconds = 0.1

    def embed_query(self, text: str) -> Any:
        time.sleep(self.seconds)
        return super().embed_query(text)


class TestAsync:
    async def test_async_finds_what_sync_finds(self, retriever: KBRetriever) -> None:
        assert await retriever.ainvoke(QUERY) == retriever.invoke(QUERY)
        assert await retriever.ainvoke(QUERY, k=2, where={"lang": "en"}) == retriever.invoke(
            QUERY, k=2, where={"lang": "en"}
        )

    async def test_a_slow_embedder_does_not_stop_the_event_loop(self) -> None:
        with LocalKB("slow", persist=False, embedder=SlowEmbedder()) as kb:
            kb.add_text("Returns are accepted within 30 days.", source="returns.md")
            search = asyncio.ensure_future(KBRetriever(kb=kb).ainvoke(QUERY))
            ticks = 0
            while not search.done():
                await asyncio.sleep(0.001)
                ticks += 1
            assert len(search.result()) == 1
        # A blocked loop would tick once or twice; a tick takes at least 1 ms of the 100.
        assert ticks >= 10

    async def test_32_searches_at_once_find_what_each_finds_alone(self, kb: LocalKB, retriever: KBRetriever) -> None:
        queries = [f"{QUERY} {number}" for number in range(32)]
        alone = [[(hit.chunk.id, hit.score) for hit in kb.search(query)] for query in queries]
        for together in (
            await asyncio.gather(*(retriever.ainvoke(query) for query in queries)),
            await retriever.abatch(queries),
            await asyncio.to_thread(retriever.batch, queries),
        ):
            assert [[(hit.id, hit.metadata["score"]) for hit in found] for found in together] == alone

    def test_any_thread_may_search(self, retriever: KBRetriever) -> None:
        expected = retriever.invoke(QUERY)
        with ThreadPoolExecutor(8) as pool:
            assert all(found == expected for found in pool.map(retriever.invoke, [QUERY] * 32))

    async def test_astream_gives_the_documents(self, retriever: KBRetriever) -> None:
        assert [found async for found in retriever.astream(QUERY)] == [retriever.invoke(QUERY)]


class Recorder(BaseCallbackHandler):
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, dict[str, Any]]] = []

    def on_retriever_start(self, _serialized: Any, query: str, **kwargs: Any) -> None:
        self.calls.append(("start", query, kwargs))

    def on_retriever_end(self, documents: Any, **kwargs: Any) -> None:
        self.calls.append(("end", documents, kwargs))

    def on_retriever_error(self, error: BaseException, **kwargs: Any) -> None:
        self.calls.append(("error", error, kwargs))


class TestLangChainContract:
    def test_callbacks_tags_and_metadata_reach_a_handler(self, kb: LocalKB) -> None:
        recorder = Recorder()
        retriever = KBRetriever(kb=kb, tags=["shop"], metadata={"team": "service"}, name="PolicyRetriever")
        found = retriever.invoke(QUERY, config={"callbacks": [recorder], "tags": ["run"], "metadata": {"user": "u1"}})
        (start, query, started), (end, documents, ended) = recorder.calls
        assert (start, query, end, documents) == ("start", QUERY, "end", found)
        assert set(started["tags"]) == {"shop", "run"}
        assert started["metadata"].items() >= {"team": "service", "user": "u1"}.items()
        assert started["name"] == "PolicyRetriever"
        assert started["run_id"] == ended["run_id"]

    def test_tracing_is_told_the_retriever_and_the_store(self, kb: LocalKB) -> None:
        recorder = Recorder()
        KBRetriever(kb=kb).invoke(QUERY, config={"callbacks": [recorder]})
        assert (
            recorder.calls[0][2]["metadata"].items()
            >= {
                "ls_retriever_name": "kb",
                "ls_vector_store_provider": "LocalKB",
            }.items()
        )

    def test_an_error_is_reported_to_the_handler_and_raised(self, retriever: KBRetriever) -> None:
        recorder = Recorder()
        with pytest.raises(InvalidFilterError):
            retriever.invoke(QUERY, config={"callbacks": [recorder]}, where={"$no": 1})
        assert [name for name, _, _ in recorder.calls] == ["start", "error"]

    def test_arguments_that_langchain_itself_reads_are_accepted(self, retriever: KBRetriever) -> None:
        assert retriever.invoke(QUERY, verbose=False) == retriever.invoke(QUERY)

    def test_errors_of_the_knowledge_base_pass_through(self, failing_kb: LocalKB) -> None:
        with pytest.raises(EmbedderError, match="ConnectionError"):
            KBRetriever(kb=failing_kb).invoke(QUERY)

    def test_neither_its_repr_nor_its_dump_holds_the_knowledge_base(self, retriever: KBRetriever) -> None:
        assert "LocalKB" not in repr(retriever)
        assert "kb" not in retriever.model_dump()

    def test_it_can_be_a_field_of_a_users_model(self, retriever: KBRetriever) -> None:
        class Service(BaseModel):
            retriever: KBRetriever

        assert Service(retriever=retriever).retriever is retriever

    def test_a_copy_with_other_fields_searches_with_them(self, retriever: KBRetriever) -> None:
        assert len(retriever.model_copy(update={"top_k": 2}).invoke(QUERY)) == 2

    def test_the_retriever_tool_of_langchain_says_what_the_core_tool_says(
        self, kb: LocalKB, retriever: KBRetriever
    ) -> None:
        tool = create_retriever_tool(retriever, "policies", "Finds policies.")
        assert tool.invoke({"query": QUERY}) == kb.as_tool().call(QUERY)

    def test_it_composes_with_functions(self, kb: LocalKB, retriever: KBRetriever) -> None:
        chain = retriever | (lambda documents: "\n\n".join(hit.page_content for hit in documents))
        assert chain.invoke(QUERY) == kb.as_tool().call(QUERY)


def test_scores_of_numpy_never_come_through(kb: LocalKB) -> None:
    for search_type in ("hybrid", "vector", "keyword"):
        for hit in KBRetriever(kb=kb, search_type=search_type).invoke(QUERY):
            assert not any(isinstance(value, np.generic) for value in hit.metadata.values())


def test_the_prefix_of_the_content_is_that_of_the_core(kb: LocalKB) -> None:
    found = KBRetriever(kb=kb, search_type="vector").invoke(QUERY)
    assert [hit.page_content for hit in found] == [format_result(hit) for hit in kb.search(QUERY, search_type="vector")]
