"""Pages of the KV cache, batch rows and adapter slots: numbered things with one owner at a time."""

from __future__ import annotations

from collections.abc import Iterable

from photon.errors import PhotonError


class OwnershipError(PhotonError):
    """A resource was given back twice, or is owned by nobody or by two."""


class Pool:
    """The numbers first..first + total - 1, each either free or taken."""

    def __init__(self, name: str, total: int, first: int = 0) -> None:
        self.name = name
        self.total = total
        self._free = list(range(first + total - 1, first - 1, -1))
        self._taken: set[int] = set()

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Raises `OwnershipError` if fewer are free: the caller reserves only what it has checked."""
        if count > len(self._free):
            raise OwnershipError(f"{count} {self.name} were asked for and {len(self._free)} are free.")
        taken = [self._free.pop() for _ in range(count)]
        self._taken.update(taken)
        return taken

    def give(self, items: Iterable[int]) -> None:
        """Raises `OwnershipError` for what is not taken."""
        for item in items:
            if item not in self._taken:
                raise OwnershipError(f"One of the {self.name}, number {item}, was given back but nobody had it.")
            self._taken.remove(item)
            self._free.append(item)

    def check(self, owners: Iterable[Iterable[int]]) -> None:
        """Every taken number belongs to exactly one of `owners`, and free + taken = total; else `OwnershipError`."""
        owned = [item for items in owners for item in items]
        if len(set(owned)) != len(owned):
            raise OwnershipError(f"One of the {self.name} has two owners: {sorted(owned)}.")
        if set(owned) != self._taken or len(self._free) + len(self._taken) != self.total:
            raise OwnershipError(
                f"{self.name}: {len(self._free)} free, {len(self._taken)} taken, {len(owned)} owned; "
                f"there are {self.total}."
            )


def pages_for(positions: int, page_size: int) -> int:
    return -(-positions // page_size)
