"""What a call answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from photon.trace import Metrics


class Result(dict[str, Any]):
    """The answer in the official client's form, with the request's `metrics` beside it.

    A streamed answer has its metrics at the end: see `Stream.result`.
    """

    metrics: Metrics

    def __init__(self, answer: Mapping[str, Any], metrics: Metrics | None = None) -> None:
        super().__init__(answer)
        if metrics is not None:
            self.metrics = metrics
