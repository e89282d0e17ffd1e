"""The names that models go by, and where the files of each come from (docs/model.md 2.1)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from photon.errors import ModelLoadError
from photon.models.hub import Repo
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.published import MOONDREAM_2, MOONDREAM_3, MOONDREAM_HALF

BUNDLED = {"photon-tiny": Path(__file__).parent.parent / "assets"}


@dataclass(frozen=True)
class Published:
    """A public checkpoint: what it is, and the repository that it is fetched from.

    Without a repository it is loaded from a folder only. Revisions named by a date before `since` have another format.
    """

    config: MoondreamConfig
    repo: Repo | None = None
    since: str = ""

    def at(self, revision: str) -> Published:
        """The same at another revision; an empty one is the pinned one. Raises ModelLoadError if it is too old."""
        if not revision or self.repo is None:
            return self
        if re.fullmatch(r"\d{4}-\d\d-\d\d", revision) and revision < self.since:
            raise ModelLoadError(
                f"{self.repo.id} at {revision} has prompts and tokens of an earlier format; allowed are revisions "
                f"since {self.since}."
            )
        return dataclasses.replace(self, repo=dataclasses.replace(self.repo, revision=revision))


PUBLISHED: Mapping[str, Published] = {
    "moondream2": Published(MOONDREAM_2, Repo("vikhyatk/moondream2", "2025-06-21"), "2025-06-21"),
    "moondream3-preview": Published(
        MOONDREAM_3, Repo("moondream/moondream3-preview", "5112966d1a723413b1c9a1e8bea272b72e647b35")
    ),
    "moondream3.1": Published(MOONDREAM_3, Repo("moondream/moondream3.1-9B-A2B", "main")),
    "moondream-0.5b": Published(MOONDREAM_HALF),
}
"""By the names that `load_model` takes. Of the 0.5B model only ONNX files are public.

Of moondream3.1 no commit is known to work, so that it follows its branch: the files that are fetched first stay, and
moondream3.1@COMMIT is another revision.
"""


def published_model(name: str) -> Published | None:
    """The public checkpoint of a name, or of name@revision. Raises ModelLoadError for a revision that is too old."""
    base, _, revision = name.partition("@")
    return PUBLISHED[base].at(revision) if base in PUBLISHED else None


def model_name(name_or_path: str) -> str:
    """What a model is called: its name, that of its folder, or of its weight file without the ending."""
    if name_or_path in BUNDLED or name_or_path.partition("@")[0] in PUBLISHED:
        return name_or_path
    path = Path(name_or_path).expanduser()
    return path.stem if path.is_file() else path.resolve().name


def unknown(name: str) -> str:
    return f"There is no model {name!r}. Known names are {', '.join([*BUNDLED, *PUBLISHED])}"


def not_here(name: str) -> str:
    return f"The files of {name} are not on this machine; fetch them with: python -m photon download {name}"


def not_public(name: str) -> str:
    return (
        f"The weights of {name} are not public in a form that can be fetched: what is published of it are ONNX files. "
        "Name the folder or the .safetensors file that holds them, with their tokenizer.json beside them, or take "
        "moondream2."
    )
