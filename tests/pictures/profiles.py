"""ICC profiles made by hand: a few tags of the format's version 2."""

from __future__ import annotations

import struct
from itertools import product

DISPLAY_P3 = ((0.51512, 0.2412, -0.00105), (0.29198, 0.69225, 0.04189), (0.1571, 0.06657, 0.78407))
ADOBE_RGB = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
"""XYZ of red, green and blue, adapted to D50."""
ADOBE_GAMMA = 2.19921875
_D50 = (0.9642, 1.0, 0.8249)


def srgb_curve() -> list[float]:
    """The transfer curve that Display P3 shares with sRGB, at 1024 places."""
    return [_linear(i / 1023) for i in range(1024)]


def matrix_profile(primaries: tuple[tuple[float, ...], ...], curve: list[float] | float, name: str = "test") -> bytes:
    tags = {b"wtpt": _xyz(_D50)}
    for letter, primary in zip(b"rgb", primaries, strict=True):
        tags[bytes([letter]) + b"XYZ"] = _xyz(primary)
        tags[bytes([letter]) + b"TRC"] = _curve(curve)
    return _profile(b"RGB ", b"XYZ ", tags, name)


def inks_profile(lab_of_ink: dict[int, tuple[int, int, int]]) -> bytes:
    """A CMYK profile of two grid points an ink: white paper, and what each ink alone makes, as 8-bit Lab."""
    inks = [
        lab_of_ink.get(bits.index(1) if sum(bits) == 1 else -1, (40, 128, 128)) for bits in product((0, 1), repeat=4)
    ]
    inks[0] = (255, 128, 128)
    identity = bytes(range(256))
    matrix = struct.pack(">9i", *(65536 if i % 4 == 0 else 0 for i in range(9)))
    cube = b"".join(bytes(lab) for lab in inks)
    table = b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + matrix + identity * 4 + cube + identity * 3
    return _profile(b"CMYK", b"Lab ", {b"wtpt": _xyz(_D50), b"A2B0": table}, "inks")


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _xyz(values: tuple[float, ...]) -> bytes:
    return b"XYZ " + bytes(4) + struct.pack(">3i", *(round(v * 65536) for v in values))


def _curve(curve: list[float] | float) -> bytes:
    if isinstance(curve, float):
        return b"curv" + bytes(4) + struct.pack(">IH", 1, round(curve * 256))
    return b"curv" + bytes(4) + struct.pack(f">I{len(curve)}H", len(curve), *(round(v * 65535) for v in curve))


def _profile(space: bytes, pcs: bytes, tags: dict[bytes, bytes], name: str) -> bytes:
    text = name.encode() + b"\0"
    described = b"desc" + bytes(4) + struct.pack(">I", len(text)) + text + bytes(78)
    tags = {b"desc": described, b"cprt": b"text" + bytes(4) + b"none\0", **tags}
    at, table, body = 128 + 4 + 12 * len(tags), b"", b""
    for key, data in tags.items():
        data += bytes(-len(data) % 4)
        table += key + struct.pack(">II", at + len(body), len(data))
        body += data
    kind = b"prtr" if space == b"CMYK" else b"mntr"
    size = at + len(body)
    head = struct.pack(">I4sI4s4s4s", size, b"none", 0x02100000, kind, space, pcs) + bytes(12) + b"acsp" + bytes(28)
    head += struct.pack(">3i", *(round(v * 65536) for v in _D50))
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body
