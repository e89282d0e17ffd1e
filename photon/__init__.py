"""Photon: an inference engine for Moondream-style vision-language models with pipelined decoding."""

from photon.config import EngineConfig
from photon.engine import ImageLike, Photon
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
from photon.job import Result
from photon.models.vocabulary import Vocabulary
from photon.trace import Metrics, StepRecord

__all__ = [
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
    "UnknownWordError",
    "UnsupportedSkillError",
    "Vocabulary",
]
