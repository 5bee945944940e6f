"""KBNode: what a model reads of a hit, what compares and embeds reads of it, and what a copy keeps."""

import copy
import json
import pickle
from typing import Any

import pytest
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, ObjectType, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore

from kb_core import LocalKB
from kb_core.embedders import HashingEmbedder
from kb_core.formatting import format_result, json_safe_metadata
from kb_llamaindex import KBNode, KBRetriever

QUERY = "how many days do I have to return something for a refund?"
OTHER = "is wear covered, or a gift card?"


@pytest.fixture
def hit(kb: LocalKB) -> NodeWithScore:
    return KBRetriever(kb, 1).retrieve(QUERY)[0]


class TestViews:
    def test_a_model_reads_the_score_and_the_text(self, kb: LocalKB, hit: NodeWithScore) -> None:
        expected = format_result(kb.search(QUERY, 1)[0])
        for node in (hit, hit.node):
            assert node.get_content() == node.get_content(metadata_mode=MetadataMode.LLM) == expected
        assert [block.text for block in hit.node.get_content_blocks(MetadataMode.LLM)] == [expected]

    def test_what_compares_embeds_and_splits_reads_the_text_alone(self, kb: LocalKB, hit: NodeWithScore) -> None:
        text = kb.search(QUERY, 1)[0].chunk.content
        assert hit.text == hit.get_text() == hit.node.text == hit.node.get_text() == text
        for mode in (MetadataMode.EMBED, MetadataMode.NONE):
            assert hit.get_content(metadata_mode=mode) == hit.node.get_content(metadata_mode=mode) == text
            assert [block.text for block in hit.node.get_content_blocks(mode)] == [text]

    def test_metadata_that_is_asked_for_stands_below_as_the_tool_writes_it(self, kb: LocalKB) -> None:
        found = KBRetriever(kb, llm_metadata_keys=["url", "source", "missing"]).retrieve(QUERY)
        expected = kb.as_tool(metadata_keys=("url", "source", "missing")).call(QUERY)
        assert "\n\n".join(node.get_content() for node in found) == expected
        assert [node.get_content(MetadataMode.EMBED) for node in found] == [node.text for node in found]

    def test_all_metadata_stands_below_in_the_mode_for_all(self, hit: NodeWithScore) -> None:
        content = hit.get_content(MetadataMode.ALL)
        assert content.startswith(f"{hit.get_content()}\n(lang: en, page: ")

    def test_a_text_with_indentation_and_braces_is_kept_as_it_is(self) -> None:
        with LocalKB("code", persist=False, embedder=HashingEmbedder()) as kb:
            kb.add_text("    return {metadata_str} + {content}", source="a.py")
            (found,) = KBRetriever(kb, llm_metadata_keys=["source"]).retrieve("return content")
            assert found.get_content() == kb.as_tool(metadata_keys=["source"]).call("return content")
            assert found.text == kb.search("return content")[0].chunk.content

    def test_unscored_nodes_read_raw_everywhere(self, kb: LocalKB) -> None:
        for node in KBRetriever(kb, scored=False).retrieve(QUERY):
            assert node.get_content() == node.get_content(MetadataMode.LLM) == node.text
            assert not node.get_content(MetadataMode.ALL).startswith("[Score")
            assert node.score == node.node.result.score


class TestNode:
    def test_it_holds_the_chunk(self, kb: LocalKB, hit: NodeWithScore) -> None:
        result = kb.search(QUERY, 1)[0]
        chunk = result.chunk
        assert (hit.node_id, hit.text, hit.score) == (chunk.id, chunk.content, result.score)
        assert (hit.node.start_char_idx, hit.node.end_char_idx) == (chunk.start_char, chunk.end_char)
        assert hit.metadata == json_safe_metadata(chunk.metadata)
        assert hit.metadata["since"] == chunk.metadata["since"].isoformat()
        assert hit.node.result == result

    def test_offsets_point_into_the_document(self) -> None:
        text = " ".join(f"Sentence {number} is about tents and poles." for number in range(40))
        with LocalKB("long", persist=False, embedder=HashingEmbedder(), chunk_size=100, chunk_overlap=0) as kb:
            kb.add_text(text, source="tents.txt")
            found = KBRetriever(kb, 3).retrieve("sentence 17 about poles")
        assert [text[node.node.start_char_idx : node.node.end_char_idx] for node in found] == [
            node.text for node in found
        ]

    def test_the_document_is_the_source(self, kb: LocalKB, hit: NodeWithScore) -> None:
        document_id = kb.search(QUERY, 1)[0].chunk.document_id
        assert hit.node.ref_doc_id == document_id
        assert hit.node.relationships[NodeRelationship.SOURCE].node_type == ObjectType.DOCUMENT

    async def test_the_chunks_around_are_previous_and_next(self) -> None:
        text = "\n\n".join(f"Paragraph {number} is about tents." for number in range(5))
        with LocalKB("parts", persist=False, embedder=HashingEmbedder(), chunk_size=40, chunk_overlap=0) as kb:
            kb.add_text(text, source="tents.txt")
            kb.add_text("Another document about tents.", source="other.txt")
            ids = [chunk.id for chunk in kb.chunks(kb.documents(source="tents.txt")[0].id)]
            assert len(ids) == 5
            around = {
                id_: (before, after)
                for before, id_, after in zip([None, *ids[:-1]], ids, [*ids[1:], None], strict=True)
            }
            retriever = KBRetriever(kb, 6)
            for found in (retriever.retrieve("tents"), await retriever.aretrieve("tents")):
                assert len(found) == 6
                for node in found:
                    before, after = node.node.prev_node, node.node.next_node
                    related = (before and before.node_id, after and after.node_id)
                    assert related == around.get(node.node_id, (None, None))

    async def test_a_knowledge_base_without_neighbours_gives_the_document_alone(self, kb: LocalKB) -> None:
        class Plain:
            """Nothing but what every knowledge base has, as one over HTTP."""

            name, description = kb.name, kb.description
            search, asearch = staticmethod(kb.search), staticmethod(kb.asearch)
            as_tool, status, close = kb.as_tool, kb.status, kb.close

        plain: Any = Plain()
        retriever = KBRetriever(plain)
        for found in (retriever.retrieve(QUERY), await retriever.aretrieve(QUERY)):
            assert [node.get_content() for node in found] == [
                node.get_content() for node in KBRetriever(kb).retrieve(QUERY)
            ]
            assert {*found[0].node.relationships} == {NodeRelationship.SOURCE}

    def test_each_call_gives_fresh_objects(self, kb: LocalKB) -> None:
        retriever = KBRetriever(kb)
        first = retriever.retrieve(QUERY)
        before = [node.model_dump() for node in first]
        for node in first:
            node.score = 0.0
            node.metadata.pop("source")
            node.node.excluded_llm_metadata_keys.clear()
        assert [node.model_dump() for node in retriever.retrieve(QUERY)] == before

    def test_a_chunk_has_one_hash_whatever_found_it(self, kb: LocalKB) -> None:
        by_score = {node.node_id: node for node in KBRetriever(kb, 6, search_type="vector").retrieve(QUERY)}
        for other in KBRetriever(kb, 6, scored=False, llm_metadata_keys=["url"]).retrieve(OTHER):
            one = by_score.pop(other.node_id)
            assert one.score != other.score
            assert one.node.hash == other.node.hash
            assert one.node.hash == TextNode(text=one.text, metadata=one.metadata).hash
        assert by_score == {}


class TestCopies:
    def test_copies_and_pickles_keep_what_a_model_reads(self, hit: NodeWithScore) -> None:
        for kept in (
            copy.deepcopy(hit),
            hit.model_copy(deep=True),
            pickle.loads(pickle.dumps(hit)),  # noqa: S301  # our own bytes
        ):
            assert kept == hit
            assert kept.get_content() == hit.get_content()
            assert kept.node.hash == hit.node.hash

    def test_a_dump_is_json_and_a_plain_text_node_without_score(self, hit: NodeWithScore) -> None:
        dumped = json.loads(json.dumps(hit.node.to_dict(), allow_nan=False))
        assert dumped["class_name"] == "TextNode"
        restored = TextNode.from_dict(dumped)
        assert (restored.text, restored.hash, restored.node_id) == (hit.text, hit.node.hash, hit.node_id)
        assert restored.ref_doc_id == hit.node.ref_doc_id
        assert "Score" not in json.dumps(dumped)

    def test_a_document_store_takes_nodes_and_gives_them_back(self, hit: NodeWithScore) -> None:
        store = SimpleDocumentStore()
        store.add_documents([hit.node])
        assert SimpleDocumentStore.from_dict(store.to_dict()).get_node(hit.node_id).text == hit.text

    def test_what_a_model_read_can_be_put_back_without_its_score_doubling(self, hit: NodeWithScore) -> None:
        shown = hit.get_content()
        hit.node.set_content(f"{shown} … {shown}")
        assert hit.text == f"{hit.node.result.chunk.content} … {hit.node.result.chunk.content}"
        hit.node.set_content("Rewritten.")
        assert (hit.text, hit.get_content()) == ("Rewritten.", f"{shown.partition('] ')[0]}] Rewritten.")

    def test_a_node_of_the_users_own_making_is_a_plain_text_node(self) -> None:
        node = KBNode(text="A tent.")
        assert node.get_content() == node.get_content(MetadataMode.NONE) == "A tent."
        node.set_content("[Score: 0.700] A tent.")
        assert node.text == "[Score: 0.700] A tent."
