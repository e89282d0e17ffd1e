"""What to launch next, and whether now or once the step in flight has been read."""

from __future__ import annotations

from typing import NamedTuple

from photon.core.trace import Kind

_LITTLE = 0.1
"""Rows and requests that may wait for a trial's sake."""


class View(NamedTuple):
    """What is known while a step is in flight whose tokens nobody has seen. Counts of rows and requests, seconds."""

    sure: int
    """Rows that want their next token whatever the step in flight brings."""
    going: float
    """How many rows are expected to want one, the sure ones among them."""
    none_left: float
    """Chance that no row does."""
    ready: int
    """Requests that a prefill could take now."""
    full: bool
    """Whether that prefill could not take more."""
    joining: float
    """Requests expected beside these by the time at which the step in flight has been read."""
    returning: float
    """Chance that somebody asks while a step runs."""
    after_prefill: bool
    saves_s: float
    """By how much a step ends sooner if it is launched before the step in flight is read; may be negative."""
    decode_s: float
    prefill_s: float
    trial: bool = False
    """Whether to launch a decode otherwise for once, where little hangs on it, to see how long that takes."""


def kind_of(view: View) -> Kind:
    """A prefill where one is ready, but one at most between two decodes of rows that are sure to want their token.

    Rows that may all have ended want nothing for sure: a prefill, which does, then goes first.
    """
    return "prefill" if view.ready and not (view.after_prefill and view.sure) else "decode"


def launch_now(view: View) -> bool:
    """Whether to launch before the step in flight is read; counted in seconds of waiting, over all rows and requests.

    Reading first costs everybody what launching saves: the bubble, less what the host's work takes from a step that it
    runs beside. Launching first costs those who join meanwhile the whole step, which goes without them, and where no
    row is left it costs the same to whoever asks while the useless step runs.
    """
    everybody = view.going + view.ready
    if kind_of(view) == "prefill":
        return everybody * view.saves_s >= (0.0 if view.full else view.joining) * view.prefill_s
    lost = view.joining + view.none_left * view.returning
    pays = everybody * view.saves_s >= lost * view.decode_s
    return pays != (view.trial and lost < _LITTLE)
