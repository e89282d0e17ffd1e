"""The example pictures in `static/examples`: listed in its examples.json, each with its credit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from app.paths import STATIC
from photon import OBJECT_SKILLS

FOLDER = STATIC / "examples"


@dataclass(frozen=True)
class Example:
    """One picture with the question that suits it; `credit` names author and licence."""

    path: Path
    title: str
    object: str
    task: str
    credit: str

    @property
    def src(self) -> str:
        """Relative to the page."""
        return f"pictures/examples/{self.path.name}"


def load_examples(folder: Path = FOLDER) -> tuple[Example, ...]:
    """The examples of a folder; empty where it has no examples.json.

    The file is a list of {"file", "title", "object", "task", "credit"}. Raises ValueError for an
    entry that misses a key, names no file of the folder, or asks for an unknown task.
    """
    listing = folder / "examples.json"
    if not listing.is_file():
        return ()
    examples = []
    for entry in json.loads(listing.read_text("utf-8")):
        missing = {"file", "title", "object", "task", "credit"} - set(entry)
        if missing:
            raise ValueError(f"{listing.name}: {entry.get('file', entry)} misses {', '.join(sorted(missing))}.")
        path = folder / Path(entry["file"]).name
        if not path.is_file() or entry["task"] not in OBJECT_SKILLS:
            raise ValueError(f"{listing.name}: {entry['file']} is not there or its task is unknown.")
        examples.append(Example(path, entry["title"], entry["object"], entry["task"].capitalize(), entry["credit"]))
    return tuple(examples)
