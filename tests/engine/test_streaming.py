"""Streams: in order, complete, never waited for, and gone from the engine when their reader is."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from photon import EngineStoppedError, ImageLike, Photon, QueueFullError, RequestCancelledError
from photon.engine.streaming import End, LoopMailbox, Outbox, ThreadMailbox
from photon.skills.text import AnswerState
from tests.recorded import load

SHORT, LONG = {"max_tokens": 12}, {"max_tokens": 600}
"""The recorded model never ends a caption by itself."""


@pytest.fixture(scope="module")
def caption(model: Photon, picture: ImageLike) -> str:
    return str(model.caption(picture, settings=SHORT)["caption"])


def eventually(condition: Callable[[], bool], seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def cancelled_one(model: Photon, before: dict[str, Any]) -> Callable[[], bool]:
    """The engine counts one more cancelled request, none more failed, and nothing runs."""

    def check() -> bool:
        now = model.stats()
        counts, old = now["requests"], before["requests"]
        return bool(
            counts["cancelled"] == old["cancelled"] + 1
            and counts["failed"] == old["failed"]
            and now["running"] == now["waiting"] == 0
        )

    return check


# -- threads ----------------------------------------------------------------------------------------------------------


def test_pieces_come_one_by_one_and_make_up_the_answer(model: Photon, picture: ImageLike, caption: str) -> None:
    stream = model.caption(picture, settings=SHORT, stream=True)["caption"]
    pieces = list(stream)
    assert "".join(pieces) == caption
    assert len(pieces) > 5
    assert list(stream) == []
    result = stream.result()
    assert result["caption"] == caption
    assert result.metrics.tokens == SHORT["max_tokens"]


def test_the_first_piece_comes_long_before_the_last(model: Photon, picture: ImageLike) -> None:
    stream = model.caption(picture, settings=LONG, stream=True)["caption"]
    next(stream)
    assert model.stats()["running"] == 1
    stream.close()


def test_a_slow_reader_loses_nothing_and_holds_up_nobody(model: Photon, picture: ImageLike, caption: str) -> None:
    slow = model.caption(picture, settings=SHORT, stream=True)["caption"]
    quick = ["".join(model.caption(picture, settings=SHORT, stream=True)["caption"]) for _ in range(2)]
    assert quick == [caption] * 2
    eventually(lambda: model.stats()["running"] == 0)
    assert "".join(slow) == caption


def test_readers_in_many_threads(model: Photon, picture: ImageLike, caption: str) -> None:
    texts: list[str] = []

    def read() -> None:
        texts.append("".join(model.caption(picture, settings=SHORT, stream=True)["caption"]))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert texts == [caption] * 6


def test_closing_a_stream_cancels_its_request(model: Photon, picture: ImageLike) -> None:
    before = model.stats()
    stream = model.caption(picture, settings=LONG, stream=True)["caption"]
    next(stream)
    stream.close()
    stream.close()
    assert list(stream) == []
    eventually(cancelled_one(model, before))
    with pytest.raises(RequestCancelledError, match="closed before"):
        stream.result()


def test_leaving_a_loop_early_cancels_its_request(model: Photon, picture: ImageLike) -> None:
    before = model.stats()
    for _ in model.caption(picture, settings=LONG, stream=True)["caption"]:
        break
    gc.collect()
    eventually(cancelled_one(model, before))


def test_an_error_thrown_into_a_stream_comes_out_and_cancels(model: Photon, picture: ImageLike) -> None:
    before = model.stats()
    stream = model.caption(picture, settings=LONG, stream=True)["caption"]
    with pytest.raises(KeyError):
        stream.throw(KeyError("mine"))
    eventually(cancelled_one(model, before))


def test_a_stream_that_was_read_to_its_end_cancels_nothing(model: Photon, picture: ImageLike) -> None:
    before = model.stats()["requests"]
    stream = model.caption(picture, settings=SHORT, stream=True)["caption"]
    list(stream)
    stream.close()
    del stream
    gc.collect()
    model.caption(picture, settings={"max_tokens": 1})
    after = model.stats()["requests"]
    assert (after["done"], after["cancelled"]) == (before["done"] + 2, before["cancelled"])


def test_only_the_answer_of_a_reasoned_query_is_streamed(model: Photon, picture: ImageLike) -> None:
    settings = {"max_tokens": 5}
    stream = model.query(picture, "Why?", stream=True, settings=settings, reasoning=True)["answer"]
    text = "".join(stream)
    whole = model.query(picture, "Why?", settings=settings, reasoning=True)
    assert (text, stream.result()) == (whole["answer"], whole)
    assert whole["reasoning"]["text"]


def test_an_error_for_one_reader_fails_that_request_alone(
    model: Photon, picture: ImageLike, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = model.query(picture, "Why?", settings=SHORT)["answer"]
    told = AnswerState.updates

    def updates(self: AnswerState) -> Any:
        if self._key == "caption" and self._told > 3:
            raise ZeroDivisionError("a reader's fault")
        return told(self)

    monkeypatch.setattr(AnswerState, "updates", updates)
    failing = model.caption(picture, settings=SHORT, stream=True)["caption"]
    well = model.query(picture, "Why?", settings=SHORT, stream=True)["answer"]
    pieces = []
    with pytest.raises(ZeroDivisionError):
        pieces.extend(failing)
    assert "".join(well) == expected
    assert model.healthy


def test_a_full_queue_is_told_to_the_reader(picture: ImageLike) -> None:
    with load("md2", queue=1) as model:
        model.pause()
        waiting = model.caption(picture, settings=SHORT, stream=True)["caption"]
        refused = model.caption(picture, settings=SHORT, stream=True)["caption"]
        with pytest.raises(QueueFullError, match="waiting already"):
            next(refused)
        model.resume()
        assert len("".join(waiting)) > 5


def test_closing_the_engine_ends_what_is_still_streamed(picture: ImageLike) -> None:
    model = load("md2")
    stream = model.caption(picture, settings=LONG, stream=True)["caption"]
    next(stream)
    model.close(deadline_s=0.0)
    with pytest.raises(EngineStoppedError, match="closed before the request finished"):
        list(stream)
    with pytest.raises(EngineStoppedError, match="has been closed"):
        model.caption(picture, stream=True)


def test_a_failure_of_the_engine_reaches_every_reader(picture: ImageLike, monkeypatch: pytest.MonkeyPatch) -> None:
    with load("md2") as model:
        stream = model.caption(picture, settings=LONG, stream=True)["caption"]
        next(stream)

        def tick() -> bool:
            raise OSError("the device is gone")

        monkeypatch.setattr(model.parts.loop.scheduler, "tick", tick)
        with pytest.raises(EngineStoppedError, match="the device is gone"):
            list(stream)
        assert not model.healthy


# -- asyncio ----------------------------------------------------------------------------------------------------------


def test_asynchronous_streams_side_by_side(model: Photon, picture: ImageLike, caption: str) -> None:
    async def read() -> str:
        answer = await model.acaption(picture, settings=SHORT, stream=True)
        return "".join([piece async for piece in answer["caption"]])

    async def main() -> list[str]:
        return await asyncio.gather(*(read() for _ in range(6)))

    assert asyncio.run(main()) == [caption] * 6


def test_the_whole_answer_after_an_asynchronous_stream(model: Photon, picture: ImageLike) -> None:
    async def main() -> tuple[str, Any, Any]:
        stream = (await model.aquery(picture, "Why?", settings=SHORT, stream=True))["answer"]
        pieces = [piece async for piece in stream]
        return "".join(pieces), await stream.result(), await model.aquery(picture, "Why?", settings=SHORT)

    text, result, whole = asyncio.run(main())
    assert result == whole == {"answer": text}
    assert result.metrics.tokens == whole.metrics.tokens


def test_cancelling_the_reading_task_cancels_the_request(model: Photon, picture: ImageLike) -> None:
    before = model.stats()

    async def main() -> None:
        stream = (await model.acaption(picture, settings=LONG, stream=True))["caption"]
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in stream:
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(eventually, cancelled_one(model, before))
        assert [piece async for piece in stream] == []

    asyncio.run(main())


def test_closing_an_asynchronous_stream_cancels_the_request(model: Photon, picture: ImageLike) -> None:
    before = model.stats()

    async def main() -> None:
        stream = (await model.acaption(picture, settings=LONG, stream=True))["caption"]
        await anext(stream)
        await stream.aclose()
        with pytest.raises(RequestCancelledError):
            await stream.result()

    asyncio.run(main())
    eventually(cancelled_one(model, before))


def test_a_closed_event_loop_ends_its_requests(model: Photon, picture: ImageLike, caption: str) -> None:
    before = model.stats()
    loop = asyncio.new_event_loop()
    stream = loop.run_until_complete(model.acaption(picture, settings=LONG, stream=True))["caption"]
    loop.close()
    eventually(cancelled_one(model, before))
    assert model.caption(picture, settings=SHORT)["caption"] == caption
    del stream


# -- the hand-over ----------------------------------------------------------------------------------------------------


class CountingLoop:
    """The one method of an event loop that the engine thread calls."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, callback: Callable[..., None], *args: Any) -> None:
        self.calls.append(lambda: callback(*args))


def test_a_loop_is_woken_once_however_many_streams_it_has() -> None:
    loops = [CountingLoop(), CountingLoop()]
    boxes = [LoopMailbox(loops[i % 2]) for i in range(10)]  # type: ignore[arg-type]
    thread, outbox = ThreadMailbox(), Outbox()
    for piece in ("a", "b"):
        for box in [*boxes, thread]:
            outbox.put(box, piece)
    outbox.deliver()
    outbox.deliver()
    assert [len(loop.calls) for loop in loops] == [1, 1]
    assert [thread.get(), thread.get()] == ["a", "b"]

    async def read() -> list[list[Any]]:
        return [[await box.get(), await box.get()] for box in boxes]

    for loop in loops:
        loop.calls[0]()
    assert asyncio.run(read()) == [["a", "b"]] * 10


def test_a_waiting_reader_wakes_for_each_item() -> None:
    async def main() -> list[Any]:
        box = LoopMailbox(asyncio.get_running_loop())
        reader = asyncio.create_task(box.get())
        await asyncio.sleep(0)
        outbox = Outbox()
        outbox.put(box, "a")
        outbox.put(box, End())
        await asyncio.to_thread(outbox.deliver)
        return [await reader, await box.get()]

    assert asyncio.run(main()) == ["a", End()]
