"""The report on the bundled model: what its questions generate, and that each is held against its target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from photon import EngineConfig, Photon
from photon.bench import model as bench
from photon.bench.__main__ import main
from photon.bench.clients import names, pictures, put


def test_questions_generate_what_they_are_said_to(folder: Path) -> None:
    with Photon.load("photon-tiny", EngineConfig(device="cpu", threads=1)) as model:
        ids, vertices = model.context.config.tokenizer, model.context.config.tokenizer.segment_vertices
        (picture,) = pictures(folder, 1)
        before = len(model.steps())
        tokens = {
            kind: put(model, [call], callers=1).tokens[0]
            for kind, call in bench.calls(model, picture, names(model)[0]).items()
        }
        images = sum(step.crops for step in model.steps()[before:])
    assert {kind: [len(part) for part in made] for kind, made in tokens.items()} == {
        "new_image_to_first_point_ms": [2],
        "point_on_known_image_ms": [3],
        "detect_five_objects_ms": [16],
        "segment_one_object_ms": [4, 3 + 2 * vertices],
    }
    assert [token.id for token in tokens["detect_five_objects_ms"][0]].count(ids.size_id) == bench.OBJECTS
    assert images == 1, "only the first question may encode the picture"


@pytest.mark.parametrize(("most", "verdict"), [(1e9, True), (0.0, False)])
def test_every_figure_is_held_against_its_target(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most: float, verdict: bool
) -> None:
    monkeypatch.setattr(bench, "TARGETS", dict.fromkeys(bench.TARGETS, most))
    assert main(["model", "--images", str(folder), "--rounds", "1", "--threads", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["measure"] for row in report["rows"]] == list(bench.TARGETS)
    for row in report["rows"]:
        assert row["value"] == report[row["measure"]] > 0
        assert row["within"] is verdict
    assert ("within" if verdict else "OVER") in bench.show(report)


def test_a_round_at_least_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "--rounds", "0"]) == 2
    assert "allowed are whole numbers from 1" in capsys.readouterr().err
