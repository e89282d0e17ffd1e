"""What benchmarks share: readable tables, percentiles, lists of numbers on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from photon.errors import PhotonError


class BenchmarkError(PhotonError):
    """An option that a benchmark cannot run with; the sentence says what is allowed."""


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row under the keys of the first; columns as wide as their widest entry, set to the right."""
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0..1) of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def whole_numbers(text: str) -> list[int]:
    """`1,8,32` -> [1, 8, 32]."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be used; allowed are whole numbers from 1, like 1,8,32.")
    return numbers
