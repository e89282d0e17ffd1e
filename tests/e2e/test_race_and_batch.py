"""The race, the batch, and what a GPU would gain."""

from __future__ import annotations

import zipfile
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.actions import NAMES, add_picture, assert_idle_within, png, wait_until_running
from tests.e2e.conftest import OpenPage, Server


def test_a_race_shows_both_modes_on_one_scale(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 48))
    page.fill(NAMES, "cat")
    page.click("#race-start")
    expect(page.locator(".ph-verdict")).to_contain_text("all 16 answers are equal")
    expect(page.locator("#race-view .ph-timeline")).to_have_count(2)
    ticks = page.locator("#race-view .ph-chart").evaluate_all(
        """(charts) => charts.map((chart) =>
             [...chart.querySelectorAll('.ph-tick')].map((tick) => tick.textContent + tick.getAttribute('x')))"""
    )
    assert ticks[0] == ticks[1]
    expect(page.locator("#race-start")).to_be_visible()


def test_a_race_without_a_picture_or_a_known_name_is_refused(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    page.fill(NAMES, "cat")
    page.click("#race-start")
    expect(page.locator("#race-view .ph-status")).to_contain_text("add a picture first")
    add_picture(page, png(64, 48))
    page.fill(NAMES, "xyzzy")
    page.click("#race-start")
    expect(page.locator("#race-view .ph-status")).to_contain_text("xyzzy")


def test_stopping_a_race_frees_the_engine(visit: OpenPage, slow: Server) -> None:
    page = visit(slow).page
    add_picture(page, png(64, 48))
    page.fill(NAMES, "cat")
    page.click("#race-start")
    wait_until_running(slow, 1)
    page.locator("#race-stop").click()
    expect(page.locator("#race-view .ph-status")).to_have_text("The race was stopped.")
    assert_idle_within(slow, 1.5)


def add_to_the_batch(page: Page, *uploads: dict[str, Any]) -> None:
    """Open the batch, choose these files, and wait until the last is there."""
    page.get_by_text("Batch: the same question").click()
    page.set_input_files("#batch-in input[type=file]", list(uploads))  # type: ignore[arg-type]
    expect(page.locator("#batch-in")).to_contain_text(uploads[-1]["name"].removesuffix(".png"))


def test_the_batchs_pictures_can_race(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    page.fill(NAMES, "cat")
    page.get_by_role("radio", name="The batch").check()
    page.click("#race-start")
    expect(page.locator("#race-view .ph-status")).to_contain_text("add pictures to the batch")
    add_to_the_batch(page, png(64, 48), png(80, 20, "#00ff00"))
    page.click("#race-start")
    expect(page.locator(".ph-verdict")).to_contain_text("about 2 pictures, each new to the engine in both runs")


def test_what_a_gpu_would_gain_is_modelled_and_says_what_it_leaves_out(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    head = page.locator(".ph-race", has_text="What a GPU would gain")
    expect(head).to_contain_text("Modelled, not measured")
    page.click("#gains-start")
    expect(page.locator("#gains-view .ph-status")).to_contain_text("bookkeeping on this server")
    expect(page.locator("#gains-start")).to_be_disabled()
    expect(page.locator(".ph-accelerator")).to_have_count(2, timeout=240_000)
    for index, name in enumerate(("B200", "RTX 3090")):
        accelerator = page.locator(".ph-accelerator").nth(index)
        expect(accelerator.locator("h3")).to_contain_text(f"{name}modelled")
        expect(accelerator.locator(".ph-gain-row")).to_have_count(3)
        expect(accelerator).to_contain_text("this server's bookkeeping, measured")
    # Published and given, so the same everywhere: 480 us of bookkeeping beside a step of 2.59 ms.
    original = page.locator(".ph-accelerator").first.locator(".ph-gain").nth(1)
    expect(original).to_contain_text("+18.5 %")
    expect(original.locator(".ph-step-ms")).to_have_text(["3.07 ms", "2.59 ms"])
    expect(page.locator("#gains-view .ph-hint")).to_contain_text("Left out are")
    expect(page.locator("#gains-start")).to_be_enabled()


def test_a_batch_is_answered_and_zipped(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    page.get_by_text("Batch: the same question").click()
    page.fill(NAMES, "cat")
    bad: Any = {"name": "text.png", "mimeType": "image/png", "buffer": b"text"}
    page.set_input_files("#batch-in input[type=file]", [png(64, 48), png(80, 20, "#00ff00"), bad])
    expect(page.locator("#batch-in")).to_contain_text("4.0 B")  # the last file is there
    page.click("#batch-start")
    expect(page.locator("#batch-view tbody tr")).to_have_count(3)
    expect(page.locator("#batch-view")).to_contain_text("not a picture")
    with page.expect_download() as download:
        page.get_by_text("Download all answers").click()
    assert len(zipfile.ZipFile(download.value.path()).namelist()) == 6
