"""A hit as a LlamaIndex node: the model reads its score, everything that compares or embeds does not."""

from collections.abc import Collection
from typing import Any

from llama_index.core.base.llms.types import TextBlock
from llama_index.core.schema import (
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    ObjectType,
    RelatedNodeInfo,
    RelatedNodeType,
    TextNode,
)
from pydantic import Field

from kb_core.documents import SearchResult
from kb_core.formatting import score_prefix
from kb_core.metadata import json_safe_metadata
from kb_core.protocols import Neighbours

_READ_BY_THE_MODEL = (MetadataMode.LLM, MetadataMode.ALL)


class KBNode(TextNode):
    """A chunk that a search found.

    `get_content()` is what a model reads: `[Score: 0.700] text`, with the metadata that was asked for below. `text`,
    `get_text()`, the hash, and the content for embedding or without metadata (`MetadataMode.EMBED`, `NONE`) hold no
    score, so that one chunk found by two searches is one node to whatever fuses, reranks or splits.

    Fusing and reranking change `NodeWithScore.score`; the score that the model reads stays the knowledge base's.

    Attributes:
        result: The hit as the knowledge base gave it, with `score_type` and the raw scores; not serialised.
        is_scored: Whether the content for a model begins with the score; not serialised.
    """

    # Fields, not private attributes, which LlamaIndex loses on unpickling. Left out of dumps, so that what is restored
    # as a plain TextNode, or made of a dump as the citation nodes are, is the chunk and nothing of the search.
    result: SearchResult | None = Field(default=None, exclude=True, repr=False)
    is_scored: bool = Field(default=False, exclude=True, repr=False)

    def get_content(self, metadata_mode: MetadataMode = MetadataMode.LLM) -> str:
        """Give the text with what belongs to it in this mode; plainly called, as a model reads it."""
        if metadata_mode not in _READ_BY_THE_MODEL:
            return super().get_content(metadata_mode)
        content = self._prefix + self.text
        metadata = self.get_metadata_str(mode=metadata_mode).strip()
        return self.text_template.format(content=content, metadata_str=metadata).strip() if metadata else content

    def get_content_blocks(self, metadata_mode: MetadataMode = MetadataMode.LLM) -> list[Any]:
        """Give the content as one block, for synthesizers that send blocks."""
        return [TextBlock(text=self.get_content(metadata_mode))]

    def set_content(self, value: str) -> None:
        """Replace the text. Postprocessors put back what they read as a model does: its score is taken out again."""
        super().set_content(value.replace(self._prefix, "") if self._prefix else value)

    @property
    def _prefix(self) -> str:
        return score_prefix(self.result.score) if self.is_scored and self.result is not None else ""


class KBNodeWithScore(NodeWithScore):
    """A `NodeWithScore` whose plain `get_content()` is, like its node's, what a model reads."""

    def get_content(self, metadata_mode: MetadataMode = MetadataMode.LLM) -> str:
        """See `KBNode.get_content`."""
        return super().get_content(metadata_mode)


def node_of(
    result: SearchResult, neighbours: Neighbours | None, *, is_scored: bool, shown: Collection[str]
) -> KBNodeWithScore:
    """Make a hit a node, of fresh objects: LlamaIndex's fusion changes scores in place.

    Args:
        result: The hit.
        neighbours: The ids of the chunks around it, where they are known.
        is_scored: Whether a model reads the score.
        shown: Metadata keys that a model reads.
    """
    chunk = result.chunk
    metadata = json_safe_metadata(chunk.metadata)
    node = KBNode(
        id_=chunk.id,
        text=chunk.content,
        metadata=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=[key for key in metadata if key not in shown],
        # What `kb_core.formatting.format_result` writes, in LlamaIndex's terms. The misspelt name is the field's own in
        # 0.13, and its alias since.
        text_template="{content}\n({metadata_str})",
        metadata_template="{key}: {value}",
        metadata_seperator=", ",
        start_char_idx=chunk.start_char,
        end_char_idx=chunk.end_char,
        relationships=_relationships(chunk.document_id, neighbours),
        result=result,
        is_scored=is_scored,
    )
    return KBNodeWithScore(node=node, score=result.score)


def _relationships(document_id: str, neighbours: Neighbours | None) -> dict[NodeRelationship, RelatedNodeType]:
    related: dict[NodeRelationship, RelatedNodeType] = {
        NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document_id, node_type=ObjectType.DOCUMENT)
    }
    if neighbours is not None and neighbours.previous is not None:
        related[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=neighbours.previous, node_type=ObjectType.TEXT)
    if neighbours is not None and neighbours.next is not None:
        related[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=neighbours.next, node_type=ObjectType.TEXT)
    return related
