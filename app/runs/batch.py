"""The same question about many pictures, with the engine's batch kept full, and a ZIP of all answers."""

from __future__ import annotations

import asyncio
import json
import time
import zipfile
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.drawing.export import Answered, annotated, coco
from app.drawing.overlay import summary
from app.engines.holder import Engine
from app.pictures.uploads import read_upload
from app.questions.question import Answer, Question, QuestionError, as_json, ask
from photon import TEXT_SKILLS, PictureError, PictureLimits

MAX_PICTURES = 64
IN_FLIGHT = 16


@dataclass(frozen=True)
class Row:
    """One picture's outcome: what was found in words, or why it was refused."""

    name: str
    found: str
    problem: bool
    total_ms: float

    def shown(self) -> dict[str, Any]:
        """As the page shows it."""
        return {"name": self.name, "found": self.found, "problem": self.problem, "ms": round(self.total_ms, 1)}


async def run_batch(
    engine: Engine, paths: Sequence[Path], question: Question, limits: PictureLimits, archive: zipfile.ZipFile
) -> AsyncGenerator[list[Row | None], None]:
    """Yields the rows so far, in the order given, whenever some are done. Closing it cancels the rest.

    Each picture's files go into `archive` as soon as they are there, so that memory holds few.
    Raises QuestionError for no pictures or too many.
    """
    if not paths:
        raise QuestionError("Please add the pictures of the batch first.")
    if len(paths) > MAX_PICTURES:
        raise QuestionError(f"These are {len(paths)} pictures; a batch has at most {MAX_PICTURES}.")
    rows: list[Row | None] = [None] * len(paths)
    gate, writing = asyncio.Semaphore(IN_FLIGHT), asyncio.Lock()

    async def one(index: int) -> None:
        async with gate:
            row, files = await _row(engine, paths[index], question, limits)
            stem = f"{index + 1:02d}-{paths[index].stem[:80]}"  # numbered, so that equal names do not collide
            async with writing:
                await asyncio.to_thread(_write, archive, stem, files)
            rows[index] = row

    tasks = [asyncio.create_task(one(index)) for index in range(len(paths))]
    try:
        waiting: set[asyncio.Task[None]] = set(tasks)
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=0.25, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            yield list(rows)
    finally:
        for task in tasks:
            task.cancel()


async def _row(engine: Engine, path: Path, question: Question, limits: PictureLimits) -> tuple[Row, dict[str, bytes]]:
    start = time.perf_counter()
    try:
        pixels = await asyncio.to_thread(read_upload, path, limits)
        image = await asyncio.to_thread(engine.encode_image, pixels)
        answers = await ask(engine, image, question)
        total_ms = (time.perf_counter() - start) * 1e3
        body = as_json(question, answers, (pixels.shape[1], pixels.shape[0]))
        files = await asyncio.to_thread(_files, body, path.name, pixels)
    except PictureError as error:
        return Row(path.name, str(error), True, (time.perf_counter() - start) * 1e3), {}
    problems = list(dict.fromkeys(answer.problem for answer in answers if answer.problem))
    return Row(path.name, _words(answers, problems), bool(problems), total_ms), files


def _words(answers: Sequence[Answer], problems: Sequence[str]) -> str:
    return " ".join([*problems, summary(answers)]).strip()


def _files(body: dict[str, Any], name: str, pixels: Any) -> dict[str, bytes]:
    """What the ZIP holds for one picture."""
    whole = {"json": json.dumps(body, indent=1, allow_nan=False).encode()}
    if body["task"] in TEXT_SKILLS:
        return whole
    answered = Answered.parse(body)
    return whole | {
        "coco.json": coco(answered, name).encode(),
        "answers.png": annotated(answered, pixels),
    }


def _write(archive: zipfile.ZipFile, stem: str, files: dict[str, bytes]) -> None:
    for ending, data in files.items():
        archive.writestr(f"{stem}.{ending}", data)
