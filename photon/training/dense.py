"""What training asks of every cell of the image: which thing shows in it, its box, its point and its outline.

Asked twice: of the image tokens, and of what the first `SEEN_LAYERS` blocks of the decoder make of them. Answers then
only have to be read off the right cells: centre, point and size stand there as the values that the decoder will say.
The place of the cell itself is written into its token (`recipe.place_code`).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from photon.models.moondream.model import Moondream
from photon.models.moondream.region import SMALLEST_SIZE_LOG2
from photon.training.data.geometry import VERTICES
from photon.training.dataset import Batch
from photon.training.recipe import FIRST_NAME

SEEN_LAYERS = 2
SHARPNESS = 16.0
"""Factor of the cosine between a cell and a word."""

BACKGROUND_WEIGHT = 0.3


class Reading(nn.Module):
    """Linear readings of a normed cell state [..., dim]: its word, its box and point (6), its outline (2 a vertex)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.word = nn.Linear(dim, dim, bias=False)
        self.thing = nn.Linear(dim, 6 + 2 * VERTICES)
        self.background = nn.Parameter(torch.randn(1, dim) * 0.25)
        nn.init.eye_(self.word.weight)

    def forward(self, states: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """states [B, cells, dim], words [n, dim] -> scores f32[B, cells, n + 1], thing f32[B, cells, 6 + ...]."""
        normed = F.layer_norm(states, (self.dim,))
        known = F.normalize(torch.cat([words, self.background]).float(), dim=-1)
        scores = F.normalize(self.word(normed).float(), dim=-1) @ known.T * SHARPNESS
        return scores, self.thing(normed).float()


class DenseHeads(nn.Module):
    """The readings of the image tokens and of the seen states; only training has them."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.tokens = Reading(dim)
        self.seen = Reading(dim)


def dense_loss(model: Moondream, heads: DenseHeads, tokens: Tensor, seen: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Losses of both readings, averaged ("word", "box", "shape"), and how well the second one does.

    "right": share of a thing's cells that name it; "iou": their mean overlap with its box, every thing counting alike.
    """
    words = model.text.wte[FIRST_NAME:]
    first = _reading_loss(heads.tokens(tokens, words), batch)
    second = _reading_loss(heads.seen(seen, words), batch)
    parts = {name: (first[name] + 2 * second[name]) / 3 for name in ("word", "box", "shape")}
    return parts | {name: second[name].detach() for name in ("right", "iou")}


def _reading_loss(reading: tuple[Tensor, Tensor], batch: Batch) -> dict[str, Tensor]:
    scores, thing = reading
    background = scores.shape[-1] - 1
    shown = batch.cells >= 0
    owner = batch.cells.clamp_min(0)
    label = torch.where(shown, batch.names.gather(1, owner), background)
    weight = torch.where(shown, 1.0, BACKGROUND_WEIGHT)
    per_cell = F.cross_entropy(scores.flatten(0, 1), label.flatten(), reduction="none").view_as(weight)
    share = shown / cells_of_owner(batch)
    total = share.sum().clamp_min(1e-6)
    box, point, shape = of_owner(batch.boxes, owner), of_owner(batch.points, owner), of_owner(batch.contours, owner)
    overlap, distance = compare_boxes(thing[..., :4], box)
    centre, size = (box[..., :2] + box[..., 2:]) / 2, box[..., 2:] - box[..., :2]
    aside = (thing[..., 4:6] - point).abs().mean(-1)
    inner = ((shape - centre.unsqueeze(-2)) / size.unsqueeze(-2).clamp_min(1e-3)).flatten(-2)
    off = (thing[..., 6:] - inner).abs().mean(-1)
    right = (scores.argmax(-1) == label) & shown
    return {
        "word": (per_cell * weight).sum() / weight.sum(),
        "box": ((distance + 4 * aside) * share).sum() / total,
        "shape": (off * share).sum() / total,
        "right": right.sum() / shown.sum().clamp_min(1),
        "iou": (overlap * share).sum() / total,
    }


def of_owner(values: Tensor, owner: Tensor) -> Tensor:
    """values [B, things, ...], owner int64[B, cells] -> [B, cells, ...]."""
    index = owner.view(*owner.shape, *[1] * (values.ndim - 2)).expand(*owner.shape, *values.shape[2:])
    return values.gather(1, index)


def cells_of_owner(batch: Batch) -> Tensor:
    """f32[B, cells]: how many cells the thing in a cell has (1 where there is none)."""
    owner = batch.cells.clamp_min(0)
    counts = torch.zeros(batch.names.shape, device=owner.device)
    counts.scatter_add_(1, owner, (batch.cells >= 0).float())
    return counts.gather(1, owner).clamp_min(1)


def compare_boxes(code: Tensor, box: Tensor) -> tuple[Tensor, Tensor]:
    """code [..., 4]: centre, log2 of the size; box [..., 4]: corners -> overlap, distance [...].

    The distance is 1 - GIoU (Rezatofighi et al., 2019) plus the differences of the codes.
    """
    centre, size = (box[..., :2] + box[..., 2:]) / 2, (box[..., 2:] - box[..., :2]).clamp_min(1e-3)
    guess = code[..., :2]
    log = code[..., 2:].clamp(SMALLEST_SIZE_LOG2, 1)
    half = log.exp2() / 2
    low, high = guess - half, guess + half
    inner = (torch.minimum(high, box[..., 2:]) - torch.maximum(low, box[..., :2])).clamp_min(0).prod(-1)
    union = (high - low).prod(-1) + size.prod(-1) - inner
    hull = (torch.maximum(high, box[..., 2:]) - torch.minimum(low, box[..., :2])).prod(-1)
    overlap = inner / union.clamp_min(1e-6)
    giou = overlap - (hull - union) / hull.clamp_min(1e-6)
    codes = 4 * (guess - centre).abs().mean(-1) + 0.25 * (code[..., 2:] - size.log2()).abs().mean(-1)
    return overlap, 1 - giou + codes
