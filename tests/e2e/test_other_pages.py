"""What comes from other pages and programs: questions, pictures that are dragged, what a clipboard holds, a proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.actions import NAMES, add_picture, ask, png
from tests.e2e.conftest import OpenPage, Server
from tests.samples import data_url


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()


class Elsewhere(BaseHTTPRequestHandler):
    """A page of another origin, with nothing on it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, *_: Any) -> None:
        return


def test_a_page_of_another_origin_asks_and_shows(browser: Browser, scripted: Server) -> None:
    with answering(Elsewhere) as elsewhere:
        page = browser.new_page()
        page.goto(elsewhere)
        answer = page.evaluate(
            """async ([url, picture]) => {
                const asked = (object) => fetch(`${url}/v1/point`, {
                    method: "POST",
                    headers: { "Content-Type": "application/json" },
                    body: JSON.stringify({ image_url: picture, object }),
                });
                const [found, refused] = [await asked("cat"), await asked("xyzzy")];
                return [(await found.json()).points.length, (await refused.json()).error.message];
            }""",
            [scripted.url, data_url()],
        )
        assert answer[0] >= 1
        assert "xyzzy" in answer[1]
        shown = page.evaluate(
            """(url) => new Promise((done) => {
                const img = new Image();
                img.onload = () => done(img.naturalWidth);
                img.onerror = () => done(0);
                img.src = url;
            })""",
            scripted.url + "/pictures/examples/" + _example(scripted),
        )
        assert shown > 0
        page.close()


def _example(server: Server) -> str:
    """The file name of an example, as the page refers to it."""
    return httpx.get(server.url).text.partition("pictures/examples/")[2].partition('"')[0].partition("\\\\")[0]


DROP = """(kinds) => {
  const data = new DataTransfer();
  for (const [kind, text] of Object.entries(kinds)) data.setData(kind, text);
  const target = document.querySelector("#picture-in") || document.body;
  const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
  target.dispatchEvent(drop);
  return drop.defaultPrevented;
}"""


def status_of(page: Page) -> Any:
    return page.locator("#status .ph-status")


@pytest.mark.parametrize(
    "kinds",
    [
        {"text/uri-list": "# a comment\r\nhttp://127.0.0.1/picture.jpg"},
        {"text/uri-list": "https://page.example/article", "text/html": '<img src="http://127.0.0.1/picture.jpg">'},
    ],
)
def test_a_picture_dragged_from_another_page_is_fetched(
    visit: OpenPage, scripted: Server, kinds: dict[str, str]
) -> None:
    """The address is one that the server refuses: that it says so shows that it was asked for this one."""
    page = visit(scripted).page
    assert page.evaluate(DROP, kinds) is True
    expect(status_of(page)).to_contain_text("private network")


def test_a_drop_that_is_nothing_is_said_to_be(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    page.evaluate(DROP, {"text/plain": "words"})
    expect(status_of(page)).to_contain_text("neither a file nor the address of one")


PASTE_BOTH = """async ([selector, text]) => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [30, 20];
  const blob = await new Promise((done) => canvas.toBlob(done));
  const data = new DataTransfer();
  data.items.add(new File([blob], "table.png", { type: "image/png" }));
  if (text) data.setData("text/plain", text);
  const target = document.querySelector(selector);
  target.focus();
  target.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""


def test_a_table_pasted_into_the_box_of_names_leaves_the_picture_alone(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 48))
    before = page.get_attribute(".ph-picture", "src")
    page.evaluate(PASTE_BOTH, [NAMES, "cat\tdog"])
    page.wait_for_timeout(1000)
    assert page.get_attribute(".ph-picture", "src") == before
    page.evaluate(PASTE_BOTH, [NAMES, ""])
    page.wait_for_function(
        "(before) => document.querySelector('.ph-picture').getAttribute('src') !== before", arg=before
    )


def test_a_picture_whose_name_has_no_ending_is_taken(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    upload = png(64, 48) | {"name": "IMG_0001", "mimeType": ""}
    page.set_input_files("#picture-in input[type=file]", upload)  # type: ignore[arg-type]
    page.locator(".ph-stage[data-state=picture]").wait_for()
    assert "Answered" in ask(page, "cat")


def test_behind_a_path_the_whole_page_works(browser: Browser, scripted: Server) -> None:
    """A proxy that cuts /demo off and says so."""
    strayed: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def forward(self) -> None:
            if not self.path.startswith("/demo"):
                strayed.append(self.path)
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "accept-encoding")}
            headers |= {"X-Forwarded-Prefix": "/demo", "X-Forwarded-Host": self.headers["Host"]}
            path = self.path.removeprefix("/demo") or "/"
            with httpx.stream(self.command, scripted.url + path, headers=headers, content=body, timeout=60) as answer:
                self.send_response(answer.status_code)
                for key, value in answer.headers.items():
                    if key.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(key, value)
                self.end_headers()
                with suppress(BrokenPipeError):  # the page has gone
                    for piece in answer.iter_raw():
                        self.wfile.write(piece)
                        self.wfile.flush()

        def do_GET(self) -> None:
            self.forward()

        def do_POST(self) -> None:
            self.forward()

        def log_message(self, *_: Any) -> None:
            return

    with answering(Proxy) as url:
        page = browser.new_page()
        page.goto(f"{url}/demo/")
        page.locator("#run").wait_for()
        page.locator(".ph-about[data-state]:not([data-state=''])").wait_for()
        add_picture(page, png(64, 48))
        assert "Answered" in ask(page, "cat")
        assert page.evaluate("document.querySelector('.ph-picture').naturalWidth") > 0
        page.close()
    assert [path for path in strayed if path != "/favicon.ico"] == []
