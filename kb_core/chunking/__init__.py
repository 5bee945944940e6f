"""Cut a text into overlapping passages, by offsets alone: the text is never edited.

With `chunk_size` and `chunk_overlap` in characters (Unicode code points), the spans of one text keep these promises:

1. *Size.* No chunk is longer than `chunk_size`. A text that fits, its outer blanks aside, is one chunk.
2. *Nothing lost.* Every character that is not blank is in some chunk. Chunks start and end on such a character: outer
   blanks are dropped by moving the offsets.
3. *Order.* Starts strictly increase, and so do ends: no chunk lies within another.
4. *Overlap.* Neighbours share at least one and at most `chunk_overlap` characters, none where `chunk_overlap` is 0. The
   second chunk starts with the last words of the first, then come the blanks that stood between, then text that is
   new: one slice of the source. One exception: where more than `chunk_size - 2` blanks stand between, no
   chunk can hold a character of each side, and nothing is shared.
5. *Where a share starts.* At a word where the overlap has room for one, else between two graphemes, else between two
   code points. Of several places it is the first at which the share and the blanks behind it take no more than
   `chunk_overlap`; a later one where that lets the next chunk hold the whole paragraph (section, line, sentence, word)
   that its new text starts with.
6. *Where a chunk ends.* At the last seam within reach of the highest kind: before a Markdown heading, paragraph, line,
   sentence, word, grapheme. A seam that leaves the chunk less than half full is passed over for a lower kind, unless
   what follows it fits into a chunk and would be cut in two. A grapheme is cut only where a whole one finds no room
   behind the share.
7. *Markdown.* A fenced code block that fits into `chunk_size` is whole in one chunk, nothing within it is a heading,
   and a heading is not parted from the text below it where there is another place to cut.
"""

from kb_core.chunking.chunker import Chunker
from kb_core.chunking.spans import Span

__all__ = ["Chunker", "Span"]
