"""GET /v1/models, /v1/stats, /metrics and /health, and an answer in words for what is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from app.api.problems import ApiError, ApiRoute
from app.backend import Backend, State
from app.metrics import CONTENT_TYPE, Metrics

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


def service_routes(backend: Backend, metrics: Metrics, models: Sequence[str]) -> APIRouter:
    """`models` are the names that may be loaded, besides the one that is."""
    router = APIRouter(route_class=ApiRoute)

    @router.get("/health")
    def health() -> Response:
        ready = backend.state is State.READY
        return JSONResponse(backend.health(), status_code=200 if ready else 503)

    @router.get("/metrics")
    def scrape() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @router.get("/v1/stats")
    def stats() -> Response:
        return JSONResponse(backend.engine().stats())

    @router.get("/v1/models")
    def list_models() -> Response:
        return JSONResponse({"object": "list", "data": model_list(backend, models)})

    return router


def unknown_routes() -> APIRouter:
    """To be added last: without it the page's own 404 would answer a mistyped address."""
    router = APIRouter(route_class=ApiRoute)

    @router.api_route("/v1/{rest:path}", methods=_METHODS, include_in_schema=False)
    def unknown(request: Request, rest: str) -> Response:
        raise ApiError(404, f"There is no {request.method} /v1/{rest[:100]} here; GET /v1/models says what there is.")

    return router


def model_list(backend: Backend, models: Sequence[str]) -> list[dict[str, Any]]:
    """The loaded model with its skills, then those that may be loaded in its place."""
    about = backend.engine().describe()
    loaded = str(about.get("model"))
    frame = {"object": "model", "created": 0, "owned_by": "photon"}
    first = {"id": loaded, **frame, "loaded": True, "skills": list(about.get("skills", []))}
    return [first, *({"id": name, **frame, "loaded": False} for name in models if name != loaded)]
