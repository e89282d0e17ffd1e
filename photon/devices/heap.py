"""Keeps freed memory for the next forward on the CPU, instead of giving it back to the system.

A picture's activations are blocks of a few MiB. The C library gives such blocks back as they are freed, so the tower
of the bundled model met 5000 to 8000 fresh pages a picture, each to be mapped and cleared by the system: a quarter of
its time. Threads share one heap, since what is free in the heap of another is of no use.
"""

from __future__ import annotations

import ctypes
import os

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
"""Numbers of glibc's parameters (mallopt(3))."""

KEPT_BYTES = 256 * 2**20
"""How much free memory may stay at the end of the heap."""

LARGEST_BLOCK = 32 * 2**20
"""Larger blocks are given back at once; glibc allows no more than this."""


def keep_freed_memory() -> bool:
    """Tells the C library; False where it is not glibc, or where the environment has settings of its own for it."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # no such function: not glibc
        return False
    settings = {TRIM_THRESHOLD: KEPT_BYTES, MMAP_THRESHOLD: LARGEST_BLOCK, ARENA_MAX: 1}
    return all(mallopt(name, value) for name, value in settings.items())
