"""Whoever comes, however they come: contrast, names, focus order, phones, frames, nothing that jumps."""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.actions import NAMES, add_picture, ask, png
from tests.e2e.conftest import DESKTOP, PHONE, OpenPage, Server

READERS = (Path(__file__).parent / "readers.js").read_text()


def fill_the_page(page: Page) -> None:
    """Everything that the page can show at once: an answer, a refusal, a race, a batch, settings."""
    add_picture(page, png(640, 480))
    ask(page, "cat, dog, xyzzy")
    page.get_by_text("Settings", exact=True).click()
    page.get_by_text("Batch: the same question").click()
    page.fill(NAMES, "cat")
    bad: Any = {"name": "text.png", "mimeType": "image/png", "buffer": b"text"}
    page.set_input_files("#batch-in input[type=file]", [png(64, 48), bad])
    expect(page.locator("#batch-in")).to_contain_text("4.0 B")
    page.click("#batch-start")
    expect(page.locator("#batch-view tbody tr")).to_have_count(2)
    page.get_by_text("Download all answers").wait_for()
    page.click("#race-start")
    page.locator(".ph-verdict").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read_all_controls_have_names_and_all_fits_a_phone(
    visit: OpenPage, scripted: Server, scheme: str
) -> None:
    page = visit(scripted, DESKTOP, color_scheme=scheme).page
    page.add_style_tag(content="* { transition: none !important }")  # colours are measured, not their way there
    page.evaluate(READERS)
    assert page.evaluate("faint()") == []  # the empty page
    fill_the_page(page)
    assert page.evaluate("faint()") == []
    assert page.evaluate("nameless()") == []
    page.get_by_role("button", name=re.compile("^Theme")).click()
    assert page.evaluate("document.body.classList.contains('dark')") == (scheme == "light")
    assert page.evaluate("faint()") == []
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate("tooWide()") == []


def test_the_page_says_its_language_its_name_and_what_it_is(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    assert page.get_attribute("html", "lang") == "en"
    assert page.title() == "Photon Demo"
    assert "Point, detect and segment" in (page.get_attribute("meta[name=description]", "content") or "")
    assert "width=device-width" in (page.get_attribute("meta[name=viewport]", "content") or "")
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))")
    assert levels.count(1) == 1
    assert levels[0] == 1


def test_the_keyboard_goes_from_picture_to_question_to_answer_to_race(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 64))
    ask(page, "cat")
    page.evaluate(READERS)
    page.evaluate("document.activeElement.blur(); document.querySelector('.ph-theme').focus()")
    reached: list[str] = []
    for _ in range(60):
        reached.append(page.evaluate("document.activeElement.className + ' ' + (document.activeElement.id || '')"))
        # a radio button is shown by its label
        assert page.evaluate("[document.activeElement, ...(document.activeElement.labels || [])].some(shows)"), reached
        page.keyboard.press("Tab")
    along = ("ph-theme", "ph-remove", "ph-example", " run", "ph-tab", "race-start")
    places = [next((i for i, one in enumerate(reached) if part in one), -1) for part in along]
    assert -1 not in places, (along, places)
    assert places == sorted(places)


PLACES = """() => [".ph-frame", ".ph-examples", "#ask", "#time"].map((one) =>
  JSON.stringify(document.querySelector(one).getBoundingClientRect()))"""


def test_nothing_moves_when_the_picture_has_come(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    held: list[Route] = []
    page.route("**/pictures/*.jpg", lambda route: held.append(route))
    page.set_input_files("#picture-in input[type=file]", [png(640, 480)])  # type: ignore[list-item]
    page.locator(".ph-stage[data-state=picture]").wait_for()
    page.wait_for_timeout(300)
    before = page.evaluate(PLACES)
    assert page.evaluate("document.querySelector('.ph-picture').naturalWidth") == 0
    while held:
        held.pop().continue_()
    page.wait_for_function("document.querySelector('.ph-picture').naturalWidth > 0")
    assert page.evaluate(PLACES) == before


class Framing(BaseHTTPRequestHandler):
    """Another site: it shows the page of `/?ADDRESS` in a frame."""

    def do_GET(self) -> None:
        page = f'<!doctype html><iframe src="{self.path[2:]}" width="1200" height="900" title="demo"></iframe>'
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_: Any) -> None:
        return


def test_the_page_works_in_a_frame_of_another_site(visit: OpenPage, scripted: Server) -> None:
    visitor = visit(scripted)
    with ThreadingHTTPServer(("127.0.0.1", 0), Framing) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        site = f"http://127.0.0.1:{other.server_port}/?{scripted.url}"
        visitor.page.goto(site)
        frame = visitor.page.frame_locator("iframe")
        frame.locator(".ph-example").first.click()
        expect(frame.locator("#status .ph-status")).to_contain_text("Answered")
        expect(frame.locator(".ph-shape")).to_have_count(1)
        other.shutdown()
    visitor.wrong.remove(f"outside request: {site}")  # the frame's own site; nothing else may have been asked
