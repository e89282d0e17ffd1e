"""python -m tests.schedules: the same schedules everywhere, resumed where they stopped; a hanging device among them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.schedules import chunks
from tests.schedules.drawn import drawn
from tests.schedules.hanging import hang


@pytest.mark.parametrize("number", range(6))
def test_a_device_that_hangs_at_any_moment_leaves_nobody_waiting(number: int) -> None:
    hang(number)


def test_every_number_is_one_schedule_and_all_faults_are_among_them() -> None:
    shapes = [drawn(n) for n in range(400)]
    assert shapes == [drawn(n) for n in range(400)]
    assert len({shape.seed for shape in shapes}) == 400
    for field in ("adapters", "cancels", "pauses", "row_faults", "step_faults", "blocking", "captures", "lost"):
        values = {bool(getattr(shape, field)) for shape in shapes}
        assert values == {False, True}, field


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    progress.write_text("1000")
    command = [
        sys.executable,
        "-m",
        "tests.schedules",
        "--count",
        "1500",
        "--workers",
        "1",
        "--progress",
        str(progress),
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("500 schedules in")
    assert progress.read_text() == "1500"


def test_a_schedule_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise AssertionError("two owners")

    monkeypatch.setattr(chunks, "CHUNK", 3)
    monkeypatch.setattr(chunks.Schedule, "run", broken)
    found = chunks.run(7)
    assert [line.split(":")[0] for line in found] == ["schedule 7", "schedule 8", "schedule 9"]
    assert "two owners" in found[0]
    assert str(drawn(7)) in found[0]
