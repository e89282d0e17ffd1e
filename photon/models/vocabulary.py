"""The closed vocabulary of a small model: from what a person types to a name that the model knows."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path

from photon.errors import InvalidRequestError, ModelLoadError, UnknownWordError
from photon.models.files import refuse_pointer

_ARTICLES = ("a ", "an ", "the ", "some ", "all ", "every ", "each ", "any ")
_IRREGULAR = {
    "people": "person",
    "persons": "person",
    "men": "man",
    "women": "woman",
    "children": "child",
    "mice": "mouse",
    "geese": "goose",
    "teeth": "tooth",
    "feet": "foot",
    "leaves": "leaf",
    "knives": "knife",
    "wolves": "wolf",
    "loaves": "loaf",
    "scarves": "scarf",
    "shelves": "shelf",
    "calves": "calf",
}


class Vocabulary:
    """Known names in the order of their tokens, and the synonyms that lead to them.

    `taught` names are those that training showed in scenes; the others are reached through ImageNet alone.
    """

    def __init__(self, names: list[str], synonyms: dict[str, str], taught: int) -> None:
        self.names = tuple(names)
        self.taught = self.names[:taught]
        self._known = {name: name for name in names}
        self._leads_to = {_plain(word): name for word, name in synonyms.items()}
        self._leads_to |= {_plain(name): name for name in names}

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Reads vocabulary.json: {"names": [...], "taught": count, "synonyms": {word: name}}.

        Raises ModelLoadError naming the file when it is missing, damaged or contradicts itself.
        """
        refuse_pointer(path)
        try:
            data = json.loads(path.read_text("utf-8"))
            names, synonyms, taught = list(data["names"]), dict(data["synonyms"]), int(data["taught"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelLoadError(f"The vocabulary file {path} cannot be read: {error}.") from error
        if stray := set(synonyms.values()) - set(names):
            raise ModelLoadError(f"The vocabulary file {path} has synonyms of unknown names: {sorted(stray)}.")
        return cls(names, synonyms, taught)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, text: str) -> bool:
        return self._find(text) is not None

    def resolve(self, text: str) -> str:
        """The known name that `text` means, whatever its case, article, plural or synonym.

        Raises InvalidRequestError for an empty text, UnknownWordError when no name fits.
        """
        if not text.strip():
            raise InvalidRequestError("The object to look for is empty; name one thing, such as 'cat'.")
        found = self._find(text)
        if found is None:
            raise UnknownWordError(text.strip(), self.nearest(text))
        return found

    def nearest(self, text: str, count: int = 3) -> tuple[str, ...]:
        """Up to `count` known names that are spelled most alike, best first."""
        alike = difflib.get_close_matches(_plain(text), self._leads_to, n=3 * count, cutoff=0.6)
        return tuple(dict.fromkeys(self._leads_to[word] for word in alike))[:count]

    def _find(self, text: str) -> str | None:
        word = _plain(text)
        for article in _ARTICLES:
            word = word.removeprefix(article)
        return next((self._leads_to[form] for form in _forms(word) if form in self._leads_to), None)


def _plain(text: str) -> str:
    """Lower case, hyphens and underscores as spaces, no punctuation, single spaces."""
    spaced = re.sub(r"[-_\s]+", " ", text.lower())
    return re.sub(r"[^\w ]", "", spaced).strip()


def _forms(word: str) -> list[str]:
    """The word itself, then what it would be the plural of; only the last word of several changes."""
    *before, last = word.split(" ")
    forms = [last]
    if last in _IRREGULAR:
        forms.append(_IRREGULAR[last])
    if last.endswith("ies") and len(last) > 4:
        forms.append(last[:-3] + "y")
    if last.endswith("es") and len(last) > 3:
        forms.append(last[:-2])
    if last.endswith("s") and not last.endswith("ss") and len(last) > 2:
        forms.append(last[:-1])
    return [" ".join([*before, form]) for form in forms]
