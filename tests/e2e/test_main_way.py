"""The main way with the bundled model: upload, each task, shapes, the switch, equal answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.actions import (
    add_picture,
    ask,
    assert_drawn_where_the_json_says,
    choose_task,
    drawn,
    png,
    shown_json,
)
from tests.e2e.conftest import OpenPage, Server, StartServer
from tests.paths import DATA

SCENES = DATA / "scenes"


@pytest.mark.parametrize("task", ["Point", "Detect", "Segment"])
def test_the_bundled_model_answers_and_both_modes_agree(visit: OpenPage, real: Server, task: str) -> None:
    page = visit(real).page
    add_picture(page, png(640, 480))
    choose_task(page, task)
    assert "pipelined" in ask(page, "cat, dog")
    first = shown_json(page)
    assert_drawn_where_the_json_says(page)
    assert page.locator(".ph-note").inner_text().startswith("Found ")
    page.get_by_label("Pipelined decoding").uncheck()
    assert "blocking" in ask(page, "cat, dog")
    assert shown_json(page) == first
    assert len(drawn(page)) == page.locator(".ph-rows tbody tr").count()
    expect(page.locator(".ph-span.ph-prefill").first).to_be_visible()


def test_an_unknown_word_is_answered_with_its_neighbours(visit: OpenPage, real: Server) -> None:
    page = visit(real).page
    add_picture(page, png(64, 64))
    assert "does not know the word 'xyzzyq'" in ask(page, "xyzzyq")


def test_two_visitors_of_the_bundled_model(visit: OpenPage, real: Server) -> None:
    first, second = visit(real).page, visit(real).page
    add_picture(first, png(300, 200, "#aa0000"))
    add_picture(second, png(500, 100, "#00aa00"))
    for page, name, width in ((first, "cat", 300), (second, "dog", 500)):
        ask(page, name)
        assert shown_json(page)["answers"][0]["name"] == name
        assert shown_json(page)["image"]["width"] == width


def test_missing_model_files_are_said_by_page_and_health(
    visit: OpenPage, start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("app.py", status="failed", PHOTON_MODEL=str(tmp_path / "nowhere"))
    response = server.get("/health")
    assert response.status_code == 503
    reason = response.json()["reason"]
    assert "nowhere" in reason
    page = visit(server).page
    expect(page.locator(".ph-header .ph-status")).to_have_text(reason)
    add_picture(page, png(64, 64))
    assert ask(page, "cat") == reason


def test_a_full_queue_is_said_in_the_page(visit: OpenPage, start_server: StartServer) -> None:
    server = start_server("app.py", PHOTON_QUEUE="1", PHOTON_MAX_BATCH="1")
    page = visit(server).page
    add_picture(page, png(640, 480))
    status = ask(page, "cat, dog, bus, cup, apple, car, chair, lamp")
    assert "waiting" in status
    assert "1" in status
    assert "Answered" in ask(page, "cat")


def inside(point: dict[str, float], box: list[float], margin: float = 0.02) -> bool:
    """Whether a point lies in a box [x_min, y_min, x_max, y_max] of the ground truth."""
    return box[0] - margin <= point["x"] <= box[2] + margin and box[1] - margin <= point["y"] <= box[3] + margin


def test_points_are_drawn_on_the_things_of_the_bundled_scenes(visit: OpenPage, real: Server) -> None:
    hits = total = 0
    for scene in json.loads((SCENES / "scenes.json").read_text()):
        page = visit(real).page
        choose_task(page, "Point")
        data = (SCENES / scene["file"]).read_bytes()
        add_picture(page, {"name": scene["file"], "mimeType": "image/jpeg", "buffer": data})
        names = list(dict.fromkeys(thing["name"] for thing in scene["objects"]))[:8]
        ask(page, ", ".join(names))
        assert_drawn_where_the_json_says(page)
        for answer in shown_json(page)["answers"]:
            boxes = [thing["box"] for thing in scene["objects"] if thing["name"] == answer["name"]]
            total += len(boxes)
            hits += sum(any(inside(point, box) for point in answer["points"]) for box in boxes)
    assert hits >= 0.4 * total, f"{hits} of {total} things have a point on them"
