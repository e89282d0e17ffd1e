"""From the bytes of a file to an upright RGB picture, or to one sentence that says why not.

What browsers and cameras hand over is not what a model may see: rotated photographs, 16-bit and
float samples, palettes, transparency, animations, other colour spaces. This module and colours.py
settle all of it, and size limits are checked on the header, before a pixel is decoded.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image
from pillow_heif import register_heif_opener

from photon.errors import DamagedPictureError, NotAPictureError, PictureError, PictureTooLargeError
from photon.pictures.colours import to_rgb
from photon.pictures.limits import PictureLimits
from photon.pictures.png import without_texts

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


def read_picture(path: Path, limits: PictureLimits) -> NDArray[np.uint8]:
    """The upright picture of a file, uint8 [H, W, 3] RGB. Raises PictureError."""
    try:
        limits.check_bytes(path.stat().st_size)
        data = path.read_bytes()
    except FileNotFoundError:
        raise PictureError(f"There is no file {str(path)!r}.") from None
    except OSError as error:
        raise PictureError(f"The file {str(path)!r} cannot be read: {error.strerror}.") from None
    return decode_picture(data, limits)


def decode_picture(data: bytes, limits: PictureLimits) -> NDArray[np.uint8]:
    """The upright picture of a file's bytes, uint8 [H, W, 3] RGB, C-contiguous. Raises PictureError."""
    limits.check_bytes(len(data))
    try:
        image = Image.open(io.BytesIO(without_texts(data)), formats=FORMATS)
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
