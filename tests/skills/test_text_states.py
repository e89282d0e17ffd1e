"""Caption, query and reasoning: bans by phase, ends, forced tokens, budgets, grounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from photon import InvalidRequestError, UnsupportedSkillError
from photon.core.request import Choice, Token
from photon.skills import Ask, SkillContext
from photon.skills.caption import caption_length, caption_plan
from photon.skills.query import query_plan, question_text
from tests.skills.conftest import feed, finish, ids_of, tokens_of

EOS, ANSWER, THINK, COORD, SIZE, START, END = 0, 3, 4, 5, 6, 7, 9
STOP, TO_ANSWER = Token(EOS), Token(ANSWER)


def caption_state(context: SkillContext, ask: Callable[..., Ask], **settings: int):  # noqa: ANN201
    (request,) = next(caption_plan(context, ask("caption", "normal", settings)))
    return request.start()


@pytest.mark.parametrize(
    ("text", "limit", "pieces", "answer"),
    [
        ("cat", None, ["c", "a", "t"], "cat"),
        ("", None, [], ""),
        ("naïve", None, ["n", "a", "ï", "v", "e"], "naïve"),
        ("日本", None, ["日", "本"], "日本"),
        ("日本", 4, ["日", "�"], "日�"),
        ("🦊!", 4, ["🦊"], "🦊"),
    ],
)
def test_text_comes_in_whole_characters(
    context: SkillContext, ask: Callable[..., Ask], text: str, limit: int | None, pieces: list[str], answer: str
) -> None:
    state = caption_state(context, ask, **({"max_tokens": limit} if limit else {}))
    assert feed(state, [*tokens_of(text), STOP], limit) == pieces
    assert state.done
    assert state.result() == {"caption": answer}
    assert "".join(pieces) == answer


def test_special_ids_have_no_text(context: SkillContext, ask: Callable[..., Ask]) -> None:
    marks = [Token(i) for i in (ANSWER, THINK, COORD, SIZE, START, END)]
    state = caption_state(context, ask)
    feed(state, [*tokens_of("a"), *marks, *tokens_of("b"), STOP])
    assert state.result() == {"caption": "ab"}


def test_the_recorded_reference_spells_them_out(context: SkillContext, ask: Callable[..., Ask]) -> None:
    state = caption_state(dataclasses.replace(context, parity=True), ask)
    feed(state, [*tokens_of("a"), Token(THINK), STOP])
    assert state.result() == {"caption": "a<4>"}


def test_bans_hold_from_the_first_token_on(context: SkillContext, ask: Callable[..., Ask]) -> None:
    state = caption_state(context, ask)
    assert state.choice() == Choice(None, (ANSWER, COORD, SIZE))
    state.advance(tokens_of("a")[0])
    assert state.choice() == Choice(None, (ANSWER, COORD, SIZE))


def test_the_recorded_reference_bans_from_the_second_on(context: SkillContext, ask: Callable[..., Ask]) -> None:
    state = caption_state(dataclasses.replace(context, parity=True), ask)
    assert state.choice() == Choice(None)
    state.advance(tokens_of("a")[0])
    assert state.choice() == Choice(None, (ANSWER,))


@pytest.mark.parametrize(("length", "word"), [("short", 11), ("normal", 12), ("long", 13)])
def test_caption_prompts(context: SkillContext, ask: Callable[..., Ask], length: str, word: int) -> None:
    (request,) = next(caption_plan(context, ask("caption", length)))
    assert [t.id for t in request.prompt] == [1, 10, 2, word, 3]
    assert request.limit == 768


@pytest.mark.parametrize("length", ["medium", "", None, 3, ["short"]])
def test_other_lengths_are_refused(context: SkillContext, length: object) -> None:
    with pytest.raises(InvalidRequestError, match="allowed are short, normal, long"):
        caption_length(context, length)


@pytest.mark.parametrize("question", ["", "  ", "\n", None, 7])
def test_an_empty_question_is_refused(question: object) -> None:
    with pytest.raises(InvalidRequestError, match="question is empty"):
        question_text(question)


def test_query_prompts(context: SkillContext, ask: Callable[..., Ask]) -> None:
    refs = (Token(COORD, coord=0.5), Token(COORD, coord=0.25))
    (request,) = next(query_plan(context, ask("query", "Why?", refs=refs)))
    assert [t.id for t in request.prompt] == [1, 14, 2, COORD, COORD, *ids_of("Why?"), 3, 3]
    (request,) = next(query_plan(context, ask("query", "Why?", reasoning=True)))
    assert [t.id for t in request.prompt] == [1, 14, 2, *ids_of("Why?"), 3, THINK]
    (request,) = next(query_plan(context, ask("query", "Why?", image=None)))
    assert [t.id for t in request.prompt] == [0, 1, 14, 2, *ids_of("Why?"), 3, 3]


def test_references_without_an_image_are_refused(context: SkillContext, ask: Callable[..., Ask]) -> None:
    with pytest.raises(InvalidRequestError, match="give an image"):
        next(query_plan(context, ask("query", "Why?", refs=(Token(COORD), Token(COORD)), image=None)))


def test_a_model_without_a_template_for_it_does_not_reason(context: SkillContext, ask: Callable[..., Ask]) -> None:
    templates = context.config.tokenizer.templates | {"query": {"prefix": [1], "suffix": [3]}}
    tokenizer = dataclasses.replace(context.config.tokenizer, templates=templates)
    plain = dataclasses.replace(context, config=dataclasses.replace(context.config, tokenizer=tokenizer))
    with pytest.raises(UnsupportedSkillError, match="without reasoning"):
        next(query_plan(plain, ask("query", "Why?", reasoning=True)))


@pytest.mark.parametrize(
    ("most", "context_room", "limit"),
    [(None, 1311, 768), (10, 1311, 10), (1311, 1311, 1311), (2048, 1311, 1311), (5, 3, 3), (5, 0, 1)],
)
def test_text_takes_the_room_that_the_context_leaves(
    context: SkillContext, ask: Callable[..., Ask], most: int | None, context_room: int, limit: int
) -> None:
    """With no room at all admission says what does not fit."""
    question = "x" * (2048 - 730 - 5 - context_room)
    (request,) = next(query_plan(context, ask("query", question, {"max_tokens": most})))
    assert request.limit == limit


# -- reasoning -----------------------------------------------------------------------------------------------------


def reasoning_state(context: SkillContext, ask: Callable[..., Ask], most: int = 50):  # noqa: ANN201
    (request,) = next(query_plan(context, ask("query", "Why?", {"max_tokens": most}, reasoning=True)))
    return request.start()


def test_thoughts_then_the_answer(context: SkillContext, ask: Callable[..., Ask]) -> None:
    state = reasoning_state(context, ask)
    assert state.choice() == Choice(None, (EOS, SIZE))
    told = feed(state, [*tokens_of("hm"), TO_ANSWER, *tokens_of("yes"), STOP])
    assert told == ["y", "e", "s"]
    assert state.done
    assert state.result() == {"answer": "yes", "reasoning": {"text": "hm", "grounding": []}}


def test_the_answer_follows_its_mark_with_its_own_bans(context: SkillContext, ask: Callable[..., Ask]) -> None:
    state = reasoning_state(context, ask)
    feed(state, [*tokens_of("hm"), TO_ANSWER])
    assert state.choice() == Choice(None, (ANSWER, COORD, SIZE))


def test_thoughts_that_do_not_end_are_ended(context: SkillContext, ask: Callable[..., Ask]) -> None:
    state = reasoning_state(context, ask, most=3)
    feed(state, tokens_of("abc"))
    assert state.choice() == Choice((ANSWER,))
    feed(state, [TO_ANSWER, *tokens_of("xyz")])
    assert state.done
    assert state.result() == {"answer": "xyz", "reasoning": {"text": "abc", "grounding": []}}


def test_eos_in_thoughts_leads_to_the_answer(context: SkillContext, ask: Callable[..., Ask]) -> None:
    state = reasoning_state(context, ask)
    feed(state, [*tokens_of("a"), STOP])
    assert state.choice() == Choice((ANSWER,))
    assert state.result()["reasoning"]["text"] == "a"


def test_more_than_one_mark_may_lead_to_the_answer(context: SkillContext, ask: Callable[..., Ask]) -> None:
    templates = dict(context.config.tokenizer.templates)
    templates["query"] = templates["query"] | {"answer": [ANSWER, ANSWER]}
    tokenizer = dataclasses.replace(context.config.tokenizer, templates=templates)
    doubled = dataclasses.replace(context, config=dataclasses.replace(context.config, tokenizer=tokenizer))
    state = reasoning_state(doubled, ask)
    feed(state, [*tokens_of("hm"), TO_ANSWER])
    assert state.choice() == Choice((ANSWER,))
    feed(state, [TO_ANSWER, *tokens_of("ok"), STOP])
    assert state.result() == {"answer": "ok", "reasoning": {"text": "hm", "grounding": []}}


def coords(*values: float) -> list[Token]:
    return [Token(COORD, coord=v) for v in values]


@pytest.mark.parametrize(
    ("tokens", "text", "grounding"),
    [
        (
            [*tokens_of("The "), Token(START), *tokens_of("fox"), *coords(0.1, 0.2), Token(END), *tokens_of(" runs")],
            "The fox runs",
            [(4, 7, [[0.1, 0.2]])],
        ),
        (
            [Token(START), *coords(0.1, 0.2, 0.3, 0.4), *tokens_of("ü"), Token(END), Token(START), *coords(0.5, 0.6)],
            "ü",
            [(0, 1, [[0.1, 0.2], [0.3, 0.4]]), (1, 1, [[0.5, 0.6]])],
        ),
        ([Token(START), *tokens_of("a"), *coords(0.1, 0.2, 0.3), Token(END)], "a", [(0, 1, [[0.1, 0.2]])]),
        ([Token(START), *tokens_of("a"), *coords(0.1), Token(END), *coords(0.2)], "a", []),
        (tokens_of("日本")[:4], "日�", []),
    ],
    ids=["one", "two", "odd coordinate dropped", "pairs do not span chunks", "cut character"],
)
def test_grounds_of_thoughts(
    context: SkillContext, ask: Callable[..., Ask], tokens: list[Token], text: str, grounding: list[tuple]
) -> None:
    state = reasoning_state(context, ask)
    feed(state, [*tokens, TO_ANSWER, STOP])
    expected = [{"start_idx": s, "end_idx": e, "points": points} for s, e, points in grounding]
    assert state.result() == {"answer": "", "reasoning": {"text": text, "grounding": expected}}


@pytest.mark.parametrize(
    ("most", "room", "limit", "thoughts"), [(768, 1311, 1311, 655), (100, 1311, 201, 100), (768, 3, 3, 1)]
)
def test_thoughts_and_answer_share_a_short_context(
    context: SkillContext, ask: Callable[..., Ask], most: int, room: int, limit: int, thoughts: int
) -> None:
    question = "x" * (2048 - 730 - 5 - room)
    (request,) = next(query_plan(context, ask("query", question, {"max_tokens": most}, reasoning=True)))
    assert request.limit == limit
    state = request.start()
    feed(state, tokens_of("t" * thoughts))
    assert state.choice() == Choice((ANSWER,))


def test_log_probabilities_are_in_the_result_on_request(context: SkillContext, ask: Callable[..., Ask]) -> None:
    plan = query_plan(context, ask("query", "Why?", {"logprobs": True}))
    (request,) = next(plan)
    state = request.start()
    told = feed(state, [Token(ids_of("a")[0], logprob=-0.5), Token(EOS, logprob=-2.0)])
    assert told == ["a"]
    entries = [{"id": ids_of("a")[0], "text": "a", "logprob": -0.5}, {"id": EOS, "text": "<0>", "logprob": -2.0}]
    assert finish(plan, [state.result()]) == {"answer": "a", "logprobs": entries}
    (point,) = next(query_plan(context, ask("query", "Why?", {"logprobs": False})))
    assert "logprobs" not in point.start().result()
