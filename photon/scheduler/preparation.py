"""Pictures become crops in a small thread pool, ahead of their admission and never on the tick thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from photon.request import ImageRef


@dataclass
class _Job:
    start_s: float
    end_s: float = 0.0
    crops: Any = None
    error: BaseException | None = None


class Preparation:
    """One job a picture, whoever asks. `notify` is called on a pool thread and must hand over to the engine thread."""

    def __init__(
        self,
        preprocess: Callable[[Any], Any],
        pool: Executor,
        clock: Callable[[], float],
        notify: Callable[[], None],
    ) -> None:
        self._preprocess = preprocess
        self._pool = pool
        self._clock = clock
        self._notify = notify
        self._jobs: dict[bytes, _Job] = {}

    def start(self, image: ImageRef) -> None:
        """Begin the picture's job unless it has one."""
        if image.key in self._jobs:
            return
        job = self._jobs[image.key] = _Job(self._clock())

        def run() -> None:
            try:
                job.crops = self._preprocess(image.pixels)
            except Exception as error:
                job.error = error
            job.end_s = self._clock()
            self._notify()

        self._pool.submit(run)

    def find(self, key: bytes) -> _Job | None:
        """The finished job of a picture."""
        job = self._jobs.get(key)
        return job if job is not None and job.end_s else None

    def keep_only(self, keys: set[bytes]) -> None:
        """Drop the crops that nobody waits for any more."""
        for key in [k for k, job in self._jobs.items() if job.end_s and k not in keys]:
            del self._jobs[key]
