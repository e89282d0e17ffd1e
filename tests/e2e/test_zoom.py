"""A page that is zoomed, by the browser, by a style sheet or by two fingers: overlay and clicks stay on the picture."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import CDPSession, Page, expect

from tests.e2e.actions import add_picture, ask, choose_task, png
from tests.e2e.conftest import PHONE, OpenPage, Server

PLACE = (0.5, 0.25)  # where the scripted engine finds everything
MARK = (255, 0, 255)
COLOUR = "getComputedStyle(document.querySelector('.ph-shape')).getPropertyValue('--colour')"
SCALE = "visualViewport.scale"
TOUCH = {"viewport": PHONE, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


def marked_picture() -> dict[str, Any]:
    """A picture with a square of one colour around the place."""
    image = Image.open(io.BytesIO(png(640, 480)["buffer"]))
    image.paste(MARK, (256, 60, 384, 180))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return {"name": "marked.png", "mimeType": "image/png", "buffer": buffer.getvalue()}


def touch(link: CDPSession, kind: str, *fingers: tuple[float, float]) -> None:
    points = [{"x": x, "y": y, "id": index} for index, (x, y) in enumerate(fingers)]
    link.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def swipe_up(page: Page, link: CDPSession, x: float, y: float) -> None:
    """One finger, as far as a page is scrolled."""
    touch(link, "touchStart", (x, y))
    for step in range(1, 11):
        touch(link, "touchMove", (x, y - 10 * step))
        page.wait_for_timeout(16)
    touch(link, "touchEnd")


def spread(page: Page, link: CDPSession, x: float, y: float) -> None:
    """Two fingers, until the page is magnified."""
    touch(link, "touchStart", (x, y - 10))
    touch(link, "touchStart", (x, y - 10), (x, y + 10))
    for step in range(1, 21):
        touch(link, "touchMove", (x, y - 10 - 4 * step), (x, y + 10 + 4 * step))
        page.wait_for_timeout(16)
    touch(link, "touchEnd")


def by_style(page: Page) -> None:
    page.evaluate("document.documentElement.style.zoom = 1.5")


def by_fingers(page: Page) -> None:
    page.context.new_cdp_session(page).send("Emulation.setPageScaleFactor", {"pageScaleFactor": 1.5})
    page.wait_for_function(f"{SCALE} === 1.5")


def not_at_all(page: Page) -> None:
    """The browser's own zoom is a smaller viewport of more pixels: the context has it from the start."""


def shown(page: Page) -> NDArray[np.int16]:
    """What is on the screen, in its own pixels, [H, W, 3]."""
    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), np.int16)


def middle(pixels: NDArray[np.int16], colour: tuple[int, ...]) -> tuple[float, float]:
    """The middle of all that has nearly this colour."""
    y, x = np.nonzero(np.abs(pixels - np.array(colour)).max(axis=-1) < 24)
    assert len(x), f"{colour} is not to be seen"
    return (x.min() + x.max() + 1) / 2, (y.min() + y.max() + 1) / 2


@pytest.mark.parametrize(
    ("zoom", "options"),
    [
        (not_at_all, {"viewport": {"width": 960, "height": 600}, "device_scale_factor": 1.5}),
        (by_style, {}),
        (by_style, {"device_scale_factor": 2}),
        (by_fingers, TOUCH),
    ],
)
def test_on_a_zoomed_page_shapes_and_clicks_are_where_the_picture_is(
    visit: OpenPage, scripted: Server, zoom: Callable[[Page], None], options: dict[str, Any]
) -> None:
    page = visit(scripted, **options).page
    add_picture(page, marked_picture())
    choose_task(page, "Point")
    ask(page, "cat")
    page.get_by_label("Labels").uncheck()
    page.locator(".ph-frame").scroll_into_view_if_needed()
    zoom(page)
    page.wait_for_timeout(300)
    expect(page.locator(".ph-refers")).to_be_hidden()
    density = page.evaluate("devicePixelRatio") * page.evaluate(SCALE)
    pixels = shown(page)
    x, y = middle(pixels, MARK)
    dot = middle(pixels, tuple(bytes.fromhex(page.evaluate(COLOUR).strip()[1:])))
    assert abs(dot[0] - x) <= density
    assert abs(dot[1] - y) <= density
    page.mouse.click(x / density, y / density)
    expect(page.locator(".ph-refers-to")).to_have_text(f"Refers to the point {PLACE[0]:.2f}, {PLACE[1]:.2f}")


@pytest.mark.parametrize("gesture", [swipe_up, spread])
def test_a_finger_that_scrolls_or_zooms_marks_nothing(
    visit: OpenPage, scripted: Server, gesture: Callable[..., None]
) -> None:
    page = visit(scripted, **TOUCH).page
    link = page.context.new_cdp_session(page)
    add_picture(page, marked_picture())
    frame = page.locator(".ph-frame").bounding_box()
    assert frame is not None
    x, y = frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2
    gesture(page, link, x, y)
    page.wait_for_function(f"{SCALE} > 1.2 || scrollY > 0")
    expect(page.locator(".ph-refers")).to_be_hidden()
    page.reload()
    add_picture(page, marked_picture())
    page.locator(".ph-frame").tap(position={"x": frame["width"] / 4, "y": frame["height"] / 2})
    gesture(page, link, x, y)
    page.wait_for_function(f"{SCALE} > 1.2 || scrollY > 0")
    expect(page.locator(".ph-refers-to")).to_have_text("Refers to the point 0.25, 0.50")
