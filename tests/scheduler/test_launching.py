"""When a step is launched: the rule on its own, and what the scheduler makes of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from photon.core.request import Choice, SkillState, Token
from photon.devices.pace_table import Curve, PaceTable
from photon.devices.paced import GivenClock, PacedDevice
from photon.devices.simulated import LAZY, SimulatedDevice
from photon.scheduler.launching import View, kind_of, launch_now
from tests.rig import Rig, WalkState, Watched, image, request
from tests.scripted import COORD, EOS

UNKNOWN = View(
    sure=0,
    going=0.5,
    none_left=0.5,
    ready=0,
    full=False,
    joining=0.0,
    returning=1.0,
    after_prefill=False,
    saves_s=1.0,
    decode_s=4.0,
    prefill_s=9.0,
)
"""One row that may have ended, as likely as not; whoever asked it would ask again at once."""


def test_a_row_that_is_sure_to_go_on_is_launched_early() -> None:
    assert launch_now(UNKNOWN._replace(sure=1, going=1.0, none_left=0.0))


@pytest.mark.parametrize(("chance", "now"), [(0.1, True), (0.19, True), (0.21, False), (0.9, False), (1.0, False)])
def test_one_row_is_launched_early_while_the_bubble_saved_outweighs_the_useless_step(chance: float, now: bool) -> None:
    assert launch_now(UNKNOWN._replace(going=1 - chance, none_left=chance)) is now


def test_a_useless_step_costs_nothing_where_nobody_would_ask_meanwhile() -> None:
    assert launch_now(UNKNOWN._replace(going=0.01, none_left=0.99, returning=0.0))


def test_a_step_is_held_back_for_those_who_would_join_it_unless_more_would_wait_for_them() -> None:
    sixteen = UNKNOWN._replace(sure=8, going=8.0, none_left=0.0, joining=8.0)
    assert not launch_now(sixteen)
    assert launch_now(sixteen._replace(joining=1.0))


def test_a_prefill_that_could_take_no_more_is_held_back_for_nobody() -> None:
    prefill = UNKNOWN._replace(ready=1, going=0.0, joining=5.0)
    assert not launch_now(prefill)
    assert launch_now(prefill._replace(full=True))


def test_rows_that_may_all_have_ended_do_not_keep_a_prefill_waiting() -> None:
    ready = UNKNOWN._replace(ready=1, after_prefill=True)
    assert kind_of(ready) == "prefill"
    assert kind_of(ready._replace(sure=1)) == "decode", "at most one prefill between two decodes of rows that go on"
    assert kind_of(ready._replace(sure=1, after_prefill=False)) == "prefill"


def test_where_launching_early_takes_longer_it_is_not_done() -> None:
    sure = UNKNOWN._replace(sure=1, going=1.0, none_left=0.0)
    assert not launch_now(sure._replace(saves_s=-0.1))
    assert not launch_now(sure._replace(saves_s=-0.1, ready=1))


@pytest.mark.parametrize("saves", [1.0, -1.0])
def test_a_trial_does_otherwise_where_little_hangs_on_it(saves: float) -> None:
    sure = UNKNOWN._replace(sure=1, going=1.0, none_left=0.0, saves_s=saves)
    assert launch_now(sure._replace(trial=True)) is not launch_now(sure)
    much = sure._replace(joining=1.0)
    assert launch_now(much._replace(trial=True)) is launch_now(much)


# -- in the scheduler -------------------------------------------------------------------------------------------------

TABLE = PaceTable(
    key="even",
    name="every step takes 4 ms",
    model="none",
    forward_s=Curve("forward", [{"at": 1, "ms": 3.0}, {"at": 32, "ms": 3.0}]),
    sampling_s=Curve("sampling", [{"at": 1, "ms": 1.0}, {"at": 32, "ms": 1.0}]),
    vision_s=Curve("vision", [{"at": 1, "ms": 1.0}, {"at": 32, "ms": 1.0}]),
    copy_s=0.001,
    published={},
    published_requests=[],
)


class Pairs(SkillState):
    """`pairs` times two tokens, then eos; only the first of a pair may be eos. A list of its own each time."""

    def __init__(self, pairs: int) -> None:
        self._left = 2 * pairs
        self.tokens: list[Token] = []

    def choice(self) -> Choice:
        if self._left == 0:
            return Choice((EOS, EOS))
        return Choice((COORD, COORD, EOS)) if self._left % 2 == 0 else Choice((COORD,))

    def advance(self, token: Token) -> None:
        self._left -= 1
        self.tokens.append(token)
        self.done = token.id == EOS

    def result(self) -> dict[str, Any]:
        return {"tokens": self.tokens}


def pairs(count: int, **more: Any) -> Any:
    ask = request(limit=20, **more)
    return type(ask)(ask.prompt, ask.image, ask.limit, lambda: Pairs(count), ask.sampling, ask.mode)


def paced(rows: int = 4) -> Rig:
    return Rig(PacedDevice(TABLE, GivenClock()), rows=rows, pages=64, eos_share=0.0, launch_now=None)


def ask_again(r: Rig, times: int, callers: int = 1) -> None:
    """As many callers as given, each asking for one pair again as soon as it has its answer."""
    left = [times] * callers

    def ask(caller: int) -> None:
        left[caller] -= 1

        class Caller(Watched):
            def ended(self, *what: Any) -> None:
                super().ended(*what)
                if left[caller]:
                    r.messages.append(lambda: ask(caller))

        r.submit(pairs(1), Caller())

    for caller in range(callers):
        ask(caller)
    r.run(4000)
    r.check_at_rest()


def zombie_only(r: Rig, since: int = 0) -> int:
    return sum(step.zombies == len(step.requests) for step in r.core.trace.since(since))


def test_what_ends_each_time_is_learnt_and_no_step_is_spent_on_it_any_more() -> None:
    r = paced()
    ask_again(r, 60)
    learnt = r.core.trace.since(3 * 40)
    whys = Counter((step.kind, step.why) for step in learnt)
    assert whys["prefill", "read"] + whys["prefill", "idle"] == 20, "each prefill has to wait for the end before"
    assert whys["decode", "likely"] > 15, "a first point nearly always comes"
    assert whys["decode", "sure"] > 15
    assert zombie_only(r, 3 * 20) == 0
    assert zombie_only(r) <= 3


def test_rows_that_end_each_time_stay_together_with_those_who_ask_again() -> None:
    r = paced(rows=8)
    ask_again(r, 30, callers=8)
    late = r.core.trace.since(len(r.core.trace.since(0)) - 30)
    assert {len(step.requests) for step in late} == {8}, "callers got out of phase"


def test_each_step_says_why_it_was_launched() -> None:
    r = paced()
    r.submit(pairs(3))
    r.run()
    whys = [step.why for step in r.core.trace.since(0)]
    assert whys[0] == "idle"
    assert all(why == "sure" for why in whys[2::2]), "a second of a pair is sure to be wanted"
    blocking = paced()
    blocking.submit(pairs(3, mode="blocking"))
    blocking.run()
    assert {step.why for step in blocking.core.trace.since(0)} == {"blocking"}


def test_a_step_knows_how_many_of_its_rows_have_no_further_token() -> None:
    r = Rig(SimulatedDevice(LAZY), eos_share=0, launch_now=None)
    for limit in (1, 1, 2):
        r.submit(request(limit=limit))
    r.tick()
    assert [step.last for step in r.scheduler.pipeline.steps] == [2]
    r.run()


def test_text_that_may_end_at_any_token_is_launched_early_all_the_same() -> None:
    r = paced(rows=1)
    for seed in range(6):
        ask = request(limit=30, seed=seed)
        r.submit(type(ask)(ask.prompt, None, 30, Text))
        r.run()
    whys = [step.why for step in r.core.trace.since(0)]
    assert whys.count("likely") > 0.8 * len(whys)


class Text(WalkState):
    def __init__(self) -> None:
        super().__init__(1)

    def choice(self) -> Choice:
        return Choice(None, (1,))


def test_with_nothing_in_flight_nothing_is_held_back() -> None:
    r = Rig(SimulatedDevice(LAZY), launch_now=lambda view: False)
    r.submit(pairs(2, image=image(1)))
    r.submit(request(seed=2))
    r.run()
    r.check_at_rest()
    assert {step.why for step in r.core.trace.since(0)} == {"idle", "read"}
    assert not any(step.zombies for step in r.core.trace.since(0))
