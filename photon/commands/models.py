"""`models` and `download`: which models there are, and fetching one."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

from photon.catalog.download import download, name_at

if TYPE_CHECKING:
    from photon.catalog.available import ModelInfo


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "which models there are, what each can do, whether it is here and fits"
    models = commands.add_parser("models", help=about, description=f"{about.capitalize()}.")
    models.add_argument("--json", action="store_true", help="print a list as JSON")
    models.set_defaults(run=list_models)
    about = "fetch a model's files into the Hugging Face cache"
    fetch = commands.add_parser("download", help=about, description=f"{about}; goes on where it stopped.")
    fetch.add_argument("name", metavar="NAME", help="a name that `models` lists")
    fetch.add_argument("--revision", metavar="R", help="another revision than the one that this version was made for")
    fetch.set_defaults(run=download_model)


def list_models(options: argparse.Namespace) -> None:
    from photon import models_available

    found = models_available()
    print(json.dumps([dataclasses.asdict(model) for model in found], indent=2) if options.json else table(found))


def table(models: list[ModelInfo]) -> str:
    """One line a model, and under it why it cannot be loaded or what a skill of it still needs."""
    rows = [("model", "weights", "on disk", "fits", "skills")]
    rows += [
        (m.name, f"{m.bytes / 1e9:.2f} GB", _yes(m.on_disk), _yes(m.fits), ", ".join(m.skills) or "-") for m in models
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    notes: list[list[str]] = [[], *([m.reason, *m.lacks.values()] for m in models)]
    lines = []
    for row, said in zip(rows, notes, strict=True):
        lines.append("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]))
        lines += [f"    {note}" for note in said if note]
    return "\n".join(lines)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def download_model(options: argparse.Namespace) -> None:
    name = name_at(options.name, options.revision)
    print(f"{name} is in {download(name)}")
