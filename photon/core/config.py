"""How an engine is set up, and the values that requests may carry: one home for every limit."""

from __future__ import annotations

from dataclasses import dataclass, fields

from photon.errors import InvalidRequestError

DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class EngineConfig:
    """Raises `InvalidRequestError` for values outside their range.

    device: "auto" takes CUDA where there is one. dtype: None is bfloat16 there and float32 on a CPU. threads of a
    forward on a CPU: None is one for a small model and all cores for others.
    max_batch rows decode together, and queue requests may wait. A prefill launch takes at most max_prefill_tokens
    prompt tokens (padded; a longer prompt goes alone) and max_prefill_images new pictures; preprocess_threads cut them.
    kv_pages of page_size positions: page_size None is what the attention kernel wants, 16 on a CPU; kv_pages None
    sizes the cache by max_batch, the model's context and a few hundred pictures, within kv_memory_mb MiB. None of that
    too is half of what the weights leave free on CUDA, and 512 on a CPU (where decoding rows take up to half as much
    beside it).
    blocking_waits: whether the host sleeps while it waits for a CUDA device, instead of spinning on a core; None
    sleeps on machines of at most four cores.
    max_adapters LoRA adapters, of at most max_adapter_rank, may be in use at once. The last trace_steps step records
    are kept. parity follows the recorded habits of the public reference in sampling (docs/model.md 7.1, 10).
    mask_model outlines what a model without a segment skill detects: sam2.1-small, sam2.1-large or a folder.
    """

    device: str = "auto"
    dtype: str | None = None
    threads: int | None = None
    max_batch: int = 16
    page_size: int | None = None
    kv_pages: int | None = None
    kv_memory_mb: int | None = None
    queue: int = 256
    max_prefill_tokens: int = 1024
    max_prefill_images: int = 4
    max_adapters: int = 4
    max_adapter_rank: int = 32
    trace_steps: int = 8192
    preprocess_threads: int = 1
    blocking_waits: bool | None = None
    parity: bool = False
    mask_model: str = "sam2.1-small"

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise InvalidRequestError(f"dtype {self.dtype!r} is not known; allowed are {', '.join(DTYPES)}.")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise InvalidRequestError(f"{field.name} is {value}; allowed are whole numbers from 1.")
