"""The public verbs: load a model, ask it, look at what the engine does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from PIL import Image

from photon.build import Built, build
from photon.config import EngineConfig, Settings
from photon.errors import InvalidRequestError
from photon.job import Job, Result
from photon.models.moondream.lora import Adapter, read_adapter
from photon.models.vocabulary import Vocabulary
from photon.request import ImageRef, Rgb
from photon.skills import PLANS, Ask, SkillContext
from photon.skills.references import reference_tokens
from photon.trace import StepRecord

ImageLike: TypeAlias = Image.Image | Rgb | ImageRef
_STATS_WINDOW_S = 10.0


class Photon:
    """One model behind one engine thread. Verbs may be called from any thread; `close` it when done.

    Every verb raises `InvalidRequestError` for a bad value before anything is queued, `QueueFullError` when too many
    wait, `EngineStoppedError` after `close` or a failure.
    """

    def __init__(self, built: Built) -> None:
        self._built = built
        self._loop = built.loop
        self._adapters: dict[str, Adapter] = {}
        self._context = SkillContext(
            built.loaded.name, built.loaded.model.config, built.loaded.tokenizer, built.loaded.vocabulary
        )

    @classmethod
    def load(cls, name_or_path: str, config: EngineConfig | None = None) -> Photon:
        """Load a model by name, folder or .safetensors file and start its engine. Raises `ModelLoadError`."""
        return cls(build(name_or_path, config or EngineConfig()))

    # -- verbs ----------------------------------------------------------------------------------------------------

    def point(self, image: ImageLike, object: str, **options: Any) -> Result:
        """{"points": [{"x", "y", "score"}]}. Options: settings, spatial_refs, pipelined (see `_ask`)."""
        return self._wait(self._start("point", image, object, **options))

    def detect(self, image: ImageLike, object: str, **options: Any) -> Result:
        """{"objects": [{"x_min", "y_min", "x_max", "y_max", "score"}]}."""
        return self._wait(self._start("detect", image, object, **options))

    def segment(self, image: ImageLike, object: str, **options: Any) -> Result:
        """The best object's {"path", "bbox", "polygons"} and all of them in "objects"."""
        return self._wait(self._start("segment", image, object, **options))

    async def apoint(self, image: ImageLike, object: str, **options: Any) -> Result:
        """`point` for asyncio: cancelling the task cancels the request in the engine."""
        return await self._await(self._start("point", image, object, **options))

    async def adetect(self, image: ImageLike, object: str, **options: Any) -> Result:
        return await self._await(self._start("detect", image, object, **options))

    async def asegment(self, image: ImageLike, object: str, **options: Any) -> Result:
        return await self._await(self._start("segment", image, object, **options))

    def encode_image(self, image: ImageLike) -> ImageRef:
        """A weak handle to use in place of the picture: it saves hashing it again, and pins nothing."""
        if isinstance(image, ImageRef):
            return image
        if isinstance(image, Image.Image):
            image = np.asarray(image.convert("RGB"))
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            what = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
            raise InvalidRequestError(
                f"The image is {what}; allowed are a PIL image, a uint8 array [height, width, 3] or an encoded image."
            )
        if 0 in image.shape:
            raise InvalidRequestError(f"The image has the shape {image.shape}; it needs at least one pixel.")
        return ImageRef.of(image)

    def _start(
        self,
        skill: str,
        image: ImageLike,
        object: str,
        *,
        settings: Mapping[str, Any] | None = None,
        spatial_refs: Sequence[Sequence[float]] | None = None,
        pipelined: bool = True,
    ) -> Job:
        self._context.require(skill)
        checked = Settings.parse(settings)
        ask = Ask(
            image=self.encode_image(image),
            name=self._context.name(object),
            refs=reference_tokens(spatial_refs, self._context.config.tokenizer),
            settings=checked,
            mode="pipelined" if pipelined else "blocking",
            adapter=self._adapter(checked.adapter),
        )
        return self._loop.submit(PLANS[skill](self._context, ask))

    def add_adapter(self, name: str, path: str | Path) -> None:
        """Make a LoRA adapter available as `settings={"variant": name}`. Raises `ModelLoadError` if it does not fit.

        Its weights stay in host memory and are brought to the device when a request needs them.
        """
        self._adapters[name] = read_adapter(name, Path(path), self._context.config.text, self._built.max_adapter_rank)

    def _adapter(self, name: str | None) -> Adapter | None:
        if name is None:
            return None
        if name not in self._adapters:
            known = ", ".join(sorted(self._adapters)) or "none has been added"
            raise InvalidRequestError(f"There is no adapter {name!r}; known adapters: {known}.")
        return self._adapters[name]

    def _wait(self, job: Job) -> Result:
        try:
            return job.future.result()
        except KeyboardInterrupt:
            self._loop.cancel(job)
            raise

    async def _await(self, job: Job) -> Result:
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            self._loop.cancel(job)
            raise

    # -- what the engine does -------------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The closed vocabulary of a small model; None if it takes any words."""
        return self._context.vocabulary

    @property
    def skills(self) -> tuple[str, ...]:
        return tuple(s for s in PLANS if s in self._context.config.skills)

    @property
    def healthy(self) -> bool:
        return self._loop.failure is None

    @property
    def failure(self) -> str | None:
        """Why the engine has ended, in a sentence."""
        return self._loop.failure

    def steps(self, since: int = 0) -> list[StepRecord]:
        """The step records from index `since` on, as far as the ring still holds them."""
        return self._loop.trace.since(since)

    def describe(self) -> dict[str, Any]:
        """What answers: model, device, dtype, threads, skills, and whether times are modelled."""
        device = self._built.device
        return {
            "model": self._built.loaded.name,
            "device": device.name,
            "dtype": str(self._built.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "skills": list(self.skills),
            "modelled": device.modelled,
        }

    def stats(self) -> dict[str, Any]:
        """A snapshot; shares and rates are over the last ten seconds (design: architecture, "Values")."""
        built, scheduler = self._built, self._loop.scheduler
        now = built.device.now()
        recent = [r for r in self._loop.trace.since(0) if r.commit_end_s > now - _STATS_WINDOW_S]
        return {
            **{k: v for k, v in self.describe().items() if k in ("model", "device", "dtype")},
            "mode": scheduler.mode,
            "running": len(scheduler.running),
            "waiting": scheduler.waiting,
            "pages": {
                "total": built.core.pages.total,
                "free": built.core.pages.free,
                "cached": built.core.prefixes.cached_pages,
            },
            "device_busy": self._loop.trace.busy_share(now - _STATS_WINDOW_S, now),
            "tokens_per_s": sum(len(r.requests) - r.zombies for r in recent) / _STATS_WINDOW_S,
            "requests": {k: self._loop.counts[k] for k in ("done", "failed", "cancelled")},
        }

    def pause(self) -> None:
        """Launch nothing more until `resume`; rows keep their place."""
        self._loop.pause()

    def resume(self) -> None:
        self._loop.resume()

    def close(self, deadline_s: float = 30.0) -> None:
        """Finish what runs, at most `deadline_s` seconds, fail the rest, free the device. May be called twice."""
        self._loop.stop(deadline_s)
        self._built.close()

    def __enter__(self) -> Photon:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
