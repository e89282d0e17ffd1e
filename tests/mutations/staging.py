"""Faults of staging, streams and slots (1 to 8)."""

from __future__ import annotations

from tests.mutations.places import (
    EXACT,
    FINISHING,
    MODEL_STEPS,
    RESERVATIONS,
    RUNNER,
    SCHEDULER,
    SLOT,
    STEPS,
    UNHELD,
    fault,
)

_SLOTS = "        self.slots = [Slot(i, device, sizes) for i in range(SLOTS)]\n"

STAGING = (
    fault(
        1,
        "both slots stage rows and positions in one buffer",
        (RUNNER, _SLOTS, _SLOTS + "        self.slots[1].rows = self.slots[0].rows\n"),
    ),
    fault(
        1,
        "both slots stage sampling parameters in one buffer",
        (RUNNER, _SLOTS, _SLOTS + "        self.slots[1].choice_params = self.slots[0].choice_params\n"),
    ),
    fault(
        1,
        "both slots stage prompts in one buffer",
        (RUNNER, _SLOTS, _SLOTS + "        self.slots[1].token_ids = self.slots[0].token_ids\n"),
    ),
    fault(
        1,
        "both slots stage tail copies in one buffer",
        (RUNNER, _SLOTS, _SLOTS + "        self.slots[1].tails = self.slots[0].tails\n"),
    ),
    fault(
        2,
        "pictures are dropped when their step is launched",
        (
            SCHEDULER,
            "        self._runner.launch(step)\n",
            "        self._runner.launch(step)\n        step.crops.clear()\n",
        ),
        tests=(STEPS,),
    ),
    fault(
        3,
        "a batch row goes to the next request while a zombie is in flight",
        (
            SCHEDULER,
            "        sequence.finalized = True\n",
            "        sequence.finalized = True\n"
            "        if sequence.phase is Phase.RUNNING:\n            self._reservations.rows.give([sequence.row])\n",
        ),
        (RESERVATIONS, "        self.rows.give([sequence.row])\n        self.pages", "        self.pages"),
    ),
    fault(
        4,
        "a launched step reads the page tables when it runs, not as they were at its launch",
        (
            RUNNER,
            "        def work() -> None:\n            slot.rows.upload(batch)\n",
            "        def work() -> None:\n            rows = slot.rows.array\n"
            "            rows[:batch, _ROW_FIELDS:] = self._page_tables[rows[:batch, 0]]\n"
            "            slot.rows.upload(batch)\n",
        ),
        (SCHEDULER, UNHELD, "if not sequence.finalized or sequence.phase is not Phase.RUNNING:"),
    ),
    fault(
        4,
        "a decode step takes the page tables that a prefill left in its slot for its own",
        (RUNNER, "        slot.cohort, last = None, 0\n", "        last = 0\n"),
    ),
    fault(
        5,
        "a launched step takes its positions when it runs, after the next plan",
        (
            RUNNER,
            "        def work() -> None:\n            slot.rows.upload(batch)\n",
            "        def work() -> None:\n"
            "            slot.rows.array[: len(positions), 1] = [s.base + s.launched - 1 for s in step.sequences]\n"
            "            slot.rows.upload(batch)\n",
        ),
    ),
    fault(
        6,
        "one buffer for hidden states, and sampling on a stream that the next forward overtakes",
        (
            RUNNER,
            "            slot.hidden, slot.logits = forward()\n",
            "            self.slots[0].hidden, self.slots[0].logits = forward()\n",
        ),
        (
            RUNNER,
            "            hidden, logits = slot.outputs(count)\n",
            "            hidden, logits = self.slots[0].outputs(count)\n",
        ),
        (
            RUNNER,
            "            slot.hidden, slot.logits = self._executor.prompt(\n",
            "            self.slots[0].hidden, "
            "self.slots[0].logits = slot.hidden, slot.logits = self._executor.prompt(\n",
        ),
        (
            RUNNER,
            "        compute.span(slot.sampling_start, self._guarded(slot, work), slot.step_done)\n",
            "        copy.span(slot.sampling_start, self._guarded(slot, work), slot.step_done)\n",
        ),
    ),
    fault(
        7,
        "staging is not page-locked",
        (
            SLOT,
            "        self.host = device.host_buffer(*shape, dtype=dtype)\n",
            "        self.host = torch.zeros(*shape, dtype=dtype)\n",
        ),
        tests=(STEPS,),
    ),
    fault(
        7,
        "uploads block",
        (SLOT, "        part.copy_(self.host[:rows], non_blocking=True)\n", "        part.copy_(self.host[:rows])\n"),
        tests=(STEPS,),
    ),
    fault(
        7,
        "commit reads the device's values instead of the host's copy",
        (RUNNER, "slot.host_ids_array[:count].tolist()", "slot.out_ids[:count].tolist()"),
        tests=(STEPS,),
    ),
    fault(
        7,
        "commit waits for the forward that is to hide it",
        (
            RUNNER,
            "        slot.copy_done.synchronize()\n",
            "        slot.copy_done.synchronize()\n"
            "        if self.slots[1 - slot.index].forward_end.latest:\n"
            "            self.slots[1 - slot.index].forward_end.synchronize()\n",
        ),
        tests=(STEPS,),
    ),
    fault(
        7,
        "commit waits before the next forward is launched",
        (
            SCHEDULER,
            "        step = self._launch()\n        if self.mode",
            "        early = self._commit()\n        step = self._launch()\n        if self.mode",
        ),
        (
            SCHEDULER,
            "        return step is not None or committed\n",
            "        return step is not None or committed or early\n",
        ),
        tests=(STEPS, FINISHING),
    ),
    *(
        fault(
            8,
            f"a captured step serves {what}",
            (RUNNER, "        found = self._forwards.get(shape)\n", f"        found = self._forwards.get({key})\n"),
            (RUNNER, "        self._forwards[shape] = ", f"        self._forwards[{key}] = "),
            tests=(STEPS, EXACT),
        )
        for what, key in (
            ("both slots", "(0, *shape[1:])"),
            ("every batch", "(shape[0], 0, *shape[2:])"),
            ("every context length", "(*shape[:2], 0, shape[3])"),
            ("steps with and without adapters", "(*shape[:3], 0)"),
        )
    ),
    fault(
        8,
        "a captured step does not learn of the sites of a later adapter",
        (
            RUNNER,
            "for shape, forward in self._forwards.items() if not shape[-1]}",
            "for shape, forward in self._forwards.items()}",
        ),
        tests=(MODEL_STEPS,),
    ),
    fault(
        8,
        "a step is captured over the rows that its slot last decoded",
        (RUNNER, "        self._device.compute.run(partial(_to_scratch, ", "        str(partial(_to_scratch, "),
        tests=(STEPS, EXACT),
    ),
    fault(
        7,
        "what was not captured at start is captured inside a tick",
        (
            RUNNER,
            "                self._missing[shape] = None\n",
            "                self._capture(shape)\n                return self._forwards[shape]\n",
        ),
        tests=(MODEL_STEPS,),
    ),
    fault(
        7,
        "crops are not page-locked",
        ("runtime/encoding.py", "Crops(device.pinned(crops.pixels), crops.grid)", "crops"),
        tests=(MODEL_STEPS,),
    ),
    fault(
        7,
        "an adapter's weights are not page-locked",
        (
            "models/moondream/lora.py",
            "flat = pinned(torch.cat([part.to(dtype).flatten() for part in parts]))",
            "flat = torch.cat([part.to(dtype).flatten() for part in parts])",
        ),
        tests=(MODEL_STEPS,),
    ),
    fault(
        7,
        "the compute stream does not wait for what was made on the default stream",
        (
            RUNNER,
            "        self._device.settle()\n        if not self._device.captures:",
            "        if not self._device.captures:",
        ),
        tests=(STEPS, EXACT),
    ),
    fault(
        7,
        "the compute stream does not wait for the room that was made for an adapter",
        (RUNNER, "        self._device.settle()\n\n    def warm_up", "\n    def warm_up"),
        tests=(MODEL_STEPS,),
    ),
)
