"""Planning: the form of the report, and that it says what it is."""

from __future__ import annotations

import argparse
import json

import pytest

from photon.bench.__main__ import main
from photon.bench.plan import _mix
from photon.devices.pace_table import PaceTable

OPTIONS = ["plan", "--gpu", "b200", "--requests", "2"]


def test_a_plan_has_a_row_for_the_published_mix_and_one_for_the_given_mix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OPTIONS, "--batch", "1", "--mix", "point=5,caption=20", "--replicas", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["modelled"] is True
    assert report["leaves_out"]
    published, mixed = report["rows"]
    assert (published["mix"], mixed["mix"]) == ("query=3", "point=5,caption=20")
    assert published["published_requests_per_s"] == 48
    assert published["published_p50_ms"] == 33.8
    assert mixed["published_requests_per_s"] is None


def test_replicas_multiply_requests_and_host_cores_but_not_latency(capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for replicas in ("1", "4"):
        assert main([*OPTIONS, "--batch", "1", "--mix", "query=3", "--replicas", replicas, "--json"]) == 0
        rows.append(json.loads(capsys.readouterr().out.splitlines()[-1])["rows"][0])
    assert rows[1]["requests_per_s"] == pytest.approx(4 * rows[0]["requests_per_s"], rel=0.02)
    assert rows[1]["p50_ms"] == pytest.approx(rows[0]["p50_ms"], rel=0.02)


def test_the_published_rate_at_batch_one_comes_out_again_less_the_step_that_it_wasted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Vision times were derived from it: a plan that misses it has lost a step or invented one."""
    assert main([*OPTIONS[:-1], "10", "--batch", "1", "--mix", "query=3", "--json"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"][0]
    table = PaceTable.load("b200")
    wasted = table.forward_s(1) + table.sampling_s(1)
    assert row["published_requests_per_s"] == 48
    assert row["requests_per_s"] == pytest.approx(1 / (1 / 48 - wasted), rel=0.05)


def test_the_table_is_labelled_as_modelled_and_says_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OPTIONS, "--batch", "1", "--mix", "query=3"]) == 0
    text = capsys.readouterr().out
    assert "modelled, not measured" in text
    assert "Left out:" in text


def test_batches_outside_the_table_and_unknown_accelerators_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OPTIONS, "--batch", "64"]) == 2
    assert "the table has sizes 1 to 32" in capsys.readouterr().err
    assert main(["plan", "--gpu", "h100"]) == 2
    assert "allowed are b200, 3090" in capsys.readouterr().err
    assert main([*OPTIONS, "--replicas", "0"]) == 2


@pytest.mark.parametrize("text", ["query", "query=0", "query=x", "=3"])
def test_a_mix_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be used"):
        _mix(text)
