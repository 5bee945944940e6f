"""Which rows of each segment a selection means, worked out once."""

import threading
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from kb_core.protocols import Selection
from kb_core.stores.faiss.ids import digests, encode
from kb_core.stores.faiss.rows import RowSet
from kb_core.stores.faiss.segment import Segment


class SelectionCache:
    """Row sets by selection and segment, both by identity: neither ever changes. Forgotten with either of them."""

    def __init__(self) -> None:
        self._sets: WeakKeyDictionary[Selection, WeakKeyDictionary[Segment, RowSet]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def row_sets(self, selection: Selection, segments: Sequence[Segment]) -> list[RowSet]:
        """Give the rows of each segment whose ids are selected. O(ids log n) the first time, then a look-up."""
        with self._lock:
            known = self._sets.setdefault(selection, WeakKeyDictionary())
            found = {segment: known[segment] for segment in segments if segment in known}
        missing = [segment for segment in segments if segment not in found]
        if missing:
            keys = digests(map(encode, selection.ids))
            found |= {segment: RowSet.of(segment.ids.find(keys), len(segment)) for segment in missing}
            with self._lock:
                known.update(found)
        return [found[segment] for segment in segments]
