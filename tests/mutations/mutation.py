"""One fault as a change of the source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class MutationError(Exception):
    """The source is not what the mutation was written for."""


@dataclass(frozen=True)
class Change:
    """`old` stands exactly once in `file` (below photon/) and becomes `new`."""

    file: str
    old: str
    new: str

    def apply(self, package: Path) -> None:
        path = package / self.file
        text = path.read_text()
        found = text.count(self.old)
        if found != 1:
            raise MutationError(f"{self.file} holds this text {found} times, not once:\n{self.old}")
        changed = text.replace(self.old, self.new)
        compile(changed, str(path), "exec")
        path.write_text(changed)


@dataclass(frozen=True)
class Mutation:
    """`fault` is the number of a kind of fault that engines of this sort had; `tests` are tried in this order."""

    fault: int
    what: str
    changes: tuple[Change, ...]
    tests: tuple[str, ...]
