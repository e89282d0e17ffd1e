"""The page over exact answers: what is drawn, said and refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import (
    NAMES,
    add_picture,
    ask,
    assert_drawn_where_the_json_says,
    choose_task,
    drawn,
    outcome,
    png,
    shown_json,
)
from tests.e2e.conftest import DESKTOP, PHONE, OpenPage, Server


@pytest.mark.parametrize(
    ("viewport", "scale", "size"),
    [(DESKTOP, 1, (640, 480)), (PHONE, 3, (1200, 400)), (DESKTOP, 2, (40, 1600)), (PHONE, 1, (2000, 50))],
)
def test_shapes_lie_over_the_right_pixels(
    visit: OpenPage, scripted: Server, viewport: dict[str, int], scale: int, size: tuple[int, int]
) -> None:
    page = visit(scripted, viewport, device_scale_factor=scale).page
    add_picture(page, png(*size))
    for task in ("Point", "Detect", "Segment"):
        choose_task(page, task)
        ask(page, "cat, dog")
        assert shown_json(page)["task"] == task.lower()
        assert len(drawn(page)) == 2
        assert_drawn_where_the_json_says(page)


def test_resizing_the_window_keeps_shapes_in_place_and_labels_inside(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(640, 480))
    ask(page, "a thing with a very long name that would not fit beside its box")
    for viewport in (PHONE, DESKTOP):
        page.set_viewport_size(viewport)  # type: ignore[arg-type]
        page.wait_for_timeout(100)
        assert_drawn_where_the_json_says(page)
        assert page.evaluate(LABELS_INSIDE)


LABELS_INSIDE = """() => {
  const p = document.querySelector('.ph-frame').getBoundingClientRect();
  return [...document.querySelectorAll('.ph-label')].every((label) => {
    const b = label.getBoundingClientRect();
    return b.left >= p.left - 1 && b.top >= p.top - 1 && b.right <= p.right + 1 && b.bottom <= p.bottom + 1;
  });
}"""


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_edges_tiny_objects_and_wrong_boxes(visit: OpenPage, scripted: Server, viewport: dict[str, int]) -> None:
    page = visit(scripted, viewport).page
    add_picture(page, png(1000, 800))
    ask(page, "edges")
    shapes = {shape["key"]: shape["box"] for shape in drawn(page)}
    assert sorted(shapes) == [f"edges#{index}" for index in range(1, 7)]
    assert page.evaluate(LABELS_INSIDE)
    tiny = page.locator(".ph-dot").bounding_box()
    assert tiny is not None
    page.mouse.move(tiny["x"] + tiny["width"] / 2, tiny["y"] + tiny["height"] / 2)
    expect(page.locator(".ph-shape.ph-on")).to_have_attribute("data-key", "edges#5")
    assert shapes["edges#6"][2] == pytest.approx(1, abs=0.005)


def test_fifty_overlapping_masks_can_be_told_apart(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(800, 600))
    choose_task(page, "Segment")
    ask(page, "fifty")
    assert_drawn_where_the_json_says(page)
    assert len(drawn(page)) == 50
    expect(page.locator(".ph-label:visible")).to_have_count(0)  # they would cover the picture
    page.locator(".ph-rows tbody tr").nth(20).hover()
    expect(page.locator(".ph-label:visible")).to_have_text(["fifty 21"])


def test_labels_can_be_hidden_and_shapes_be_outlines_only(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(640, 480))
    ask(page, "cat")
    filled = "getComputedStyle(document.querySelector('.ph-shape .ph-line')).fill"
    before = page.evaluate(filled)
    page.locator(".ph-tool-fill").fill("60")
    assert page.evaluate(filled) != before
    page.locator(".ph-tool-fill").fill("0")
    assert re.search(r"/ 0\)|, 0\)", page.evaluate(filled))
    page.get_by_label("Labels").uncheck()
    expect(page.locator(".ph-label")).to_be_hidden()
    expect(page.locator(".ph-shape")).to_be_visible()


def test_nothing_found_is_said_in_words(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 48))
    ask(page, "nothing")
    expect(page.locator(".ph-note")).to_have_text("Found no nothing.")
    expect(page.locator(".ph-nothing")).to_have_text("Found no nothing.")
    assert drawn(page) == []


def test_table_json_and_drawing_agree_and_light_up_together(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(640, 480))
    ask(page, "cat, dog")
    rows = page.locator(".ph-rows tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("160, 120, 480, 240")
    rows.nth(1).hover()
    expect(page.locator(".ph-shape.ph-on")).to_have_attribute("data-key", "dog#1")
    page.get_by_role("tab", name="JSON").click()
    assert shown_json(page)["answers"][0]["objects"][0]["x_min"] == 0.25
    expect(page.locator(".ph-note")).to_have_text("Found 1 × cat, 1 × dog.")


def test_picture_and_names_stay_when_the_task_changes(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(640, 480))
    ask(page, "cat")
    source = page.locator(".ph-picture").get_attribute("src")
    for task in ("Point", "Segment"):
        choose_task(page, task)
        expect(page.locator(NAMES)).to_have_value("cat")
        assert page.locator(".ph-picture").get_attribute("src") == source
        page.click("#run")
        page.wait_for_function(
            "(task) => JSON.parse(document.querySelector('.ph-json').textContent).task === task",
            arg=task.lower(),
        )


def test_the_switch_reaches_the_engine_and_is_shown(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(640, 480))
    assert "pipelined" in ask(page, "cat")
    first = shown_json(page)
    page.get_by_label("Pipelined decoding").uncheck()
    assert "blocking" in ask(page, "cat")
    assert shown_json(page) == first
    expect(page.locator(".ph-span.ph-bubble")).not_to_have_count(0)
    expect(page.locator(".ph-bar-head").first).to_contain_text("blocking")


def test_the_time_panel_names_every_part_and_the_parts_fill_the_bar(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(640, 480))
    ask(page, "cat")
    words = page.locator(".ph-figures").inner_text()
    for part in (
        "Ingest",
        "Preprocessing",
        "Queue",
        "Prefill",
        "First token",
        "Decode",
        "Post-processing",
        "Total",
        "Tokens",
        "Device busy",
    ):
        assert part in words
    assert page.locator(".ph-span.ph-prefill").count() == 1
    assert page.locator(".ph-span.ph-decode").count() == 8
    assert page.locator(".ph-span.ph-zombie").count() == 1
    before = page.locator(".ph-span.ph-decode").first.bounding_box()
    page.get_by_role("button", name="Zoom in").click()
    after = page.locator(".ph-span.ph-decode").first.bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] > before["width"] * 1.5


@pytest.mark.parametrize(
    ("upload", "sentence"),
    [
        (b"", "The file is empty."),
        (b"just text", "not a picture"),
        (png(300, 2)["buffer"], "long side"),
        (png(200, 200)["buffer"][:150], "damaged or cut short"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(visit: OpenPage, scripted: Server, upload: bytes, sentence: str) -> None:
    page = visit(scripted).page
    file: Any = {"name": "picture.png", "mimeType": "image/png", "buffer": upload}
    page.set_input_files("#picture-in input[type=file]", [file])
    assert sentence in outcome(page)
    add_picture(page, png(64, 64))
    assert "Answered" in ask(page, "cat")


def test_a_question_without_a_name_is_refused_in_one_sentence(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 64))
    for names, sentence in (("", "say what to look for"), ("x" * 101, "at most 100"), (" , ", "say what to look for")):
        assert sentence in ask(page, names)


def test_a_missing_picture_is_said(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    assert "add a picture first" in ask(page, "cat")


def test_an_unknown_word_is_said_and_the_known_ones_are_answered(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 64))
    status = ask(page, "xyzzy, cat")
    assert "xyzzy" in status
    assert "cup" in status  # a near word
    assert [shape["key"] for shape in drawn(page)] == ["cat#1"]


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "${alert(1)}",
    "{{constructor}}",
    "</svg><script>alert(1)</script>",
    '"quoted" \\back`tick',
    "كلب",
    "🐈‍⬛ 猫",
]


def test_what_is_typed_is_shown_as_text(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    add_picture(page, png(64, 64))
    for name in HOSTILE:
        ask(page, name)
        expect(page.locator(".ph-label")).to_have_text(f"{name} 1")
        expect(page.locator(".ph-rows tbody tr td").first).to_have_text(name)
        assert page.locator("#stage img").count() == 1


PLACES = """(names) => names.map((name) => {
  const text = document.querySelector(".ph-note").firstChild;
  const range = document.createRange();
  range.setStart(text, text.data.indexOf(name));
  range.setEnd(text, text.data.indexOf(name) + name.length);
  return range.getBoundingClientRect().left;
})"""


def test_a_sentence_keeps_its_order_around_names_from_right_to_left(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 64))
    ask(page, "قطة, كلب")
    first, second = page.evaluate(PLACES, ["قطة", "كلب"])
    assert first < second


def test_a_hostile_file_name_is_shown_as_text(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    add_picture(page, png(64, 64) | {"name": "<img src=x onerror=alert(1)>.png"})
    assert page.locator("#stage img").count() == 1


def test_a_picture_can_be_dropped_or_pasted_over_the_old_one(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 64))
    for event, holder, size in (("drop", "dataTransfer", 80), ("paste", "clipboardData", 96)):
        page.evaluate(
            """([event, holder, bytes]) => {
              const data = new DataTransfer();
              data.items.add(new File([new Uint8Array(bytes)], 'other.png', { type: 'image/png' }));
              const made = event === 'drop'
                ? new DragEvent('drop', { dataTransfer: data, bubbles: true })
                : new ClipboardEvent('paste', { clipboardData: data, bubbles: true });
              document.querySelector('.ph-stage').dispatchEvent(made);
            }""",
            [event, holder, list(png(size, 40)["buffer"])],
        )
        page.wait_for_function("(width) => document.querySelector('.ph-picture').naturalWidth === width", arg=size)


def test_removing_the_picture_brings_the_input_back(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 64))
    ask(page, "cat")
    page.get_by_role("button", name="Remove picture").click()
    page.locator("#picture-in input[type=file]").wait_for(state="attached")
    expect(page.locator(".ph-stage")).to_be_hidden()
    assert "add a picture first" in ask(page, "cat")


def test_controls_have_names_and_can_be_reached_by_keyboard(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 64))
    ask(page, "cat")
    for role, name in (
        ("radio", "Segment"),
        ("textbox", "What to look for"),
        ("button", "Run"),
        ("checkbox", "Pipelined decoding"),
        ("tab", "JSON"),
    ):
        expect(page.get_by_role(role, name=re.compile(name))).to_have_count(1)  # type: ignore[arg-type]
    page.focus(NAMES)
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert "run" in reached
    alt = page.locator(".ph-picture").get_attribute("alt")
    assert alt is not None
    assert "Found 1 × cat." in alt


def test_the_header_says_what_answers(visit: OpenPage, scripted: Server) -> None:
    page: Page = visit(scripted).page
    header = page.locator(".ph-header").inner_text()
    for words in ("photon-tiny", "CPU, 2 threads, float32", "measured"):
        assert words in header
    expect(page.locator(".ph-notes")).to_contain_text("little to hide")
    page.get_by_text("All 3 names").click()
    expect(page.locator(".ph-names")).to_have_text("cat, cup, dog")


def test_answers_can_be_downloaded(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 48))
    ask(page, "cat")
    starts = {"JSON": b"{", "COCO": b'{"images"', "SVG": b"<svg", "Mask": b"\x89PNG", "PNG": b"\x89PNG"}
    for form, start in starts.items():
        with page.expect_download() as download:
            page.locator(".ph-downloads").get_by_role("button", name=form, exact=True).click()
        assert download.value.path().read_bytes().replace(b"\n ", b"").startswith(start), form


def test_the_question_is_shown_as_python_and_curl(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 48))
    ask(page, "cat")
    page.get_by_role("tab", name="Python").click()
    expect(page.locator(".ph-text")).to_contain_text("model.detect(image, name")
    page.get_by_role("tab", name="curl").click()
    expect(page.locator(".ph-text")).to_contain_text(scripted.url)


def test_a_click_or_a_drag_on_the_picture_is_a_reference(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(640, 480))
    box = page.locator(".ph-frame").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
    expect(page.locator(".ph-refers-to")).to_have_text("Refers to the point 0.25, 0.50")
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.25, steps=3)
    page.mouse.up()
    expect(page.locator(".ph-refers-to")).to_have_text("Refers to the box 0.25, 0.25, 0.75, 0.50")
    assert "Answered" in ask(page, "cat")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".ph-refers")).to_be_hidden()


@pytest.mark.parametrize(
    ("address", "sentence"),
    [("http://127.0.0.1:80/a.png", "private network"), ("file:///etc/passwd", "begin with http")],
)
def test_private_addresses_are_not_read(visit: OpenPage, scripted: Server, address: str, sentence: str) -> None:
    page = visit(scripted).page
    page.fill("#web-address input, #web-address textarea", address)
    page.press("#web-address input, #web-address textarea", "Enter")
    assert sentence in outcome(page)


def test_an_example_is_taken_and_asked_with_one_click(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    page.locator(".ph-example").first.click()
    assert "Answered" in outcome(page)
    assert page.locator(".ph-shape").count() == 1
    assert page.input_value(NAMES) != ""
    assert page.locator(".ph-credit").inner_text() != ""
