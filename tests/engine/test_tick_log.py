"""photon.engine.tick_log: PHOTON_LOG=tick prints a line a step, and other values are refused."""

from __future__ import annotations

import re

import pytest

from photon.devices.simulated import SimulatedDevice
from photon.engine.tick_log import tick_log
from photon.errors import InvalidRequestError
from tests.rig import Rig, request

LINE = re.compile(
    r"step (\d+) (prefill|decode) (idle|sure|likely|read) rows (\d+) slot ([01]) zombies (\d+) \| "
    r"launch \d+ wait \d+ commit \d+ finalize \d+ us"
)


def test_every_step_has_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PHOTON_LOG", "tick")
    r = Rig(SimulatedDevice(), eos_share=0)
    r.submit(request(limit=4))
    r.submit(request(limit=2, seed=1))
    r.run()
    found = [LINE.fullmatch(line) for line in capsys.readouterr().err.splitlines()]
    assert all(found)
    told = [(int(m[1]), m[2], m[3], int(m[4]), int(m[5]), int(m[6])) for m in found if m]
    records = r.core.trace.since(0)
    assert told == [(one.step, one.kind, one.why, len(one.requests), one.slot, one.zombies) for one in records]
    assert len(told) >= 4


def test_nothing_is_printed_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHOTON_LOG", raising=False)
    assert tick_log() is None


def test_another_value_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOTON_LOG", "debug")
    with pytest.raises(InvalidRequestError, match="PHOTON_LOG is 'debug'; allowed is tick"):
        tick_log()
