"""app.questions.question: names are split and checked, asked in parallel, refused one by one, cancelled together."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from app.questions.question import MAX_NAMES, Answer, Question, QuestionError, Standing, as_json, ask, parse_names
from photon import Result
from tests.app.live import StreamingEngine
from tests.app.scripted import ScriptedEngine

IMAGE = np.zeros((4, 6, 3), np.uint8)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cat", ("cat",)),
        ("  red   car ", ("red car",)),
        ("cat, dog", ("cat", "dog")),
        ("cat,,dog,", ("cat", "dog")),
        ("cat; dog\nbird、fish，bee", ("cat", "dog", "bird", "fish", "bee")),
        ("Cat, cat, CAT, dog", ("Cat", "dog")),
        ("قطة، كلب", ("قطة", "كلب")),
        ("🐈", ("🐈",)),
        ("🐈\u200d⬛", ("🐈\u200d⬛",)),
        ("<img src=x onerror=alert(1)>", ("<img src=x onerror=alert(1)>",)),
        ('"cat"', ('"cat"',)),
    ],
)
def test_names_are_separated_and_kept_as_typed(text: str, names: tuple[str, ...]) -> None:
    assert parse_names(text) == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "say what to look for"),
        (" \n\t", "say what to look for"),
        ("\u200b, \u2060\x00, \ufeff", "say what to look for"),
        (",;,", "say what to look for"),
        (",".join(map(str, range(MAX_NAMES + 1))), f"at most {MAX_NAMES}"),
        ("x" * 101, "101 characters; at most 100"),
    ],
)
def test_what_is_not_a_question_is_refused_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(QuestionError, match=words):
        parse_names(text)


@pytest.mark.parametrize("task", ["point", "detect", "segment"])
def test_a_question_reaches_its_verb_with_the_visitors_choices(task: str) -> None:
    engine = ScriptedEngine()
    question = Question(task, ("cat",), pipelined=False, max_objects=7, reference=(0.1, 0.2))
    (answer,) = asyncio.run(ask(engine, IMAGE, question))
    (call,) = engine.calls
    assert (call.verb, call.object, call.shape) == (task, "cat", IMAGE.shape)
    assert call.options == {
        "settings": {"max_objects": 7, "temperature": 0.0},
        "spatial_refs": [[0.1, 0.2]],
        "pipelined": False,
    }
    assert len(answer.found) == 1
    assert answer.metrics is not None
    assert answer.metrics.mode == "blocking"


def test_names_are_in_flight_together() -> None:
    engine = ScriptedEngine(delay_s=0.2)
    start = time.perf_counter()
    answers = asyncio.run(ask(engine, IMAGE, Question("point", ("cat", "dog", "cup"))))
    assert time.perf_counter() - start < 0.5
    assert [answer.name for answer in answers] == ["cat", "dog", "cup"]


def test_a_refused_name_does_not_harm_the_others() -> None:
    refused, answered = asyncio.run(ask(ScriptedEngine(), IMAGE, Question("detect", ("xyzzy", "cat"))))
    assert refused.result is None
    assert refused.problem is not None
    assert "xyzzy" in refused.problem
    assert "cat" in refused.problem
    assert len(answered.found) == 1


def test_cancelling_reaches_every_request() -> None:
    engine = ScriptedEngine(delay_s=30)

    async def cancel_soon() -> None:
        task = asyncio.create_task(ask(engine, IMAGE, Question("point", ("cat", "dog"))))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_soon())
    assert [call.state for call in engine.calls] == ["cancelled", "cancelled"]


def test_an_unexpected_error_of_one_name_cancels_the_others() -> None:
    """They would go on in the engine, unseen, holding rows."""

    class Broken(ScriptedEngine):
        async def adetect(self, image: Any, name: str, **options: Any) -> Any:
            if name == "b":
                raise ValueError("not one of ours")
            return await super().adetect(image, name, **options)

    engine = Broken(delay_s=30)
    with pytest.raises(ValueError, match="not one of ours"):
        asyncio.run(asyncio.wait_for(ask(engine, IMAGE, Question("detect", ("a", "b", "c"))), 20))
    assert [call.state for call in engine.calls] == ["cancelled", "cancelled"]


def test_whoever_waits_has_a_place_until_one_of_their_names_is_being_answered() -> None:
    engine = ScriptedEngine(delay_s=30, rows=1)
    question = Question("point", ("cat", "dog"))

    async def queue() -> list[int | None]:
        standings = [Standing(question) for _ in range(3)]
        assert standings[0].place is None  # nothing has been asked yet
        tasks = [asyncio.create_task(ask(engine, IMAGE, question, standing)) for standing in standings]
        await asyncio.sleep(0.1)
        places = [standing.place for standing in standings]
        tasks[0].cancel()
        await asyncio.sleep(0.1)
        places += [standing.place for standing in standings[1:]]
        for task in tasks:
            task.cancel()
        return places

    assert asyncio.run(queue()) == [None, 2, 4, None, 2]


def test_the_json_keeps_the_engines_values() -> None:
    question = Question("point", ("cat", "xyzzy"))
    answers = asyncio.run(ask(ScriptedEngine(), IMAGE, question))
    body = as_json(question, answers, (6, 4))
    assert body["task"] == "point"
    assert body["image"] == {"width": 6, "height": 4}
    assert body["answers"][0] == {"name": "cat", "points": [{"x": 0.5, "y": 0.25, "score": 0.9}]}
    assert "xyzzy" in body["answers"][1]["error"]


def test_a_question_is_one_and_a_caption_needs_none() -> None:
    assert parse_names("What is this,\n and why?", "Query") == ("What is this, and why?",)
    assert parse_names("", "Caption") == ("caption",)
    for text, words in (
        ("  ", "ask something"),
        ("\u200b", "ask something"),
        ("x" * 1001, "1001 characters; at most 1000"),
    ):
        with pytest.raises(QuestionError, match=words):
            parse_names(text, "Query")


@pytest.mark.parametrize(("task", "key"), [("query", "answer"), ("caption", "caption")])
def test_text_tasks_reach_their_verbs(task: str, key: str) -> None:
    engine = StreamingEngine()
    question = Question(task, ("Why?",), pipelined=False, reference=(0.1, 0.2), temperature=0.5)
    (answer,) = asyncio.run(ask(engine, IMAGE, question))
    (call,) = engine.calls
    assert (call.verb, call.object) == (task, {"query": "Why?", "caption": "normal"}[task])
    refs = {"spatial_refs": [[0.1, 0.2]]} if task == "query" else {}
    assert call.options == {"settings": {"temperature": 0.5}, "pipelined": False, **refs}
    assert answer.text == "Two cats — 猫."
    assert as_json(question, [answer], (6, 4))["answers"] == [{"name": "Why?", key: answer.text}]


@pytest.mark.parametrize("task", ["query", "caption"])
def test_whoever_waits_for_a_text_is_told_what_has_been_said_so_far(task: str) -> None:
    engine = StreamingEngine(delay_s=0.1)
    question = Question(task, ("Why?",))
    standing = Standing(question)

    async def follow() -> list[str]:
        asking = asyncio.create_task(ask(engine, IMAGE, question, standing))
        heard = [""]
        while not asking.done():
            await asyncio.sleep(0.01)
            heard += [standing.text] if standing.text != heard[-1] else []
        assert asking.result()[0].text == standing.text
        assert asking.result()[0].metrics is not None
        return heard

    assert asyncio.run(follow()) == ["", "Two ", "Two cats ", "Two cats — 猫."]


def test_cancelling_ends_a_text_on_its_way() -> None:
    engine = StreamingEngine(delay_s=0.1, pieces=("word ",) * 1000)
    question = Question("query", ("Why?",))
    standing = Standing(question)

    async def cancel_when_it_speaks() -> None:
        asking = asyncio.create_task(ask(engine, IMAGE, question, standing))
        while not standing.text:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait({asking})

    asyncio.run(cancel_when_it_speaks())
    assert engine.closed_streams == ["query"]


def test_an_answer_that_was_cut_says_so_in_the_json() -> None:
    whole, cut = Answer("cat", Result({"points": []})), Answer("dog", Result({"points": []}, finish_reason="length"))
    rows = as_json(Question("point", ("cat", "dog")), [whole, cut], (6, 4))["answers"]
    assert [row.get("finish_reason") for row in rows] == [None, "length"]


def test_json_holds_no_value_that_is_no_number() -> None:
    nan, inf = float("nan"), float("inf")
    answer = Answer("cat", Result({"objects": [{"x_min": nan, "x_max": 0.5}], "polygons": [[[inf, 0.1]]]}))
    (row,) = as_json(Question("detect", ("cat",)), [answer], (6, 4))["answers"]
    assert row == {"name": "cat", "objects": [{"x_min": None, "x_max": 0.5}], "polygons": [[[None, 0.1]]]}
