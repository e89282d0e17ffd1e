"""Token ids as text, piece by piece, never with half a character."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

REPLACEMENT = "\ufffd"
"""What decoding makes of bytes that are no character, or not one yet."""
_LONGEST_TAIL = 4
"""An unfinished character is at most three bytes, so at most three ids; one more than that suffices to decode it."""


class Detokenizer:
    """The text of one sequence. Concatenated, its pieces are what decoding all ids at once gives.

    A byte-level tokenizer may split a character over several ids. While the text of the ids at hand ends in U+FFFD, its
    last character is held back; all else is given out and forgotten, so that an id costs the same wherever it stands.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        dropped: Collection[int] = (),
        whole: dict[int, str] | None = None,
    ) -> None:
        """`dropped` ids have no text. `whole` remembers ids that are text by themselves; sequences may share it."""
        self._decode = decode
        self._dropped = frozenset(dropped)
        self._whole = {} if whole is None else whole
        self._window: list[int] = []  # the ids whose text is not all given out
        self._given = 0  # characters of the window's text that are

    def add(self, token_id: int) -> str:
        """The characters that this id completes; often one word, possibly none."""
        if token_id in self._dropped:
            return ""
        if not self._window:
            text = self._whole.get(token_id)
            if text is not None:
                return text
        self._window.append(token_id)
        text = self._decode(self._window)
        if not text.endswith(REPLACEMENT):
            piece = text[self._given :]
            if len(self._window) == 1:
                self._whole[token_id] = text
            self._forget()
            return piece
        piece = text[self._given : -1]
        if len(self._window) > _LONGEST_TAIL:
            del self._window[0]
            text = self._decode(self._window)
        self._given = len(text) - 1
        return piece

    def flush(self) -> str:
        """What was held back, now that no further id comes."""
        piece = self._decode(self._window)[self._given :] if self._window else ""
        self._forget()
        return piece

    def _forget(self) -> None:
        self._window.clear()
        self._given = 0
