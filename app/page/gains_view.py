"""The panel "What a GPU would gain": asked for with a button, labelled as modelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr

from app.page import parts
from app.runs.gains import Gains, GainsError

HEARTBEAT_S = 0.5  # how often a waiting visitor is told, and it is seen whether they are still there


def gains_panel(gains: Gains) -> None:
    """Draw the panel into the page that is being built."""
    parts.gains_head()
    button = gr.Button("Estimate", elem_id="gains-start")
    view = parts.gains_view()

    async def estimate() -> AsyncIterator[tuple[Any, Any]]:
        async for value in estimated(gains):
            yield value, gr.update(interactive="text" not in value or bool(value.get("problem")))

    button.click(
        estimate, None, [view, button], show_progress="hidden", api_visibility="private", concurrency_limit=None
    )


async def estimated(gains: Gains) -> AsyncIterator[dict[str, Any]]:
    """The panel's values: what is going on, then the report or one sentence."""
    work = gains.asked()
    start = time.perf_counter()
    while not work.done():
        waited = time.perf_counter() - start
        yield {"text": f"Running the engine's own bookkeeping on this server … {waited:.0f} s"}
        await asyncio.wait({work}, timeout=HEARTBEAT_S)
    try:
        yield {"report": work.result()}
    except GainsError as error:
        yield {"text": str(error), "problem": True}
