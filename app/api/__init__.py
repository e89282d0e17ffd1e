"""HTTP besides the page: the skills with the official client's payloads, chat in OpenAI's form, state and metrics."""

from __future__ import annotations

from fastapi import FastAPI

from app.api.chat import chat_routes
from app.api.images import ImageReader
from app.api.service import service_routes, unknown_routes
from app.api.skills import skill_routes
from app.engines.metrics import Prometheus
from app.engines.models import Models
from photon import PictureLimits


def add_api(app: FastAPI, models: Models, limits: PictureLimits, metrics: Prometheus) -> None:
    """Add all routes; to be called before a page is mounted at "/"."""
    images = ImageReader(limits)
    app.include_router(skill_routes(models, limits, images))
    app.include_router(chat_routes(models, limits, images))
    app.include_router(service_routes(models, metrics))
    app.include_router(unknown_routes())
