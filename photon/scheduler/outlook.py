"""What has been seen so far of answers, callers and steps, as far as it says how the next step will go.

Everything here follows from what the engine was asked and from its device's clock: the same run learns the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

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
_FADING = 0.1
"""Weight of the latest duration."""


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


class Outlook:
    """What is expected of the rows in flight, of those who ask, and of the device."""

    def __init__(self, eos_id: int) -> None:
        self._eos_id = eos_id
        self._endings: dict[Hashable, Share] = {}
        """For each kind of answer, and for each place in one."""
        self._at_once, self._soon = Share(0.5), Share(0.5)
        """Of those who were answered: who asks again before the next launch, and while one step runs."""
        self._answered: deque[tuple[float, int]] = deque(maxlen=_KEPT)
        """When, and after how many launches, those were answered who may ask again still."""
        self._decode_s = self._prefill_s = self._bubble_s = 0.0

    # -- how answers end ------------------------------------------------------------------------------------------

    def end_chance(self, sequence: Sequence, choice: Choice) -> float:
        """That the token sampled under `choice` is eos: 0 where the list does not hold it, 1 where it is forced."""
        allowed, banned = choice
        if allowed is None:
            return 0.0 if self._eos_id in banned else self._ending(sequence).value
        if self._eos_id not in allowed:
            return 0.0
        return self._ending(sequence).value if len(allowed) > 1 else 1.0

    def saw(self, sequence: Sequence, token: Token) -> None:
        """A token has been read; it is not counted as committed yet."""
        if 0.0 < sequence.end_chance < 1.0:
            ended = token.id == self._eos_id
            self._ending(sequence).note(ended)
            self._endings[sequence.state.kind].note(ended)
        sequence.end_chance = 0.0

    def _ending(self, sequence: Sequence) -> Share:
        kind = sequence.state.kind
        key = (kind, min(sequence.committed, _POSITIONS))
        found = self._endings.get(key)
        if found is None:
            of_kind = self._endings.setdefault(kind, Share(0.5))
            found = self._endings[key] = Share(of_kind.value)
        return found

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
        while self._answered and now - self._answered[0][0] > self._decode_s:
            self._answered.popleft()
            self._at_once.note(False)
            self._soon.note(False)
        return len(self._answered) * self._soon.value

    # -- how long steps take --------------------------------------------------------------------------------------

    def took(self, record: StepRecord) -> None:
        """A step was committed. What the host did for it while the device worked would else stand between two steps."""
        copied = record.copy_end_s - record.sampling_end_s
        committed = record.commit_end_s - max(record.copy_end_s, record.commit_start_s)
        self._bubble_s = _faded(self._bubble_s, copied + committed + record.launch_end_s - record.launch_start_s)
        if record.kind == "decode":
            self._decode_s = _faded(self._decode_s, record.busy_s)
        else:
            self._prefill_s = _faded(self._prefill_s, record.busy_s)

    # -- all together ---------------------------------------------------------------------------------------------

    def view(self, rows: list[Sequence], unread: Step, in_line: InLine, after_prefill: bool, now: float) -> View:
        """`rows` want another token unless the step in flight, `unread`, ends them."""
        sure, going, none_left, ending = 0, 0.0, 1.0, 0.0
        for sequence in rows:
            chance = sequence.end_chance
            sure += not chance
            going += 1.0 - chance
            none_left *= chance
        for sequence in unread.sequences:
            if not sequence.finalized:
                ending += 1.0 if sequence.launched == sequence.request.limit else sequence.end_chance
        return View(
            sure,
            going,
            none_left,
            in_line.ready,
            in_line.full,
            self._due(now) + ending * self._at_once.value + min(in_line.shut_out, ending),
            1.0 - (1.0 - self._soon.value) ** len(rows),
            after_prefill,
            self._bubble_s,
            self._decode_s,
            self._prefill_s,
        )


def _faded(before: float, now: float) -> float:
    return before + _FADING * (now - before) if before else now
