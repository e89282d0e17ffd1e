"""The files of one checkpoint as a set of named tensors, read one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from photon.errors import ModelLoadError
from photon.models.files import INDEX, SINGLE, read_index, refuse_pointer

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "U8": torch.uint8,
}
"""What weights may be stored as: numbers, 8-bit experts, and bytes that hold two 4-bit values."""

UNMAP_BYTES = 32 * 2**20
"""How much of a file is read before it is mapped anew."""

Read = Callable[[str], Tensor]


class Stored(NamedTuple):
    """What a file's header says of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class Checkpoint:
    """Names, shapes, dtypes and contents of the tensors in some weight files.

    Opening reads headers only. Errors are ModelLoadError and name the file, and the tensor if it is one's.
    """

    def __init__(self, files: list[Path]) -> None:
        self.where = ", ".join(str(f) for f in files)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, torch.dtype] = {}
        self._home: dict[str, _WeightFile] = {}
        for path in files:
            file = _WeightFile(path)
            for name, stored in file.tensors.items():
                if name in self.shapes:
                    raise ModelLoadError(f"The tensor {name} stands in {self._home[name].path} and in {path}.")
                self.shapes[name], self.dtypes[name] = stored
                self._home[name] = file

    @classmethod
    def open(cls, path: Path) -> Checkpoint:
        """A weight file, or a folder with one weight file or an index of shards."""
        if path.is_file():
            return cls([path])
        index = path / INDEX
        if not index.is_file():
            return cls([_single_file(path)])
        homes = read_index(index)
        checkpoint = cls([path / shard for shard in sorted(set(homes.values()))])
        if absent := [name for name in homes if name not in checkpoint.shapes]:
            raise ModelLoadError(
                f"The index {index} puts the tensor {absent[0]} into {homes[absent[0]]}; it is not there."
            )
        return checkpoint

    def read(self, name: str) -> Tensor:
        """The tensor as stored, on the CPU, for use before the next one is read."""
        return self._home[name].read(name)


class _WeightFile:
    """A mapped file. A page that has been read counts as this process's memory until it is unmapped: hence, now and
    then, a new mapping instead of a second copy of the whole model in memory."""

    def __init__(self, path: Path) -> None:
        refuse_pointer(path)
        self.path = path
        self._open = _open_pickle if path.suffix in (".pt", ".pth") else _open_safetensors
        self._read, self.tensors = self._open(path)
        self._bytes = 0

    def read(self, name: str) -> Tensor:
        if self._bytes >= UNMAP_BYTES:
            self._read, self._bytes = self._open(self.path)[0], 0
        try:
            tensor = self._read(name)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise ModelLoadError(f"The tensor {name} in {self.path} cannot be read: {error}.") from error
        self._bytes += tensor.nbytes
        return tensor


def _single_file(folder: Path) -> Path:
    if (folder / SINGLE).is_file():
        return folder / SINGLE
    found = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.pt"))
    if len(found) != 1:
        raise ModelLoadError(
            f"The folder {folder} must hold {SINGLE}, {INDEX} or one weight file; it holds {len(found)} weight files."
        )
    return found[0]


def _open_safetensors(file: Path) -> tuple[Read, dict[str, Stored]]:
    try:
        handle = safe_open(str(file), framework="pt", device="cpu")
        slices = {name: handle.get_slice(name) for name in handle.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise ModelLoadError(f"There is no weight file {file}.") from error
    except (SafetensorError, OSError) as error:
        raise ModelLoadError(f"The weight file {file} is damaged or not safetensors: {error}.") from error
    tensors = {}
    for name, part in slices.items():
        dtype = DTYPES.get(part.get_dtype())
        if dtype is None:
            raise _unknown_dtype(name, file, part.get_dtype())
        tensors[name] = Stored(tuple(part.get_shape()), dtype)
    return handle.get_tensor, tensors


def _open_pickle(file: Path) -> tuple[Read, dict[str, Stored]]:
    """A state dict saved by torch; only tensors are unpickled, and they stay mapped, not read."""
    try:
        data = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except FileNotFoundError as error:
        raise ModelLoadError(f"There is no weight file {file}.") from error
    except Exception as error:  # a damaged archive can raise nearly anything
        raise ModelLoadError(f"The weight file {file} is damaged or holds more than tensors: {error}.") from error
    if not isinstance(data, Mapping) or not all(isinstance(v, Tensor) for v in data.values()):
        raise ModelLoadError(f"The weight file {file} must hold one dictionary of tensors.")
    for name, tensor in data.items():
        if tensor.dtype not in DTYPES.values():
            raise _unknown_dtype(name, file, str(tensor.dtype).removeprefix("torch."))
    return data.__getitem__, {name: Stored(tuple(tensor.shape), tensor.dtype) for name, tensor in data.items()}


def _unknown_dtype(name: str, file: Path, dtype: str) -> ModelLoadError:
    return ModelLoadError(f"The tensor {name} in {file} has the dtype {dtype}; known are {', '.join(DTYPES)}.")
