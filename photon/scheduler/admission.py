"""Who may run next: in arrival order, with everything that a request needs reserved up front.

A request that is still being prepared, or waits for a prefix that another one computes, lets those behind it pass.
One that is ready but does not fit, or belongs to the other mode, holds the queue: order is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from photon.core.request import Mode, Request
from photon.core.sequence import Sequence
from photon.errors import InvalidRequestError
from photon.memory.adapter_slots import AdapterSlots
from photon.memory.pages import Pool, pages_for
from photon.memory.prefix_cache import PrefixCache
from photon.scheduler.preparation import Preparation

LOOKAHEAD = 2
"""How many batches ahead of their admission pictures are prepared."""


@dataclass(frozen=True)
class Limits:
    """max_batch rows; a prefill launch holds at most max_prefill_tokens (padded) and max_prefill_images new images."""

    max_batch: int
    max_prefill_tokens: int
    max_prefill_images: int
    max_context: int
    page_size: int


class Admission:
    def __init__(
        self,
        limits: Limits,
        rows: Pool,
        pages: Pool,
        prefixes: PrefixCache,
        adapters: AdapterSlots,
        preparation: Preparation,
    ) -> None:
        self._limits = limits
        self._rows = rows
        self._pages = pages
        self._prefixes = prefixes
        self._adapters = adapters
        self._preparation = preparation
        self.waiting: list[Sequence] = []
        self.changed = False
        """Whether the queue, a picture or a prefix is not as it was when pictures were last prepared ahead."""
        self.closed_for: Mode | None = None
        """The mode that waits for a change-over, if one does."""

    def refuse_if_impossible(self, request: Request) -> None:
        """Raises `InvalidRequestError` for a request that could never run, naming the limit that it breaks."""
        if request.limit < 1:
            raise InvalidRequestError(f"The answer may have {request.limit} tokens; allowed is at least 1.")
        prefix = self._prefixes.length if request.image else 0
        total = prefix + len(request.prompt) + request.limit
        if total > self._limits.max_context:
            raise InvalidRequestError(
                f"The prompt ({prefix + len(request.prompt)} positions) and its answer (up to {request.limit} tokens) "
                f"need {total} positions; the model's context allows {self._limits.max_context}."
            )
        if len(request.prompt) > self._limits.max_prefill_tokens:
            raise InvalidRequestError(
                f"The prompt has {len(request.prompt)} tokens; allowed are {self._limits.max_prefill_tokens}."
            )
        needed = self._own_pages(request) + (self._prefixes.size if request.image else 0)
        if needed > self._pages.total:
            raise InvalidRequestError(
                f"The request needs {needed} pages of the KV cache; there are {self._pages.total}. "
                "Ask for fewer tokens or objects, or give the engine more pages."
            )

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)
        self.changed = True

    def remove(self, sequence: Sequence) -> None:
        self.waiting.remove(sequence)
        self.changed = True

    def prepare_ahead(self, fail: Callable[[Sequence, BaseException], None]) -> None:
        """Start the pictures of the next requests in line; a picture that could not be prepared fails its requests."""
        if not self.changed:
            return
        self.changed = False
        ahead, wanted = LOOKAHEAD * self._limits.max_batch, set[bytes]()
        for sequence in tuple(self.waiting):
            if ahead == 0:
                break
            image = sequence.request.image
            prefix = self._prefixes.find(self.prefix_key(sequence)) if image else None
            job = self._preparation.find(image.key) if image else None
            if job and job.error and not prefix:
                fail(sequence, job.error)
                continue  # it takes no place in line
            ahead -= 1
            if image and not (prefix and prefix.ready):
                wanted.add(image.key)  # also while another computes the prefix: that may fail
                if not prefix:
                    self._preparation.start(image)
        self._preparation.keep_only(wanted)

    def next_batch(self, mode: Mode | None, decoding: int) -> list[Sequence]:
        """Admit the requests of the next prefill launch, beside `decoding` rows that want more tokens.

        `mode` is that of the rows that run, None if none does. Rows whose last step is launched take no place in the
        batch any more, seen or not: otherwise a flood of short answers would wait for each commit.
        """
        batch: list[Sequence] = []
        longest = images = 0
        self.closed_for = None
        for sequence in self.waiting:
            if not self._is_ready(sequence):
                continue
            if mode is not None and sequence.mode != mode:
                self.closed_for = sequence.mode
                break
            longest = max(longest, len(sequence.request.prompt))
            if longest * (len(batch) + 1) > self._limits.max_prefill_tokens and batch:
                break
            if decoding + len(batch) == self._limits.max_batch or not self._reserve(sequence):
                break
            batch.append(sequence)
            mode = sequence.mode
            images += sequence.leads
            if images >= self._limits.max_prefill_images:
                break
        for sequence in batch:
            self.remove(sequence)
        return batch

    @staticmethod
    def prefix_key(sequence: Sequence) -> Hashable:
        """Adapter content and image content; the model is the engine's own (design: engine 2)."""
        image = sequence.request.image
        adapter = sequence.request.adapter
        return (adapter and adapter.key, image.key) if image else None

    def _is_ready(self, sequence: Sequence) -> bool:
        image, adapter = sequence.request.image, sequence.request.adapter
        if adapter and self._adapters.is_pending(adapter.key):
            return False
        if image is None:
            return True
        prefix = self._prefixes.find(self.prefix_key(sequence))
        if prefix is not None:
            return prefix.ready
        job = self._preparation.find(image.key)
        return job is not None and job.error is None

    def _reserve(self, sequence: Sequence) -> bool:
        """Take a row, the pages and the prefix, or leave everything as it was."""
        key = self.prefix_key(sequence)
        found = self._prefixes.find(key) if key else None
        if found:
            self._prefixes.pin(found)  # making room must not evict what the request is about to use
        own = self._own_pages(sequence.request)
        adapter = sequence.request.adapter
        leads = key is not None and found is None
        seated = self._rows.free > 0 and (adapter is None or self._adapters.has_room(adapter.key))
        if not seated or not self._prefixes.make_room(own + (self._prefixes.size if leads else 0)):
            if found:
                self._prefixes.unpin(found)
            return False
        if adapter:
            sequence.adapter_slot, sequence.loads_adapter = self._adapters.take(adapter.key)
        sequence.leads = leads
        sequence.prefix = self._prefixes.lead(key) if leads else found
        sequence.pages = self._pages.take(own)
        (sequence.row,) = self._rows.take(1)
        return True

    def _own_pages(self, request: Request) -> int:
        """The last generated token is never fed, so it needs no position."""
        prefix = self._prefixes.length if request.image else 0
        positions = prefix + len(request.prompt) + request.limit - 1
        shared = self._prefixes.shared if request.image else 0
        return pages_for(positions, self._limits.page_size) - shared
