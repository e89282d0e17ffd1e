"""Adapter slots: which LoRA adapters lie on the device, who uses them, and which may be replaced.

Slot 0 means "no adapter". An adapter is pending from the launch that loads it until that launch commits, then ready;
until then no other request uses it, so none is ever served by weights that did not arrive. A slot is loaded anew only
when no row holds it, a zombie included: its references go back with its batch row.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from photon.memory.pages import OwnershipError


@dataclass
class _Slot:
    number: int
    key: Hashable | None = None
    ready: bool = False
    references: int = 0


class AdapterSlots:
    """Least recently used goes first. `key` is the adapter's content key."""

    def __init__(self, total: int) -> None:
        self._slots = [_Slot(number) for number in range(1, total + 1)]

    @property
    def total(self) -> int:
        return len(self._slots)

    def is_pending(self, key: Hashable) -> bool:
        slot = self._find(key)
        return slot is not None and not slot.ready

    def has_room(self, key: Hashable) -> bool:
        return self._find(key) is not None or any(s.references == 0 for s in self._slots)

    def take(self, key: Hashable) -> tuple[int, bool]:
        """A referenced slot for the adapter, and whether the caller's launch must load it. Check `has_room` first."""
        slot = self._find(key)
        loads = slot is None
        if slot is None:
            slot = next((s for s in self._slots if s.references == 0), None)
            if slot is None:
                raise OwnershipError(f"All {len(self._slots)} adapter slots are in use.")
            slot.key, slot.ready = key, False
        self._slots.remove(slot)
        self._slots.append(slot)
        slot.references += 1
        return slot.number, loads

    def give(self, number: int) -> None:
        """A row holds the slot no more. Raises `OwnershipError` if none did."""
        slot = self._at(number)
        if slot.references == 0:
            raise OwnershipError(f"Adapter slot {number} was given back but nobody had it.")
        slot.references -= 1

    def loaded(self, number: int) -> None:
        """The launch that loads it has been committed: others may use it."""
        self._at(number).ready = True

    def failed(self, number: int) -> None:
        """Forget what the slot was to hold; rows that hold it are failing with the launch."""
        slot = self._at(number)
        slot.key, slot.ready = None, False

    def check(self, holders: Iterable[int]) -> None:
        """Each slot's references are the rows in `holders`. Raises `OwnershipError`."""
        held = [number for number in holders if number]
        for slot in self._slots:
            if slot.references != held.count(slot.number):
                raise OwnershipError(
                    f"Adapter slot {slot.number} counts {slot.references} references; "
                    f"{held.count(slot.number)} rows hold it."
                )

    def _find(self, key: Hashable) -> _Slot | None:
        return next((s for s in self._slots if s.key == key), None)

    def _at(self, number: int) -> _Slot:
        return next(s for s in self._slots if s.number == number)
