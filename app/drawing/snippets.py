"""The question that was asked, as code: for Python and for a shell."""

from __future__ import annotations

import json
import shlex
from pathlib import PurePath
from typing import Any

from app.questions.question import Question


def as_python(model: str, question: Question, file_name: str) -> str:
    """A script that asks the same from Python; every value is a Python literal."""
    task = question.task
    key = {"point": "points", "query": "answer", "caption": "caption"}.get(task, "objects")
    given = _options(question) | {"pipelined": question.pipelined}
    options = "".join(f", {name}={value!r}" for name, value in given.items())
    words = "image" if task == "caption" else "image, name"
    return "\n".join(
        (
            "from PIL import Image, ImageOps",
            "from photon import Photon",
            "",
            f"model = Photon.load({model!r})",
            f"image = ImageOps.exif_transpose(Image.open({PurePath(file_name).name!r}))",
            f"for name in {list(question.names)!r}:",
            f"    result = model.{task}({words}{options})",
            f"    print(name, result[{key!r}])",
            "model.close()",
        )
    )


def as_curl(question: Question, file_name: str, model: str | None = None) -> str:
    """Shell commands that ask the same over HTTP; the first {origin} stands for this server's address.

    `model` is None for the one that answers requests without a name.
    """
    options = _options(question) | ({} if model is None else {"model": model})
    lines = ["origin='{origin}'", f"image=$(base64 < {shlex.quote('./' + PurePath(file_name).name)} | tr -d '\\n')"]
    for name in question.names:
        asked = {"query": {"question": name}, "caption": {"length": "normal"}}.get(question.task, {"object": name})
        tail = shlex.quote('", ' + json.dumps(asked | options)[1:])
        lines += [
            f"""printf '%s' '{{"image_url": "data:image/jpeg;base64,' "$image" {tail} \\""",
            f'  | curl -s "$origin/v1/{question.task}" -H "Content-Type: application/json" --data-binary @-',
        ]
    return "\n".join(lines)


def _options(question: Question) -> dict[str, Any]:
    """The options of a question that differ from those of a request that leaves them out."""
    options = question.options()
    settings = {name: value for name, value in options["settings"].items() if name != "temperature" or value}
    given = {"settings": settings or None, "spatial_refs": options.get("spatial_refs")}
    given |= {"pipelined": None if question.pipelined else False}
    return {name: value for name, value in given.items() if value is not None}
