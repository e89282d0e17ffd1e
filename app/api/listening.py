"""Programs that ask through one of Gradio's endpoints: when they leave, nothing of theirs stays.

When an event's stream is closed, Gradio marks the event and closes its generator, but lets a coroutine run to its end;
so the coroutine looks itself. Who has asked and not yet opened a stream may still do so, and is not taken for gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from gradio.context import LocalContext

from app.api.problems import ClientGoneError

T = TypeVar("T")

BEAT_S = 0.25  # how often it is looked whether somebody listens


async def while_heard(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; it is cancelled, and ClientGoneError raised, when the caller of the endpoint leaves."""
    gone = _leaving()
    working = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({working}, timeout=BEAT_S))[0]:
            if await gone():
                raise ClientGoneError
        return working.result()
    finally:
        working.cancel()


def _leaving() -> Callable[[], Awaitable[bool]]:
    """What tells whether the caller has left: Gradio's event, or the connection where the call was not queued."""
    page, number = LocalContext.blocks.get(None), LocalContext.event_id.get(None)
    event = None if page is None or number is None else page._queue.event_ids_to_events.get(number)
    request = getattr(LocalContext.request.get(None), "request", None)

    async def gone() -> bool:
        if event is not None:
            return not event.alive
        return request is not None and await request.is_disconnected()

    return gone


def forget_caller() -> None:
    """Let go of the session that Gradio makes for the call of a program that has none, and would keep."""
    page, number = LocalContext.blocks.get(None), LocalContext.event_id.get(None)
    if page is not None:
        page.state_holder.session_data.pop(number, None)
        page.state_holder.time_last_used.pop(number, None)
