"""Photon: an inference engine for Moondream-style vision-language models with pipelined decoding."""

from photon.asking import ImageLike
from photon.config import EngineConfig
from photon.engine import Photon
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
from photon.models.vocabulary import Vocabulary
from photon.result import Result
from photon.streaming import AsyncStream, Stream
from photon.trace import Metrics, StepRecord

__all__ = [
    "AsyncStream",
    "DeviceError",
    "EngineConfig",
    "EngineStoppedError",
    "ImageLike",
    "InvalidRequestError",
    "Metrics",
    "ModelLoadError",
    "Photon",
    "PhotonError",
    "QueueFullError",
    "RequestCancelledError",
    "Result",
    "StepRecord",
    "Stream",
    "UnknownWordError",
    "UnsupportedSkillError",
    "Vocabulary",
]
