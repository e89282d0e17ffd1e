"""The GPU script, tried where there is none: small shapes on the CPU, its guards, its budget and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from photon.bench import cuda
from photon.bench.__main__ import main
from photon.bench.generated import SHAPES, generated, shape_of
from photon.bench.gpu_engine import Bench, Rows

TRY = ["cuda", "--device", "cpu", "--tiny", "--tokens", "9", "--rows", "1,2", "--batches", "2"]
HERE = torch.device("cpu")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("results")
    assert main([*TRY, "--models", "moondream3", "--out", str(folder)]) == 0
    text = (folder / "results.txt").read_text("utf-8")
    assert "whole requests" in text
    assert torch.__version__ in text
    read: dict[str, Any] = json.loads((folder / "results.json").read_text("utf-8"))
    return read


def test_every_part_runs_on_small_shapes(found: dict[str, Any]) -> None:
    model = found["models"]["moondream3"]
    assert list(model) == ["weights", *(name for name, *_ in cuda.PARTS)]
    assert not [part for part in model.values() if "rows" not in part]
    assert [row["rows"] for row in model["periods"]["rows"]] == [1, 2]
    assert {row["tokens"] for row in model["whole requests"]["rows"]} == {3, 30}
    assert all(
        row["vision_runs"] == 8 or row["vision_runs"] == 3 * row["callers"] for row in model["whole requests"]["rows"]
    )


def test_what_needs_no_gpu_holds_here_too(found: dict[str, Any]) -> None:
    model = found["models"]["moondream3"]
    checks = {row["check"]: row["holds"] for part in model.values() for row in part.get("rows", ()) if "check" in row}
    assert checks["pipelined tokens equal blocking ones"] is True
    assert checks["tokens under the stall are the same"] is True
    assert checks["tokens with poisoned staging are the same"] is True
    assert checks["a tick synchronises with nothing"] is None  # said, not passed


def test_a_part_that_fails_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(bench: Bench) -> Rows:
        raise RuntimeError("no kernel image")

    def works(bench: Bench) -> Rows:
        assert "no kernel image" in (tmp_path / "results.txt").read_text("utf-8"), (
            "results are not written as they come"
        )
        return [{"value": 1}]

    monkeypatch.setattr(cuda, "PARTS", (("one", broken, 0.0), ("two", works, 0.0), ("three", works, 1e9)))
    assert main([*TRY, "--models", "moondream2", "--out", str(tmp_path)]) == 0
    model = json.loads((tmp_path / "results.json").read_text("utf-8"))["models"]["moondream2"]
    assert "no kernel image" in model["one"]["failed"]
    assert model["two"]["rows"] == [{"value": 1}]
    assert "left_out" in model["three"]


def test_without_a_gpu_the_script_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert main(["cuda", "--out", str(tmp_path)]) == 2
    assert "no CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize("name", SHAPES)
def test_true_shapes_are_the_published_ones(name: str) -> None:
    config = shape_of(name, 1024, tiny=False)
    assert config.text.max_context == 1024
    assert (config.text.dim, config.text.n_layers, config.text.vocab_size) == (2048, 24, 51200)
    assert (config.text.moe is not None) == (name == "moondream3")
    assert config.prefix_len == 730


def test_generated_weights_are_the_same_every_time_and_finite() -> None:
    config = shape_of("moondream3", 64, tiny=True)
    one, other = (generated("x", config, HERE, torch.bfloat16).model.state_dict() for _ in range(2))
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert all(bool(value.isfinite().all()) for value in one.values())
