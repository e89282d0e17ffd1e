"""The recorded models of tests/data/parity: their files, and engines that run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

from photon import EngineConfig, Photon
from tests.paths import PARITY

REFS = [[0.25, 0.5], [0.1, 0.2, 0.6, 0.9]]
"""The spatial references of the recorded query."""


def folder(name: str) -> Path:
    return PARITY / name


def read(name: str, file: str) -> Any:
    return json.loads((PARITY / name / file).read_text())


def image(name: str) -> Image.Image:
    return Image.open(PARITY / name / "image.png").convert("RGB")


def load(name: str, **config: Any) -> Photon:
    """A small engine on the CPU with one thread, so that sums run in one order."""
    return Photon.load(str(folder(name)), EngineConfig(**{"device": "cpu", "threads": 1, "max_batch": 4, **config}))
