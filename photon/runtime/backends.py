"""Ways to attend to paged keys and values; each is checked against `Gather`, the plain reference.

A backend makes a plan once a step, from the page tables and positions, and uses it in every layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from photon.errors import DeviceError

PAGE_SIZES = (16, 256)
"""Small pages waste less; some versions of the block-table kernel read large ones only."""
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


@dataclass(frozen=True)
class Reads:
    """pages int64 [B, n]: page tables; positions int64 [B, T] of the queries: each sees the keys up to its own."""

    pages: Tensor
    positions: Tensor
    page_size: int

    def causal_bias(self) -> Tensor:
        """float32 [B, 1, T, n * page_size]: 0 where a query may look, -inf elsewhere."""
        slots = torch.arange(self.pages.shape[1] * self.page_size, device=self.pages.device)
        hidden = slots > self.positions.unsqueeze(-1)
        return torch.zeros(hidden.shape, device=slots.device).masked_fill_(hidden, float("-inf")).unsqueeze(1)


class Backend(Protocol):
    name: str

    def plan(self, reads: Reads) -> Any: ...

    def attend(self, plan: Any, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """q [B, T, h, d], keys and values [pages, page_size, h_kv, d] -> [B, T, h, d]."""


def full_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention without a mask, all [B, T, heads, d]; the fused operator is the faster one for whole blocks."""
    grouped = q.shape[2] != k.shape[2]
    return F.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), enable_gqa=grouped
    ).transpose(1, 2)


class Gathering:
    """How rows' pages come to lie side by side, and the bias of what lies there."""

    def __init__(self, reads: Reads) -> None:
        self.bias = reads.causal_bias()
        self._rows = len(reads.pages)
        self._pages = reads.pages.flatten()

    def __call__(self, store: Tensor) -> Tensor:
        """store [pages, page_size, h_kv, d] -> [B, n * page_size, h_kv, d]."""
        return store.index_select(0, self._pages).view(self._rows, -1, *store.shape[2:])


class Gather:
    """Product, float32 softmax, product over gathered pages."""

    name = "gather"

    def plan(self, reads: Reads) -> Gathering:
        return Gathering(reads)

    def attend(self, plan: Gathering, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        k, v = plan(keys), plan(values)
        groups = q.shape[2] // k.shape[2]
        if groups > 1:
            k, v = k.repeat_interleave(groups, dim=2), v.repeat_interleave(groups, dim=2)
        scores = torch.matmul(q.transpose(1, 2), k.permute(0, 2, 3, 1)).float() * q.shape[-1] ** -0.5
        weights = torch.softmax(scores + plan.bias, dim=-1).to(v.dtype)
        return torch.matmul(weights, v.transpose(1, 2)).transpose(1, 2)


class Fused:
    """The fused operator over gathered pages."""

    name = "fused"

    def plan(self, reads: Reads) -> Gathering:
        return Gathering(reads)

    def attend(self, plan: Gathering, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        k, v = plan(keys), plan(values)
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            attn_mask=plan.bias.to(q.dtype),
            enable_gqa=q.shape[2] != k.shape[2],
        )
        return out.transpose(1, 2)


class Varlen:
    """PyTorch's variable-length attention with a block table (torch >= 2.13, CUDA).

    A row's new positions are the last ones that it has used, so the kernel's causal window, aligned to the end, is the
    mask; this holds for prompts and for single tokens alike, padding excepted, whose output nobody reads.
    """

    name = "varlen"

    def __init__(self) -> None:
        from torch.nn.attention.varlen import varlen_attn

        self._varlen = varlen_attn

    def plan(self, reads: Reads) -> tuple[Tensor, Tensor, Tensor, int]:
        batch, tokens = reads.positions.shape
        starts = torch.arange(batch + 1, device=reads.pages.device, dtype=torch.int32) * tokens
        # Padding repeats the first position, so the row ends `tokens` after its first position.
        used = (reads.positions[:, 0] + tokens).to(torch.int32)
        return starts, used, reads.pages.to(torch.int32), reads.page_size

    def attend(self, plan: tuple[Tensor, Tensor, Tensor, int], q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        starts, used, pages, page_size = plan
        batch, tokens = q.shape[:2]
        out = self._varlen(
            q.flatten(0, 1),
            keys,
            values,
            starts,
            None,
            tokens,
            pages.shape[1] * page_size,
            window_size=(-1, 0),
            enable_gqa=q.shape[2] != keys.shape[2],
            seqused_k=used,
            block_table=pages,
        )
        assert isinstance(out, Tensor)
        return out.view(batch, tokens, *q.shape[2:])


@dataclass(frozen=True)
class Heads:
    """Of the text decoder's attention: `count` query heads share `kv` key heads, each `width` wide."""

    count: int
    kv: int
    width: int


def disagreement(backend: Backend, device: torch.device, dtype: torch.dtype, heads: Heads, size: int) -> float:
    """The largest difference from `Gather` on random pages of `size`, for a one-token step and for a prompt."""
    generator = torch.Generator().manual_seed(0)
    store = torch.randn(2, 9, size, heads.kv, heads.width, generator=generator).to(device, dtype)
    pages = torch.tensor([[3, 1, 8], [5, 2, 7]], device=device)
    worst = 0.0
    for tokens in (1, 4):
        first = torch.tensor([[2 * size + 1], [size + 2]], device=device)
        reads = Reads(pages, first + torch.arange(tokens, device=device), size)
        q = torch.randn(2, tokens, heads.count, heads.width, generator=generator).to(device, dtype)
        expected, found = (b.attend(b.plan(reads), q, *store) for b in (Gather(), backend))
        worst = max(worst, float((expected.float() - found.float()).abs().max()))
    return worst


@dataclass(frozen=True)
class Chosen:
    """A backend, the page size that it is used with, and why each better one is not, in a sentence."""

    backend: Backend
    page_size: int
    refused: tuple[str, ...] = ()


def choose(device: torch.device, dtype: torch.dtype, heads: Heads, page_size: int | None = None) -> Chosen:
    """On a CPU the faster one for the dtype; on CUDA the first that runs here and agrees with the plain one.

    `page_size` None takes what suits the backend. Raises `DeviceError` if a kernel that was tried broke the device.
    """
    if device.type == "cpu":
        return Chosen(Fused() if dtype == torch.float32 else Gather(), page_size or PAGE_SIZES[0])
    refused: list[str] = []
    for kind in (Varlen, Fused):
        for size in (page_size,) if page_size else PAGE_SIZES:
            problem = _problem(kind, device, dtype, heads, size)
            if problem is None:
                return Chosen(kind(), size, tuple(refused))
            refused.append(f"{kind.name} with pages of {size} is not used: {problem}.")
    return Chosen(Gather(), page_size or PAGE_SIZES[0], tuple(refused))


def _problem(
    kind: Callable[[], Backend], device: torch.device, dtype: torch.dtype, heads: Heads, size: int
) -> str | None:
    """Why this backend cannot be used; None if it can."""
    try:
        off = disagreement(kind(), device, dtype, heads, size)
    except (ImportError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        problem = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    else:
        problem = f"it differs from the plain one by {off:.2g}" if not off <= TOLERANCE[dtype] else ""
    try:
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # an error of the kernel itself may come only now, and then it stays
    except RuntimeError as error:
        raise DeviceError(f"The CUDA device failed while {kind.__name__} was tried: {error}") from error
    return problem or None
