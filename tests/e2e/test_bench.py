"""`python -m photon.bench page` measures the page in a browser and says it in one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.paths import ROOT


def test_the_page_benchmark_ends_with_its_report() -> None:
    command = [sys.executable, "-m", "photon.bench", "page", "--clicks", "2", "--uploads", "2", "--visits", "1"]
    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["click_to_paint_ms"]["p50"] <= report["click_to_paint_ms"]["p95"]
    assert report["paint_50_boxes_ms"] > 0
    assert isinstance(report["rss_growth_mb"], float)


def test_the_start_benchmark_ends_with_the_first_answer() -> None:
    command = [sys.executable, "-m", "photon.bench", "start", "--starts", "1", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert 0 < report["page_s"] <= report["ready_s"] <= report["answer_s"]
    assert report["cpu_s"] > 0
