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


_PEOPLE = re.compile(
    r"(wo)?m[ae]n|person|people|worker|teacher|student|face|family|couple|elf|fairy|mage|prince|princess|santa|claus|"
    r"artist|astronaut|cook|farmer|judge|mechanic|pilot|scientist|singer|technologist|detective|guard|ninja|police|"
    r"officer|firefighter|bride|groom|zombie|vampire|genie|mer|super|villain|hero|child|adult|grin|smil|fox|guy|selfie|"
    r"gesturing|hair|beard|blond|bow|fac|beings|male|human|child|cat|monkey|hand|finger|fist|thumb|cook|sport|ing$"
)


def shows_taught(label: str) -> bool:
    """Whether a label without a name of its own may still show a taught thing: people, or a word of a name."""
    words = label.lower().split()
    return bool(_PEOPLE.search(label.lower())) or any(_table().get(_squash(word.rstrip("s"))) for word in words)


def match_words(words: list[str]) -> str | None:
    """The taught name that the first two words, or else the first one, spell."""
    return _table().get("".join(words[:2])) or _table().get("".join(words[:1])) if words else None


def _squash(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
