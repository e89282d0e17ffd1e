"""`python -m tests.e2e.pictures`: the README's pictures, taken of the real page with the bundled model.

Needs the development requirements and Chromium. Writes `static/readme/page.webp` and `dark.webp` (the page after an
answer, light and dark), `phone.webp`, `race.webp`, and `page.gif`: an example is chosen, answered, and asked otherwise;
and `static/preview.jpg`, which links to the page show.
"""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from app.web.previews import PICTURE, SIZE
from tests.e2e.actions import NAMES, ask, choose_task, outcome
from tests.e2e.conftest import DESKTOP, FLAGS, PHONE
from tests.paths import ROOT

OUT = ROOT / "static" / "readme"
LIMIT = 1_500_000  # bytes, all together
START_S = 300.0
GIF_WIDTH = 720
EXAMPLE = 0  # of static/examples: the one that is shown


def main() -> None:
    OUT.mkdir(exist_ok=True)
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with _server() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        _film(_open(browser, url, DESKTOP, "light"))
        for name, viewport, scheme in (
            ("page", DESKTOP, "light"),
            ("dark", DESKTOP, "dark"),
            ("phone", PHONE, "light"),
        ):
            page = _open(browser, url, viewport, scheme)
            _answer(page)
            _save(name, page.screenshot())
            if name == "page":
                _save("race", _race(page))
        page = _open(browser, url, dict(zip(("width", "height"), SIZE, strict=True)), "light")
        _answer(page)
        Image.open(io.BytesIO(page.screenshot())).convert("RGB").save(ROOT / "static" / PICTURE, quality=85)
        browser.close()
    sizes = {file.name: file.stat().st_size for file in sorted(OUT.iterdir())}
    print("\n".join(f"{name}: {size / 1000:.0f} kB" for name, size in sizes.items()))
    if sum(sizes.values()) > LIMIT:
        sys.exit(f"The pictures have {sum(sizes.values())} bytes together; at most {LIMIT} are wanted.")


def _answer(page: Page) -> None:
    page.locator(".ph-example").nth(EXAMPLE).click()
    outcome(page)
    page.wait_for_timeout(500)


def _race(page: Page) -> bytes:
    """The race alone, after it was run."""
    page.click("#race-start")
    page.locator(".ph-verdict").wait_for()
    page.set_viewport_size({"width": DESKTOP["width"], "height": 2400})
    page.wait_for_timeout(500)
    top = page.locator(".ph-race h2").first.bounding_box()
    bottom = page.locator("#race-view").bounding_box()
    assert top is not None
    assert bottom is not None
    height = bottom["y"] + bottom["height"] - top["y"]
    clip = {"x": 60.0, "y": top["y"] - 16, "width": DESKTOP["width"] - 120.0, "height": height + 32}
    return page.screenshot(clip=clip)  # type: ignore[arg-type]


def _film(page: Page) -> None:
    """An example is chosen and answered, then its things are pointed at, then outlined; each state for a moment."""
    frames: list[tuple[Image.Image, int]] = []

    def shoot(ms: int) -> None:
        page.wait_for_timeout(300)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        height = round(picture.height * GIF_WIDTH / picture.width)
        frames.append((picture.resize((GIF_WIDTH, height), Image.Resampling.LANCZOS), ms))

    shoot(900)
    _answer(page)
    shoot(1800)
    names = page.input_value(NAMES)
    for task in ("Point", "Segment", "Detect"):
        choose_task(page, task)
        shoot(500)
        ask(page, names)
        shoot(1500)
    page.mouse.wheel(0, 620)
    shoot(1800)
    pictures = [frame.quantize(255, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE) for frame, _ in frames]
    durations = [ms for _, ms in frames]
    pictures[0].save(
        OUT / "page.gif", save_all=True, append_images=pictures[1:], duration=durations, loop=0, optimize=True
    )


def _save(name: str, png: bytes) -> None:
    Image.open(io.BytesIO(png)).convert("RGB").save(OUT / f"{name}.webp", quality=82, method=6)


def _open(browser: Browser, url: str, viewport: dict[str, int], scheme: str) -> Page:
    page = browser.new_page(viewport=viewport, color_scheme=scheme)  # type: ignore[arg-type]
    page.set_default_timeout(120_000)
    page.goto(url)
    page.locator("#run").wait_for()
    page.locator(".ph-about[data-state=ready]").wait_for()
    page.wait_for_function("[...document.querySelectorAll('.ph-example img')].every((one) => one.naturalWidth > 0)")
    return page


@contextmanager
def _server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    env = {**os.environ, "HOST": "127.0.0.1", "PORT": str(port), "PHOTON_MODEL": "photon-tiny"}
    process = subprocess.Popen([sys.executable, "app.py"], cwd=Path(ROOT), env=env)
    try:
        deadline = time.monotonic() + START_S
        while not _ready(url):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit("The server did not start.")
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _ready(url: str) -> bool:
    try:
        return httpx.get(url + "/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    main()
