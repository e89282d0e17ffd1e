"""Benchmarks: `python -m photon.bench NAME`; each is one file here and prints a table, or JSON with --json."""
