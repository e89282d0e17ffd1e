"""How an engine is set up, and the values that requests may carry: one home for every limit."""

from __future__ import annotations

import math
import numbers
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from photon.errors import InvalidRequestError
from photon.request import SamplingParams

DTYPES = ("float32", "bfloat16", "float16")
MAX_OBJECTS = 150
DEFAULT_OBJECTS = 50
DEFAULT_TOKENS = 768
MAX_TEMPERATURE = 2.0
DEFAULT_TOP_P = 0.3
_SETTINGS = ("temperature", "top_p", "max_tokens", "max_objects", "seed", "logprobs", "variant")


@dataclass(frozen=True)
class EngineConfig:
    """Raises `InvalidRequestError` for values outside their range.

    device "auto" takes CUDA where there is one; dtype None is bfloat16 there and float32 on a CPU; threads None is
    one for a small model on a CPU and all cores for others; kv_pages None sizes the cache by max_batch and the model's
    context within kv_memory_mb (on a CPU decoding rows take up to half as much beside it). max_adapters is how many
    LoRA adapters may be in use at once; queue is how many requests may wait. parity follows the recorded habits of the
    public reference in sampling (design: model 7.1, 10). mask_model outlines what a model without a segment skill
    detects: sam2.1-small, sam2.1-large or a folder.
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
    mask_model: str = "sam2.1-small"

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise InvalidRequestError(f"dtype {self.dtype!r} is not known; allowed are {', '.join(DTYPES)}.")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise InvalidRequestError(f"{field.name} is {value}; allowed are whole numbers from 1.")


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked `settings` of one request. None means that the caller did not say.

    `logprobs` asks for the log-probability of every generated token (see `photon.skills.logprobs`).
    """

    sampling: SamplingParams
    max_tokens: int | None = None
    max_objects: int | None = None
    logprobs: bool = False
    adapter: str | None = None

    @classmethod
    def parse(cls, settings: Mapping[str, Any] | None, context: int = 2**31) -> Settings:
        """Raises `InvalidRequestError` with the value and the allowed range (design: architecture, "Values").

        `context` is the model's, in positions. Without a seed, every request with a temperature draws its own.
        """
        if settings is not None and not isinstance(settings, Mapping):
            raise InvalidRequestError(f"settings is {settings!r}; allowed is a dictionary of {', '.join(_SETTINGS)}.")
        given = {name: value for name, value in (settings or {}).items() if value is not None}
        if unknown := [name for name in given if name not in _SETTINGS]:
            raise InvalidRequestError(f"The setting {unknown[0]!r} is not known; allowed are {', '.join(_SETTINGS)}.")
        temperature = _number(given.get("temperature", 0.0), "temperature", 0.0, MAX_TEMPERATURE)
        top_p = _number(given.get("top_p", DEFAULT_TOP_P), "top_p", 0.0, 1.0, above=True)
        seed = _whole(given.get("seed"), "seed", 0, 2**63 - 1)
        if seed is None:
            seed = secrets.randbits(63) if temperature > 0 else 0
        adapter = given.get("variant")
        if not isinstance(adapter, str | None):
            raise InvalidRequestError(f"variant is {adapter!r}; allowed is the name of an adapter.")
        return cls(
            SamplingParams(temperature, top_p, seed),
            max_tokens=_whole(given.get("max_tokens"), "max_tokens", 1, context),
            max_objects=_whole(given.get("max_objects"), "max_objects", 1, MAX_OBJECTS),
            logprobs=flag(given.get("logprobs", False), "logprobs"),
            adapter=adapter,
        )


def flag(value: Any, name: str) -> bool:
    """Raises `InvalidRequestError` for what is not true or false."""
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{name} is {value!r}; allowed are true and false.")
    return value


def is_number(value: Any) -> bool:
    """A finite number of any type but bool, numpy's included."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _number(value: Any, name: str, low: float, high: float, above: bool = False) -> float:
    allowed = f"more than {low:g} and at most {high:g}" if above else f"{low:g} to {high:g}"
    if not is_number(value) or not (low < value if above else low <= value) or value > high:
        raise InvalidRequestError(f"{name} is {value!r}; allowed is {allowed}.")
    return float(value)


def _whole(value: Any, name: str, low: int, high: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not low <= int(value) <= high:
        raise InvalidRequestError(f"{name} is {value!r}; allowed are whole numbers from {low} to {high}.")
    return int(value)
