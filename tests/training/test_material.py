"""Fetching, unpacking and crediting the material, with made-up packages and clients."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from photon.training.data import fetch
from photon.training.data.backgrounds import JUDGED, Background, photographs
from photon.training.data.copyright import credit_of
from photon.training.data.credits import LICENCES, LicenceError, cutout_lines, photograph_lines, write_credits
from photon.training.data.fetch import FetchError, Package, fetch_all, package_of, packages, unzip
from photon.training.data.store import Cutout, CutoutStore, keep_unfinished, write_cutouts
from tests.training.material import disc

COPYRIGHT = """\
Format: http://dep.debian.net/deps/dep5/

Files: *
Copyright: Copyright (c) 2011 Institute
License: GPL-2

Files: 16.04/wave_by_Ann.jpg
 16.04/hill.jpg
Copyright: Ann, 2018
 Bob, 2019
License: CC-BY-4.0

Files: Media/*
Copyright: Copyright (c) 2011 Institute
License: CC-BY-SA-3.0

License: CC-BY-4.0
 Files: debian/copyright of the text is no field.
"""


def client(folder: Path, script: str) -> tuple[str, ...]:
    """A command that runs `script` and notes each call in a file."""
    noted = f"open({str(folder / 'calls')!r}, 'a').write('.'); "
    return (sys.executable, "-c", noted + script)


def packing(name: str) -> str:
    return f"import zipfile; zipfile.ZipFile('{name}-1.0.zip', 'w').writestr('inside/{name}.txt', 'content')"


def test_packages_are_fetched_once_and_their_version_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [Package(name, client(tmp_path, packing(name[-1])), unzip) for name in ("@set/a", "b")]
    monkeypatch.setattr(fetch, "packages", lambda: wanted)
    for _ in range(2):
        fetch_all(tmp_path / "raw")
    assert (tmp_path / "raw/@set/a/inside/a.txt").read_text() == "content"
    assert package_of(tmp_path / "raw/b") == "b-1.0.zip"
    assert (tmp_path / "calls").read_text() == ".."


def test_what_was_not_unpacked_to_the_end_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(archive: Path, target: Path) -> None:
        unzip(archive, target)
        raise KeyboardInterrupt

    command = client(tmp_path, packing("a"))
    monkeypatch.setattr(fetch, "packages", lambda: [Package("a", command, half)])
    with pytest.raises(KeyboardInterrupt):
        fetch_all(tmp_path / "raw")
    assert list((tmp_path / "raw").iterdir()) == []
    monkeypatch.setattr(fetch, "packages", lambda: [Package("a", command, unzip)])
    fetch_all(tmp_path / "raw")
    assert (tmp_path / "raw/a/inside/a.txt").exists()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("no-such-client", "download"), "no-such-client is not installed"),
        ((sys.executable, "-c", "import sys; sys.exit('E: no such package')"), "failed: E: no such package"),
        ((sys.executable, "-c", ""), "left 0 files; one archive was expected"),
    ],
)
def test_what_cannot_be_fetched_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setattr(fetch, "packages", lambda: [Package("a", command, unzip)])
    with pytest.raises(FetchError, match=sentence):
        fetch_all(tmp_path)


def test_a_store_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "drawn.bin"
    red, blue = (Cutout(label, disc((9, 9, 9)), "drawn", "CC0", real=False) for label in ("red", "blue"))

    def interrupted():  # type: ignore[no-untyped-def]  # noqa: ANN202
        yield red
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_cutouts(path, interrupted())
    assert not path.exists()
    keep_unfinished(path)
    assert [entry.label for entry in CutoutStore(path).entries] == ["red"]
    assert write_cutouts(path, [red, blue]) == 2
    assert CutoutStore(path).pixels(1).shape[2] == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["drawn.bin", "drawn.jsonl"]


def installed(folder: Path) -> Path:
    (folder / "usr/share/doc/pictures").mkdir(parents=True)
    (folder / "usr/share/doc/pictures/copyright").write_text(COPYRIGHT)
    return folder


@pytest.mark.parametrize(
    ("file", "credit"),
    [
        ("usr/share/backgrounds/hill.jpg", "Ann, 2018\nBob, 2019; CC-BY-4.0"),
        ("usr/share/pictures/Media/Nature/lake.jpg", "2011 Institute; CC-BY-SA-3.0"),
        ("usr/share/pictures/code.py", "2011 Institute; GPL-2"),
    ],
)
def test_the_last_matching_paragraph_tells_author_and_licence(tmp_path: Path, file: str, credit: str) -> None:
    assert credit_of(installed(tmp_path), tmp_path / file) == credit.replace("\n", ", ")


def test_every_package_has_a_licence() -> None:
    assert {package.name for package in packages()} == set(LICENCES)


def test_credits_name_every_package_cutout_and_photograph(tmp_path: Path) -> None:
    for package in packages():
        (tmp_path / "raw" / package.name).mkdir(parents=True)
        (tmp_path / "raw" / package.name / "fetched-package.txt").write_text(f"{package.name}-7.zip")
    chair = Cutout("chair", disc((9, 9, 9)), "furniture", "CC0, Ann", real=True)
    write_cutouts(tmp_path / "furniture-00.bin", [chair, chair])
    wave = Background("wave", np.zeros((9, 9, 3), np.uint8), (), "pictures", "train", "Ann, 2018; CC-BY-SA-4.0")
    write_credits(tmp_path, tmp_path / "raw", [wave])
    lines = (tmp_path / "CREDITS.md").read_text().splitlines()
    assert all(any(f"{package.name}-7.zip" in line for line in lines) for package in packages())
    assert "- furniture: CC0, Ann (2)" in lines
    assert "- pictures, wave: Ann, 2018; CC-BY-SA-4.0" in lines


@pytest.mark.parametrize("licence", ["CC-BY-SA-4.0", "GPL-3+", "unknown"])
def test_cutouts_are_permissive(tmp_path: Path, licence: str) -> None:
    write_cutouts(tmp_path / "a.bin", [Cutout("chair", disc((9, 9, 9)), "furniture", licence, real=True)])
    with pytest.raises(LicenceError, match="furniture"):
        cutout_lines(CutoutStore(tmp_path / "a.bin").entries)


@pytest.mark.parametrize("credit", ["Ann; GPL-3", ""])
def test_photographs_are_permissive_or_share_alike(credit: str) -> None:
    with pytest.raises(LicenceError, match="wave"):
        photograph_lines([Background("wave", np.zeros((9, 9, 3), np.uint8), (), "pictures", "train", credit)])


def test_no_photograph_that_judges_the_model_is_a_background(tmp_path: Path) -> None:
    folder = installed(tmp_path / "scratch") / "usr/share/scratch/Media/Backgrounds/Nature"
    folder.mkdir(parents=True)
    from PIL import Image

    for name in (*JUDGED, "lake"):
        Image.new("RGB", (20, 20)).save(folder / f"{name}.png")
    (found,) = photographs(tmp_path)
    assert found.name == "lake"
    assert found.credit == "2011 Institute; CC-BY-SA-3.0"
