"""Choosing a model on the page: what is offered, progress while it loads, what it can, and for whom."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import NAMES, add_picture, ask, choose_task, drawn, outcome, png, shown_json
from tests.e2e.conftest import DESKTOP, PHONE, OpenPage, Server, StartServer
from tests.e2e.scripted_server import ABSENT


def choose(page: Page, name: str) -> None:
    page.locator("#models summary").click()
    page.get_by_role("radio", name=name).click()


def tasks(page: Page) -> dict[str, bool]:
    """Which tasks can be chosen."""
    return dict(page.evaluate("[...document.querySelectorAll('#task input')].map((i) => [i.value, !i.disabled])"))


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_the_list_says_what_each_model_can_and_why_one_cannot_be_had(
    visit: OpenPage, scripted: Server, viewport: dict[str, int]
) -> None:
    page = visit(scripted, viewport).page
    page.locator("#models summary").click()
    rows = page.locator(".ph-choice")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("40 MB · Point, Detect, Segment")
    expect(rows.nth(0)).to_have_attribute("aria-checked", "true")
    expect(rows.nth(1)).to_contain_text("7.71 GB · Point, Detect, Segment, Query, Caption")
    expect(rows.nth(2)).to_be_disabled()
    expect(rows.nth(2)).to_contain_text("this machine has 25.3 GB")
    expect(rows.nth(3)).to_be_disabled()
    expect(rows.nth(3)).to_contain_text(ABSENT)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_tasks_that_the_model_lacks_are_disabled_with_the_reason(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    expect(page.locator("#skills")).to_contain_text("photon-tiny cannot query or caption; moondream2 can.")
    able = {"Point": True, "Detect": True, "Segment": True, "Query": False, "Caption": False}
    assert tasks(page) == able
    expect(page.get_by_role("radio", name="Query")).to_be_disabled()
    add_picture(page, png(64, 48))
    choose_task(page, "Segment")
    ask(page, "cat")
    assert tasks(page) == able


def test_a_model_loads_with_progress_for_the_one_who_chose_it(visit: OpenPage, start_server: object) -> None:
    server: Server = start_server("-m", "tests.e2e.scripted_server")  # type: ignore[operator]
    page, other = visit(server).page, visit(server).page
    for one in (page, other):
        add_picture(one, png(64, 48))
    choose(page, "moondream2")
    bar = page.locator("#models [role=progressbar]")
    expect(bar).to_contain_text("Loading moondream2")
    page.wait_for_function("+document.querySelector('#models [role=progressbar]').getAttribute('aria-valuenow') >= 25")
    fill = page.evaluate(
        "(() => { const f = document.querySelector('#models .ph-fill');"
        " return f.getBoundingClientRect().width / f.parentElement.getBoundingClientRect().width; })()"
    )
    assert 0.1 < fill < 1
    assert ask(other, "cat").startswith("Answered")
    assert ask(page, "cat").startswith("Answered")  # with the old model, until the new one is there

    expect(page.locator(".ph-models-name")).to_have_text("moondream2")
    expect(page.locator("#header .ph-model")).to_have_text("moondream2")
    expect(page.locator(".ph-models-list")).to_be_hidden()
    assert all(tasks(page).values())
    ask(page, "cat")
    assert len(drawn(page)) == 2

    expect(other.locator("#header .ph-model")).to_have_text("photon-tiny")
    expect(other.locator(".ph-models-name")).to_have_text("photon-tiny")
    assert not tasks(other)["Query"]
    ask(other, "cat")
    assert len(drawn(other)) == 1


def test_questions_and_captions_are_answered_in_words(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 48))
    choose(page, "moondream2")
    expect(page.locator(".ph-models-name")).to_have_text("moondream2")
    choose_task(page, "Query")
    expect(page.get_by_label("Question")).to_be_visible()
    assert ask(page, "How many cats, and where?").startswith("Answered")
    expect(page.locator(".ph-nothing")).to_have_text("Two cats — 猫.")
    assert shown_json(page)["answers"][0]["name"] == "How many cats, and where?"
    assert drawn(page) == []
    expect(page.locator("[data-form=json]")).to_be_visible()
    expect(page.locator("[data-form=coco]")).to_be_hidden()
    page.get_by_role("tab", name="Python").click()
    expect(page.locator(".ph-text")).to_contain_text("Photon.load('moondream2')")
    expect(page.locator(".ph-text")).to_contain_text("model.query(image, name")
    page.get_by_role("tab", name="curl").click()
    expect(page.locator(".ph-text")).to_contain_text('"model": "moondream2"')
    choose_task(page, "Caption")
    expect(page.locator(NAMES)).to_be_hidden()
    page.locator("#run").click()
    page.wait_for_function("document.querySelector('.ph-json').textContent.includes('caption')")
    assert outcome(page).startswith("Answered")
    choose(page, "photon-tiny")
    expect(page.locator(".ph-models-name")).to_have_text("photon-tiny")
    expect(page.get_by_role("radio", name="Point")).to_be_checked()
    expect(page.locator(NAMES)).to_be_visible()


SAID = """() => {
  window.said = [];
  const results = document.querySelector("#results");
  new MutationObserver(() => {
    const { state, answer } = results.querySelector(".ph-results").dataset;
    const text = results.querySelector(".ph-nothing").textContent;
    const seen = JSON.stringify([state, answer, text, results.querySelector(".ph-downloads").checkVisibility()]);
    if (seen !== window.said.at(-1)) window.said.push(seen);
  }).observe(results, { subtree: true, childList: true, characterData: true, attributes: true });
}"""


@pytest.fixture(scope="session")
def unhurried(start_server: StartServer) -> Server:
    """Exact answers that take two seconds."""
    return start_server("-m", "tests.e2e.scripted_server", SCRIPTED_DELAY_S="2", SCRIPTED_LOAD_S="0.1")


@pytest.mark.parametrize("task", ["Query", "Caption"])
def test_an_answer_in_words_is_read_while_it_is_written(visit: OpenPage, unhurried: Server, task: str) -> None:
    page = visit(unhurried).page
    add_picture(page, png(64, 48))
    choose(page, "moondream2")
    expect(page.locator(".ph-models-name")).to_have_text("moondream2")
    choose_task(page, task)
    page.evaluate(SAID)
    if task == "Query":
        page.fill(NAMES, "What is this?")
    page.click("#run")
    expect(page.locator("#status .ph-status")).to_contain_text("Answered")
    seen = [json.loads(one) for one in page.evaluate("said")]
    writing = [text for state, answer, text, _ in seen if (state, answer) == ("writing", "text")]
    assert "Two " in writing
    assert "Two cats " in writing
    assert all("Two cats — 猫.".startswith(text) for text in writing)
    assert not any(downloads for state, *_, downloads in seen if state == "writing")
    assert seen[-1] == ["answered", "text", "Two cats — 猫.", True]
