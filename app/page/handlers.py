"""What happens when a visitor does something. Everything a visitor owns comes in and goes out as
arguments; this object holds only what the whole process shares."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app.drawing.overlay import blank, scene, summary
from app.drawing.snippets import as_curl, as_python
from app.drawing.timeline import Overheads, all_there, own_steps, splits, timeline
from app.engines.holder import Engine, EngineHolder, NotReadyError
from app.page import about
from app.page.buttons import buttons
from app.page.turn import Turn
from app.pictures.fetch import Fetcher
from app.pictures.store import Picture, PictureStore
from app.questions.examples import Example
from app.questions.question import Answer, Question, QuestionError, Standing, as_json, ask, in_a_sentence, parse_names
from photon import TEXT_SKILLS, PictureError, PictureLimits, StepRecord

log = logging.getLogger(__name__)

TAKEN = 10  # outputs of a handler that takes a picture
HEARTBEAT_S = 0.25  # how often a waiting handler looks whether its visitor is still there
RECORDED_S = 0.2  # how long a step that outlasts its answer is waited for
WORDS_S = 0.1  # how often it does where an answer is read while it is written
NO_PICTURE = "Please add a picture first: upload, drop, paste or photograph one, or choose an example."


@dataclass(frozen=True)
class Handlers:
    """Gradio listeners over the engine and the picture store."""

    holder: EngineHolder
    store: PictureStore
    limits: PictureLimits
    examples: tuple[Example, ...]
    upload_folder: Path
    fetcher: Fetcher

    async def visit(self) -> AsyncIterator[tuple[Any, Any]]:
        """A page is opened: (header, notes), and once more when the model that was still loading is there."""
        async for _ in self.holder.until_settled():
            yield about.header(self.holder), about.notes(self.holder)

    async def take_upload(self, path: str | None, turn: Turn) -> tuple[Any, ...]:
        """A file from the picture input; for what is returned see `_take`."""
        if path is None:
            return (gr.skip(),) * TAKEN
        return await self._take(turn, Path(path), Path(path).name)

    async def take_drop(self, turn: Turn, event: gr.EventData) -> tuple[Any, ...]:
        """A file dropped or pasted, already uploaded (only such paths are accepted), or an address {url} dropped."""
        if url := event._data.get("url"):
            return await self.take_address(str(url), turn)
        path, name = Path(str(event._data.get("path", ""))), str(event._data.get("name", ""))
        if not path.resolve().is_relative_to(self.upload_folder.resolve()) or not path.is_file():
            return _refused(f"The picture could not be uploaded: {name[:200]}")
        return await self._take(turn, path, name[:200])

    async def take_address(self, url: str, turn: Turn) -> tuple[Any, ...]:
        """The address of a picture on the web."""
        try:
            fetched = await asyncio.to_thread(self.fetcher.fetch, url or "")
        except PictureError as error:
            return _refused(str(error))
        return await self._keep(turn, fetched.data, fetched.name)

    def refer(self, event: gr.EventData) -> tuple[float, ...] | None:
        """A point or a box was marked on the picture, or the mark was cleared: the reference."""
        values = event._data.get("values")
        if not isinstance(values, list) or len(values) not in (2, 4):
            return None
        numbers = [float(value) for value in values if isinstance(value, (int, float))]
        inside = len(numbers) == len(values) and all(0 <= number <= 1 for number in numbers)
        return tuple(numbers) if inside else None

    async def take_example(self, turn: Turn, event: gr.EventData) -> tuple[Any, ...]:
        """An example: what _take returns, then its name, its task, and a value that no other choice has."""
        index = event._data.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self.examples):
            return (gr.skip(),) * (TAKEN + 3)
        example = self.examples[index]
        taken = await self._take(turn, example.path, example.path.name, example.credit, example.title)
        return (*taken, example.object, example.task, secrets.token_hex(8))

    async def forget(self, turn: Turn) -> tuple[Any, ...]:
        """The picture is removed; for what is returned see `_take`."""
        turn.end()
        stage = gr.update(value={}, visible="hidden")
        return gr.update(visible=True), None, stage, None, None, {}, {}, _idle(), *buttons(running=False)

    async def run(
        self,
        picture: Picture | None,
        task: str,
        text: str,
        pipelined: bool,
        max_objects: int,
        reference: tuple[float, ...] | None,
        temperature: float,
        turn: Turn,
    ) -> AsyncIterator[tuple[Any, ...]]:
        """Ask; yields (status, run button, cancel button, stage, results, time).

        While it waits it yields now and then, which is when Gradio finds that a visitor has gone and
        closes this generator; that cancels the requests in the engine. So does the end of the turn.
        """
        try:
            names = parse_names(text or "", task)
            question = Question(task.lower(), names, bool(pipelined), int(max_objects), reference, float(temperature))
            if picture is None:
                raise PictureError(NO_PICTURE)
            engine = self.holder.engine()
        except (QuestionError, PictureError, NotReadyError) as error:
            yield _finished(_problem(str(error)))
            return
        yield (_busy(f"{doing(question)} …"), *buttons(running=True), *(gr.skip(),) * 3)
        standing = Standing(question)
        work = asyncio.create_task(self._answer(engine, picture, question, standing))
        over = asyncio.create_task(turn.begin().wait())
        start, said = time.perf_counter(), ""
        try:
            while not await _first({work, over}, WORDS_S if standing.text else HEARTBEAT_S):
                text = f"{meanwhile(question, standing)} … {time.perf_counter() - start:.1f} s"
                written = gr.skip() if standing.text == said else unfinished(standing.text)
                said = standing.text
                yield (_busy(text) | {"beat": "yes"}, *(gr.skip(),) * 3, written, gr.skip())
            yield (gr.skip(),) * 6 if over.done() else work.result()
        except PictureError as error:
            yield _finished(_problem(str(error)))
        except Exception as error:
            log.exception("a question failed")
            yield _finished(_problem(f"The question failed on the server: {type(error).__name__}: {error}"))
        finally:
            work.cancel()
            over.cancel()

    def cancelled(self) -> tuple[Any, ...]:
        """Cancel was pressed, or Gradio could not run it: (status, run button, cancel button)."""
        return ({"kind": "done", "text": "The question was stopped."}, *buttons(running=False))

    async def _take(self, turn: Turn, path: Path, name: str, credit: str = "", title: str = "") -> tuple[Any, ...]:
        """Keep a picture: (intake, input, stage, picture, reference, results, time, status, run button, cancel button).

        It ends the turn of a question about the last one.
        """
        try:
            self.limits.check_bytes(path.stat().st_size if path.is_file() else 0)
        except PictureError as error:
            return _refused(str(error))
        return await self._keep(turn, await asyncio.to_thread(path.read_bytes), name, credit, title)

    async def _keep(self, turn: Turn, data: bytes, name: str, credit: str = "", title: str = "") -> tuple[Any, ...]:
        try:
            picture = await asyncio.to_thread(self.store.add, data, name, credit, title)
        except PictureError as error:
            return _refused(str(error))
        turn.end()
        stage = gr.update(value=blank(picture), visible=True)
        return gr.update(visible=False), None, stage, picture, None, {}, {}, _idle(), *buttons(running=False)

    async def _answer(
        self, engine: Engine, picture: Picture, question: Question, standing: Standing
    ) -> tuple[Any, ...]:
        """Ask and draw: the last value that `run` yields."""
        start = time.perf_counter()
        image = await asyncio.to_thread(lambda: engine.encode_image(self.store.pixels(picture.token)))
        read_ms = (time.perf_counter() - start) * 1e3
        first = engine.last_step
        answers = await ask(engine, image, question, standing)
        start = time.perf_counter()
        drawn = scene(picture, question, answers)
        results = results_value(picture, question, answers, drawn, str(engine.describe()["model"]))
        overheads = Overheads(read_ms, (time.perf_counter() - start) * 1e3)
        steps = await _recorded(engine, first, answers)
        requests = splits(answers, overheads, steps)
        where = {"requests": requests, "timeline": timeline(steps)}
        return _finished(_outcome(answers, requests), drawn, results, where)


async def _recorded(engine: Engine, first: int, answers: list[Answer]) -> list[StepRecord]:
    """The steps of these answers. An answer is out before a step that its rows ride along in: that one is awaited."""
    deadline = time.monotonic() + RECORDED_S
    while not all_there(steps := own_steps(engine.steps(first), answers), answers) and time.monotonic() < deadline:
        await asyncio.sleep(RECORDED_S / 20)
    return steps


async def _first(tasks: set[asyncio.Task[Any]], timeout: float) -> set[asyncio.Task[Any]]:
    """Those that are done as soon as one is; none after `timeout` seconds."""
    return (await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED))[0]


def doing(question: Question) -> str:
    """What the engine is at, in words."""
    words = {"query": "Answering", "caption": "Describing the picture"}
    return words.get(question.task, f"Looking for {', '.join(map(in_a_sentence, question.names))}")


def meanwhile(question: Question, standing: Standing) -> str:
    """What goes on until the answer is there, in words."""
    place = standing.place
    return doing(question) if place is None else f"Waiting for the others: place {place} in the queue"


def unfinished(text: str) -> dict[str, Any]:
    """What the results component shows of an answer that is still being written."""
    return {"rows": [], "note": text, "text": True, "writing": True}


def results_value(
    picture: Picture, question: Question, answers: list[Answer], drawn: dict[str, Any], model: str
) -> dict[str, Any]:
    """What the results component shows: rows, the JSON, and the same question as code."""
    body = as_json(question, answers, (picture.width, picture.height))
    return {
        "rows": drawn["shapes"],
        "note": summary(answers),
        "text": question.task in TEXT_SKILLS,
        "json": json.dumps(body, indent=1, allow_nan=False),
        "picture": picture.token,
        "name": picture.name,
        "python": as_python(model, question, picture.name),
        "curl": as_curl(question, picture.name, model),
    }


def _outcome(answers: list[Answer], requests: list[dict[str, Any]]) -> dict[str, str]:
    """The status of a finished question: the sentences of refused names, or how long it took."""
    problems = list(dict.fromkeys(answer.problem for answer in answers if answer.problem))
    if problems:
        return _problem(" ".join(problems))
    longest = max(request["total_ms"] for request in requests)
    took = f"{longest:.0f} ms" if longest < 1000 else f"{longest / 1000:.1f} s"
    cut = " Cut where it reached its limit of tokens." if any(answer.cut for answer in answers) else ""
    return {"kind": "done", "text": f"Answered in {took}, {requests[0]['mode']}.{cut}"}


def _finished(status: dict[str, str], *outputs: Any) -> tuple[Any, ...]:
    return (status, *buttons(running=False), *(outputs or (gr.skip(),) * 3))


def _refused(sentence: str) -> tuple[Any, ...]:
    """A picture was refused: nothing changes but the input, which is emptied, and the status."""
    return gr.skip(), None, *(gr.skip(),) * (TAKEN - 5), _problem(sentence), gr.skip(), gr.skip()


def _idle() -> dict[str, str]:
    return {"kind": "idle", "text": ""}


def _busy(text: str) -> dict[str, str]:
    return {"kind": "busy", "text": text}


def _problem(text: str) -> dict[str, str]:
    return {"kind": "problem", "text": text}
