"""What the page says of an answer's steps, tokens and zombies is what it draws, and what the engine counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.e2e.actions import add_picture, ask, choose_task
from tests.e2e.conftest import OpenPage, Server
from tests.paths import ROOT

EXAMPLES = ROOT / "static" / "examples"
FIGURES = """() => Object.fromEntries([...document.querySelectorAll("#time .ph-figure")].map(
  (one) => [one.querySelector("dt").textContent, one.querySelector("dd").textContent]))"""
DRAWN = """() => {
  const count = (kinds) => document.querySelectorAll(kinds.map((kind) => `#time .ph-span.ph-${kind}`).join()).length;
  const facts = document.querySelector("#time .ph-line-head > span").textContent;
  return {
    steps: count(["prefill", "decode"]),
    zombies: count(["zombie"]),
    tokens: Number(facts.match(/(\\d+) tokens?/)[1]),
    read: count(["read-first"]),
  };
}"""


def picture(path: Path) -> dict[str, Any]:
    return {"name": path.name, "mimeType": "image/jpeg", "buffer": path.read_bytes()}


def figures(page: Page) -> tuple[int, int, int]:
    """Steps in all, zombies among them, tokens, as they stand in words."""
    said = page.evaluate(FIGURES)
    steps, _, zombies = said["Steps"].removesuffix(" zombie").partition(" + ")
    return int(steps) + int(zombies or 0), int(zombies or 0), int(said["Tokens"])


@pytest.mark.parametrize("mode", ["pipelined", "blocking"])
@pytest.mark.parametrize("task", ["Point", "Detect", "Segment"])
def test_figures_and_drawing_agree(visit: OpenPage, real: Server, task: str, mode: str) -> None:
    page = visit(real).page
    add_picture(page, picture(EXAMPLES / "gorge.jpg"))
    choose_task(page, task)
    if mode == "blocking":
        page.get_by_label("Pipelined decoding").uncheck()
    for _ in range(3):  # what is launched early is learnt from one answer to the next
        assert mode in ask(page, "sunflower")
        page.wait_for_function("document.querySelectorAll('#time .ph-span').length > 0")
        steps, zombies, tokens = figures(page)
        drawn = page.evaluate(DRAWN)
        assert drawn["steps"] == steps
        assert drawn["tokens"] == tokens
        assert (drawn["zombies"] > 0) == (zombies > 0)
        if mode == "blocking":
            assert zombies == 0


def test_a_scripted_answer_with_a_zombie_counts_it_once(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, picture(EXAMPLES / "gorge.jpg"))
    ask(page, "cat")
    assert page.evaluate(FIGURES)["Steps"] == "8 + 1 zombie"
    assert page.evaluate(DRAWN)["steps"] == 9
    assert page.evaluate(DRAWN)["zombies"] == 1


def test_each_legend_entry_says_what_it_is_and_lights_its_blocks(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, picture(EXAMPLES / "gorge.jpg"))
    ask(page, "cat")
    entries = page.locator("#time .ph-entry")
    kinds = entries.evaluate_all("(all) => all.map((one) => one.dataset.kind)")
    assert {"prefill", "decode", "launch", "commit", "finalize", "zombie"} <= set(kinds)
    said = set()
    for index, kind in enumerate(kinds):
        entries.nth(index).focus()
        sentence = page.locator("#time .ph-said").inner_text()
        assert sentence.endswith(".")
        said.add(sentence)
        assert page.locator(f"#time .ph-span.ph-{kind}").count() > 0
        assert page.locator(f"#time .ph-span.ph-{kind}.ph-faded").count() == 0
        assert page.locator("#time .ph-span.ph-faded").count() > 0
    assert len(said) == len(kinds), "two entries say the same"
    page.locator("#names input, #names textarea").first.focus()
    assert page.locator("#time .ph-span.ph-faded").count() == 0
    assert page.locator("#time .ph-said").inner_text() == ""


def test_the_page_says_what_pipelining_is_where_it_is_seen_first(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    words = "the device computes step t + 1, the CPU does the bookkeeping of step t"
    for place in ("#header", "#pipelined"):
        assert words in " ".join(page.locator(place).inner_text().split())


def test_the_example_that_fails_stands_last_and_is_named_for_it(visit: OpenPage, scripted: Server) -> None:
    titles = visit(scripted).page.locator(".ph-example").all_inner_texts()
    assert [("fails" in title) for title in titles] == [False] * (len(titles) - 1) + [True]


def test_each_step_says_why_it_was_launched_when_it_was(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, picture(EXAMPLES / "gorge.jpg"))
    readout = page.locator("#time .ph-timeline > .ph-readout").first
    for mode, why in (("pipelined", "somebody was sure to need it"), ("blocking", "as always in blocking mode")):
        if mode == "blocking":
            page.get_by_label("Pipelined decoding").uncheck()
        assert mode in ask(page, "cat")
        page.locator("#time .ph-span.ph-launch").nth(3).dispatch_event("pointerenter")
        assert why in readout.inner_text()
