"""Sampling on the device: ids under allow-lists and bans, coordinates and sizes from the same hidden state.

Greedy rows take the likeliest value. Others draw by inverse CDF from uniform numbers that the host derives from the
request's seed and the token's index alone, so neither batch mates nor copy timing can change a draw.
"""

from __future__ import annotations

import torch
from torch import Tensor

from photon.models.moondream.model import Moondream
from photon.models.moondream.region import coord_value, size_value
from photon.runtime.choices import MAX_ALLOWED, SampleNeeds

_MASK = (1 << 64) - 1
_SHORT_LIST = 256
"""How many candidates a draw ranks at first: top-p mostly keeps fewer, and a whole vocabulary takes 50 times longer."""
_COLDEST = 1e-4


def uniform(seed: int, index: int) -> float:
    """A number in [0, 1) that depends on (seed, index) only: the splitmix64 finaliser."""
    x = (seed * 0x9E3779B97F4A7C15 + index * 0xD1B54A32D192ED03 + 0x8CB92BA72F3D8DD7) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return float((x ^ (x >> 31)) >> 40) / float(1 << 24)


def pick(logits: Tensor, params: Tensor, draw: Tensor, drawn: bool) -> Tensor:
    """logits float32 [B, n], params [B, >= 2] (temperature, top-p), draw [B] -> index int64 [B].

    Top-p keeps the candidates whose cumulative probability before them is at most top-p (docs/model.md 6.3). A row's
    pick depends on that row alone.
    """
    best = logits.argmax(dim=-1)
    if not drawn:
        return best
    temperature = params[:, 0]
    scaled = logits / temperature.clamp_min(_COLDEST).unsqueeze(-1)
    total = scaled.logsumexp(dim=-1, keepdim=True)
    # Reading back whether the short list is long enough would stall a device; a full sort costs little there.
    short = min(_SHORT_LIST, logits.shape[-1]) if logits.device.type == "cpu" else logits.shape[-1]
    chosen, whole = _draw(scaled, total, params[:, 1], draw, short)
    if short < logits.shape[-1]:
        longer = (~whole & (temperature > 0)).nonzero().squeeze(-1)
        if len(longer):
            chosen[longer], _ = _draw(scaled[longer], total[longer], params[longer, 1], draw[longer], logits.shape[-1])
    return torch.where(temperature > 0, chosen, best)


def _draw(scaled: Tensor, total: Tensor, top_p: Tensor, draw: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Draw among the `count` likeliest candidates: (index [B], whether these are all that top-p keeps [B])."""
    if count < scaled.shape[-1]:
        ranked, order = scaled.topk(count, dim=-1)
    else:
        ranked, order = scaled.sort(dim=-1, descending=True, stable=True)
    probs = (ranked - total).exp()
    before = probs.cumsum(dim=-1) - probs
    kept = (before <= top_p.unsqueeze(-1)) & (probs > 0)
    mass = (probs * kept).cumsum(dim=-1)
    place = (mass <= draw.unsqueeze(-1) * mass[:, -1:]).sum(dim=-1)
    place = torch.minimum(place, kept.sum(dim=-1) - 1).unsqueeze(-1)  # sums on a device may round up
    return order.gather(-1, place).squeeze(-1), ~kept[:, -1]


def _logprob(logits: Tensor, index: Tensor) -> Tensor:
    return logits.gather(-1, index.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(dim=-1)


class Sampler:
    """Turns logits and hidden states into tokens for a model's region module.

    `continue_over_vocabulary` follows the public reference of moondream2, where a structured answer goes on unless
    eos beats the whole vocabulary, instead of coord against eos (docs/model.md 7.1, 10).
    """

    def __init__(self, model: Moondream, continue_over_vocabulary: bool = False) -> None:
        self._model = model
        self._region = model.config.region
        self._tokens = model.config.tokenizer
        self._whole_vocabulary = continue_over_vocabulary

    def __call__(
        self, hidden: Tensor, logits: Tensor | None, choice_ids: Tensor, params: Tensor, needs: SampleNeeds
    ) -> tuple[Tensor, Tensor]:
        """hidden [B, F], logits [B, V] or None: made here where a row chooses between ids. The rest as in `Slot`.

        Returns ids int64 [B], values float32 [B, 5].
        """
        if needs.several:
            logits = self._model.logits(hidden) if logits is None else logits
            ids, logprob = self._ids(logits.float(), choice_ids, params, needs)
        else:
            ids, logprob = choice_ids[:, 1], torch.zeros(len(hidden), device=hidden.device)
        zero = torch.zeros_like(logprob)
        coord = width = height = value_logprob = zero
        if needs.coords:
            scores = self._model.region.decode_coord(hidden).float()
            bins = self.pick(scores, params, params[:, 3], needs.drawn)
            chosen = ids == self._tokens.coord_id
            coord = coord_value(bins, self._region.coord_bins).where(chosen, zero)
            value_logprob = _logprob(scores, bins).where(chosen, zero)
        if needs.sizes:
            scores = self._model.region.decode_size(hidden).float()  # [B, 2, bins]
            wide = self.pick(scores[:, 0], params, params[:, 3], needs.drawn)
            high = self.pick(scores[:, 1], params, params[:, 4], needs.drawn)
            chosen = ids == self._tokens.size_id
            width = size_value(wide, self._region.size_bins).where(chosen, zero)
            height = size_value(high, self._region.size_bins).where(chosen, zero)
            both = _logprob(scores[:, 0], wide) + _logprob(scores[:, 1], high)
            value_logprob = both.where(chosen, value_logprob)
        return ids, torch.stack([coord, width, height, logprob, value_logprob], dim=-1)

    def pick(self, logits: Tensor, params: Tensor, draw: Tensor, drawn: bool) -> Tensor:
        """Every decision of a token goes through here."""
        return pick(logits, params, draw, drawn)

    def _ids(self, logits: Tensor, choice_ids: Tensor, params: Tensor, needs: SampleNeeds) -> tuple[Tensor, Tensor]:
        """A few allowed logits are gathered; nothing as wide as the vocabulary is masked for constrained rows."""
        count = choice_ids[:, :1]
        allowed = choice_ids[:, 1 : 1 + MAX_ALLOWED]
        few = logits.gather(1, allowed)
        if self._whole_vocabulary:
            few = self._reference_continue(logits, allowed, few, count)
        beyond = torch.arange(MAX_ALLOWED, device=logits.device) >= count.clamp_min(1)
        few = few.masked_fill(beyond, float("-inf"))
        index = self.pick(few, params, params[:, 2], needs.drawn)
        ids = allowed.gather(1, index.unsqueeze(-1)).squeeze(-1)
        logprob = _logprob(few, index)
        if needs.open:
            everything = count.squeeze(-1) == 0
            bans = choice_ids[:, 1 + MAX_ALLOWED :]
            penalty = torch.zeros_like(params[:, :1]).where(bans < 0, float("-inf"))
            free = logits.scatter_add(1, bans.clamp_min(0), penalty)
            chosen = self.pick(free, params, params[:, 2], needs.drawn)
            ids = torch.where(everything, chosen, ids)
            logprob = torch.where(everything, _logprob(free, chosen), logprob)
        return ids, logprob

    def _reference_continue(self, logits: Tensor, allowed: Tensor, few: Tensor, count: Tensor) -> Tensor:
        rest = logits.clone()
        rest[:, self._tokens.eos_id] = float("-inf")
        decision = (count > 1) & (allowed == self._tokens.coord_id)
        return torch.where(decision, rest.amax(dim=-1, keepdim=True), few)
