"""Image prefixes: pending, ready, failed; pinned and evicted."""

from __future__ import annotations

import pytest

from photon.memory.pages import OwnershipError, Pool
from photon.memory.prefix_cache import Prefix, PrefixCache


def cache(pages: int = 8, page_size: int = 4, length: int = 6) -> tuple[PrefixCache, Pool]:
    pool = Pool("pages", pages, first=1)
    return PrefixCache(pool, page_size, length), pool


def ready(prefixes: PrefixCache, key: str) -> Prefix:
    prefix = prefixes.lead(key)
    prefixes.commit(prefix)
    prefixes.unpin(prefix)
    return prefix


def test_only_full_pages_are_shared_and_the_partial_one_is_the_tail() -> None:
    prefixes, _ = cache(page_size=4, length=6)
    prefix = prefixes.lead("a")
    assert (len(prefix.pages), prefix.shared, prefix.tail) == (2, 1, prefix.pages[1])
    whole, _ = cache(page_size=3, length=6)
    prefix = whole.lead("a")
    assert (len(prefix.pages), prefix.shared, prefix.tail) == (2, 2, None)


def test_a_prefix_is_pending_until_its_step_commits() -> None:
    prefixes, _ = cache()
    prefix = prefixes.lead("a")
    assert not prefix.ready
    prefixes.commit(prefix)
    assert prefix.ready


def test_a_prefix_that_is_known_is_not_led_again() -> None:
    prefixes, _ = cache()
    prefixes.lead("a")
    with pytest.raises(OwnershipError):
        prefixes.lead("a")


def test_a_failed_prefix_is_forgotten_and_its_pages_go_back_with_its_last_row() -> None:
    prefixes, pool = cache()
    prefix = prefixes.lead("a")
    prefixes.fail(prefix)
    assert prefixes.find("a") is None
    assert pool.free == 6
    again = prefixes.lead("a")
    prefixes.unpin(prefix)
    assert pool.free == 6 - 2 + 2
    assert prefixes.find("a") is again


def test_a_failed_prefix_that_nobody_holds_goes_back_at_once() -> None:
    prefixes, pool = cache()
    prefix = prefixes.lead("a")
    prefixes.unpin(prefix)
    prefixes.fail(prefix)
    assert pool.free == 8


def test_a_ready_prefix_stays_cached_when_nobody_uses_it() -> None:
    prefixes, pool = cache()
    ready(prefixes, "a")
    assert prefixes.cached_pages == 2
    assert pool.free == 6


def test_least_recently_used_goes_first_and_no_more_than_needed() -> None:
    prefixes, _ = cache()
    for key in "abc":
        ready(prefixes, key)
    first = prefixes.find("a")
    assert [p.key for p in prefixes] == ["a", "b", "c"], "a question changed the order"
    assert first is not None
    prefixes.touch(first)
    assert prefixes.make_room(4)
    assert [p.key for p in prefixes] == ["c", "a"]


def test_what_was_read_last_stays_longest() -> None:
    prefixes, _ = cache()
    read = ready(prefixes, "read")
    ready(prefixes, "newer")
    prefixes.pin(read)
    prefixes.unpin(read)
    assert prefixes.make_room(6)
    assert [p.key for p in prefixes] == ["read"]


def test_pinned_and_pending_prefixes_are_not_evicted() -> None:
    prefixes, pool = cache()
    pinned, _ = ready(prefixes, "pinned"), prefixes.lead("pending")
    prefixes.pin(pinned)
    assert not prefixes.make_room(5)
    assert pool.free == 4
    assert {p.key for p in prefixes} == {"pinned", "pending"}


def test_room_is_made_from_those_that_nobody_reads() -> None:
    prefixes, pool = cache()
    pinned = ready(prefixes, "pinned")
    prefixes.pin(pinned)
    prefixes.find("pinned")
    ready(prefixes, "idle")
    assert prefixes.make_room(6)
    assert pool.free == 6
    assert [p.key for p in prefixes] == ["pinned"]


def test_nothing_is_evicted_when_that_would_not_make_enough_room() -> None:
    prefixes, _ = cache()
    ready(prefixes, "a")
    prefixes.lead("b")
    assert not prefixes.make_room(7)
    assert prefixes.find("a") is not None


def test_unpinning_more_than_was_pinned_is_an_error() -> None:
    prefixes, _ = cache()
    prefix = ready(prefixes, "a")
    with pytest.raises(OwnershipError):
        prefixes.unpin(prefix)


def test_the_count_of_cached_pages_holds_while_another_thread_uses_the_cache() -> None:
    prefixes, _ = cache(pages=8)

    class Pages(list[int]):
        def __len__(self) -> int:
            prefixes.find("a")  # as the engine's thread may between any two prefixes
            return super().__len__()

    for key in ("a", "b", "c"):
        prefix = ready(prefixes, key)
        prefix.pages = Pages(prefix.pages)
    assert prefixes.cached_pages == 6
