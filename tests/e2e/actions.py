"""What a person does on the page, and how what is drawn is measured."""

from __future__ import annotations

import json
import time
from typing import Any

from PIL import Image, ImageDraw
from playwright.sync_api import Page

from tests import samples
from tests.e2e.conftest import Server

NAMES = "#names input, #names textarea"

PASTE = """(bytes) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], "image.png", { type: "image/png" }));
  document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
}"""
"""Given the bytes of a PNG: pastes it into the page."""


def png(width: int, height: int, colour: str = "#336699") -> dict[str, Any]:
    """An upload: a plain picture with a diagonal."""
    image = Image.new("RGB", (width, height), colour)
    ImageDraw.Draw(image).line((0, 0, width, height), fill="white", width=3)
    return {"name": f"plain-{colour[1:]}.png", "mimeType": "image/png", "buffer": samples.png(image)}


def add_picture(page: Page, upload: dict[str, Any]) -> None:
    """Choose a file and wait until the page shows its own copy of it."""
    page.set_input_files("#picture-in input[type=file]", [upload])  # type: ignore[list-item]
    page.locator("#stage .ph-stage[data-state=picture]").wait_for()
    page.wait_for_function("document.querySelector('#stage .ph-picture').naturalWidth > 0")


def choose_task(page: Page, task: str) -> None:
    page.get_by_role("radio", name=task).check()


def ask(page: Page, names: str, key: str = "Enter") -> str:
    """Type the names, run, wait for the end; returns the status line."""
    page.fill(NAMES, names)
    page.evaluate("document.querySelector('#status .ph-status').textContent = ''")
    page.press(NAMES, key)
    return outcome(page)


def outcome(page: Page) -> str:
    page.wait_for_function(
        "(() => { const s = document.querySelector('#status .ph-status');"
        " return ['done', 'problem'].includes(s.dataset.kind) && s.textContent !== ''; })()"
    )
    return page.locator("#status .ph-status").inner_text()


def shown_json(page: Page) -> dict[str, Any]:
    return dict(json.loads(page.locator(".ph-json").text_content() or ""))


def drawn(page: Page) -> list[dict[str, Any]]:
    """Every shape with the box of its line on the screen, in 0..1 of the picture on the screen."""
    return list(
        page.evaluate(
            """() => {
              const p = document.querySelector('.ph-picture').getBoundingClientRect();
              return [...document.querySelectorAll('.ph-shape')].map((shape) => {
                const b = shape.querySelector('.ph-line').getBoundingClientRect();
                return { key: shape.dataset.key, width: p.width, height: p.height,
                  box: [(b.left - p.left) / p.width, (b.top - p.top) / p.height,
                        (b.right - p.left) / p.width, (b.bottom - p.top) / p.height] };
              });
            }"""
        )
    )


def expected_boxes(body: dict[str, Any]) -> dict[str, list[float]]:
    """From the page's JSON: the outline box of each object, 0..1, by its key in the drawing."""
    boxes: dict[str, list[float]] = {}
    for answer in body["answers"]:
        for index, found in enumerate(answer.get("points", answer.get("objects", [])), start=1):
            key = f"{answer['name']}#{index}"
            if "x" in found:
                boxes[key] = [found["x"], found["y"]] * 2
            elif found.get("polygons"):
                xs, ys = zip(*(point for polygon in found["polygons"] for point in polygon), strict=True)
                boxes[key] = [min(xs), min(ys), max(xs), max(ys)]
            else:
                box = found.get("bbox") or found
                boxes[key] = [box[side] for side in ("x_min", "y_min", "x_max", "y_max")]
    return boxes


def assert_drawn_where_the_json_says(page: Page, slack_px: float = 1.5) -> None:
    """Each object of the JSON is drawn once, over the right pixels of the picture."""
    boxes = expected_boxes(shown_json(page))
    shapes = {shape["key"]: shape for shape in drawn(page)}
    assert shapes.keys() == boxes.keys()
    for key, box in boxes.items():
        width, height = shapes[key]["width"], shapes[key]["height"]
        for side, size in enumerate((width, height, width, height)):
            clipped = min(max(box[side], 0), 1)
            assert abs(shapes[key]["box"][side] - clipped) * size <= slack_px, (key, side, box, shapes[key])


def wait_until_running(server: Server, count: int) -> None:
    deadline = time.monotonic() + 10
    while server.running() < count:
        assert time.monotonic() < deadline, "the request never reached the engine"
        time.sleep(0.05)


def assert_idle_within(server: Server, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while server.running():
        assert time.monotonic() < deadline, "the engine is still busy"
        time.sleep(0.05)
