"""Query: a question about the picture, about places in it, or about nothing but itself (docs/model.md 6)."""

from __future__ import annotations

from typing import Any

from photon.core.request import Token
from photon.errors import InvalidRequestError, UnsupportedSkillError
from photon.skills.ask import Ask
from photon.skills.base import Plan, SkillContext
from photon.skills.reasoning import ReasoningState, Thoughts, reasoning_choices
from photon.skills.text import AnswerState, answer_choices


def question_text(text: Any) -> str:
    """Raises `InvalidRequestError` for what is not a question."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequestError("The question is empty; ask something, for example 'What is this?'")
    return text.strip()


def query_plan(context: SkillContext, ask: Ask) -> Plan:
    """{"answer": str}, with "reasoning" if it was asked for."""
    if ask.refs and ask.image is None:
        raise InvalidRequestError("spatial_refs point into a picture; give an image with them.")
    plan = _reasoned if ask.reasoning else _answered
    return (yield from plan(context, ask))


def _answered(context: SkillContext, ask: Ask) -> Plan:
    prompt = _prompt(context, ask, "suffix")
    limit = min(ask.max_tokens, context.room(prompt, ask.image))
    (result,) = yield [ask.request(context, prompt, limit, lambda: _answer(context, limit))]
    return result


def _reasoned(context: SkillContext, ask: Ask) -> Plan:
    """`max_tokens` is for the thoughts and for the answer each; where the context is short they share its room."""
    template = context.config.tokenizer.templates["query"]
    if "reasoning" not in template:
        raise UnsupportedSkillError(f"The model {context.model} answers without reasoning.")
    prompt = _prompt(context, ask, "reasoning")
    between = template.get("answer", [context.config.tokenizer.answer_id])
    room = context.room(prompt, ask.image)
    most = max(1, min(ask.max_tokens, (room - len(between)) // 2))
    choices = reasoning_choices(context)

    def start() -> ReasoningState:
        thoughts = Thoughts(context.config.tokenizer, context.detokenizer)
        return ReasoningState(thoughts, choices, between, most, not context.parity, _answer(context, ask.max_tokens))

    limit = min(most + len(between) + ask.max_tokens, max(room, most + len(between) + 1))
    (result,) = yield [ask.request(context, prompt, limit, start)]
    return result


def _prompt(context: SkillContext, ask: Ask, suffix: str) -> tuple[Token, ...]:
    """Without a picture nothing has put BOS in front yet."""
    prompt = context.prompt("query", ask.refs, ask.text, suffix)
    return prompt if ask.image else (Token(context.config.tokenizer.bos_id), *prompt)


def _answer(context: SkillContext, most: int) -> AnswerState:
    ids = context.config.tokenizer
    return AnswerState("answer", context.detokenizer(), ids.eos_id, answer_choices(context), most)
