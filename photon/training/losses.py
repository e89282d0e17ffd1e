"""What training asks of the model's answers, all questions about a picture packed behind one image prefix."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from photon.models.moondream.efficientnet import Words
from photon.models.moondream.model import Moondream
from photon.models.moondream.region import coord_bin, size_bin
from photon.models.moondream.text import Positions
from photon.training.dataset import Batch
from photon.training.dense import SEEN_LAYERS
from photon.training.recipe import FIRST_NAME, tower_of

GUIDED_LAYERS = (2, 3, 4)
"""Layers whose head 0 is told where to look in training: at the cells of the thing that is being answered."""


VERTEX_WEIGHT = 0.2
"""Weight of a contour's coordinates beside those of points and boxes: a contour has fifty of them."""


class BlockAttention:
    """`attend` for an image prefix that sees itself and packed questions that see it and their own past.

    Questions do not train what the first blocks make of the image.
    """

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
        if layer < SEEN_LAYERS:
            k, v = (torch.cat([t[:, :, :n].detach(), t[:, :, n:]], dim=2) for t in (k, v))
        packed = _weigh(q[:, :, n:], k, v, self.bias)
        return torch.cat([prefix, packed], dim=2).transpose(1, 2)


def _weigh(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    scores = q @ k.transpose(-1, -2)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    return torch.softmax(scores, dim=-1).to(v.dtype) @ v


def image_tokens(model: Moondream, batch: Batch, dropout: float = 0.0) -> Tensor:
    """[B, cells, F] from cached features; the lexical path lends the words' embeddings without training them.

    The learned half of a strange picture sees another one through its own, as it may on photographs: things must
    then be found by the lexical half.
    """
    tower, words = tower_of(model), Words(batch.word_index, batch.word_weight)
    features = torch.lerp(batch.features, batch.features.roll(1, 0), batch.strange)
    learned = tower.learned(F.dropout(features, dropout))
    return learned + tower.pos_emb + tower.lexical(words, model.text.wte[FIRST_NAME:].detach())


def answer_loss(model: Moondream, hidden: Tensor, batch: Batch, attend: BlockAttention) -> dict[str, Tensor]:
    """Stop-or-go, coordinates and sizes of all packed questions, teacher-forced; also the first x by itself.

    hidden [B, length, F] and `attend` are those of `answer_states`.
    """
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


def answer_states(model: Moondream, tokens: Tensor, batch: Batch, attend: BlockAttention) -> tuple[Tensor, Tensor]:
    """Raw hidden states [B, length, F] of the packed tokens, and what the first blocks see in the cells.

    Neither the names asked for nor the seen states are trained by answers.
    """
    prefix_len = model.config.prefix_len
    embedded = model.embed(batch.ids, batch.coords, batch.sizes)
    embedded = torch.where((batch.ids >= FIRST_NAME).unsqueeze(-1), embedded.detach(), embedded)
    x = torch.cat([model.prefix(tokens), embedded.to(tokens.dtype)], dim=1)
    before = torch.arange(prefix_len, device=x.device).expand(len(x), -1)
    where = Positions(model.text, torch.cat([before, prefix_len + batch.step], dim=1))
    seen = x
    for layer, block in enumerate(model.text.blocks):
        if layer == SEEN_LAYERS:
            seen = x[:, 1:prefix_len]
            x = torch.cat([x[:, :prefix_len].detach(), x[:, prefix_len:]], dim=1)
        x = block(x, where, attend, None)
    return x[:, prefix_len:], seen


def seen_states(model: Moondream, tokens: Tensor) -> Tensor:
    """What the first blocks see in the cells [B, cells, F], without any question."""
    x = model.prefix(tokens)
    positions = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
    where, attend = Positions(model.text, positions), BlockAttention(positions[:, :0], x.shape[1])
    for block in model.text.blocks[:SEEN_LAYERS]:
        x = block(x, where, attend, None)
    return x[:, 1:]


def soft_target(bin_: Tensor, bins: int, sigma: float = 1.0) -> Tensor:
    """Bin f32[n] (fractional) -> weights f32[n, bins], a bell around it that sums to one."""
    distance = torch.arange(bins, device=bin_.device) - bin_.unsqueeze(-1)
    return torch.softmax(-0.5 * (distance / sigma) ** 2, dim=-1)
