"""Caption: a description of the picture, short, normal or long (docs/model.md 6)."""

from __future__ import annotations

from typing import Any

from photon.core.request import Token
from photon.errors import InvalidRequestError
from photon.skills.ask import Ask
from photon.skills.base import Plan, SkillContext
from photon.skills.text import AnswerState, answer_choices


def caption_length(context: SkillContext, length: Any) -> str:
    """Raises `InvalidRequestError` for a length that the model has no prompt for."""
    known = context.config.tokenizer.templates["caption"]
    if not isinstance(length, str) or length not in known:
        raise InvalidRequestError(f"length is {length!r}; allowed are {', '.join(known)}.")
    return length


def caption_plan(context: SkillContext, ask: Ask) -> Plan:
    """{"caption": str}."""
    ids = context.config.tokenizer
    prompt = tuple(Token(i) for i in ids.templates["caption"][ask.text])
    limit = min(ask.max_tokens, context.room(prompt, ask.image))
    choices = answer_choices(context)

    def start() -> AnswerState:
        return AnswerState("caption", context.detokenizer(), ids.eos_id, choices, limit)

    (result,) = yield [ask.request(context, prompt, limit, start)]
    return result
