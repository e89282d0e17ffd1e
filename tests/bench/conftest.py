from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.paths import PARITY

MODEL = str(PARITY / "md2")
"""The smallest whole model at hand."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two small pictures of one colour, and a file that is none."""
    for i in range(2):
        Image.fromarray(np.full((24, 24, 3), 60 + 90 * i, np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "notes.txt").write_text("not a picture")
    return tmp_path
