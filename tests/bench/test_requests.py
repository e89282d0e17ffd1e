"""Whole requests: the form of the report, the pictures, and when answers count as equal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from photon import EngineConfig, Photon
from photon.bench.__main__ import main
from photon.bench.clients import Question, asked, pictures, put, refs
from photon.bench.compare import Comparison
from photon.bench.verdicts import Alone, alone, verdict
from photon.core.request import Token
from photon.errors import InvalidRequestError
from tests.bench.conftest import MODEL


def test_the_report_has_the_agreed_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", MODEL, "--images", str(folder), "--requests", "3", "--rounds", "1", "--concurrency", "1,2"]
    assert main(["requests", *options, "--threads", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert [row["concurrency"] for row in rows] == [1, 2]
    for row in rows:
        for mode in ("blocking", "pipelined"):
            assert row[mode].keys() == {"requests_per_s", "p50_ms", "p95_ms"}
            assert 0 < row[mode]["p50_ms"] <= row[mode]["p95_ms"]
        assert row["ratio"] == pytest.approx(
            row["pipelined"]["requests_per_s"] / row["blocking"]["requests_per_s"], abs=0.02
        )
        assert row["answers_equal"] is True


def test_more_pictures_than_there_are_files_are_varied_and_differ(folder: Path) -> None:
    found = pictures(folder, 5)
    assert len({picture.tobytes() for picture in found}) == 5
    assert all(picture.dtype == np.uint8 and picture.shape[2] == 3 and picture.size for picture in found)


def test_a_folder_that_is_missing_or_has_no_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="no folder"):
        pictures(tmp_path / "nowhere", 1)
    with pytest.raises(InvalidRequestError, match="no pictures"):
        pictures(tmp_path, 1)


def test_every_run_has_keys_of_its_own_so_that_no_prefix_is_left_over(folder: Path) -> None:
    rgb = pictures(folder, 2)
    keys = {ref.key for run in ("a", "b") for ref in refs(rgb, run)}
    assert len(keys) == 4


def _alone(*margins: float) -> Alone:
    return Alone([[Token(5, coord=0.5), Token(5, coord=0.25), Token(0)]], [list(margins)])


def test_runs_that_generate_the_same_are_equal_whatever_their_probabilities() -> None:
    one = [[Token(5, coord=0.5, logprob=-0.1)]]
    other = [[Token(5, coord=0.5, logprob=-0.10001)]]
    assert verdict(one, other, reference=lambda: pytest.fail("not needed")) == Comparison(equal=1)


@pytest.mark.parametrize(("margin", "expected"), [(5e-5, Comparison(tied=1)), (5e-3, Comparison(different=1))])
def test_runs_that_part_are_tied_only_where_the_decision_was_close(margin: float, expected: Comparison) -> None:
    reference = _alone(1.0, margin, 1.0)
    other = [[Token(5, coord=0.5), Token(5, coord=0.26), Token(5, coord=0.9)]]
    assert verdict(reference.tokens, other, lambda: reference) == expected


def test_the_reference_runs_one_call_alone_and_notes_each_decision(folder: Path) -> None:
    with Photon.load(MODEL, EngineConfig(device="cpu", threads=1)) as model:
        images = refs(pictures(folder, 1), "alone")
        question = Question("point", 0, "car", (("max_objects", 2),))
        engine = put(model, asked(model, images, [question], "pipelined"), callers=1)
        found = alone(model.parts.loaded, asked(model, images, [question], "blocking")[0])
    assert [[t[:4] for t in row] for row in found.tokens] == [[t[:4] for t in row] for row in engine.tokens[0]]
    assert [len(row) for row in found.margins] == [len(row) for row in found.tokens]
    assert min(found.margins[0]) >= 0
