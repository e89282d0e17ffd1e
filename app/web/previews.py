"""What a link to the page looks like elsewhere: its title, a sentence and a picture, in place of Gradio's own."""

from __future__ import annotations

import re
from html import escape

from starlette.datastructures import URL, Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PICTURE = "preview.jpg"
SIZE = (1200, 630)
_GRADIOS = re.compile(rb"<meta\s+(?:property=\"og:|name=\"twitter:)[^>]*>\s*")


class Previews:
    """ASGI middleware: rewrites the page's head. Addresses in it are whole, as those who read it want them."""

    def __init__(self, app: ASGIApp, title: str, sentence: str) -> None:
        self._app = app
        self._title = title
        self._sentence = sentence

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        start: Message = {}
        parts: list[bytes] = []

        async def sending(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if message["type"] != "http.response.body":
                await send(message)
                return
            parts.append(message.get("body", b""))
            if message.get("more_body", False):
                return
            body = b"".join(parts)
            if Headers(raw=start["headers"]).get("content-type", "").startswith("text/html") and body:
                body = self._rewritten(body, _address(scope))
                kept = [(key, value) for key, value in start["headers"] if key.lower() != b"content-length"]
                start["headers"] = [*kept, (b"content-length", str(len(body)).encode())]
            await send(start)
            await send({"type": "http.response.body", "body": body, "more_body": False})

        await self._app(scope, receive, sending)

    def _rewritten(self, page: bytes, address: str) -> bytes:
        width, height = SIZE
        facts = {
            "og:title": self._title,
            "og:type": "website",
            "og:url": address,
            "og:description": self._sentence,
            "og:image": address + PICTURE,
            "og:image:width": str(width),
            "og:image:height": str(height),
        }
        tags = [f'<meta property="{name}" content="{escape(value)}">' for name, value in facts.items()]
        tags.append('<meta name="twitter:card" content="summary_large_image">')
        return _GRADIOS.sub(b"", page).replace(b"<head>", b"<head>" + "".join(tags).encode(), 1)


def _address(scope: Scope) -> str:
    """Of the page as the visitor asked for it, with a slash at its end; a proxy may have changed scheme and host."""
    headers, url = Headers(scope=scope), URL(scope=scope)
    scheme = headers.get("x-forwarded-proto", url.scheme).split(",")[0].strip()
    host = headers.get("x-forwarded-host", url.netloc).split(",")[0].strip()
    return f"{scheme}://{host}{scope.get('root_path', '').rstrip('/')}/"
