"""Cost as work grows: slopes, page arithmetic, and the flood that must leave nothing behind."""

from __future__ import annotations

import json

import pytest

from photon.bench.__main__ import main
from photon.bench.scale import Growth, flood
from tests.bench.conftest import MODEL


@pytest.mark.parametrize(("power", "grows"), [(0.0, False), (-0.7, False), (0.5, True), (1.0, True)])
def test_a_slope_is_the_power_with_which_a_unit_gets_dearer(power: float, grows: bool) -> None:
    amounts = (1, 4, 16, 64)
    row = Growth("things", "us", amounts, [3.0 * a**power for a in amounts]).row()
    assert row["slope"] == pytest.approx(power, abs=1e-3)
    assert row["grows"] is grows


def test_one_amount_has_no_slope() -> None:
    assert Growth("things", "us", (1,), [3.0]).slope == 0.0


def test_a_flood_of_short_answers_ends_with_every_page_accounted_for() -> None:
    """`flood` checks the engine's accounts at its end; a leak of a page a request would stop it long before."""
    assert flood(600)["requests"] == 600


def test_the_report_has_a_row_for_each_kind_of_growth(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", MODEL, "--largest", "16", "--megapixels", "0.1", "--requests", "40", "--repeats", "1"]
    assert main(["scale", *options, "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["what"] for row in report["rows"]] == [
        "callers",
        "prompt tokens",
        "answer tokens",
        "objects",
        "megapixels",
    ]
    assert all(len(row["amounts"]) == len(row["per_unit"]) for row in report["rows"])
    for row in report["pages"]:
        assert row["pages"] == row["predicted_pages"]
