"""Callers of a running engine: questions about pictures, asked by so many at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from photon import InvalidRequestError, Photon
from photon.bench.compare import Comparison
from photon.bench.verdicts import Call, Tokens, alone, verdict, watched
from photon.core.request import ImageRef, Mode, Rgb
from photon.skills import PLANS
from photon.skills.base import Plan

SKILLS = ("detect", "point")
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_EXAMPLES = Path(__file__).parents[2] / "static" / "examples"
_NAMES = ("car", "tree", "person", "dog")
"""For models that take any words."""


@dataclass(frozen=True)
class Question:
    """`picture` is an index; `settings` as the verbs take them."""

    skill: str
    picture: int
    name: str
    settings: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Round:
    """What one run generated in the order of its questions, when they were asked, their latencies and the whole time.

    In seconds; `asked_s` on the clock of the engine's records, where the device is a real one.
    """

    tokens: list[Tokens]
    latencies: list[float]
    seconds: float
    asked_s: list[float]

    @property
    def spans_s(self) -> list[tuple[float, float]]:
        """When each question was asked and answered."""
        return [(asked, asked + took) for asked, took in zip(self.asked_s, self.latencies, strict=True)]


def pictures(folder: Path | None, count: int) -> list[Rgb]:
    """`count` different pictures: from `folder`, else the examples, else drawn. Raises `InvalidRequestError`."""
    if folder is not None and not folder.is_dir():
        raise InvalidRequestError(f"There is no folder {str(folder)!r} with pictures.")
    source = folder or _EXAMPLES
    files = sorted(p for p in source.glob("*") if p.suffix.lower() in _SUFFIXES) if source.is_dir() else []
    if folder is not None and not files:
        raise InvalidRequestError(f"The folder {str(folder)!r} has no pictures; allowed are {', '.join(_SUFFIXES)}.")
    found = [np.asarray(ImageOps.exif_transpose(Image.open(p)).convert("RGB")) for p in files[:count]]
    return [found[i] if i < len(found) else _varied(found, i) for i in range(count)]


def _varied(found: list[Rgb], number: int) -> Rgb:
    """One more picture: a mirrored and cropped one, or coloured boxes on a gradient."""
    draw = np.random.default_rng(number)
    if found:
        picture = found[number % len(found)][:, :: 1 if number % 2 else -1]
        margin = draw.integers(0, min(picture.shape[:2]) // 8, 4)
        return np.ascontiguousarray(picture[margin[0] : -1 - margin[1], margin[2] : -1 - margin[3]])
    return drawn(number, 480, 640)


def drawn(number: int, height: int, width: int) -> Rgb:
    """Coloured boxes on a gradient, the same for the same number."""
    draw = np.random.default_rng(number)
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = np.linspace(40, 215, width, dtype=np.uint8)[None, :, None]
    for _ in range(6):
        top, left = draw.integers(0, height * 3 // 4), draw.integers(0, width * 3 // 4)
        tall, wide = draw.integers(height // 12, height // 4), draw.integers(width // 12, width // 4)
        picture[top : top + tall, left : left + wide] = draw.integers(0, 256, 3)
    return picture


def names(model: Photon) -> Sequence[str]:
    """What can be asked for."""
    return model.vocabulary.taught or model.vocabulary.names if model.vocabulary else _NAMES


def refs(rgb: Sequence[Rgb], run: str) -> list[ImageRef]:
    """Pictures that no earlier run has left a prefix of: their keys are this run's own."""
    return [ImageRef(pixels, f"{run}:{i}".encode()) for i, pixels in enumerate(rgb)]


def put(model: Photon, calls: Sequence[Call], callers: int) -> Round:
    """Make all calls, `callers` at a time, each caller waiting for its answer before it calls again."""
    return asyncio.run(_put(model, calls, callers))


async def _put(model: Photon, calls: Sequence[Call], callers: int) -> Round:
    tokens: list[Tokens] = [[] for _ in calls]
    latencies, asked_s = [0.0] * len(calls), [0.0] * len(calls)
    left = iter(enumerate(calls))

    async def caller() -> None:
        for i, call in left:
            asked_s[i] = time.perf_counter()
            await asyncio.wrap_future(model.parts.loop.submit(watched(call(), tokens[i])).future)
            latencies[i] = time.perf_counter() - asked_s[i]

    start = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return Round(tokens, latencies, time.perf_counter() - start, asked_s)


def asked(model: Photon, images: Sequence[ImageRef], questions: Sequence[Question], mode: Mode) -> list[Call]:
    """The calls of the public verbs."""
    return [partial(_plan, model, images[question.picture], question, mode) for question in questions]


def _plan(model: Photon, image: ImageRef, question: Question, mode: Mode) -> Plan:
    settings = dict(question.settings)
    checked = model.arguments.ask(question.skill, image, question.name, settings, None, mode == "pipelined")
    return PLANS[checked.skill](model.context, checked)


def compared(model: Photon, one: Sequence[Tokens], other: Sequence[Tokens], alone_calls: Sequence[Call]) -> Comparison:
    """Two runs of the same calls; `alone_calls` are these in blocking mode, for the reference where they differ."""
    verdicts = (
        verdict(a, b, partial(alone, model.parts.loaded, call))
        for a, b, call in zip(one, other, alone_calls, strict=True)
    )
    return sum(verdicts, Comparison())
