"""What a call answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from photon.core.request import Mode


class Result(dict[str, Any]):
    """The answer in the official client's form, with the request's `metrics` beside it.

    `finish_reason` is "stop", or "length" where it ended at a limit on its tokens and was to be longer. A streamed
    answer has both at the end: see `Stream.result`.
    """

    metrics: Metrics

    def __init__(
        self,
        answer: Mapping[str, Any],
        metrics: Metrics | None = None,
        finish_reason: Literal["stop", "length"] = "stop",
    ) -> None:
        super().__init__(answer)
        self.finish_reason = finish_reason
        if metrics is not None:
            self.metrics = metrics


@dataclass(frozen=True, slots=True)
class Metrics:
    """One request's time, milliseconds. `device_busy` is the share of its span in which the compute stream worked.

    `encode_ms` is the picture's encoding where that runs ahead of the prefill, 0 where it is part of the prefill.
    `prompt_tokens` are those of its first prompt, the picture's among them; `tokens` are all that were generated.
    """

    request_id: int
    mode: Mode
    preprocess_ms: float
    encode_ms: float
    queue_ms: float
    prefill_ms: float
    time_to_first_token_ms: float
    decode_ms: float
    total_ms: float
    tokens: int
    steps: int
    zombie_steps: int
    device_busy: float
    requests: tuple[int, ...]
    prompt_tokens: int = 0
