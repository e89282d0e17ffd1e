"""What has been seen so far of answers, callers and steps, as far as it says how the next step will go.

Everything here follows from what the engine was asked and from its device's clock: the same run learns the same.
"""

from __future__ import annotations

from collections import defaultdict, deque
from math import prod

from photon.core.request import Choice, Token
from photon.core.sequence import Sequence
from photon.core.step import Step
from photon.core.trace import StepRecord
from photon.scheduler.admission import InLine
from photon.scheduler.launching import View

_KEPT = 64
"""Observations that count in full; beyond them older ones fade."""
_POSITIONS = 64
"""Decisions of an answer that are told apart; later ones count as one."""
_REMEMBERED = 1024
"""Lists of which it is known whether they hold eos."""
_PERHAPS = -1.0
_EARLY = ("sure", "likely")
_LOOKED_AT = 8
"""One in so many steps is taken apart: they are much the same."""
_FADING = 0.1
"""Weight of the latest duration, once there are as many as that makes of one."""
_TRIALS, _OFTEN, _SELDOM = 8, 8, 128
"""Once in so many decisions the other way is tried: often for the first few times."""


class Share:
    """How often something happened of the times that it could, older times fading; before any, `at_first`."""

    __slots__ = ("happened", "times")

    def __init__(self, at_first: float) -> None:
        self.happened, self.times = at_first, 1.0

    def note(self, happened: bool) -> None:
        if self.times >= _KEPT:
            self.happened /= 2
            self.times /= 2
        self.happened += happened
        self.times += 1

    @property
    def value(self) -> float:
        return self.happened / self.times


class Mean:
    """Of durations in seconds, the last ones above all."""

    __slots__ = ("count", "value")

    def __init__(self) -> None:
        self.value, self.count = 0.0, 0

    def note(self, seconds: float) -> None:
        self.count += 1
        self.value += (seconds - self.value) * (_FADING if self.count * _FADING > 1 else 1 / self.count)


class Pace:
    """How long decodes of so many rows take from one to the next, launched early or after reading.

    Prefills differ too much for that, and are taken to save as much.
    """

    def __init__(self) -> None:
        self.early, self.read = Mean(), Mean()
        self.decisions = 0

    @property
    def is_trial(self) -> bool:
        """Whether it is time to try the other way."""
        return self.decisions % (_OFTEN if self.decisions <= _TRIALS * _OFTEN else _SELDOM) == 0

    def saves_s(self, guess: float) -> float:
        """What an early launch saves; `guess` while one of the ways has not been seen."""
        return self.read.value - self.early.value if self.early.count and self.read.count else guess


class Outlook:
    """What is expected of the rows in flight, of those who ask, and of the device."""

    def __init__(self, eos_id: int) -> None:
        self._eos_id = eos_id
        self._ends: dict[Choice, float] = {}
        self._endings: defaultdict[str, list[Share]] = defaultdict(list)
        """By kind of answer."""
        self._at_once, self._soon = Share(0.5), Share(0.5)
        """Of those who were answered: who asks again before the next launch, and while one step runs."""
        self._answered: deque[tuple[float, int]] = deque(maxlen=_KEPT)
        """When, and after how many launches, those were answered who may ask again still."""
        self._decode, self._prefill, self._bubble = Mean(), Mean(), Mean()
        self._paces: defaultdict[int, Pace] = defaultdict(Pace)
        """By the number of rows, in powers of two."""
        self._pace = Pace()
        """That of the decision which is about to be made."""
        self._last: StepRecord | None = None

    # -- how answers end ------------------------------------------------------------------------------------------

    def decides(self, sequence: Sequence, choice: Choice) -> None:
        """Set how likely the token that is sampled under `choice` ends the answer, and where that is to be learnt."""
        ends = self._ends.get(choice)
        if ends is None:
            ends = self._ends_of(choice)
        if ends is not _PERHAPS:
            sequence.end_chance, sequence.decision = ends, None
            return
        shares = sequence.decisions or self._shares_of(sequence)
        share = shares[sequence.committed if sequence.committed < _POSITIONS else _POSITIONS]
        if share.times == 1.0:
            share.happened = shares[-1].value  # nothing has been seen of this place: it begins as its kind has been
        sequence.end_chance, sequence.decision = share.happened / share.times, share

    def saw(self, sequence: Sequence, token: Token) -> None:
        """The token has been read."""
        if sequence.decision is not None:
            ended = token.id == self._eos_id
            sequence.decision.note(ended)
            sequence.decisions[-1].note(ended)
        sequence.end_chance = 0.0

    def _ends_of(self, choice: Choice) -> float:
        """0 where the list does not hold eos, 1 where it is forced, else what is to be learnt."""
        allowed, banned = choice
        possible = self._eos_id not in banned if allowed is None else self._eos_id in allowed
        forced = allowed is not None and len(allowed) == 1
        if len(self._ends) >= _REMEMBERED:
            self._ends.clear()  # bans can follow the text
        ends = self._ends[choice] = (1.0 if forced else _PERHAPS) if possible else 0.0
        return ends

    def _shares_of(self, sequence: Sequence) -> list[Share]:
        """For each place in an answer of its kind, and at the end for all of them together."""
        shares = self._endings[sequence.state.kind]
        missing = [] if shares else [Share(0.5) for _ in range(_POSITIONS + 2)]
        shares += missing
        sequence.decisions = shares
        return shares

    # -- who asks again -------------------------------------------------------------------------------------------

    def answered(self, now: float, launches: int) -> None:
        """Somebody has an answer, when there have been so many launches."""
        self._answered.append((now, launches))

    def asked(self, launches: int) -> None:
        if self._answered:
            _, then = self._answered.popleft()
            self._at_once.note(launches == then)
            self._soon.note(True)

    def _due(self, now: float) -> float:
        """How many are expected still of those who were answered while the step in flight has run."""
        while self._answered and now - self._answered[0][0] > self._decode.value:
            self._answered.popleft()
            self._at_once.note(False)
            self._soon.note(False)
        return len(self._answered) * self._soon.value

    # -- how long steps take --------------------------------------------------------------------------------------

    def took(self, record: StepRecord) -> None:
        """A step was committed. What the host did for it while the device worked would else stand between two steps."""
        before, self._last = self._last, record
        if record.kind == "prefill":
            self._prefill.note(record.busy_s)
            return
        if before and before.kind == "decode" and record.why != "idle":  # then one followed the other at once
            pace = self._paces[len(record.requests).bit_length()]
            way = pace.early if record.why in _EARLY else pace.read
            way.note(record.sampling_end_s - before.sampling_end_s)
        if record.step % _LOOKED_AT == 0 or self._decode.count < _LOOKED_AT:
            self._decode.note(record.busy_s)
            copied = record.copy_end_s - record.sampling_end_s
            committed = record.commit_end_s - max(record.copy_end_s, record.commit_start_s)
            self._bubble.note(copied + committed + record.launch_end_s - record.launch_start_s)

    def may_pay(self, rows: int) -> bool:
        """Whether it can be worth while to launch early, with so many rows at work; to be asked once a decision."""
        pace = self._pace = self._paces[rows.bit_length()]
        pace.decisions += 1
        return pace.saves_s(self._bubble.value) >= 0.0 or pace.is_trial

    # -- all together ---------------------------------------------------------------------------------------------

    def undoubted(self, rows: list[Sequence], unread: Step) -> bool:
        """Whether `launch_now` need not be asked: all rows are sure, nobody is expected, and to launch early saves."""
        if unread.last or self._answered or any(s.end_chance for s in rows):
            return False
        return not self._pace.is_trial and self._pace.saves_s(self._bubble.value) >= 0.0

    def view(self, rows: list[Sequence], unread: Step, in_line: InLine, after_prefill: bool, now: float) -> View:
        """`rows` want another token unless the step in flight, `unread`, ends them."""
        chances = [s.end_chance for s in rows]
        sure, ends = chances.count(0.0), sum(chances)
        ending = ends + unread.last
        return View(
            sure,
            len(rows) - ends,
            0.0 if sure else prod(chances),
            in_line.ready,
            in_line.full,
            self._due(now) + ending * self._at_once.value + min(in_line.shut_out, ending),
            1.0 - (1.0 - self._soon.value) ** len(rows),
            after_prefill,
            self._pace.saves_s(self._bubble.value),
            self._decode.value,
            self._prefill.value,
            self._pace.is_trial,
        )
