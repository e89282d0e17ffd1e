"""The modelled pipeline: the formula of the period, and the form of the report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from photon.bench.__main__ import main
from photon.bench.modelled import HostCosts, ModelledRequest, run_streams
from photon.bench.pipeline import MODES, answer_lengths, blocking_period, pipelined_period, steady, whole
from photon.core.request import Mode
from photon.devices.pace_table import PaceTable
from photon.devices.paced import GivenClock

MS = 1e-3
ROW_KEYS = {
    "device",
    "streams",
    "load",
    "forward_ms",
    "sampling_ms",
    "bookkeeping_us",
    "blocking_period_ms",
    "pipelined_period_ms",
    "gain",
    "end_to_end_gain",
    "device_busy",
    "residual_gap_ms",
    "wasted_row_steps",
}

COSTS = {
    "none": HostCosts(),
    "hidden": HostCosts(0.05 * MS, 0.4 * MS, 0.1 * MS),
    "commit beyond the forward": HostCosts(0.05 * MS, 3.0 * MS, 0.2 * MS),
    "launch beyond sampling": HostCosts(0.5 * MS, 0.3 * MS, 0.1 * MS),
    "a launch that waits for the values before the last": HostCosts(2.0 * MS, 0.4 * MS, 0.1 * MS),
    "both beyond": HostCosts(0.5 * MS, 4.0 * MS, 0.3 * MS),
}


COPY_S = 0.2 * MS


@pytest.fixture
def slow_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    table = replace(PaceTable.load("b200"), copy_s=COPY_S)
    monkeypatch.setattr(PaceTable, "load", lambda _: table)


def _period(mode: Mode, costs: HostCosts, rows: int) -> float:
    return steady(run_streams("b200", GivenClock(), [[ModelledRequest(61, 0, mode)]] * rows, costs), rows).period


@pytest.mark.usefixtures("slow_copies")
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", COSTS)
def test_the_periods_of_the_engine_are_those_of_the_formula(name: str, rows: int) -> None:
    costs, table = COSTS[name], PaceTable.load("b200")
    parts = (table.forward_s(rows), table.sampling_s(rows), COPY_S, costs.launch_s, costs.commit_s, costs.finalize_s)
    assert _period("blocking", costs, rows) == pytest.approx(blocking_period(*parts), rel=1e-9)
    assert _period("pipelined", costs, rows) == pytest.approx(pipelined_period(*parts), rel=1e-9)


def test_the_formulas_are_the_designs_where_a_launch_fits_into_sampling_and_never_more() -> None:
    f, s, copy, commit, finalize = 2.45, 0.14, 0.02, 2.4, 0.2
    for launch in (0.0, 0.1, 0.14, 0.5, 3.0):
        designs = max(f + s, copy + commit + finalize + max(s, launch))
        period = pipelined_period(f, s, copy, launch, commit, finalize)
        assert period == pytest.approx(designs) if launch <= s else period <= designs
        assert blocking_period(f, s, copy, launch, commit, finalize) <= f + s + copy + commit + finalize + launch


def test_rows_that_stop_ride_along_where_there_is_more_to_hide_than_a_step_takes() -> None:
    costs = HostCosts(commit_s=20 * MS)
    wasted = {
        mode: run_streams("b200", GivenClock(), [[ModelledRequest(13, 0, mode)] * 3], costs).wasted_row_steps
        for mode in MODES
    }
    assert wasted["blocking"] == 0
    assert 0 < wasted["pipelined"] <= 3


def test_runs_with_given_costs_repeat_exactly() -> None:
    asks = whole(3, 2, 22, "pipelined", new_pictures=True)
    runs = [run_streams("3090", GivenClock(), asks, HostCosts(commit_s=MS)) for _ in range(2)]
    assert runs[0].steps == runs[1].steps


def test_answers_have_the_published_mean_length() -> None:
    for mean in (104, 113, 115):
        lengths = answer_lengths(mean, 110)
        assert sum(lengths) / len(lengths) == pytest.approx(mean, abs=1.5)
        assert len(set(lengths)) > 5


def test_a_detect_answer_has_three_tokens_an_object_and_its_end() -> None:
    with pytest.raises(ValueError, match="cannot have 12 tokens"):
        ModelledRequest(12, 0, "pipelined")


def test_the_report_has_the_agreed_form(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "paced:3090", "--streams", "1,2", "--requests", "1", "--repeats", "1"]
    assert main(["pipeline", *options, "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows = report["rows"]
    assert [(r["streams"], r["load"]) for r in rows] == [(1, "own"), (1, "original"), (2, "own")]
    assert all(r.keys() >= ROW_KEYS for r in rows)
    assert report["modelled"] is True
    original = rows[1]
    assert original["bookkeeping_us"] == pytest.approx(340)
    assert original["gain"] == pytest.approx((4.87 + 0.20 + 0.34) / (4.87 + 0.20) - 1, abs=1e-4)
    assert original["residual_gap_ms"] == pytest.approx(0, abs=1e-6)


def test_the_table_says_that_times_are_modelled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "--streams", "1", "--requests", "1", "--repeats", "1"]) == 0
    text = capsys.readouterr().out
    assert "modelled" in text
    assert "18.5 >= 17.5" in text


def test_a_device_without_a_table_is_refused_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "--device", "cpu"]) == 2
    assert "allowed is paced:ACCELERATOR" in capsys.readouterr().err
