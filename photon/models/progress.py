"""How far along something is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], object]
"""Called now and then with the share that is done, 0..1, on the thread that does it."""


def unseen(share: float) -> None:
    """For a caller who does not want to know."""


def part_of(progress: Progress, index: int, count: int) -> Progress:
    """The progress of part `index` of `count` equal ones, reported as that of all."""
    return lambda share: progress((index + share) / count)
