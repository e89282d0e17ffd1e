"""One recorded model: its checkpoint folder, its image and what the reference computed from them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from photon.models.moondream.reference import ContiguousCache
from photon.models.registry import LoadedModel, load_model
from tests.paths import PARITY

ATOL = 2e-5
"""Float32 noise is 4e-6; the smallest plausible mistake moves a logit by 5e-5."""


class Difference(NamedTuple):
    """Of one recorded quantity: the largest and the mean (rms) difference, and how large (rms) it is itself."""

    tag: str
    quantity: str
    worst: float
    rms: float
    size: float


class ParityCase:
    def __init__(self, name: str, dtype: torch.dtype = torch.float32) -> None:
        self.folder = PARITY / name
        self.loaded: LoadedModel = load_model(str(self.folder), torch.device("cpu"), dtype)
        self.model = self.loaded.model
        self.config = self.model.config
        self.dtype = dtype
        trace: dict[str, Any] = json.loads((self.folder / "trace.json").read_text())
        self.results: dict[str, Any] = trace["results"]
        self.events: list[dict[str, Any]] = trace["events"]
        self.object: str = trace["object"]
        self.question: str = trace["question"]
        self._tensors = load_file(self.folder / "trace.safetensors")

    @property
    def image(self) -> NDArray[np.uint8]:
        return np.asarray(Image.open(self.folder / "image.png").convert("RGB"))

    def recorded(self, event: dict[str, Any], tensor: str) -> Tensor:
        return self._tensors[event["tensors"][tensor]]

    def only(self, kind: str) -> dict[str, Any]:
        (event,) = [e for e in self.events if e["kind"] == kind]
        return event

    def replay(self) -> list[Difference]:
        """Teacher-force every event of the decoder, and say how far each is from what was recorded."""
        text, region = self.model.text, self.model.region
        image = ContiguousCache(self.config.text, 900, self.config.prefix_len, dtype=self.dtype)
        prefix = self.model.prefix(self.recorded(self.only("projection"), "image_embeds").to(self.dtype)[None])
        hidden = text(prefix, torch.arange(self.config.prefix_len)[None], image)[:, -1]
        cache, seen = image, list[Difference]()

        def compare(event: dict[str, Any], quantity: str, ours: Tensor, name: str) -> None:
            theirs = self.recorded(event, name)
            assert ours.numel() == theirs.numel()
            off = ours.float().flatten() - theirs.flatten()
            seen.append(Difference(event["tag"], quantity, float(off.abs().max()), _rms(off), _rms(theirs)))

        for event in self.events:
            kind, quantity = event["kind"], f"{event['kind']} {event.get('position', '')}"
            if kind == "prefill":
                first, last = event["positions"]
                if event["tag"] != "image":
                    if first == 0:
                        cache = ContiguousCache(self.config.text, 900, 0, dtype=self.dtype)
                    elif first == self.config.prefix_len:
                        cache = image
                        cache.rewind(first)
                    assert cache.length == first
                    embeds = self.recorded(event, "embeds").to(self.dtype)
                    hidden = text(embeds, torch.arange(first, last + 1)[None], cache)[:, -1]
                compare(event, quantity, hidden, "hidden_last")
            elif kind == "prefill_logits":
                compare(event, quantity, self.model.logits(hidden), "logits")
            elif kind == "decode":
                embed = self.recorded(event, "embed").to(self.dtype).view(1, -1)
                hidden = text(embed, torch.tensor([event["position"]]), cache)
                compare(event, quantity, hidden, "hidden")
                compare(event, quantity + " logits", self.model.logits(hidden), "logits")
            elif kind == "coord_logits":
                compare(event, quantity, region.decode_coord(hidden), "logits")
            elif kind == "size_logits":
                compare(event, quantity, region.decode_size(hidden), "logits")
        return seen


def _rms(values: Tensor) -> float:
    return float(values.pow(2).mean().sqrt())


@cache
def parity_case(name: str, dtype: torch.dtype = torch.float32) -> ParityCase:
    return ParityCase(name, dtype)
