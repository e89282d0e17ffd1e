"""POST /v1/chat/completions in OpenAI's form.

The last user message is the question, on the last picture of the conversation; earlier turns are not seen by these
models. Text that begins with `/detect {"object": "cat"}`, and likewise for the other skills, runs that skill, and
the answer's content is its result as JSON.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from app.api.body import flag_of, ignored, max_body, model_of, parse_body, read_body
from app.api.conversation import ChatQuestion, chat_question
from app.api.events import Event, event_stream
from app.api.images import ImageReader
from app.api.presence import while_present
from app.api.problems import ApiError, ApiRoute
from app.api.verb_call import VERBS, VerbCall, read_call
from app.engines.models import Models
from photon import TEXT_SKILLS, PictureLimits, Result

UNNAMED = ("moondream3-preview", "default")  # what clients send when their user has named no model
_FIELDS = {"messages", "model", "n", "stream", "stream_options", "pipelined", "reasoning"}
_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
}
_FIELDS |= _SETTINGS.keys()
"""Those of a body that have an effect."""


def chat_routes(models: Models, limits: PictureLimits, images: ImageReader) -> APIRouter:
    router = APIRouter(prefix="/v1", route_class=ApiRoute)

    @router.post("/chat/completions")
    async def complete(request: Request) -> Response:
        models.main.engine()  # a server that is not ready says so before it reads a picture
        body = parse_body(await read_body(request, max_body(limits)))
        if body.get("n") not in (None, 1):
            raise ApiError(400, f"n is {body['n']!r}; one answer a request is given.")
        streamed = flag_of(body, "stream")
        turn = chat_question(body.get("messages"))
        name, fields = skill_fields(body, turn)
        # Only text is worth sending in pieces; the other answers are JSON, of no use before their end.
        fields["stream"] = streamed and name in TEXT_SKILLS
        async with AsyncExitStack() as hold:
            holder = await hold.enter_async_context(models.using(await _named(body, models)))
            engine = holder.engine()
            reply = Reply(name, holder.name, with_usage(body), ignored(body, _FIELDS, *turn.unheard))

            async def asked() -> Any:
                ask: VerbCall = await read_call(VERBS[name], fields, engine, images)
                return await ask.put(engine)

            result = await while_present(request, asked())
            if not streamed:
                return JSONResponse(reply.whole(result))
            pieces = result[TEXT_SKILLS[name]] if fields["stream"] else _Whole(result)
            return await event_stream(request, pieces, reply.piece, reply.end, hold)

    return router


async def _named(body: Mapping[str, Any], models: Models) -> str | None:
    """The model that a conversation names. What clients send unasked means it only where it can answer."""
    name = model_of(body)
    if name not in UNNAMED:
        return name
    able = {offer.info.name for offer in await models.offers() if not offer.refusal and not offer.fetches}
    return name if name in able else None


def with_usage(body: Mapping[str, Any]) -> bool:
    """Whether a stream is to end with its usage. Raises ApiError 400."""
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise ApiError(400, "The field 'stream_options' is not a JSON object.")
    return flag_of(options, "include_usage")


def skill_fields(body: Mapping[str, Any], turn: ChatQuestion) -> tuple[str, dict[str, Any]]:
    """(skill, fields as in its own route) for a conversation's last turn. Raises ApiError 400."""
    settings = {ours: body[name] for name, ours in _SETTINGS.items() if body.get(name) is not None}
    fields = {"image_url": turn.image_url, "pipelined": body.get("pipelined"), "settings": settings}
    for name in VERBS:
        if turn.text == f"/{name}" or turn.text.startswith((f"/{name} ", f"/{name}{{", f"/{name}\n")):
            given = _arguments(name, turn.text[len(name) + 1 :])
            own = given.get("settings") or {}
            if not isinstance(own, dict):
                raise ApiError(400, f"The settings after /{name} are not a JSON object.")
            return name, {**fields, **given, "settings": {**settings, **own}}
    return "query", {**fields, "question": turn.text, "reasoning": body.get("reasoning")}


def _arguments(name: str, text: str) -> dict[str, Any]:
    """The JSON object after a slash and a skill's name; only what the skill takes, and no picture."""
    skill = VERBS[name]
    allowed = [*([skill.text] if skill.text else []), *skill.options]
    form = f'/{name} {{"{skill.text}": "..."}}' if skill.text else f"/{name} {{}}"
    try:
        value = parse_body(text.encode()) if text.strip() else {}
    except (ApiError, UnicodeEncodeError):
        raise ApiError(400, f"After /{name} a JSON object is expected, for example {form}.") from None
    if unknown := [key for key in value if key not in allowed]:
        raise ApiError(400, f"/{name} does not take {unknown[0]!r}; it takes {', '.join(allowed)}.")
    return value


@dataclass(frozen=True)
class Reply:
    """Answers in the form of OpenAI's chat completions, whole or in chunks with one id."""

    skill: str
    model: str
    usage_in_stream: bool = False
    ignored: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, result: Result) -> dict[str, Any]:
        message = {"role": "assistant", "content": self._content(result), **_reasoning(result)}
        choice = {"index": 0, "message": message, "finish_reason": result.finish_reason}
        return {**self._frame("chat.completion"), "choices": [choice], "usage": usage(result)} | self._beside(result)

    def piece(self, piece: str | Result) -> Iterator[Event]:
        content = piece if isinstance(piece, str) else self._content(piece)
        yield self._chunk({"role": "assistant", "content": content})

    def end(self, result: Result) -> Iterator[Event | str]:
        yield self._chunk(_reasoning(result), result.finish_reason) | self._beside(result)
        if self.usage_in_stream:
            yield {**self._frame("chat.completion.chunk"), "choices": [], "usage": usage(result)}
        yield "[DONE]"

    def _beside(self, result: Result) -> Event:
        """What OpenAI's form has no place for."""
        return {"metrics": asdict(result.metrics), **self.ignored}

    def _content(self, answer: Mapping[str, Any]) -> str:
        key = TEXT_SKILLS.get(self.skill)
        return str(answer[key]) if key else json.dumps(answer, allow_nan=False)

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {**self._frame("chat.completion.chunk"), "choices": [choice]}

    def _frame(self, kind: str) -> Event:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def usage(result: Result) -> dict[str, int]:
    """The tokens of a request and its children, as OpenAI's clients count them: a picture's are the prompt's."""
    prompt, completion = result.metrics.prompt_tokens, result.metrics.tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _reasoning(answer: Mapping[str, Any]) -> dict[str, Any]:
    thoughts = answer.get("reasoning")
    if thoughts is None:
        return {}
    return {"reasoning": thoughts["text"], "reasoning_details": {"grounding": thoughts["grounding"]}}


class _Whole:
    """A complete answer as a stream of one piece."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._told = False

    def __aiter__(self) -> _Whole:
        return self

    async def __anext__(self) -> Result:
        if self._told:
            raise StopAsyncIteration
        self._told = True
        return self._result

    async def aclose(self) -> None:
        self._told = True

    async def result(self) -> Result:
        return self._result
