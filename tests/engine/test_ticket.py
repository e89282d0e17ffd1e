"""A ticket tells from any thread where its call stands in the queue, and nothing once it has left it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from photon import ImageLike, Photon, Ticket
from tests.recorded import image, load

PATIENCE_S = 60.0
SHORT = {"max_tokens": 3, "max_objects": 2}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def in_line(model: Photon, picture: ImageLike) -> None:
    first, second, third, fourth = (Ticket() for _ in range(4))
    assert first.ahead is None
    model.pause()
    leaving = asyncio.create_task(model.adetect(picture, "cat", SHORT, ticket=first))
    await until(lambda: first.ahead == 0)
    staying = asyncio.create_task(model.aquery(picture, "What is this?", settings=SHORT, ticket=second))
    await until(lambda: second.ahead == 1)
    stream = (await model.acaption(picture, stream=True, settings=SHORT, ticket=third))["caption"]
    await until(lambda: third.ahead == 2)
    pointing = asyncio.create_task(model.apoint(picture, "cat", SHORT, ticket=fourth))
    await until(lambda: fourth.ahead == 3)
    leaving.cancel()
    await until(lambda: first.ahead is None)
    assert (second.ahead, third.ahead, fourth.ahead) == (0, 1, 2)
    model.resume()
    assert "".join([piece async for piece in stream])
    await asyncio.gather(staying, pointing)
    assert [ticket.ahead for ticket in (second, third, fourth)] == [None] * 3


def test_a_ticket_counts_who_is_before_its_call() -> None:
    with load("md2") as model:
        asyncio.run(in_line(model, model.encode_image(image("md2"))))
