"""Which folder may import which, and what the code imports: read from the source, lazy and type-only imports too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FACE = "photon"
"""The package itself: what `from photon import name` takes."""

MAY_IMPORT: Mapping[str, str] = {
    "photon/errors.py": "",
    "photon/memory": "photon/errors.py",
    "photon/devices": "photon/errors.py",
    "photon/models": "photon/errors.py",
    "photon/pictures": "photon/errors.py",
    "photon/masks": "photon/models photon/errors.py",
    "photon/core": "photon/models photon/memory photon/errors.py",
    "photon/skills": "photon/core photon/masks photon/models photon/errors.py",
    "photon/runtime": "photon/core photon/models photon/devices photon/errors.py",
    "photon/scheduler": "photon/runtime photon/core photon/memory photon/errors.py",
    "photon/engine": "photon/scheduler photon/runtime photon/skills photon/masks photon/core photon/models "
    "photon/pictures photon/devices photon/memory photon/errors.py",
    "photon/catalog": "photon/engine photon/runtime photon/skills photon/masks photon/core photon/models "
    "photon/errors.py",
    "photon/__init__.py": "photon/catalog photon/engine photon/skills photon/core photon/models photon/pictures "
    "photon/errors.py",
    "photon/commands": "photon photon/catalog photon/errors.py",
    "photon/__main__.py": "photon/commands photon/errors.py",
    "photon/bench": "photon photon/catalog photon/engine photon/scheduler photon/runtime photon/skills photon/masks "
    "photon/core photon/models photon/devices photon/memory photon/errors.py",
    "photon/training": "photon photon/bench photon/models photon/errors.py",
    "app/paths.py": "",
    "app/settings.py": "photon",
    "app/pictures": "photon",
    "app/engines": "app/settings.py photon",
    "app/questions": "app/engines app/paths.py photon",
    "app/drawing": "app/questions app/pictures photon",
    "app/runs": "app/drawing app/questions app/engines app/pictures app/paths.py photon",
    "app/api": "app/engines app/pictures photon",
    "app/web": "app/api app/drawing app/questions app/pictures app/paths.py photon",
    "app/page": "app/runs app/api app/drawing app/questions app/engines app/pictures app/paths.py photon",
    "app/__init__.py": "",
    "app/server.py": "app/page app/web app/runs app/api app/drawing app/questions app/engines app/pictures "
    "app/settings.py photon",
}
"""From the ground up: a folder imports nothing that stands below it in this table. docs/architecture.md draws it."""


@dataclass(frozen=True)
class Import:
    """`source` and `target` are files of the tree, or `FACE`."""

    source: str
    target: str


def place(file: str) -> str:
    """The entry of `MAY_IMPORT` that a file belongs to."""
    parts = file.split("/")
    return "/".join(parts[:2])


def imports(root: Path) -> Iterator[Import]:
    """Of all files of photon and app, each on its own folders."""
    for package in ("photon", "app"):
        for file in sorted((root / package).rglob("*.py")):
            for module, name in _named(ast.parse(file.read_text())):
                if module.split(".")[0] in ("photon", "app"):
                    yield Import(file.relative_to(root).as_posix(), _target(root, module, name))


def arrows_up(found: Iterator[Import]) -> list[str]:
    """What no folder may import, each with both files."""
    return [
        f"{one.source} imports {one.target}"
        for one in found
        if place(one.source) != place(one.target) and place(one.target) not in _allowed(one.source)
    ]


def circles(found: Iterator[Import]) -> list[str]:
    """Files that import each other, straight or through others; packages' own `__init__` files are passed through."""
    graph: dict[str, set[str]] = {}
    for one in found:
        if one.target != FACE and one.source != one.target:
            graph.setdefault(one.source, set()).add(one.target)
    rounds, done = [], set[str]()

    def visit(file: str, path: list[str]) -> None:
        if file in path:
            rounds.append(" -> ".join([*path[path.index(file) :], file]))
        elif file not in done:
            for target in sorted(graph.get(file, ())):
                visit(target, [*path, file])
            done.add(file)

    for file in sorted(graph):
        visit(file, [])
    return rounds


def _allowed(source: str) -> list[str]:
    return MAY_IMPORT.get(place(source), "").split()


def _named(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name) of every import; the name of a plain one is empty. Relative ones are not used here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import hides where it goes"
            yield from ((node.module or "", one.name) for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)


def _target(root: Path, module: str, name: str) -> str:
    """The file that an import reaches."""
    path = root.joinpath(*module.split("."))
    if name and (path / f"{name}.py").is_file():
        return (path / f"{name}.py").relative_to(root).as_posix()
    if name and (path / name / "__init__.py").is_file():
        return (path / name / "__init__.py").relative_to(root).as_posix()
    if module == FACE:
        return FACE
    file = path.with_suffix(".py")
    return (file if file.is_file() else path / "__init__.py").relative_to(root).as_posix()
