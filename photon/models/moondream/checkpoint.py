"""The files of one checkpoint as a set of named tensors, read one at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from photon.errors import ModelLoadError


class Checkpoint:
    """Names, shapes and contents of the tensors in some weight files.

    Opening reads headers only. Errors are ModelLoadError and name the file.
    """

    def __init__(self, files: list[Path]) -> None:
        self.where = ", ".join(str(f) for f in files)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._home: dict[str, tuple[Path, Any]] = {}
        for file in files:
            opened = _open_pickle(file) if file.suffix in (".pt", ".pth") else _open_safetensors(file)
            for name, shape in opened[1].items():
                if name in self.shapes:
                    raise ModelLoadError(f"The tensor {name} stands in {self._home[name][0]} and in {file}.")
                self.shapes[name] = shape
                self._home[name] = (file, opened[0])

    @classmethod
    def open(cls, path: Path) -> Checkpoint:
        """A weight file, or a folder with one weight file or an index of shards."""
        return cls([path] if path.is_file() else weight_files(path))

    def read(self, name: str) -> Tensor:
        """The tensor as stored, on the CPU."""
        file, handle = self._home[name]
        try:
            tensor: Tensor = handle[name] if isinstance(handle, dict) else handle.get_tensor(name)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise ModelLoadError(f"The tensor {name} in {file} cannot be read: {error}.") from error
        return tensor


def weight_files(folder: Path) -> list[Path]:
    """The weight files of a checkpoint folder: indexed shards, or the one file that there is."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise ModelLoadError(f"The index {index} has no weight_map.")
        return [folder / shard for shard in sorted(set(weight_map.values()))]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    found = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.pt"))
    if len(found) != 1:
        raise ModelLoadError(
            f"The folder {folder} must hold model.safetensors, model.safetensors.index.json or one weight "
            f"file; it holds {len(found)} weight files."
        )
    return found


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file; ModelLoadError naming the file otherwise."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"The file {path} cannot be read: {error}.") from error
    if not isinstance(data, dict):
        raise ModelLoadError(f"The file {path} must hold a JSON object.")
    return data


def _open_safetensors(file: Path) -> tuple[Any, dict[str, tuple[int, ...]]]:
    try:
        handle = safe_open(str(file), framework="pt", device="cpu")
        return handle, {name: tuple(handle.get_slice(name).get_shape()) for name in handle.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise ModelLoadError(f"There is no weight file {file}.") from error
    except (SafetensorError, OSError) as error:
        raise ModelLoadError(f"The weight file {file} is damaged or not safetensors: {error}.") from error


def _open_pickle(file: Path) -> tuple[dict[str, Tensor], dict[str, tuple[int, ...]]]:
    """A state dict saved by torch; only tensors are unpickled, and they stay mapped, not read."""
    try:
        data = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except FileNotFoundError as error:
        raise ModelLoadError(f"There is no weight file {file}.") from error
    except Exception as error:  # a damaged archive can raise nearly anything
        raise ModelLoadError(f"The weight file {file} is damaged or holds more than tensors: {error}.") from error
    if not isinstance(data, Mapping) or not all(isinstance(v, Tensor) for v in data.values()):
        raise ModelLoadError(f"The weight file {file} must hold one dictionary of tensors.")
    return dict(data), {name: tuple(tensor.shape) for name, tensor in data.items()}
