"""Files that the page's visitors have sent and that Gradio keeps for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from photon import PictureError, PictureLimits, read_picture


def read_upload(path: Path, limits: PictureLimits) -> NDArray[np.uint8]:
    """As `photon.read_picture`; Gradio clears its files after a while. Raises PictureError."""
    if not path.is_file():
        raise PictureError("The picture is no longer on the server; please add it again.")
    return read_picture(path, limits)
