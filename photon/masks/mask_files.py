"""The public mask models, and where the files of one lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from photon.errors import ModelLoadError
from photon.models.files import CONFIG, SINGLE, refuse_pointer
from photon.models.hub import Repo, find

MASK_MODELS: Mapping[str, Repo] = {
    "sam2.1-small": Repo("facebook/sam2.1-hiera-small", "ee5bba1d82bb8749febdf90f45e84b687142ba03"),
    "sam2.1-large": Repo("facebook/sam2.1-hiera-large", "665f8e2ad61cf5f53d65644ff27c8ee525124610"),
}
FILES = (CONFIG, SINGLE)


def mask_folder(name_or_path: str) -> Path:
    """Where the files of a mask model lie. Raises ModelLoadError if they do not, without touching the network."""
    folder = _found(name_or_path)
    for file in FILES:
        refuse_pointer(folder / file)
    return folder


def _found(name_or_path: str) -> Path:
    if repo := MASK_MODELS.get(name_or_path):
        found = [find(repo, file) for file in FILES]
        if all(found) and found[0]:
            return found[0].parent
        raise ModelLoadError(
            f"Outlines need the mask model {name_or_path}, which is not on this machine; fetch it with: "
            f"python -m photon download {name_or_path}"
        )
    folder = Path(name_or_path).expanduser()
    if all((folder / file).is_file() for file in FILES):
        return folder
    raise ModelLoadError(
        f"There is no mask model {name_or_path!r}. Known names are {', '.join(MASK_MODELS)}; a folder with "
        f"{' and '.join(FILES)} works too."
    )
