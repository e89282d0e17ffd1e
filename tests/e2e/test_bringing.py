"""How pictures come: phone photographs, HEIC, the camera, the clipboard, files that are too large."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pillow_heif
import pytest
from PIL import ExifTags, Image
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.e2e.actions import PASTE, add_picture, ask, outcome, png
from tests.e2e.conftest import OpenPage, Server

SEEN = """() => {
  const picture = document.querySelector(".ph-picture");
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.naturalWidth, picture.naturalHeight];
  const paper = canvas.getContext("2d");
  paper.drawImage(picture, 0, 0);
  const at = (x, y) => [...paper.getImageData(x, y, 1, 1).data.slice(0, 3)];
  return { size: [canvas.width, canvas.height], first: at(8, 8), last: at(canvas.width - 9, canvas.height - 9) };
}"""


def photograph(kind: str) -> dict[str, Any]:
    """Upright it is 60 wide, 100 high, red above and blue below; stored lying on its side, with a note to turn it."""
    upright = Image.new("RGB", (60, 100), "red")
    upright.paste("blue", (0, 50, 60, 100))
    stored = upright.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    buffer = io.BytesIO()
    if kind == "jpeg":
        stored.save(buffer, "JPEG", quality=95, exif=exif)
    else:
        pillow_heif.from_pillow(stored).save(buffer, quality=95, exif=exif.tobytes())
    return {"name": f"photo.{kind}", "mimeType": f"image/{kind}", "buffer": buffer.getvalue()}


@pytest.mark.parametrize("kind", ["jpeg", "heic"])
def test_a_phone_photograph_stands_upright(visit: OpenPage, scripted: Server, kind: str) -> None:
    upload = photograph(kind)
    assert kind == "jpeg" or upload["buffer"][4:12] == b"ftypheic"
    page = visit(scripted).page
    add_picture(page, upload)
    seen = page.evaluate(SEEN)
    assert seen["size"] == [60, 100]
    assert seen["first"][0] > 200 > 60 > seen["first"][2]
    assert seen["last"][2] > 200 > 60 > seen["last"][0]
    assert "Answered" in ask(page, "cat")


def test_the_camera_gives_a_picture(visit: OpenPage, scripted: Server) -> None:
    visitor = visit(scripted, permissions=["camera"])
    page = visitor.page
    strayed: list[str] = []
    page.on("response", lambda response: strayed.append(response.url) if response.status >= 400 else None)
    page.locator("#picture-in").get_by_label("Capture from camera").click()
    page.locator("#picture-in").get_by_text("Click to Access Webcam").click()
    page.wait_for_function("document.querySelector('#picture-in video')?.videoWidth > 0")
    page.locator("#picture-in").get_by_label("capture photo").click()
    wait_for_the_picture(page)
    assert page.evaluate(SEEN)["size"][0] > 100
    assert "Answered" in ask(page, "cat")
    # Gradio's camera asks how far an upload without a number is: a 404, and what is logged of it, is its own.
    assert {url.removeprefix(scripted.url) for url in strayed} <= {"/gradio_api/upload_progress?upload_id="}
    assert len(visitor.wrong) == 2 * len(strayed)
    visitor.wrong.clear()


def test_a_picture_can_be_pasted_into_the_empty_page(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    page.evaluate(PASTE, list(png(96, 40)["buffer"]))
    wait_for_the_picture(page)
    assert page.evaluate(SEEN)["size"] == [96, 40]


COPY = """async (bytes) => {
  const picture = new Blob([new Uint8Array(bytes)], { type: "image/png" });
  await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
}"""


def test_the_clipboard_button_gives_a_picture(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted, permissions=["clipboard-read", "clipboard-write"]).page
    for _ in range(4):  # only a page that has the focus may read the clipboard, and a browser's may be taken from it
        page.bring_to_front()
        page.evaluate(COPY, list(png(96, 40)["buffer"]))
        page.locator("#picture-in").get_by_label("Paste from clipboard").click()
        with contextlib.suppress(PlaywrightTimeout):
            page.locator("#stage .ph-stage[data-state=picture]").wait_for(timeout=10_000)
            break
    wait_for_the_picture(page)
    assert page.evaluate(SEEN)["size"] == [96, 40]


def wait_for_the_picture(page: Page) -> None:
    page.locator("#stage .ph-stage[data-state=picture]").wait_for()
    page.wait_for_function("document.querySelector('#stage .ph-picture').naturalWidth > 0")


def test_a_file_that_is_too_large_is_refused_in_one_sentence(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    file: Any = {"name": "large.png", "mimeType": "image/png", "buffer": b"\x89PNG" + bytes(20_500_000)}
    page.set_input_files("#picture-in input[type=file]", [file])
    assert outcome(page) == "The file has 20.5 MB; at most 20 MB are accepted."
    expect(page.locator("#picture-in input[type=file]")).to_be_attached()


def test_a_bad_file_after_a_good_one_is_refused_in_one_sentence_too(visit: OpenPage, scripted: Server) -> None:
    page = visit(scripted).page
    add_picture(page, png(64, 64))
    page.get_by_role("button", name="Remove picture").click()
    file: Any = {"name": "text.png", "mimeType": "image/png", "buffer": b"just text"}
    page.set_input_files("#picture-in input[type=file]", [file])
    assert "not a picture" in outcome(page)
