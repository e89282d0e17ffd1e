"""Options of the whole suite, and one thread for torch: what is compared exactly must be summed in one order."""

from __future__ import annotations

import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="five times as many random schedules, drawn anew in every run"
    )


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)
