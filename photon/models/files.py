"""The names of a checkpoint's files, and reading those that are JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from photon.errors import ModelLoadError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
_POINTER = b"version https://git-lfs."


def read_index(index: Path) -> dict[str, str]:
    """{tensor: file in the same folder} of an index of shards. Raises ModelLoadError naming the index."""
    homes = read_json(index).get("weight_map")
    if not isinstance(homes, dict) or not homes:
        raise ModelLoadError(f"The index {index} has no weight_map.")
    for name, shard in homes.items():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise ModelLoadError(
                f"The index {index} puts the tensor {name} into {shard!r}, which is no file beside it."
            )
    return homes


def refuse_pointer(path: Path) -> None:
    """Raises ModelLoadError for what Git LFS leaves in a file's place until it is fetched."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(_POINTER))
    except OSError:
        return  # whoever reads it says so
    if begins == _POINTER:
        raise ModelLoadError(f"The file {path} is a Git LFS pointer; fetch the file (git lfs pull).")


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file. Raises ModelLoadError naming the file."""
    refuse_pointer(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"The file {path} cannot be read: {error}.") from error
    if not isinstance(data, dict):
        raise ModelLoadError(f"The file {path} must hold a JSON object.")
    return data
