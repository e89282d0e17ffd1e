"""Photon: an inference engine for Moondream-style vision-language models with pipelined decoding.

Names are imported when they are first used: the command line answers `--help` without waiting for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from photon.errors import (
    DamagedPictureError,
    DeviceError,
    EngineStoppedError,
    InvalidRequestError,
    ModelLoadError,
    NonFiniteError,
    NotAPictureError,
    PhotonError,
    PictureError,
    PictureTooLargeError,
    QueueFullError,
    RequestCancelledError,
    UnknownWordError,
    UnsupportedSkillError,
)

if TYPE_CHECKING:
    from photon.catalog.available import ModelInfo, memory_of, models_available
    from photon.catalog.download import download
    from photon.core.config import EngineConfig
    from photon.core.result import Metrics, Result
    from photon.core.settings import MAX_OBJECTS
    from photon.core.trace import StepRecord
    from photon.engine.arguments import ImageLike
    from photon.engine.streaming import AsyncStream, Stream
    from photon.engine.ticket import Ticket
    from photon.engine.verbs import Photon
    from photon.models.progress import Progress
    from photon.models.public import model_name
    from photon.models.vocabulary import Vocabulary
    from photon.pictures.colours import to_rgb
    from photon.pictures.limits import PictureLimits
    from photon.pictures.reading import decode_picture, read_picture
    from photon.skills.base import OBJECT_SKILLS, SKILLS, TEXT_SKILLS

__all__ = [
    "MAX_OBJECTS",
    "OBJECT_SKILLS",
    "SKILLS",
    "TEXT_SKILLS",
    "AsyncStream",
    "DamagedPictureError",
    "DeviceError",
    "EngineConfig",
    "EngineStoppedError",
    "ImageLike",
    "InvalidRequestError",
    "Metrics",
    "ModelInfo",
    "ModelLoadError",
    "NonFiniteError",
    "NotAPictureError",
    "Photon",
    "PhotonError",
    "PictureError",
    "PictureLimits",
    "PictureTooLargeError",
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
    "decode_picture",
    "download",
    "memory_of",
    "model_name",
    "models_available",
    "read_picture",
    "to_rgb",
]

_HOMES = {
    "AsyncStream": "engine.streaming",
    "EngineConfig": "core.config",
    "ImageLike": "engine.arguments",
    "MAX_OBJECTS": "core.settings",
    "Metrics": "core.result",
    "OBJECT_SKILLS": "skills.base",
    "TEXT_SKILLS": "skills.base",
    "ModelInfo": "catalog.available",
    "Photon": "engine.verbs",
    "Progress": "models.progress",
    "Result": "core.result",
    "SKILLS": "skills.base",
    "StepRecord": "core.trace",
    "Stream": "engine.streaming",
    "Ticket": "engine.ticket",
    "Vocabulary": "models.vocabulary",
    "download": "catalog.download",
    "memory_of": "catalog.available",
    "model_name": "models.public",
    "models_available": "catalog.available",
    "PictureLimits": "pictures.limits",
    "decode_picture": "pictures.reading",
    "read_picture": "pictures.reading",
    "to_rgb": "pictures.colours",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'photon' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"photon.{_HOMES[name]}"), name)
    return value
