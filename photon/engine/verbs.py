"""The public verbs: load a model, ask it, look at what the engine does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import torch

from photon.core.config import EngineConfig
from photon.core.request import ImageRef
from photon.core.result import Result
from photon.core.trace import StepRecord
from photon.engine.arguments import Arguments, ImageLike, RefsLike, SettingsLike, image_ref
from photon.engine.build import EngineParts, load_engine
from photon.engine.streaming import AsyncStream, Last, LoopMailbox, Stream, ThreadMailbox
from photon.engine.ticket import Ticket
from photon.models.progress import Progress, unseen
from photon.models.vocabulary import Vocabulary
from photon.skills import PLANS, Ask, SkillContext
from photon.skills.segment import segment_end

_STATS_WINDOW_S = 10.0


class Photon:
    """One model behind one engine thread. Verbs may be called from any thread; `close` it when done.

    Every verb raises `InvalidRequestError` for a bad value before anything is queued, `QueueFullError` when too many
    wait, `EngineStoppedError` after `close` or a failure; a stream raises the latter two from its first piece on.
    settings: temperature, top_p, max_tokens, max_objects, seed, logprobs and variant (the name of an adapter).
    spatial_refs: points [x, y] and boxes [x_min, y_min, x_max, y_max] in 0..1 that belong to the question.
    `pipelined=False` answers one request in blocking mode, with the same result.

    `parts`, `context` and `arguments` are its inside, for benchmarks and tests; callers need none of them.
    """

    def __init__(self, parts: EngineParts) -> None:
        self.parts = parts
        self._loop = parts.loop
        self.context = SkillContext(
            parts.loaded.name,
            parts.loaded.model.config,
            parts.loaded.tokenizer,
            parts.loaded.vocabulary,
            parity=parts.config.parity,
            masks=parts.masks,
        )
        self.arguments = Arguments(self.context, parts.config.max_adapter_rank, parts.add_adapter)

    @classmethod
    def load(cls, name_or_path: str, config: EngineConfig | None = None, progress: Progress | None = None) -> Photon:
        """Load a model by name, folder or .safetensors file and start its engine. Raises `ModelLoadError`.

        progress: called with the share of the weights that are read, 0..1.
        """
        return cls(load_engine(name_or_path, config or EngineConfig(), progress or unseen))

    # -- verbs: arguments and results are those of the official client ---------------------------------------------

    def query(
        self,
        image: ImageLike | None = None,
        question: str | None = None,
        stream: bool = False,
        settings: SettingsLike = None,
        reasoning: bool = False,
        spatial_refs: RefsLike = None,
        *,
        pipelined: bool = True,
    ) -> Result:
        """{"answer": str}; reasoning adds {"reasoning": {"text", "grounding": [{"start_idx", "end_idx", "points"}]}}.

        With `stream` the answer is a `Stream` of its pieces. Without an image the question stands for itself.
        """
        ask = self.arguments.ask("query", image, question, settings, spatial_refs, pipelined, stream, reasoning)
        return self._text(ask, "answer")

    def caption(
        self,
        image: ImageLike,
        length: str = "normal",
        stream: bool = False,
        settings: SettingsLike = None,
        *,
        pipelined: bool = True,
    ) -> Result:
        """{"caption": str}, `length` being short, normal or long; with `stream` a `Stream` of its pieces."""
        return self._text(self.arguments.ask("caption", image, length, settings, None, pipelined, stream), "caption")

    def point(
        self,
        image: ImageLike,
        object: str,
        settings: SettingsLike = None,
        spatial_refs: RefsLike = None,
        *,
        pipelined: bool = True,
    ) -> Result:
        """{"points": [{"x", "y", "score"}]}."""
        return self._wait(self.arguments.ask("point", image, object, settings, spatial_refs, pipelined))

    def detect(
        self,
        image: ImageLike,
        object: str,
        settings: SettingsLike = None,
        spatial_refs: RefsLike = None,
        *,
        pipelined: bool = True,
    ) -> Result:
        """{"objects": [{"x_min", "y_min", "x_max", "y_max", "score"}]}."""
        return self._wait(self.arguments.ask("detect", image, object, settings, spatial_refs, pipelined))

    def segment(
        self,
        image: ImageLike,
        object: str,
        spatial_refs: RefsLike = None,
        stream: bool = False,
        settings: SettingsLike = None,
        *,
        pipelined: bool = True,
    ) -> Any:
        """The best object's {"path", "bbox", "polygons"} and all of them in "objects".

        With `stream` a `Stream` of {"bbox"}, then {"chunk"}s of the path, then {"path", "bbox", "completed": True}.
        """
        ask = self.arguments.ask("segment", image, object, settings, spatial_refs, pipelined, stream)
        return self._open(ask, segment_end) if ask.stream else self._wait(ask)

    async def aquery(
        self,
        image: ImageLike | None = None,
        question: str | None = None,
        stream: bool = False,
        settings: SettingsLike = None,
        reasoning: bool = False,
        spatial_refs: RefsLike = None,
        *,
        pipelined: bool = True,
        ticket: Ticket | None = None,
    ) -> Result:
        """`query` for asyncio: cancelling the task cancels the request; a streamed answer is an `AsyncStream`.

        A `ticket` tells meanwhile where the call stands in the queue.
        """
        ask = self.arguments.ask("query", image, question, settings, spatial_refs, pipelined, stream, reasoning)
        return await self._atext(ask, "answer", ticket)

    async def acaption(
        self,
        image: ImageLike,
        length: str = "normal",
        stream: bool = False,
        settings: SettingsLike = None,
        *,
        pipelined: bool = True,
        ticket: Ticket | None = None,
    ) -> Result:
        """`caption` for asyncio; see `aquery`."""
        ask = self.arguments.ask("caption", image, length, settings, None, pipelined, stream)
        return await self._atext(ask, "caption", ticket)

    async def apoint(
        self,
        image: ImageLike,
        object: str,
        settings: SettingsLike = None,
        spatial_refs: RefsLike = None,
        *,
        pipelined: bool = True,
        ticket: Ticket | None = None,
    ) -> Result:
        """`point` for asyncio; see `aquery`."""
        return await self._await(self.arguments.ask("point", image, object, settings, spatial_refs, pipelined), ticket)

    async def adetect(
        self,
        image: ImageLike,
        object: str,
        settings: SettingsLike = None,
        spatial_refs: RefsLike = None,
        *,
        pipelined: bool = True,
        ticket: Ticket | None = None,
    ) -> Result:
        """`detect` for asyncio; see `aquery`."""
        return await self._await(self.arguments.ask("detect", image, object, settings, spatial_refs, pipelined), ticket)

    async def asegment(
        self,
        image: ImageLike,
        object: str,
        spatial_refs: RefsLike = None,
        stream: bool = False,
        settings: SettingsLike = None,
        *,
        pipelined: bool = True,
        ticket: Ticket | None = None,
    ) -> Any:
        """`segment` for asyncio; see `aquery`."""
        ask = self.arguments.ask("segment", image, object, settings, spatial_refs, pipelined, stream)
        return self._aopen(ask, segment_end, ticket) if ask.stream else await self._await(ask, ticket)

    def encode_image(self, image: ImageLike) -> ImageRef:
        """A weak handle to use in place of the picture: it saves hashing it again, and pins nothing."""
        return image_ref(image)

    def add_adapter(self, name: str, path: str | Path) -> None:
        """Make a LoRA adapter available as `settings={"variant": name}`. Raises `ModelLoadError` if it does not fit.

        Its weights stay in host memory and are brought to the device when a request needs them. Raises
        `EngineStoppedError` if the engine has ended.
        """
        self.arguments.add_adapter(name, path)

    # -- ways to wait ---------------------------------------------------------------------------------------------

    def _wait(self, ask: Ask) -> Result:
        call = self._loop.submit(PLANS[ask.skill](self.context, ask))
        try:
            return call.future.result()
        except KeyboardInterrupt:
            self._loop.cancel(call)
            raise

    async def _await(self, ask: Ask, ticket: Ticket | None = None) -> Result:
        call = self._loop.submit(PLANS[ask.skill](self.context, ask))
        if ticket is not None:
            ticket.follow(call.ahead)
        try:
            return await asyncio.wrap_future(call.future)
        except asyncio.CancelledError:
            self._loop.cancel(call)
            raise

    def _open(self, ask: Ask, last: Last | None = None) -> Stream:
        mailbox = ThreadMailbox()
        call = self._loop.submit(PLANS[ask.skill](self.context, ask), mailbox)
        return Stream(mailbox, lambda: self._loop.cancel(call), last)

    def _aopen(self, ask: Ask, last: Last | None = None, ticket: Ticket | None = None) -> AsyncStream:
        mailbox = LoopMailbox(asyncio.get_running_loop())
        call = self._loop.submit(PLANS[ask.skill](self.context, ask), mailbox)
        if ticket is not None:
            ticket.follow(call.ahead)
        return AsyncStream(mailbox, lambda: self._loop.cancel(call), last)

    def _text(self, ask: Ask, key: str) -> Result:
        return Result({key: self._open(ask)}) if ask.stream else self._wait(ask)

    async def _atext(self, ask: Ask, key: str, ticket: Ticket | None) -> Result:
        return Result({key: self._aopen(ask, ticket=ticket)}) if ask.stream else await self._await(ask, ticket)

    # -- what the engine does -------------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The closed vocabulary of a small model; None if it takes any words."""
        return self.context.vocabulary

    @property
    def skills(self) -> tuple[str, ...]:
        """What can be asked here, by the names of the verbs."""
        return self.context.skills

    @property
    def healthy(self) -> bool:
        """Whether the engine answers; it is still so while paused."""
        return self._loop.failure is None

    @property
    def failure(self) -> str | None:
        """Why the engine has ended, in a sentence."""
        return self._loop.failure

    def steps(self, since: int = 0) -> list[StepRecord]:
        """The step records from index `since` on, as far as the ring still holds them."""
        return self._loop.trace.since(since)

    @property
    def last_step(self) -> int:
        """The index of the latest step; -1 before the first."""
        return self._loop.trace.last

    def describe(self) -> dict[str, Any]:
        """What answers: model, device, dtype, threads, skills, whether times are modelled; attention and its cache."""
        device, attention = self.parts.device, self.parts.attention
        return {
            "model": self.parts.loaded.name,
            "device": device.name,
            "dtype": str(self.parts.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "skills": list(self.skills),
            "modelled": device.modelled,
            "attention": attention.backend.name,
            "attention_refused": list(attention.refused),
            "page_size": attention.page_size,
            "pages": self._loop.core.reservations.pages.total,
        }

    def stats(self) -> dict[str, Any]:
        """A snapshot; shares and rates are over the last ten seconds (docs/architecture.md "Values")."""
        scheduler, held = self._loop.scheduler, self._loop.core.reservations
        now = self.parts.device.now()
        recent = self._loop.trace.after(now - _STATS_WINDOW_S)
        return {
            **{k: v for k, v in self.describe().items() if k in ("model", "device", "dtype")},
            "mode": scheduler.mode,
            "running": len(scheduler.running),
            "waiting": scheduler.waiting,
            "waiting_for": scheduler.waiting_for,
            "pages": {
                "total": held.pages.total,
                "free": held.pages.free,
                "cached": held.prefixes.cached_pages,
            },
            "device_busy": self._loop.trace.busy_share(now - _STATS_WINDOW_S, now),
            "tokens_per_s": sum(len(r.requests) - r.zombies for r in recent) / _STATS_WINDOW_S,
            "requests": {k: self._loop.counts[k] for k in ("done", "failed", "cancelled")},
        }

    def pause(self) -> None:
        """Launch nothing more until `resume`; rows keep their place."""
        self._loop.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._loop.resume()

    def close(self, deadline_s: float = 30.0) -> None:
        """Finish what runs, at most `deadline_s` seconds, fail the rest, free the device. May be called twice."""
        self.parts.close(deadline_s)

    def __enter__(self) -> Photon:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
