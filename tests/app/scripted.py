"""A stand-in engine with exact answers and delays, for tests of the page where those matter."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from photon import EngineStoppedError, Metrics, QueueFullError, Result, StepRecord, Ticket, UnknownWordError

BOX = {"x_min": 0.25, "y_min": 0.25, "x_max": 0.75, "y_max": 0.5, "score": 0.9}
SQUARE = [[0.25, 0.25], [0.75, 0.25], [0.75, 0.5], [0.25, 0.5]]
ANSWERS: Mapping[str, dict[str, Any]] = {
    "point": {"points": [{"x": 0.5, "y": 0.25, "score": 0.9}]},
    "detect": {"objects": [BOX]},
    "segment": {
        "path": "M0 0L1 0L1 1L0 1Z",
        "bbox": BOX,
        "polygons": [SQUARE],
        "objects": [{"bbox": BOX, "path": "M0 0L1 0L1 1L0 1Z", "polygons": [SQUARE], "score": 0.9}],
    },
}


def box(x0: float, y0: float, x1: float, y1: float) -> dict[str, Any]:
    """A box in the engine's form."""
    return {"x_min": x0, "y_min": y0, "x_max": x1, "y_max": y1, "score": 0.5}


# Names with answers of their own, whatever the verb asks in general.
SPECIAL: Mapping[str, list[dict[str, Any]]] = {
    "nothing": [],
    "unsure": [
        box(0.85, 0.2 * row, 1, 0.2 * row + 0.1) | {"score": score}
        for row, score in enumerate((1.0, 0.0016, 1e-9, None))
    ],
    "fifty": [box(i * 0.01, i * 0.01, 0.5 + i * 0.01, 0.5 + i * 0.01) for i in range(50)],
    "edges": [
        box(0, 0, 0.1, 0.05),  # 1 to 4: at the corners
        box(0.9, 0, 1, 0.05),
        box(0, 0.95, 0.1, 1),
        box(0.9, 0.95, 1, 1),
        box(0.5, 0.5, 0.5005, 0.5005),  # 5: smaller than a pixel
        box(0.5, 0.25, 1.5, 0.75),  # 6: reaches out of the picture
        box(0.6, 0.2, 0.4, 0.4),  # inverted
        box(float("nan"), 0, 1, 1),
        box(1.2, 0, 1.4, 1),  # outside
    ],
}


@dataclass(frozen=True)
class Names:
    """A vocabulary of a few names."""

    names: tuple[str, ...] = ("cat", "cup", "dog")


@dataclass(eq=False)
class Call:
    """One request as the engine saw it, and where it is: "waiting", "running", "done" or "cancelled"."""

    verb: str
    object: str
    shape: tuple[int, ...]
    options: dict[str, Any]
    state: str = "waiting"


@dataclass
class ScriptedEngine:
    """Answers every known name with `answers[verb]`, `delay_s` after its turn has come; unknown names are refused.

    At most `rows` are answered at once; of the others `queue` wait, in order, and more are refused.
    """

    model: str = "photon-tiny"
    answers: Mapping[str, dict[str, Any]] = field(default_factory=lambda: dict(ANSWERS))
    delay_s: float = 0.0
    rows: int = 1000
    queue: int = 1000
    device: str = "cpu"
    known: Callable[[str], bool] = field(default=lambda name: name != "xyzzy")
    vocabulary: Names | None = field(default_factory=Names)
    failure: str | None = None
    calls: list[Call] = field(default_factory=list)
    closed: bool = False
    cuts: bool = False
    """Whether its answers reach a limit of tokens."""
    _ids: Any = field(default_factory=lambda: itertools.count(1))
    made: list[StepRecord] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def healthy(self) -> bool:
        return self.failure is None

    async def apoint(self, image: np.ndarray, object: str, **options: Any) -> Result:
        return await self._answer("point", image, object, options)

    async def adetect(self, image: np.ndarray, object: str, **options: Any) -> Result:
        return await self._answer("detect", image, object, options)

    async def asegment(self, image: np.ndarray, object: str, **options: Any) -> Result:
        return await self._answer("segment", image, object, options)

    def encode_image(self, image: np.ndarray) -> np.ndarray:
        return image

    def stats(self) -> dict[str, Any]:
        running, waiting = len(self._in("running")), len(self._in("waiting"))
        return {"model": self.model, "device": self.device, "running": running, "waiting": waiting}

    def steps(self, since: int = 0) -> list[StepRecord]:
        with self._lock:
            return [step for step in self.made if step.step >= since]

    @property
    def last_step(self) -> int:
        with self._lock:
            return max((step.step for step in self.made), default=-1)

    def describe(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "device": self.device,
            "dtype": "float32",
            "threads": 2,
            "skills": ["point", "detect", "segment"],
            "modelled": False,
        }

    def close(self, deadline_s: float = 30.0) -> None:
        self.closed = True

    async def _answer(self, verb: str, image: np.ndarray, name: str, options: dict[str, Any]) -> Result:
        if self.failure is not None:
            raise EngineStoppedError(self.failure)
        if not self.known(name):
            raise UnknownWordError(name, ("cat", "cup"))
        ticket = options.pop("ticket", None) or Ticket()
        if len(self._in("running")) >= self.rows and len(self._in("waiting")) >= self.queue:
            raise QueueFullError(f"{self.queue} requests are waiting already; at most {self.queue} may. Try later.")
        call = Call(verb, name, image.shape, options)
        self.calls.append(call)
        ticket.follow(lambda: self._ahead(call))
        start = time.perf_counter()
        try:
            while self._ahead(call) != 0 or len(self._in("running")) >= self.rows:
                await asyncio.sleep(0.01)
            call.state = "running"
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            call.state = "cancelled"
            raise
        call.state = "done"
        result = self._result(verb, options.get("pipelined", True), start)
        if self.cuts or (options.get("settings") or {}).get("max_tokens") == result.metrics.tokens:
            result.finish_reason = "length"
        if name in SPECIAL and verb == "detect":
            result["objects"] = SPECIAL[name]
        if name in SPECIAL and verb == "segment":
            result["objects"] = [
                {"bbox": one, "path": "", "polygons": [_corners(one)], "score": 0.5} for one in SPECIAL[name]
            ]
        return result

    def _in(self, state: str) -> list[Call]:
        return [call for call in self.calls if call.state == state]

    def _ahead(self, call: Call) -> int | None:
        waiting = self._in("waiting")
        return waiting.index(call) if call in waiting else None

    def _result(self, verb: str, pipelined: bool, start: float) -> Result:
        with self._lock:
            request = next(self._ids)
            made = step_records(len(self.made), request, start, pipelined)
            self.made.extend(made)
        total = (time.perf_counter() - start) * 1e3 + 20.0
        metrics = Metrics(
            request_id=request,
            mode="pipelined" if pipelined else "blocking",
            preprocess_ms=2.0,
            encode_ms=0.0,
            queue_ms=1.0,
            prefill_ms=8.0,
            time_to_first_token_ms=11.0,
            decode_ms=total - 12.0,
            total_ms=total,
            tokens=9,
            prompt_tokens=150,
            steps=len(made),
            zombie_steps=1 if pipelined else 0,
            device_busy=0.92 if pipelined else 0.71,
            requests=(request,),
        )
        return Result(self.answers[verb], metrics)


def _corners(one: dict[str, Any]) -> list[list[float]]:
    xs, ys = (one["x_min"], one["x_max"]), (one["y_min"], one["y_max"])
    return [[xs[0], ys[0]], [xs[1], ys[0]], [xs[1], ys[1]], [xs[0], ys[1]]]


def step_records(first: int, request: int, start_s: float, pipelined: bool, count: int = 9) -> list[StepRecord]:
    """A prefill and then decode steps of 1.2 ms; blocking leaves a bubble of 0.5 ms after each."""
    records, t = [], start_s
    for index in range(count):
        forward = 0.008 if index == 0 else 0.0012
        launch = t - (0.0003 if pipelined and index else 0.0)
        begin = t if pipelined and index else t + 0.0003
        sampled = begin + forward
        copied = sampled + 0.0002
        records.append(
            StepRecord(
                step=first + index,
                kind="prefill" if index == 0 else "decode",
                slot=index % 2,
                mode="pipelined" if pipelined else "blocking",
                why="sure" if pipelined else "blocking",
                requests=(request,),
                zombies=int(pipelined and index == count - 1),
                crops=1 if index == 0 else 0,
                tokens=1,
                launch_start_s=launch,
                launch_end_s=launch + 0.0003,
                forward_start_s=begin,
                forward_end_s=sampled,
                sampling_start_s=sampled,
                sampling_end_s=copied,
                copy_start_s=copied,
                copy_end_s=copied + 0.0001,
                commit_start_s=copied + 0.0001,
                commit_end_s=copied + 0.0002,
                finalize_start_s=copied,
                finalize_end_s=copied + 0.00005,
            )
        )
        t = copied if pipelined else copied + 0.0003
    return records


def scripted(model: str, _: Any) -> ScriptedEngine:
    """A model's engine, as `app.server.build_app` wants it made."""
    return ScriptedEngine(model)


__all__ = ["ANSWERS", "Names", "ScriptedEngine", "scripted", "step_records"]
