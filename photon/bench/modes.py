"""Pipelined against blocking over a grid: skill, known or new pictures, callers; rounds of both modes in turn.

On this machine with the bundled model, or on a modelled accelerator (see modes_modelled.py), where one run says it all.
`text` is 30 tokens, any of which might be the last.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean, median
from typing import Any, Literal

from photon import EngineConfig, Photon
from photon.bench import report
from photon.bench.clients import Question, Round, asked, compared, names, pictures, put, refs
from photon.bench.compare import Comparison
from photon.bench.fixed import single
from photon.bench.modes_modelled import SKILLS as MODELLED_SKILLS
from photon.bench.modes_modelled import TEXT_TOKENS, run_modelled
from photon.bench.verdicts import Call
from photon.core.request import Choice, ImageRef, Mode, Request, Rgb, SkillState, Token
from photon.core.trace import StepRecord
from photon.devices.pace_table import PaceTable

MODES: tuple[Mode, Mode] = ("blocking", "pipelined")
SKILLS = ("point", "detect", "segment", "text")
PICTURES: tuple[Literal["known", "new"], ...] = ("known", "new")
_MODELLED = 24
"""Questions of each caller, on a modelled accelerator."""
_DIFFERENT = 8
"""Pictures that questions about known ones go round."""


@dataclass(frozen=True)
class Case:
    """One row of the grid."""

    skill: str
    pictures: Literal["known", "new"]
    callers: int

    def __str__(self) -> str:
        return f"{self.skill} {self.pictures} {self.callers}"


class TextState(SkillState):
    """Whatever the model says, until it has said enough; whoever asks for the list does not know when that is."""

    def __init__(self, eos_id: int) -> None:
        self._left = TEXT_TOKENS - 1
        self._eos_id = eos_id

    def choice(self) -> Choice:
        return Choice(None) if self._left else Choice((self._eos_id, self._eos_id))

    def advance(self, token: Token) -> None:
        self._left -= 1
        self.done = token.id == self._eos_id

    def result(self) -> dict[str, Any]:
        return {}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="photon-tiny", help="a name, a folder or a .safetensors file")
    parser.add_argument("--device", default="cpu", help="cpu, or paced:b200 or paced:3090 (modelled)")
    parser.add_argument("--skills", default=",".join(SKILLS), help="like point,text")
    parser.add_argument("--callers", type=report.whole_numbers, default=[1, 4, 16], help="like 1,4,16")
    parser.add_argument("--rounds", type=int, default=8, help="runs of each mode, alternating")
    parser.add_argument("--scale", type=float, default=1.0, help="times the requests of a run")


def run(options: argparse.Namespace) -> dict[str, Any]:
    skills = options.skills.split(",")
    if not set(skills) <= set(SKILLS) or options.rounds < 1 or options.scale <= 0:
        raise report.BenchmarkError(f"Allowed are skills of {', '.join(SKILLS)}, one round and more, a scale above 0.")
    cases = [Case(skill, kind, n) for skill in skills for kind in PICTURES for n in options.callers]
    if options.device.startswith("paced:"):
        table = PaceTable.load(options.device.removeprefix("paced:"))
        rows = [_modelled_row(table, case) for case in cases if case.skill in MODELLED_SKILLS]
        return _report({"device": options.device, "modelled": True}, rows)
    with Photon.load(options.model, EngineConfig(device=options.device, max_batch=max(options.callers))) as model:
        can = (*model.skills, "text")
        return _report(model.describe(), [_row(model, case, options) for case in cases if case.skill in can])


def _report(about: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {**about, "geometric_mean": round(geometric_mean(row["ratio"] for row in rows), 4), "rows": rows}


# -- one row on a real device -------------------------------------------------------------------------------------


def requests_of(case: Case, scale: float) -> int:
    """Known pictures are answered ten times as fast."""
    return round(scale * (max(48, 8 * case.callers) if case.pictures == "known" else max(12, 3 * case.callers)))


def _row(model: Photon, case: Case, options: argparse.Namespace) -> dict[str, Any]:
    count = max(case.callers, requests_of(case, options.scale))
    rgb = pictures(None, _DIFFERENT if case.pictures == "known" else count)
    make = partial(_calls, model, case, rgb, count)
    for mode in MODES:
        put(model, make("warm", mode), case.callers)
    rounds: dict[Mode, list[Round]] = {mode: [] for mode in MODES}
    wasted = 0
    for number in range(options.rounds):
        for mode in MODES if number % 2 == 0 else reversed(MODES):
            before = model.last_step
            made = put(model, make("warm" if case.pictures == "known" else f"{mode} {number}", mode), case.callers)
            rounds[mode].append(made)
            wasted += wasted_steps(model.steps(before + 1), made.spans_s)
    verdicts = sum(
        (
            compared(model, rounds["blocking"][0].tokens, r.tokens, make("alone", "blocking"))
            for r in rounds["pipelined"]
        ),
        Comparison(),
    )
    pairs = zip(rounds["blocking"], rounds["pipelined"], strict=True)
    return row(case, [one.seconds / other.seconds for one, other in pairs], wasted, verdicts.answers_equal)


def _modelled_row(table: PaceTable, case: Case) -> dict[str, Any]:
    """Every request is in line when a step ends: asking takes no time."""
    new = case.pictures == "new"
    blocking, pipelined = (run_modelled(table, case.skill, new, case.callers, _MODELLED, mode) for mode in MODES)
    wasted = sum(s.zombies == len(s.requests) for s in pipelined.steps)
    answers = (sorted(m.tokens for m in run.requests) for run in (blocking, pipelined))
    return row(case, [blocking.seconds / pipelined.seconds], wasted, next(answers) == next(answers))


def row(case: Case, ratios: list[float], wasted: int, equal: bool) -> dict[str, Any]:
    """`ratio`: the blocking time over the pipelined one."""
    return {
        "skill": case.skill,
        "pictures": case.pictures,
        "callers": case.callers,
        "ratio": round(median(ratios), 4),
        "low": round(min(ratios), 4),
        "high": round(max(ratios), 4),
        "zombie_only_steps": wasted,
        "answers_equal": equal,
    }


def wasted_steps(steps: list[StepRecord], spans_s: list[tuple[float, float]]) -> int:
    """Steps that held only ended rows while somebody waited: had asked before their end and got no answer by it."""
    return sum(
        any(asked < s.sampling_end_s < answered for asked, answered in spans_s)
        for s in steps
        if s.zombies == len(s.requests)
    )


def _calls(model: Photon, case: Case, rgb: list[Rgb], count: int, run: str, mode: Mode) -> list[Call]:
    images, words = refs(rgb, f"{case} {run}"), names(model)
    if case.skill == "text":
        return [_text(model, images[i % len(images)], words[i % len(words)], mode) for i in range(count)]
    questions = [Question(case.skill, i % len(images), words[i % len(words)]) for i in range(count)]
    return asked(model, images, questions, mode)


def _text(model: Photon, image: ImageRef, name: str, mode: Mode) -> Call:
    prompt, eos_id = model.context.prompt("point", (), " " + name), model.context.config.tokenizer.eos_id
    start: Callable[[], SkillState] = lambda: TextState(eos_id)  # noqa: E731
    return partial(single, Request(prompt, image, TEXT_TOKENS + 2, start, mode=mode))


def show(found: dict[str, Any]) -> str:
    about = f"{found.get('model', 'a countdown')} on {found['device']}: requests/s, pipelined over blocking"
    return f"{about}\n\n{report.table(found['rows'])}\n\ngeometric mean {found['geometric_mean']}"
