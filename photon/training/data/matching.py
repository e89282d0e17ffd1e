"""From a source's own label ("coffee mug", "friedshrimp") to the taught name that it shows, or none."""

from __future__ import annotations

import re
from functools import cache

from photon.training.data.names import taught_names

_NOT_THE_LAST_WORD = {"dog house", "football table", "car model", "doll house", "toy train", "rocking horse"}


@cache
def _table() -> dict[str, str]:
    table: dict[str, str] = {}
    for taught in taught_names():
        for word in taught.material:
            table.setdefault(_squash(word), taught.name)
    return table


def match_label(label: str, last_words: bool = False) -> str | None:
    """The taught name of a whole label; with `last_words` also of its end ("wooden teak table" is a table)."""
    words = re.sub(r"\s\d+$", "", label.lower()).split()
    if label in _NOT_THE_LAST_WORD:
        return None
    for start in range(len(words) if last_words else 1):
        name = _table().get(_squash(" ".join(words[start:])))
        if name:
            return name
    return None


def match_words(words: list[str]) -> str | None:
    """The taught name that the first two words, or else the first one, spell."""
    return _table().get("".join(words[:2])) or _table().get("".join(words[:1])) if words else None


def _squash(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
