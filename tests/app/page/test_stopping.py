"""app.page.ui: what a Stop button cancels says so only when nothing of it can come any more."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.server import build_app
from app.settings import ServerSettings
from tests.app.live import StreamingEngine


@pytest.fixture(scope="module")
def listeners() -> dict[int, dict[str, Any]]:
    with TestClient(build_app(ServerSettings(), lambda *_: StreamingEngine())) as client:
        return {one["id"]: one for one in client.get("/config").json()["dependencies"]}


def test_there_are_three_things_to_stop(listeners: dict[int, dict[str, Any]]) -> None:
    assert sum(bool(one["cancels"]) for one in listeners.values()) == 3


def test_the_end_is_shown_after_the_cancelling_and_not_by_the_queues_stream(
    listeners: dict[int, dict[str, Any]],
) -> None:
    for stop in (one for one in listeners.values() if one["cancels"]):
        assert not stop["backend_fn"]
        for running in stop["cancels"]:
            ends = [one for one in listeners.values() if one["trigger_after"] == running]
            assert [one["trigger_only_on_failure"] for one in ends] == [True]
            assert ends[0]["queue"] is False
            assert set(ends[0]["outputs"]) <= set(listeners[running]["outputs"])
