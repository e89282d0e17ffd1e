"""Run many random schedules on the simulated device, and some on an engine whose device hangs.

    python -m tests.schedules --count 100000 [--first 0] [--workers 2] [--progress FILE]

Each number is one schedule, the same everywhere; one in a thousand is a device that hangs. With `--progress` a run that
was ended goes on where it stopped. The exit code is 1 if one failed; its number and its shape are printed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path

from tests.schedules.chunks import CHUNK, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.schedules", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first number")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--progress", type=Path, help="a file that holds the first number that has not been run")
    options = parser.parse_args()
    first, end = options.first, options.first + options.count
    if options.progress and options.progress.is_file():
        first = max(first, int(options.progress.read_text()))
    failed, began = 0, time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for done, found in zip(range(first, end, CHUNK), pool.imap(run, range(first, end, CHUNK)), strict=True):
            failed += len(found)
            for sentence in found:
                print(sentence, flush=True)
            if options.progress:
                options.progress.write_text(str(done + CHUNK))
            if (done - first) // CHUNK % 20 == 19:
                print(f"{done + CHUNK - first} schedules in {time.monotonic() - began:.0f} s", flush=True)
    count = len(range(first, end, CHUNK)) * CHUNK
    print(f"{count} schedules in {time.monotonic() - began:.0f} s: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
