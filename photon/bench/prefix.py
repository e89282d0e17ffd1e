"""Several questions about one new picture that arrive together: what they cost over one, and over separate pictures.

Ideal is the time of one question about a new picture and then the rest about a picture that is known already.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from photon import EngineConfig, Photon
from photon.bench import report
from photon.bench.clients import Round, compared, names, pictures, put
from photon.bench.fixed import fixed_request, single
from photon.bench.verdicts import Call
from photon.core.request import ImageRef, Mode, Rgb

OBJECTS = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="photon-tiny", help="a name, a folder or a .safetensors file")
    parser.add_argument("--questions", type=report.whole_numbers, default=[2, 4, 16], help="about one picture")
    parser.add_argument("--images", type=Path, help="a folder with a picture; default: the first example")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype")
    parser.add_argument("--threads", type=int)


def run(options: argparse.Namespace) -> dict[str, Any]:
    if min(options.questions) < 2:
        raise report.BenchmarkError("One question shares nothing; allowed are numbers from 2.")
    config = EngineConfig(device="cpu", dtype=options.dtype, threads=options.threads, max_batch=max(options.questions))
    with Photon.load(options.model, config) as model:
        (rgb,) = pictures(options.images, 1)
        rows = [_row(model, rgb, count, options.rounds) for count in options.questions]
        return {**model.describe(), "rows": rows}


def _calls(model: Photon, images: list[ImageRef], mode: Mode = "pipelined") -> list[Call]:
    words = names(model)
    return [
        partial(single, fixed_request(model.context, image, words[i % len(words)], OBJECTS, mode))
        for i, image in enumerate(images)
    ]


def _row(model: Photon, rgb: Rgb, count: int, rounds: int) -> dict[str, Any]:
    runs: dict[str, list[Round]] = {"shared": [], "first": [], "rest": [], "separate": []}
    vision_runs = 0
    for number in range(rounds + 1):
        key = f"{count} {number}"
        new = ImageRef(rgb, f"{key} new".encode())
        known = ImageRef(rgb, f"{key} known".encode())
        apart = [ImageRef(rgb, f"{key} apart {i}".encode()) for i in range(count)]
        before = model.last_step
        shared = put(model, _calls(model, [new] * count), callers=count)
        vision_runs = sum(step.crops for step in model.steps(before + 1))
        made = {
            "shared": shared,
            "first": put(model, _calls(model, [known]), callers=1),
            "rest": put(model, _calls(model, [known] * count)[1:], callers=count - 1),
            "separate": put(model, _calls(model, apart), callers=count),
        }
        if number:  # the first round warms up
            for kind, done in made.items():
                runs[kind].append(done)
    alone = _calls(model, [ImageRef(rgb, b"alone")] * count, "blocking")
    verdicts = compared(model, runs["separate"][-1].tokens, runs["shared"][-1].tokens, alone)
    seconds = {kind: median(r.seconds for r in done) for kind, done in runs.items()}
    return {
        "model": model.describe()["model"],
        "questions": count,
        "vision_runs": vision_runs,
        "time_over_ideal": round(seconds["shared"] / (seconds["first"] + seconds["rest"]), 3),
        "speedup_over_separate_images": round(seconds["separate"] / seconds["shared"], 3),
        "answers_equal": verdicts.answers_equal,
        "answers": asdict(verdicts),
    }


def show(found: dict[str, Any]) -> str:
    lines = [
        {**row, "answers": ", ".join(f"{n} {verdict}" for verdict, n in row["answers"].items())}
        for row in found["rows"]
    ]
    about = f"{found['device']}, {found['dtype']}, {found['threads']} threads"
    return f"Questions about one new picture, arriving together ({about}).\n\n{report.table(lines)}"
