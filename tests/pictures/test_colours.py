"""Colour profiles: a picture is seen as it was meant, wherever it comes in."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from photon import PictureLimits, decode_picture, to_rgb
from tests.pictures.profiles import ADOBE_GAMMA, ADOBE_RGB, DISPLAY_P3, inks_profile, matrix_profile, srgb_curve

P3 = matrix_profile(DISPLAY_P3, srgb_curve())
P3_OF_GAMMA = matrix_profile(DISPLAY_P3, 2.2)
ADOBE = matrix_profile(ADOBE_RGB, ADOBE_GAMMA)


def read(image: Image.Image, kind: str, **options: Any) -> list[int]:
    """The first pixel as it is read from a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return [int(value) for value in decode_picture(buffer.getvalue(), PictureLimits())[2, 2]]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF", "AVIF", "HEIF"])
@pytest.mark.parametrize(
    ("profile", "given", "meant"),
    [
        (P3, (200, 60, 60), (217, 42, 52)),
        (P3_OF_GAMMA, (200, 60, 60), (219, 37, 49)),
        (ADOBE, (60, 200, 60), (0, 201, 36)),
    ],
    ids=["Display P3", "P3 with a plain gamma", "Adobe RGB"],
)
def test_a_wide_colour_is_read_as_it_was_meant(
    kind: str, profile: bytes, given: tuple[int, ...], meant: tuple[int, ...]
) -> None:
    options = {"lossless": True} if kind == "WEBP" else {"quality": 100} if kind in ("JPEG", "AVIF", "HEIF") else {}
    found = read(Image.new("RGB", (8, 8), given), kind, icc_profile=profile, **options)
    np.testing.assert_allclose(found, meant, atol=2 if kind in ("PNG", "TIFF") else 6)


def test_transparency_and_palettes_keep_their_profile() -> None:
    half = Image.new("RGBA", (8, 8), (200, 60, 60, 255))
    np.testing.assert_allclose(read(half, "PNG", icc_profile=P3), (217, 42, 52), atol=2)
    clear = Image.new("RGBA", (8, 8), (200, 60, 60, 0))
    assert read(clear, "PNG", icc_profile=P3) == [255, 255, 255]
    palette = Image.new("RGB", (8, 8), (200, 60, 60)).quantize(4)
    np.testing.assert_allclose(read(palette, "PNG", icc_profile=P3), (217, 42, 52), atol=3)


def test_inks_are_mixed_as_their_profile_says() -> None:
    """Of this paper and these inks full cyan is a mid grey, which no rule of thumb would make of it."""
    profile = inks_profile({0: (128, 128, 128)})
    tagged = read(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "TIFF", icc_profile=profile)
    np.testing.assert_allclose(tagged, (117, 117, 117), atol=6)
    assert read(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "TIFF") == [0, 255, 255]


def test_srgb_stays_as_it_is() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert read(Image.new("RGB", (8, 8), (200, 60, 61)), "PNG", icc_profile=profile) == [200, 60, 61]


@pytest.mark.parametrize("profile", [b"junk", P3[:200], b"", P3.replace(b"acsp", b"____")])
def test_a_broken_profile_says_nothing(profile: bytes) -> None:
    assert read(Image.new("RGB", (8, 8), (200, 60, 60)), "PNG", icc_profile=profile) == [200, 60, 60]


def test_a_profile_of_another_kind_of_picture_says_nothing() -> None:
    assert read(Image.new("L", (8, 8), 77), "PNG", icc_profile=P3) == [77, 77, 77]
    assert read(Image.new("RGB", (8, 8), (1, 2, 3)), "PNG", icc_profile=inks_profile({})) == [1, 2, 3]


def test_a_picture_from_python_is_read_by_the_same_rule() -> None:
    image = Image.new("RGB", (8, 8), (200, 60, 60))
    image.info["icc_profile"] = P3
    np.testing.assert_allclose(np.asarray(to_rgb(image))[0, 0], (217, 42, 52), atol=2)
