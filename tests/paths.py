"""Where the tests' files lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
PARITY = DATA / "parity"
