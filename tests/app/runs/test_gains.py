"""app.runs.gains: one measurement at a time, bounded, kept; a failure is a sentence and is tried again."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from app.page.gains_view import estimated
from app.runs import gains
from app.runs.gains import ACCELERATORS, Gains, GainsError, measured, shown
from photon.devices.pace_table import PaceTable

ROW = {"forward_ms": 2.0, "sampling_ms": 0.5, "blocking_period_ms": 3.0, "pipelined_period_ms": 2.5, "gain": 0.2}
REPORT = {
    "accelerator": "a GPU",
    "rows": [
        ROW | {"streams": 1, "load": "own", "bookkeeping_us": 40.0},
        ROW | {"streams": 1, "load": "original", "bookkeeping_us": 480.0},
        ROW | {"streams": 64, "load": "own", "bookkeeping_us": 90.0},
    ],
}


async def values(made: Gains) -> list[dict[str, Any]]:
    return [value async for value in estimated(made)]


def test_a_row_has_both_kinds_of_bookkeeping_where_they_are_published() -> None:
    first, second = shown(REPORT)["rows"]
    assert (first["together"], first["device_ms"]) == (1, 2.5)
    assert (first["own"]["bookkeeping_us"], first["original"]["bookkeeping_us"]) == (40.0, 480.0)
    assert (second["together"], second["original"]) == (64, None)


def test_all_visitors_share_one_measurement_and_its_report_is_kept() -> None:
    asked: list[str] = []

    async def measure(accelerator: str) -> dict[str, Any]:
        asked.append(accelerator)
        await asyncio.sleep(0.05)
        return REPORT

    async def visitors() -> list[list[dict[str, Any]]]:
        made = Gains(measure)
        together = await asyncio.gather(values(made), values(made))
        return [*together, await values(made)]

    first, second, later = asyncio.run(visitors())
    assert asked == list(ACCELERATORS) == list(PaceTable.names())
    assert "text" in first[0]
    assert first[-1] == second[-1] == later[0]
    assert [one["name"] for one in first[-1]["report"]["accelerators"]] == ["a GPU"] * len(ACCELERATORS)
    assert len(later) == 1


def test_a_visitor_who_leaves_does_not_end_it_for_the_others() -> None:
    async def measure(accelerator: str) -> dict[str, Any]:
        await asyncio.sleep(0.05)
        return REPORT

    async def leave() -> list[dict[str, Any]]:
        made = Gains(measure)
        leaving = estimated(made)
        await anext(leaving)
        await leaving.aclose()  # type: ignore[attr-defined]
        return await values(made)

    assert "report" in asyncio.run(leave())[-1]


def test_a_failure_is_one_sentence_and_is_tried_again() -> None:
    failures = [GainsError("The measurement failed.")]

    async def measure(accelerator: str) -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return REPORT

    async def twice() -> tuple[dict[str, Any], dict[str, Any]]:
        made = Gains(measure)
        return (await values(made))[-1], (await values(made))[-1]

    first, second = asyncio.run(twice())
    assert first == {"text": "The measurement failed.", "problem": True}
    assert "report" in second


def test_a_measurement_that_takes_too_long_is_ended() -> None:
    start = time.perf_counter()
    with pytest.raises(GainsError, match=r"within 0\.2 s"):
        asyncio.run(measured("b200", limit_s=0.2))
    assert time.perf_counter() - start < 5


def test_a_measurement_that_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gains, "OPTIONS", ("--no-such-option",))
    with pytest.raises(GainsError, match="its log says why"):
        asyncio.run(measured("b200"))
