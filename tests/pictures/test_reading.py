"""photon.pictures: every kind of file becomes an upright RGB picture, or one sentence."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from photon import (
    DamagedPictureError,
    NotAPictureError,
    PictureError,
    PictureLimits,
    PictureTooLargeError,
    decode_picture,
    read_picture,
)

LIMITS = PictureLimits()
RED, GREEN, BLUE, WHITE = (200, 30, 30), (30, 200, 30), (30, 30, 200), (255, 255, 255)


def corners() -> Image.Image:
    """48 x 32, one colour a quarter: red, green above blue, white; no symmetry."""
    image = Image.new("RGB", (48, 32))
    for box, colour in {
        (0, 0, 24, 16): RED,
        (24, 0, 48, 16): GREEN,
        (0, 16, 24, 32): BLUE,
        (24, 16, 48, 32): WHITE,
    }.items():
        image.paste(colour, box)
    return image


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def assert_corners(pixels: np.ndarray, tolerance: int = 12) -> None:
    assert pixels.shape == (32, 48, 3)
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    for (y, x), colour in {(8, 12): RED, (8, 36): GREEN, (24, 12): BLUE, (24, 36): WHITE}.items():
        np.testing.assert_allclose(pixels[y, x].astype(int), colour, atol=tolerance)


@pytest.mark.parametrize(
    ("kind", "options", "tolerance"),
    [
        ("JPEG", {"quality": 95}, 12),
        ("JPEG", {"quality": 95, "progressive": True}, 12),
        ("PNG", {}, 0),
        ("WEBP", {"lossless": True}, 0),
        ("GIF", {}, 12),
        ("BMP", {}, 0),
        ("TIFF", {"compression": "tiff_lzw"}, 0),
        ("AVIF", {"quality": 95}, 16),
        ("HEIF", {"quality": 95}, 16),
    ],
)
def test_every_format_is_read(kind: str, options: dict[str, Any], tolerance: int) -> None:
    assert_corners(decode_picture(saved(corners(), kind, **options), LIMITS), tolerance)


STORED_AS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_all_eight_orientations_come_out_upright(kind: str, orientation: int) -> None:
    turn = STORED_AS[orientation]
    stored = corners() if turn is None else corners().transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert_corners(decode_picture(saved(stored, kind, exif=exif), LIMITS), 30)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_heic_orientation_is_applied_once(orientation: int) -> None:
    turn = STORED_AS[orientation]
    stored = corners() if turn is None else corners().transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert_corners(decode_picture(saved(stored, "HEIF", quality=95, exif=exif.tobytes()), LIMITS), 16)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize(
    "exif",
    [
        b"",
        b"Exif\x00\x00",
        b"Exif\x00\x00MM\x00*\xff\xff\xff\xff",
        b"Exif\x00\x00II*\x00\x08\x00\x00\x00\xff",
        b"junk" * 9,
    ],
)
def test_a_broken_exif_block_is_ignored(exif: bytes) -> None:
    assert_corners(decode_picture(saved(corners(), "JPEG", quality=95, exif=exif), LIMITS))


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_unknown_orientation_is_ignored(value: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = value
    assert_corners(decode_picture(saved(corners(), "JPEG", quality=95, exif=exif), LIMITS))


def ramp(dtype: Any, top: float) -> Image.Image:
    """256 x 8 grey samples from 0 to `top`."""
    return Image.fromarray(np.tile(np.linspace(0, top, 256), (8, 1)).astype(dtype))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("16-bit PNG", lambda: saved(ramp(np.uint16, 65535), "PNG")),
        ("16-bit TIFF", lambda: saved(ramp(np.uint16, 65535), "TIFF")),
        ("16-bit big-endian TIFF", lambda: saved(ramp(">u2", 65535), "TIFF")),
        ("32-bit TIFF", lambda: saved(ramp(np.int32, 65535), "TIFF")),
        ("32-bit TIFF of small values", lambda: saved(ramp(np.int32, 255), "TIFF")),
        ("32-bit TIFF of huge values", lambda: saved(ramp(np.int32, 2**30), "TIFF")),
        ("float TIFF 0..1", lambda: saved(ramp(np.float32, 1.0), "TIFF")),
        ("float TIFF 0..255", lambda: saved(ramp(np.float32, 255.0), "TIFF")),
        ("float TIFF of huge values", lambda: saved(ramp(np.float32, 1e7), "TIFF")),
    ],
)
def test_deep_samples_are_scaled_not_clipped(name: str, data: Callable[[], bytes]) -> None:
    pixels = decode_picture(data(), LIMITS)
    np.testing.assert_allclose(pixels[0, :, 0].astype(int), np.arange(256), atol=1, err_msg=name)
    assert (pixels[..., 0] == pixels[..., 2]).all()


def test_a_dark_16_bit_picture_stays_dark() -> None:
    assert decode_picture(saved(ramp(np.uint16, 6553), "PNG"), LIMITS).max() == 25


def test_negative_and_not_finite_samples() -> None:
    samples = np.array([[-1.0, 0.0, 1.0, np.nan], [np.inf, -np.inf, 0.5, -0.5]], np.float32)
    pixels = decode_picture(saved(Image.fromarray(samples), "TIFF"), LIMITS)[..., 0]
    np.testing.assert_array_equal(pixels, [[0, 128, 255, 128], [128, 128, 191, 64]])


def test_a_constant_float_picture_is_black_at_zero() -> None:
    assert decode_picture(saved(Image.fromarray(np.zeros((4, 4), np.float32)), "TIFF"), LIMITS).max() == 0


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "AVIF"])
def test_transparency_is_laid_on_white(kind: str) -> None:
    image = Image.new("RGBA", (8, 8), (200, 0, 0, 0))
    image.paste((200, 0, 0, 255), (0, 0, 4, 8))
    pixels = decode_picture(saved(image, kind), LIMITS).astype(int)
    np.testing.assert_allclose(pixels[4, 1], (200, 0, 0), atol=12)
    np.testing.assert_allclose(pixels[4, 6], WHITE, atol=3)


def test_half_transparency_mixes_with_white() -> None:
    pixels = decode_picture(saved(Image.new("RGBA", (4, 4), (0, 0, 0, 128)), "PNG"), LIMITS)
    np.testing.assert_allclose(pixels.astype(int), 127, atol=1)


def test_transparent_grey_palette_and_colour_key() -> None:
    grey = Image.new("LA", (4, 4), (0, 0))
    assert decode_picture(saved(grey, "PNG"), LIMITS).min() == 255
    palette = corners().quantize(8)
    key = palette.getpixel((0, 0))
    keyed = decode_picture(saved(palette, "PNG", transparency=key), LIMITS)
    np.testing.assert_array_equal(keyed[8, 12], WHITE)
    np.testing.assert_allclose(keyed[8, 36].astype(int), GREEN, atol=12)
    colour_key = decode_picture(saved(corners(), "PNG", transparency=RED), LIMITS)
    np.testing.assert_array_equal(colour_key[8, 12], WHITE)
    np.testing.assert_array_equal(colour_key[24, 12], BLUE)


def test_palette_cmyk_one_bit_and_grey() -> None:
    assert_corners(decode_picture(saved(corners().quantize(16), "PNG"), LIMITS))
    assert_corners(decode_picture(saved(corners().convert("CMYK"), "JPEG", quality=95), LIMITS), 30)
    assert_corners(decode_picture(saved(corners().convert("CMYK"), "TIFF"), LIMITS), 30)
    one_bit = decode_picture(saved(Image.new("1", (5, 3), 1), "PNG"), LIMITS)
    assert one_bit.shape == (3, 5, 3)
    assert (one_bit == 255).all()
    assert (decode_picture(saved(Image.new("L", (5, 3), 77), "PNG"), LIMITS) == 77).all()


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_an_animation_the_first_frame_is_taken(kind: str) -> None:
    later = Image.new("RGB", (48, 32), (9, 9, 9))
    data = saved(corners(), kind, save_all=True, append_images=[later, later])
    assert_corners(decode_picture(data, LIMITS), 30)


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and brings next to no pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 9)) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore:Image size")
@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"", NotAPictureError, "empty"),
        (b"just text, whatever its name says", NotAPictureError, "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", NotAPictureError, "not a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", NotAPictureError, "not a picture"),
        (b"\x89PNG\r\n\x1a\n", NotAPictureError, "not a picture"),
        (saved(corners(), "PNG")[:90], DamagedPictureError, "damaged or cut short"),
        (saved(corners(), "JPEG")[:640], DamagedPictureError, "damaged or cut short"),
        (saved(corners(), "WEBP")[:60], PictureError, "picture"),
        (png_header(64, 64), DamagedPictureError, "damaged or cut short"),
        (png_header(10_000, 10_000), PictureTooLargeError, "100.0 megapixels; at most 50"),
        (png_header(60_000, 60_000), PictureTooLargeError, "megapixels"),
        (png_header(20_000, 1), PictureTooLargeError, "long side"),
        (png_header(1, 20_000), PictureTooLargeError, "long side"),
        (b"\0" * 20_000_001, PictureTooLargeError, "20.0 MB; at most 20 MB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-",
)
def test_what_is_refused_and_how(data: bytes, kind: type[PictureError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        decode_picture(data, LIMITS)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_limits_are_checked_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("decoded a picture that the limits refuse")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", forbidden)
    with pytest.raises(PictureTooLargeError):
        decode_picture(saved(Image.new("RGB", (60, 60)), "PNG"), PictureLimits(max_megapixels=0.003))


def test_limits_come_from_the_caller() -> None:
    data = saved(corners(), "PNG")
    with pytest.raises(PictureTooLargeError, match=r"0\.0 megapixels; at most 0\.001"):
        decode_picture(data, PictureLimits(max_megapixels=0.001))
    with pytest.raises(PictureTooLargeError, match="MB"):
        decode_picture(data, PictureLimits(max_mb=len(data) / 1e6 - 1e-6))
    assert_corners(decode_picture(data, PictureLimits(max_mb=len(data) / 1e6, max_megapixels=48 * 32 / 1e6)))


def test_a_file_that_is_gone_or_too_large(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match=r"There is no file '.*gone\.png'"):
        read_picture(tmp_path / "gone.png", LIMITS)
    with pytest.raises(PictureError, match="cannot be read: Is a directory"):
        read_picture(tmp_path, LIMITS)
    large = tmp_path / "large.png"
    with large.open("wb") as file:
        file.truncate(30_000_000)
    with pytest.raises(PictureTooLargeError, match=r"30\.0 MB"):
        read_picture(large, LIMITS)
    small = tmp_path / "small.png"
    small.write_bytes(saved(corners(), "PNG"))
    assert_corners(read_picture(small, LIMITS), 0)


def test_one_pixel_is_a_picture() -> None:
    assert decode_picture(saved(Image.new("RGB", (1, 1), RED), "PNG"), LIMITS).tolist() == [[list(RED)]]
