"""python -m photon.bench load-held: many visitors, and everything back at rest; a failure is an exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from photon.bench import load_held
from photon.bench.__main__ import main
from tests.paths import ROOT


def test_some_visitors_are_answered_or_refused_and_all_comes_back() -> None:
    options = ("--visitors", "4", "--minutes", "0.1", "--damaged", "60", "--json")
    command = [sys.executable, "-m", "photon.bench", "load-held", *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    assert {row["kind"] for row in report["kinds"]} == {"skill", "stream", "endpoint", "leaves", "damaged"}
    assert sum(row["answered"] for row in report["kinds"]) > 0
    assert report["damaged"]["sent"] == report["damaged"]["refused with a sentence"] >= 60
    assert report["rest"]["back"] is True
    assert report["rest"]["free"] + report["rest"]["cached"] == report["rest"]["total"]
    assert report["memory_mb"]["end"] > 0


def good() -> dict[str, Any]:
    rest = {"running": 0, "waiting": 0, "back": True}
    row = {"kind": "skill", "answered": 3, "left": 0, "refused": 0, "queue full": 1, "failed": 0}
    damaged = {"sent": 5, "refused with a sentence": 5}
    return {"kinds": [row], "damaged": damaged, "rest": rest, "memory_mb": {}, "failures": []}


def test_what_failed_or_did_not_come_back_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not load_held.broken(good())
    lost = good() | {"rest": {"back": False}}
    unsaid = good() | {"damaged": {"sent": 5, "refused with a sentence": 4}}
    broken = good()
    broken["kinds"][0]["failed"] = 1
    assert all(map(load_held.broken, (lost, unsaid, broken)))
    monkeypatch.setattr(load_held, "run", lambda options: lost)
    assert main(["load-held"]) == 1
    monkeypatch.setattr(load_held, "run", lambda options: good())
    assert main(["load-held"]) == 0


@pytest.mark.parametrize("options", [["--visitors", "0"], ["--minutes", "0"], ["--damaged", "-1"]])
def test_what_tells_nothing_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load-held", *options]) == 2
    assert "Allowed are" in capsys.readouterr().err


def test_an_answer_counts_by_its_status_and_its_sentence() -> None:
    def told(message: str) -> dict[str, Any]:
        return {"error": {"message": message}}

    assert load_held.verdict(200, {}) == "answered"
    assert load_held.verdict(415, told("That is no picture.")) == "refused"
    assert load_held.verdict(429, told("Try later.")) == "queue full"
    assert load_held.verdict(500, told("It broke.")).startswith("failed")
    assert load_held.verdict(400, {}).startswith("failed"), "a refusal without a sentence"
