"""Many visitors at once over HTTP: what is answered, refused and failed, and whether everything comes back to rest.

Visitors ask by `/v1`, by its streams and by Gradio's endpoints; some leave before their answer, some send what is no
picture. At the end nothing may run, wait or be lost, and the pages of the cache must be free or cached, all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from photon.bench.report import BenchmarkError, percentile, table
from photon.bench.served import ROOT, rss_mb, server

NAMES = ("strawberry", "flower", "bird", "tree", "dog", "cat", "cup", "car", "chair", "apple")
WARM_S = 5.0
REST_S = 60.0
PATIENCE_S = 120.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--visitors", type=int, default=64, help="how many ask at once")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--damaged", type=int, default=10_000, help="damaged pictures that are sent besides, in all")
    parser.add_argument("--seed", type=int, default=0)


def run(options: argparse.Namespace) -> dict[str, Any]:
    if not 1 <= options.visitors <= 1000 or not 0 < options.minutes <= 120 or options.damaged < 0:
        raise BenchmarkError("Allowed are 1 to 1000 visitors, up to 120 minutes and no fewer than 0 damaged pictures.")
    with server() as (url, process):
        load = Load(url, options.seed)
        asyncio.run(load.hold(options.visitors, WARM_S, 0))
        load.clear()
        before = rss_mb(process.pid)
        asyncio.run(load.hold(options.visitors, 60 * options.minutes, options.damaged))
        rest = asyncio.run(at_rest(url))
        return load.report() | {"rest": rest, "memory_mb": {"start": before, "end": rss_mb(process.pid)}}


def show(report: dict[str, Any]) -> str:
    lines = [table(report["kinds"])]
    for key in ("damaged", "rest", "memory_mb"):
        lines.append(f"{key}: " + ", ".join(f"{name} {value}" for name, value in report[key].items()))
    return "\n\n".join([*lines, *report["failures"]])


@dataclass
class Load:
    """What visitors do, and what they were told."""

    url: str
    seed: int
    pictures: list[str] = field(default_factory=list)
    outcomes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    latencies: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for file in sorted((ROOT / "static" / "examples").glob("*.jpg")):
            self.pictures.append(_data_url(_smaller(file)))

    def clear(self) -> None:
        self.outcomes.clear()
        self.latencies.clear()
        self.failures.clear()

    async def hold(self, visitors: int, seconds: float, damaged: int) -> None:
        limits = httpx.Limits(max_connections=2 * visitors)
        async with httpx.AsyncClient(base_url=self.url, timeout=PATIENCE_S, limits=limits) as client:
            end, share = time.monotonic() + seconds, -(-damaged // visitors)
            await asyncio.gather(*(self._visitor(client, n, end, share) for n in range(visitors)))

    async def _visitor(self, client: httpx.AsyncClient, number: int, end: float, damaged: int) -> None:
        """One after the other, whatever the last became; then what is left of the damaged pictures."""
        dice = random.Random(self.seed * 1000 + number)
        ways: tuple[tuple[str, Ask], ...] = (
            ("skill", _skill),
            ("stream", _stream),
            ("endpoint", _endpoint),
            ("leaves", _leaves),
            ("damaged", _damaged),
        )
        sent = 0
        while time.monotonic() < end or sent < damaged:
            kind, ask = ways[-1] if time.monotonic() >= end else dice.choice(ways)
            sent += kind == "damaged"
            began = time.monotonic()
            try:
                outcome = await ask(client, dice, self.pictures)
            except (httpx.HTTPError, ValueError, KeyError) as error:
                outcome = f"failed: {type(error).__name__} {error}"[:200]
            if outcome.startswith("failed"):
                self.failures[f"{kind}: {outcome}"] += 1
            self.outcomes[kind][outcome.split(":")[0]] += 1
            if outcome == "answered":
                self.latencies[kind].append(time.monotonic() - began)
            elif outcome == "queue full":
                await asyncio.sleep(0.2)

    def report(self) -> dict[str, Any]:
        rows = []
        for kind, counted in self.outcomes.items():
            took = self.latencies[kind] or [float("inf")]
            times = {f"p{round(100 * share)}_ms": 1e3 * percentile(took, share) for share in (0.5, 0.99)}
            known = {key: counted[key] for key in ("answered", "left", "refused", "queue full", "failed")}
            rows.append({"kind": kind, **known, **(times if self.latencies[kind] else dict.fromkeys(times))})
        damaged = self.outcomes["damaged"]
        told = {"sent": damaged.total(), "refused with a sentence": damaged["refused"]}
        return {
            "kinds": rows,
            "damaged": told,
            "failures": [f"{count} x {what}" for what, count in self.failures.most_common(10)],
        }


Ask = Callable[[httpx.AsyncClient, random.Random, list[str]], Awaitable[str]]


def verdict(status: int, body: Any) -> str:
    """What an answer without a stream means to whoever asked."""
    if status == 200:
        return "answered"
    sentence = str((body or {}).get("error", {}).get("message", ""))
    if not sentence.endswith("."):
        return f"failed: {status} without a sentence"
    if status == 429:
        return "queue full"
    return "refused" if 400 <= status < 500 else f"failed: {status} {sentence}"


def _asked(dice: random.Random, pictures: list[str]) -> dict[str, Any]:
    settings = {"max_objects": dice.randint(1, 6)}
    return {"image_url": dice.choice(pictures), "object": dice.choice(NAMES), "settings": settings}


async def _skill(client: httpx.AsyncClient, dice: random.Random, pictures: list[str]) -> str:
    body = _asked(dice, pictures) | {"pipelined": dice.random() < 0.8}
    answer = await client.post(f"/v1/{dice.choice(('point', 'detect', 'segment'))}", json=body)
    return verdict(answer.status_code, answer.json())


async def _stream(client: httpx.AsyncClient, dice: random.Random, pictures: list[str]) -> str:
    body = _asked(dice, pictures) | {"stream": True}
    async with client.stream("POST", "/v1/segment", json=body) as answer:
        text = (await answer.aread()).decode()
    if answer.status_code != 200:
        return verdict(answer.status_code, json.loads(text))
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    if events and "error" in events[-1]:
        return "queue full" if "waiting" in str(events[-1]) else f"failed: {events[-1]}"
    return "answered" if events and events[-1].get("completed") else "failed: the stream has no end"


async def _endpoint(client: httpx.AsyncClient, dice: random.Random, pictures: list[str]) -> str:
    """As Gradio's own clients do: one call that gives an event, one that waits for it."""
    data = [dice.choice(pictures), dice.choice(NAMES), dice.randint(1, 6), ""]
    event = (await client.post("/gradio_api/call/detect", json={"data": data})).json()["event_id"]
    async with client.stream("GET", f"/gradio_api/call/detect/{event}") as answer:
        text = (await answer.aread()).decode()
    if "event: complete" in text:
        return "answered"
    return "queue full" if "waiting" in text else f"failed: {text[-120:]}"


async def _leaves(client: httpx.AsyncClient, dice: random.Random, pictures: list[str]) -> str:
    try:
        async with asyncio.timeout(dice.uniform(0.005, 0.3)):
            return await _skill(client, dice, pictures)
    except TimeoutError:
        return "left"


async def _damaged(client: httpx.AsyncClient, dice: random.Random, pictures: list[str]) -> str:
    whole = base64.b64decode(dice.choice(pictures).split(",")[1])
    cut, claimed = whole[: dice.randint(4, 400)], b"\x89PNG\r\n\x1a\n" + bytes(64)
    data = dice.choice((b"", b"no picture at all", dice.randbytes(200), cut, claimed))
    body = {"image_url": _data_url(data), "object": "cat"}
    answer = await client.post("/v1/point", json=body)
    found = verdict(answer.status_code, answer.json())
    return "failed: a damaged picture was answered" if found == "answered" else found


async def at_rest(url: str) -> dict[str, Any]:
    """The server's own account, once nothing runs and waits; `back` says whether all of it has come back."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        end = time.monotonic() + REST_S
        while True:
            stats = (await client.get("/v1/stats")).json()
            pages = stats["pages"]
            back = not stats["running"] and not stats["waiting"] and pages["free"] + pages["cached"] == pages["total"]
            if back or time.monotonic() > end:
                break
            await asyncio.sleep(0.2)
        health = (await client.get("/health")).json()["status"]
    found: dict[str, Any] = {key: stats[key] for key in ("running", "waiting")}
    found |= pages | stats["requests"] | {"health": health, "back": bool(back and health == "ready")}
    return found


def broken(report: dict[str, Any]) -> bool:
    """Whether anything failed, was lost, or did not come back."""
    wrong = any(row["failed"] for row in report["kinds"]) or not report["rest"]["back"]
    return bool(wrong or report["damaged"]["sent"] != report["damaged"]["refused with a sentence"])


def _smaller(file: Path) -> bytes:
    """As a phone's page would send it: no more than some hundred kilobytes."""
    picture = Image.open(file).convert("RGB")
    picture.thumbnail((640, 640))
    out = io.BytesIO()
    picture.save(out, "JPEG")
    return out.getvalue()


def _data_url(data: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(data).decode()
