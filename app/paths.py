"""Where the app's files lie: found from here alone, so that modules can move."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
STATIC = ROOT / "static"
