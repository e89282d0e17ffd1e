"""What the engine learns of answers, callers and steps, one observation after the other."""

from __future__ import annotations

import pytest

from photon.core.request import Choice, Token
from photon.core.sequence import Sequence
from photon.core.step import Step
from photon.core.trace import Kind, Why
from photon.scheduler.admission import NOBODY, InLine
from photon.scheduler.launching import View
from photon.scheduler.outlook import Outlook, Share
from tests.core.test_trace import record
from tests.rig import Watched, request
from tests.scripted import COORD, EOS, SIZE

MAYBE = Choice((COORD, EOS))


def sequence(committed: int = 0) -> Sequence:
    ask = request(limit=20)
    made = Sequence(1, ask, ask.start(), Watched())
    made.committed = made.launched = committed
    return made


def decide(outlook: Outlook, times: int, ended: bool, committed: int = 0) -> None:
    for _ in range(times):
        one = sequence(committed)
        outlook.decides(one, MAYBE)
        outlook.saw(one, Token(EOS if ended else COORD))
        assert one.end_chance == 0.0, "a token that was read ends nothing any more"


def chance(outlook: Outlook, choice: Choice, committed: int = 0) -> float:
    one = sequence(committed)
    outlook.decides(one, choice)
    return one.end_chance


def view(outlook: Outlook, *rows: Sequence, in_line: InLine = NOBODY, now: float = 0.0) -> View:
    outlook.may_pay(len(rows))
    return outlook.view(list(rows), Step("decode", list(rows), "pipelined", "sure"), in_line, False, now)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [(Choice((COORD,)), 0.0), (Choice((COORD, SIZE)), 0.0), (Choice(None, (EOS,)), 0.0), (Choice((EOS,)), 1.0)],
)
def test_the_list_alone_says_it_where_it_leaves_no_doubt(choice: Choice, expected: float) -> None:
    assert chance(Outlook(EOS), choice) == expected


@pytest.mark.parametrize("choice", [MAYBE, Choice(None), Choice(None, (SIZE,))])
def test_else_it_is_learnt(choice: Choice) -> None:
    outlook = Outlook(EOS)
    assert chance(outlook, choice) == 0.5
    decide(outlook, 40, ended=True)
    assert chance(outlook, choice) > 0.95
    decide(outlook, 200, ended=False)
    assert chance(outlook, choice) < 0.05, "what was long ago fades"


def test_places_in_an_answer_are_told_apart_and_a_new_one_begins_as_its_kind_has_been() -> None:
    outlook = Outlook(EOS)
    decide(outlook, 40, ended=False, committed=0)
    decide(outlook, 40, ended=True, committed=2)
    assert chance(outlook, MAYBE, 0) < 0.05
    assert chance(outlook, MAYBE, 2) > 0.95
    assert chance(outlook, MAYBE, 4) == pytest.approx(0.5, abs=0.1)
    decide(outlook, 40, ended=False, committed=6)
    assert chance(outlook, MAYBE, 8) < 0.35


def test_long_answers_take_no_more_memory() -> None:
    outlook = Outlook(EOS)
    decide(outlook, 30, ended=False, committed=500)
    assert chance(outlook, MAYBE, 900) < 0.05


def test_a_share_begins_as_it_is_told_and_ends_as_it_is_seen() -> None:
    share = Share(0.25)
    assert share.value == 0.25
    for _ in range(1000):
        share.note(True)
    assert share.value > 0.98


# -- the view ----------------------------------------------------------------------------------------------------


def test_rows_count_as_sure_as_going_and_as_all_gone() -> None:
    sure, maybe, likely = sequence(1), sequence(1), sequence(1)
    maybe.end_chance, likely.end_chance = 0.5, 0.9
    found = view(Outlook(EOS), sure, maybe, likely)
    assert (found.sure, found.going, found.none_left) == (1, pytest.approx(1.6), 0.0)
    found = view(Outlook(EOS), maybe, likely)
    assert (found.sure, found.none_left) == (0, pytest.approx(0.45))


def _learnt(at_once: bool, soon: bool) -> Outlook:
    """Forty have been answered, and asked again or not."""
    outlook = Outlook(EOS)
    outlook.took(record(0, 1.0, 0.003, 0.0, 0.001))
    for i in range(40):
        outlook.answered(10.0 * i, launches=i)
        if soon:
            outlook.asked(launches=i if at_once else i + 1)
        view(outlook, now=10.0 * i + 5.0)
    return outlook


def test_those_who_ask_again_at_once_will_join_when_their_row_ends() -> None:
    row = sequence(1)
    row.end_chance = 0.8
    assert view(_learnt(at_once=True, soon=True), row).joining > 0.75
    assert view(_learnt(at_once=False, soon=True), row).joining < 0.05
    assert view(_learnt(at_once=True, soon=True), row).returning > 0.95
    assert view(_learnt(at_once=False, soon=False), row).returning < 0.05


def test_a_row_at_its_limit_ends_whatever_it_samples() -> None:
    step = Step("decode", [sequence(20)], "pipelined", "sure", last=1)
    found = _learnt(at_once=True, soon=True).view([], step, NOBODY, False, 0.0)
    assert found.joining > 0.95


def test_who_was_answered_during_the_step_is_still_due_and_then_no_more() -> None:
    outlook = _learnt(at_once=False, soon=True)
    outlook.answered(1000.0, launches=100)
    assert view(outlook, now=1000.003).joining > 0.95
    assert view(outlook, now=1000.02).joining == 0.0, "a decode takes 4 ms: they did not come"


def test_who_waits_for_a_row_joins_when_one_ends() -> None:
    outlook, row = _learnt(at_once=False, soon=False), sequence(1)
    row.end_chance = 0.5
    assert view(outlook, row, in_line=InLine(0, True, 3)).joining == pytest.approx(0.5, abs=0.05)


def test_times_are_those_of_the_steps_before() -> None:
    outlook = Outlook(EOS)
    for i in range(60):
        outlook.took(record(i, 1.0 + i, 0.003, 0.0, 0.001))
        outlook.took(record(i, 1.0 + i, 0.009, 0.0, 0.001)._replace(kind="prefill", commit_end_s=1.0 + i + 0.0105))
    found = view(outlook, sequence(1))
    assert found.decode_s == pytest.approx(0.004)
    assert found.prefill_s == pytest.approx(0.010)
    assert 0 < found.saves_s < 0.001


def _decodes(outlook: Outlook, why: Why, period_s: float, count: int = 20) -> None:
    for i in range(count + 1):
        kind: Kind = "decode" if i else "prefill"
        outlook.took(record(i, 1.0 + i * period_s, 0.003, 0.0, 0.001)._replace(why=why, kind=kind))


def test_what_an_early_launch_saves_is_seen_not_reckoned() -> None:
    outlook = Outlook(EOS)
    _decodes(outlook, "sure", 0.005)
    guess = view(outlook, sequence(1)).saves_s
    assert 0 < guess < 0.001, "only one of the ways has been seen"
    _decodes(outlook, "read", 0.0047)
    assert view(outlook, sequence(1)).saves_s == pytest.approx(-0.0003, abs=5e-5)
    assert view(outlook, *[sequence(1)] * 4).saves_s == guess, "of other batches that says nothing"


def test_where_it_saves_nothing_the_other_way_is_tried_now_and_then() -> None:
    outlook = Outlook(EOS)
    _decodes(outlook, "sure", 0.005)
    _decodes(outlook, "read", 0.0047)
    tried = sum(outlook.may_pay(1) for _ in range(1280))
    assert 5 <= tried <= 20
    assert all(outlook.may_pay(8) for _ in range(20)), "of batches that were not seen it may be true"
