"""What the environment may set, read in one place and checked before anything starts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("float32", "bfloat16", "float16")
MODELS = ("photon-tiny", "moondream2", "moondream3-preview", "moondream3.1")  # those whose files can be had


ON_ZERO_GPU = (
    "This Space has ZeroGPU, which lends a GPU to one forked call at a time. The engine keeps its model, its pages and "
    "its thread between calls and cannot use such a GPU, so it runs on the CPU here."
)


class SettingsError(ValueError):
    """An environment variable has a value that is not allowed; the sentence names all three."""


@dataclass(frozen=True)
class ServerSettings:
    """The process's settings; `from_env` is the only reader of the environment.

    `dtype`, `threads` and `kv_pages` are None where the engine is to choose. Pages of the `origins` may read `/v1`.
    """

    host: str = "127.0.0.1"
    port: int = 7860
    model: str = "photon-tiny"
    models: tuple[str, ...] = MODELS
    device: str = "auto"
    dtype: str | None = None
    threads: int | None = None
    max_batch: int = 16
    kv_pages: int | None = None
    queue: int = 64
    mask_model: str = "sam2.1-small"
    api_key: str | None = None
    origins: tuple[str, ...] = ("*",)
    allow_download: bool = False
    max_image_mb: float = 20.0
    max_megapixels: float = 50.0
    zero_gpu: bool = False

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> ServerSettings:
        """Read HOST, PORT, PHOTON_* and SPACES_ZERO_GPU; raises SettingsError for a value that is not allowed."""
        read = _Reader(os.environ if env is None else env)
        zero_gpu = read.text("SPACES_ZERO_GPU", "0").lower() not in ("0", "false")  # set by the host
        model = read.text("PHOTON_MODEL", cls.model)
        models = _names(read.text("PHOTON_MODELS", ",".join((model, *MODELS))))
        if model not in models:
            raise SettingsError(f"PHOTON_MODEL is {model!r}, which PHOTON_MODELS ({', '.join(models)}) does not list.")
        return cls(
            host=read.text("HOST", cls.host),
            port=read.whole("PORT", cls.port, 1, 65535),
            model=model,
            models=models,
            device=_device(read, zero_gpu),
            dtype=read.optional_choice("PHOTON_DTYPE", DTYPES),
            threads=read.optional_whole("PHOTON_THREADS", 1, 1024),
            max_batch=read.whole("PHOTON_MAX_BATCH", cls.max_batch, 1, 1024),
            kv_pages=read.optional_whole("PHOTON_KV_PAGES", 1, 10_000_000),
            queue=read.whole("PHOTON_QUEUE", cls.queue, 1, 100_000),
            mask_model=read.text("PHOTON_MASK_MODEL", cls.mask_model),
            api_key=read.text("PHOTON_API_KEY", "") or None,
            origins=_origins(read.text("PHOTON_ALLOWED_ORIGINS", "*")),
            allow_download=read.choice("PHOTON_ALLOW_DOWNLOAD", "0", ("0", "1")) == "1",
            max_image_mb=read.positive("PHOTON_MAX_IMAGE_MB", cls.max_image_mb, 1000.0),
            max_megapixels=read.positive("PHOTON_MAX_MEGAPIXELS", cls.max_megapixels, 1000.0),
            zero_gpu=zero_gpu,
        )


@dataclass(frozen=True)
class _Reader:
    """Typed reads of one environment; an unset or blank variable means its default."""

    env: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        return self.env.get(name, "").strip() or default

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self.text(name, default).lower()
        if value not in allowed:
            raise SettingsError(f"{name} is {value!r}; allowed are {', '.join(allowed)}.")
        return value

    def optional_choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        return self.choice(name, "", allowed) if self.text(name, "") else None

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        return self._number(name, str(default), int, low, high, "a whole number")

    def optional_whole(self, name: str, low: int, high: int) -> int | None:
        return self.whole(name, low, low, high) if self.env.get(name, "").strip() else None

    def positive(self, name: str, default: float, high: float) -> float:
        return self._number(name, str(default), float, 0.001, high, "a number")

    def _number(self, name: str, default: str, kind: Callable[[str], T], low: T, high: T, word: str) -> T:
        value = self.text(name, default)
        try:
            number = kind(value)
        except ValueError:
            number = None
        if number is None or not low <= number <= high:  # type: ignore[operator]
            raise SettingsError(f"{name} is {value!r}; allowed is {word} from {low} to {high}.")
        return number


def _device(read: _Reader, zero_gpu: bool) -> str:
    device = read.choice("PHOTON_DEVICE", ServerSettings.device, DEVICES)
    if not zero_gpu:
        return device
    if device == "cuda":
        raise SettingsError(f"PHOTON_DEVICE is 'cuda'; allowed here are auto and cpu. {ON_ZERO_GPU}")
    return "cpu"


def _origins(text: str) -> tuple[str, ...]:
    """`*` for all, `none`, or a list of origins such as https://example.com."""
    if text in ("*", "none"):
        return (text,) if text == "*" else ()
    origins = tuple(origin.rstrip("/") for origin in _names(text))
    if wrong := [origin for origin in origins if not re.fullmatch(r"https?://[^/\s]+", origin)]:
        raise SettingsError(
            f"PHOTON_ALLOWED_ORIGINS has {wrong[0]!r}; allowed are *, none, and a list such as https://example.com."
        )
    return origins


def _names(text: str) -> tuple[str, ...]:
    """A comma-separated list without blanks or repeats, in order."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
