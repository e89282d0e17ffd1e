"""Pictures for tests, and as files."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image


def picture(width: int = 60, height: int = 40) -> Image.Image:
    """One in which neighbouring pixels differ, so that resizing and cropping show."""
    y, x = np.mgrid[0:height, 0:width]
    return Image.fromarray(np.stack([x * 4 % 256, y * 6 % 256, (x * y) % 256], axis=-1).astype(np.uint8))


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """One that no other seed gives, and that no format makes small."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8))


def png(image: Image.Image | None = None) -> bytes:
    """As a file; without a picture a plain one of 40 x 20."""
    buffer = io.BytesIO()
    (image or Image.new("RGB", (40, 20))).save(buffer, "PNG")
    return buffer.getvalue()


def data_url(data: bytes | None = None, kind: str = "image/jpeg") -> str:
    if data is None:
        buffer = io.BytesIO()
        picture().save(buffer, format="JPEG", quality=95)
        data = buffer.getvalue()
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
