"""What training asks of the model: of its image tokens directly, and of its answers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from photon.models.moondream.efficientnet import Words
from photon.models.moondream.model import Moondream
from photon.models.moondream.region import coord_bin, size_bin
from photon.training.dataset import Batch
from photon.training.recipe import FIRST_NAME, tower_of

GUIDED_LAYERS = (2, 3)
"""Layers whose head 0 is told where to look in training: at the cells of the thing that is being answered."""


VERTEX_WEIGHT = 0.2
"""Weight of a contour's coordinates beside those of points and boxes: a contour has fifty of them."""


class DenseHeads(nn.Module):
    """Auxiliary heads on image tokens: the box of the thing in the cell, and a stand-in word for background."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.box = nn.Linear(dim, 4)
        self.background = nn.Parameter(torch.randn(1, dim) * 0.25)


class BlockAttention:
    """`attend` for an image prefix that sees itself and packed questions that see it and their own past."""

    def __init__(self, query: Tensor, prefix_len: int) -> None:
        """query int64[B, length]: which question each packed token belongs to."""
        self.prefix_len = prefix_len
        same = query.unsqueeze(2) == query.unsqueeze(1)
        past = torch.ones(query.shape[1], query.shape[1], dtype=torch.bool, device=query.device).tril()
        sees = F.pad(same & past, (prefix_len, 0), value=True)
        self.bias = torch.zeros(sees.shape, device=query.device).masked_fill(~sees, -1e4).unsqueeze(1)

        self.guided: list[Tensor] = []

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (t.transpose(1, 2) for t in (q * q.shape[-1] ** -0.5, k, v))
        n = self.prefix_len
        prefix = _weigh(q[:, :, :n], k[:, :, :n], v[:, :, :n], None)
        if layer in GUIDED_LAYERS:
            self.guided.append((q[:, 0, n:] @ k[:, 0].mT).float() + self.bias[:, 0])
        packed = _weigh(q[:, :, n:], k, v, self.bias)
        return torch.cat([prefix, packed], dim=2).transpose(1, 2)


def _weigh(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    scores = q @ k.transpose(-1, -2)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    return torch.softmax(scores, dim=-1).to(v.dtype) @ v


def image_tokens(model: Moondream, batch: Batch, dropout: float = 0.0) -> Tensor:
    """[B, cells, F] from cached features; the lexical path lends the words' embeddings without training them."""
    words = Words(batch.word_index, batch.word_weight)
    return tower_of(model).project(F.dropout(batch.features, dropout), words, model.text.wte[FIRST_NAME:].detach())


def dense_loss(model: Moondream, heads: DenseHeads, tokens: Tensor, batch: Batch, taught: int) -> dict[str, Tensor]:
    """Class of every cell (cosine to word embeddings), and the box of every cell that shows a thing."""
    shown = batch.cells >= 0
    owner = batch.cells.clamp_min(0)
    label = torch.where(shown, batch.names.gather(1, owner), taught)
    words = torch.cat([model.text.wte[FIRST_NAME : FIRST_NAME + taught], heads.background])
    scores = F.normalize(tokens.float(), dim=-1) @ F.normalize(words.float(), dim=-1).T * 16
    weight = torch.where(shown, 1.0, 0.3)
    per_cell = F.cross_entropy(scores.flatten(0, 1), label.flatten(), reduction="none")
    word_loss = (per_cell * weight.flatten()).sum() / weight.sum()
    boxes = batch.boxes.gather(1, owner.unsqueeze(-1).expand(-1, -1, 4))
    guess = heads.box(tokens).float()
    box_loss = ((guess - boxes).abs().mean(-1) * shown).sum() / shown.sum().clamp_min(1)
    right = ((scores.argmax(-1) == label) & shown).sum() / shown.sum().clamp_min(1)
    return {"word": word_loss, "box": box_loss, "right": right.detach()}


def answer_loss(model: Moondream, tokens: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Stop-or-go, coordinates and sizes of all packed questions, teacher-forced; also the first x by itself."""
    attend = BlockAttention(batch.query, model.config.prefix_len)
    hidden = answer_states(model, tokens, batch, attend)
    bins, size_bins = model.config.region.coord_bins, model.config.region.size_bins
    decides, is_coord, is_size = batch.stop >= 0, batch.coord_target >= 0, batch.size_target[..., 0] >= 0
    special = model.config.tokenizer
    two = model.text.post_ln(hidden[decides]) @ model.text.lm_head.weight[[special.coord_id, special.eos_id]].T
    two = two.float() + model.text.lm_head.bias[[special.coord_id, special.eos_id]]
    stop = F.cross_entropy(two, batch.stop[decides])
    coord_scores = model.region.decode_coord(hidden[is_coord]).float()
    target = coord_bin(batch.coord_target[is_coord], bins)
    per_coord = -(soft_target(target, bins) * torch.log_softmax(coord_scores, -1)).sum(-1)
    first = (decides & is_coord)[is_coord] & (batch.ids[is_coord] == special.answer_id)
    weight = torch.where(in_lists(batch)[is_coord], 1.0, VERTEX_WEIGHT)
    coord = (per_coord * weight).sum() / weight.sum().clamp_min(1e-6)
    losses = {"stop": stop, "coord": coord, "first_x": per_coord[first].mean().detach()}
    losses["look"] = look_loss(attend, batch)
    losses["sizes"] = stop.new_zeros(())
    if is_size.any():
        size_scores = model.region.decode_size(hidden[is_size]).float()
        wanted = soft_target(size_bin(batch.size_target[is_size], size_bins), size_bins)
        losses["sizes"] = -(wanted * torch.log_softmax(size_scores, -1)).sum(-1).mean()
    return losses


def in_lists(batch: Batch) -> Tensor:
    """bool[B, length]: whether a token belongs to a question that is answered by a list (point, detect)."""
    same = batch.query.unsqueeze(2) == batch.query.unsqueeze(1)
    return (same & (batch.stop >= 0).unsqueeze(1)).any(-1)


def look_loss(attend: BlockAttention, batch: Batch) -> Tensor:
    """-log of the attention that the guided heads give to the cells of the thing in question, where it has cells."""
    right = (batch.cells.unsqueeze(1) == batch.look.unsqueeze(2)) & (batch.look >= 0).unsqueeze(2)
    asked = right.any(-1)
    if not attend.guided or not asked.any():
        return attend.bias.new_zeros(())
    losses = []
    for scores in attend.guided:
        chosen, cells = scores[asked], right[asked]
        on_image = chosen[:, 1 : attend.prefix_len].masked_fill(~cells, -torch.inf)
        losses.append(torch.logsumexp(chosen, -1) - torch.logsumexp(on_image, -1))
    return torch.stack(losses).mean()


def answer_states(model: Moondream, tokens: Tensor, batch: Batch, attend: BlockAttention | None = None) -> Tensor:
    """Raw hidden states [B, length, F] of the packed tokens; the names asked for are not trained by their answers."""
    prefix_len = model.config.prefix_len
    embedded = model.embed(batch.ids, batch.coords, batch.sizes)
    embedded = torch.where((batch.ids >= FIRST_NAME).unsqueeze(-1), embedded.detach(), embedded)
    x = torch.cat([model.prefix(tokens), embedded.to(tokens.dtype)], dim=1)
    before = torch.arange(prefix_len, device=x.device).expand(len(x), -1)
    positions = torch.cat([before, prefix_len + batch.step], dim=1)
    hidden: Tensor = model.text(x, positions, attend or BlockAttention(batch.query, prefix_len))
    return hidden[:, prefix_len:]


def soft_target(bin_: Tensor, bins: int, sigma: float = 1.0) -> Tensor:
    """Bin f32[n] (fractional) -> weights f32[n, bins], a bell around it that sums to one."""
    distance = torch.arange(bins, device=bin_.device) - bin_.unsqueeze(-1)
    return torch.softmax(-0.5 * (distance / sigma) ** 2, dim=-1)
