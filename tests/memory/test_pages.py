"""Numbered things with one owner: invariant 3."""

from __future__ import annotations

import pytest

from photon.memory.pages import OwnershipError, Pool, pages_for


def test_what_is_taken_is_nobody_elses() -> None:
    pool = Pool("pages", 5, first=1)
    first, second = pool.take(2), pool.take(3)
    assert sorted(first + second) == [1, 2, 3, 4, 5]
    assert pool.free == 0


def test_more_than_is_free_is_refused_and_nothing_is_taken() -> None:
    pool = Pool("pages", 2)
    with pytest.raises(OwnershipError):
        pool.take(3)
    assert pool.free == 2


def test_giving_back_twice_is_an_error() -> None:
    pool = Pool("pages", 2)
    pages = pool.take(1)
    pool.give(pages)
    with pytest.raises(OwnershipError):
        pool.give(pages)


def test_one_owner_each_is_in_order() -> None:
    pool = Pool("rows", 4)
    a, b = pool.take(1), pool.take(2)
    pool.check([a, b])
    pool.give(a)
    pool.check([b])


@pytest.mark.parametrize("owners", [[[3, 2], [2]], [[3]], [[3, 2], [1]]])
def test_two_owners_and_no_owner_are_found(owners: list[list[int]]) -> None:
    pool = Pool("rows", 4)
    assert pool.take(2) == [0, 1]
    pool.give([0, 1])
    pool.take(2)
    with pytest.raises(OwnershipError):
        pool.check(owners)


def test_a_row_that_is_neither_free_nor_taken_is_found() -> None:
    pool = Pool("rows", 4)
    pool.total = 5
    with pytest.raises(OwnershipError):
        pool.check([])


@pytest.mark.parametrize(("positions", "pages"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_pages_for_positions(positions: int, pages: int) -> None:
    assert pages_for(positions, 4) == pages
