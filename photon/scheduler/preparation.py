"""Pictures become crops in a small thread pool, ahead of their admission and never on the tick thread.

Where the device leaves a core free, the crops are encoded there too (see `photon.runtime.encoding`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

from photon.core.request import ImageRef


@dataclass
class _Job:
    start_s: float
    crops_s: float = 0.0
    end_s: float = 0.0
    crops: Any = None
    error: BaseException | None = None
    work: Future[None] | None = None


class Preparation:
    """One job a picture, whoever asks. `notify` is called on a pool thread and must hand over to the engine thread.

    `encode` makes what a prefill takes instead of crops; None leaves the encoding to the prefill.
    """

    def __init__(
        self,
        preprocess: Callable[[Any], Any],
        pool: Executor,
        clock: Callable[[], float],
        notify: Callable[[], None],
        encode: Callable[[Any], Any] | None = None,
    ) -> None:
        self._preprocess = preprocess
        self._pool = pool
        self._clock = clock
        self._notify = notify
        self._encode = encode
        self._jobs: dict[bytes, _Job] = {}

    def start(self, image: ImageRef) -> None:
        """Begin the picture's job unless it has one."""
        if image.key in self._jobs:
            return
        job = self._jobs[image.key] = _Job(self._clock())

        def run() -> None:
            try:
                job.crops = self._preprocess(image.pixels)
                job.crops_s = self._clock()
                if self._encode:
                    job.crops = self._encode(job.crops)
            except Exception as error:
                job.error = error
            job.end_s = self._clock() if self._encode or job.error else job.crops_s
            self._notify()

        job.work = self._pool.submit(run)

    def find(self, key: bytes) -> _Job | None:
        """The finished job of a picture."""
        job = self._jobs.get(key)
        return job if job is not None and job.end_s else None

    def keep_only(self, keys: set[bytes]) -> None:
        """Drop the crops that nobody waits for any more, and the pictures that nobody has begun with."""
        for key, job in list(self._jobs.items()):
            if key not in keys and (job.end_s or (job.work and job.work.cancel())):
                del self._jobs[key]
