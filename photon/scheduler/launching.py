"""What to launch next, and whether now or once the step in flight has been read."""

from __future__ import annotations

from typing import NamedTuple

from photon.core.trace import Kind


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
    bubble_s: float
    """What the device waits between two steps if the first is read before the second is launched."""
    decode_s: float
    prefill_s: float


def kind_of(view: View) -> Kind:
    """A prefill where one is ready, but one at most between two decodes of rows that are sure to want their token.

    Rows that may all have ended want nothing for sure: a prefill, which does, then goes first.
    """
    return "prefill" if view.ready and not (view.after_prefill and view.sure) else "decode"


def launch_now(view: View) -> bool:
    """Whether to launch before the step in flight is read; counted in seconds of waiting, over all rows and requests.

    Reading first costs everybody the bubble. Launching first costs those who join meanwhile the whole step, which goes
    without them, and where no row is left it costs the same to whoever asks while the useless step runs.
    """
    kind = kind_of(view)
    step_s = view.prefill_s if kind == "prefill" else view.decode_s
    joining = 0.0 if kind == "prefill" and view.full else view.joining
    useless = view.none_left * view.returning if kind == "decode" else 0.0
    return (view.going + view.ready) * view.bubble_s >= (joining + useless) * step_s
