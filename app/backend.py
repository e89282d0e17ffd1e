"""The one engine of the process: what the page needs from it, and whether it is there.

The page must answer also while the model loads and when its files are missing, so a failure to
start is a state here, not an exception.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.settings import Settings
from photon import EngineConfig, Photon, PhotonError, Result, StepRecord

log = logging.getLogger(__name__)


Verb = Callable[..., Coroutine[Any, Any, Result]]  # (image, object, settings=, spatial_refs=, pipelined=)


class Vocabulary(Protocol):
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
    def stats(self) -> dict[str, Any]: ...
    def steps(self, since: int = 0) -> list[StepRecord]: ...
    def describe(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    @property
    def healthy(self) -> bool: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def vocabulary(self) -> Any: ...


class NotReadyError(Exception):
    """There is no engine to answer; the sentence says why."""


class State(Enum):
    """What a visitor, or a load balancer, may be told."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


class Backend:
    """Loads the engine in the background, answers what state it is in, and closes it.

    `note` is a sentence about where the engine runs, for everybody who asks.
    """

    note = ""

    def __init__(self, load: Callable[[], Engine]) -> None:
        self._load = load
        self._engine: Engine | None = None
        self._problem: str | None = None
        self._starting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to load; call on the event loop."""
        self._starting = asyncio.create_task(self._start())

    async def started(self) -> None:
        """Wait until the engine is there or has failed."""
        if self._starting is not None:
            await self._starting

    async def close(self) -> None:
        """Close the engine; a load that still runs is waited for."""
        with contextlib.suppress(Exception):
            await self.started()
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)

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
            return "The model is loading."
        if not self._engine.healthy:
            return f"The engine has stopped: {self._engine.failure or 'the cause is not known'}"
        return ""

    def engine(self) -> Engine:
        """The running engine. Raises NotReadyError with the reason."""
        if self.state is not State.READY or self._engine is None:
            raise NotReadyError(self.reason)
        return self._engine

    def health(self) -> Mapping[str, Any]:
        """What /health answers: the state, the reason when not ready, and which model answers."""
        note = {"note": self.note} if self.note else {}
        if self.state is not State.READY or self._engine is None:
            return {"status": self.state.value, "reason": self.reason} | note
        about = self._engine.describe()
        return {"status": self.state.value, "model": about.get("model"), "device": about.get("device")} | note

    async def _start(self) -> None:
        try:
            self._engine = await asyncio.to_thread(self._load)
        except PhotonError as error:
            self._problem = str(error)
        except Exception as error:
            log.exception("the engine could not start")
            self._problem = f"The engine could not start: {type(error).__name__}: {error}"
        if self._problem is not None:
            log.error("%s", self._problem)


def load_engine(settings: Settings) -> Engine:
    """The engine that the settings ask for. Raises photon.ModelLoadError and what loading raises."""
    config = EngineConfig(
        device=settings.device,
        dtype=settings.dtype,
        threads=settings.threads,
        max_batch=settings.max_batch,
        kv_pages=settings.kv_pages,
        queue=settings.queue,
    )
    return Photon.load(settings.model, config)
