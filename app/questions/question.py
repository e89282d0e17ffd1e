"""A visitor's question, put to the engine: one request a name, all in flight together."""

from __future__ import annotations

import asyncio
import math
import re
import unicodedata
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.engines.holder import Engine, Verb
from photon import TEXT_SKILLS, Metrics, PhotonError, Result, Ticket

MAX_NAMES = 8
MAX_NAME_LENGTH = 100
MAX_QUESTION_LENGTH = 1000
_COMMAS = re.compile("[,;\n،、，；]")
_TURNING = {"R", "AL", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "FSI"}  # directions that reach beyond their letters


class QuestionError(ValueError):
    """The question cannot be put; the sentence says what is missing or too much."""


@dataclass(frozen=True)
class Question:
    """`names` are asked for one by one; of Query it is the one question, of Caption one name that nobody reads.

    `reference` is a point (x, y) or a box (x0, y0, x1, y1) in 0..1.
    """

    task: str
    names: tuple[str, ...]
    pipelined: bool = True
    max_objects: int = 50
    reference: tuple[float, ...] | None = None
    temperature: float = 0.0

    def options(self) -> dict[str, Any]:
        """The keyword arguments of the engine's verbs."""
        refs = None if self.reference is None else [list(self.reference)]
        most = {} if self.task in TEXT_SKILLS else {"max_objects": self.max_objects}
        options = {"settings": most | {"temperature": self.temperature}, "pipelined": self.pipelined}
        return options if self.task == "caption" else options | {"spatial_refs": refs}


@dataclass(frozen=True)
class Answer:
    """What came back for one name: a result with its metrics, or one sentence."""

    name: str
    result: Result | None = None
    problem: str | None = None

    @property
    def metrics(self) -> Metrics | None:
        return None if self.result is None else self.result.metrics

    @property
    def cut(self) -> bool:
        """Whether it ended at a limit on its tokens."""
        return self.result is not None and self.result.finish_reason == "length"

    @property
    def text(self) -> str | None:
        """The answer of Query and Caption."""
        return None if self.result is None else self.result.get("answer", self.result.get("caption"))

    @property
    def found(self) -> list[dict[str, Any]]:
        """The points or objects, in the engine's order."""
        if self.result is None:
            return []
        return list(self.result.get("points", self.result.get("objects", [])))


def parse_names(text: str, task: str = "detect") -> tuple[str, ...]:
    """The names in a comma-separated text, without blanks and repeats; of Query the text itself. Raises QuestionError.

    `task` in any case of letters.
    """
    if task.lower() == "caption":
        return ("caption",)
    if task.lower() == "query":
        return (_question(text),)
    unique: dict[str, str] = {}
    for part in _COMMAS.split(text):
        name = " ".join(part.split())
        if _visible(name):
            unique.setdefault(name.casefold(), name)
    names = tuple(unique.values())
    if not names:
        raise QuestionError("Please say what to look for, for example: cat.")
    if len(names) > MAX_NAMES:
        raise QuestionError(f"That is {len(names)} names; at most {MAX_NAMES} can be asked for at once.")
    for name in names:
        if len(name) > MAX_NAME_LENGTH:
            raise QuestionError(
                f"A name has {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed. "
                "Several names are separated by commas."
            )
    return names


def _question(text: str) -> str:
    question = " ".join(text.split())
    if not _visible(question):
        raise QuestionError("Please ask something about the picture, for example: What is on the table?")
    if len(question) > MAX_QUESTION_LENGTH:
        raise QuestionError(f"The question has {len(question)} characters; at most {MAX_QUESTION_LENGTH} are allowed.")
    return question


def _visible(text: str) -> bool:
    """Whether there is more in it than spaces, control characters and other marks without a shape."""
    return any(unicodedata.category(character)[0] not in "CZ" for character in text)


def in_a_sentence(name: str) -> str:
    """The name, set apart where it may be written from right to left, so that the words around it keep their order."""
    turning = any(unicodedata.bidirectional(character) in _TURNING for character in name)
    return f"\u2068{name}\u2069" if turning else name


class Standing:
    """What the one who asked may be told until the answer is there: `text` is what Query or Caption has said so far."""

    def __init__(self, question: Question) -> None:
        self.tickets = [Ticket() for _ in question.names]
        self.text = ""

    @property
    def place(self) -> int | None:
        """In the engine's queue, the next is 1; None once the question is being answered."""
        ahead = [ticket.ahead for ticket in self.tickets]
        waiting = [count for count in ahead if count is not None]
        return min(waiting) + 1 if len(waiting) == len(ahead) else None


async def ask(engine: Engine, image: Any, question: Question, standing: Standing | None = None) -> list[Answer]:
    """Put all names at once and wait for all; cancelling this cancels every request in the engine.

    `image` is what the engine's verbs accept; an encoded one is hashed once, not once a name.
    A name that the engine refuses becomes an Answer with its sentence and does not harm the others.
    """
    verb = getattr(engine, f"a{question.task}")
    if standing is not None and question.task in TEXT_SKILLS:
        verb = partial(_spoken, verb, TEXT_SKILLS[question.task], standing)
    tickets = (standing or Standing(question)).tickets

    async def one(name: str, ticket: Ticket) -> Answer:
        words = () if question.task == "caption" else (name,)
        try:
            return Answer(name, await verb(image, *words, **question.options(), ticket=ticket))
        except PhotonError as error:
            return Answer(name, problem=str(error))

    return await _together(map(one, question.names, tickets))


async def _together(calls: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """All answers in order. One that raises cancels the others, which would go on unseen in the engine."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def _spoken(verb: Verb, key: str, standing: Standing, *arguments: Any, **options: Any) -> Result:
    """The whole answer of a verb that gives text, which `standing` is told piece by piece."""
    stream = (await verb(*arguments, **options, stream=True))[key]
    async with aclosing(stream):
        async for piece in stream:
            standing.text += piece
        result: Result = await stream.result()
    return result


def finite(value: Any) -> Any:
    """The same without values that are no numbers, which JSON does not have: None stands in their place."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(question: Question, answers: Sequence[Answer], size: tuple[int, int]) -> dict[str, Any]:
    """The answers as the page shows and exports them; `size` is (width, height) in pixels."""
    rows: list[dict[str, Any]] = []
    for answer in answers:
        body = dict(answer.result) if answer.result is not None else {"error": answer.problem}
        if answer.cut:
            body["finish_reason"] = "length"
        rows.append({"name": answer.name, **finite(body)})
    return {"task": question.task, "image": {"width": size[0], "height": size[1]}, "answers": rows}
