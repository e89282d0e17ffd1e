"""The everyday names that photon-tiny is taught, with synonyms and the material each may be drawn from.

One line a name: ``name: synonym, synonym, ~material, =lemma``. A synonym is a word that a user may type; it also
finds material. ``~`` marks a word that finds material only. ``=`` names the WordNet noun through which the name
reaches ImageNet's classes when its own first useful sense would be the wrong thing (``=`` alone: none).
"""

from __future__ import annotations

from dataclasses import dataclass

from photon.training.data import names_nature, names_things

INCLUDES = {
    "person": ("man", "woman", "boy", "girl", "baby"),
    "bird": (
        "chick", "dove", "duck", "eagle", "flamingo", "goose", "hen", "rooster", "owl", "parrot", "peacock", "penguin",
        "swan", "turkey",
    ),
    "bear": ("polar bear", "panda", "teddy bear"),
    "fish": ("shark",),
    "car": ("taxi", "police car", "racing car", "ambulance"),
    "truck": ("fire truck",),
    "motorcycle": ("scooter",),
    "train": ("tram",),
    "boat": ("sailboat", "canoe", "ship"),
    "flower": ("rose", "sunflower", "tulip", "bouquet"),
    "tree": ("palm tree", "christmas tree"),
    "glasses": ("sunglasses",),
    "computer": ("laptop",),
    "phone": ("mobile phone",),
    "clock": ("alarm clock", "watch"),
    "shoe": ("boot", "high heel", "sandal"),
    "hat": ("cap", "crown"),
    "book": ("notebook",),
    "camera": ("video camera",),
    "box": ("gift",),
    "cup": ("coffee",),
    "glass": ("wine glass", "cocktail", "beer", "milk"),
    "melon": ("watermelon",),
    "cabinet": ("wardrobe",),
    "doll": ("teddy bear",),
    "lamp": ("street light", "lantern"),
    "television": ("screen",),
    "screen": ("television", "laptop", "computer"),
    "house": ("castle",),
    "bread": ("bagel", "croissant"),
}  # fmt: skip
"""Asked for a name on the left, things on the right are right answers too."""


@dataclass(frozen=True)
class TaughtName:
    """A name with the synonyms a user may type, words that find its material, and its WordNet lemma."""

    name: str
    synonyms: tuple[str, ...]
    material: tuple[str, ...]
    lemma: str | None


def taught_names() -> tuple[TaughtName, ...]:
    """All taught names in the order of the table; names and synonyms are lower case and unique."""
    return tuple(_parse(line) for line in (names_nature.TABLE + names_things.TABLE).split("\n") if line)


def _parse(line: str) -> TaughtName:
    name, _, rest = line.partition(":")
    words = [word.strip() for word in rest.split(",") if word.strip()]
    synonyms = tuple(word for word in words if word[0] not in "~=")
    material = tuple(word[1:] for word in words if word[0] == "~")
    lemma = next((word[1:] or None for word in words if word[0] == "="), name)
    return TaughtName(name, synonyms, (name, *synonyms, *material), lemma)
