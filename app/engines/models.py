"""The models of this server: one engine each, shared by all visitors, as many as fit.

The main model is there from the start to the end. Another is loaded when somebody first asks for it; where its memory
is needed for the next, the one that has been idle the longest is closed. All methods belong to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.engines.holder import CLOSE_S, Engine, EngineHolder, NotReadyError, State, UnavailableError
from photon import ModelInfo, Progress, model_name

KEEP_S = 60.0  # a model stays this long after its last answer: two visitors do not drive out each other's in turns
RETRY_S = 30.0  # after this long a load that failed is tried again

Load = Callable[[str, Progress], Engine]
Look = Callable[[Sequence[str]], Sequence[ModelInfo]]


class UnknownModelError(ValueError):
    """The model is not among those that this server offers; the sentence names them."""


@dataclass(frozen=True)
class Offer:
    """What a visitor may be told of one offered model.

    `refusal` says why it cannot be chosen; it is empty if it can. `fetches`: choosing it fetches its files first.
    """

    info: ModelInfo
    state: State | None
    refusal: str = ""
    fetches: bool = False


class Models:
    """The offered models and their holders.

    names: what `photon.Photon.load` takes, the main model among them. load: makes an engine, in a thread. look: what
    each name is on this machine, in the order of `names`. memory: of the device, in bytes; None if not known. fetch:
    gets a model's files, in a thread; None where visitors may not.
    """

    def __init__(
        self,
        main: str,
        names: Sequence[str],
        load: Load,
        look: Look,
        memory: Callable[[], int | None],
        fetch: Callable[[str, Progress], object] | None = None,
    ) -> None:
        self._names = {model_name(name): name for name in names}
        self._load, self._look, self._memory, self._fetch = load, look, memory, fetch
        self.main = self._holder(model_name(main))
        self._holders = {self.main.name: self.main}
        self._looking = asyncio.Lock()

    def start(self) -> None:
        """Begin to load the main model."""
        self.main.start()

    async def close(self, deadline_s: float = CLOSE_S) -> None:
        """Close all engines; loads that still run are waited for."""
        await asyncio.gather(*(holder.close(deadline_s) for holder in self.loaded()))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the offered models, as requests and visitors give them."""
        return tuple(self._names)

    def loaded(self) -> list[EngineHolder]:
        """The holders that have or make an engine, or have failed to; the main one first."""
        return list(self._holders.values())

    @asynccontextmanager
    async def using(self, name: str | None = None) -> AsyncIterator[EngineHolder]:
        """The model's holder, by default the main one's; it is not closed before this context ends.

        A model that is not loaded begins to; the holder's `engine` says so, or why it cannot be.
        """
        holder = await self.open(name or self.main.name)
        with holder.held():
            yield holder

    async def open(self, name: str, fetch: bool = False) -> EngineHolder:
        """The model's holder, loading if it was not; with `fetch`, its files are fetched first where that is allowed.

        A model that cannot be loaded gets a holder of its own that says why. Raises UnknownModelError.
        """
        if name not in self._names:
            raise UnknownModelError(
                f"The model {name[:100]!r} is not offered here; this server answers with {', '.join(self.names)}."
            )
        if found := self._current(name):
            return found
        async with self._looking:  # one at a time: each counts the memory that those before it have taken
            infos = await self._infos()
            if found := self._current(name):
                return found
            offer = self._offer(name, infos)
            if offer.refusal or (offer.fetches and not fetch):
                return EngineHolder.refusing(name, UnavailableError(offer.refusal or offer.info.reason))
            victims = self._to_close(name, infos)
            if victims is None:
                busy = f"{name} needs the memory of a model that others are using; try again in a minute."
                return EngineHolder.refusing(name, NotReadyError(busy))
            for old in victims:
                del self._holders[old.name]
            holder = self._holders[name] = self._holder(name, offer.fetches)
            holder.start(after=[old.close() for old in victims])
            return holder

    async def offers(self) -> list[Offer]:
        """All offered models, in order."""
        infos = await self._infos()
        return [self._offer(name, infos) for name in self.names]

    def _current(self, name: str) -> EngineHolder | None:
        found = self._holders.get(name)
        again = found is not self.main and found is not None and found.state is State.FAILED and found.idle_s > RETRY_S
        return None if again else found

    async def _infos(self) -> dict[str, ModelInfo]:
        found = await asyncio.to_thread(self._look, list(self._names.values()))
        return dict(zip(self._names, found, strict=True))

    def _holder(self, name: str, fetch: bool = False) -> EngineHolder:
        def load() -> Engine:
            if fetch and self._fetch is not None:
                holder.begin("Fetching")
                self._fetch(self._names[name], holder.report)
            holder.begin("Loading")
            return self._load(self._names[name], holder.report)

        holder = EngineHolder(load, name)
        return holder

    def _offer(self, name: str, infos: dict[str, ModelInfo]) -> Offer:
        info, found = infos[name], self._holders.get(name)
        if found is not None and found.state is not State.FAILED:
            return Offer(info, found.state)
        state = None if found is None else found.state
        if not info.fits or (info.reason and not self._may_fetch(info)):
            return Offer(info, state, info.reason)
        if name != self.main.name and self._over(infos, self.main.name, name) > 0:
            return Offer(
                info,
                state,
                f"{name} does not fit into this machine's memory beside {self.main.name}, which stays loaded.",
            )
        return Offer(info, state, "", not info.on_disk)

    def _may_fetch(self, info: ModelInfo) -> bool:
        return self._fetch is not None and info.fetchable and not info.on_disk

    def _over(self, infos: dict[str, ModelInfo], *names: str) -> int:
        """How many bytes these models together need too much. Where the memory is not known, the main one and one more
        are taken to fit."""
        needed = sum(infos[name].needed_bytes for name in names)
        memory = self._memory()
        return needed - memory if memory is not None else len(names) - 2

    def _to_close(self, name: str, infos: dict[str, ModelInfo]) -> list[EngineHolder] | None:
        """What has to be closed before the model fits, the longest idle first; None if too much of it is in use."""
        kept = [holder for holder in self.loaded() if holder.name != name]
        victims = [holder for holder in self.loaded() if holder.name == name]  # its failed one
        idle = sorted((one for one in kept if self._closable(one)), key=lambda one: one.idle_s)
        while self._over(infos, *(one.name for one in kept), name) > 0:
            if not idle:
                return None
            victims.append(idle.pop())
            kept.remove(victims[-1])
        return victims

    def _closable(self, holder: EngineHolder) -> bool:
        if holder is self.main or holder.in_use or holder.state is State.STARTING:
            return False
        return holder.state is State.FAILED or holder.idle_s >= KEEP_S
