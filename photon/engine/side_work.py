"""Side work: a part of a call that is not the engine's, such as a second model's: it never runs on the engine thread.

It has one thread of its own, and its outcome comes back to the engine thread as a message.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Done = Callable[[list[dict[str, Any]] | None, BaseException | None], None]
"""Gets the work's values, or why there are none."""


class SideWorker:
    """All methods are called on the engine thread; `post` hands a message to it from any thread."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post
        self._pool = ThreadPoolExecutor(1, "photon-side-work")
        self._running: dict[Future[list[dict[str, Any]]], Done] = {}

    @property
    def idle(self) -> bool:
        return not self._running

    def start(self, work: Callable[[], list[dict[str, Any]]], done: Done) -> Callable[[], None]:
        """`done` is called later, unless the returned function is called before: what runs then runs for nothing."""
        future = self._pool.submit(work)
        self._running[future] = done
        future.add_done_callback(lambda f: self._post(lambda: self._finish(f)))

        def forget() -> None:
            self._running.pop(future, None)
            future.cancel()

        return forget

    def abort(self, error: BaseException) -> None:
        """End all of it with this error, now."""
        running, self._running = self._running, {}
        for future, done in running.items():
            future.cancel()
            done(None, error)

    def close(self) -> None:
        """Start nothing more. What still runs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _finish(self, future: Future[list[dict[str, Any]]]) -> None:
        done = self._running.pop(future, None)
        if done is None or future.cancelled():
            return
        error = future.exception()
        done(None if error else future.result(), error)
