"""Who may run next: in arrival order, with everything that a request needs reserved up front.

A request that is still being prepared, or waits for a prefix that another one computes, lets those behind it pass.
One that is ready but does not fit, or belongs to the other mode, holds the queue: order is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from photon.core.request import Mode, Request
from photon.core.sequence import Sequence
from photon.errors import InvalidRequestError
from photon.scheduler.preparation import Preparation
from photon.scheduler.reservations import Reservations

LOOKAHEAD = 2
"""How many batches ahead of their admission pictures are prepared."""


@dataclass(frozen=True)
class Limits:
    """max_batch rows; a prefill launch holds at most max_prefill_tokens (padded) and max_prefill_images new images.

    A prompt of more than max_prefill_tokens is launched alone.
    """

    max_batch: int
    max_prefill_tokens: int
    max_prefill_images: int
    max_context: int
    page_size: int


class InLine(NamedTuple):
    """ready: who could be launched now if the cache has room. full: no more could. shut_out: ready, but without row."""

    ready: int
    full: bool
    shut_out: int


NOBODY = InLine(0, False, 0)


class _Batch:
    """A prefill launch as it fills, beside `decoding` rows."""

    def __init__(self, limits: Limits, decoding: int) -> None:
        self._limits = limits
        self._places = limits.max_batch - decoding
        self._longest = self._images = 0
        self.sequences: list[Sequence] = []

    def has_room(self, sequence: Sequence) -> bool:
        self._longest = max(self._longest, len(sequence.request.prompt))
        padded = self._longest * (len(self.sequences) + 1)
        fits = padded <= self._limits.max_prefill_tokens or not self.sequences
        return fits and len(self.sequences) < self._places

    def add(self, sequence: Sequence, leads: bool) -> None:
        self.sequences.append(sequence)
        self._images += leads

    @property
    def has_all_images(self) -> bool:
        return self._images >= self._limits.max_prefill_images

    @property
    def crowded(self) -> bool:
        return len(self.sequences) >= self._places

    @property
    def full(self) -> bool:
        return self.has_all_images or self.crowded


class Admission:
    """The queue, and who leaves it next."""

    def __init__(
        self,
        limits: Limits,
        reservations: Reservations,
        preparation: Preparation,
    ) -> None:
        self._limits = limits
        self._reservations = reservations
        self._preparation = preparation
        self.waiting: list[Sequence] = []
        self._stale = False
        self.closed_for: Mode | None = None
        """The mode that waits for a change-over, if one does."""

    def refuse_if_impossible(self, request: Request) -> None:
        """Raises `InvalidRequestError` for a request that could never run, naming the limit that it breaks."""
        if request.limit < 1:
            raise InvalidRequestError(f"The answer may have {request.limit} tokens; allowed is at least 1.")
        prefix = self._reservations.prefixes.length if request.image else 0
        total = prefix + len(request.prompt) + request.limit
        if total > self._limits.max_context:
            raise InvalidRequestError(
                f"The prompt ({prefix + len(request.prompt)} positions) and its answer (up to {request.limit} tokens) "
                f"need {total} positions; the model's context allows {self._limits.max_context}."
            )
        self._reservations.refuse_if_impossible(request)

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)
        self.stale()

    def remove(self, sequence: Sequence) -> None:
        self.waiting.remove(sequence)
        self.stale()

    def stale(self) -> None:
        """A picture or a prefix is not as it was when pictures were last prepared ahead."""
        self._stale = True

    def prepare_ahead(self, fail: Callable[[Sequence, BaseException], None]) -> None:
        """Start the pictures of the next requests in line; a picture that could not be prepared fails its requests."""
        if not self._stale:
            return
        self._stale = False
        ahead, wanted = LOOKAHEAD * self._limits.max_batch, set[bytes]()
        for sequence in tuple(self.waiting):
            if ahead == 0:
                break
            image = sequence.request.image
            prefix = self._reservations.prefix_of(sequence)
            if prefix:
                self._reservations.prefixes.touch(prefix)
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
        """Reserve for the requests of the next prefill launch, beside `decoding` rows that want more tokens.

        They stay in line until the caller has them among those that run, so that nobody is ever in neither list.

        `mode` is that of the rows that run, None if none does. Rows whose last step is launched take no place in the
        batch any more, seen or not: otherwise a flood of short answers would wait for each commit.
        """
        batch = _Batch(self._limits, decoding)
        for sequence in self._in_order(mode):
            if not batch.has_room(sequence) or not self._reservations.reserve(sequence):
                break
            batch.add(sequence, sequence.leads)
            if batch.has_all_images:
                break
        return batch.sequences

    def in_line(self, mode: Mode, decoding: int) -> InLine:
        """What `next_batch` would find. Reserves nothing."""
        batch, led, shut_out = _Batch(self._limits, decoding), set[bytes](), 0
        for sequence in islice(self._in_order(mode), LOOKAHEAD * self._limits.max_batch):
            image = sequence.request.image
            leads = image is not None and self._reservations.prefix_of(sequence) is None
            if leads and image is not None and image.key in led:
                continue  # it waits for the prefix that another computes
            if shut_out or not batch.has_room(sequence):
                shut_out += 1
            elif not batch.full:
                batch.add(sequence, leads)
                if leads and image is not None:
                    led.add(image.key)
        return InLine(len(batch.sequences), batch.full, shut_out if batch.crowded else 0)

    def _in_order(self, mode: Mode | None) -> Iterator[Sequence]:
        """Those that are ready, up to the first of another mode than `mode` or than the first of them."""
        self.closed_for = None
        for sequence in self.waiting:
            if self._is_ready(sequence):
                if mode is not None and sequence.mode != mode:
                    self.closed_for = sequence.mode
                    return
                mode = sequence.mode
                yield sequence

    def _is_ready(self, sequence: Sequence) -> bool:
        if self._reservations.waits_for_adapter(sequence):
            return False
        image = sequence.request.image
        if image is None:
            return True
        prefix = self._reservations.prefix_of(sequence)
        if prefix is not None:
            return prefix.ready
        job = self._preparation.find(image.key)
        return job is not None and job.error is None
