"""Runs tests against changed copies of the engine, a few at a time.

A trial is a fork of this process, which has imported torch and pytest already: that takes longer than most tests.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

import hypothesis.strategies  # noqa: F401
import pytest
import torch

from tests.mutations.mutation import Change
from tests.paths import ROOT

ENVIRONMENT = {
    "PHOTON_SHRINK": "0",
    "PHOTON_PATIENCE": "10",
    "OMP_NUM_THREADS": "1",
}
SCHEDULES = "640"
"""So many must a fault survive before it counts as not caught."""
_LEFT_OUT = ("__pycache__", "data", "training", "e2e", "app", "models", "skills")
_TESTS_FAILED = 1
"""pytest's exit code for failed tests; others mean that the tests could not be run."""
_FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Trial:
    """Changes to the engine, and tests in the order in which they are tried."""

    changes: tuple[Change, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """`by` names the test that failed first; None if none did. `trouble` says why the tests could not be run."""

    seconds: float
    by: str | None = None
    trouble: str | None = None


@dataclass
class _Running:
    index: int
    limit_s: float
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="photon-mutation-")))
    start: float = field(default_factory=time.monotonic)
    process: multiprocessing.process.BaseProcess | None = None

    def begin(self, trial: Trial) -> None:
        package = copy_engine(self.folder)
        for change in trial.changes:
            change.apply(package)
        self.process = multiprocessing.get_context("fork").Process(target=_test, args=(self.folder, trial.tests))
        self.process.start()

    @property
    def left_s(self) -> float:
        return self.start + self.limit_s - time.monotonic()

    def outcome(self) -> Outcome:
        assert self.process is not None
        if self.left_s <= 0 and self.process.is_alive():
            self.process.kill()
            self.process.join()
            return Outcome(self.limit_s, trouble=f"The tests had not ended after {self.limit_s:g} s.")
        self.process.join()
        seconds, output = time.monotonic() - self.start, (self.folder / "output").read_text()
        if self.process.exitcode == 0:
            return Outcome(seconds)
        found = _FAILED.search(output)
        if self.process.exitcode != _TESTS_FAILED or found is None:
            return Outcome(seconds, trouble=output[-2000:])
        return Outcome(seconds, by=found[1].removeprefix("tests/"))


def run_all(trials: Sequence[Trial], workers: int, limit_s: float) -> Iterator[tuple[int, Outcome]]:
    """Yields the outcome of each trial with its index, as they end. Raises `MutationError` for a change that fails."""
    torch.set_num_threads(1)
    waiting, running = list(enumerate(trials)), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                index, trial = waiting.pop(0)
                running.append(_Running(index, limit_s))
                running[-1].begin(trial)
            wait([r.process.sentinel for r in running if r.process], max(0.0, min(r.left_s for r in running)))
            for one in [r for r in running if r.process and (not r.process.is_alive() or r.left_s <= 0)]:
                yield one.index, one.outcome()
                running.remove(one)
                shutil.rmtree(one.folder)
    finally:
        for one in running:
            if one.process:
                one.process.kill()
            shutil.rmtree(one.folder, ignore_errors=True)


def copy_engine(target: Path) -> Path:
    """The package and the tests of the engine; weights are linked, not copied. Returns the package's folder."""
    shutil.copytree(ROOT / "photon", target / "photon", ignore=shutil.ignore_patterns("__pycache__", "assets"))
    (target / "photon" / "assets").symlink_to(ROOT / "photon" / "assets")
    shutil.copytree(ROOT / "tests", target / "tests", ignore=shutil.ignore_patterns(*_LEFT_OUT))
    (target / "tests" / "data").symlink_to(ROOT / "tests" / "data")
    shutil.copy(ROOT / "pyproject.toml", target)
    return target / "photon"


def _test(folder: Path, tests: Sequence[str]) -> None:
    """In the fork: forget the modules of this process's own tree, and test those of `folder`."""
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(ENVIRONMENT)
    os.chdir(folder)
    sys.dont_write_bytecode = True
    sys.path[:] = [str(folder), *(p for p in sys.path if Path(p or ".").resolve() not in (ROOT, folder))]
    for name in [n for n in sys.modules if n.split(".")[0] in ("tests", "photon")]:
        del sys.modules[name]
    code = pytest.main(["-x", "-q", "-rf", "--tb=line", "-p", "no:cacheprovider", "--schedules", SCHEDULES, *tests])
    sys.stdout.flush()
    os._exit(int(code))
