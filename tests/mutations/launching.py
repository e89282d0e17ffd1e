"""Faults in when a step is launched: no answer would be wrong, and every caller would wait."""

from __future__ import annotations

from tests.mutations.places import SCHEDULER, fault

RULE = "scheduler/launching.py"
OUTLOOK = "scheduler/outlook.py"
ADMISSION = "scheduler/admission.py"
LAUNCHING = "tests/scheduler/test_launching.py"
LEARNING = "tests/scheduler/test_outlook.py"

LAUNCHED = (
    fault(
        27,
        "steps are launched early though that takes longer",
        (OUTLOOK, "self.read.value - self.early.value if", "guess if"),
        tests=(LEARNING,),
    ),
    fault(
        27,
        "the other way is never tried again",
        (OUTLOOK, "return self.decisions % (", "return False and self.decisions % ("),
        tests=(LEARNING,),
    ),
    fault(
        27,
        "a trial makes others wait",
        (RULE, "view.trial and lost < _LITTLE", "view.trial"),
        tests=(LAUNCHING,),
    ),
    fault(
        27,
        "useless steps are thought to cost nothing",
        (RULE, "view.joining + view.none_left * view.returning", "view.joining"),
        tests=(LAUNCHING,),
    ),
    fault(
        27,
        "steps are held back whoever would ask",
        (RULE, "view.none_left * view.returning", "view.none_left"),
        tests=(LAUNCHING,),
    ),
    fault(
        27,
        "nobody is waited for",
        (RULE, "0.0 if view.full else view.joining", "0.0"),
        tests=(LAUNCHING,),
    ),
    fault(
        27,
        "a full prefill waits for others",
        (RULE, "0.0 if view.full else view.joining", "view.joining"),
        tests=(LAUNCHING,),
    ),
    fault(
        27,
        "rows that may all have ended keep a prefill waiting",
        (RULE, "not (view.after_prefill and view.sure)", "not view.after_prefill"),
        tests=(LAUNCHING,),
    ),
    fault(
        27,
        "prefills follow prefills while rows are sure to go on",
        (RULE, "not (view.after_prefill and view.sure)", "True"),
        tests=(LAUNCHING,),
    ),
    fault(
        27,
        "what is held back is not said",
        (SCHEDULER, '"read" if self._held_back else "idle"', '"idle"'),
        tests=(LAUNCHING,),
    ),
    fault(
        27,
        "how answers end is not learnt",
        (OUTLOOK, "            sequence.decision.note(ended)\n", ""),
        tests=(LEARNING,),
    ),
    fault(
        27,
        "a token that was read counts as in flight",
        (OUTLOOK, "        sequence.end_chance = 0.0\n", ""),
        tests=(LEARNING, LAUNCHING),
    ),
    fault(
        27,
        "a forced end is thought to go on",
        (OUTLOOK, "(1.0 if forced else _PERHAPS)", "(0.0 if forced else _PERHAPS)"),
        tests=(LEARNING,),
    ),
    fault(
        27,
        "a banned eos is thought possible",
        (OUTLOOK, "self._eos_id not in banned if allowed is None else", "True if allowed is None else"),
        tests=(LEARNING,),
    ),
    fault(
        27,
        "whoever was answered is due for ever",
        (OUTLOOK, "now - self._answered[0][0] > self._decode.value", "False"),
        tests=(LEARNING,),
    ),
    fault(
        27,
        "whoever has no row is forgotten",
        (OUTLOOK, " + min(in_line.shut_out, ending)", ""),
        tests=(LEARNING,),
    ),
    fault(
        27,
        "a row at its limit is thought to go on",
        (SCHEDULER, "            step.last += sequence.launched == sequence.request.limit\n", ""),
        tests=(LAUNCHING,),
    ),
)
