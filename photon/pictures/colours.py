"""Any picture that Pillow reads as the 8-bit sRGB that a model sees."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

_SRGB = ImageCms.createProfile("sRGB")
_WITH_PROFILES = ("RGB", "RGBA", "CMYK", "L")
"""Modes that are converted as they are; others have become one of them before."""


def to_rgb(image: Image.Image) -> Image.Image:
    """Any Pillow mode to 8-bit sRGB: deep samples scaled, colour profiles applied, transparency laid on white."""
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(_to_8_bit(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        rgba = _in_srgb(image.convert("RGBA"), image.info.get("icc_profile"), "RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    plain = image if image.mode in _WITH_PROFILES else image.convert("RGB")
    return _in_srgb(plain, image.info.get("icc_profile"), "RGB").convert("RGB")


def _in_srgb(image: Image.Image, profile: bytes | None, mode: str) -> Image.Image:
    """As its ICC profile means it. A profile that is broken, or of another kind of picture, says nothing."""
    if not profile:
        return image
    try:
        own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if ImageCms.getProfileDescription(own).startswith("sRGB"):
            return image
        converted = ImageCms.profileToProfile(image, own, _SRGB, outputMode=mode)
    except (ImageCms.PyCMSError, OSError, ValueError):
        return image
    return converted if converted is not None else image


def _to_8_bit(samples: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Grey samples of any depth, [H, W], to 0..255.

    uint16 uses its whole range. Wider kinds have none, so the smallest of 0..1 (floats only), 0..255
    and 0..65535 that holds all values is taken, and else the picture's own least and greatest value.
    """
    if np.issubdtype(samples.dtype, np.uint16):
        return np.round(samples.astype(np.float32) / 257.0).astype(np.uint8)
    floats = np.nan_to_num(samples.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(floats.min()), float(floats.max())
    ranges = (1.0, 255.0, 65535.0) if np.issubdtype(samples.dtype, np.floating) else (255.0, 65535.0)
    if low >= 0.0:
        low, high = 0.0, next((top for top in ranges if high <= top), high)
    scale = 255.0 / (high - low) if high > low else 0.0
    return np.round((floats - low) * scale).astype(np.uint8)
