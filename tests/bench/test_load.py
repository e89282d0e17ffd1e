"""Loading holds the model once: a small generated checkpoint, with the bound of the full-size one scaled down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from photon.bench.__main__ import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("load")


def test_peak_memory_is_the_model_and_little_more(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "--model", "small", "--json", "--folder", str(folder)]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["model_bytes"] == 2 * report["parameters"] > 400e6
    assert report["finite"]
    assert report["peak_bytes"] > report["model_bytes"] + report["baseline_bytes"] - 10e6, "nothing was measured"
    assert report["within_scaled"], report
    assert report["within"], report
    assert list(folder.iterdir()) == [], "the weights are removed afterwards"
