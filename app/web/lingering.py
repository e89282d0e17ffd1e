"""A refusal that comes before the request was read must still arrive.

A server that answers and closes while the client is sending resets the connection, and the client never sees why. So
the answer goes out at once, but the connection stays until the rest has come in and been thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINGER_S = 30.0  # who sends for longer is cut off


class LingeringClose:
    """ASGI middleware; to be the outermost."""

    def __init__(self, app: ASGIApp, linger_s: float = LINGER_S) -> None:
        self._app = app
        self._linger_s = linger_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        unread = True

        async def receiving() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def sending(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if not (last and unread):
                await send(message)
                return
            await send({**message, "more_body": True})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._linger_s):
                    while unread:
                        await receiving()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, receiving, sending)


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
