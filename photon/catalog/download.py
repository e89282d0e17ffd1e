"""Fetching a model by its name."""

from __future__ import annotations

from pathlib import Path

from photon.errors import ModelLoadError
from photon.masks.mask_files import FILES, MASK_MODELS
from photon.models.files import TOKENIZER
from photon.models.hub import fetch, fetch_weights
from photon.models.moondream.published import tokenizer_repo
from photon.models.progress import Progress, unseen
from photon.models.public import BUNDLED, PUBLISHED, not_public, published_model, unknown


def download(name: str, progress: Progress = unseen) -> Path:
    """Fetch what is missing of a model's files, with progress bars on stderr; returns the folder of its weights.

    name: a public model, name@revision for another revision than the pinned one, or a mask model. progress: called
    with the share of the weights that are here, 0..1. Raises ModelLoadError, whose sentence says why it cannot be had,
    as when the Hub cannot be reached.
    """
    if name in BUNDLED:
        return BUNDLED[name]
    if repo := MASK_MODELS.get(name):
        return [fetch(repo, file) for file in FILES][-1].parent
    published = published_model(name)
    if published is None:
        raise ModelLoadError(f"{unknown(name)}, {', '.join(MASK_MODELS)}.")
    if published.repo is None:
        raise ModelLoadError(not_public(name))
    if tokenizer := tokenizer_repo(published.config):
        fetch(tokenizer, TOKENIZER)
    return fetch_weights(published.repo, progress)


def name_at(name: str, revision: str | None) -> str:
    """The name that fetches and loads another revision. Raises ModelLoadError where there is none to choose."""
    if not revision:
        return name
    if published_model(name) is None or "@" in name:
        raise ModelLoadError(f"{name} has no revisions to choose from; those that do: {', '.join(PUBLISHED)}.")
    return f"{name}@{revision}"
