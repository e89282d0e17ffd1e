"""Options of the whole suite, what is quick, and one thread for torch: sums that are compared have one order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.paths import ROOT

QUICK = ("core", "devices", "memory", "runtime", "scheduler", "engine", "skills", "commands", "test_layers.py")
"""What an engine's change is tried with first: `-m quick`."""
NOT_QUICK = ("engine/test_exact_on_photon_tiny.py",)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--schedules", type=int, default=20_000, help="how many random schedules are tried")
    parser.addoption(
        "--thorough", action="store_true", help="five times as many random schedules, drawn anew in every run"
    )


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = Path(item.path).relative_to(ROOT / "tests").as_posix()
        if file.split("/")[0] in QUICK and file not in NOT_QUICK and "slow" not in item.keywords:
            item.add_marker(pytest.mark.quick)
