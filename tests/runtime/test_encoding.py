"""Where decoding leaves a core free, pictures are encoded there, ahead of their prefill."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch

from photon import EngineConfig, Photon, PhotonError
from photon.engine.sizing import spare_cores
from photon.models.moondream.model import Moondream
from photon.models.registry import load_model
from photon.runtime.encoding import encode, image_tokens

MANY = 2


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: MANY)


@pytest.fixture(autouse=True)
def threads_as_before() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (90, 120, 3), np.uint8)


def encoders(model: Photon, wrap: Callable[[], None] | None = None) -> list[str]:
    """Grows by the name of each thread that encodes a picture; `wrap` is called there."""
    vision, names = model.parts.loaded.model.vision, list[str]()

    def note(*_: object) -> None:
        names.append(threading.current_thread().name)
        if wrap:
            wrap()

    vision.register_forward_pre_hook(note)
    return names


def test_one_thread_of_several_cores_leaves_one_for_the_tower(cores: None) -> None:
    with Photon.load("photon-tiny", EngineConfig(device="cpu", threads=1)) as model:
        names = encoders(model)
        result = model.point(picture(0), "cat")
        again = model.detect(picture(0), "cat")
        (step,) = (step for step in model.steps(0) if step.crops)
    assert len(names) == step.crops == 1
    assert names[0].startswith("photon-preprocess")
    assert result.metrics.encode_ms > 0
    assert again.metrics.encode_ms == 0
    assert result.metrics.total_ms >= result.metrics.encode_ms + result.metrics.prefill_ms


def test_a_forward_on_all_cores_encodes_in_its_prefill(cores: None) -> None:
    with Photon.load("photon-tiny", EngineConfig(device="cpu", threads=MANY)) as model:
        names = encoders(model)
        result = model.point(picture(0), "cat")
    assert names == ["photon-compute"]
    assert result.metrics.encode_ms == 0


def test_what_is_encoded_ahead_is_what_the_prefill_would_have_made() -> None:
    model = load_model("photon-tiny", torch.device("cpu"), torch.float32).model
    assert isinstance(model, Moondream)
    crops = [model.vision.preprocess(picture(seed)) for seed in range(3)]
    with torch.inference_mode():
        ahead = image_tokens(model, [encode(model, one) for one in crops])
        torch.testing.assert_close(ahead, image_tokens(model, crops), rtol=1e-4, atol=1e-4)


def test_a_picture_that_cannot_be_encoded_fails_its_own_request(cores: None) -> None:
    def fail() -> None:
        raise RuntimeError("no memory for this picture")

    with Photon.load("photon-tiny", EngineConfig(device="cpu", threads=1)) as model:
        known = model.encode_image(picture(1))
        model.point(known, "cat")
        encoders(model, fail)
        with pytest.raises((PhotonError, RuntimeError), match="no memory"):
            model.point(picture(2), "cat")
        assert model.point(known, "cat").metrics.tokens


@pytest.mark.parametrize(("threads", "spare"), [(MANY - 1, True), (MANY, False), (MANY + 1, False)])
def test_cores_are_spare_beside_fewer_threads(cores: None, threads: int, spare: bool) -> None:
    torch.set_num_threads(threads)
    assert spare_cores() is spare
