"""Text as token ids and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tokenizers

from photon.errors import ModelLoadError
from photon.models.files import refuse_pointer


class Tokenizer:
    """A tokenizer.json of the `tokenizers` library; adds no BOS and no other special id."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Raises ModelLoadError naming the file when it is missing or damaged."""
        if not path.is_file():
            raise ModelLoadError(f"There is no tokenizer file {path}.")
        refuse_pointer(path)
        try:
            return cls(tokenizers.Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises plain Exception
            raise ModelLoadError(f"The tokenizer file {path} cannot be read: {error}.") from error

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that the file declares as special."""
        return frozenset(i for i, token in self._inner.get_added_tokens_decoder().items() if token.special)

    def id_of(self, token: str) -> int | None:
        """The id of a whole token, None if the vocabulary lacks it."""
        found: int | None = self._inner.token_to_id(token)
        return found

    def encode(self, text: str) -> list[int]:
        return list(self._inner.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Special ids are spelled out, not dropped."""
        return str(self._inner.decode(list(ids), skip_special_tokens=False))
