"""From the bytes of a file to an upright RGB picture, or to one sentence that says why not.

What browsers and cameras hand over is not what a model may see: rotated photographs, 16-bit and
float samples, palettes, transparency, animations, other colour spaces. This module and `photon.to_rgb`
settle all of it, and it checks size limits on the header, before a pixel is decoded.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image
from pillow_heif import register_heif_opener

from photon import to_rgb

register_heif_opener()

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "HEIF")
FORMATS_IN_WORDS = "JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF or HEIC"

_T = Image.Transpose
# EXIF orientation -> what brings the stored pixels upright.
_UPRIGHT = {
    2: _T.FLIP_LEFT_RIGHT,
    3: _T.ROTATE_180,
    4: _T.FLIP_TOP_BOTTOM,
    5: _T.TRANSPOSE,
    6: _T.ROTATE_270,
    7: _T.TRANSVERSE,
    8: _T.ROTATE_90,
}


class PictureError(ValueError):
    """A picture is refused; the sentence is fit to be shown to the person who sent it."""


class NotAPictureError(PictureError):
    """The bytes are not a picture in a format that is read here."""


class DamagedPictureError(PictureError):
    """The file starts as a picture but is cut short or broken."""


class PictureTooLargeError(PictureError):
    """A limit on bytes, pixels or side ratio is passed."""


@dataclass(frozen=True)
class PictureLimits:
    """What is accepted: file size in MB (10^6 bytes), megapixels, long side over short side."""

    max_mb: float = 20.0
    max_megapixels: float = 50.0
    max_ratio: float = 50.0

    def check_bytes(self, count: int) -> None:
        """Raises PictureError for an empty or too large file of `count` bytes."""
        if count == 0:
            raise NotAPictureError("The file is empty.")
        if count > self.max_mb * 1e6:
            raise PictureTooLargeError(f"The file has {count / 1e6:.1f} MB; at most {self.max_mb:g} MB are accepted.")

    def check_size(self, width: int, height: int) -> None:
        """Raises PictureTooLargeError for too many pixels or too long a strip."""
        if width * height > self.max_megapixels * 1e6:
            raise PictureTooLargeError(
                f"The picture has {width} × {height} = {width * height / 1e6:.1f} megapixels; "
                f"at most {self.max_megapixels:g} are accepted."
            )
        if max(width, height) > self.max_ratio * min(width, height):
            raise PictureTooLargeError(
                f"The picture is {width} × {height}; its long side may be at most "
                f"{self.max_ratio:g} times its short side."
            )


def read_picture(path: Path, limits: PictureLimits) -> NDArray[np.uint8]:
    """The upright picture of a file, uint8 [H, W, 3] RGB. Raises PictureError."""
    try:
        limits.check_bytes(path.stat().st_size)
        data = path.read_bytes()
    except OSError:
        raise PictureError("The picture is no longer on the server; please add it again.") from None
    return decode_picture(data, limits)


def decode_picture(data: bytes, limits: PictureLimits) -> NDArray[np.uint8]:
    """The upright picture of a file's bytes, uint8 [H, W, 3] RGB, C-contiguous. Raises PictureError."""
    limits.check_bytes(len(data))
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError:
        raise PictureTooLargeError(
            f"The picture has far more than the {limits.max_megapixels:g} megapixels that are accepted."
        ) from None
    except Exception:
        # Decoders raise many kinds of error on a broken header; all of them mean the same here.
        raise NotAPictureError(f"This file is not a picture that can be read here ({FORMATS_IN_WORDS}).") from None
    with image:
        limits.check_size(*image.size)
        try:
            image.load()
            rgb = _upright(to_rgb(image), image)
        except Exception:
            raise DamagedPictureError("The picture is damaged or cut short and cannot be read.") from None
        return np.ascontiguousarray(np.asarray(rgb), dtype=np.uint8)


def _upright(rgb: Image.Image, source: Image.Image) -> Image.Image:
    """Apply the EXIF orientation of `source`, read after its pixels: a PNG may carry it at its end."""
    try:
        turn = _UPRIGHT.get(source.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        turn = None  # a broken EXIF block is common and says nothing about the pixels
    return rgb if turn is None else rgb.transpose(turn)
