"""How sure the model is: of each number in the table and on the hovered object, their product in the JSON."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.actions import add_picture, ask, choose_task, png, shown_json
from tests.e2e.conftest import PHONE, OpenPage, Server

SAID = "(label) => getComputedStyle(label, '::after').content"
INSIDE = """(label) => {
  const frame = document.querySelector(".ph-frame").getBoundingClientRect();
  const box = label.getBoundingClientRect();
  return box.right <= frame.right + 1 && box.left >= frame.left - 1;
}"""


def column(page: Page) -> Locator:
    return page.locator(".ph-rows tbody td:last-child")


@pytest.mark.parametrize(("task", "certainty"), [("Point", "95 %"), ("Detect", "97 %"), ("Segment", "97 %")])
def test_the_certainty_is_that_of_one_number_and_the_json_keeps_the_product(
    visit: OpenPage, scripted: Server, task: str, certainty: str
) -> None:
    page = visit(scripted).page
    add_picture(page, png(640, 480))
    choose_task(page, task)
    ask(page, "cat")
    expect(column(page)).to_have_text([certainty])
    (answer,) = shown_json(page)["answers"]
    assert answer.get("points", answer.get("objects"))[0]["score"] == 0.9
    page.locator(".ph-rows tbody tr").hover()
    label = page.locator(".ph-label")
    assert certainty in label.evaluate(SAID)


def test_small_and_missing_certainties_are_said_and_stay_inside_the_picture(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted, PHONE).page
    add_picture(page, png(640, 480))
    ask(page, "unsure")
    expect(column(page)).to_have_text(["100 %", "20 %", "< 1 %", "–"])
    for row, said in enumerate(('" · 100 %"', '" · 20 %"', '" · < 1 %"', "none")):
        page.locator(".ph-rows tbody tr").nth(row).hover()
        label = page.locator(".ph-label.ph-on")
        assert label.evaluate(SAID) == said
        assert label.evaluate(INSIDE)


def test_the_column_says_what_it_is(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 48))
    ask(page, "cat")
    head = page.get_by_text("Certainty", exact=True)
    expect(head).to_be_visible()
    assert "How sure the model is of each number" in (head.get_attribute("title") or "")
