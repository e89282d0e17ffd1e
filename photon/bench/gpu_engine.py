"""One generated model on one device, its engine, and questions with answers of a given length."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from photon import EngineConfig, Photon
from photon.bench.clients import Round, drawn, put
from photon.bench.fixed import fixed_request, single
from photon.core.request import ImageRef, Mode, Request
from photon.core.trace import StepRecord
from photon.devices import make_device
from photon.engine.build import start_engine
from photon.models.registry import LoadedModel

MODES: tuple[Mode, Mode] = ("blocking", "pipelined")
Rows = list[dict[str, Any]]


@dataclass
class Bench:
    """One model on one device, and the engine that serves it.

    rows: how many decode together in steady runs of `tokens` tokens; batches: engine settings for whole requests;
    page_size: None leaves it to the engine.
    """

    loaded: LoadedModel
    device: str
    dtype: torch.dtype
    rows: Sequence[int]
    tokens: int
    batches: Sequence[int]
    left_s: Callable[[], float]
    page_size: int | None = None
    engines: dict[int, Photon] = field(default_factory=dict)
    pictures: int = 0

    @property
    def on_cuda(self) -> bool:
        return self.device == "cuda"

    def engine(self, batch: int) -> Photon:
        """One engine at a time: another batch size, or a failure, replaces it."""
        found = self.engines.get(batch)
        if found is None or not found.healthy:
            self.close()
            config = EngineConfig(device=self.device, max_batch=batch, page_size=self.page_size, queue=4096)
            self.engines[batch] = Photon(start_engine(self.loaded, config, make_device(self.device), self.dtype))
        return self.engines[batch]

    def close(self) -> None:
        for engine in self.engines.values():
            engine.close(deadline_s=5.0)
        self.engines.clear()
        gc.collect()  # an engine's parts know each other; its captured steps hold memory of the device

    def image(self) -> ImageRef:
        """One that no request has named before."""
        self.pictures += 1
        return ImageRef(drawn(1, 480, 640), f"picture {self.pictures}".encode())


def asked(engine: Photon, image: ImageRef, tokens: int, mode: Mode) -> Request:
    """A question with an answer of `tokens` tokens, whatever the weights."""
    return replace(fixed_request(engine.context, image, "cat", -(-tokens // 3), mode), limit=tokens)


def ask(engine: Photon, requests: Sequence[Request], callers: int) -> tuple[Round, list[StepRecord]]:
    """What was generated, and the steps that did it."""
    first = engine.last_step + 1
    made = put(engine, [partial(single, request) for request in requests], callers)
    return made, engine.steps(first)
