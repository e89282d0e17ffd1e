"""The race on the page: one at a time in the whole process, progress while it runs, then its report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from app.asking import Question, QuestionError, parse_names
from app.backend import Backend, NotReadyError
from app.ingest import PictureError
from app.pictures import Picture, PictureStore
from app.race import race
from photon import PhotonError

log = logging.getLogger(__name__)

WAITING_S = 0.25
ON_A_CPU = (
    "Both runs were measured on this server. It has no GPU: a step's compute takes far longer than its "
    "bookkeeping and both use the same cores, so there is little to hide and a ratio near 1 is expected; "
    "a small difference either way is noise."
)


@dataclass
class RaceView:
    """Gradio listeners of the race; `turn` lets a second visitor's race wait for the first."""

    backend: Backend
    store: PictureStore
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(
        self,
        picture: Picture | None,
        task: str,
        text: str,
        max_objects: int,
        count: int,
        in_flight: int,
    ) -> AsyncIterator[tuple[Any, ...]]:
        """Race on the visitor's picture and names; yields (view, race button, stop button)."""
        try:
            names = parse_names(text or "")
            if picture is None:
                raise PictureError("Please add a picture first; the race asks about it.")
            engine = self.backend.engine()
            question = Question(task.lower(), names, max_objects=int(max_objects))
            # aclosing: a visitor who leaves gives the turn back at once, not when the generator is collected
            async with aclosing(self._in_turn(engine, picture, question, int(count), int(in_flight))) as views:
                async for view in views:
                    yield view, *_buttons(racing="report" not in view)
        except (QuestionError, PictureError, NotReadyError, PhotonError) as error:
            yield {"problem": True, "text": str(error)}, *_buttons(racing=False)
        except Exception as error:
            log.exception("a race failed")
            yield {"problem": True, "text": f"The race failed on the server: {error}"}, *_buttons(racing=False)

    def stopped(self) -> tuple[Any, ...]:
        """Stop was pressed: (view, race button, stop button)."""
        return {"text": "The race was stopped."}, *_buttons(racing=False)

    async def _in_turn(
        self, engine: Any, picture: Picture, question: Question, count: int, in_flight: int
    ) -> AsyncGenerator[dict[str, Any], None]:
        while self.turn.locked():
            yield {"text": "Another visitor's race is running; yours is next."}
            await asyncio.sleep(WAITING_S)
        async with self.turn:
            yield {"text": "Warming up …"}
            image = await asyncio.to_thread(lambda: engine.encode_image(self.store.pixels(picture.token)))
            async with aclosing(race(engine, image, question, count, in_flight)) as parts:
                async for part in parts:
                    if isinstance(part, dict):
                        yield {"report": part, "note": self._note()}
                    else:
                        yield {"progress": {"mode": part[0], "done": part[1], "count": count}}

    def _note(self) -> str:
        about = self.backend.engine().describe()
        if about.get("modelled"):
            return "These times are modelled, not measured."
        return ON_A_CPU if str(about.get("device", "")).startswith("cpu") else ""


def _buttons(racing: bool) -> tuple[Any, Any]:
    return gr.update(visible=not racing), gr.update(visible=racing)
