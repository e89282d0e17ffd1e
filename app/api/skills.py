"""POST /v1/point, detect, segment, query, caption: the official client's payloads and answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from app.api.body import ignored, max_body, model_of, parse_body, read_body
from app.api.events import Event, event_stream
from app.api.images import ImageReader
from app.api.presence import while_present
from app.api.problems import ApiRoute
from app.api.verb_call import VERBS, Skill, read_call
from app.engines.models import Models
from photon import TEXT_SKILLS, PictureLimits, Result


def skill_routes(models: Models, limits: PictureLimits, images: ImageReader) -> APIRouter:
    router = APIRouter(prefix="/v1", route_class=ApiRoute)

    async def answer(skill: Skill, request: Request) -> Response:
        models.main.engine()  # a server that is not ready says so before it reads a picture
        body = parse_body(await read_body(request, max_body(limits)))
        async with AsyncExitStack() as hold:
            engine = (await hold.enter_async_context(models.using(model_of(body)))).engine()

            async def asked() -> Any:
                ask = await read_call(skill, body, engine, images)
                return ask.stream, await ask.put(engine)

            unheard = ignored(body, skill.fields)
            streamed, result = await while_present(request, asked())
            if not streamed:
                return JSONResponse(with_metrics(result) | unheard)
            if skill.name == "segment":
                return await event_stream(request, result, segment_events, partial(segment_end, unheard), hold)
            pieces = result[TEXT_SKILLS[skill.name]]
            return await event_stream(request, pieces, text_events, partial(text_end, unheard), hold)

    for skill in VERBS.values():
        # A route is told by its handler's signature; a partial would show `skill` as a query parameter.
        router.add_api_route(f"/{skill.name}", _with_request(partial(answer, skill)), methods=["POST"])
    return router


def with_metrics(result: Result) -> dict[str, Any]:
    """The answer, whether it is whole, and where its time went."""
    return {**result, "finish_reason": result.finish_reason, "metrics": asdict(result.metrics)}


def text_events(piece: str) -> Iterator[Event]:
    yield {"chunk": piece}


def text_end(more: Event, result: Result) -> Iterator[Event]:
    yield {"completed": True, **with_metrics(result), **more}


def segment_events(piece: dict[str, Any]) -> Iterator[Event]:
    """The engine's pieces are {"bbox"}, {"chunk"} and {"path", "bbox", "completed"}; `segment_end` covers the last."""
    if "chunk" in piece:
        yield {"type": "path_delta", "chunk": piece["chunk"], "completed": False}
    elif "path" not in piece:
        yield {"type": "bbox", "bbox": piece["bbox"]}


def segment_end(more: Event, result: Result) -> Iterator[Event]:
    yield {"type": "final", "completed": True, **with_metrics(result), **more}


def _with_request(answer: partial[Any]) -> Any:
    async def endpoint(request: Request) -> Response:
        response: Response = await answer(request)
        return response

    return endpoint
