"""How an engine is set up, and the values that requests may carry: one home for every limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from photon.errors import InvalidRequestError
from photon.request import SamplingParams

DTYPES = ("float32", "bfloat16", "float16")
MAX_OBJECTS = 150


@dataclass(frozen=True)
class EngineConfig:
    """Raises `InvalidRequestError` for values outside their range.

    device "auto" takes CUDA where there is one; dtype None is bfloat16 there and float32 on a CPU; threads None lets
    torch choose; kv_pages None sizes the cache by max_batch and the model's context within kv_memory_mb.
    max_adapters is how many LoRA adapters may be in use at once; queue is how many requests may wait. parity follows
    the recorded habits of the public reference in sampling (design: model 7.1, 10).
    """

    device: str = "auto"
    dtype: str | None = None
    threads: int | None = None
    max_batch: int = 16
    page_size: int = 16
    kv_pages: int | None = None
    kv_memory_mb: int = 512
    queue: int = 256
    max_prefill_tokens: int = 1024
    max_prefill_images: int = 4
    max_adapters: int = 4
    max_adapter_rank: int = 32
    trace_steps: int = 8192
    preprocess_threads: int = 1
    parity: bool = False

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise InvalidRequestError(f"dtype {self.dtype!r} is not known; allowed are {', '.join(DTYPES)}.")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise InvalidRequestError(f"{field.name} is {value}; allowed are whole numbers from 1.")


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked `settings` of one request. None means that the caller did not say."""

    sampling: SamplingParams
    max_tokens: int | None
    max_objects: int | None
    adapter: str | None = None

    @classmethod
    def parse(cls, settings: Mapping[str, Any] | None) -> Settings:
        """Raises `InvalidRequestError` with the value and the allowed range (design: architecture, "Values")."""
        given = dict(settings or {})
        sampling = SamplingParams(
            temperature=_number(given.pop("temperature", 0.0), "temperature", 0.0, 2.0),
            top_p=_number(given.pop("top_p", 0.3), "top_p", 0.0, 1.0, above=True),
            seed=_whole(given.pop("seed", 0), "seed", 0, 2**63 - 1) or 0,
        )
        parsed = cls(
            sampling,
            max_tokens=_whole(given.pop("max_tokens", None), "max_tokens", 1, 2**31),
            max_objects=_whole(given.pop("max_objects", None), "max_objects", 1, MAX_OBJECTS),
            adapter=given.pop("variant", None),
        )
        if given:
            raise InvalidRequestError(
                f"The setting {next(iter(given))!r} is not known; allowed are temperature, top_p, max_tokens, "
                "max_objects, seed and variant."
            )
        return parsed


def _number(value: Any, name: str, low: float, high: float, above: bool = False) -> float:
    allowed = f"more than {low:g} and at most {high:g}" if above else f"{low:g} to {high:g}"
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or not (low < value if above else low <= value) or value > high:
        raise InvalidRequestError(f"{name} is {value!r}; allowed is {allowed}.")
    return float(value)


def _whole(value: Any, name: str, low: int, high: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidRequestError(f"{name} is {value!r}; allowed are whole numbers from {low} to {high}.")
    return value
