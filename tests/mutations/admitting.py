"""Faults of idling, limits, queues, adapters and evictions (14 to 19)."""

from __future__ import annotations

from tests.mutations.places import (
    ADMISSION,
    ADMITTING,
    EXACT,
    FINISHING,
    LOOP,
    PREFIXES,
    RESERVATIONS,
    RUNNER,
    RUNNING,
    SCHEDULER,
    SEQUENCE,
    STEPS,
    UNHELD,
    fault,
)

ADMITTED = (
    fault(
        14,
        "idle forgets a step in flight",
        (
            SCHEDULER,
            " and not self._admission.waiting and not self.pipeline.in_flight",
            " and not self._admission.waiting",
        ),
        (SCHEDULER, UNHELD, "if not sequence.finalized or sequence.phase is not Phase.RUNNING:"),
        tests=(FINISHING,),
    ),
    fault(
        14,
        "a tick that only committed says that nothing was done",
        (SCHEDULER, "        return step is not None or committed\n", "        return step is not None\n"),
        tests=(FINISHING, RUNNING),
    ),
    fault(
        14,
        "a step is committed only when another was launched",
        (
            SCHEDULER,
            "        if step is None or step is before:\n            return False\n",
            "        if step is None or step is before or (before is None and self.mode == 'pipelined'):\n"
            "            return False\n",
        ),
        tests=(FINISHING,),
    ),
    fault(
        15,
        "one step past the length limit",
        (SEQUENCE, "0 < self.launched < self.request.limit", "0 < self.launched <= self.request.limit"),
        tests=(FINISHING,),
    ),
    fault(
        15,
        "one position too many fits the context",
        (
            ADMISSION,
            "        if total > self._limits.max_context:\n",
            "        if total > self._limits.max_context + 1:\n",
        ),
        tests=(ADMITTING,),
    ),
    fault(
        15,
        "what exactly fits the context is refused",
        (
            ADMISSION,
            "        if total > self._limits.max_context:\n",
            "        if total >= self._limits.max_context:\n",
        ),
        tests=(ADMITTING, FINISHING),
    ),
    fault(
        15,
        "the last position has no page",
        (RESERVATIONS, "request.limit - 1\n", "request.limit - 2\n"),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        15,
        "an answer of no tokens is let in",
        (ADMISSION, "        if request.limit < 1:\n", "        if request.limit < 0:\n"),
        tests=(ADMITTING,),
    ),
    fault(
        16,
        "finished rows that are not committed fill the batch",
        (SCHEDULER, "in_line(self.mode, len(rows))", "in_line(self.mode, len(self.running))"),
        (SCHEDULER, 'self._plan_prefill(len(rows), "sure")', 'self._plan_prefill(len(self.running), "sure")'),
        tests=(FINISHING, STEPS),
    ),
    fault(
        17,
        "a request that can never fit is let in",
        (RESERVATIONS, "        if needed > self.pages.total:\n", "        if needed > 10 * self.pages.total:\n"),
        tests=(ADMITTING,),
    ),
    fault(
        17,
        "a later stage that can never fit is let in",
        (
            LOOP,
            "        self.core.admission.refuse_if_impossible(request)\n        self._next_id",
            "        self._next_id",
        ),
        tests=(RUNNING,),
    ),
    fault(
        18,
        "an adapter slot is loaded anew under a zombie",
        (
            SCHEDULER,
            "        sequence.finalized = True\n",
            "        sequence.finalized = True\n        if sequence.phase is Phase.RUNNING and sequence.adapter_slot:\n"
            "            self._reservations.adapters.give(sequence.adapter_slot)\n",
        ),
        (
            RESERVATIONS,
            "        if sequence.adapter_slot:\n            self.adapters.give",
            "        if False:\n            self.adapters.give",
        ),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        18,
        "requests are served before their adapter has arrived",
        (
            RESERVATIONS,
            "        return adapter is not None and self.adapters.is_pending(adapter.key)\n",
            "        return False\n",
        ),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        18,
        "decode steps are served by the base model",
        (RUNNER, "        slot.adapted = any(s.adapter_slot for s in sequences)\n", "        slot.adapted = False\n"),
    ),
    fault(
        18,
        "an adapter that failed to load counts as loaded",
        (RESERVATIONS, "self.adapters.loaded if step.error is None else self.adapters.failed", "self.adapters.loaded"),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        19,
        "a prefix is evicted by the request that is about to use it",
        (
            RESERVATIONS,
            "        if found:\n            self.prefixes.pin(found)  # making room must not evict what the request "
            "is about to use\n",
            "",
        ),
        (
            RESERVATIONS,
            "            if found:\n                self.prefixes.unpin(found)\n            return False\n",
            "            return False\n        if found:\n            self.prefixes.pin(found)\n",
        ),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        19,
        "prefixes that rows still read are evicted",
        (
            PREFIXES,
            "        for prefix in [p for p in self._prefixes.values() if p.ready and p.pins == 0]:\n",
            "        for prefix in [p for p in self._prefixes.values() if p.ready]:\n",
        ),
        tests=("tests/memory/test_prefix_cache.py", EXACT),
    ),
)
