"""Turns steps into work on the two streams: stage and launch, sample, collect.

The last sampled value of every batch row stands in a device table indexed by row: sampling scatters into it and the
next forward gathers from it, so a step can be launched before the host has seen the values that it continues from
(design: engine 2). The host stages only what it knows at launch, in buffers that the step's slot owns.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from photon.devices.base import Device
from photon.errors import InvalidRequestError
from photon.request import Choice, Token
from photon.runtime.executor import Executor
from photon.runtime.sampling import SampleNeeds, uniform
from photon.runtime.slot import MAX_ALLOWED, MAX_BANNED, VALUES, Slot, SlotSizes
from photon.scheduler.pipeline import SLOTS
from photon.scheduler.sequence import Sequence, Step

_ROW_FIELDS = 4

Outputs = tuple[torch.Tensor, torch.Tensor]
"""Hidden states [B, F] and logits [B, V] of a step."""


class Runner:
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
        self._coord_id, self._size_id = coord_id, size_id
        self.slots = [Slot(i, device, sizes) for i in range(SLOTS)]
        where = device.torch_device
        rows = sizes.max_batch + 1  # the last one is scratch: padding reads and writes there
        self._pending_ids = torch.zeros(rows, dtype=torch.int64, device=where)
        self._pending_values = torch.zeros(rows, 3, device=where)
        self._page_tables = np.zeros((rows, sizes.max_pages), dtype=np.int64)
        self._batch_buckets = device.buckets(sizes.max_batch)
        self._page_buckets = device.buckets(sizes.max_pages)
        self._forwards: dict[tuple[int, ...], Callable[[], Outputs]] = {}

    def seat(self, sequence: Sequence) -> None:
        """Note an admitted sequence's page table: shared prefix pages first, then its own."""
        shared = sequence.prefix.pages[: sequence.prefix.shared] if sequence.prefix else []
        table = self._page_tables[sequence.row]
        count = len(shared) + len(sequence.pages)
        table[:count] = shared + sequence.pages
        table[count:] = 0

    # -- launch ---------------------------------------------------------------------------------------------------

    def launch(self, step: Step) -> None:
        """Stage the step and enqueue its forward."""
        slot = self.slots[step.slot]
        slot.error = None
        work = self._stage_prefill(slot, step) if step.kind == "prefill" else self._stage_decode(slot, step)
        compute = self._device.compute
        compute.record(slot.forward_start)
        compute.run(self._guarded(slot, work))
        compute.record(slot.forward_end)

    def _stage_decode(self, slot: Slot, step: Step) -> Callable[[], None]:
        sequences, count = step.sequences, len(step.sequences)
        rows = slot.rows.array
        batch, last = _padded(count, self._batch_buckets), 0
        for i, sequence in enumerate(sequences):
            position = len(sequence.request.prompt) + sequence.launched - 1
            if sequence.prefix:
                position += self._prefix_length(sequence)
            rows[i, :_ROW_FIELDS] = (sequence.row, position, 1, sequence.adapter_slot)
            last = max(last, position)
        adapted = any(s.adapter_slot for s in sequences)
        pages = _padded(last // self._page_size + 1, self._page_buckets)
        rows[count:batch, :_ROW_FIELDS] = (self._sizes.max_batch, 0, 1, 0)
        rows[:batch, _ROW_FIELDS : _ROW_FIELDS + pages] = self._page_tables[rows[:batch, 0], :pages]
        forward = self._captured(slot, batch, pages, adapted)

        def work() -> None:
            slot.rows.upload(batch)
            slot.hidden, slot.logits = forward()

        return work

    def _captured(self, slot: Slot, batch: int, pages: int, adapted: bool) -> Callable[[], Outputs]:
        """The decode forward of one slot and shape; a device that can makes it cheap to repeat."""
        key = (slot.index, batch, pages, int(adapted))
        found = self._forwards.get(key)
        if found is None:
            found = self._device.capture(key, lambda: self._decode(slot, batch, pages, adapted))
            self._forwards[key] = found
        return found

    def _decode(self, slot: Slot, batch: int, pages: int, adapted: bool) -> Outputs:
        staged = slot.rows.device[:batch]
        row = staged[:, 0]
        return self._executor.decode(
            self._pending_ids[row],
            self._pending_values[row],
            staged[:, 1],
            staged[:, _ROW_FIELDS : _ROW_FIELDS + pages],
            staged[:, 3] if adapted else None,
        )

    def warm_up(self) -> None:
        """Capture every decode shape of a device that captures, so that nothing is allocated later."""
        for batch in self._batch_buckets:
            for pages in self._page_buckets:
                for slot in self.slots:
                    self._captured(slot, batch, pages, adapted=False)

    def _stage_prefill(self, slot: Slot, step: Step) -> Callable[[], None]:
        sequences, count = step.sequences, len(step.sequences)
        longest = max(len(s.request.prompt) for s in sequences)
        rows, ids, values = slot.rows.array, slot.token_ids.array, slot.token_values.array
        last = 0
        for i, sequence in enumerate(sequences):
            prompt = sequence.request.prompt
            start = self._prefix_length(sequence)
            rows[i, :_ROW_FIELDS] = (sequence.row, start, len(prompt), sequence.adapter_slot)
            at = i * longest
            ids[at : at + longest] = 0
            ids[at : at + len(prompt)] = [t.id for t in prompt]
            values[at : at + longest] = 0.0
            values[at : at + len(prompt)] = [t[1:4] for t in prompt]
            last = max(last, start + longest - 1)
        adapted = any(s.adapter_slot for s in sequences)
        pages = min(last // self._page_size + 1, self._sizes.max_pages)
        rows[:count, _ROW_FIELDS : _ROW_FIELDS + pages] = self._page_tables[rows[:count, 0], :pages]
        step.tokens = sum(len(s.request.prompt) for s in sequences)
        prefixes = self._prefix_work(step)

        def work() -> None:
            prefixes()
            staged = slot.rows.upload(count)
            total = count * longest
            offsets = torch.arange(longest, device=staged.device)
            valid = offsets < staged[:, 2:3]
            positions = (staged[:, 1:2] + offsets).where(valid, staged[:, 1:2])
            slot.hidden, slot.logits = self._executor.prompt(
                slot.token_ids.upload(total).view(count, longest),
                slot.token_values.upload(total).view(count, longest, 3),
                positions,
                valid,
                staged[:, _ROW_FIELDS : _ROW_FIELDS + pages],
                staged[:, 3] if adapted else None,
            )

        return work

    def _prefix_work(self, step: Step) -> Callable[[], None]:
        """Load the step's new adapters, compute the prefixes that it leads, copy partial tail pages to their rows."""
        loads = [(s.adapter_slot, s.request.adapter) for s in step.sequences if s.loads_adapter and s.request.adapter]
        leads = [s.prefix.pages for s in step.leaders if s.prefix]
        slots = [s.adapter_slot for s in step.leaders]
        tails = [(s.prefix.tail, s.pages[0]) for s in step.sequences if s.prefix and s.prefix.tail is not None]
        crops, where = step.crops, self._device.torch_device

        def work() -> None:
            for slot, adapter in loads:
                self._executor.load_adapter(slot, adapter)
            if leads:
                adapters = torch.tensor(slots, device=where) if any(slots) else None
                self._executor.prefix(crops, torch.tensor(leads, device=where), adapters)
            if tails:
                source, target = torch.tensor(tails, device=where).unbind(1)
                self._executor.copy_pages(source, target)

        return work

    @staticmethod
    def _prefix_length(sequence: Sequence) -> int:
        return sequence.prefix.length if sequence.prefix else 0

    # -- sample ---------------------------------------------------------------------------------------------------

    def sample(self, step: Step, choices: list[Choice]) -> None:
        """Enqueue sampling under `choices`, the scatter into the pending table, and the copy to the host."""
        slot = self.slots[step.slot]
        compute, copy = self._device.compute, self._device.copy
        try:
            work = self._stage_sampling(slot, step, choices)
        except Exception as error:
            slot.error = slot.error or error
            work = _nothing
        compute.record(slot.sampling_start)
        compute.run(self._guarded(slot, work))
        compute.record(slot.step_done)
        copy.wait(slot.step_done)
        copy.record(slot.copy_start)
        copy.run(self._guarded(slot, lambda: self._copy_out(slot, len(choices))))
        copy.record(slot.copy_done)

    def _stage_sampling(self, slot: Slot, step: Step, choices: list[Choice]) -> Callable[[], None]:
        count = len(choices)
        needs = self._stage_choices(slot, step, choices)

        def work() -> None:
            assert slot.hidden is not None
            assert slot.logits is not None
            ids, values = self._executor.sample(
                slot.hidden[:count],
                slot.logits[:count],
                slot.choice_ids.upload(count),
                slot.choice_params.upload(count),
                needs,
            )
            row = slot.rows.device[:count, 0]
            self._pending_ids[row] = ids
            self._pending_values[row] = values[:, :3]
            slot.out_ids[:count] = ids
            slot.out_values[:count] = values

        return work

    def _stage_choices(self, slot: Slot, step: Step, choices: list[Choice]) -> SampleNeeds:
        ids, params = slot.choice_ids.array, slot.choice_params.array
        opened = coords = sizes = drawn = False
        for i, (sequence, choice) in enumerate(zip(step.sequences, choices, strict=True)):
            allowed, banned = choice
            if allowed is None:
                opened = coords = sizes = True
                ids[i, 0] = 0
            else:
                if not 0 < len(allowed) <= MAX_ALLOWED:
                    raise InvalidRequestError(f"An allow-list has {len(allowed)} ids; allowed is 1..{MAX_ALLOWED}.")
                ids[i, 0] = len(allowed)
                ids[i, 1 : 1 + len(allowed)] = allowed
                ids[i, 1 + len(allowed) : 1 + MAX_ALLOWED] = 0
                coords = coords or self._coord_id in allowed
                sizes = sizes or self._size_id in allowed
            if allowed is None or banned:
                if len(banned) > MAX_BANNED:
                    raise InvalidRequestError(f"{len(banned)} ids are banned; allowed are up to {MAX_BANNED}.")
                ids[i, 1 + MAX_ALLOWED :] = (*banned, *(-1,) * (MAX_BANNED - len(banned)))
            sampling = sequence.request.sampling
            params[i, 0] = sampling.temperature
            if sampling.temperature > 0:
                drawn = True
                at = 3 * (sequence.launched - 1)
                params[i, 1:] = (sampling.top_p, *(uniform(sampling.seed, at + k) for k in range(3)))
        return SampleNeeds(opened, coords, sizes, drawn)

    def _copy_out(self, slot: Slot, count: int) -> None:
        slot.host_ids[:count].copy_(slot.out_ids[:count], non_blocking=True)
        slot.host_values[:count].copy_(slot.out_values[:count], non_blocking=True)

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
        values = slot.host_values[:count].tolist()
        return [Token(i, *v) for i, v in zip(slot.host_ids[:count].tolist(), values, strict=True)]


def _padded(count: int, buckets: tuple[int, ...]) -> int:
    return next((b for b in buckets if b >= count), count)


def _nothing() -> None:
    return


assert len(Token._fields) == VALUES + 1
