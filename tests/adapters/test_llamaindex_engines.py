"""KBRetriever inside what people build of them: LlamaIndex's own mock models, no key, no socket."""

import inspect
import socket
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms import CompletionResponse, MockLLM
from llama_index.core.postprocessor import (
    LLMRerank,
    LongContextReorder,
    MetadataReplacementPostProcessor,
    PrevNextNodePostprocessor,
    SentenceEmbeddingOptimizer,
    SimilarityPostprocessor,
)
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine, TransformQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever, RouterRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import RetrieverTool

from kb_core import LocalKB
from kb_core.embedders import HashingEmbedder, StaticEmbedder
from kb_core.formatting import format_result
from kb_llamaindex import KBRetriever

QUERY = "how many days do I have to return something for a refund?"


@pytest.fixture(autouse=True)
def _offline(offline: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # The synthesizers that call no model ask for the default one all the same, which would be OpenAI's.
    monkeypatch.setattr(Settings, "_llm", MockLLM())


def test_the_guard_stops_a_connection() -> None:
    with pytest.raises(AssertionError, match="a socket was opened"):
        socket.create_connection(("127.0.0.1", 9))


class Answering(MockLLM):
    """LlamaIndex's mock model, with an answer of its own."""

    answer: str = ""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer

    def complete(self, *_: Any, **__: Any) -> CompletionResponse:
        return CompletionResponse(text=self.answer)


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.node_id for node in nodes]


def expected(kb: LocalKB, top_k: int = 5, **options: Any) -> list[str]:
    return [hit.chunk.id for hit in kb.search(QUERY, top_k, **options)]


READING = [mode for mode in ResponseMode if mode not in {ResponseMode.GENERATION, ResponseMode.NO_TEXT}]


class TestQueryEngine:
    @pytest.mark.parametrize("mode", READING)
    async def test_in_every_mode_that_reads_passages_the_model_reads_their_scores(
        self, kb: LocalKB, mode: ResponseMode
    ) -> None:
        engine = RetrieverQueryEngine.from_args(KBRetriever(kb, 3), llm=MockLLM(), response_mode=mode)
        for response in (engine.query(QUERY), await engine.aquery(QUERY)):
            assert ids(response.source_nodes) == expected(kb, 3)
            for hit in kb.search(QUERY, 3):  # the mock model answers with its prompt
                assert format_result(hit) in str(response)

    @pytest.mark.parametrize("mode", [ResponseMode.GENERATION, ResponseMode.NO_TEXT])
    async def test_the_modes_that_read_no_passage_run_too(self, kb: LocalKB, mode: ResponseMode) -> None:
        engine = RetrieverQueryEngine.from_args(KBRetriever(kb, 3), llm=MockLLM(), response_mode=mode)
        for response in (engine.query(QUERY), await engine.aquery(QUERY)):
            assert ids(response.source_nodes) == expected(kb, 3)
            assert "[Score" not in str(response)

    def test_passages_are_the_tools_text_in_the_prompt(self, kb: LocalKB) -> None:
        engine = RetrieverQueryEngine.from_args(KBRetriever(kb, 3), llm=MockLLM())
        assert kb.as_tool().call(QUERY, 3) in str(engine.query(QUERY))

    def test_a_stream_ends_with_the_same_text(self, kb: LocalKB) -> None:
        retriever = KBRetriever(kb, 2)
        streamed = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), streaming=True).query(QUERY)
        plain = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query(QUERY)
        assert "".join(streamed.response_gen) == str(plain)

    @pytest.mark.skipif(
        "multimodal" not in inspect.signature(get_response_synthesizer).parameters,
        reason="this llama-index-core has no multimodal synthesizers",
    )
    def test_a_multimodal_synthesizer_reads_scores_too(self, kb: LocalKB) -> None:
        synthesizer = get_response_synthesizer(llm=MockLLM(is_chat_model=True), multimodal=True)
        response = RetrieverQueryEngine(KBRetriever(kb, 2), response_synthesizer=synthesizer).query(QUERY)
        for hit in kb.search(QUERY, 2):
            assert format_result(hit) in str(response)

    def test_nothing_found_is_an_answer_without_sources(self) -> None:
        with LocalKB("empty", persist=False, embedder=HashingEmbedder()) as kb:
            response = RetrieverQueryEngine.from_args(KBRetriever(kb), llm=MockLLM()).query(QUERY)
        assert response.source_nodes == []


class TestCitations:
    async def test_sources_are_numbered_and_hold_the_text_alone(self, kb: LocalKB) -> None:
        engine = CitationQueryEngine(KBRetriever(kb, 3), llm=MockLLM())
        for response in (engine.query(QUERY), await engine.aquery(QUERY)):
            hits = kb.search(QUERY, 3)
            assert [node.node.get_content() for node in response.source_nodes] == [
                f"Source {number}:\n{hit.chunk.content}\n" for number, hit in enumerate(hits, start=1)
            ]
            assert [node.score for node in response.source_nodes] == [hit.score for hit in hits]
            assert [node.node.ref_doc_id for node in response.source_nodes] == [hit.chunk.document_id for hit in hits]
            assert f"Source 3:\n{hits[2].chunk.content}" in str(response)


class TestFusion:
    @pytest.mark.parametrize("mode", FUSION_MODES)
    async def test_a_chunk_that_two_searches_find_is_one_node(self, kb: LocalKB, mode: FUSION_MODES) -> None:
        def fusion(*, use_async: bool) -> QueryFusionRetriever:
            return QueryFusionRetriever(
                [KBRetriever(kb, 4, search_type="vector"), KBRetriever(kb, 4, search_type="keyword")],
                llm=MockLLM(),
                mode=mode,
                num_queries=1,
                similarity_top_k=10,
                use_async=use_async,
            )

        union = {*expected(kb, 4, search_type="vector"), *expected(kb, 4, search_type="keyword")}
        found = fusion(use_async=False).retrieve(QUERY)
        assert len(union) < 8
        assert sorted(ids(found)) == sorted(union)
        assert [node.score for node in found] == sorted((node.score for node in found), reverse=True)
        assert await fusion(use_async=True).aretrieve(QUERY) == found
        assert all(node.get_content().startswith("[Score: ") for node in found)

    def test_reciprocal_ranks_are_summed_for_one_chunk(self, kb: LocalKB) -> None:
        searches = [KBRetriever(kb, 3, search_type=kind) for kind in ("vector", "keyword")]
        fusion = QueryFusionRetriever(
            searches, llm=MockLLM(), mode=FUSION_MODES.RECIPROCAL_RANK, num_queries=1, similarity_top_k=10
        )
        by_hand: dict[str, float] = {}
        for search in searches:
            for rank, node_id in enumerate(ids(search.retrieve(QUERY))):
                by_hand[node_id] = by_hand.get(node_id, 0) + 1 / (60 + rank)
        # Of one query, LlamaIndex keeps the results of each retriever apart.
        assert {node.node_id: node.score for node in fusion.retrieve(QUERY)} == pytest.approx(by_hand)

    def test_generated_queries_are_searched_too(self, kb: LocalKB) -> None:
        fusion = QueryFusionRetriever([KBRetriever(kb, 6)], llm=MockLLM(), num_queries=4, similarity_top_k=10)
        assert len(set(ids(fusion.retrieve(QUERY)))) == 6

    def test_the_vector_of_an_index_beside_it_does_not_disturb_it(self, kb: LocalKB) -> None:
        index = VectorStoreIndex([TextNode(text="Elsewhere.")], embed_model=MockEmbedding(embed_dim=8))
        bundle = QueryBundle(QUERY)
        fusion = QueryFusionRetriever(
            [index.as_retriever(), KBRetriever(kb)], llm=MockLLM(), num_queries=1, similarity_top_k=10, use_async=False
        )
        found = fusion.retrieve(bundle)
        assert bundle.embedding == [0.5] * 8  # left by the index's retriever, before ours was asked
        assert {*ids(found)} > {*expected(kb)}


@pytest.mark.parametrize(("choice", "lang"), [(1, "en"), (2, "de")])
async def test_a_router_searches_where_the_selector_says(kb: LocalKB, choice: int, lang: str) -> None:
    selector = LLMSingleSelector.from_defaults(llm=Answering(f'[{{"choice": {choice}, "reason": "language"}}]'))
    tools = [
        RetrieverTool.from_defaults(KBRetriever(kb, where={"lang": code}), description=f"Policies in {code}.")
        for code in ("en", "de")
    ]
    router = RouterRetriever(selector, tools, llm=MockLLM())
    for found in (router.retrieve(QUERY), await router.aretrieve(QUERY)):
        assert ids(found) == expected(kb, where={"lang": lang})


def test_hyde_searches_for_the_hypothetical_document_by_vector() -> None:
    with LocalKB("animals", persist=False, embedder=StaticEmbedder(), search_type="vector") as animals:
        animals.add_text("The dog barked at the postman.", source="dog")
        animals.add_text("Interest rates were raised by the central bank.", source="bank")
        model = Answering("Money and finance: credit, interest, banking.")
        transform = HyDEQueryTransform(llm=model, include_original=False)
        engine = RetrieverQueryEngine.from_args(KBRetriever(animals, 1), llm=MockLLM())
        response = TransformQueryEngine(engine, transform).query("a puppy")
        assert [node.metadata["source"] for node in response.source_nodes] == ["bank"]


class TestPostprocessors:
    def test_similarity_cuts_off_below_a_score(self, kb: LocalKB) -> None:
        found = KBRetriever(kb, search_type="vector").retrieve(QUERY)
        cutoff = (found[1].score + found[2].score) / 2
        kept = SimilarityPostprocessor(similarity_cutoff=cutoff).postprocess_nodes(found)
        assert ids(kept) == expected(kb, search_type="vector")[:2]

    def test_reordering_for_long_contexts_keeps_every_node(self, kb: LocalKB) -> None:
        found = KBRetriever(kb).retrieve(QUERY)
        assert sorted(ids(LongContextReorder().postprocess_nodes(found))) == sorted(expected(kb))

    def test_a_reranker_orders_by_its_own_scores(self, kb: LocalKB) -> None:
        model = Answering("Doc: 3, Relevance: 9\nDoc: 1, Relevance: 2")
        kept = LLMRerank(llm=model, top_n=2).postprocess_nodes(KBRetriever(kb).retrieve(QUERY), query_str=QUERY)
        third, first = expected(kb)[2], expected(kb)[0]
        assert [(node.node_id, node.score) for node in kept] == [(third, 9.0), (first, 2.0)]
        assert kept[0].node.get_content() == format_result(kb.search(QUERY)[2])

    def test_metadata_can_take_the_place_of_the_text(self, kb: LocalKB) -> None:
        found = KBRetriever(kb, 1).retrieve(QUERY)
        shown = found[0].get_content()
        (kept,) = MetadataReplacementPostProcessor(target_metadata_key="missing").postprocess_nodes(found)
        assert kept.get_content() == shown
        (kept,) = MetadataReplacementPostProcessor(target_metadata_key="url").postprocess_nodes([kept])
        assert kept.text == kb.search(QUERY, 1)[0].chunk.metadata["url"]

    def test_an_optimizer_that_rewrites_texts_does_not_double_the_score(self, kb: LocalKB) -> None:
        optimizer = SentenceEmbeddingOptimizer(
            embed_model=MockEmbedding(embed_dim=4), percentile_cutoff=1.0, tokenizer_fn=lambda text: text.split(". ")
        )
        for node in optimizer.postprocess_nodes(KBRetriever(kb).retrieve(QUERY), query_str=QUERY):
            assert "[Score" not in node.text
            assert node.get_content().count("[Score: ") == 1

    def test_the_neighbours_of_a_hit_are_found_in_a_document_store(self) -> None:
        text = "\n\n".join(f"Paragraph {number} is about tents." for number in range(5))
        with LocalKB("parts", persist=False, embedder=HashingEmbedder(), chunk_size=40, chunk_overlap=0) as kb:
            kb.add_text(text, source="tents.txt")
            store = SimpleDocumentStore()
            store.add_documents([node.node for node in KBRetriever(kb, 5).retrieve("tents")])
            found = KBRetriever(kb, 1, search_type="keyword").retrieve("paragraph 2")
            around = PrevNextNodePostprocessor(docstore=store, num_nodes=1, mode="both").postprocess_nodes(found)
        assert [node.text[:11] for node in around] == ["Paragraph 1", "Paragraph 2", "Paragraph 3"]
