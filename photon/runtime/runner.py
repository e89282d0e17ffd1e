"""Turns steps into work on the two streams: stage and launch, sample, collect.

The last sampled value of every batch row stands in a device table indexed by row: sampling scatters into it and the
next forward gathers from it, so a step can be launched before the host has seen the values that it continues from
(docs/engine.md 2). The host stages only what it knows at launch, in buffers that the step's slot owns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from math import isfinite

import numpy as np
import torch

from photon.core.request import Choice, Token
from photon.core.sequence import Sequence
from photon.core.step import SLOTS, Step
from photon.devices.base import Device
from photon.models.moondream.lora import Adapter
from photon.runtime.choices import ChoiceRows
from photon.runtime.executor import Executor, Outputs
from photon.runtime.sampling import uniform
from photon.runtime.slot import ADAPTER, COUNT, FIRST, PAGES, ROW, VALUES, Slot, SlotSizes

Shape = tuple[int, int, int, int]
"""Of a decode step: slot, batch, pages, whether a row has an adapter."""


class Runner:
    """Owns the slots and the pending table; `executor` has the model and its cache of pages of `page_size`."""

    def __init__(
        self,
        device: Device,
        executor: Executor,
        sizes: SlotSizes,
        page_size: int,
        coord_id: int,
        size_id: int,
    ) -> None:
        self._device = device
        self._executor = executor
        self._sizes = sizes
        self._page_size = page_size
        self._choices = ChoiceRows(coord_id, size_id)
        self.slots = [Slot(i, device, sizes) for i in range(SLOTS)]
        rows = sizes.rows + 1  # the last one is scratch: padding reads and writes there
        self._pending_ids = device.zeros(rows, dtype=torch.int64)
        self._pending_values = device.zeros(rows, 3, dtype=torch.float32)
        self._page_tables = np.zeros((rows, sizes.max_pages), dtype=np.int64)
        self._batch_buckets = device.buckets(sizes.max_batch)
        # Below a prefix's pages there are only questions without a picture: they are few, and padded up.
        self._page_buckets = tuple(b for b in device.buckets(sizes.max_pages) if b >= sizes.prefix_pages)
        self._prompt_buckets = device.buckets(sizes.max_tokens)
        self._forwards: dict[Shape, Callable[[], Outputs]] = {}
        self._missing: dict[Shape, None] = {}
        """Decode shapes that ran without having been captured, in the order in which they were first met."""

    def seat(self, sequence: Sequence) -> None:
        """Note an admitted sequence's page table (shared prefix pages first, then its own) and where it goes on."""
        shared = sequence.prefix.pages[: sequence.prefix.shared] if sequence.prefix else []
        table = self._page_tables[sequence.row]
        count = len(shared) + len(sequence.pages)
        table[:count] = shared + sequence.pages
        table[count:] = 0
        sequence.base = self._prefix_length(sequence) + len(sequence.request.prompt) - 1

    # -- launch ---------------------------------------------------------------------------------------------------

    def launch(self, step: Step) -> None:
        """Stage the step and enqueue its forward. What fails is kept for commit; raises only if the device refuses."""
        slot = self.slots[step.slot]
        slot.error = None
        stage = self._stage_prefill if step.kind == "prefill" else self._stage_decode
        work = self._staged(slot, lambda: stage(slot, step))
        self._device.compute.span(slot.forward_start, self._guarded(slot, work), slot.forward_end)

    def _stage_decode(self, slot: Slot, step: Step) -> Callable[[], None]:
        """Rows stay together until one ends, so most of what a slot last staged still holds: not the positions."""
        cohort = tuple([s.id for s in step.sequences])
        if slot.cohort != cohort:
            slot.cohort = None  # should staging fail half-way, nothing that it wrote counts as staged
            self._stage_cohort(slot, step.sequences)
            slot.cohort = cohort
        positions = [s.base + s.launched for s in step.sequences]
        slot.rows.array[: len(positions), FIRST] = positions
        batch = _padded(len(positions), self._batch_buckets)
        pages = _padded(max(positions) // self._page_size + 1, self._page_buckets)
        forward = self._forward(slot, batch, pages, slot.adapted)

        def work() -> None:
            slot.rows.upload(batch)
            slot.hidden, slot.logits = forward()

        return work

    def _stage_cohort(self, slot: Slot, sequences: list[Sequence]) -> None:
        """All that does not change while the same rows decode; padding belongs to the scratch row."""
        count = len(sequences)
        batch, rows = _padded(count, self._batch_buckets), slot.rows.array
        rows[:count, :PAGES] = [(s.row, 0, 1, s.adapter_slot) for s in sequences]
        rows[count:batch, :PAGES] = (self._sizes.rows, 0, 1, 0)
        rows[:batch, PAGES:] = self._page_tables[rows[:batch, ROW]]
        self._stage_sampling_params(slot, sequences)
        slot.adapted = any(s.adapter_slot for s in sequences)

    def _forward(self, slot: Slot, batch: int, pages: int, adapted: bool) -> Callable[[], Outputs]:
        """The decode forward of one slot and shape. One that is not captured runs as it is until the engine is idle."""
        shape = (slot.index, batch, pages, int(adapted))
        found = self._forwards.get(shape)
        if found is None:
            if self._device.captures:
                self._missing[shape] = None
            return partial(self._decode, slot, batch, pages, adapted)
        return found

    def _capture(self, shape: Shape) -> None:
        index, batch, pages, adapted = shape
        slot = self.slots[index]
        # The trial run reads a pending value and writes it: the scratch row's, always a number, to the scratch page.
        self._device.compute.run(partial(_to_scratch, slot.rows.device, self._sizes.rows))
        work = partial(self._decode, slot, batch, pages, bool(adapted))
        self._forwards[shape] = self._device.capture(shape, work)

    def capture_missing(self) -> bool:
        """Capture one shape that ran without. Call it while nothing is launched. False if none is missing."""
        if not self._missing:
            return False
        shape = next(iter(self._missing))
        del self._missing[shape]
        self._capture(shape)
        return True

    def _decode(self, slot: Slot, batch: int, pages: int, adapted: bool) -> Outputs:
        staged = slot.rows.device[:batch]
        row = staged[:, ROW]
        return self._executor.decode(
            self._pending_ids[row],
            self._pending_values[row],
            staged[:, FIRST],
            staged[:, PAGES : PAGES + pages],
            staged[:, ADAPTER] if adapted else None,
        )

    def add_adapter(self, adapter: Adapter) -> None:
        """Make room for its weights on the device. Call it while no step is being staged.

        Captured steps know the sites that had weights then; with another site they are captured anew.
        """
        if self._executor.add_adapter(adapter):
            self._forwards = {shape: forward for shape, forward in self._forwards.items() if not shape[-1]}
        self._device.settle()

    def warm_up(self) -> None:
        """Capture every decode shape of a device that captures, so that nothing is allocated later."""
        self._device.settle()
        if not self._device.captures:
            return
        for batch in self._batch_buckets:
            for pages in self._page_buckets:
                for slot in self.slots:
                    self._capture((slot.index, batch, pages, 0))

    def clear(self, pages: list[int]) -> None:
        """Zero whole pages, and what padding left on the scratch page, after all that is launched."""
        numbers = self._device.pinned(torch.tensor([0, *pages]))

        def work() -> None:
            self._executor.clear_pages(numbers.to(self._device.torch_device, non_blocking=True))

        self._device.compute.run(work)

    def _stage_prefill(self, slot: Slot, step: Step) -> Callable[[], None]:
        sequences, count = step.sequences, len(step.sequences)
        longest = self._padded_prompt(max(len(s.request.prompt) for s in sequences), count)
        rows, ids, values = slot.rows.array, slot.token_ids.array, slot.token_values.array
        slot.cohort, last = None, 0
        self._stage_sampling_params(slot, sequences)
        for i, sequence in enumerate(sequences):
            prompt = sequence.request.prompt
            start = self._prefix_length(sequence)
            rows[i, :PAGES] = (sequence.row, start, len(prompt), sequence.adapter_slot)
            at = i * longest
            ids[at : at + longest] = 0
            ids[at : at + len(prompt)] = [t.id for t in prompt]
            values[at : at + longest] = 0.0
            values[at : at + len(prompt)] = [t[1:4] for t in prompt]
            last = max(last, start + longest - 1)
        adapted = any(s.adapter_slot for s in sequences)
        pages = min(last // self._page_size + 1, self._sizes.max_pages)
        rows[:count, PAGES : PAGES + pages] = self._page_tables[rows[:count, ROW], :pages]
        step.tokens = sum(len(s.request.prompt) for s in sequences)
        prefixes = self._stage_shared(slot, step)

        def work() -> None:
            prefixes()
            staged = slot.rows.upload(count)
            total = count * longest
            offsets = torch.arange(longest, device=staged.device)
            first, counts = staged[:, FIRST, None], staged[:, COUNT, None]
            valid = offsets < counts
            positions = (first + offsets).where(valid, first)
            slot.hidden, slot.logits = self._executor.prompt(
                slot.token_ids.upload(total).view(count, longest),
                slot.token_values.upload(total).view(count, longest, 3),
                positions,
                valid,
                staged[:, PAGES : PAGES + pages],
                staged[:, ADAPTER] if adapted else None,
            )

        return work

    def _padded_prompt(self, longest: int, count: int) -> int:
        """Few shapes, so that the allocator of a device that captures soon has seen them all.

        Prefills are not captured: that would take a graph for each number of rows, prompts and pages, and the crops
        of their pictures differ besides.
        """
        padded = _padded(longest, self._prompt_buckets)
        return padded if padded * count <= self._sizes.max_tokens else longest

    def _stage_shared(self, slot: Slot, step: Step) -> Callable[[], None]:
        """Load the step's new adapters, compute the prefixes that it leads, copy partial tail pages to their rows."""
        loads = [(s.adapter_slot, s.request.adapter) for s in step.sequences if s.loads_adapter and s.request.adapter]
        leads = [(s.adapter_slot, *s.prefix.pages) for s in step.leaders if s.prefix]
        tails = [(s.prefix.tail, s.pages[0]) for s in step.sequences if s.prefix and s.prefix.tail is not None]
        slot.prefixes.array[: len(leads)] = leads or 0
        slot.tails.array[: len(tails)] = tails or 0
        adapted = any(lead[0] for lead in leads)
        crops = step.crops

        def work() -> None:
            for number, adapter in loads:
                self._executor.load_adapter(number, adapter)
            if leads:
                staged = slot.prefixes.upload(len(leads))
                self._executor.prefix(crops, staged[:, 1:], staged[:, 0] if adapted else None)
            if tails:
                staged = slot.tails.upload(len(tails))
                self._executor.copy_pages(staged[:, 0], staged[:, 1])

        return work

    @staticmethod
    def _prefix_length(sequence: Sequence) -> int:
        return sequence.prefix.length if sequence.prefix else 0

    # -- sample ---------------------------------------------------------------------------------------------------

    def check(self, choice: Choice) -> None:
        """Raises `InvalidRequestError` for a choice that no sampling can follow."""
        self._choices.check(choice)

    def sample(self, step: Step, choices: list[Choice]) -> None:
        """Enqueue sampling under `choices`, the scatter into the pending table, and the copy to the host."""
        slot, compute, copy = self.slots[step.slot], self._device.compute, self._device.copy
        work = self._staged(slot, lambda: self._stage_sampling(slot, step, choices))
        compute.span(slot.sampling_start, self._guarded(slot, work), slot.step_done)
        copy.wait(slot.step_done)
        copy_out = self._guarded(slot, lambda: self._copy_out(slot, len(choices)))
        copy.span(slot.copy_start, copy_out, slot.copy_done)

    def _stage_sampling(self, slot: Slot, step: Step, choices: list[Choice]) -> Callable[[], None]:
        count = len(choices)
        needs = self._choices.stage(choices, slot.choice_ids.array)
        if slot.drawn:
            self._stage_draws(slot, step.sequences)
            needs = needs._replace(drawn=True)

        def work() -> None:
            hidden, logits = slot.outputs(count)
            ids, values = self._executor.sample(
                hidden,
                logits,
                slot.choice_ids.upload(count),
                slot.choice_params.upload(count) if needs.drawn else slot.choice_params.device[:count],
                needs,
            )
            row = slot.rows.device[:count, ROW]
            self._pending_ids[row] = ids
            self._pending_values[row] = values[:, :3]
            slot.out_ids[:count] = ids
            slot.out_values[:count] = values

        return work

    @staticmethod
    def _stage_sampling_params(slot: Slot, sequences: list[Sequence]) -> None:
        params = [s.request.sampling for s in sequences]
        slot.choice_params.array[: len(params), :2] = [(p.temperature, p.top_p) for p in params]
        slot.drawn = [i for i, p in enumerate(params) if p.temperature > 0]

    @staticmethod
    def _stage_draws(slot: Slot, sequences: list[Sequence]) -> None:
        """A draw depends on the request's seed and the token's index only."""
        for i in slot.drawn:
            seed, at = sequences[i].request.sampling.seed, 3 * (sequences[i].launched - 1)
            slot.choice_params.array[i, 2:] = [uniform(seed, at + k) for k in range(3)]

    def _copy_out(self, slot: Slot, count: int) -> None:
        slot.host_ids[:count].copy_(slot.out_ids[:count], non_blocking=True)
        slot.host_values[:count].copy_(slot.out_values[:count], non_blocking=True)

    @staticmethod
    def _staged(slot: Slot, stage: Callable[[], Callable[[], None]]) -> Callable[[], None]:
        """A step whose staging fails does nothing on the device: its slot still holds another step's rows there."""
        try:
            return stage()
        except Exception as error:
            slot.error = slot.error or error
            return _nothing

    def _guarded(self, slot: Slot, work: Callable[[], None]) -> Callable[[], None]:
        """The step's first error is kept for commit; the rest of its work is skipped."""

        def run() -> None:
            if slot.error is None:
                try:
                    work()
                except Exception as error:
                    slot.error = error

        return run

    # -- collect --------------------------------------------------------------------------------------------------

    def collect(self, step: Step) -> list[Token]:
        """Wait for the step's copy and read it. Raises the error of the step's work, if it had one."""
        slot = self.slots[step.slot]
        slot.copy_done.synchronize()
        if slot.error is not None:
            raise slot.error
        count = len(step.sequences)
        columns = slot.host_values_array[:count].T.tolist()
        step.overflowed = not isfinite(sum(map(sum, columns)))
        return list(map(_token, zip(slot.host_ids_array[:count].tolist(), *columns, strict=True)))


_token: Callable[[tuple[float, ...]], Token] = partial(tuple.__new__, Token)
"""`Token._make` without its Python call: a step makes one a row."""


def _padded(count: int, buckets: tuple[int, ...]) -> int:
    """The first bucket that holds `count`, or `count` itself."""
    i = bisect_left(buckets, count)
    return buckets[i] if i < len(buckets) else count


def _to_scratch(rows: torch.Tensor, scratch_row: int) -> None:
    rows.zero_()
    rows[:, ROW] = scratch_row


def _nothing() -> None:
    return


assert len(Token._fields) == VALUES + 1
