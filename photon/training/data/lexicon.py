"""The known names: those taught by scenes, and all further nouns of ImageNet's thousand classes.

WordNet (Debian's ``wordnet-base``) tells which classes a name stands for: all that lie below its first sense that
has any ("dog" is 118 breeds). The classes in order, and their words, come from lists inside PyPI's ``timm``
(Apache-2.0).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from photon.training.data.names import taught_names


@dataclass
class Lexicon:
    """`names` in token order, the first `taught` of them taught by scenes; `classes[i]` belong to `names[i]`."""

    names: list[str] = field(default_factory=list)
    taught: int = 0
    synonyms: dict[str, str] = field(default_factory=dict)
    classes: list[list[int]] = field(default_factory=list)

    def word_table(self) -> list[list[int]]:
        """All pairs of name index and ImageNet class, as two lists."""
        pairs = [(index, number) for index, numbers in enumerate(self.classes) for number in numbers]
        return [list(column) for column in zip(*pairs, strict=True)]


def build_lexicon(wordnet: Path, timm_info: Path, with_material: set[str]) -> Lexicon:
    """Taught names (those `with_material`), then the first word of every class, unless it is a taught name's word."""
    synsets = (timm_info / "imagenet_synsets.txt").read_text().split()
    lemma_lines = (timm_info / "imagenet_synset_to_lemma.txt").read_text().splitlines()
    lemmas = dict(line.split("\t", 1) for line in lemma_lines)
    net = WordNet(wordnet, {synset: index for index, synset in enumerate(synsets)})
    lexicon = Lexicon()
    for taught in taught_names():
        if taught.name in with_material:
            lexicon.names.append(taught.name)
            lexicon.classes.append(net.classes_of(taught.lemma) if taught.lemma else [])
            lexicon.synonyms |= dict.fromkeys(taught.synonyms, taught.name)
    lexicon.taught = len(lexicon.names)
    for number, synset in enumerate(synsets):
        words = [word.strip().lower() for word in lemmas[synset].split(",")]
        _add_class(lexicon, number, words)
    return lexicon


def _add_class(lexicon: Lexicon, number: int, words: list[str]) -> None:
    name = words[0]
    if name in lexicon.synonyms:
        name = lexicon.synonyms[name]
    elif name not in lexicon.names:
        lexicon.names.append(name)
        lexicon.classes.append([])
    index = lexicon.names.index(name)
    if index >= lexicon.taught:
        lexicon.classes[index].append(number)
    for word in words[1:]:
        if word not in lexicon.names:
            lexicon.synonyms.setdefault(word, name)


class WordNet:
    """The noun hierarchy, read from WordNet 3.0's index.noun and data.noun."""

    def __init__(self, folder: Path, class_of: dict[str, int]) -> None:
        self._senses: dict[str, list[str]] = {}
        for line in (folder / "index.noun").read_text().splitlines():
            if not line.startswith(" "):
                parts = line.split()
                self._senses[parts[0]] = parts[-int(parts[2]) :]
        parents: dict[str, list[str]] = {}
        for line in (folder / "data.noun").read_text().splitlines():
            if not line.startswith(" "):
                parts = line.split("|")[0].split()
                parents[parts[0]] = [b for a, b in itertools.pairwise(parts) if a in ("@", "@i")]
        self._below: dict[str, list[int]] = {}
        for synset, number in class_of.items():
            for ancestor in _closure(synset[1:], parents):
                self._below.setdefault(ancestor, []).append(number)

    def classes_of(self, lemma: str) -> list[int]:
        """The classes below the first sense of `lemma` that has any."""
        for synset in self._senses.get(lemma.replace(" ", "_"), []):
            if synset in self._below:
                return self._below[synset]
        return []


def _closure(synset: str, parents: dict[str, list[str]]) -> set[str]:
    seen, queue = set(), [synset]
    while queue:
        node = queue.pop()
        if node not in seen:
            seen.add(node)
            queue += parents.get(node, [])
    return seen
