"""The straightforward way: one request at a time, keys and values side by side, no scheduler.

It runs the same weights with the same operators and the engine's own sampling, so that a comparison with the engine
shows what the engine's machinery costs and what its batching brings.
"""

from __future__ import annotations

import torch
from torch import Tensor

from photon.core.request import Choice, ImageRef, Request, Token
from photon.models.moondream.model import Moondream
from photon.runtime.backends import full_attention
from photon.runtime.choices import MAX_ALLOWED, MAX_BANNED, ChoiceRows
from photon.runtime.sampling import Sampler


class Contiguous:
    """An `attend` of the text decoder: `kv` [layers, 2, 1, positions, h_kv, d], written from position `at` on."""

    def __init__(self, kv: Tensor, at: int, bidirectional: bool = False) -> None:
        self._kv = kv
        self._at = at
        self._bidirectional = bidirectional

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        end = self._at + q.shape[1]
        keys, values = self._kv[layer]
        keys[:, self._at : end] = k
        values[:, self._at : end] = v
        if self._bidirectional:
            return full_attention(q, k, v)
        return _causal(q, keys[:, :end], values[:, :end])


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Product, float32 softmax, product, as in `photon.runtime.backends.Gather`; one query needs no mask."""
    groups = q.shape[2] // k.shape[2]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=2), v.repeat_interleave(groups, dim=2)
    scores = torch.matmul(q.transpose(1, 2), k.permute(0, 2, 3, 1)).float() * q.shape[-1] ** -0.5
    if q.shape[1] > 1:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + k.shape[1] - q.shape[1])
        scores = scores.masked_fill(later, float("-inf"))
    weights = torch.softmax(scores, dim=-1).to(v.dtype)
    return torch.matmul(weights, v.transpose(1, 2)).transpose(1, 2)


class PlainLoop:
    """`keep_prefixes` remembers what each picture leaves in the cache, by its key."""

    def __init__(self, model: Moondream, keep_prefixes: bool = False) -> None:
        ids = model.config.tokenizer
        self._model = model
        self._sampler = Sampler(model)
        self._choices = ChoiceRows(ids.coord_id, ids.size_id)
        self._keep = keep_prefixes
        self._kept: dict[bytes, Tensor] = {}

    @torch.inference_mode()
    def generate(self, request: Request) -> list[Token]:
        """The tokens of one greedy request with a picture."""
        assert request.image is not None
        length, state = self._model.config.prefix_len, request.start()
        kv = self._prefix(request.image, length + len(request.prompt) + request.limit)
        fed, at, tokens = list(request.prompt), length, list[Token]()
        while True:
            hidden = self._forward(fed, at, kv)
            at += len(fed)
            tokens.append(self._sample(hidden, state.choice()))
            state.advance(tokens[-1])
            if state.done or len(tokens) == request.limit:
                return tokens
            fed = tokens[-1:]

    def _prefix(self, image: ImageRef, positions: int) -> Tensor:
        """Keys and values with room for `positions`, the picture's filled in."""
        text, length = self._model.config.text, self._model.config.prefix_len
        kv = torch.empty(text.n_layers, 2, 1, positions, text.n_kv_heads, text.head_dim, dtype=self._model.dtype)
        if image.key in self._kept:
            kv[:, :, :, :length] = self._kept[image.key]
            return kv
        x = self._model.prefix(self._model.vision([self._model.vision.preprocess(image.pixels)]))
        self._model.text(x, torch.arange(length), Contiguous(kv, 0, bidirectional=True))
        if self._keep:
            self._kept[image.key] = kv[:, :, :, :length].clone()
        return kv

    def _forward(self, fed: list[Token], at: int, kv: Tensor) -> Tensor:
        """Hidden state [1, F] of the last token."""
        ids = torch.tensor([[t.id for t in fed]])
        values = torch.tensor([[t[1:4] for t in fed]])
        x = self._model.embed(ids, values[..., 0], values[..., 1:])
        hidden = self._model.text(x, torch.arange(at, at + len(fed)).unsqueeze(0), Contiguous(kv, at))
        last: Tensor = hidden[:, -1]
        return last

    def _sample(self, hidden: Tensor, choice: Choice) -> Token:
        staged = torch.zeros(1, 1 + MAX_ALLOWED + MAX_BANNED, dtype=torch.int64)
        needs = self._choices.stage([choice], staged.numpy())
        ids, values = self._sampler(hidden, None, staged, torch.zeros(1, 5), needs)
        return Token(int(ids[0]), *values[0].tolist())
