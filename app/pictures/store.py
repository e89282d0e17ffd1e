"""The pictures that visitors bring, kept for a while under names that cannot be guessed.

A visitor's page holds a `Picture` (a few words); the bytes lie in a private folder of this process:
the file as it was sent, from which the model's pixels are read, and an upright copy for display.
Both go when they have not been used for a while or when the folder passes its size.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from photon import PictureError, PictureLimits, decode_picture

SHOWN_SIDE = 2560  # pixels; a longer side is shown smaller, the model still sees all of it
SHOWN_QUALITY = 92
GONE = "This picture was removed because it was not used for a while; please add it again."


@dataclass(frozen=True)
class Picture:
    """What a visitor's page remembers: width and height are those of the upright picture in pixels; `title` says what
    it shows, where that is known."""

    token: str
    name: str
    width: int
    height: int
    ingest_ms: float
    credit: str = ""
    title: str = ""

    @property
    def url(self) -> str:
        """Relative to the page, so that it works behind any prefix."""
        return f"pictures/{self.token}.jpg"


@dataclass
class _Kept:
    source: Path
    shown: Path
    size: int
    used_s: float


class PictureStore:
    """Thread-safe; holds at most `max_disk_mb` on disk and `max_pixels_mb` of decoded pixels."""

    def __init__(
        self,
        limits: PictureLimits,
        max_age_s: float = 3600.0,
        max_disk_mb: float = 1024.0,
        max_pixels_mb: float = 64.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self._max_age_s = max_age_s
        self._max_disk = max_disk_mb * 1e6
        self._max_pixels = max_pixels_mb * 1e6
        self._clock = clock
        self.folder = Path(tempfile.mkdtemp(prefix="photon-pictures-"))
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # least recently used first
        self.decoded: OrderedDict[str, NDArray[np.uint8]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, data: bytes, name: str, credit: str = "", title: str = "") -> Picture:
        """Read, keep and describe a picture. Raises PictureError."""
        start = time.perf_counter()
        pixels = decode_picture(data, self.limits)
        ingest_ms = (time.perf_counter() - start) * 1e3
        token = secrets.token_urlsafe(18)
        source, shown = self.folder / f"{token}.source", self.folder / f"{token}.jpg"
        source.write_bytes(data)
        copy = Image.fromarray(pixels)
        copy.thumbnail((SHOWN_SIDE, SHOWN_SIDE), Image.Resampling.LANCZOS)
        copy.save(shown, "JPEG", quality=SHOWN_QUALITY, subsampling=0)
        size = len(data) + shown.stat().st_size
        with self._lock:
            self._kept[token] = _Kept(source, shown, size, self._clock())
            self._remember(token, pixels)
            self._sweep()
        return Picture(token, name, pixels.shape[1], pixels.shape[0], ingest_ms, credit, title)

    def place(self, ending: str) -> tuple[str, Path]:
        """A new token and where its file may be written; `keep` makes it known."""
        token = secrets.token_urlsafe(18)
        return token, self.folder / f"{token}.{ending}"

    def keep(self, token: str, path: Path) -> None:
        """Let `shown` hand out a file that was written where `place` said, for as long as pictures are kept."""
        with self._lock:
            self._kept[token] = _Kept(path, path, path.stat().st_size, self._clock())
            self._sweep()

    def pixels(self, token: str) -> NDArray[np.uint8]:
        """The model's pixels, uint8 [H, W, 3]. Raises PictureError when the picture has gone."""
        with self._lock:
            kept = self._touch(token)
            pixels = self.decoded.get(token)
            if pixels is not None:
                self.decoded.move_to_end(token)
                return pixels
        if kept is None:
            raise PictureError(GONE)
        try:
            pixels = decode_picture(kept.source.read_bytes(), self.limits)
        except OSError:
            raise PictureError(GONE) from None
        with self._lock:
            self._remember(token, pixels)
        return pixels

    def shown(self, token: str) -> Path | None:
        """The file behind a token that may be handed out (a display copy or a kept file), or None."""
        with self._lock:
            kept = self._touch(token)
        return kept.shown if kept else None

    def close(self) -> None:
        """Remove everything from disk."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _touch(self, token: str) -> _Kept | None:
        self._sweep()
        kept = self._kept.get(token)
        if kept is not None:
            kept.used_s = self._clock()
            self._kept.move_to_end(token)
        return kept

    def _remember(self, token: str, pixels: NDArray[np.uint8]) -> None:
        if token not in self._kept:
            return
        pixels.setflags(write=False)
        self.decoded[token] = pixels
        self.decoded.move_to_end(token)
        while sum(one.nbytes for one in self.decoded.values()) > self._max_pixels and len(self.decoded) > 1:
            self.decoded.popitem(last=False)

    def _sweep(self) -> None:
        """Drop what is too old, and the least recently used while the folder is too large."""
        old = self._clock() - self._max_age_s
        size = sum(kept.size for kept in self._kept.values())
        for token in list(self._kept):
            kept = self._kept[token]
            if kept.used_s >= old and (size <= self._max_disk or len(self._kept) == 1):
                break
            size -= kept.size
            del self._kept[token]
            self.decoded.pop(token, None)
            kept.source.unlink(missing_ok=True)
            kept.shown.unlink(missing_ok=True)
