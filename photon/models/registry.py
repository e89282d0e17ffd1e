"""From a model's name or path to a loaded model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from photon.errors import ModelLoadError
from photon.models.files import CONFIG, TOKENIZER, read_json
from photon.models.hub import Repo, find, find_weights
from photon.models.moondream.checkpoint import Checkpoint
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.names import is_family_b, our_names
from photon.models.moondream.published import fitted, recognised, tokenizer_repo
from photon.models.moondream.tokenizer import Tokenizer
from photon.models.moondream.weights import load_moondream
from photon.models.progress import Progress, unseen
from photon.models.public import BUNDLED, model_name, not_here, not_public, published_model, unknown
from photon.models.vocabulary import Vocabulary


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run, with what turns text into its tokens.

    `vocabulary` is None for models that take any words.
    """

    name: str
    model: Moondream
    tokenizer: Tokenizer
    vocabulary: Vocabulary | None


def load_model(name_or_path: str, device: torch.device, dtype: torch.dtype, progress: Progress = unseen) -> LoadedModel:
    """Load a bundled or public model by name (or name@revision), a checkpoint folder, or a weight file.

    Reads only what is on this machine. Raises ModelLoadError, naming the file, tensor or field, when
    something is missing or does not fit.
    """
    if name_or_path in BUNDLED:
        return _load_path(name_or_path, BUNDLED[name_or_path], device, dtype, progress)
    published = published_model(name_or_path)
    if published is not None and published.repo is not None:
        return _load_published(name_or_path, published.repo, published.config, device, dtype, progress)
    return _load_path(model_name(name_or_path), existing(name_or_path), device, dtype, progress)


def existing(name_or_path: str) -> Path:
    """The path of a model that is not fetched by name. Raises ModelLoadError if there is none."""
    path = Path(name_or_path).expanduser()
    if path.exists():
        return path
    if published_model(name_or_path) is not None:
        raise ModelLoadError(not_public(name_or_path))
    raise ModelLoadError(f"{unknown(name_or_path)}; a folder or a .safetensors file works too.")


def config_at(path: Path) -> MoondreamConfig:
    """Of a checkpoint folder or file: its config.json's, or that of the public model that it is."""
    if _has_own_config(folder := _folder_of(path)):
        return MoondreamConfig.from_dict(read_json(folder / CONFIG))
    checkpoint = Checkpoint.open(path)
    return recognised(_our_shapes(checkpoint), is_family_b(checkpoint.shapes))


def _load_path(name: str, path: Path, device: torch.device, dtype: torch.dtype, progress: Progress) -> LoadedModel:
    folder, config = _folder_of(path), config_at(path)
    own = _has_own_config(folder)
    tokenizer = Tokenizer.load(folder / TOKENIZER) if own else _tokenizer_beside(folder, name, config)
    model = load_moondream(config, Checkpoint.open(path), device, dtype, progress)
    return LoadedModel(name, model, tokenizer, _vocabulary_of(folder))


def _folder_of(path: Path) -> Path:
    return path.parent if path.is_file() else path


def _vocabulary_of(folder: Path) -> Vocabulary | None:
    file = folder / "vocabulary.json"
    return Vocabulary.load(file) if file.is_file() else None


def _load_published(
    name: str, repo: Repo, config: MoondreamConfig, device: torch.device, dtype: torch.dtype, progress: Progress
) -> LoadedModel:
    folder = find_weights(repo)
    if folder is None:
        raise ModelLoadError(not_here(name))
    checkpoint = Checkpoint.open(folder)
    tokenizer = _fetched_tokenizer(name, config)
    config = fitted(config, _our_shapes(checkpoint))
    return LoadedModel(name, load_moondream(config, checkpoint, device, dtype, progress), tokenizer, None)


def _has_own_config(folder: Path) -> bool:
    """Whether config.json gives the sizes; that of the public repositories is nearly empty."""
    file = folder / CONFIG
    return file.is_file() and "text" in read_json(file)


def _our_shapes(checkpoint: Checkpoint) -> dict[str, tuple[int, ...]]:
    return {ours: checkpoint.shapes[stored] for ours, stored in our_names(checkpoint.shapes).items()}


def _tokenizer_beside(folder: Path, name: str, config: MoondreamConfig) -> Tokenizer:
    """The tokenizer.json beside public weights if it is theirs: the public repositories still hold the one of an
    earlier format."""
    file = folder / TOKENIZER
    beside = Tokenizer.load(file) if file.is_file() else None
    if beside is not None and _ends_alike(beside, config):
        return beside
    if tokenizer_repo(config) is not None:
        return _fetched_tokenizer(name, config)
    if beside is None:
        raise ModelLoadError(f"There is no tokenizer file {file}; weights in the old format need theirs beside them.")
    raise ModelLoadError(
        f"The tokenizer file {file} is not that of these weights: {_END} is {beside.id_of(_END)} in it, "
        f"and they end their answers with {config.tokenizer.eos_id}."
    )


_END = "<|endoftext|>"


def _ends_alike(tokenizer: Tokenizer, config: MoondreamConfig) -> bool:
    return tokenizer.id_of(_END) in (None, config.tokenizer.eos_id)


def _fetched_tokenizer(name: str, config: MoondreamConfig) -> Tokenizer:
    repo = tokenizer_repo(config)
    file = find(repo, TOKENIZER) if repo else None
    if file is None:
        raise ModelLoadError(not_here(name if published_model(name) else "moondream2"))
    return Tokenizer.load(file)
