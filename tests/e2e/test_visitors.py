"""Several visitors, those who cancel and those who leave: each has their own, and the engine works for no one else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import NAMES, add_picture, assert_idle_within, outcome, png, shown_json, wait_until_running
from tests.e2e.conftest import OpenPage, Server

AT_ONCE = """(times) => new Promise((resolve) => {
  const status = document.querySelector("#status .ph-status");
  const names = document.querySelector("#names input, #names textarea");
  const ask = () => { status.dataset.kind = ""; names.dispatchEvent(new KeyboardEvent("keypress", { key: "Enter" })); };
  let answers = 0;
  new MutationObserver((_, watcher) => {
    if (status.dataset.kind !== "done") return;
    answers += 1;
    if (answers < times) return ask();
    watcher.disconnect();
    resolve(answers);
  }).observe(status, { attributes: true });
  ask();
  setTimeout(() => resolve(answers), 20000);
})"""


def test_a_question_asked_the_moment_the_last_is_answered_is_answered_too(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(640, 480))
    page.fill(NAMES, "cat")
    assert page.evaluate(AT_ONCE, 5) == 5


def test_cancel_ends_the_request_in_the_engine(visit: OpenPage, slow: Server) -> None:
    page = visit(slow).page
    add_picture(page, png(64, 64))
    page.fill(NAMES, "cat, dog")
    page.press(NAMES, "Enter")
    page.locator("#cancel").click()
    assert outcome(page) == "The question was stopped."
    assert_idle_within(slow, 1.5)
    expect(page.locator("#run")).to_be_visible()


def begin_a_batch(page: Page) -> None:
    page.get_by_text("Batch: the same question").click()
    page.set_input_files("#batch-in input[type=file]", [png(64, 48)])  # type: ignore[list-item]
    expect(page.locator("#batch-in")).to_contain_text("plain-336699")
    page.click("#batch-start")


@pytest.mark.parametrize(
    "begin",
    [lambda page: page.press(NAMES, "Enter"), lambda page: page.click("#race-start"), begin_a_batch],
    ids=["question", "race", "batch"],
)
def test_a_closed_tab_frees_the_engine(visit: OpenPage, slow: Server, begin: Callable[[Page], None]) -> None:
    visitor = visit(slow)
    add_picture(visitor.page, png(64, 64))
    visitor.page.fill(NAMES, "cat")
    begin(visitor.page)
    wait_until_running(slow, 1)
    visitor.page.close()
    assert_idle_within(slow, 1.5)


def test_two_visitors_are_answered_together_and_see_only_their_own(visit: OpenPage, start_server: Any) -> None:
    server = start_server("-m", "tests.e2e.scripted_server", SCRIPTED_DELAY_S="1.5")
    first, second = visit(server).page, visit(server).page
    add_picture(first, png(300, 200, "#aa0000"))
    add_picture(second, png(500, 100, "#00aa00"))
    for page, name in ((first, "cat"), (second, "dog")):
        page.fill(NAMES, name)
        page.press(NAMES, "Enter")
    wait_until_running(server, 2)
    for page, name, size in ((first, "cat", (300, 200)), (second, "dog", (500, 100))):
        outcome(page)
        body = shown_json(page)
        assert [answer["name"] for answer in body["answers"]] == [name]
        assert (body["image"]["width"], body["image"]["height"]) == size
        assert page.evaluate("document.querySelector('.ph-picture').naturalWidth") == size[0]
    assert first.locator(".ph-picture").get_attribute("src") != second.locator(".ph-picture").get_attribute("src")
