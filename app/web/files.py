"""HTTP routes of the page's files: its upright pictures, the examples, and answers as downloads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from app.drawing.export import Answered, ExportError, annotated, coco, mask, svg
from app.paths import STATIC
from app.pictures.store import PictureStore
from app.questions.examples import Example
from app.web.previews import PICTURE
from photon import PictureError

MAX_BODY = 8_000_000  # bytes of answers that may be sent back to be written as a file
_PRIVATE = {"Cache-Control": "private, max-age=3600", "X-Content-Type-Options": "nosniff"}


def file_routes(store: PictureStore, examples: tuple[Example, ...]) -> APIRouter:
    """`pictures/...` (upright copies under unguessable names, examples) and `export/{form}`."""
    router = APIRouter(include_in_schema=False)
    bundled = {example.path.name: example.path for example in examples}

    @router.get("/pictures/examples/{name}")
    def example(name: str) -> Response:
        path = bundled.get(name)
        return Response(status_code=404) if path is None else FileResponse(path)

    @router.get(f"/{PICTURE}")
    def preview() -> Response:
        return FileResponse(STATIC / PICTURE)

    @router.get("/pictures/{token}.jpg")
    def shown(token: str) -> Response:
        path = store.shown(token)
        if path is None or path.suffix != ".jpg":
            return Response(status_code=404)
        return FileResponse(path, media_type="image/jpeg", headers=_PRIVATE)

    @router.get("/batches/{token}.zip")
    def batch(token: str) -> Response:
        path = store.shown(token)
        if path is None or path.suffix != ".zip":
            return Response(status_code=404)
        return FileResponse(path, filename="answers.zip", headers=_PRIVATE)

    @router.post("/export/{form}")
    async def export(form: str, request: Request) -> Response:
        write = _WRITERS.get(form)
        if write is None:
            return JSONResponse({"error": f"Answers are not written as {form[:20]!r}."}, status_code=404)
        try:
            if int(request.headers.get("content-length", MAX_BODY + 1)) > MAX_BODY:
                return JSONResponse({"error": "These answers are too large to be written."}, status_code=413)
            body = json.loads(await request.body())
            return await asyncio.to_thread(write, Answered.parse(body.get("answers")), body, store)
        except (ValueError, AttributeError, PictureError) as error:
            sentence = str(error) if isinstance(error, (ExportError, PictureError)) else "This is not JSON."
            return JSONResponse({"error": sentence}, status_code=400)

    return router


def _coco(answered: Answered, body: dict[str, Any], store: PictureStore) -> Response:
    return Response(coco(answered, str(body.get("name", "picture"))), media_type="application/json")


def _svg(answered: Answered, body: dict[str, Any], store: PictureStore) -> Response:
    return Response(svg(answered), media_type="image/svg+xml", headers={"Content-Security-Policy": "sandbox"})


def _mask(answered: Answered, body: dict[str, Any], store: PictureStore) -> Response:
    return Response(mask(answered), media_type="image/png")


def _annotated(answered: Answered, body: dict[str, Any], store: PictureStore) -> Response:
    pixels = store.pixels(str(body.get("picture", "")))
    return Response(annotated(answered, pixels), media_type="image/png")


_WRITERS: dict[str, Callable[[Answered, dict[str, Any], PictureStore], Response]] = {
    "coco": _coco,
    "svg": _svg,
    "mask": _mask,
    "png": _annotated,
}
