"""Whole requests on this machine: each with a picture of its own, pipelined against blocking in one process."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from photon import EngineConfig, Photon
from photon.bench import report
from photon.bench.clients import SKILLS, Question, Round, asked, compared, names, pictures, put, refs
from photon.bench.compare import Comparison
from photon.core.request import Mode

MODES: tuple[Mode, Mode] = ("blocking", "pipelined")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="photon-tiny", help="a name, a folder or a .safetensors file")
    parser.add_argument("--concurrency", type=report.whole_numbers, default=[1, 4, 16], help="callers, like 1,4,16")
    parser.add_argument("--images", type=Path, help="a folder of pictures; default: the examples and variations")
    parser.add_argument("--requests", type=int, help="in each run; default: 24, or four a caller")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each mode, alternating")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype")
    parser.add_argument("--threads", type=int)


def run(options: argparse.Namespace) -> dict[str, Any]:
    config = EngineConfig(
        device=options.device, dtype=options.dtype, threads=options.threads, max_batch=max(options.concurrency)
    )
    with Photon.load(options.model, config) as model:
        rows = [_row(model, callers, options) for callers in options.concurrency]
        return {**model.describe(), "rows": rows}


def _row(model: Photon, callers: int, options: argparse.Namespace) -> dict[str, Any]:
    count = options.requests or max(24, 4 * callers)
    rgb = pictures(options.images, count)
    words = names(model)
    skills = [skill for skill in SKILLS if skill in model.skills]
    questions = [Question(skills[i % len(skills)], i, words[i % len(words)]) for i in range(count)]
    put(model, asked(model, refs(rgb, f"{callers} warm"), questions[: 2 * callers], "pipelined"), callers)
    alone = asked(model, refs(rgb, "alone"), questions, "blocking")
    rounds: dict[Mode, list[Round]] = {mode: [] for mode in MODES}
    verdicts = Comparison()
    for number in range(options.rounds):
        for mode in MODES if number % 2 == 0 else reversed(MODES):
            images = refs(rgb, f"{callers} {mode} {number}")
            rounds[mode].append(put(model, asked(model, images, questions, mode), callers))
        verdicts += compared(model, rounds["blocking"][0].tokens, rounds["pipelined"][-1].tokens, alone)
    figures = {mode: _figures(rounds[mode]) for mode in MODES}
    return {
        "concurrency": callers,
        "blocking": figures["blocking"],
        "pipelined": figures["pipelined"],
        "ratio": round(figures["pipelined"]["requests_per_s"] / figures["blocking"]["requests_per_s"], 3),
        "answers_equal": verdicts.answers_equal,
        "answers": asdict(verdicts),
    }


def _figures(rounds: list[Round]) -> dict[str, float]:
    """The median round's rate, and percentiles over the requests of all rounds."""
    latencies = [1e3 * seconds for r in rounds for seconds in r.latencies]
    return {
        "requests_per_s": round(median(len(r.tokens) / r.seconds for r in rounds), 2),
        "p50_ms": round(report.percentile(latencies, 0.5), 2),
        "p95_ms": round(report.percentile(latencies, 0.95), 2),
    }


def show(found: dict[str, Any]) -> str:
    lines = [
        {
            "callers": row["concurrency"],
            **{f"{mode} {key}": row[mode][key] for mode in MODES for key in row[mode]},
            "ratio": row["ratio"],
            "answers": ", ".join(f"{n} {verdict}" for verdict, n in row["answers"].items()),
        }
        for row in found["rows"]
    ]
    about = f"{found['model']} on {found['device']}, {found['dtype']}, {found['threads']} threads"
    return f"{about}; every request has a new picture.\n\n{report.table(lines)}"
