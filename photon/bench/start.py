"""From `python app.py` to a page that answers: seconds, and the processor time that they took.

    page_s     the page comes
    ready_s    /health says that the engine is ready
    answer_s   the first question about a picture is answered

On a machine that does other work, too, `cpu_s` says what the start itself costs.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

from photon.bench.report import BenchmarkError, table

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "static" / "icons" / "photon.png"
LIMIT_S = 180.0
EVERY_S = 0.05


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--starts", type=int, default=3, help="how often the application is started; medians count")


def run(options: argparse.Namespace) -> dict[str, Any]:
    if options.starts < 1:
        raise BenchmarkError(f"{options.starts} starts tell nothing; allowed are numbers from 1.")
    rows = [_start() for _ in range(options.starts)]
    return {key: round(median(row[key] for row in rows), 2) for key in rows[0]} | {"starts": options.starts}


def show(report: dict[str, Any]) -> str:
    return table([report])


def _start() -> dict[str, float]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "HOST": "127.0.0.1", "PORT": str(port)}
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        found = {"page_s": _until(process, lambda: b"<html" in _get(url).lower(), began)}
        found["ready_s"] = _until(process, lambda: json.loads(_get(f"{url}/health"))["status"] == "ready", began)
        _ask(f"{url}/v1/point")
        found["answer_s"] = time.perf_counter() - began
        return found | {"cpu_s": _cpu_s(process.pid)}
    finally:
        process.terminate()
        process.wait(30)


def _until(process: subprocess.Popen[bytes], holds: Any, began: float) -> float:
    while time.perf_counter() - began < LIMIT_S:
        if process.poll() is not None:
            raise BenchmarkError(f"The application ended with exit code {process.returncode}.")
        try:
            if holds():
                return time.perf_counter() - began
        except urllib.error.HTTPError as error:
            error.close()  # it is there, but not ready
        except OSError:
            pass  # nobody listens yet
        time.sleep(EVERY_S)
    raise BenchmarkError(f"The application did not start within {LIMIT_S:g} s.")


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        content: bytes = answer.read()
    return content


def _ask(url: str) -> None:
    picture = "data:image/png;base64," + base64.b64encode(PICTURE.read_bytes()).decode()
    body = json.dumps({"image_url": picture, "object": "cat"}).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=LIMIT_S) as answer:
        if "points" not in json.load(answer):
            raise BenchmarkError("The application answered without points.")


def _cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
