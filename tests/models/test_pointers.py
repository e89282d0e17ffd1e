"""Git LFS leaves a pointer in a file's place: it is told for what it is, whichever file it stands for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from photon.errors import ModelLoadError
from photon.masks.mask_files import FILES, mask_folder
from photon.models.moondream.lora import read_adapter
from photon.models.moondream.published import MOONDREAM_2
from photon.models.public import BUNDLED
from photon.models.registry import load_model

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
SAYS = r"is a Git LFS pointer; fetch the file"


def _files() -> list[str]:
    return sorted(file.name for file in BUNDLED["photon-tiny"].iterdir() if file.suffix in (".json", ".safetensors"))


@pytest.mark.parametrize("name", _files())
def test_every_file_of_a_model(tmp_path: Path, name: str) -> None:
    shutil.copytree(BUNDLED["photon-tiny"], tmp_path / "model")
    (tmp_path / "model" / name).write_text(POINTER)
    with pytest.raises(ModelLoadError, match=rf"{name} {SAYS}"):
        load_model(str(tmp_path / "model"), torch.device("cpu"), torch.float32)


def test_an_adapter(tmp_path: Path) -> None:
    file = tmp_path / "adapter.safetensors"
    file.write_text(POINTER)
    with pytest.raises(ModelLoadError, match=SAYS):
        read_adapter("mine", file, MOONDREAM_2.text, 32)


@pytest.mark.parametrize("name", FILES)
def test_a_mask_model(tmp_path: Path, name: str) -> None:
    for file in FILES:
        (tmp_path / file).write_text("{}")
    (tmp_path / name).write_text(POINTER)
    with pytest.raises(ModelLoadError, match=SAYS):
        mask_folder(str(tmp_path))
