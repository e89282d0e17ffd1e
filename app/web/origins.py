"""Pages of other origins may read the answers that programs get; the visitor's own page stays the server's own."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.auth import FOR_PROGRAMS, OPEN

_OPENED = (*OPEN, *FOR_PROGRAMS)
_KEEP_S = 600


class Origins:
    """ASGI middleware, to stand before the key: a browser asks without it whether it may ask.

    No cookie goes along, so a page of another origin can do no more than whoever has its key.
    """

    def __init__(self, app: ASGIApp, allowed: Sequence[str]) -> None:
        self._app = app
        self._open = CORSMiddleware(
            app,
            allow_origins=allowed,
            allow_methods=("GET", "HEAD", "POST"),
            allow_headers=("*",),
            expose_headers=("Retry-After",),
            max_age=_KEEP_S,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        programs = scope["type"] == "http" and scope["path"].startswith(_OPENED)
        await (self._open if programs else self._app)(scope, receive, send)
