"""SAM 2.1 with random weights: what goes in, what comes out, and files that cannot be used."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from photon.errors import ModelLoadError
from photon.masks import sam2
from photon.masks.lazy import LazyMasks
from photon.masks.mask_files import mask_folder
from photon.masks.sam2 import Sam2
from tests.masks.tiny_sam import SIDE, save_video_model, tiny_sam

CPU = torch.device("cpu")
BOXES = [
    {"x_min": 0.1, "y_min": 0.2, "x_max": 0.5, "y_max": 0.9},
    {"x_min": 0.0, "y_min": 0.0, "x_max": 1.0, "y_max": 0.4},
    {"x_min": 0.6, "y_min": 0.6, "x_max": 0.7, "y_max": 0.8},
]


@pytest.fixture(scope="module")
def picture() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (90, 160, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sam")
    save_video_model(folder)
    return folder


def test_pixels_are_a_normalised_square() -> None:
    image = np.zeros((50, 200, 3), dtype=np.uint8)
    image[:, 100:] = (255, 128, 0)
    pixels = Sam2(tiny_sam()).pixels(image)
    assert pixels.shape == (1, 3, SIDE, SIDE)
    black, coloured = pixels[0, :, 0, 0], pixels[0, :, -1, -1]
    torch.testing.assert_close(black, torch.tensor([-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225]))
    torch.testing.assert_close(coloured, torch.tensor([0.515 / 0.229, (128 / 255 - 0.456) / 0.224, -0.406 / 0.225]))


def test_one_mask_a_box_as_the_model_itself_gives_it(picture: NDArray[np.uint8]) -> None:
    model = tiny_sam()
    ours = list(Sam2(model).masks(picture, BOXES))
    assert [mask.shape for mask in ours] == [(SIDE, SIDE)] * 3
    prompt = torch.tensor([[list(box.values()) for box in BOXES]]) * SIDE
    with torch.no_grad():
        logits = model(pixel_values=Sam2(model).pixels(picture), input_boxes=prompt, multimask_output=False).pred_masks
    theirs = F.interpolate(logits[0], (SIDE, SIDE), mode="bilinear")[:, 0] > 0
    assert np.mean(np.stack(ours) == theirs.numpy()) > 0.999
    assert 0 < np.mean(ours[0]) < 1
    assert not np.array_equal(ours[0], ours[1])


def test_many_boxes_are_decoded_a_few_at_a_time(picture: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch) -> None:
    sam = Sam2(tiny_sam())
    at_once = np.stack(list(sam.masks(picture, BOXES)))
    monkeypatch.setattr(sam2, "_BOXES_AT_ONCE", 2)
    assert np.mean(np.stack(list(sam.masks(picture, BOXES))) == at_once) > 0.999


def test_the_published_form_loads(
    published: Path, picture: NDArray[np.uint8], capfd: pytest.CaptureFixture[str]
) -> None:
    lazy = LazyMasks(str(published), CPU)
    assert lazy.missing() is None
    assert len(list(lazy.masks(picture, BOXES))) == 3
    assert capfd.readouterr().err == ""


def test_it_loads_once(published: Path, picture: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Any] = []
    load = Sam2.load
    monkeypatch.setattr(Sam2, "load", lambda *args: loads.append(args) or load(*args))
    lazy = LazyMasks(str(published), CPU)
    assert not loads
    for _ in range(2):
        list(lazy.masks(picture, BOXES[:1]))
    assert len(loads) == 1


def test_a_missing_tensor_is_named(published: Path, tmp_path: Path) -> None:
    shutil.copytree(published, tmp_path, dirs_exist_ok=True)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["mask_decoder.iou_token.weight"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"mask_decoder\.iou_token\.weight"):
        Sam2.load(tmp_path, CPU)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_damaged_files_are_refused_with_their_folder(published: Path, tmp_path: Path, file: str) -> None:
    shutil.copytree(published, tmp_path, dirs_exist_ok=True)
    (tmp_path / file).write_bytes(b"{")
    with pytest.raises(ModelLoadError, match=str(tmp_path)):
        Sam2.load(tmp_path, CPU)


def test_a_mask_model_that_is_not_here_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert str(LazyMasks("sam2.1-small", CPU).missing()).endswith("python -m photon download sam2.1-small")


def test_an_unknown_mask_model_lists_the_known_ones() -> None:
    with pytest.raises(ModelLoadError, match=r"'sam9'.*sam2\.1-small, sam2\.1-large"):
        mask_folder("sam9")
