"""Faults of tokens, lists, draws, order and streams (20 to 26)."""

from __future__ import annotations

from tests.mutations.places import (
    ADMITTING,
    CHOICE_FAILS,
    CHOICES,
    EXACT,
    FAILING,
    FINISHING,
    RUNNER,
    RUNNING,
    SCHEDULER,
    STEPS,
    STREAMING,
    fault,
)

TOKENS = (
    fault(
        20,
        "lists are built when a step is launched, one token behind",
        (
            SCHEDULER,
            "        step.launch = (start, self._clock())\n",
            "        step.launch = (start, self._clock())\n"
            "        self._early = [self._choice(s) for s in step.sequences]\n",
        ),
        (SCHEDULER, "        choices = [self._choice(s) for s in step.sequences]\n", "        choices = self._early\n"),
        tests=(FINISHING, EXACT),
    ),
    fault(
        20,
        "lists of a decode step that follows a prefill are one token behind",
        (
            SCHEDULER,
            "        step.launch = (start, self._clock())\n",
            "        step.launch = (start, self._clock())\n        late = self.pipeline.oldest\n"
            "        after = late is not None and late.kind == 'prefill' and late is not step\n"
            "        self._early = [self._choice(s) for s in step.sequences] if after else None\n",
        ),
        (
            SCHEDULER,
            "        choices = [self._choice(s) for s in step.sequences]\n",
            "        choices = self._early or [self._choice(s) for s in step.sequences]\n",
        ),
        tests=(EXACT,),
    ),
    fault(
        21,
        "an empty list allows everything",
        (CHOICES, "not 0 < len(allowed) <= MAX_ALLOWED", "not 0 <= len(allowed) <= MAX_ALLOWED"),
        tests=(FAILING,),
    ),
    fault(
        21,
        "a list that could not be made allows everything",
        (
            SCHEDULER,
            CHOICE_FAILS,
            "            except Exception:\n                return Choice(None)\n        sequence.zombie",
        ),
        tests=(FAILING,),
    ),
    fault(
        22,
        "pending values are kept by a row's place in the batch",
        (
            RUNNER,
            "            row = slot.rows.device[:count, ROW]\n            self._pending_ids[row] = ids\n",
            "            row = torch.arange(count)\n            self._pending_ids[row] = ids\n",
        ),
    ),
    fault(
        22,
        "rows that changed are taken for those that decoded before when they are as many",
        (
            RUNNER,
            "        if slot.cohort != cohort:\n",
            "        if slot.cohort is None or len(slot.cohort) != len(cohort):\n",
        ),
    ),
    fault(
        22,
        "a row that skips a step asks for the same token twice",
        (
            RUNNER,
            "        positions = [s.base + s.launched for s in step.sequences]\n",
            "        positions = [s.base + max(1, s.committed + s.inflight_refs - 1) for s in step.sequences]\n"
            "        positions = [p + (step.index % 7 == 6) for p in positions]\n",
        ),
    ),
    fault(
        23,
        "bans see the token before the last",
        (
            CHOICES,
            "        row[1 + MAX_ALLOWED :] = (*banned, *(-1,) * (MAX_BANNED - len(banned)))\n",
            "        row[1 + MAX_ALLOWED :] = (*banned[1:], *(-1,) * (MAX_BANNED - len(banned[1:])))\n",
        ),
    ),
    fault(
        23,
        "lists that differ only in their bans are taken for the same",
        (
            CHOICES,
            "            self._index[choice] = len(self._needs) - 1\n",
            "            self._index[choice] = next(\n"
            "                (i for c, i in self._index.items() if c.allowed == choice.allowed), len(self._needs) - 1\n"
            "            )\n",
        ),
    ),
    fault(
        24,
        "draws depend on batch mates",
        (RUNNER, "[uniform(seed, at + k) for k in range(3)]", "[uniform(seed, at + i + k) for k in range(3)]"),
        tests=(STEPS, EXACT),
    ),
    fault(
        24,
        "draws depend on how many steps the engine has launched",
        (
            RUNNER,
            "            self._stage_draws(slot, step.sequences)\n",
            "            self._stage_draws(slot, step.sequences)\n"
            "            slot.choice_params.array[slot.drawn, 2] = uniform(7, step.index)\n",
        ),
        tests=(STEPS, EXACT),
    ),
    fault(
        25,
        "a step is as wide as its first row",
        (RUNNER, "_padded(max(positions) // self._page_size + 1", "_padded(positions[0] // self._page_size + 1"),
    ),
    fault(
        25,
        "a prefill is as long as its first prompt",
        (
            RUNNER,
            "(max(len(s.request.prompt) for s in sequences), count)",
            "(len(sequences[0].request.prompt), count)",
        ),
    ),
    fault(
        25,
        "a row that is used again after a gap keeps its old page table",
        (
            RUNNER,
            "        table[:count] = shared + sequence.pages\n",
            "        if not table.any():\n            table[:count] = shared + sequence.pages\n",
        ),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        26,
        "a stream's reader that does not read holds up the engine",
        (
            STREAMING,
            "        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()\n",
            "        self._items: queue.Queue[Any] = queue.Queue(4)\n",
        ),
        tests=(f"{RUNNING}::test_a_slow_reader_loses_nothing_and_holds_up_nobody",),
    ),
    fault(
        26,
        "a stream's reader that does not read loses pieces",
        (
            STREAMING,
            "            else:\n                mailbox.put(item)\n",
            "            elif isinstance(item, End) or mailbox._items.qsize() < 4:\n"
            "                mailbox.put(item)\n",
        ),
        tests=(f"{RUNNING}::test_a_slow_reader_loses_nothing_and_holds_up_nobody",),
    ),
    fault(
        26,
        "a reader that is gone ends the engine",
        (
            SCHEDULER,
            "        except Exception as error:\n            self._fail(sequence, error)\n",
            "        except ZeroDivisionError as error:\n            self._fail(sequence, error)\n",
        ),
        tests=(f"{RUNNING}::test_a_reader_that_is_gone_fails_its_request_alone",),
    ),
)
