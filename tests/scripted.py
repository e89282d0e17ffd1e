"""A scripted model: what a row generates is a pure function of its history, as it is read back from the pages.

Every fed token leaves a fingerprint in the page cell of its position; a forward adds up the fingerprints of all
positions of a row, through the row's page table, and sampling derives everything from that sum. A wrong page, position,
value, adapter or row, a stale buffer, a list that came late: each changes the tokens. Cells that nobody has written
since their page was freed are poisoned; a row that reads one is counted and its values become NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from photon.core.request import Request, Token
from photon.runtime.choices import MAX_ALLOWED, SampleNeeds
from photon.runtime.sampling import uniform

T = TypeVar("T")
EOS, COORD, SIZE, VOCABULARY = 0, 5, 6, 32
_WORD = (1 << 64) - 1
_POISON = 0xDEAD_DEAD_DEAD_DEAD
_SCALE = 1024
"""Values are multiples of 1 / 1024, which float32 holds exactly."""


def kernel(call: Callable[..., T]) -> Callable[..., T]:
    """What a call does in here is the device's work, not the host's, although it is written with host reads."""

    @wraps(call)
    def run(*args: Any) -> T:
        with torch._C.DisableTorchFunction():
            return call(*args)

    return run


class InjectedError(Exception):
    """A fault that a test put in."""


def mix(x: int) -> int:
    """A 64-bit finaliser: every bit of the result depends on every bit of x."""
    x = ((x ^ (x >> 32)) * 0xD6E8FEB86659FD93) & _WORD
    x = ((x ^ (x >> 32)) * 0xD6E8FEB86659FD93) & _WORD
    return x ^ (x >> 32)


_WEIGHTS = [mix(i) | 1 for i in range(1, 513)]
_WEIGHT_ARRAY = np.array(_WEIGHTS, dtype=np.uint64)


def token_cell(id: int, coord: float, width: float, height: float, adapter: int) -> int:
    where = int(coord * _SCALE) + (int(width * _SCALE) << 11) + (int(height * _SCALE) << 22)
    return mix((id << 40) + where + adapter * 0x9E3779B97F4A7C15 & _WORD)


def prefix_cells(picture: int, adapter: int, length: int) -> list[int]:
    return [mix((picture << 32) + i + adapter * 0xC2B2AE3D27D4EB4F & _WORD) for i in range(length)]


@dataclass(frozen=True)
class Picture:
    """What preparation makes of an image: its content, as a number."""

    content: int


def adapter_content(key: bytes) -> int:
    return int.from_bytes(key, "little") + 1


def draw(history: int, choice: list[int], params: list[float], needs: SampleNeeds, eos_share: float) -> tuple[Any, ...]:
    """What the scripted model samples: (id, coord, width, height, log-probability, log-probability of the value)."""
    temperature, top_p, first, *_ = params
    h = mix(history)
    if temperature > 0 and needs.drawn:
        h = mix(h + int(temperature * 64) + (int(top_p * 64) << 10) + (int(first * (1 << 24)) << 24) & _WORD)
    count, allowed, banned = choice[0], choice[1 : 1 + MAX_ALLOWED], choice[1 + MAX_ALLOWED :]
    if count:
        ids = allowed[:count]
    elif needs.open:
        ids = [i for i in range(VOCABULARY) if i not in banned]
    else:
        ids = allowed[:1]
    stops = EOS in ids and (h & 0xFFFF) < eos_share * 0x10000
    others = ids if len(ids) == 1 else [i for i in ids if i != EOS]
    id = EOS if stops else others[(h >> 16) % len(others)]
    coord = width = height = 0.0
    value_logprob = 0.0
    if id == COORD and needs.coords:
        coord, value_logprob = (h >> 24) % _SCALE / _SCALE, -((h >> 34) % 256) / 32
    if id == SIZE and needs.sizes:
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
        token = Token(*draw(history, choice, params, SampleNeeds(True, True, True, True), eos_share))
        tokens.append(token)
        state.advance(token)
        if state.done or len(tokens) == request.limit:
            return tokens
        cell = token_cell(token.id, token.coord, token.width, token.height, adapter)
        history = history + cell * _WEIGHTS[position] & _WORD
        position += 1


@dataclass
class Costs:
    """Virtual seconds on the compute stream."""

    prefill: float = 0.0
    decode: float = 0.0
    sampling: float = 0.0


@dataclass(eq=False)
class ScriptedExecutor:
    """`raise_at` holds (call, n): the n-th call (from 0) of that kind raises. `violations` are sentences."""

    pages: int
    page_size: int
    prefix_length: int
    eos_share: float = 0.2
    raise_at: set[tuple[str, int]] = field(default_factory=set)
    costs: Costs = field(default_factory=Costs)
    spend: Any = None
    calls: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    poisoned_reads: int = 0

    def __post_init__(self) -> None:
        self.cells = np.full((self.pages + 1, self.page_size), _POISON, dtype=np.uint64)
        self._flat = self.cells.reshape(-1)
        self.prefix_pages: set[int] = set()
        self.adapters: dict[int, int] = {0: 0}

    # -- what the owner of the pages tells --------------------------------------------------------------------------

    def freed(self, pages: Sequence[int]) -> None:
        self.cells[pages] = _POISON
        self.prefix_pages.difference_update(pages)

    def taken(self, pages: Sequence[int]) -> None:
        if not (self.cells[pages] == _POISON).all():
            self.violations.append(f"A free page among {list(pages)} was written to.")

    def holds_prefix(self, pages: Sequence[int], picture: int, adapter: int) -> bool:
        cells = self.cells[pages].reshape(-1)[: self.prefix_length]
        return cells.tolist() == prefix_cells(picture, adapter, self.prefix_length)

    # -- the executor ------------------------------------------------------------------------------------------------

    @kernel
    def load_adapter(self, slot: int, adapter: Any) -> None:
        self._count("load_adapter")
        self.adapters[slot] = adapter_content(adapter.key)

    @kernel
    def prefix(self, crops: Sequence[Picture], pages: Tensor, adapters: Tensor | None) -> None:
        self._count("prefix")
        slots = adapters.tolist() if adapters is not None else [0] * len(crops)
        for picture, row, slot in zip(crops, pages.numpy(), slots, strict=True):
            self.prefix_pages.update(row.tolist())
            written = prefix_cells(picture.content, self.adapters.get(slot, -1), self.prefix_length)
            self._flat[self._places(row, np.arange(self.prefix_length))] = written

    @kernel
    def copy_pages(self, source: Tensor, target: Tensor) -> None:
        self._count("copy_pages")
        self._check_writable(target.numpy(), "a copy")
        self.cells[target.numpy()] = self.cells[source.numpy()]

    @kernel
    def prompt(
        self, ids: Tensor, values: Tensor, positions: Tensor, valid: Tensor, pages: Tensor, adapters: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        self._count("prompt")
        self._spend(self.costs.prefill)
        slots = adapters.tolist() if adapters is not None else [0] * len(ids)
        at, table = positions.numpy(), pages.numpy()
        last = []
        for b, (row_ids, row_values, mask) in enumerate(
            zip(ids.tolist(), values.tolist(), valid.tolist(), strict=True)
        ):
            count = sum(mask)
            adapter = self.adapters.get(slots[b], -1)
            places = self._places(table[b], at[b, :count])
            if (places < self.page_size).any():
                self.violations.append("A prompt was written to the scratch page.")
            self._check_writable(places // self.page_size, "a prompt")
            self._flat[places] = [token_cell(row_ids[j], *row_values[j], adapter) for j in range(count)]
            last.append(at[b, count - 1])
        return self._forward(table, np.array(last))

    @kernel
    def decode(
        self, ids: Tensor, values: Tensor, positions: Tensor, pages: Tensor, adapters: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        self._count("decode")
        self._spend(self.costs.decode)
        slots = adapters.tolist() if adapters is not None else [0] * len(ids)
        at, table = positions.numpy(), pages.numpy()
        places = table[np.arange(len(at)), at // self.page_size] * self.page_size + at % self.page_size
        self._check_writable(places // self.page_size, "a decode step")
        self._flat[places] = [
            token_cell(i, *v, self.adapters.get(a, -1))
            for i, v, a in zip(ids.tolist(), values.tolist(), slots, strict=True)
        ]
        self.cells[0] = _POISON  # padding may write to the scratch page; nobody may read it back
        return self._forward(table, at)

    @kernel
    def sample(
        self, hidden: Tensor, logits: Tensor | None, choice_ids: Tensor, params: Tensor, needs: SampleNeeds
    ) -> tuple[Tensor, Tensor]:
        self._count("sample")
        self._spend(self.costs.sampling)
        ids, values = [], []
        rows = zip(hidden.tolist(), choice_ids.tolist(), params.tolist(), strict=True)
        for (history, tainted), choice, row_params in rows:
            id, *rest = draw(history & _WORD, choice, row_params, needs, self.eos_share)
            if tainted:
                rest[-1] = float("nan")
            ids.append(id)
            values.append(rest)
        return torch.tensor(ids), torch.tensor(values, dtype=torch.float32)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _forward(self, table: Any, last: Any) -> tuple[Tensor, Tensor]:
        cells = self.cells[table].reshape(len(table), -1)
        read = np.arange(cells.shape[1]) <= last[:, None]
        tainted = (read & (cells == _POISON)).any(axis=1)
        self.poisoned_reads += int((tainted & (table[:, 0] != 0)).sum())  # a row of padding reads the scratch page
        history = (cells * _WEIGHT_ARRAY[: cells.shape[1]] * read).sum(axis=1, dtype=np.uint64)
        hidden = torch.from_numpy(np.stack([history.view(np.int64), tainted.astype(np.int64)], axis=1))
        return hidden, hidden

    def _places(self, row: Any, positions: Any) -> Any:
        return row[positions // self.page_size] * self.page_size + positions % self.page_size

    def _check_writable(self, pages: Any, what: str) -> None:
        for page in pages.tolist():
            if page in self.prefix_pages:
                self.violations.append(f"The shared prefix page {page} was written to by {what}.")

    def _count(self, call: str) -> None:
        n = self.calls[call]
        self.calls[call] += 1
        if (call, n) in self.raise_at:
            raise InjectedError(f"{call} {n} failed.")

    def _spend(self, seconds: float) -> None:
        if self.spend is not None:
            self.spend(seconds)
