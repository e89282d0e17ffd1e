"""The race on the page: one at a time in the whole process, progress while it runs, then its report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engines.holder import EngineHolder, NotReadyError
from app.page.buttons import buttons
from app.pictures.store import Picture, PictureStore
from app.pictures.uploads import read_upload
from app.questions.question import Question, QuestionError, parse_names
from app.runs.race import MAX_PICTURES, race
from photon import PhotonError, PictureError, PictureLimits

log = logging.getLogger(__name__)

Read = Callable[[], list[NDArray[np.uint8]]]

WAITING_S = 0.25
ONE, MANY = "This picture", "The batch"
ON_A_CPU = (
    "Both runs were measured on this server. It has no GPU: a step's compute takes far longer than its "
    "bookkeeping and both use the same cores, so there is little to hide and a ratio near 1 is expected; "
    "a small difference either way is noise."
)
UNEVEN = (
    "The model's own steps took {ratio:.2f} times as long in the run with the pipeline {slower}: the server had other "
    "work meanwhile. The ratio above says little; race again."
)
EVEN = (0.87, 1.15)  # of two runs' median forwards; between these the machine was the same for both


@dataclass
class RaceView:
    """Gradio listeners of the race; `turn` lets a second visitor's race wait for the first."""

    holder: EngineHolder
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
        about: str = ONE,
        files: list[str] | None = None,
    ) -> AsyncIterator[tuple[Any, ...]]:
        """Race on the visitor's picture, or on the batch's, and names; yields (view, race button, stop button)."""
        try:
            names = parse_names(text or "", task)
            read = self._reader(None, files or []) if about == MANY else self._reader(picture)
            engine = self.holder.engine()
            question = Question(task.lower(), names, max_objects=int(max_objects))
            # aclosing: a visitor who leaves gives the turn back at once, not when the generator is collected
            async with aclosing(self._in_turn(engine, read, question, int(count), int(in_flight))) as views:
                async for view in views:
                    yield view, *buttons(running="report" not in view)
        except (QuestionError, PictureError, NotReadyError, PhotonError) as error:
            yield {"problem": True, "text": str(error)}, *buttons(running=False)
        except Exception as error:
            log.exception("a race failed")
            yield {"problem": True, "text": f"The race failed on the server: {error}"}, *buttons(running=False)

    def stopped(self) -> tuple[Any, ...]:
        """Stop was pressed, or Gradio could not run it: (view, race button, stop button)."""
        return {"text": "The race was stopped."}, *buttons(running=False)

    def _reader(self, picture: Picture | None, files: list[str] | None = None) -> Read:
        """What gives the pixels of the race's pictures. Raises PictureError where there are none."""
        if files is not None and len(files) > MAX_PICTURES:
            raise PictureError(f"The batch has {len(files)} pictures; a race takes at most {MAX_PICTURES}.")
        if files:
            return lambda: read_all([Path(one) for one in files], self.store.limits)
        if files is not None:
            raise PictureError("Please add pictures to the batch first; the race asks about them.")
        if picture is None:
            raise PictureError("Please add a picture first; the race asks about it.")
        token = picture.token
        return lambda: [self.store.pixels(token)]

    async def _in_turn(
        self, engine: Any, read: Read, question: Question, count: int, in_flight: int
    ) -> AsyncGenerator[dict[str, Any], None]:
        while self.turn.locked():
            yield {"text": "Another visitor's race is running; yours is next."}
            await asyncio.sleep(WAITING_S)
        async with self.turn:
            yield {"text": "Warming up …"}
            images = await asyncio.to_thread(lambda: [engine.encode_image(pixels) for pixels in read()])
            async with aclosing(race(engine, images, question, count, in_flight)) as parts:
                async for part in parts:
                    if part is None:
                        yield {"text": "Warming up …"}
                    elif isinstance(part, dict):
                        yield {"report": part, "note": self.note(part)}
                    else:
                        yield {"progress": {"mode": part[0], "done": part[1], "count": count}}

    def note(self, report: dict[str, Any]) -> str:
        about = self.holder.engine().describe()
        if about.get("modelled"):
            return "These times are modelled, not measured."
        ratio = report["device_ratio"]
        if ratio is not None and not EVEN[0] <= ratio <= EVEN[1]:
            return UNEVEN.format(ratio=max(ratio, 1 / ratio), slower="off" if ratio > 1 else "on")
        return ON_A_CPU if str(about.get("device", "")).startswith("cpu") else ""


def read_all(paths: Sequence[Path], limits: PictureLimits) -> list[NDArray[np.uint8]]:
    """The pixels of a race's pictures. Raises PictureError for one that is refused, or when all are too many pixels."""
    pictures, megapixels = [], 0.0
    for path in paths:
        try:
            pictures.append(read_upload(path, limits))
        except PictureError as error:
            raise PictureError(f"{path.name}: {error}") from None
        megapixels += pictures[-1].shape[0] * pictures[-1].shape[1] / 1e6
        if megapixels > limits.max_megapixels:  # they are all held in memory while the race runs
            raise PictureError(
                f"The pictures have together more than {limits.max_megapixels:g} megapixels; a race takes no more."
            )
    return pictures
