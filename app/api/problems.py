"""What went wrong, as an HTTP answer: one status, one sentence, one JSON form for every route."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from app.engines.holder import NotReadyError, UnavailableError
from app.engines.models import UnknownModelError
from photon import (
    DeviceError,
    EngineStoppedError,
    InvalidRequestError,
    NotAPictureError,
    PhotonError,
    PictureTooLargeError,
    QueueFullError,
)

log = logging.getLogger(__name__)

CLIENT_GONE = 499  # nobody reads this answer; it is only written to logs
MAX_SENTENCE = 500  # a sentence quotes the value that it refuses, and a value may be megabytes long
_KINDS = {401: "authentication_error", 429: "rate_limit_error"}

# The first class that fits decides: status, and after how many seconds it is worth to try again.
_STATUSES: tuple[tuple[type[Exception], int, int | None], ...] = (
    (PictureTooLargeError, 413, None),
    (NotAPictureError, 415, None),
    (InvalidRequestError, 400, None),
    (UnknownModelError, 400, None),
    (QueueFullError, 429, 1),
    (UnavailableError, 400, None),
    (NotReadyError, 503, 5),
    (EngineStoppedError, 503, None),
    (DeviceError, 503, None),
)


class ApiError(Exception):
    """A request is refused with this status and sentence."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = dict(headers or {})


class ClientGoneError(Exception):
    """The client has left; there is nobody to answer."""


class ApiRoute(APIRoute):
    """A route whose every exception becomes a JSON answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except ClientGoneError:
                return Response(status_code=CLIENT_GONE)
            except Exception as error:
                return as_response(error)

        return answer


def as_response(error: Exception) -> JSONResponse:
    """The JSON answer for an exception; unexpected ones are logged with their traceback."""
    refusal = refused(error)
    return JSONResponse(body_of(refusal), status_code=refusal.status, headers=refusal.headers)


def body_of(refusal: ApiError) -> dict[str, Any]:
    """{"error": {"message", "type", "code"}}: the form that OpenAI's clients read, used by all routes."""
    sentence = str(refusal)
    if len(sentence) > MAX_SENTENCE:
        sentence = sentence[: MAX_SENTENCE - 2] + " …"
    kind = _KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error")
    return {"error": {"message": sentence, "type": kind, "code": refusal.status}}


def refused(error: BaseException) -> ApiError:
    """Any exception as status and sentence."""
    if isinstance(error, ApiError):
        return error
    for kind, status, retry_s in _STATUSES:
        if isinstance(error, kind):
            return ApiError(status, str(error), {} if retry_s is None else {"Retry-After": str(retry_s)})
    if isinstance(error, PhotonError):
        return ApiError(500, str(error))
    log.error("a request failed", exc_info=error)
    return ApiError(500, f"The request failed on the server: {type(error).__name__}: {error}")
