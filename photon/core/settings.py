"""The values that requests may carry: one home for every limit."""

from __future__ import annotations

import math
import numbers
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from photon.core.request import SamplingParams
from photon.errors import InvalidRequestError

MAX_OBJECTS = 150


DEFAULT_OBJECTS = 50


DEFAULT_TOKENS = 768


MAX_TEMPERATURE = 2.0


DEFAULT_TOP_P = 0.3


_SETTINGS = ("temperature", "top_p", "max_tokens", "max_objects", "seed", "logprobs", "variant")


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
        """Raises `InvalidRequestError` with the value and the allowed range (docs/architecture.md "Values").

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
