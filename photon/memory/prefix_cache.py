"""Image prefixes that several requests share (docs/engine.md "Image prefixes").

A prefix (BOS + image tokens) is one bidirectional block: cacheable only whole. It is pending from the launch that
computes it until that launch commits, then ready; a failed one is forgotten, so that the next request leads. Its
full pages are shared and never written again; its partial tail page is copied into each row's own page.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from photon.memory.pages import OwnershipError, Pool, pages_for


@dataclass(eq=False)
class Prefix:
    """`pages` cover `length` positions; the first `shared` of them are full. `pins` counts rows that read it."""

    key: Hashable
    length: int
    pages: list[int]
    shared: int
    ready: bool = False
    pins: int = field(default=0)

    @property
    def tail(self) -> int | None:
        return self.pages[self.shared] if self.shared < len(self.pages) else None


class PrefixCache:
    """Least recently used goes first, and only what is ready and unpinned."""

    def __init__(self, pages: Pool, page_size: int, length: int) -> None:
        self.length = length
        self.size = pages_for(length, page_size)
        self.shared = length // page_size
        self._pages = pages
        self._prefixes: dict[Hashable, Prefix] = {}

    def __iter__(self) -> Iterator[Prefix]:
        return iter(self._prefixes.values())

    @property
    def cached_pages(self) -> int:
        """May be asked for by any thread."""
        return sum(len(p.pages) for p in list(self._prefixes.values()))

    def find(self, key: Hashable) -> Prefix | None:
        """The pending or ready prefix. A question: the order of eviction stays."""
        return self._prefixes.get(key)

    def lead(self, key: Hashable) -> Prefix:
        """A new pending prefix with its pages, pinned by its leader. The caller made room and found no other."""
        if key in self._prefixes:
            raise OwnershipError("A prefix that is already cached was computed again.")
        prefix = Prefix(key, self.length, self._pages.take(self.size), self.shared, pins=1)
        self._prefixes[key] = prefix
        return prefix

    def commit(self, prefix: Prefix) -> None:
        """Its launch has been committed: others may use it."""
        prefix.ready = True

    def fail(self, prefix: Prefix) -> None:
        """Forget it. Its pages go back when the last row that holds it does."""
        del self._prefixes[prefix.key]
        if prefix.pins == 0:
            self._pages.give(prefix.pages)

    def pin(self, prefix: Prefix) -> None:
        """A row is about to read it: it stays until `unpin`."""
        prefix.pins += 1
        self.touch(prefix)

    def touch(self, prefix: Prefix) -> None:
        """Make it the most recently used: somebody reads it, or soon will."""
        if self._prefixes.pop(prefix.key, None) is not None:
            self._prefixes[prefix.key] = prefix

    def unpin(self, prefix: Prefix) -> None:
        """Raises `OwnershipError` if it was not pinned."""
        prefix.pins -= 1
        if prefix.pins < 0:
            raise OwnershipError("A prefix was unpinned more often than it was pinned.")
        if prefix.pins == 0 and self._prefixes.get(prefix.key) is not prefix:
            self._pages.give(prefix.pages)

    def evictable_pages(self) -> int:
        return sum(len(p.pages) for p in self._prefixes.values() if p.ready and p.pins == 0)

    def make_room(self, count: int) -> bool:
        """Evict until `count` pages are free; evicts nothing if that cannot be reached."""
        if self._pages.free >= count:
            return True
        if self._pages.free + self.evictable_pages() < count:
            return False
        for prefix in [p for p in self._prefixes.values() if p.ready and p.pins == 0]:
            del self._prefixes[prefix.key]
            self._pages.give(prefix.pages)
            if self._pages.free >= count:
                return True
        return True
