"""A server on this machine that answers as the Hugging Face Hub does, as far as fetching a file goes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """`files` is {(repository, file): content}; each repository has the revisions that are listed for it."""

    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    revisions: dict[str, set[str]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    broken: bool = False
    sent: list[str] = field(default_factory=list)
    url: str = ""

    def add(self, repo: str, revision: str, file: str, content: bytes) -> None:
        self.files[repo, file] = content
        self.revisions.setdefault(repo, {COMMIT}).add(revision)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content for /owner/name/resolve/revision/file."""
        repo, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        if self.broken:
            return 500, {}, b""
        if repo in self.gated:
            return 403, {"X-Error-Code": "GatedRepo"}, b""
        if repo not in self.revisions:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        if revision not in self.revisions[repo]:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        content = self.files.get((repo, file))
        if content is None:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, b""
        return 200, {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}, content


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._send(with_content=False)

        def do_GET(self) -> None:
            if "/resolve/" in self.path:
                hub.sent.append(self.path.rpartition("/")[2])
            self._send(with_content=True)

        def _send(self, with_content: bool) -> None:
            status, headers, content = hub.answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if with_content:
                self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
