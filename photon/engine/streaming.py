"""How pieces of an answer reach their readers: the engine thread hands over once a tick, and readers never hold it up.

Each reader has a mailbox without a limit (some strings a stream), so a slow one loses nothing. Threads are woken
through their mailbox's queue, each asyncio loop by one call a tick, whatever the number of its streams.
"""

from __future__ import annotations

import asyncio
import queue
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from photon.core.result import Result
from photon.errors import RequestCancelledError


@dataclass(frozen=True, slots=True)
class End:
    """The last item of every mailbox: the whole answer, or why there is none."""

    result: Result | None = None
    error: BaseException | None = None

    def outcome(self) -> Result:
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


class ThreadMailbox:
    """Read by `get`, which blocks its thread."""

    abandoned = False

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.put = self._items.put
        self.get = self._items.get


class LoopMailbox:
    """Read by one coroutine of `loop`; everything but `abandoned` belongs to the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.abandoned = False
        self._items: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> Any:
        while not self._items:
            self._waiter = self.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._items.popleft()


Mailbox = ThreadMailbox | LoopMailbox


class Outbox:
    """What the engine thread has for readers since it last delivered."""

    def __init__(self) -> None:
        self._items: list[tuple[Mailbox, Any]] = []

    def put(self, mailbox: Mailbox, item: Any) -> None:
        self._items.append((mailbox, item))

    def deliver(self) -> None:
        """Hand everything over. Mailboxes whose loop has been closed are marked as abandoned."""
        if self._items:
            items, self._items = self._items, []
            self._hand_over(items)

    def deliver_now(self, mailbox: Mailbox, item: Any) -> None:
        """Hand over one thing, on any thread, past what has not been delivered."""
        self._hand_over([(mailbox, item)])

    @staticmethod
    def _hand_over(items: list[tuple[Mailbox, Any]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[LoopMailbox, Any]]] = {}
        for mailbox, item in items:
            if isinstance(mailbox, LoopMailbox):
                by_loop.setdefault(mailbox.loop, []).append((mailbox, item))
            else:
                mailbox.put(item)
        for loop, letters in by_loop.items():
            try:
                loop.call_soon_threadsafe(_distribute, letters)
            except RuntimeError:
                for mailbox, _ in letters:
                    mailbox.abandoned = True


def _distribute(letters: list[tuple[LoopMailbox, Any]]) -> None:
    for mailbox, item in letters:
        mailbox.put(item)


Last = Callable[[Result], Any]
"""Makes a stream's closing piece from the whole answer."""


class Stream(Generator[Any, None, None]):
    """The pieces of one answer, for a thread. Closing or dropping it early cancels the request in the engine."""

    def __init__(self, mailbox: ThreadMailbox, cancel: Callable[[], None], last: Last | None = None) -> None:
        self._mailbox = mailbox
        self._cancel = cancel
        self._last = last
        self._end: End | None = None
        self._closed = False

    def __next__(self) -> Any:
        """Raises the request's error where there is one; after that, and after `close`, StopIteration."""
        if self._closed:
            raise StopIteration
        try:
            item = self._mailbox.get()
        except BaseException:  # the waiting thread was interrupted
            self.close()
            raise
        if not isinstance(item, End):
            return item
        self._end, self._closed = item, True
        result = item.outcome()
        if self._last is None:
            raise StopIteration
        return self._last(result)

    def send(self, value: None) -> Any:
        return next(self)

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> Any:
        self.close()
        raise typ if val is None else val  # type: ignore[misc]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._cancel()

    def result(self) -> Result:
        """The whole answer with its metrics; pieces that are not read yet are skipped. Raises what ended it."""
        for _ in self:
            pass
        return _outcome(self._end)

    def __del__(self) -> None:
        self.close()


class AsyncStream(AsyncGenerator[Any, None]):
    """The pieces of one answer, for one coroutine.

    Closing or dropping it early, or cancelling the task that reads it, cancels the request in the engine.
    """

    def __init__(self, mailbox: LoopMailbox, cancel: Callable[[], None], last: Last | None = None) -> None:
        self._mailbox = mailbox
        self._cancel = cancel
        self._last = last
        self._end: End | None = None
        self._closed = False

    async def __anext__(self) -> Any:
        """Raises the request's error where there is one; after that, and after `aclose`, StopAsyncIteration."""
        if self._closed:
            raise StopAsyncIteration
        try:
            item = await self._mailbox.get()
        except BaseException:  # the reading task was cancelled
            await self.aclose()
            raise
        if not isinstance(item, End):
            return item
        self._end, self._closed = item, True
        result = item.outcome()
        if self._last is None:
            raise StopAsyncIteration
        return self._last(result)

    async def asend(self, value: None) -> Any:
        return await self.__anext__()

    async def athrow(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> Any:
        await self.aclose()
        raise typ if val is None else val  # type: ignore[misc]

    async def aclose(self) -> None:
        self._close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._cancel()

    async def result(self) -> Result:
        """The whole answer with its metrics; pieces that are not read yet are skipped. Raises what ended it."""
        async for _ in self:
            pass
        return _outcome(self._end)

    def __del__(self) -> None:
        self._close()


def _outcome(end: End | None) -> Result:
    if end is None:
        raise RequestCancelledError("The stream was closed before its answer was complete.")
    return end.outcome()
