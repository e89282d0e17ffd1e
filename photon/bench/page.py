"""The web page in a headless Chromium: from the click to the painted answer, painting, and the server's memory.

Needs the development requirements and a system Chromium. The server is `python app.py` of this checkout, on a free
port, with the bundled model.

    click_to_paint_ms    from the click on Run until a frame with the answer has been painted
    paint_50_boxes_ms    the page's own drawing code on 50 boxes, until a frame with them has been painted (median)
    rss_growth_mb        the server's resident memory after all uploads and visits, less that after the first few
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from photon.bench.report import BenchmarkError, percentile, table
from photon.bench.served import rss_mb, server

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
WARM_UP = 5
START_S = 180.0
ANSWER_S = 60

CLICK = """(limit_s) => new Promise((resolve) => {
  const status = () => document.querySelector("#status .ph-status");
  status().dataset.kind = "";
  const start = performance.now();
  new MutationObserver((_, watcher) => {
    if (!["done", "problem"].includes(status().dataset.kind)) return;
    watcher.disconnect();
    const painted = () => resolve([performance.now() - start, status().textContent]);
    requestAnimationFrame(() => requestAnimationFrame(painted));
  }).observe(document.querySelector("#status"), { attributes: true, childList: true, subtree: true });
  document.querySelector("#run").click();
  setTimeout(() => resolve([limit_s * 1e3, `nothing within ${limit_s} s`]), limit_s * 1e3);
})"""

PAINT = """() => new Promise((resolve) => {
  const own = window.gradio_config.components.find((one) => one.props.elem_id === "stage").props;
  const element = document.createElement("div");
  element.innerHTML = own.html_template;
  document.querySelector(".ph-header").append(element);
  const shapes = Array.from({ length: 50 }, (_, index) => {
    const [x, y] = [(index % 10) * 95, Math.floor(index / 10) * 190];
    const box = [x, y, x + 90, y + 180];
    return { kind: "box", name: "cat", index: index + 1, colour: "#ff5470", box,
             d: `M${x} ${y}H${x + 90}V${y + 180}H${x}Z` };
  });
  const props = { value: {} };
  let draw = () => {};
  const names = ["element", "trigger", "props", "server", "upload", "watch"];
  Function(...names, own.js_on_load)(element, () => {}, props, {}, null, (_, react) => (draw = react));
  const source = document.querySelector("#stage .ph-picture").getAttribute("src");
  const start = performance.now();
  props.value = { src: source, name: "", note: "", width: 1000, height: 1000, shapes };
  draw();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const took = performance.now() - start;
    const drawn = element.querySelectorAll(".ph-shape").length;
    element.remove();
    resolve(drawn === 50 ? took : -1);
  }));
})"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clicks", type=int, default=30, help="questions that are timed (default: 30)")
    parser.add_argument("--uploads", type=int, default=500, help="pictures uploaded (default: 500)")
    parser.add_argument("--visits", type=int, default=200, help="times the page is opened (default: 200)")


def run(options: argparse.Namespace) -> dict[str, Any]:
    with server() as (url, process), _page() as page:
        _open(page, url)
        _upload(page, 0)
        page.fill("#names input", "cat")
        clicks = [_click(page) for _ in range(WARM_UP + options.clicks)][WARM_UP:]
        paints = [float(page.evaluate(PAINT)) for _ in range(11)]
        if min(paints) < 0:
            raise BenchmarkError("The page did not draw 50 boxes.")
        growth = _growth(page, url, process.pid, options.uploads, options.visits)
    return {
        "click_to_paint_ms": {"p50": percentile(clicks, 0.5), "p95": percentile(clicks, 0.95)},
        "paint_50_boxes_ms": percentile(paints, 0.5),
        "rss_growth_mb": growth,
        "clicks": options.clicks,
        "uploads": options.uploads,
        "visits": options.visits,
    }


def show(report: dict[str, Any]) -> str:
    row = {
        "click to paint p50 ms": report["click_to_paint_ms"]["p50"],
        "p95 ms": report["click_to_paint_ms"]["p95"],
        "50 boxes ms": report["paint_50_boxes_ms"],
        "memory growth MB": report["rss_growth_mb"],
    }
    return table([row])


def _growth(page: Any, url: str, pid: int, uploads: int, visits: int) -> float:
    """MB that the server holds more after all uploads and visits than after the first tenth of them."""
    first = 0.0
    for index in range(uploads):
        if index == uploads // 10:
            first = rss_mb(pid)
        _upload(page, index + 1)
    for _ in range(visits):
        _open(page, url)
    return rss_mb(pid) - (first or rss_mb(pid))


def _open(page: Any, url: str) -> None:
    page.goto(url)
    page.locator("#run").wait_for()
    page.locator(".ph-about[data-state=ready]").wait_for()


def _click(page: Any) -> float:
    took, status = page.evaluate(CLICK, ANSWER_S)
    if not status.startswith("Answered"):
        raise BenchmarkError(f"The page did not answer: {status}")
    return float(took)


def _upload(page: Any, seed: int) -> None:
    """A one-megapixel photograph-like picture that was not seen before."""
    noise = np.random.default_rng(seed).integers(0, 255, (50, 50, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).resize((1000, 1000), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    before = page.locator(".ph-picture").get_attribute("src")
    if page.locator(".ph-remove").is_visible():
        page.locator(".ph-remove").click()
    file = {"name": f"{seed}.jpg", "mimeType": "image/jpeg", "buffer": buffer.getvalue()}
    page.set_input_files("#picture-in input[type=file]", [file])
    page.wait_for_function(
        """(before) => { const picture = document.querySelector(".ph-picture");
           return picture.getAttribute("src") !== before && picture.complete && picture.naturalWidth > 0; }""",
        arg=before,
    )


@contextmanager
def _page() -> Iterator[Any]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise BenchmarkError(
            "Chromium was not found: install it (apt-get install chromium) or set CHROMIUM to its path."
        )
    try:
        playwright = importlib.import_module("playwright.sync_api")
    except ImportError:
        raise BenchmarkError("Playwright is missing: pip install -r requirements-dev.txt.") from None
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(ANSWER_S * 1000)
        try:
            yield page
        finally:
            browser.close()
