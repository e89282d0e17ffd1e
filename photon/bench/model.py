"""How long a person waits for the bundled model: one request at a time, warm, medians; its size and loading time.

How many objects an answer has is fixed and not the weights' choice (see fixed.py); their coordinates are the model's.

    first point       a picture that it has not seen: from the pixels (hashed, resized, encoded) to one point, 2 tokens
    point             a picture that it knows: one point and the end of the answer, 3 tokens
    detect            the same picture: five boxes and the end, 16 tokens
    segment           the same picture: one box and the end, 4 tokens, then the outline of what it holds
    load              `Photon.load` for the first time in this process, imports not counted

A picture is 600 x 800 pixels unless `--images` says otherwise. The targets are for two otherwise idle cores.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from photon import EngineConfig, Photon
from photon.bench import report
from photon.bench.clients import names, pictures, put
from photon.bench.fixed import TOKENS, Skill, fixed_request, single
from photon.bench.verdicts import Call
from photon.core.request import ImageRef, Rgb
from photon.models.public import BUNDLED
from photon.models.registry import existing
from photon.skills.base import Plan
from photon.skills.segment import segment_plan

OBJECTS = 5
TARGETS = {
    "new_image_to_first_point_ms": 120.0,
    "point_on_known_image_ms": 30.0,
    "detect_five_objects_ms": 80.0,
    "segment_one_object_ms": 200.0,
    "weights_mb": 30.0,
    "load_s": 2.0,
}
"""The most that each may be."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="photon-tiny", help="a bundled name, a folder or a .safetensors file")
    parser.add_argument("--images", type=Path, help="a folder of pictures; default: the examples and variations")
    parser.add_argument("--rounds", type=int, default=21, help="measurements of each kind, one after the other in turn")
    parser.add_argument("--dtype")
    parser.add_argument("--threads", type=int)


def run(options: argparse.Namespace) -> dict[str, Any]:
    if options.rounds < 1:
        raise report.BenchmarkError(f"--rounds is {options.rounds}; allowed are whole numbers from 1.")
    weights = weight_bytes(BUNDLED.get(options.model) or existing(options.model))
    start = time.perf_counter()
    config = EngineConfig(device="cpu", dtype=options.dtype, threads=options.threads)
    with Photon.load(options.model, config) as model:
        load_s = time.perf_counter() - start
        taken = measured(model, pictures(options.images, options.rounds + 1))
        found = {name: round(1e3 * median(seconds), 2) for name, seconds in taken.items()}
        found |= {"weights_mb": round(weights / 1e6, 2), "load_s": round(load_s, 3)}
        rows = [
            {"measure": name, "value": found[name], "target": most, "within": found[name] <= most}
            for name, most in TARGETS.items()
            if name in found
        ]
        return {**model.describe(), "cores": os.cpu_count(), "rounds": options.rounds, **found, "rows": rows}


def weight_bytes(path: Path) -> int:
    """The size of a checkpoint's weight files."""
    files = path.glob("*.safetensors") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def measured(model: Photon, rgb: list[Rgb]) -> dict[str, list[float]]:
    """Seconds of each kind of question, once about each picture but the first, which warms up."""
    taken: dict[str, list[float]] = {}
    words = names(model)
    for number, picture in enumerate(rgb):
        name = words[number % len(words)]
        for kind, call in calls(model, picture, name).items():
            seconds = put(model, [call], callers=1).latencies[0]
            if number:
                taken.setdefault(kind, []).append(seconds)
    return taken


def calls(model: Photon, picture: Rgb, name: str) -> dict[str, Call]:
    """The questions about one picture in the order in which they are asked; the first must be the first about it."""
    kinds: dict[str, tuple[str, Callable[[ImageRef], Plan]]] = {
        "new_image_to_first_point_ms": ("point", partial(_fixed, model, name, 1, "point", ends=False)),
        "point_on_known_image_ms": ("point", partial(_fixed, model, name, 1, "point")),
        "detect_five_objects_ms": ("detect", partial(_fixed, model, name, OBJECTS, "detect")),
        "segment_one_object_ms": ("segment", partial(_segment_one, model, name)),
    }
    known = ImageRef.of(picture)

    def call(kind: str, plan: Callable[[ImageRef], Plan]) -> Plan:
        return plan(ImageRef.of(picture) if kind == "new_image_to_first_point_ms" else known)

    return {kind: partial(call, kind, plan) for kind, (skill, plan) in kinds.items() if skill in model.skills}


def _fixed(model: Photon, name: str, objects: int, skill: Skill, image: ImageRef, ends: bool = True) -> Plan:
    request = fixed_request(model.context, image, name, objects, "pipelined", skill)
    return single(request if ends else replace(request, limit=TOKENS[skill] * objects))


def _segment_one(model: Photon, name: str, image: ImageRef) -> Plan:
    """Detect one object, then outline what lies at its centre: the stages of a segment call that finds one."""
    (box,) = (yield from _fixed(model, name, 1, "detect", image))["objects"]
    centre = [(box["x_min"] + box["x_max"]) / 2, (box["y_min"] + box["y_max"]) / 2]
    return (yield from segment_plan(model.context, model.arguments.ask("segment", image, name, None, [centre], True)))


def show(found: dict[str, Any]) -> str:
    about = f"{found['model']}, {found['dtype']}, {found['threads']} threads on {found['cores']} cores"
    rows = [{**row, "within": "within" if row["within"] else "OVER"} for row in found["rows"]]
    return f"{about}; one request at a time, medians of {found['rounds']}.\n\n{report.table(rows)}"
