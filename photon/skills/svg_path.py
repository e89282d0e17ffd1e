"""The SVG path that Moondream 3 spells, one command letter or number a token (docs/model.md 7.6).

    path    = { command { integer } }
    command = M m L l H h V v C c S s Q q T t A a Z z
    integer = [ "-" ] digits        a "-" may be a token of its own

Integers come in pairs, in a view box of 960 x 960 laid over the object's box; an odd one at a command's end is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

VIEW_BOX = 960
LAST_SPECIAL_ID = 20
"""Ids up to this one are marks, not text."""
_COMMANDS = frozenset("MmLlHhVvCcSsQqTtAaZz")


class Command(NamedTuple):
    """A letter with its arguments in units of the view box."""

    letter: str
    values: tuple[int, ...]

    def __str__(self) -> str:
        """In 0..1 of the object's box, to three decimals."""
        return " ".join([self.letter, *(_unit(v) for v in self.values)])


def _unit(value: int) -> str:
    text = f"{value / VIEW_BOX:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@dataclass
class PathReader:
    """Reads tokens one by one. After an `error`, a sentence, it takes nothing more."""

    error: str | None = None
    _letter: str | None = None
    _values: tuple[int, ...] = ()
    _negative: bool = False

    def add(self, token: str) -> Command | None:
        """The command that this token, already decoded on its own, completes."""
        text = token.strip()
        if self.error or not text:
            return None
        if text in _COMMANDS and not self._negative:
            done, self._letter, self._values = self._command(), text, ()
            return done
        digits = text.removeprefix("-")
        if text == "-" and not self._negative:
            self._negative = True
        elif self._letter is None or not (digits.isascii() and digits.isdigit()) or (digits != text and self._negative):
            self.error = f"The path has {text!r} where a command or a whole number belongs."
        else:
            self._values += (-int(text) if self._negative else int(text),)
            self._negative = False
        return None

    def finish(self) -> Command | None:
        """The last command, now that no token follows."""
        if self._negative and not self.error:
            self.error = "The path ends in '-' without its number."
        done = None if self.error else self._command()
        self._letter = None
        return done

    def _command(self) -> Command | None:
        if self._letter is None:
            return None
        return Command(self._letter, self._values[: len(self._values) // 2 * 2])


def path_text(commands: Sequence[Command]) -> str:
    return " ".join(map(str, commands))
