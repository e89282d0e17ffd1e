"""One model's engine: what the page needs from it, and whether it is there.

The page must answer also while the model loads and when its files are missing, so a failure to
start is a state here, not an exception.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.settings import ServerSettings
from photon import EngineConfig, PhotonError, Result, StepRecord

log = logging.getLogger(__name__)

CLOSE_S = 30.0  # what runs has this long to finish when an engine is closed
BEAT_S = 0.25  # how often whoever waits for the engine hears how far it is

Verb = Callable[..., Coroutine[Any, Any, Result]]  # (image, text, settings=, spatial_refs=, pipelined=, ticket=)


class NameList(Protocol):
    """The closed list of names of a small model."""

    @property
    def names(self) -> Sequence[str]: ...


class Engine(Protocol):
    """The part of `photon.Photon` that the application uses."""

    def encode_image(self, image: NDArray[np.uint8]) -> Any: ...
    @property
    def apoint(self) -> Verb: ...
    @property
    def adetect(self) -> Verb: ...
    @property
    def asegment(self) -> Verb: ...
    @property
    def aquery(self) -> Verb: ...
    @property
    def acaption(self) -> Verb: ...
    def stats(self) -> dict[str, Any]: ...
    def steps(self, since: int = 0) -> list[StepRecord]: ...
    @property
    def last_step(self) -> int: ...
    def describe(self) -> dict[str, Any]: ...
    def close(self, deadline_s: float = CLOSE_S) -> None: ...
    @property
    def healthy(self) -> bool: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def vocabulary(self) -> Any: ...


class NotReadyError(Exception):
    """There is no engine to answer; the sentence says why."""


class UnavailableError(NotReadyError):
    """The model cannot be had on this machine, also not later; the sentence says why."""


class State(Enum):
    """What a visitor, or a load balancer, may be told."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


class EngineHolder:
    """Loads the engine in the background, answers what state it is in, counts who uses it, and closes it.

    `note` is a sentence about where the engine runs, for everybody who asks.
    """

    note = ""

    def __init__(self, load: Callable[[], Engine], name: str = "the model") -> None:
        self.name = name
        self._load = load
        self._engine: Engine | None = None
        self._problem: str | None = None
        self._refusal: type[NotReadyError] = NotReadyError
        self._starting: asyncio.Task[None] | None = None
        self._users = 0
        self._used_s = time.monotonic()
        self.begin("Loading")

    @classmethod
    def refusing(cls, name: str, error: NotReadyError) -> EngineHolder:
        """One that has no engine and says why."""
        made = cls(lambda: _no_engine(error), name)
        made._problem, made._refusal = str(error), type(error)
        return made

    def start(self, after: Sequence[Coroutine[Any, Any, None]] = ()) -> None:
        """Begin to load, once `after` is done; call on the event loop."""
        self._starting = asyncio.create_task(self._start(after))

    async def started(self) -> None:
        """Wait until the engine is there or has failed."""
        if self._starting is not None:
            await self._starting

    async def until_settled(self) -> AsyncIterator[None]:
        """Now, now and then while it starts, and once more when it is there or has failed."""
        settled = False
        while not settled:
            settled = self.state is not State.STARTING
            yield
            if not settled:
                await asyncio.sleep(BEAT_S)

    async def close(self, deadline_s: float = CLOSE_S) -> None:
        """Close the engine: what runs has `deadline_s` seconds to finish. A load that still runs is waited for."""
        with contextlib.suppress(Exception):
            await self.started()
        engine, self._engine = self._engine, None
        self._problem = self._problem or f"{self.name} has been closed."
        if engine is not None:
            await asyncio.to_thread(engine.close, deadline_s)

    def begin(self, doing: str) -> None:
        """A part of the way to an engine begins, for example "Loading"; from any thread."""
        self._doing, self._begun_s, self._share = doing, time.monotonic(), 0.0

    def report(self, share: float) -> None:
        """How much of that part is done, 0..1; from any thread."""
        self._share = share

    @property
    def progress(self) -> tuple[str, float]:
        """While it starts: what is done at the moment, in words, and the share of that, 0..1."""
        return f"{self._doing} {self.name} … {time.monotonic() - self._begun_s:.0f} s", self._share

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Somebody uses the engine while this context lasts."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self.state is State.READY:
                self._used_s = time.monotonic()

    @property
    def in_use(self) -> bool:
        return self._users > 0

    @property
    def idle_s(self) -> float:
        """Since its last use, or since it was there or had failed."""
        return time.monotonic() - self._used_s

    @property
    def state(self) -> State:
        if self._problem is not None or (self._engine is not None and not self._engine.healthy):
            return State.FAILED
        return State.STARTING if self._engine is None else State.READY

    @property
    def reason(self) -> str:
        """One sentence for the state that is not READY; empty when it is."""
        if self._problem is not None:
            return self._problem
        if self._engine is None:
            doing, share = self.progress
            return f"{doing}{f' ({share:.0%})' if share else ''}. Ask again in a moment."
        if not self._engine.healthy:
            return f"The engine has stopped: {self._engine.failure or 'the cause is not known'}"
        return ""

    def engine(self) -> Engine:
        """The running engine. Raises NotReadyError with the reason."""
        if self.state is not State.READY or self._engine is None:
            raise self._refusal(self.reason)
        return self._engine

    def health(self) -> Mapping[str, Any]:
        """What /health answers: the state, the reason when not ready, and which model answers."""
        note = {"note": self.note} if self.note else {}
        if self.state is not State.READY or self._engine is None:
            return {"status": self.state.value, "reason": self.reason} | note
        about = self._engine.describe()
        return {"status": self.state.value, "model": about.get("model"), "device": about.get("device")} | note

    async def _start(self, before: Sequence[Coroutine[Any, Any, None]] = ()) -> None:
        try:
            await asyncio.gather(*before)
            if before:
                await asyncio.to_thread(gc.collect)  # what they held is needed now
            self._engine = await asyncio.to_thread(self._load)
        except PhotonError as error:
            self._problem = str(error)
        except Exception as error:
            log.exception("the engine could not start")
            self._problem = f"The engine could not start: {type(error).__name__}: {error}"
        self._used_s = time.monotonic()
        if self._problem is not None:
            log.error("%s", self._problem)


def _no_engine(error: NotReadyError) -> Engine:
    raise error


def engine_config(settings: ServerSettings) -> EngineConfig:
    """How the settings want an engine of any model set up."""
    return EngineConfig(
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
        max_batch=settings.max_batch,
        kv_pages=settings.kv_pages,
        queue=settings.queue,
        mask_model=settings.mask_model,
    )
