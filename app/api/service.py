"""GET /v1/models, /v1/stats, /metrics and /health, and an answer in words for what is not there."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from app.api.problems import ApiError, ApiRoute
from app.engines.holder import State
from app.engines.metrics import CONTENT_TYPE, Prometheus
from app.engines.models import Models, Offer

READ = ["GET", "HEAD"]
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


def service_routes(models: Models, metrics: Prometheus) -> APIRouter:
    router = APIRouter(route_class=ApiRoute)

    @router.api_route("/health", methods=READ)
    def health() -> Response:
        ready = models.main.state is State.READY
        return JSONResponse(models.main.health(), status_code=200 if ready else 503)

    @router.api_route("/metrics", methods=READ)
    def scrape() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @router.api_route("/v1/stats", methods=READ)
    def stats() -> Response:
        return JSONResponse(models.main.engine().stats())

    @router.api_route("/v1/models", methods=READ)
    async def list_models() -> Response:
        models.main.engine()
        return JSONResponse({"object": "list", "data": [listed(offer) for offer in await models.offers()]})

    @router.api_route("/v1/models/{name:path}", methods=READ)
    async def one_model(name: str) -> Response:
        models.main.engine()
        offers = {offer.info.name: offer for offer in await models.offers()}
        if name not in offers:
            raise ApiError(404, f"There is no model {name[:100]!r} here; there are {', '.join(offers)}.")
        return JSONResponse(listed(offers[name]))

    return router


def unknown_routes() -> APIRouter:
    """To be added last: without it the page's own 404 would answer a mistyped address."""
    router = APIRouter(route_class=ApiRoute)

    @router.api_route("/v1/{rest:path}", methods=_METHODS, include_in_schema=False)
    def unknown(request: Request, rest: str) -> Response:
        raise ApiError(404, f"There is no {request.method} /v1/{rest[:100]} here; GET /v1/models says what there is.")

    return router


def listed(offer: Offer) -> dict[str, Any]:
    """A model that a request may name: whether it is loaded, what it can, and why it cannot be asked if so."""
    info = offer.info
    about = {
        "loaded": offer.state is State.READY,
        "skills": list(info.skills),
        "reason": offer.refusal or info.reason,
    }
    return {"id": info.name, "object": "model", "created": 0, "owned_by": "photon", **about}
