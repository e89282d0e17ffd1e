"""What a request holds while it runs: a batch row, pages, an image prefix, an adapter slot; taken and given together.

The one ledger: whatever `reserve` takes `release` gives back, and `check` holds both against the rows that run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from photon.core.request import Request
from photon.core.sequence import Sequence
from photon.core.step import Step
from photon.errors import InvalidRequestError
from photon.memory.adapter_slots import AdapterSlots
from photon.memory.pages import Pool, pages_for
from photon.memory.prefix_cache import Prefix, PrefixCache


class Reservations:
    """`pages` is also the pool that `prefixes` takes from."""

    def __init__(self, rows: Pool, pages: Pool, prefixes: PrefixCache, adapters: AdapterSlots, page_size: int) -> None:
        self.rows = rows
        self.pages = pages
        self.prefixes = prefixes
        self.adapters = adapters
        self._page_size = page_size

    def refuse_if_impossible(self, request: Request) -> None:
        """Raises `InvalidRequestError` for a request that all pages together could not hold."""
        needed = self._own_pages(request) + (self.prefixes.size if request.image else 0)
        if needed > self.pages.total:
            raise InvalidRequestError(
                f"The request needs {needed} pages of the KV cache; there are {self.pages.total}. "
                "Ask for fewer tokens or objects, or give the engine more pages."
            )

    def prefix_of(self, sequence: Sequence) -> Prefix | None:
        """The pending or ready prefix of the sequence's picture. Changes nothing."""
        key = prefix_key(sequence)
        return self.prefixes.find(key) if key else None

    def waits_for_adapter(self, sequence: Sequence) -> bool:
        """Whether a launched step is still loading the sequence's adapter."""
        adapter = sequence.request.adapter
        return adapter is not None and self.adapters.is_pending(adapter.key)

    def reserve(self, sequence: Sequence) -> bool:
        """Take a row, the pages, the prefix and the adapter, or leave everything as it was."""
        key, adapter = prefix_key(sequence), sequence.request.adapter
        found = self.prefixes.find(key) if key else None
        if found:
            self.prefixes.pin(found)  # making room must not evict what the request is about to use
        own = self._own_pages(sequence.request)
        leads = key is not None and found is None
        seated = self.rows.free > 0 and (adapter is None or self.adapters.has_room(adapter.key))
        if not seated or not self.prefixes.make_room(own + (self.prefixes.size if leads else 0)):
            if found:
                self.prefixes.unpin(found)
            return False
        if adapter:
            sequence.adapter_slot, sequence.loads_adapter = self.adapters.take(adapter.key)
        sequence.leads = leads
        sequence.prefix = self.prefixes.lead(key) if leads else found
        sequence.pages = self.pages.take(own)
        (sequence.row,) = self.rows.take(1)
        return True

    def release(self, sequence: Sequence) -> None:
        """Give back what `reserve` took. No launched step may use it any more."""
        self.rows.give([sequence.row])
        self.pages.give(sequence.pages)
        if sequence.prefix:
            self.prefixes.unpin(sequence.prefix)
        if sequence.adapter_slot:
            self.adapters.give(sequence.adapter_slot)

    def settle(self, step: Step) -> None:
        """Others may use what a prefill brought. Only the step's own error fails it, not a cancelled leader."""
        for sequence in step.sequences:
            if sequence.loads_adapter:
                settle = self.adapters.loaded if step.error is None else self.adapters.failed
                settle(sequence.adapter_slot)
        for sequence in step.leaders:
            assert sequence.prefix is not None
            if step.error is None and not sequence.tainted:
                self.prefixes.commit(sequence.prefix)
            else:
                self.prefixes.fail(sequence.prefix)

    def check(self, running: Iterable[Sequence]) -> None:
        """Every row and page has one owner, free + cached = total at idle. Raises `OwnershipError` otherwise."""
        running = list(running)
        self.rows.check([[s.row] for s in running])
        self.adapters.check(s.adapter_slot for s in running)
        orphans = {id(s.prefix): s.prefix for s in running if s.prefix}
        prefixes = {id(p): p for p in self.prefixes} | orphans
        self.pages.check([*(s.pages for s in running), *(p.pages for p in prefixes.values() if p)])

    def _own_pages(self, request: Request) -> int:
        """The last generated token is never fed, so it needs no position."""
        prefix = self.prefixes.length if request.image else 0
        positions = prefix + len(request.prompt) + request.limit - 1
        shared = self.prefixes.shared if request.image else 0
        return pages_for(positions, self._page_size) - shared


def prefix_key(sequence: Sequence) -> Hashable:
    """Adapter content and image content; the model is the engine's own (docs/engine.md "Image prefixes")."""
    image = sequence.request.image
    adapter = sequence.request.adapter
    return (adapter and adapter.key, image.key) if image else None
