"""Adapter slots: pending, ready, failed; held and taken anew, the least recently used first."""

from __future__ import annotations

import pytest

from photon.memory.adapter_slots import AdapterSlots
from photon.memory.pages import OwnershipError


def loaded(slots: AdapterSlots, key: str) -> int:
    number, loads = slots.take(key)
    if loads:
        slots.loaded(number)
    slots.give(number)
    return number


def test_the_least_recently_used_slot_is_taken_anew() -> None:
    slots = AdapterSlots(2)
    first, second = loaded(slots, "a"), loaded(slots, "b")
    assert loaded(slots, "a") == first
    assert loaded(slots, "c") == second, "the other one was used more recently"
    assert slots.take("a") == (first, False)
    assert slots.take("b")[1], "it is there no more"


def test_an_adapter_is_pending_until_its_launch_is_committed() -> None:
    slots = AdapterSlots(1)
    number, loads = slots.take("a")
    assert loads
    assert slots.is_pending("a")
    slots.loaded(number)
    assert not slots.is_pending("a")
    assert slots.take("a") == (number, False)


def test_a_held_slot_is_not_taken_anew() -> None:
    slots = AdapterSlots(1)
    number, _ = slots.take("a")
    slots.loaded(number)
    assert slots.has_room("a")
    assert not slots.has_room("b")
    with pytest.raises(OwnershipError, match="All 1 adapter slots are in use"):
        slots.take("b")
    slots.give(number)
    assert slots.has_room("b")


def test_a_failed_load_is_forgotten() -> None:
    slots = AdapterSlots(1)
    number, _ = slots.take("a")
    slots.failed(number)
    assert not slots.is_pending("a")
    slots.give(number)
    assert slots.take("a") == (number, True)


def test_giving_back_what_nobody_holds_and_wrong_counts_are_errors() -> None:
    slots = AdapterSlots(2)
    with pytest.raises(OwnershipError, match="nobody had it"):
        slots.give(1)
    slots.take("a")
    slots.check([1, 0])
    with pytest.raises(OwnershipError, match="counts 1 references; 2 rows hold it"):
        slots.check([1, 1])
