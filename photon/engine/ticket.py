"""Where a call stands in the queue."""

from __future__ import annotations

from collections.abc import Callable


class Ticket:
    """Given to an asynchronous verb, it tells while the verb is awaited how far the call is from its turn."""

    def __init__(self) -> None:
        self._look: Callable[[], int | None] = lambda: None

    def follow(self, look: Callable[[], int | None]) -> None:
        """The engine's own: `look` counts, from any thread."""
        self._look = look

    @property
    def ahead(self) -> int | None:
        """How many requests stand in the queue before the call's first that waits there; None if none of it waits."""
        return self._look()
