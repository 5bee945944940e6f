"""KBRetriever and kb_tool inside what people build of them, offline with LangChain's fake chat models."""

import json
import warnings
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import BaseTool

from kb_core import LocalKB
from kb_langchain import KBRetriever, kb_tool

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # other packages' announcements while they are imported
    from langchain.agents import create_agent
    from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
    from langchain_classic.chains.combine_documents import create_stuff_documents_chain
    from langchain_classic.retrievers import (
        ContextualCompressionRetriever,
        EnsembleRetriever,
        MergerRetriever,
        MultiQueryRetriever,
    )
    from langchain_classic.retrievers.document_compressors import CrossEncoderReranker, LLMChainExtractor
    from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder
    from langgraph.checkpoint.memory import InMemorySaver

QUERY = "how many days do I have to return something for a refund?"


def ids(documents: Sequence[Document]) -> list[str | None]:
    return [document.id for document in documents]


class TestEnsembleRetriever:
    async def test_raw_contents_from_two_searches_are_fused_to_one_document_each(self, kb: LocalKB) -> None:
        ensemble = EnsembleRetriever(
            retrievers=[
                KBRetriever(kb=kb, search_type="vector", scored_content=False),
                KBRetriever(kb=kb, search_type="keyword", scored_content=False),
            ],
            weights=[0.5, 0.5],
        )
        found = ensemble.invoke(QUERY)
        assert sorted(ids(found)) == sorted(set(ids(found)))
        assert ids(await ensemble.ainvoke(QUERY)) == ids(found)

    def test_scored_contents_are_fused_by_chunk_id(self, kb: LocalKB) -> None:
        searches = [KBRetriever(kb=kb, search_type=kind) for kind in ("vector", "keyword")]
        by_id = EnsembleRetriever(retrievers=searches, id_key="chunk_id").invoke(QUERY)
        assert sorted(ids(by_id)) == sorted(set(ids(by_id)))
        # Why the docstring says so: by content, one chunk with two scores counts as two.
        by_content = EnsembleRetriever(retrievers=searches).invoke(QUERY)
        assert len(by_content) > len(by_id)


class TestMultiQueryRetriever:
    @staticmethod
    def ask(retriever: KBRetriever) -> list[Document]:
        questions = FakeListChatModel(responses=["return within 30 days\nrefund to the card\nwarranty for wear"])
        return MultiQueryRetriever.from_llm(retriever, questions).invoke(QUERY)

    def test_a_chunk_found_by_several_questions_is_one_document(self, kb: LocalKB) -> None:
        found = self.ask(KBRetriever(kb=kb, scored_content=False, score_key=None))
        assert len(found) == len(set(ids(found))) >= 5

    def test_with_scores_it_is_several_as_the_docstring_warns(self, kb: LocalKB) -> None:
        found = self.ask(KBRetriever(kb=kb, scored_content=False))
        assert len(found) > len(set(ids(found)))


class Overlap(BaseCrossEncoder):
    """Scores a text by the share of its words that the query has: a text of other words than its own scores lower."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        return [self._share(set(query.split()), text.split()) for query, text in text_pairs]

    @staticmethod
    def _share(query: set[str], words: list[str]) -> float:
        return sum(word in query for word in words) / len(words)


class TestContextualCompression:
    async def test_a_reranker_reads_raw_text_and_keeps_metadata(self, kb: LocalKB) -> None:
        query = "A gift card is valid for three years and cannot be returned for a refund."
        base = KBRetriever(kb=kb, top_k=6, scored_content=False)
        encoder = Overlap()
        compression = ContextualCompressionRetriever(
            base_compressor=CrossEncoderReranker(model=encoder, top_n=2), base_retriever=base
        )
        found = compression.invoke(query)
        assert len(found) == 2
        assert found[0].metadata["source"] == "gift-cards.md"
        assert encoder.score([(query, found[0].page_content)]) == [1.0]
        assert all(hit in base.invoke(query) for hit in found)
        assert ids(await compression.ainvoke(query)) == ids(found)

    def test_an_extractor_rewrites_contents_and_keeps_metadata(self, kb: LocalKB) -> None:
        extractor = LLMChainExtractor.from_llm(FakeListChatModel(responses=["within 30 days", "NO_OUTPUT"]))
        compression = ContextualCompressionRetriever(
            base_compressor=extractor, base_retriever=KBRetriever(kb=kb, top_k=2)
        )
        (found,) = compression.invoke(QUERY)
        assert (found.page_content, found.metadata["source"]) == (
            "within 30 days",
            kb.search(QUERY, 1)[0].chunk.metadata["source"],
        )


def test_merger_retriever_takes_turns_between_knowledge_bases(kb: LocalKB) -> None:
    halves = [KBRetriever(kb=kb, where={"lang": lang}, top_k=2) for lang in ("de", "en")]
    assert [hit.metadata["lang"] for hit in MergerRetriever(retrievers=halves).invoke(QUERY)] == ["de", "en", "en"]


class Seen(FakeListChatModel):
    """Answers from a list, and remembers the prompts."""

    prompts: list[str] = []  # noqa: RUF012  # a pydantic field, copied for each object

    def _call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        self.prompts.append("\n".join(str(message.content) for message in messages))
        return super()._call(messages, *args, **kwargs)


class TestRetrievalChain:
    @pytest.fixture
    def model(self) -> Seen:
        return Seen(responses=["30 days."])

    async def test_the_model_reads_what_the_tool_would_say(self, kb: LocalKB, model: Seen) -> None:
        prompt = ChatPromptTemplate.from_template("Context:\n{context}\n\nQuestion: {input}")
        chain = create_retrieval_chain(KBRetriever(kb=kb, top_k=3), create_stuff_documents_chain(model, prompt))
        for answer in (chain.invoke({"input": QUERY}), await chain.ainvoke({"input": QUERY})):
            assert answer["answer"] == "30 days."
            assert ids(answer["context"]) == [hit.chunk.id for hit in kb.search(QUERY, 3)]
        assert model.prompts == [f"Context:\n{kb.as_tool().call(QUERY, 3)}\n\nQuestion: {QUERY}"] * 2

    def test_the_number_of_documents_can_be_configured_through_the_chain(self, kb: LocalKB, model: Seen) -> None:
        retriever = KBRetriever(kb=kb).configurable_fields(top_k=ConfigurableField(id="top_k"))
        # What create_retrieval_chain does by itself for a plain retriever only.
        retriever = itemgetter("input") | retriever
        prompt = ChatPromptTemplate.from_template("{context} {input}")
        chain = create_retrieval_chain(retriever, create_stuff_documents_chain(model, prompt))
        assert len(chain.invoke({"input": QUERY}, config={"configurable": {"top_k": 1}})["context"]) == 1

    def test_a_history_aware_retriever_searches_for_the_rewritten_question(self, kb: LocalKB) -> None:
        rewriting = FakeListChatModel(responses=["Is wear covered by the warranty?"])
        prompt = ChatPromptTemplate.from_messages([("placeholder", "{chat_history}"), ("human", "{input}")])
        retriever = create_history_aware_retriever(rewriting, KBRetriever(kb=kb, top_k=1), prompt)
        found = retriever.invoke({"input": "and wear?", "chat_history": [HumanMessage("What of the warranty?")]})
        assert found[0].metadata["source"] == "warranty.md"


class ToolCallingModel(GenericFakeChatModel):
    """LangChain's fake model, which lets tools be bound to it."""

    def bind_tools(self, tools: Sequence[Any], **_kwargs: Any) -> "ToolCallingModel":
        assert all(isinstance(tool, BaseTool) for tool in tools)
        return self


def wants(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "call-1", "type": "tool_call"}])


def agent_of(tool: BaseTool, *turns: AIMessage) -> Any:
    return create_agent(ToolCallingModel(messages=iter(turns)), [tool], checkpointer=InMemorySaver())


def question(text: str) -> dict[str, list[AnyMessage]]:
    return {"messages": [HumanMessage(text)]}


class TestAgent:
    config = {"configurable": {"thread_id": "t1", "lang": "de"}}  # noqa: RUF012  # read only

    async def test_an_agent_searches_and_a_checkpoint_keeps_what_was_found(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        for is_async in (False, True):
            agent = agent_of(tool, wants(tool.name, query=QUERY, top_k=2), AIMessage("30 days."))
            state = (
                await agent.ainvoke(question(QUERY), self.config)
                if is_async
                else agent.invoke(question(QUERY), self.config)
            )
            _, _, found, answer = state["messages"]
            assert isinstance(found, ToolMessage)
            assert (found.content, found.status) == (kb.as_tool().call(QUERY, 2), "success")
            assert answer.content == "30 days."
            kept = agent.get_state(self.config).values["messages"][2]
            assert kept == found
            assert [hit["source"] for hit in kept.artifact] == [
                hit.chunk.metadata["source"] for hit in kb.search(QUERY, 2)
            ]
            json.dumps(kept.artifact, allow_nan=False)

    def test_the_filter_comes_from_the_config_of_the_run(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, where=lambda config: {"lang": config["configurable"]["lang"]})
        agent = agent_of(tool, wants(tool.name, query=QUERY), AIMessage("30 Tage."))
        found = agent.invoke(question(QUERY), self.config)["messages"][2]
        assert [hit["source"] for hit in found.artifact] == ["ruecknahme.md"]

    async def test_an_expected_error_does_not_end_the_run(self, failing_kb: LocalKB) -> None:
        tool = kb_tool(failing_kb)
        for is_async in (False, True):
            agent = agent_of(tool, wants(tool.name, query=QUERY), AIMessage("I can't search now."))
            state = (
                await agent.ainvoke(question(QUERY), self.config)
                if is_async
                else agent.invoke(question(QUERY), self.config)
            )
            assert state["messages"][2].status == "error"
            assert state["messages"][3].content == "I can't search now."

    def test_wrong_arguments_do_not_end_the_run(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        agent = agent_of(
            tool, wants(tool.name, top_k="many"), wants(tool.name, query=QUERY, top_k=1), AIMessage("30 days.")
        )
        messages = agent.invoke(question(QUERY), self.config)["messages"]
        assert (messages[2].status, messages[4].status) == ("error", "success")
        assert messages[2].content == f"{tool.name} needs a query: a string"
