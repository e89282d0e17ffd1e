"""From a model's name or path to a loaded model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from photon.errors import ModelLoadError
from photon.models.moondream.checkpoint import Checkpoint, read_json
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.names import our_names
from photon.models.moondream.published import PUBLISHED, TOKENIZER_REPO, Published, fitted, recognised
from photon.models.moondream.tokenizer import Tokenizer
from photon.models.moondream.weights import load_moondream
from photon.models.vocabulary import Vocabulary

BUNDLED = {"photon-tiny": Path(__file__).parent.parent / "assets"}


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run, with what turns text into its tokens.

    `vocabulary` is None for models that take any words.
    """

    name: str
    model: Moondream
    tokenizer: Tokenizer
    vocabulary: Vocabulary | None


def load_model(name_or_path: str, device: torch.device, dtype: torch.dtype) -> LoadedModel:
    """Load a bundled or public model by name, a checkpoint folder, or a weight file.

    Reads only what is on this machine. Raises ModelLoadError, naming the file, tensor or field, when
    something is missing or does not fit.
    """
    if name_or_path in BUNDLED:
        return _load_path(name_or_path, BUNDLED[name_or_path], device, dtype)
    if name_or_path in PUBLISHED:
        return _load_published(name_or_path, PUBLISHED[name_or_path], device, dtype)
    path = Path(name_or_path).expanduser()
    if path.exists():
        return _load_path(path.stem if path.is_file() else path.resolve().name, path, device, dtype)
    known = ", ".join([*BUNDLED, *PUBLISHED])
    raise ModelLoadError(
        f"There is no model {name_or_path!r}. Known names are {known}; a folder or a .safetensors file works too."
    )


def _load_path(name: str, path: Path, device: torch.device, dtype: torch.dtype) -> LoadedModel:
    folder = path.parent if path.is_file() else path
    checkpoint = Checkpoint.open(path)
    config = _config_of(folder, checkpoint)
    tokenizer_file = folder / "tokenizer.json"
    if not tokenizer_file.is_file() and not _has_own_config(folder):
        tokenizer_file = _downloaded(TOKENIZER_REPO, "main") / "tokenizer.json"
    tokenizer = Tokenizer.load(tokenizer_file)
    model = load_moondream(config, checkpoint, device, dtype)
    return LoadedModel(name, model, tokenizer, _vocabulary_of(folder))


def _vocabulary_of(folder: Path) -> Vocabulary | None:
    file = folder / "vocabulary.json"
    return Vocabulary.load(file) if file.is_file() else None


def _load_published(name: str, published: Published, device: torch.device, dtype: torch.dtype) -> LoadedModel:
    tokenizer = Tokenizer.load(_downloaded(TOKENIZER_REPO, "main") / "tokenizer.json")
    checkpoint = Checkpoint.open(_downloaded(published.repo, published.revision))
    config = fitted(published.config, _our_shapes(checkpoint))
    return LoadedModel(name, load_moondream(config, checkpoint, device, dtype), tokenizer, None)


def _config_of(folder: Path, checkpoint: Checkpoint) -> MoondreamConfig:
    if _has_own_config(folder):
        return MoondreamConfig.from_dict(read_json(folder / "config.json"))
    return recognised(_our_shapes(checkpoint))


def _has_own_config(folder: Path) -> bool:
    """Whether config.json gives the sizes; that of the public repositories is nearly empty."""
    file = folder / "config.json"
    return file.is_file() and "text" in read_json(file)


def _our_shapes(checkpoint: Checkpoint) -> dict[str, tuple[int, ...]]:
    return {ours: checkpoint.shapes[stored] for ours, stored in our_names(checkpoint.shapes).items()}


def _downloaded(repo: str, revision: str) -> Path:
    """The folder of a repository in the local Hugging Face cache; never touches the network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError as error:
        raise ModelLoadError(
            f"The files of {repo} are not on this machine; fetch them with: hf download {repo} --revision {revision}"
        ) from error
