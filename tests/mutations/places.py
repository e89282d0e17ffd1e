"""Names that the lists of faults share."""

from __future__ import annotations

from tests.mutations.mutation import Change, Mutation

ADMISSION = "scheduler/admission.py"
CALL = "engine/call.py"
CHOICES = "runtime/choices.py"
LOOP = "engine/loop.py"
PIPELINE = "scheduler/pipeline.py"
PREFIXES = "memory/prefix_cache.py"
RESERVATIONS = "scheduler/reservations.py"
RUNNER = "runtime/runner.py"
SCHEDULER = "scheduler/scheduler.py"
SEQUENCE = "core/sequence.py"
SLOT = "runtime/slot.py"
STREAMING = "engine/streaming.py"

STEPS = "tests/runtime/test_steps.py"
MODEL_STEPS = "tests/runtime/test_model_steps.py"
LOSING = "tests/engine/test_losing_nobody.py"
FINISHING = "tests/scheduler/test_finishing.py"
ADMITTING = "tests/scheduler/test_admission.py"
FAILING = "tests/scheduler/test_failures.py"
EXACT = "tests/scheduler/test_exactness.py"
RUNNING = "tests/engine/test_loop.py"


def fault(number: int, what: str, *changes: tuple[str, str, str], tests: tuple[str, ...] = (EXACT,)) -> Mutation:
    return Mutation(number, what, tuple(Change(*c) for c in changes), tests)


UNHELD = "if not sequence.finalized or sequence.inflight_refs or sequence.phase is not Phase.RUNNING:"
CHOICE_FAILS = (
    "            except Exception as error:\n                self._fail(sequence, error)\n        sequence.zombie"
)
