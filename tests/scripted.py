"""A scripted model: what a row generates is a pure function of its history, as it is read back from the pages.

Every fed token leaves a fingerprint in the page cell of its position; a forward adds up the fingerprints of all
positions of a row, through the row's page table, and sampling derives everything from that sum. A wrong page, position,
value, adapter or row, a stale buffer, a list that came late: each changes the tokens. Cells that nobody has written
since their page was freed are poisoned; a row that reads one is counted and its values become NaN.

An overflow is scripted too. The id `OVERFLOW`, sampled or fed, and the picture `OVERFLOWING` bring values that are no
numbers; cells written from them stay so until they are cleared, and spoil every row whose pages hold one, read or not:
attention multiplies what it masks by zero, and zero times NaN is NaN.

`generate` says in plain Python what the model does; `ScriptedExecutor` does it in torch, reading nothing back to the
host, so that it runs on any device, captured or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

from photon.core.request import Request, Token
from photon.runtime.choices import MAX_ALLOWED, SampleNeeds
from photon.runtime.sampling import uniform

T = TypeVar("T")
EOS, COORD, SIZE, OVERFLOW, VOCABULARY = 0, 5, 6, 31, 32
OVERFLOWING = 99
"""The content of a picture whose prefix holds values that are no numbers."""
_WORD = (1 << 64) - 1
_SCALE = 1024
"""Values are multiples of 1 / 1024, which float32 holds exactly."""
_ADAPTER, _PREFIX_ADAPTER, _FINAL = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93


def kernel(call: Callable[..., T]) -> Callable[..., T]:
    """What a call does in here is the device's work or the test's, and is not looked at for hidden waits."""

    @wraps(call)
    def run(*args: Any) -> T:
        with torch._C.DisableTorchFunction():
            return call(*args)

    return run


class InjectedError(Exception):
    """A fault that a test put in."""


# -- in plain Python: words are 0..2^64 - 1 ----------------------------------------------------------------------------


def mix(x: int) -> int:
    """A 64-bit finaliser: no two words have the same, and similar ones have quite different ones."""
    x = ((x ^ (x >> 32)) * _FINAL) & _WORD
    return x ^ (x >> 32)


_WEIGHTS = [mix(i) | 1 for i in range(1, 513)]


def token_cell(id: int, coord: float, width: float, height: float, adapter: int) -> int:
    where = int(coord * _SCALE) + (int(width * _SCALE) << 11) + (int(height * _SCALE) << 22)
    return mix((id << 40) + where + adapter * _ADAPTER & _WORD)


def prefix_cells(picture: int, adapter: int, length: int) -> list[int]:
    return [mix((picture << 32) + i + adapter * _PREFIX_ADAPTER & _WORD) for i in range(length)]


@dataclass(frozen=True)
class Picture:
    """What preparation makes of an image: its content, as a number."""

    content: int


def adapter_content(key: bytes) -> int:
    return int.from_bytes(key, "little") + 1


def draw(history: int, choice: list[int], params: list[float], eos_share: float) -> tuple[Any, ...]:
    """What the scripted model samples: (id, coord, width, height, log-probability, log-probability of the value)."""
    temperature, top_p, first, *_ = params
    h = mix(history)
    if temperature > 0:
        h = mix(h + int(temperature * 64) + (int(top_p * 64) << 10) + (int(first * (1 << 24)) << 24) & _WORD)
    count, allowed, banned = choice[0], choice[1 : 1 + MAX_ALLOWED], choice[1 + MAX_ALLOWED :]
    ids = allowed[:count] if count else [i for i in range(VOCABULARY) if i not in banned and i != OVERFLOW]
    stops = EOS in ids and (h & 0xFFFF) < eos_share * 0x10000
    others = ids if len(ids) == 1 else [i for i in ids if i != EOS]
    id = EOS if stops else others[(h >> 16) % len(others)]
    coord = width = height = 0.0
    value_logprob = 0.0
    if id == COORD:
        coord, value_logprob = (h >> 24) % _SCALE / _SCALE, -((h >> 34) % 256) / 32
    if id == SIZE:
        width, height = (h >> 24) % _SCALE / _SCALE, (h >> 36) % _SCALE / _SCALE
        value_logprob = -((h >> 46) % 256) / 32
    return id, coord, width, height, -((h >> 54) % 256) / 64, value_logprob


def generate(request: Request, prefix_length: int, eos_share: float) -> list[Token]:
    """What the request must generate: the same function without an engine, pages or batches."""
    adapter = adapter_content(request.adapter.key) if request.adapter else 0
    cells = prefix_cells(int(request.image.pixels[0, 0, 0]), adapter, prefix_length) if request.image else []
    cells += [token_cell(t.id, t.coord, t.width, t.height, adapter) for t in request.prompt]
    history = sum(c * w for c, w in zip(cells, _WEIGHTS, strict=False)) & _WORD
    position, state, tokens = len(cells), request.start(), []
    s = request.sampling
    while True:
        allowed, banned = state.choice()
        choice = [len(allowed or ()), *(allowed or ()), *(0,) * (MAX_ALLOWED - len(allowed or ())), *banned]
        params = [s.temperature, s.top_p, uniform(s.seed, 3 * len(tokens))]
        token = Token(*draw(history, choice, params, eos_share))
        tokens.append(token)
        state.advance(token)
        if state.done or len(tokens) == request.limit:
            return tokens
        cell = token_cell(token.id, token.coord, token.width, token.height, adapter)
        history = history + cell * _WEIGHTS[position] & _WORD
        position += 1


# -- the same in torch: words are the int64 of the same bits, whose sums and products wrap -----------------------------


def signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


_POISON = signed(0xDEAD_DEAD_DEAD_DEAD)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """A right shift that brings in zeros."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 32)) * signed(_FINAL)
    return x ^ _shifted(x, 32)


def _token_cells(ids: Tensor, values: Tensor, adapters: Tensor) -> Tensor:
    """ids and adapter contents int64 [...], values float32 [..., 3] -> int64 [...]."""
    coord, width, height = (values * _SCALE).nan_to_num().long().unbind(-1)
    return _mix((ids << 40) + coord + (width << 11) + (height << 22) + adapters * signed(_ADAPTER))


def _chosen(h: Tensor, candidates: Tensor, mask: Tensor, eos_share: float) -> Tensor:
    """One of the masked candidates [B, n] of each row, by the hash of its history [B]."""
    is_eos = candidates == EOS
    stops = (mask & is_eos).any(-1) & ((h & 0xFFFF) < eos_share * 0x10000)
    others = mask & (~is_eos | (mask.sum(-1, keepdim=True) == 1))
    counts = others.cumsum(-1)
    wanted = _shifted(h, 16) % counts[:, -1].clamp_min(1)
    place = (others & (counts == wanted.unsqueeze(-1) + 1)).long().argmax(-1, keepdim=True)
    return candidates.gather(1, place).squeeze(1).masked_fill(stops, EOS)


@dataclass
class Costs:
    """Virtual seconds on the compute stream."""

    prefill: float = 0.0
    decode: float = 0.0
    sampling: float = 0.0


_VIOLATIONS = ("A prompt was written to the scratch page.", "A shared prefix page was written to.")


@dataclass(eq=False)
class ScriptedExecutor:
    """`raise_at` holds (call, n): the n-th call (from 0) of that kind raises."""

    pages: int
    page_size: int
    prefix_length: int
    eos_share: float = 0.2
    slots: int = 8
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    raise_at: set[tuple[str, int]] = field(default_factory=set)
    costs: Costs = field(default_factory=Costs)
    spend: Any = None
    calls: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        where = {"device": self.device, "dtype": torch.int64}
        self.cells = torch.full((self.pages + 1, self.page_size), _POISON, **where)
        self.spoilt = torch.zeros(self.pages + 1, self.page_size, device=self.device, dtype=torch.bool)
        self._prefix_pages = torch.zeros(self.pages + 1, device=self.device, dtype=torch.bool)
        self._adapters = torch.full((self.slots + 1,), -1, **where)
        self._adapters[0] = 0
        self._weights = torch.tensor([signed(w) for w in _WEIGHTS], **where)
        self._ids = torch.arange(VOCABULARY, **where)
        self._allowed = torch.arange(MAX_ALLOWED, **where)
        self._counts = torch.zeros(len(_VIOLATIONS) + 1, **where)
        self._fields = {
            "of": torch.tensor([COORD, SIZE, SIZE, -1, COORD, SIZE], **where),
            "always": torch.tensor([False, False, False, True, False, False], device=self.device),
            "shift": torch.tensor([24, 24, 36, 54, 34, 46], **where),
            "mask": torch.tensor([_SCALE - 1, _SCALE - 1, _SCALE - 1, 255, 255, 255], **where),
            "unit": torch.tensor([1 / _SCALE, 1 / _SCALE, 1 / _SCALE, -1 / 64, -1 / 32, -1 / 32], device=self.device),
        }
        self._needed = torch.tensor(
            [[coords, sizes, sizes, True, coords, sizes] for coords in (False, True) for sizes in (False, True)],
            device=self.device,
        )
        self._counted = torch.arange(len(_WEIGHTS), **where)
        self._added: set[bytes] = set()
        self._flat, self._flat_spoilt = self.cells.view(-1), self.spoilt.view(-1)

    # -- what tests ask ----------------------------------------------------------------------------------------------

    @property
    @kernel
    def violations(self) -> list[str]:
        """Sentences about what must never happen."""
        counts = self._counts.tolist()
        return [*self.said, *(text for text, count in zip(_VIOLATIONS, counts, strict=False) if count)]

    @property
    @kernel
    def poisoned_reads(self) -> int:
        return int(self._counts[-1])

    def holds_prefix(self, pages: Sequence[int], picture: int, adapter: int) -> bool:
        cells = self.cells[list(pages)].view(-1)[: self.prefix_length]
        return cells.tolist() == [signed(c) for c in prefix_cells(picture, adapter, self.prefix_length)]

    # -- what the owner of the pages tells ---------------------------------------------------------------------------

    @kernel
    def freed(self, pages: Sequence[int]) -> None:
        if pages:
            self.cells[list(pages)] = _POISON
            self._prefix_pages[list(pages)] = False
            self._finish()

    @kernel
    def taken(self, pages: Sequence[int]) -> None:
        if pages and not bool((self.cells[list(pages)] == _POISON).all()):
            self.said.append(f"A free page among {list(pages)} was written to.")

    def _finish(self) -> None:
        """What the test does to the pages stands outside of all streams."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    # -- the executor ------------------------------------------------------------------------------------------------

    def add_adapter(self, adapter: Any) -> bool:
        self._added.add(adapter.key)
        return False

    @kernel
    def load_adapter(self, slot: int, adapter: Any) -> None:
        self._count("load_adapter")
        if adapter.key not in self._added:
            self.said.append("An adapter was loaded that had not been added.")
        self._adapters[slot] = adapter_content(adapter.key)

    @kernel
    def prefix(self, crops: Sequence[Picture], pages: Tensor, adapters: Tensor | None) -> None:
        self._count("prefix")
        content = torch.tensor([picture.content for picture in crops], device=self.device).unsqueeze(1)
        at = torch.arange(self.prefix_length, device=self.device).expand(len(crops), -1)
        shift = self._of(adapters, len(crops)).unsqueeze(1) * signed(_PREFIX_ADAPTER)
        self._prefix_pages[pages] = True
        self._write(self._places(pages, at), _mix((content << 32) + at + shift), content == OVERFLOWING)

    @kernel
    def copy_pages(self, source: Tensor, target: Tensor) -> None:
        self._count("copy_pages")
        self._counts[1] += self._prefix_pages[target].sum()
        self.cells[target] = self.cells[source]
        self.spoilt[target] = self.spoilt[source]

    @kernel
    def clear_pages(self, pages: Tensor) -> None:
        self._count("clear_pages")
        self.spoilt[pages] = False
        self.cells[pages] = _POISON  # what is in them now is nothing that anybody may read

    @kernel
    def prompt(
        self, ids: Tensor, values: Tensor, positions: Tensor, valid: Tensor, pages: Tensor, adapters: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        self._count("prompt")
        self._spend(self.costs.prefill)
        places = self._places(pages, positions)
        self._counts[0] += (valid & (places < self.page_size)).sum()
        self._counts[1] += (valid & self._prefix_pages[places // self.page_size]).sum()
        cells = _token_cells(ids, values, self._of(adapters, len(ids)).unsqueeze(1))
        self._write(places.where(valid, positions % self.page_size), cells, (ids == OVERFLOW) & valid)
        last = positions.gather(1, valid.sum(1, keepdim=True) - 1).squeeze(1)
        return self._forward(pages, last)

    @kernel
    def decode(
        self, ids: Tensor, values: Tensor, positions: Tensor, pages: Tensor, adapters: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        self._count("decode")
        self._spend(self.costs.decode)
        places = self._places(pages, positions.unsqueeze(1)).squeeze(1)
        self._counts[1] += self._prefix_pages[places // self.page_size].sum()
        self._write(places, _token_cells(ids, values, self._of(adapters, len(ids))), ids == OVERFLOW)
        return self._forward(pages, positions)

    @kernel
    def sample(
        self, hidden: Tensor, logits: Tensor | None, choice_ids: Tensor, params: Tensor, needs: SampleNeeds
    ) -> tuple[Tensor, Tensor]:
        self._count("sample")
        self._spend(self.costs.sampling)
        h = _mix(hidden[:, 0])
        if needs.drawn:
            t, top_p, first = (params[:, i].double() for i in range(3))
            drawn = _mix(h + (t * 64).long() + ((top_p * 64).long() << 10) + ((first * (1 << 24)).long() << 24))
            h = torch.where(t > 0, drawn, h)
        count, allowed = choice_ids[:, :1], choice_ids[:, 1 : 1 + MAX_ALLOWED]
        ids = _chosen(h, allowed, self._allowed < count.clamp_min(1), self.eos_share)
        if needs.open:
            banned = (self._ids.unsqueeze(1) == choice_ids[:, 1 + MAX_ALLOWED :].unsqueeze(1)).any(-1)
            free = _chosen(h, self._ids.expand(len(h), -1), ~banned & (self._ids != OVERFLOW), self.eos_share)
            ids = torch.where(count.squeeze(1) == 0, free, ids)
        return ids, self._values(h, ids, needs, hidden[:, 1:])

    # -- parts -------------------------------------------------------------------------------------------------------

    def _values(self, h: Tensor, ids: Tensor, needs: SampleNeeds, spoilt: Tensor) -> Tensor:
        """float32 [B, 5]: coordinate, width, height, both log-probabilities. Each is some bits of the hash."""
        ids = ids.unsqueeze(1)
        wanted = (ids == self._fields["of"]) & self._told(needs) | self._fields["always"]
        fields = ((h.unsqueeze(1) >> self._fields["shift"]) & self._fields["mask"]) * wanted
        values = fields * self._fields["unit"]
        values[:, 4] += values[:, 5]
        values[:, 3] = values[:, 3].masked_fill(((spoilt > 0) | (ids == OVERFLOW)).squeeze(1), torch.nan)
        return values[:, :5]

    def _told(self, needs: SampleNeeds) -> Tensor:
        """Which values the step decodes at all."""
        return self._needed[2 * needs.coords + needs.sizes]

    def _forward(self, table: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """hidden int64 [B, 2]: the sum of what a row reads, and whether any of it is poisoned or no number."""
        cells = self.cells[table].view(len(table), -1)
        read = self._counted[: cells.shape[1]] <= last.unsqueeze(1)
        poisoned = (read & (cells == _POISON)).any(1)
        self._counts[-1] += (poisoned & (table[:, 0] != 0)).sum()  # a row of padding reads the scratch page
        tainted = poisoned | self.spoilt[table].view(len(table), -1).any(1)
        history = (cells * self._weights[: cells.shape[1]] * read).sum(1)
        hidden = torch.stack([history, tainted.long()], 1)
        return hidden, hidden

    def _write(self, places: Tensor, cells: Tensor, spoilt: Tensor) -> None:
        """Padding writes to the scratch page, as real padding does; there it is poison, and always a number."""
        self._flat[places] = cells
        self._flat_spoilt[places] = spoilt.expand_as(places)
        self.cells[0] = _POISON

    def _places(self, table: Tensor, positions: Tensor) -> Tensor:
        """Page tables [B, n], positions [B, T] -> flat cells [B, T]."""
        return table.gather(1, positions // self.page_size) * self.page_size + positions % self.page_size

    def _of(self, adapters: Tensor | None, count: int) -> Tensor:
        """What the adapter in each row's slot is, int64 [B]."""
        return self._adapters[adapters] if adapters is not None else self._adapters[:1].expand(count)

    def _count(self, call: str) -> None:
        n = self.calls[call]
        self.calls[call] += 1
        if (call, n) in self.raise_at:
            raise InjectedError(f"{call} {n} failed.")

    def _spend(self, seconds: float) -> None:
        if self.spend is not None:
            self.spend(seconds)
