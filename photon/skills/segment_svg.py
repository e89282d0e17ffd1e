"""Segment of Moondream 3: the model writes coord, coord, size and then an SVG path as text (docs/model.md 7.6).

The order is not forced: the first two coordinates and the first size are the box, all text is the path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from photon.core.request import Choice, SkillState, Token
from photon.models.moondream.config import TokenizerConfig
from photon.skills.ask import Ask
from photon.skills.base import SkillContext
from photon.skills.detect import box
from photon.skills.point import score
from photon.skills.segment_contour import Objects
from photon.skills.svg_outline import polygons
from photon.skills.svg_path import LAST_SPECIAL_ID, Command, PathReader, path_text

_ANYTHING = Choice(None)


class SvgState(SkillState):
    def __init__(self, ids: TokenizerConfig, decode: Callable[[Sequence[int]], str]) -> None:
        self._ids = ids
        self._decode = decode
        self._coords: list[Token] = []
        self._size: Token | None = None
        self._reader = PathReader()
        self._commands: list[Command] = []
        self._text: list[str] = []
        self._told = -1  # commands that a reader knows; -1: not even the box

    def choice(self) -> Choice:
        return _ANYTHING

    def advance(self, token: Token) -> None:
        if token.id == self._ids.eos_id:
            self.done = True
        elif token.id == self._ids.coord_id:
            self._coords.append(token)
        elif token.id == self._ids.size_id:
            self._size = self._size or token
        elif token.id > LAST_SPECIAL_ID:
            self._text.append(self._decode([token.id]))
            self._take(self._reader.add(self._text[-1]))

    def updates(self) -> Sequence[dict[str, Any]]:
        """The box, then each command that is complete; joined, the chunks are the path."""
        bbox = self._bbox()
        if bbox is None:
            return ()
        new: list[dict[str, Any]] = [{"bbox": bbox}] if self._told < 0 else []
        start = max(0, self._told)
        for i, command in enumerate(self._commands[start:], start):
            new.append({"chunk": f"{' ' if i else ''}{command}"})
        self._told = len(self._commands)
        return new

    def result(self) -> dict[str, Any]:
        """{"bbox", "path", "polygons", "score"}; a path that is none is empty, with "text" and "parse_error"."""
        self._take(self._reader.finish())
        bbox, commands = self._bbox(), [] if self._reader.error else self._commands
        answer = {
            "bbox": bbox,
            "path": path_text(commands),
            "polygons": polygons(commands, bbox) if bbox else [],
            "score": score(*self._coords[:2], self._size) if bbox and self._size else 0.0,
        }
        if self._reader.error:
            answer |= {"text": "".join(self._text), "parse_error": self._reader.error}
        return answer

    def _take(self, command: Command | None) -> None:
        if command is not None:
            self._commands.append(command)

    def _bbox(self) -> dict[str, float] | None:
        if len(self._coords) < 2 or self._size is None:
            return None
        return box(self._coords[0], self._coords[1], self._size)


def svg_plan(context: SkillContext, ask: Ask) -> Objects:
    """One object a call; none if no box came: nothing says then where the path is."""
    ids = context.config.tokenizer
    prompt = context.prompt("segment", ask.refs, ask.text)
    limit = min(ask.max_tokens, context.room(prompt, ask.image))
    (found,) = yield [ask.request(context, prompt, limit, lambda: SvgState(ids, context.tokenizer.decode))]
    return [found] if found["bbox"] else [], 0
