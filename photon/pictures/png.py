"""PNG files without what is not their picture: texts of any length must neither be kept nor stop a reader."""

from __future__ import annotations

import struct
import zlib

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_MAX_PROFILE = 1 << 20
"""Bytes that a colour profile may have unpacked, as readers allow."""


def without_texts(data: bytes) -> bytes:
    """The same file without its texts, and without a colour profile that is too large; other bytes as they are."""
    if not data.startswith(_SIGNATURE):
        return data
    kept, at = [_SIGNATURE], len(_SIGNATURE)
    while at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if kind not in _TEXTS and not (kind == b"iCCP" and _too_large(data[at + 8 : at + 8 + length])):
            kept.append(data[at:end])
        at = end
    return b"".join(kept)


def _too_large(profile: bytes) -> bool:
    """Of the chunk `name NUL method packed`: whether it unpacks to more than is read."""
    unpacker = zlib.decompressobj()
    try:
        unpacker.decompress(profile[profile.index(b"\0") + 2 :], _MAX_PROFILE)
    except (ValueError, zlib.error):
        return True
    return not unpacker.eof
