"""Put each fault into a copy of the engine and see which test catches it.

    python -m tests.mutations [--fault N] [--workers 2] [--limit 240]

Prints a table and ends with the line `N of N caught`; the exit code is 0 only if all were, and if the engine as it is
passes the same tests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.mutations.faults import MUTATIONS
from tests.mutations.mutation import Mutation
from tests.mutations.trials import Outcome, Trial, run_all


def unchanged(mutations: Sequence[Mutation]) -> Trial:
    """The engine as it is passes the tests that are to catch the faults."""
    named = dict.fromkeys(test for mutation in mutations for test in mutation.tests)
    return Trial((), tuple(test for test in named if "::" not in test or test.split("::")[0] not in named))


def line(mutation: Mutation, outcome: Outcome) -> str:
    verdict = outcome.by or ("COULD NOT BE TRIED" if outcome.trouble else "NOT CAUGHT")
    return f"{mutation.fault:>2}  {mutation.what:<99}  {outcome.seconds:5.1f} s  {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--fault", type=int, action="append", help="only this kind of fault; may be given again")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds after which a trial is given up")
    options = parser.parse_args()
    mutations = [m for m in MUTATIONS if not options.fault or m.fault in options.fault]
    trials = [*(Trial(m.changes, m.tests) for m in mutations), unchanged(mutations)]
    caught, passes = 0, False
    for index, outcome in run_all(trials, options.workers, options.limit):
        if index < len(mutations):
            caught += outcome.by is not None
            print(line(mutations[index], outcome), flush=True)
        else:
            passes = outcome.by is None and outcome.trouble is None
            print(f"    the engine as it is {'passes' if passes else f'FAILS {outcome.by}'}", flush=True)
        if outcome.trouble:
            print(outcome.trouble, flush=True)
    print(f"{caught} of {len(mutations)} caught")
    return 0 if passes and caught == len(mutations) else 1


if __name__ == "__main__":
    sys.exit(main())
