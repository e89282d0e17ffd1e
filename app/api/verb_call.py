"""What a request asks for: the skill, its image, its arguments. One table says what each skill takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.api.body import flag_of, text_of
from app.api.images import ImageReader
from app.api.problems import ApiError
from app.engines.holder import Engine


@dataclass(frozen=True)
class Skill:
    """`text` names the required text field. `options` are passed on as they are: the engine checks them."""

    name: str
    text: str | None = None
    needs_image: bool = True
    streams: bool = False
    options: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """Those of a body that have an effect."""
        return ("image_url", "model", "stream", *self.options, *((self.text,) if self.text else ()))


_COMMON = ("settings", "pipelined")
VERBS = {
    skill.name: skill
    for skill in (
        Skill("point", "object", options=("spatial_refs", *_COMMON)),
        Skill("detect", "object", options=("spatial_refs", *_COMMON)),
        Skill("segment", "object", streams=True, options=("spatial_refs", *_COMMON)),
        Skill("query", "question", needs_image=False, streams=True, options=("reasoning", "spatial_refs", *_COMMON)),
        Skill("caption", streams=True, options=("length", *_COMMON)),
    )
}


@dataclass(frozen=True)
class VerbCall:
    """One call of a verb of the engine; `arguments` are its keyword arguments."""

    skill: Skill
    arguments: dict[str, Any] = field(default_factory=dict)
    stream: bool = False

    async def put(self, engine: Engine) -> Any:
        """The verb's answer: a Result, or what it gives for stream=True."""
        verb = getattr(engine, "a" + self.skill.name)
        return await verb(**self.arguments, **({"stream": True} if self.stream else {}))


async def read_call(skill: Skill, body: Mapping[str, Any], engine: Engine, images: ImageReader) -> VerbCall:
    """The ask in a JSON body with the official client's fields. Raises ApiError and PictureError."""
    arguments = {name: body[name] for name in skill.options if body.get(name) is not None}
    if skill.text is not None:
        arguments[skill.text] = text_of(body, skill.text)
    stream = flag_of(body, "stream")
    if stream and not skill.streams:
        raise ApiError(400, f"The answer of {skill.name} cannot be streamed; leave out 'stream'.")
    url = body.get("image_url")
    if url is not None or skill.needs_image:
        arguments["image"] = await images.read(engine, url)
    return VerbCall(skill, arguments, stream)
