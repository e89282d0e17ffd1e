"""Checks what a verb was given, on the caller's side, before anything is queued."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from photon.core.request import ImageRef, Rgb
from photon.core.settings import Settings, flag
from photon.errors import InvalidRequestError
from photon.models.moondream.lora import Adapter, read_adapter
from photon.pictures.colours import to_rgb
from photon.skills import Ask, SkillContext
from photon.skills.caption import caption_length
from photon.skills.query import question_text
from photon.skills.references import reference_tokens

ImageLike: TypeAlias = Image.Image | Rgb | ImageRef
SettingsLike: TypeAlias = Mapping[str, Any] | None
RefsLike: TypeAlias = Sequence[Sequence[float]] | None


class Arguments:
    """Turns arguments into an `Ask` for the loaded model. Raises `InvalidRequestError`, naming what is allowed."""

    def __init__(self, context: SkillContext, max_adapter_rank: int, add: Callable[[Adapter], Adapter]) -> None:
        """`add` makes an adapter ready for the device; requests carry what it returns."""
        self._context = context
        self._max_rank = max_adapter_rank
        self._add = add
        self._adapters: dict[str, Adapter] = {}

    def ask(
        self,
        skill: str,
        image: Any,
        text: Any,
        settings: SettingsLike,
        spatial_refs: RefsLike,
        pipelined: bool,
        stream: bool = False,
        reasoning: bool = False,
    ) -> Ask:
        context = self._context
        context.require(skill)
        checked = Settings.parse(settings, context.config.text.max_context)
        return Ask(
            skill,
            self._checked_text(skill, text),
            checked,
            image=None if image is None and skill == "query" else image_ref(image),
            refs=reference_tokens(spatial_refs, context.config.tokenizer),
            mode="pipelined" if flag(pipelined, "pipelined") else "blocking",
            adapter=self._adapter(checked.adapter),
            reasoning=flag(reasoning, "reasoning"),
            stream=flag(stream, "stream"),
        )

    def add_adapter(self, name: str, path: str | Path) -> None:
        """Raises `ModelLoadError` if the adapter does not fit the model."""
        self._adapters[name] = self._add(read_adapter(name, Path(path), self._context.config.text, self._max_rank))

    def _checked_text(self, skill: str, text: Any) -> str:
        if skill == "query":
            return question_text(text)
        return caption_length(self._context, text) if skill == "caption" else self._context.name(text)

    def _adapter(self, name: str | None) -> Adapter | None:
        if name is None:
            return None
        if name not in self._adapters:
            known = ", ".join(sorted(self._adapters)) or "none has been added"
            raise InvalidRequestError(f"There is no adapter {name!r}; known adapters: {known}.")
        return self._adapters[name]


def image_ref(image: Any) -> ImageRef:
    """A weak handle on a picture's content. Raises `InvalidRequestError` for what is not a picture."""
    if isinstance(image, ImageRef):
        return image
    own = isinstance(image, Image.Image)
    if own:
        image = np.asarray(to_rgb(image))
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        what = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
        raise InvalidRequestError(
            f"The image is {what}; allowed are a PIL image, a uint8 array [height, width, 3] or an encoded image."
        )
    if 0 in image.shape:
        raise InvalidRequestError(f"The image has the shape {image.shape}; it needs at least one pixel.")
    return ImageRef.of(
        image if own else image.copy()
    )  # what the caller does to it afterwards is not what was asked about
