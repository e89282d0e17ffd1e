"""Answers that arrive in pieces, as server-sent events.

query and caption: {"chunk": text} for each piece, then {"completed": true, ...} with the whole answer beside it.
segment: {"type": "bbox"}, then {"type": "path_delta"} for each piece, then {"type": "final"}.
A request that fails on its way sends {"error": ..., "completed": true}; one that fails before its first piece
is answered with a plain JSON error and its status.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.api.presence import while_present
from app.api.problems import body_of, refused
from photon import Result

Event = dict[str, Any]
_NO_PIECE = object()


class Pieces(Protocol):
    """What the engine's verbs give for stream=True (see `photon.AsyncStream`)."""

    def __aiter__(self) -> AsyncIterator[Any]: ...
    async def aclose(self) -> None: ...
    async def result(self) -> Result: ...


class EventStream(StreamingResponse):
    """Server-sent events; however the connection ends, what they `hold` is given back before this returns."""

    def __init__(self, events: AsyncGenerator[str, None], hold: AsyncExitStack) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._events = events
        self._hold = hold

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._hold, aclosing(self._events):
            await super().__call__(scope, receive, send)


async def event_stream(
    request: Request,
    pieces: Pieces,
    of_piece: Callable[[Any], Iterator[Event]],
    of_end: Callable[[Result], Iterator[Event | str]],
    hold: AsyncExitStack,
) -> EventStream:
    """Wait for the first piece, so that a refusal keeps its status, then answer with events.

    What `hold` holds, and the pieces, are given back when the answer has ended.
    """
    hold.push_async_callback(pieces.aclose)
    first = await while_present(request, _next(aiter(pieces)))

    async def events() -> AsyncGenerator[str, None]:
        try:
            piece = first
            while piece is not _NO_PIECE:
                for event in of_piece(piece):
                    yield line(event)
                piece = await _next(aiter(pieces))
            for last in of_end(await pieces.result()):
                yield line(last)
        except Exception as error:
            yield line({**body_of(refused(error)), "completed": True})

    return EventStream(events(), hold.pop_all())


def line(event: Event | str) -> str:
    """One event; text is sent as it is."""
    return f"data: {event if isinstance(event, str) else json.dumps(event, allow_nan=False)}\n\n"


async def _next(pieces: AsyncIterator[Any]) -> Any:
    return await anext(pieces, _NO_PIECE)
