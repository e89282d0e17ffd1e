"""Imports go down only: the table of tests/layers.py is the plan of the house, and the code keeps to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.layers import MAY_IMPORT, arrows_up, circles, imports
from tests.paths import ROOT


def test_the_table_itself_runs_down_only() -> None:
    below: set[str] = {"photon"}
    for place, allowed in MAY_IMPORT.items():
        assert set(allowed.split()) <= below, f"{place} may import what stands above it"
        below.add(place)


def test_every_folder_and_loose_file_has_its_place_in_the_table() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("photon", "app")
        for path in (ROOT / package).iterdir()
        if path.suffix == ".py" or list(path.glob("*.py"))
    }
    assert found == set(MAY_IMPORT)


def test_no_import_runs_up() -> None:
    assert arrows_up(imports(ROOT)) == []


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(imports(ROOT)) == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in ("photon", "app"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=lambda folder, names: _no_code(folder, names))
    return tmp_path


def _no_code(folder: str, names: list[str]) -> list[str]:
    return [n for n in names if "." in n and not n.endswith(".py")]


@pytest.mark.parametrize(
    ("file", "line", "found"),
    [
        ("photon/memory/pages.py", "import photon.scheduler.scheduler\n", "photon/scheduler/scheduler.py"),
        ("photon/devices/base.py", "from photon.runtime.executor import Executor\n", "photon/runtime/executor.py"),
        (
            "photon/core/step.py",
            "def f():\n    from photon.scheduler import pipeline\n",
            "photon/scheduler/pipeline.py",
        ),
        ("photon/runtime/slot.py", "if 0:\n    from photon.skills import PLANS\n", "photon/skills/__init__.py"),
        ("app/page/ui.py", "from photon.pictures.colours import to_rgb\n", "photon/pictures/colours.py"),
        ("app/pictures/store.py", "from app.server import build_app\n", "app/server.py"),
    ],
)
def test_a_wrong_import_is_found_and_both_files_are_named(tree: Path, file: str, line: str, found: str) -> None:
    with (tree / file).open("a") as code:
        code.write(f"\n{line}")
    assert arrows_up(imports(tree)) == [f"{file} imports {found}"]


def test_a_circle_is_found_and_its_files_are_named(tree: Path) -> None:
    with (tree / "photon/core/sequence.py").open("a") as code:
        code.write("\nfrom photon.core.step import Step\n")
    (found,) = circles(imports(tree))
    assert set(found.split(" -> ")) == {"photon/core/sequence.py", "photon/core/step.py"}
