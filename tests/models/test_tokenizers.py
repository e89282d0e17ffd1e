"""Which tokenizer weights get when no config.json says: never one of another format."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from photon.errors import ModelLoadError
from photon.models import registry
from photon.models.moondream import published
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.published import MOONDREAM_2_OLD, MOONDREAM_HALF, recognised
from photon.models.registry import load_model
from tests.paths import PARITY

CPU = torch.device("cpu")
STARMIE, OLD = 0, 50256
"""What <|endoftext|> is in each."""


def write_tokenizer(path: Path, end: int) -> None:
    model = {"type": "WordLevel", "vocab": {"<|endoftext|>": end, "word": 7}, "unk_token": "word"}
    path.write_text(json.dumps({"version": "1.0", "model": model}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Weights alone."""
    folder = tmp_path / "weights"
    folder.mkdir()
    shutil.copy(PARITY / "md2" / "model.safetensors", folder)
    return folder


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The public tokenizer in the local cache."""
    repo = published.STARMIE
    place = tmp_path / "cache" / ("models--" + repo.id.replace("/", "--")) / "snapshots" / repo.revision
    place.mkdir(parents=True)
    write_tokenizer(place / "tokenizer.json", STARMIE)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    return place / "tokenizer.json"


@pytest.fixture
def seen_as(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the recorded weights pass for those of a public model: its token ids, the recorded sizes."""
    sizes = MoondreamConfig.from_dict(json.loads((PARITY / "md2" / "config.json").read_text()))

    def pretend(model: MoondreamConfig) -> None:
        config = dataclasses.replace(sizes, tokenizer=model.tokenizer)
        monkeypatch.setattr(registry, "recognised", lambda shapes, family_b: config)

    return pretend


def end_of(path: Path) -> int | None:
    return load_model(str(path), CPU, torch.float32).tokenizer.id_of("<|endoftext|>")


def test_the_new_format_takes_the_public_tokenizer(folder: Path, cached: Path, seen_as: Any) -> None:
    seen_as(published.MOONDREAM_2)
    assert end_of(folder) == STARMIE
    assert end_of(folder / "model.safetensors") == STARMIE


def test_a_stale_tokenizer_beside_new_weights_is_passed_over(folder: Path, cached: Path, seen_as: Any) -> None:
    seen_as(published.MOONDREAM_2)
    write_tokenizer(folder / "tokenizer.json", OLD)
    assert end_of(folder) == STARMIE
    cached.unlink()
    with pytest.raises(ModelLoadError, match=r"python -m photon download moondream2$"):
        end_of(folder)


def test_a_fitting_tokenizer_beside_the_weights_comes_first(folder: Path, cached: Path, seen_as: Any) -> None:
    seen_as(published.MOONDREAM_2)
    cached.write_text("damaged")
    write_tokenizer(folder / "tokenizer.json", STARMIE)
    assert end_of(folder) == STARMIE


@pytest.mark.parametrize("model", [MOONDREAM_HALF, MOONDREAM_2_OLD], ids=["0.5b", "2-old"])
def test_the_old_format_never_takes_the_public_tokenizer(
    folder: Path, cached: Path, seen_as: Any, model: MoondreamConfig
) -> None:
    seen_as(model)
    with pytest.raises(ModelLoadError, match=r"no tokenizer file .*weights/tokenizer\.json; .* old format"):
        end_of(folder)
    write_tokenizer(folder / "tokenizer.json", STARMIE)
    with pytest.raises(ModelLoadError, match=r"weights/tokenizer\.json is not that of these weights: .* 0 .* 50256"):
        end_of(folder)
    write_tokenizer(folder / "tokenizer.json", OLD)
    assert end_of(folder) == OLD


def test_dense_weights_in_the_older_names_speak_the_old_format() -> None:
    with torch.device("meta"):
        shapes = {name: tuple(t.shape) for name, t in Moondream(MOONDREAM_2_OLD).state_dict().items()}
    assert recognised(shapes, family_b=True) == MOONDREAM_2_OLD
    assert recognised(shapes) == published.MOONDREAM_2
    assert MOONDREAM_2_OLD.tokenizer.eos_id == MOONDREAM_HALF.tokenizer.eos_id == OLD


def test_the_half_billion_model_has_no_name_without_a_folder(folder: Path) -> None:
    with pytest.raises(ModelLoadError, match="not public"):
        load_model("moondream-0.5b", CPU, torch.float32)


def test_a_folder_may_have_the_name_of_the_half_billion_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("config.json", "tokenizer.json"):
        shutil.copy(PARITY / "md2" / file, folder)
    folder.rename(folder.parent / "moondream-0.5b")
    monkeypatch.chdir(folder.parent)
    assert load_model("moondream-0.5b", CPU, torch.float32).name == "moondream-0.5b"
