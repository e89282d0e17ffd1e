"""A server that says truly where it serves, and ends within seconds of being told to, whoever still listens."""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

GRACE_S = 3
"""For answers that are on their way; streams that never end, such as a page's heartbeat, are cut then."""


class AddressTakenError(OSError):
    """Nothing can be served at this address; the sentence says what to change."""


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises AddressTakenError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small pieces at once only on sockets that say that they speak TCP
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        reason = (error.strerror or str(error)).lower()
        raise AddressTakenError(
            f"Nothing can be served at {host}:{port}: {reason}. Set PORT (or HOST) to another value."
        ) from None
    return sock


def serve(app: Any, sock: socket.socket, close: Callable[[float], Awaitable[None]]) -> None:
    """Until told to end; `close` ends what answers, within as many seconds as it is given."""
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE_S)
    Server(config, partial(close, GRACE_S)).run([sock])


class Server(uvicorn.Server):
    """`before_end` is awaited once it is told to end and takes no more connections: whoever waits is told there."""

    def __init__(self, config: uvicorn.Config, before_end: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._before_end = before_end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """To be told to end is no failure: the exit code is 0. Told again, it waits for nobody."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._before_end()
        await super().shutdown(sockets)
