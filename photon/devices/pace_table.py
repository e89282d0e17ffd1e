"""The times of modelled accelerators: data with a source for every number (paced.json beside this file)."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from photon.errors import InvalidRequestError

_FILE = Path(__file__).with_name("paced.json")


class OutsideTableError(InvalidRequestError):
    """The table has no such accelerator, or no time for a step of this size."""


class Curve:
    """Seconds by size: linear between the given sizes. `points` are {"at": size, "ms": milliseconds, ...}."""

    def __init__(self, what: str, points: list[dict[str, Any]]) -> None:
        self._what = what
        self._sizes = [int(p["at"]) for p in points]
        self._seconds = [float(p["ms"]) / 1e3 for p in points]

    @property
    def largest(self) -> int:
        return self._sizes[-1]

    def __call__(self, size: float) -> float:
        """Raises `OutsideTableError` for a size beyond the given ones."""
        sizes, seconds = self._sizes, self._seconds
        if not sizes[0] <= size <= sizes[-1]:
            raise OutsideTableError(
                f"There is no modelled {self._what} time for a size of {size:g}; "
                f"the table has sizes {sizes[0]} to {sizes[-1]}."
            )
        i = bisect_left(sizes, size)
        if sizes[i] == size:
            return seconds[i]
        share = (size - sizes[i - 1]) / (sizes[i] - sizes[i - 1])
        return seconds[i - 1] + share * (seconds[i] - seconds[i - 1])


@dataclass(frozen=True)
class PaceTable:
    """One accelerator: seconds by rows (forward, sampling, prompt) or by images (vision), and published figures."""

    key: str
    name: str
    model: str
    forward_s: Curve
    sampling_s: Curve
    vision_s: Curve
    copy_s: float
    published: dict[int, dict[str, Any]]
    published_requests: list[dict[str, Any]]

    @property
    def prompt_s(self) -> Curve:
        """A short prompt reads the same weights as a decode step and is given its time (paced.json, "prompt")."""
        return self.forward_s

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(json.loads(_FILE.read_text())["accelerators"])

    @classmethod
    def load(cls, accelerator: str) -> PaceTable:
        """Raises `OutsideTableError` for an accelerator that the file does not have."""
        found = json.loads(_FILE.read_text())["accelerators"]
        if accelerator not in found:
            raise OutsideTableError(f"No times are given for {accelerator!r}; allowed are {', '.join(found)}.")
        entry = found[accelerator]
        return cls(
            key=accelerator,
            name=entry["name"],
            model=entry["model"],
            forward_s=Curve(f"{accelerator} forward", entry["forward_ms"]),
            sampling_s=Curve(f"{accelerator} sampling", entry["sampling_ms"]),
            vision_s=Curve(f"{accelerator} vision", entry["vision_ms"]),
            copy_s=entry["copy_ms"]["ms"] / 1e3,
            published={p["streams"]: p for p in entry["published"]},
            published_requests=entry["published_requests"],
        )
