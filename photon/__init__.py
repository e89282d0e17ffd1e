"""Photon: an inference engine for Moondream-style vision-language models with pipelined decoding.

Names are imported when they are first used: the command line answers `--help` without waiting for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from photon.errors import (
    DeviceError,
    EngineStoppedError,
    InvalidRequestError,
    ModelLoadError,
    PhotonError,
    QueueFullError,
    RequestCancelledError,
    UnknownWordError,
    UnsupportedSkillError,
)

if TYPE_CHECKING:
    from photon.asking import ImageLike
    from photon.catalog import ModelInfo, memory_of, models_available
    from photon.config import EngineConfig
    from photon.engine import Photon
    from photon.models.download import download
    from photon.models.progress import Progress
    from photon.models.public import model_name
    from photon.models.vocabulary import Vocabulary
    from photon.result import Result
    from photon.streaming import AsyncStream, Stream
    from photon.ticket import Ticket
    from photon.trace import Metrics, StepRecord

__all__ = [
    "AsyncStream",
    "DeviceError",
    "EngineConfig",
    "EngineStoppedError",
    "ImageLike",
    "InvalidRequestError",
    "Metrics",
    "ModelInfo",
    "ModelLoadError",
    "Photon",
    "PhotonError",
    "Progress",
    "QueueFullError",
    "RequestCancelledError",
    "Result",
    "StepRecord",
    "Stream",
    "Ticket",
    "UnknownWordError",
    "UnsupportedSkillError",
    "Vocabulary",
    "download",
    "memory_of",
    "model_name",
    "models_available",
]

_HOMES = {
    "AsyncStream": "streaming",
    "EngineConfig": "config",
    "ImageLike": "asking",
    "Metrics": "trace",
    "ModelInfo": "catalog",
    "Photon": "engine",
    "Progress": "models.progress",
    "Result": "result",
    "StepRecord": "trace",
    "Stream": "streaming",
    "Ticket": "ticket",
    "Vocabulary": "models.vocabulary",
    "download": "models.download",
    "memory_of": "catalog",
    "model_name": "models.public",
    "models_available": "catalog",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'photon' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"photon.{_HOMES[name]}"), name)
    return value
