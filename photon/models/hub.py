"""Repositories of the Hugging Face Hub: their files on this machine, and fetching them.

`find` and `find_weights` look at the local cache alone; only `fetch` and `fetch_weights` use the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from photon.errors import ModelLoadError
from photon.models.files import INDEX, SINGLE, read_index
from photon.models.progress import Progress, part_of, unseen


@dataclass(frozen=True)
class Repo:
    """A repository at one revision: a commit, tag or branch."""

    id: str
    revision: str

    def __str__(self) -> str:
        return f"{self.id} at {self.revision}"


def find(repo: Repo, file: str) -> Path | None:
    """The file in the local cache, or None."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo.id, file, revision=repo.revision)
    return Path(found) if isinstance(found, str) and Path(found).is_file() else None


def find_weights(repo: Repo) -> Path | None:
    """The folder with all weight files of the repository, or None if any is not in the local cache.

    Raises ModelLoadError if the index of its shards is damaged.
    """
    index = find(repo, INDEX)
    needed = set(read_index(index).values()) if index else {SINGLE}
    files = [find(repo, file) for file in needed]
    return files[0].parent if all(files) and files[0] else None


def fetch(repo: Repo, file: str, progress: Progress = unseen) -> Path:
    """Download the file unless it is in the local cache; shows a progress bar on stderr, goes on where it stopped.

    Raises ModelLoadError that says in one sentence why it cannot be had.
    """
    path = _fetch(repo, file, progress)
    if path is None:
        raise ModelLoadError(f"There is no file {file} in {repo}.")
    return path


def fetch_weights(repo: Repo, progress: Progress = unseen) -> Path:
    """Download all weight files that are not in the local cache; returns their folder. Raises as `fetch`."""
    if found := find_weights(repo):
        return found
    index = _fetch(repo, INDEX)
    needed = sorted(set(read_index(index).values())) if index else [SINGLE]
    parts = (part_of(progress, index, len(needed)) for index in range(len(needed)))
    return [fetch(repo, file, part) for file, part in zip(needed, parts, strict=True)][-1].parent


def _fetch(repo: Repo, file: str, progress: Progress = unseen) -> Path | None:
    """None if the repository has no such file."""
    if found := find(repo, file):
        return found
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_download, hf_hub_url

    try:
        get_hf_file_metadata(hf_hub_url(repo.id, file, revision=repo.revision))  # fails at once, the next one retries
        return Path(hf_hub_download(repo.id, file, revision=repo.revision, tqdm_class=_bar(progress)))
    except errors.RemoteEntryNotFoundError:
        return None
    except errors.GatedRepoError as error:
        raise ModelLoadError(
            f"{repo.id} is given on request only: ask at https://huggingface.co/{repo.id}, then run `hf auth login`."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelLoadError(f"{repo.id} has no revision {repo.revision}.") from error
    except errors.RepositoryNotFoundError as error:
        raise ModelLoadError(
            f"There is no repository {repo.id} that may be read from here; a private one needs `hf auth login`."
        ) from error
    except errors.HfHubHTTPError as error:
        raise ModelLoadError(f"{file} of {repo} cannot be fetched: the Hub says {_line(error)!r}.") from error
    except OSError as error:
        if isinstance(error, ConnectionError | errors.LocalEntryNotFoundError):
            raise _unreachable(repo, error) from error
        raise ModelLoadError(f"{file} of {repo} cannot be stored: {_line(error)}.") from error
    except Exception as error:  # the transport's own kinds
        raise _unreachable(repo, error) from error


def _bar(progress: Progress) -> Any:
    """A progress bar that tells `progress` too, also where no bar is shown."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *args: Any, **options: Any) -> None:
            self._done, self._whole = options.get("initial") or 0, options.get("total")
            super().__init__(*args, **options)

        def update(self, n: float | None = 1) -> bool | None:
            self._done += n or 0
            if self._whole:
                progress(min(self._done / self._whole, 1.0))
            shown: bool | None = super().update(n)
            return shown

    return Bar


def _unreachable(repo: Repo, error: Exception) -> ModelLoadError:
    return ModelLoadError(
        f"{repo.id} cannot be fetched: the Hub is out of reach ({_line(error)}); try again when this machine is online."
    )


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
