"""A shape for every number: the same one on every machine."""

from __future__ import annotations

import random

from tests.schedules.schedule import Shape


def drawn(number: int) -> Shape:
    """As the tests draw them: mostly without faults, so that answers are compared, but with all of them at times."""
    r = random.Random(number)
    return Shape(
        seed=r.getrandbits(32),
        requests=r.randint(1, 10),
        rows=r.randint(1, 5),
        slack=r.randint(0, 12),
        images=r.randint(0, 3),
        adapters=r.choice((0, 0, 1, 2, 3)),
        spread=r.choice((0, 0, 4, 12, 30)),
        cancels=r.choice((0, 0, 1, 2, 5)),
        pauses=r.choice((0, 0, 0, 1, 2)),
        row_faults=r.choice((0, 0, 1, 3)),
        step_faults=r.choice((0, 0, 0, 1, 2)),
        blocking=r.choice((0, 0, 0, 2, 4, 8)),
        longest=r.randint(1, 14),
        eos=r.choice((0, 1, 2, 5, 9)),
        lag=(r.randint(0, 4), r.randint(0, 4)),
        captures=r.random() < 0.25,
        lost=r.choice((1, 3, 6, 10, 20)) if r.random() < 0.1 else 0,
    )
