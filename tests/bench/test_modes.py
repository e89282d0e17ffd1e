"""The grid of both modes: its form here, and on modelled accelerators, where every run repeats, what it must reach."""

from __future__ import annotations

import json
from typing import Any

import pytest

from photon.bench.__main__ import main
from photon.bench.modes import wasted_steps
from photon.core.trace import StepRecord
from tests.bench.conftest import MODEL
from tests.core.test_trace import record

ROW_KEYS = {"skill", "pictures", "callers", "ratio", "low", "high", "zombie_only_steps", "answers_equal"}


def _report(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["modes", *options, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_the_report_has_the_agreed_form(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", MODEL, "--rounds", "2", "--callers", "1,2", "--scale", "0.1"]
    rows = _report(capsys, *options)["rows"]
    assert {row["skill"] for row in rows} == {"point", "detect", "text"}, "the model does not segment"
    assert {(row["pictures"], row["callers"]) for row in rows} == {(p, n) for p in ("known", "new") for n in (1, 2)}
    for row in rows:
        assert row.keys() == ROW_KEYS
        assert 0 < row["low"] <= row["ratio"] <= row["high"]
        assert row["answers_equal"] is True


@pytest.mark.parametrize("device", ["paced:b200", "paced:3090"])
def test_on_a_modelled_accelerator_pipelined_is_faster_in_every_row(
    device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = _report(capsys, "--device", device, "--callers", "1,8,32")
    assert len(report["rows"]) == 3 * 2 * 3
    for row in report["rows"]:
        assert row["ratio"] > 1.0, row
        assert row["answers_equal"] is True
        assert row["zombie_only_steps"] <= 2, row


@pytest.mark.parametrize("options", [["--skills", "caption"], ["--rounds", "0"], ["--scale", "0"]])
def test_what_it_cannot_run_is_refused_in_a_sentence(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["modes", *options]) == 2
    assert capsys.readouterr().err.strip().endswith(".")


def _step(start_s: float, zombies: int) -> StepRecord:
    return record(0, start_s, 1.0, 0.0, 0.1)._replace(zombies=zombies)


def test_a_useless_step_counts_if_somebody_waited_while_it_ran() -> None:
    steps = [_step(0.0, 0), _step(2.0, 1), _step(4.0, 1)]  # the last ends at 5.1
    assert wasted_steps(steps, [(0.5, 3.0), (3.5, 5.0), (5.2, 6.0)]) == 0, "answered before an end, or asked after it"
    assert wasted_steps(steps, [(2.5, 3.5)]) == 1, "asked while one ran"
    assert wasted_steps(steps, [(0.1, 9.0)]) == 2, "waited since before both"
