"""Allow-lists and bans as rows of a slot's staging: each distinct choice is laid out once and then looked up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from photon.core.request import Choice
from photon.errors import InvalidRequestError

_REMEMBERED = 1024
"""Bans can follow the text, so distinct choices are not bounded; what is forgotten is laid out again."""


class ChoiceRows:
    """`coord_id` and `size_id` are the ids that come with a value."""

    def __init__(self, coord_id: int, size_id: int) -> None:
        self._coord_id, self._size_id = coord_id, size_id
        self._index: dict[Choice, int] = {}
        self._rows = np.zeros((_REMEMBERED, 1 + MAX_ALLOWED + MAX_BANNED), dtype=np.int64)
        self._needs: list[SampleNeeds] = []

    def check(self, choice: Choice) -> None:
        """Raises `InvalidRequestError` for a list that is empty or too long: its row's own error, not the step's."""
        if choice not in self._index:
            self._add([choice])

    def stage(self, choices: list[Choice], target: npt.NDArray[np.int64]) -> SampleNeeds:
        """Write a row of `Slot.choice_ids` a choice. Raises what `check` does."""
        try:
            indices = [self._index[choice] for choice in choices]
        except KeyError:
            indices = self._add(choices)
        self._rows.take(indices, axis=0, out=target[: len(indices)], mode="clip")
        needs = [self._needs[i] for i in set(indices)]
        return needs[0] if len(needs) == 1 else SampleNeeds(*map(any, zip(*needs, strict=True)))

    def _add(self, choices: list[Choice]) -> list[int]:
        new = set(choices) - self._index.keys()
        if len(self._index) + len(new) > _REMEMBERED:
            self._index.clear()
            self._needs.clear()
            new = set(choices)
        for choice in new:
            row = self._rows[len(self._needs)]
            self._needs.append(self._lay_out(choice, row))
            self._index[choice] = len(self._needs) - 1
        return [self._index[choice] for choice in choices]

    def _lay_out(self, choice: Choice, row: npt.NDArray[np.int64]) -> SampleNeeds:
        allowed, banned = choice
        if allowed is not None and not 0 < len(allowed) <= MAX_ALLOWED:
            raise InvalidRequestError(f"An allow-list has {len(allowed)} ids; allowed is 1..{MAX_ALLOWED}.")
        if len(banned) > MAX_BANNED:
            raise InvalidRequestError(f"{len(banned)} ids are banned; allowed are up to {MAX_BANNED}.")
        ids = allowed or ()
        row[0] = len(ids)
        row[1 : 1 + MAX_ALLOWED] = (*ids, *(0,) * (MAX_ALLOWED - len(ids)))
        row[1 + MAX_ALLOWED :] = (*banned, *(-1,) * (MAX_BANNED - len(banned)))
        everything = allowed is None
        return SampleNeeds(
            everything,
            self._may(choice, self._coord_id),
            self._may(choice, self._size_id),
            several=everything or len(ids) > 1,
        )

    @staticmethod
    def _may(choice: Choice, token_id: int) -> bool:
        return token_id in choice.allowed if choice.allowed is not None else token_id not in choice.banned


class SampleNeeds(NamedTuple):
    """What the rows of a step need, known to the host: work that nobody needs is not done."""

    open: bool  # a row may take any id of the vocabulary
    coords: bool
    sizes: bool
    drawn: bool = False  # a row has temperature > 0
    several: bool = True  # a row may choose between ids


MAX_ALLOWED = 8


MAX_BANNED = 8
