"""Behind a proxy that serves the application under a path and says so in `X-Forwarded-Prefix`."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send


class ForwardedPrefix:
    """ASGI middleware: what the page refers to is then under that path too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            prefix = "/" + Headers(scope=scope).get("x-forwarded-prefix", "").split(",")[0].strip().strip("/")
            if prefix != "/" and not scope.get("root_path"):
                scope = {**scope, "root_path": prefix}
        await self._app(scope, receive, send)
