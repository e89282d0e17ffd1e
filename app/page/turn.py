"""One visitor's questions, one after the other: another picture ends the one that is still on its way."""

from __future__ import annotations

import asyncio


class Turn:
    """Kept in a visitor's session; used on the event loop only."""

    def __init__(self) -> None:
        self._over: asyncio.Event | None = None

    def begin(self) -> asyncio.Event:
        """A question is asked; what is returned is set when its answer is not wanted any more."""
        self.end()
        self._over = asyncio.Event()
        return self._over

    def end(self) -> None:
        if self._over is not None:
            self._over.set()
