"""A visitor who does not wait: another picture, another example, a page that is opened before the model is there."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.actions import NAMES, PASTE, add_picture, ask, assert_idle_within, png, wait_until_running
from tests.e2e.conftest import OpenPage, Server, StartServer


def begin(page: Page, server: Server) -> None:
    add_picture(page, png(64, 40))
    page.fill(NAMES, "cat")
    page.press(NAMES, "Enter")
    wait_until_running(server, 1)


def test_another_picture_cancels_the_question_about_the_last(visit: OpenPage, slow: Server) -> None:
    page = visit(slow).page
    begin(page, slow)
    page.evaluate(PASTE, list(png(96, 40)["buffer"]))
    page.wait_for_function("document.querySelector('.ph-picture').naturalWidth === 96")
    assert_idle_within(slow, 1.5)
    expect(page.locator("#run")).to_be_visible()
    expect(page.locator("#cancel")).to_be_hidden()
    expect(page.locator("#status .ph-status")).to_have_text("")


def test_removing_the_picture_cancels_the_question_about_it(visit: OpenPage, slow: Server) -> None:
    page = visit(slow).page
    begin(page, slow)
    page.locator(".ph-remove").click()
    expect(page.locator("#picture-in")).to_be_visible()
    assert_idle_within(slow, 1.5)
    expect(page.locator("#run")).to_be_visible()


def test_another_example_is_asked_in_the_place_of_the_last(visit: OpenPage, slow: Server) -> None:
    page = visit(slow).page
    page.locator(".ph-example").nth(0).click()
    wait_until_running(slow, 1)
    first = page.input_value(NAMES)
    page.locator(".ph-example").nth(1).click()
    page.wait_for_function("([box, last]) => document.querySelector(box).value !== last", arg=[NAMES, first])
    expect(page.locator("#status .ph-status")).to_contain_text(page.input_value(NAMES))
    wait_until_running(slow, 1)
    assert slow.running() == 1
    page.locator("#cancel").click()
    assert_idle_within(slow, 1.5)


def test_code_can_be_copied_where_the_browser_gives_no_clipboard(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 64))
    ask(page, "cat")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("tab", name="Python").click()
    page.locator(".ph-copy-text").click()
    expect(page.locator(".ph-copy-text")).to_have_text("Copied")
    assert page.evaluate("getSelection().toString().trim()") == page.locator(".ph-text").inner_text().strip()
    page.evaluate("document.execCommand = () => false")
    expect(page.locator(".ph-copy-text")).to_have_text("Copy")
    page.locator(".ph-copy-text").click()
    expect(page.locator(".ph-copy-text")).to_have_text("Selected: press Ctrl+C")


def test_a_page_opened_while_the_model_loads_shows_it_once_it_is_there(
    visit: OpenPage, start_server: StartServer, tmp_path: Path
) -> None:
    gate = tmp_path / "loaded"
    waking = start_server("-m", "tests.e2e.scripted_server", status="starting", SCRIPTED_GATE=str(gate))
    page = visit(waking).page
    expect(page.locator("#header")).to_contain_text("Loading photon-tiny")
    gate.touch()
    expect(page.locator("#header")).to_contain_text("measured")
    expect(page.locator("#header")).not_to_contain_text("Loading")
    expect(page.locator("#about")).to_contain_text("launches the next step")
