"""The picture of a request: a data URL, decoded by the same rules as an upload on the page."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any
from urllib.parse import unquote_to_bytes

from app.api.problems import ApiError
from app.engines.holder import Engine
from photon import PictureLimits, decode_picture

_ALLOWED = "a data URL is expected: data:image/jpeg;base64,... This server fetches no addresses"
_STANDARD = bytes.maketrans(b"-_", b"+/")
"""The alphabet for addresses, which some encoders use; they also leave out the = at the end."""
_AT_ONCE = 2  # pictures decoded at the same time; one may take hundreds of megabytes meanwhile


class ImageReader:
    """Data URLs to encoded images, a few at a time and off the event loop."""

    def __init__(self, limits: PictureLimits) -> None:
        self._limits = limits
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def read(self, engine: Engine, url: Any) -> Any:
        """The encoded image (see `photon.Photon.encode_image`). Raises ApiError and PictureError."""
        if not isinstance(url, str):
            raise ApiError(400, f"The image is {'missing' if url is None else 'not a string'}; {_ALLOWED}.")
        async with self._gate:
            return await asyncio.to_thread(
                lambda: engine.encode_image(decode_picture(data_of(url, self._limits), self._limits))
            )


def data_of(url: str, limits: PictureLimits) -> bytes:
    """The bytes in a base64 data URL. Raises ApiError 400, and PictureTooLargeError before it decodes too much."""
    head, comma, text = url.partition(",")
    if not comma or not head.lower().startswith("data:") or not head.lower().endswith(";base64"):
        raise ApiError(400, f"The image begins with {url[:40]!r}; {_ALLOWED}.")
    limits.check_bytes(max(1, len(text) * 3 // 4))  # an empty one is refused when its bytes are known
    try:
        digits = unquote_to_bytes(text).translate(_STANDARD, b" \t\r\n=")
        return base64.b64decode(digits + b"=" * (-len(digits) % 4), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise ApiError(400, f"The image's data URL is not valid base64: {_fault(text)}.") from None


def _fault(text: str) -> str:
    """What is wrong with it, for whoever made it."""
    if odd := next((c for c in text if not (c.isascii() and (c.isalnum() or c in "+/-_=% \t\r\n"))), None):
        return f"it holds the character {odd!r}"
    return "it ends within a group of four characters"
