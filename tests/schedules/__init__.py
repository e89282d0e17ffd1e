"""Random schedules: `python -m tests.schedules --count 100000` runs as many as wished."""

from __future__ import annotations

from tests.schedules.schedule import Schedule, Shape

__all__ = ["Schedule", "Shape"]
