"""Feeds the views with what was just stored, so that they need not read it back."""

from collections.abc import Mapping, Sequence

import numpy as np

from kb_core.protocols import DocumentWrite, MetadataStore, Vectors
from kb_core.views import Views


class Feeder:
    """Hands the commits of one `add` to the views.

    In the caller's thread: beside the next documents, which are cut and stored with the GIL held for most of the time,
    it took longer.

    Only a commit of new documents, with all of their embeddings, that no other writer came before, is known in full
    from memory. Any other is left to `Views.catch_up`, which reads it from the truth.

    Args:
        truth: Tells the revision.
        views: What is fed.
    """

    def __init__(self, truth: MetadataStore, views: Views) -> None:
        self._truth = truth
        self._views = views
        self._before: int | None = None

    def note_revision(self, *, is_first: bool) -> None:
        """Note what the truth is at before documents are looked up, where they are the first of a commit."""
        if is_first:
            self._before = self._truth.revision()

    def skip(self) -> None:
        """Leave the next commit to `catch_up`: it changes documents that were there."""
        self._before = None

    def feed(self, revision: int, writes: Sequence[DocumentWrite], embeddings: Mapping[str, Vectors]) -> None:
        """Feed a commit.

        Args:
            revision: The commit's.
            writes: All that it stored.
            embeddings: By text hash; those of all its chunks, or it is skipped.
        """
        before, self._before = self._before, None
        chunks = [chunk for write in writes for chunk in write.chunks]
        vectors = [embeddings.get(digest) for write in writes for digest in write.text_hashes]
        found = [vector for vector in vectors if vector is not None]
        if before is None or before + 1 != revision or len(found) < len(chunks):
            return
        self._before = revision  # nobody else has written since the documents were looked up
        self._views.feed(before, chunks, np.stack(found))
