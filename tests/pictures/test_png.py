"""PNG files with long texts and large profiles: read, and nothing of them kept."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from photon import DamagedPictureError, PictureLimits, decode_picture
from photon.pictures.png import without_texts

LIMITS = PictureLimits()
LONG = b"a" * 1_100_000


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(before: bytes = b"", after: bytes = b"") -> bytes:
    """64 x 64 random pixels, with chunks put in before and after them."""
    buffer = io.BytesIO()
    Image.fromarray(pixels()).save(buffer, "PNG")
    data = buffer.getvalue()
    first, last = data.index(b"IDAT") - 4, data.index(b"IEND") - 4
    return data[:first] + before + data[first:last] + after + data[last:]


def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)


EXTRAS = {
    "packed text": chunk(b"zTXt", b"Comment\0\0" + zlib.compress(LONG)),
    "international text": chunk(b"iTXt", b"XML\0\1\0\0\0" + zlib.compress(LONG)),
    "plain text": chunk(b"tEXt", b"Comment\0" + LONG),
    "many texts": b"".join(chunk(b"zTXt", b"Comment\0\0" + zlib.compress(LONG)) for _ in range(70)),
}


@pytest.mark.parametrize("name", EXTRAS)
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_text_of_any_length_keeps_no_picture_from_being_read(name: str, where: str) -> None:
    data = png(**{where: EXTRAS[name]})
    np.testing.assert_array_equal(decode_picture(data, LIMITS), pixels())
    assert len(without_texts(data)) < len(data) - 100


def test_a_colour_profile_that_is_too_large_is_left_out() -> None:
    data = png(before=chunk(b"iCCP", b"big\0\0" + zlib.compress(bytes(1_200_000))))
    np.testing.assert_array_equal(decode_picture(data, LIMITS), pixels())
    broken = png(before=chunk(b"iCCP", b"big\0\0no stream"))
    np.testing.assert_array_equal(decode_picture(broken, LIMITS), pixels())


def test_other_bytes_stay_as_they_are() -> None:
    assert without_texts(png()) == png()
    assert without_texts(b"GIF89a") == b"GIF89a"


def test_a_file_that_is_cut_short_is_still_said_to_be() -> None:
    for cut in (60, 200, 3000):
        with pytest.raises(DamagedPictureError):
            decode_picture(png()[:cut], LIMITS)
