"""KBRetriever: what it returns, how it is told what to do, and that it keeps LlamaIndex's contract."""

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.schema import NodeWithScore, QueryBundle

from kb_core import InvalidFilterError, LocalKB
from kb_core.embedders import HashingEmbedder, StaticEmbedder
from kb_core.formatting import format_result
from kb_llamaindex import KBRetriever

QUERY = "how many days do I have to return something for a refund?"


def scored(nodes: list[NodeWithScore]) -> list[tuple[str, float | None]]:
    return [(node.node_id, node.score) for node in nodes]


@pytest.fixture
def retriever(kb: LocalKB) -> KBRetriever:
    return KBRetriever(kb)


class TestParity:
    def test_ids_order_and_scores_are_those_of_the_knowledge_base(self, kb: LocalKB, retriever: KBRetriever) -> None:
        found = retriever.retrieve(QUERY)
        assert scored(found) == [(hit.chunk.id, hit.score) for hit in kb.search(QUERY)]
        assert len(found) == 5
        assert all(type(node.score) is float for node in found)

    def test_the_contents_joined_are_byte_for_byte_what_the_tool_says(
        self, kb: LocalKB, retriever: KBRetriever
    ) -> None:
        found = retriever.retrieve(QUERY)
        assert "\n\n".join(node.get_content() for node in found) == kb.as_tool().call(QUERY)
        assert [node.node.get_content() for node in found] == [format_result(hit) for hit in kb.search(QUERY)]

    async def test_async_finds_what_sync_finds(self, retriever: KBRetriever) -> None:
        assert await retriever.aretrieve(QUERY) == retriever.retrieve(QUERY)

    @pytest.mark.parametrize("name", ["top_k", "similarity_top_k"])
    @pytest.mark.parametrize("number", [0, 1, 3, 6, 50])
    def test_the_number_of_nodes_is_kept(self, kb: LocalKB, name: str, number: int) -> None:
        found = KBRetriever(kb, **{name: number}).retrieve(QUERY)
        assert scored(found) == [(hit.chunk.id, hit.score) for hit in kb.search(QUERY, number)]
        assert scored(KBRetriever(kb, number).retrieve(QUERY)) == scored(found)

    @pytest.mark.parametrize("name", ["top_k", "similarity_top_k"])
    def test_the_number_of_nodes_can_be_set_later(self, retriever: KBRetriever, name: str) -> None:
        setattr(retriever, name, 2)
        assert (retriever.top_k, retriever.similarity_top_k, len(retriever.retrieve(QUERY))) == (2, 2, 2)
        with pytest.raises(ValueError, match="top_k must be a whole number"):
            setattr(retriever, name, -1)
        assert retriever.top_k == 2

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("where", {"lang": "de"}),
            ("where", {"page": {"$gte": 4}}),
            ("min_score", 0.5),
            ("search_type", "keyword"),
            ("search_type", "vector"),
            ("alpha", 0.0),
            ("alpha", 1.0),
        ],
    )
    async def test_every_search_option_is_kept(self, kb: LocalKB, name: str, value: Any) -> None:
        expected = [(hit.chunk.id, hit.score) for hit in kb.search(QUERY, **{name: value})]
        assert expected
        retriever = KBRetriever(kb, **{name: value})
        assert scored(retriever.retrieve(QUERY)) == scored(await retriever.aretrieve(QUERY)) == expected

    @pytest.mark.parametrize("query", ["", "   "])
    def test_a_blank_query_finds_nothing(self, retriever: KBRetriever, query: str) -> None:
        assert retriever.retrieve(query) == []

    def test_an_empty_knowledge_base_finds_nothing(self) -> None:
        with LocalKB("empty", persist=False, embedder=HashingEmbedder()) as kb:
            assert KBRetriever(kb).retrieve(QUERY) == []


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "kind", "message"),
        [
            ({"top_k": -1}, ValueError, "top_k must be a whole number, 0 or more, got -1"),
            ({"top_k": "3"}, ValueError, "top_k"),
            ({"top_k": True}, ValueError, "top_k"),
            ({"similarity_top_k": 2.5}, ValueError, "top_k"),
            ({"top_k": 1, "similarity_top_k": 2}, TypeError, "got both"),
            ({"topk": 1}, TypeError, "topk"),
            ({"alpha": 1.5}, ValueError, "alpha must be from 0 to 1, got 1.5"),
            ({"min_score": "high"}, TypeError, "min_score must be a number"),
            ({"search_type": "semantic"}, ValueError, "search_type must be one of 'hybrid', 'vector', 'keyword'"),
            ({"where": {"page": {"$near": 3}}}, InvalidFilterError, "near"),
            ({"where": ["lang"]}, InvalidFilterError, "must be a mapping"),
            ({"llm_metadata_keys": "source"}, TypeError, "list of keys, got the str 'source'"),
            ({"kb": "policies"}, TypeError, "knowledge base such as LocalKB, got str"),
        ],
    )
    def test_a_wrong_value_is_an_error_when_the_retriever_is_made(
        self, kb: LocalKB, options: dict[str, Any], kind: type[Exception], message: str
    ) -> None:
        with pytest.raises(kind, match=message):
            KBRetriever(**{"kb": kb, **options})

    def test_a_filter_changed_after_construction_does_not_change_the_retriever(self, kb: LocalKB) -> None:
        where: dict[str, Any] = {"lang": {"$in": ["de"]}}
        retriever = KBRetriever(kb, where=where)
        where["lang"]["$in"].append("en")
        assert len(retriever.retrieve(QUERY)) == 1


@pytest.fixture(scope="module")
def animals() -> Iterator[LocalKB]:
    with LocalKB("animals", persist=False, embedder=StaticEmbedder()) as kb:
        kb.add_text("The dog barked at the postman.", source="dog")
        kb.add_text("Interest rates were raised by the central bank.", source="bank")
        kb.add_text("The kitchen oven was too hot for the cake.", source="cake")
        yield kb


class TestQueryBundles:
    """On real word vectors: what the vector matcher looks for shows in what it finds."""

    @staticmethod
    def sources(nodes: list[NodeWithScore]) -> list[str]:
        return [node.metadata["source"] for node in nodes]

    async def test_custom_embedding_strings_are_what_the_vector_matcher_looks_for(self, animals: LocalKB) -> None:
        retriever = KBRetriever(animals, 1, search_type="vector")
        bundle = QueryBundle("a puppy", custom_embedding_strs=["money and finance"])
        assert self.sources(retriever.retrieve("a puppy")) == ["dog"]
        assert self.sources(retriever.retrieve(bundle)) == ["bank"]
        assert await retriever.aretrieve(bundle) == retriever.retrieve(bundle)

    def test_the_keyword_matcher_goes_on_looking_for_the_query(self, animals: LocalKB) -> None:
        retriever = KBRetriever(animals, 3, search_type="hybrid")
        by_source = {
            node.metadata["source"]: node.node.result
            for node in retriever.retrieve(QueryBundle("postman", custom_embedding_strs=["money and finance"]))
        }
        assert by_source["dog"].keyword_score == animals.search("postman", 1)[0].keyword_score
        assert by_source["bank"].keyword_score is None
        alone = animals.search("money and finance", 1, search_type="vector")[0]
        assert by_source["bank"].vector_score == pytest.approx(alone.vector_score)

    def test_several_strings_count_as_the_mean_of_their_vectors(self, animals: LocalKB) -> None:
        texts = ["a puppy", "money and finance"]
        embedder = StaticEmbedder()
        mean = np.mean([embedder.embed_query(text) for text in texts], axis=0)
        mean /= np.linalg.norm(mean)
        found = KBRetriever(animals, 3, search_type="vector").retrieve(QueryBundle("x", custom_embedding_strs=texts))
        for node in found:
            assert node.score == pytest.approx(float(mean @ embedder.embed_documents([node.text])[0]), abs=1e-5)
        assert self.sources(found[:2]) in (["dog", "bank"], ["bank", "dog"])

    @pytest.mark.parametrize("texts", [None, [], ["a puppy"]])
    def test_no_strings_or_the_query_itself_are_a_plain_search(self, animals: LocalKB, texts: Any) -> None:
        retriever = KBRetriever(animals)
        found = retriever.retrieve(QueryBundle("a puppy", custom_embedding_strs=texts))
        assert found == retriever.retrieve("a puppy")

    def test_a_vector_that_another_retriever_left_is_ignored(self, animals: LocalKB) -> None:
        retriever = KBRetriever(animals)
        bundle = QueryBundle("a puppy", embedding=[0.5] * 8)
        assert retriever.retrieve(bundle) == retriever.retrieve("a puppy")
        assert bundle.embedding == [0.5] * 8

    async def test_a_vector_is_used_when_asked_to(self, animals: LocalKB) -> None:
        retriever = KBRetriever(animals, 1, search_type="vector", use_query_embedding=True)
        vector = StaticEmbedder().embed_query("money and finance").tolist()
        for query in ("a puppy", ""):
            bundle = QueryBundle(query, embedding=vector, custom_embedding_strs=["a cake"])
            assert self.sources(retriever.retrieve(bundle)) == ["bank"]
            assert self.sources(await retriever.aretrieve(bundle)) == ["bank"]
        assert self.sources(retriever.retrieve("a puppy")) == ["dog"]

    def test_a_vector_of_another_model_is_an_error_when_asked_to_use_it(self, animals: LocalKB) -> None:
        retriever = KBRetriever(animals, use_query_embedding=True)
        with pytest.raises(ValueError, match="256"):
            retriever.retrieve(QueryBundle("a puppy", embedding=[0.5] * 8))


class SlowEmbedder(HashingEmbedder):
    """Blocks its thread at each query, as a model or a service does."""

    def embed_query(self, text: str) -> Any:
        time.sleep(0.1)
        return super().embed_query(text)


class TestAsync:
    async def test_a_slow_embedder_does_not_stop_the_event_loop(self) -> None:
        with LocalKB("slow", persist=False, embedder=SlowEmbedder()) as kb:
            kb.add_text("Returns are accepted within 30 days.", source="returns.md")
            search = asyncio.ensure_future(KBRetriever(kb).aretrieve(QUERY))
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
        together = await asyncio.gather(*(retriever.aretrieve(query) for query in queries))
        assert [scored(found) for found in together] == alone

    def test_any_thread_and_any_event_loop_may_search(self, retriever: KBRetriever) -> None:
        expected = retriever.retrieve(QUERY)
        with ThreadPoolExecutor(8) as pool:
            assert all(found == expected for found in pool.map(retriever.retrieve, [QUERY] * 32))
            in_loops = pool.map(lambda query: asyncio.run(retriever.aretrieve(query)), [QUERY] * 8)
            assert all(found == expected for found in in_loops)

    async def test_sync_search_works_inside_a_running_loop(self, retriever: KBRetriever) -> None:
        assert len(retriever.retrieve(QUERY)) == 5


class Events(BaseEventHandler):
    seen: list[Any] = []  # noqa: RUF012  # a pydantic field, copied for each object

    def handle(self, event: Any, **_kwargs: Any) -> None:
        self.seen.append(event)


class TestLlamaIndexContract:
    def test_it_is_a_retriever(self, retriever: KBRetriever) -> None:
        assert isinstance(retriever, BaseRetriever)

    def test_events_tell_the_query_and_the_nodes_once(self, retriever: KBRetriever) -> None:
        events = Events()
        dispatcher = get_dispatcher()
        dispatcher.add_event_handler(events)
        try:
            found = retriever.retrieve(QUERY)
        finally:
            dispatcher.event_handlers.remove(events)
        start, end = (event for event in events.seen if isinstance(event, RetrievalStartEvent | RetrievalEndEvent))
        assert (start.str_or_query_bundle, end.nodes) == (QUERY, found)
        json.dumps(end.model_dump(mode="json"), allow_nan=False)

    def test_the_callback_manager_sees_the_retrieval(self, kb: LocalKB) -> None:
        handler = LlamaDebugHandler(print_trace_on_end=False)
        KBRetriever(kb, callback_manager=CallbackManager([handler])).retrieve(QUERY)
        assert len(handler.get_event_pairs(CBEventType.RETRIEVE)) == 1
