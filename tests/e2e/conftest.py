"""A browser and real server processes for the page's tests.

Any console error, page error or request to another host fails the test that saw it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect, sync_playwright

from tests.paths import ROOT

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)
PATIENCE_MS = 60_000  # the machine may have other work; a test that passes never waits so long
expect.set_options(timeout=PATIENCE_MS)
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.e2e)


@dataclass
class Server:
    """A running application process."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10)

    def running(self) -> int:
        """How many requests the engine works on."""
        stats = self.get("/v1/stats").json()
        return int(stats["running"]) + int(stats["waiting"])


StartServer = Callable[..., Server]


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Start `python ARGUMENTS` with PORT set, and wait until /health has this status."""
    servers: list[Server] = []

    def start(*arguments: str, status: str = "ready", **environment: str) -> Server:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        folder = tmp_path_factory.mktemp("server")
        env = {**os.environ, "OMP_NUM_THREADS": "1", "GRADIO_TEMP_DIR": str(folder / "uploads")}
        env |= {"PORT": str(port), "PHOTON_THREADS": "1", **environment}
        log = folder / "log.txt"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT
            )
        server = Server(f"http://127.0.0.1:{port}", process, log)
        servers.append(server)
        _wait_for(server, status)
        return server

    yield start
    for server in servers:
        server.process.terminate()
        server.process.wait(20)


def _wait_for(server: Server, status: str) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            if server.get("/health").json()["status"] == status:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    pytest.fail(f"The server did not become {status}:\n{server.log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def real(start_server: StartServer) -> Server:
    """`python app.py` with the bundled model."""
    return start_server("app.py")


@pytest.fixture(scope="session")
def scripted(start_server: StartServer) -> Server:
    """The same page over exact answers."""
    return start_server("-m", "tests.e2e.scripted_server")


@pytest.fixture(scope="session")
def slow(start_server: StartServer) -> Server:
    """Exact answers that take twenty seconds, unless they are cancelled."""
    return start_server("-m", "tests.e2e.scripted_server", SCRIPTED_DELAY_S="20")


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Its event loop runs in this thread while it is open: kept longer, it would break other tests' `asyncio.run`."""
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("Chromium was not found: install it (apt-get install chromium) or set CHROMIUM to its path.")
    browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
    yield browser
    browser.close()


@dataclass
class Visitor:
    """One browser context with its page, and everything that went wrong in it."""

    context: BrowserContext
    page: Page
    wrong: list[str] = field(default_factory=list)

    def watch(self, origin: str) -> None:
        """Record console errors, page errors and requests that leave `origin`."""

        def console(message: ConsoleMessage) -> None:
            if message.type == "error":
                self.wrong.append(f"console: {message.text}")

        def request(request: Any) -> None:
            if not request.url.startswith((origin, "data:", "blob:")):
                self.wrong.append(f"outside request: {request.url}")

        self.page.on("console", console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"page error: {error}"))
        self.page.on("request", request)


OpenPage = Callable[..., Visitor]


@pytest.fixture
def visit(browser: Browser) -> Iterator[OpenPage]:
    """Open a server's page in a context of its own; at the end nothing may have gone wrong in any."""
    visitors: list[Visitor] = []

    def open_page(server: Server, viewport: dict[str, int] = DESKTOP, **options: Any) -> Visitor:
        context = browser.new_context(viewport=viewport, **options)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_MS)
        visitor = Visitor(context, context.new_page())
        visitors.append(visitor)
        visitor.watch(server.url)
        visitor.page.goto(server.url)
        visitor.page.locator("#run").wait_for()
        visitor.page.locator(".ph-about[data-state]:not([data-state=''])").wait_for()
        return visitor

    yield open_page
    wrong = [one for visitor in visitors for one in visitor.wrong]
    for visitor in visitors:
        visitor.context.close()
    assert not wrong, wrong
