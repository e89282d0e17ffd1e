"""Faults put into a copy of the engine, one at a time: `python -m tests.mutations` shows that each is caught."""
