"""The optional key: programs send it in a header, people type it once into a login form.

One gate stands before every route, the page's own included, so that nothing is open because it was forgotten. /health
stays open for whoever watches the process.
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import ApiError, body_of
from app.paths import STATIC

COOKIE = "photon_session"
OPEN = ("/health",)
FOR_PROGRAMS = ("/v1/", "/metrics")  # no cookie: a form on another site could send one along
LOGIN = "/login"
_MAX_FORM = 10_000  # bytes
_PAGE = (STATIC / "login.html").read_text()
_WRONG = "That is not the key of this server."


class KeyGate:
    """ASGI middleware that lets through who has the key. Sessions end with the process."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            answer = await self._answer(Request(scope, receive))
            await (answer or self._app)(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        """What to answer in the application's place; None lets the request through."""
        path = request.url.path
        if self._has_key(request):
            return None
        if path.startswith(FOR_PROGRAMS):
            return _refusal("Send it as X-Moondream-Auth or as Authorization: Bearer.")
        if path == LOGIN and request.method == "POST":
            return await self._log_in(request)
        if hmac.compare_digest(_session_of(request).encode("utf-8", "replace"), self._session.encode()):
            return None
        if path == LOGIN:
            return HTMLResponse(_page(""))
        if "text/html" in request.headers.get("accept", "") and request.method == "GET":
            return RedirectResponse(_from(path, LOGIN), status_code=303)
        return _refusal("Log in on the page, or send it in a header.")

    def _has_key(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        own, bearer = request.headers.get("x-moondream-auth", ""), token.strip() if scheme.lower() == "bearer" else ""
        # Headers come as Latin-1, whose bytes are what was sent. Both are compared, whatever the first says.
        equal = [hmac.compare_digest(text.encode("latin-1"), self._key) for text in (own, bearer)]
        return any(equal)

    async def _log_in(self, request: Request) -> Response:
        given = await _form_key(request)
        if given is None or not hmac.compare_digest(given.encode(), self._key):
            return HTMLResponse(_page(_WRONG), status_code=401)
        response = RedirectResponse(_from(LOGIN, "/"), status_code=303)
        response.headers["set-cookie"] = f"{COOKIE}={self._session}; {_attributes(request)}"
        return response


def _from(path: str, target: str) -> str:
    """The address of `target` relative to `path`, so that it holds behind a proxy that cuts a prefix off."""
    return "./" + "../" * (path.count("/") - 1) + target.lstrip("/")


def _attributes(request: Request) -> str:
    """Over https the page may be framed by another site (a hub's): its cookie must work there, for that site alone.

    A proxy may end the https; a client that forges its header only changes its own cookie.
    """
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme)
    cross = "SameSite=None; Secure; Partitioned" if scheme.startswith("https") else "SameSite=Lax"
    return f"Path=/; HttpOnly; {cross}"


def _session_of(request: Request) -> str:
    try:
        morsel = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


async def _form_key(request: Request) -> str | None:
    data = b""
    try:
        async for part in request.stream():
            data += part
            if len(data) > _MAX_FORM:
                return None
    except ClientDisconnect:
        return None
    return parse_qs(data.decode("utf-8", "replace")).get("key", [""])[0]


def _page(problem: str) -> str:
    return _PAGE.replace("{problem}", problem)


def _refusal(how: str) -> JSONResponse:
    refusal = ApiError(401, f"This server asks for its key. {how}", {"WWW-Authenticate": "Bearer"})
    return JSONResponse(body_of(refusal), status_code=401, headers=refusal.headers)
