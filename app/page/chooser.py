"""The choice of a model on the page: what is offered, loading one, and what the visitor's model cannot do.

The choice is the visitor's own: it goes with each of their requests, and other visitors keep theirs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.engines.holder import State
from app.engines.models import Models, Offer, UnknownModelError
from app.page import about
from photon import SKILLS

_STATES = {State.READY: "loaded", State.STARTING: "loading", State.FAILED: "failed"}


@dataclass(frozen=True)
class Chooser:
    """Gradio listeners of the offer."""

    models: Models

    async def visit(self, model: str, task: str) -> AsyncIterator[tuple[Any, ...]]:
        """A page is opened: (chooser, task, skills), and once more when the model that was still loading is there."""
        async with self.models.using(model) as holder:
            first = True
            async for _ in holder.until_settled():
                chosen, able, skills, *_ = await self._shown(model, task)
                yield chosen, able if first else gr.skip(), skills  # later the task is the visitor's own
                first = False

    async def choose(self, model: str, task: str, event: gr.EventData) -> AsyncIterator[tuple[Any, ...]]:
        """A model was chosen: progress until it is there, then the page for it, or why it stays with the old one.

        Yields (chooser, task, skills, model, header, notes).
        """
        name = str(event._data.get("name", ""))
        try:
            holder = await self.models.open(name, fetch=True)
        except UnknownModelError as error:
            yield await self._shown(model, task, {"problem": str(error)})
            return
        async for _ in holder.until_settled():
            if holder.state is State.STARTING:
                doing, share = holder.progress
                yield await self._shown(model, task, {"progress": {"text": doing, "share": share}})
        if holder.state is State.FAILED:
            yield await self._shown(model, task, {"problem": holder.reason})
        else:
            yield await self._shown(name, task)

    async def _shown(self, model: str, task: str, more: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        offers = await self.models.offers()
        rows = [_row(offer) for offer in offers]
        skills = lacking(model, offers)
        able = [one.capitalize() for one in SKILLS if one.capitalize() not in skills["unable"]] or [task]
        async with self.models.using(model) as holder:
            header, notes = about.header(holder), about.notes(holder)
        chosen = {"model": model, "rows": rows, **(more or {})}
        return chosen, task if task in able else able[0], skills, model, header, notes


def _row(offer: Offer) -> dict[str, Any]:
    """One line of the list."""
    info = offer.info
    return {
        "name": info.name,
        "size": _size(info.bytes),
        "skills": ", ".join(skill.capitalize() for skill in info.skills),
        "state": _where(offer),
        "refusal": offer.refusal,
    }


def _where(offer: Offer) -> str:
    if offer.state is not None:
        return _STATES[offer.state]
    if not offer.info.fits:
        return "too large"
    return "on this machine" if offer.info.on_disk else "to be fetched" if offer.fetches else "not on this machine"


def lacking(model: str, offers: Sequence[Offer]) -> dict[str, Any]:
    """Tasks that the model, or a second one that it needs, lacks: {"unable": {task: why}, "lines": what is said}."""
    info = next(offer.info for offer in offers if offer.info.name == model)
    missing = [skill for skill in SKILLS if skill not in info.skills]
    unable = {skill.capitalize(): f"{model} cannot {skill}." for skill in missing}
    lines = list(info.lacks.values())
    if missing:
        able = [one.info.name for one in offers if not one.refusal and {*missing} <= {*one.info.skills}]
        hint = f"; {' and '.join(able)} can" if able else ""
        lines.insert(0, f"{model} cannot {' or '.join(missing)}{hint}.")
    return {"unable": unable | {skill.capitalize(): why for skill, why in info.lacks.items()}, "lines": lines}


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB" if count else ""


def on_model(models: Models, listen: Callable[[Any], Callable[..., AsyncIterator[Any]]]) -> Callable[..., Any]:
    """A listener whose first argument is the visitor's model: `listen` makes the listener on that model's holder.

    The holder is held, and so not closed, until the listener has ended.
    """

    async def listener(model: str, *arguments: Any) -> AsyncGenerator[Any, None]:
        async with models.using(model) as holder:
            outputs: Any = listen(holder)(*arguments)
            async with aclosing(outputs):
                async for output in outputs:
                    yield output

    return listener
