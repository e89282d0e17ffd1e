"""Streams of answers of one skill on a modelled accelerator, with the bookkeeping published for the original engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from photon.bench.modelled import IDS, HostCosts, ModelledRequest, Run, TextState, run_streams
from photon.core.request import Mode, SkillState
from photon.devices.pace_table import PaceTable
from photon.devices.paced import GivenClock
from photon.skills.detect import DetectState
from photon.skills.point import PointState

TEXT_TOKENS = 30
_ANSWERS: dict[str, tuple[int, Callable[[], SkillState]]] = {
    "point": (3, lambda: PointState(IDS)),
    "detect": (4, lambda: DetectState(IDS)),
    "text": (TEXT_TOKENS, TextState),
}
"""Tokens of an answer: one object and eos, or a text."""
SKILLS = tuple(_ANSWERS)


def original_costs(table: PaceTable, rows: int) -> HostCosts:
    """Published at 1, 8 and 32 rows, linear between them."""
    streams = sorted(table.published)
    return HostCosts(commit_s=float(np.interp(rows, streams, [table.published[n]["hidden_ms"] / 1e3 for n in streams])))


def run_modelled(table: PaceTable, skill: str, new_pictures: bool, callers: int, requests: int, mode: Mode) -> Run:
    """Every caller asks `requests` questions, all about one picture or each about its own."""
    tokens, start = _ANSWERS[skill]
    asks = [ModelledRequest(tokens, i if new_pictures else 0, mode, start) for i in range(callers * requests)]
    streams = [asks[i::callers] for i in range(callers)]
    return run_streams(table, GivenClock(), streams, original_costs(table, callers))
