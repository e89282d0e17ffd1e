"""The decode loops of the published models, one sequence at a time, written to be read (docs/model.md 6, 7).

Follows two habits of the recorded reference that an engine with allow-lists does not have: the continue decision
looks at the whole vocabulary and stops only on eos, and the first generated token is never suppressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from photon.models.moondream.reference import ContiguousCache
from photon.models.moondream.region import coord_value, size_value
from photon.models.registry import LoadedModel


@dataclass
class Encoded:
    """An image as a cache whose first `prefix_len` positions are its bidirectional block."""

    cache: ContiguousCache
    embeddings: Tensor


class ReferenceLoop:
    def __init__(self, loaded: LoadedModel, capacity: int = 1024) -> None:
        self.model, self.tokenizer = loaded.model, loaded.tokenizer
        self.config = loaded.model.config
        self.special = self.config.tokenizer
        self.capacity = capacity

    def cache(self, prefix_len: int) -> ContiguousCache:
        return ContiguousCache(self.config.text, self.capacity, prefix_len, dtype=self.model.dtype)

    def encode_image(self, image: NDArray[np.uint8]) -> Encoded:
        embeddings = self.model.vision([self.model.vision.preprocess(image)])
        cache = self.cache(self.config.prefix_len)
        self.feed(self.model.prefix(embeddings), cache)
        return Encoded(cache, embeddings[0])

    def feed(self, embeds: Tensor, cache: ContiguousCache) -> Tensor:
        """embeds [1, T, F] -> hidden [F] of the last position."""
        positions = torch.arange(cache.length, cache.length + embeds.shape[1]).unsqueeze(0)
        return self.model.text(embeds, positions, cache)[0, -1]

    def embed(self, ids: Sequence[int], values: Sequence[tuple[float, ...]] = ()) -> Tensor:
        """[1, T, F]; `values` belong to the coordinate and size ids in order."""
        coords, sizes, left = torch.zeros(len(ids)), torch.zeros(len(ids), 2), list(values)
        for place, token in enumerate(ids):
            if token == self.special.coord_id and left:
                coords[place] = left.pop(0)[0]
            elif token == self.special.size_id and left:
                sizes[place] = torch.tensor(left.pop(0))
        return self.model.embed(torch.tensor(ids), coords, sizes).unsqueeze(0)

    def start(self, prompt: Tensor, image: Encoded | None) -> tuple[Tensor, ContiguousCache]:
        """Prefill a prompt behind the image's block, or behind BOS alone."""
        if image is None:
            return self.feed(
                torch.cat([self.embed([self.special.bos_id]), prompt], dim=1), cache := self.cache(0)
            ), cache
        image.cache.rewind(self.config.prefix_len)
        return self.feed(prompt, image.cache), image.cache

    def generate(
        self, hidden: Tensor, cache: ContiguousCache, stop: int, banned: Sequence[int], most: int
    ) -> list[int]:
        """Greedy text; `banned` ids may not follow the first token."""
        tokens: list[int] = []
        token = int(self.model.logits(hidden).argmax())
        while token != stop and len(tokens) < most:
            tokens.append(token)
            logits = self.model.logits(self.feed(self.model.embed(torch.tensor([[token]])), cache))
            logits[list(banned)] = float("-inf")
            token = int(logits.argmax())
        return tokens

    def caption(self, image: Encoded, length: str = "normal", most: int = 12) -> str:
        hidden, cache = self.start(self.embed(self.special.templates["caption"][length]), image)
        banned = self.special.suppress.get("answer", [])
        return self.tokenizer.decode(self.generate(hidden, cache, self.special.eos_id, banned, most))

    def query(
        self,
        question: str,
        image: Encoded | None = None,
        refs: Sequence[tuple[float, ...]] = (),
        reasoning: bool = False,
        most: int = 12,
    ) -> tuple[str, str]:
        """(answer, reasoning)."""
        template = self.special.templates["query"]
        ids, values = self.references(refs)
        suffix = template["reasoning" if reasoning else "suffix"]
        prompt = self.embed([*template["prefix"], *ids, *self.tokenizer.encode(question), *suffix], values)
        hidden, cache = self.start(prompt, image)
        thoughts: list[int] = []
        if reasoning:
            banned = self.special.suppress.get("reasoning", [])
            thoughts = self.generate(hidden, cache, self.special.answer_id, banned, most)
            hidden = self.feed(self.embed([self.special.answer_id]), cache)
        banned = self.special.suppress.get("answer", [])
        answer = self.generate(hidden, cache, self.special.eos_id, banned, most)
        return self.tokenizer.decode(answer), self.tokenizer.decode(thoughts)

    def references(self, refs: Sequence[tuple[float, ...]]) -> tuple[list[int], list[tuple[float, ...]]]:
        """Points (x, y) and boxes (x0, y0, x1, y1) as ids and their values (docs/model.md 6.1)."""
        coord, size = self.special.coord_id, self.special.size_id
        ids: list[int] = []
        values: list[tuple[float, ...]] = []
        for ref in refs:
            if len(ref) == 2:
                ids, values = [*ids, coord, coord], [*values, ref[:1], ref[1:]]
            else:
                x0, y0, x1, y1 = ref
                ids = [*ids, coord, coord, size]
                values = [*values, ((x0 + x1) / 2,), ((y0 + y1) / 2,), (x1 - x0, y1 - y0)]
        return ids, values

    def point(self, image: Encoded, name: str, most: int = 50) -> list[dict[str, float]]:
        return [{"x": x, "y": y} for x, y, _ in self.objects("point", image, name, most)]

    def detect(self, image: Encoded, name: str, most: int = 50) -> list[dict[str, float]]:
        """Boxes as they come, not clipped."""
        return [
            {"x_min": x - w / 2, "y_min": y - h / 2, "x_max": x + w / 2, "y_max": y + h / 2}
            for x, y, (w, h) in self.objects("detect", image, name, most)
        ]

    def objects(
        self, skill: str, image: Encoded, name: str, most: int
    ) -> list[tuple[float, float, tuple[float, float]]]:
        """The loops of point and detect; without sizes for point."""
        template = self.special.templates[skill]
        ids = [*template["prefix"], *self.tokenizer.encode(" " + name), *template["suffix"]]
        hidden, cache = self.start(self.embed(ids), image)
        region, bins = self.model.region, self.config.region
        found = []
        while int(self.model.logits(hidden).argmax()) != self.special.eos_id and len(found) < most:
            x = coord_value(region.decode_coord(hidden).argmax(), bins.coord_bins)
            hidden = self.feed(region.encode_coord(x).view(1, 1, -1), cache)
            y = coord_value(region.decode_coord(hidden).argmax(), bins.coord_bins)
            hidden = self.feed(region.encode_coord(y).view(1, 1, -1), cache)
            size = torch.zeros(2)
            if skill == "detect":
                size = size_value(region.decode_size(hidden).argmax(-1), bins.size_bins)
                hidden = self.feed(region.encode_size(size).view(1, 1, -1), cache)
            found.append((float(x), float(y), (float(size[0]), float(size[1]))))
        return found
