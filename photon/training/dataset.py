"""Batches for training: cached scenes with the questions asked about them, packed behind one image prefix."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from photon.models.moondream.config import MoondreamConfig, TokenizerConfig
from photon.training.data.lexicon import Lexicon
from photon.training.data.names import INCLUDES
from photon.training.features import STEP
from photon.training.telling import SURELY, Teller

MOST_ANSWERS = 10
NO_QUERY = -1
Value = float | np.ndarray
"""A coordinate, or a size (width and height)."""

SLIP = 0.05
"""How far the values that are fed lie from the truth, as a share of their box: those of an answer slip as well."""

BELIEVED = 0.25
"""Share of the absent names that the lexical path believes in. With half of them decoders learn to distrust it, and
photographs, of which the rest of a token knows little, are then answered by silence."""

UNTAUGHT = 0.2
"""Share of the other absent names that may be any that the lexical path knows."""


@dataclass
class Batch:
    """Tensors of B scenes and their packed questions of `length` tokens, on one device.

    ids, coords, sizes: what each packed token is. query: which question it belongs to (-1: padding); step: its
    place in it. A target is -1 where nothing is asked: stop (0 or 1), x/y (`coord_target`, 0..1), `size_target` and
    `look` (the scene's thing that they are about) belong to the token whose hidden state must give them. strange:
    how much of another picture each picture's learned half sees (see `losses.image_tokens`).
    """

    features: Tensor
    word_index: Tensor
    word_weight: Tensor
    cells: Tensor
    names: Tensor
    boxes: Tensor
    points: Tensor
    contours: Tensor
    ids: Tensor
    coords: Tensor
    sizes: Tensor
    query: Tensor
    step: Tensor
    stop: Tensor
    coord_target: Tensor
    size_target: Tensor
    look: Tensor
    strange: Tensor

    def to(self, device: torch.device) -> Batch:
        return Batch(*(getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)))


class Scenes:
    """All finished shards of some splits, memory-mapped; indexable by scene number."""

    ARRAYS = (
        "features",
        "word_index",
        "word_weight",
        "names",
        "boxes",
        "points",
        "contours",
        "cells",
        "doubtful",
    )

    def __init__(self, folder: Path, *splits: str) -> None:
        self._shards: list[dict[str, np.ndarray]] = []
        self._dressed: list[bool] = []
        for split in splits:
            shards = sorted(folder.glob(f"{split}-*"))
            if not shards:
                raise FileNotFoundError(f"There are no shards of {split} scenes in {folder}.")
            self._dressed += [split == "dressed"] * len(shards)
            self._shards += [
                {name: np.load(shard / f"{name}.npy", mmap_mode="r") for name in self.ARRAYS} for shard in shards
            ]
        self._each = len(self._shards[0]["names"])

    def __len__(self) -> int:
        return self._each * len(self._shards)

    def scene(self, index: int) -> dict[str, np.ndarray]:
        """The arrays of one scene (see `features`), and `dressed`: bool[]."""
        shard, row = divmod(index, self._each)
        arrays = {name: array[row] for name, array in self._shards[shard].items()}
        return {**arrays, "dressed": np.array(self._dressed[shard])}


@dataclass
class Mix:
    """What is asked: shares of absent names and of segment questions, packed tokens a scene, questions a scene."""

    absent: float = 0.3
    segment: float = 0.0
    length: int = 80
    questions: int = 8


class Asker:
    """Makes the questions of a scene and their answers."""

    def __init__(self, config: MoondreamConfig, lexicon: Lexicon, mix: Mix) -> None:
        self.tokens, self.mix, self.taught = config.tokenizer, mix, lexicon.taught
        self.first = config.text.vocab_size - config.vision.options["words"]
        index = {name: number for number, name in enumerate(lexicon.names)}
        self.answers_to = {
            number: {number, *(index[other] for other in INCLUDES.get(name, ()) if other in index)}
            for name, number in index.items()
        }
        self._asked_for: dict[int, set[int]] = {number: set() for number in self.answers_to}
        for number, kinds in self.answers_to.items():
            for kind in kinds:
                self._asked_for[kind].add(number)

    def ask(self, scene: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Packed questions of one scene: the per-token arrays of `Batch`, each of `mix.length`."""
        packed = _Packed(self.mix.length, self.tokens, rng)
        shown = [int(name) for name in scene["names"] if name >= 0]
        present = self._present(shown, scene)
        rng.shuffle(present)
        absent = self.absent(shown, scene, rng)
        for number in range(self.mix.questions):
            if present and rng.random() < self.mix.segment:
                self._segment(packed, present[number % len(present)], scene, rng)
            elif absent and (not present or rng.random() < self.mix.absent):
                self._list(packed, absent.pop(), scene, rng)
            elif present:
                self._list(packed, present[number % len(present)], scene, rng)
        return packed.arrays

    def _present(self, shown: list[int], scene: dict[str, np.ndarray]) -> list[int]:
        doubtful = set(scene["doubtful"].tolist())
        names = set().union(*(self._asked_for[thing] for thing in shown))
        return sorted(name for name in names if not self.answers_to[name] & doubtful)

    def absent(self, shown: list[int], scene: dict[str, np.ndarray], rng: np.random.Generator) -> list[int]:
        """Names that nothing here answers to, `BELIEVED` of them words that the lexical path believes in where things
        are. What it believes in elsewhere may well be there, in the photograph behind them, and is not asked for."""
        likely, behind = scene["word_weight"] > SURELY, _behind(scene["cells"])
        barred = {*shown, *scene["doubtful"].tolist(), *scene["word_index"][behind][likely[behind]].tolist()}
        wrong = scene["word_index"][~behind][likely[~behind]]
        wrong = wrong[wrong < self.taught]
        believed = rng.permutation(wrong)[:16].tolist() if wrong.size else []
        drawn = np.where(
            rng.random(16) < UNTAUGHT, rng.integers(len(self.answers_to), size=16), rng.integers(self.taught, size=16)
        )
        mixed = [believed.pop() if believed and rng.random() < BELIEVED else int(name) for name in drawn]
        return [name for name in mixed if not self.answers_to[name] & barred]

    def _list(self, packed: _Packed, name: int, scene: dict[str, np.ndarray], rng: np.random.Generator) -> None:
        skill = "point" if rng.random() < 0.5 else "detect"
        chosen = np.flatnonzero(np.isin(scene["names"], list(self.answers_to[name])))
        boxes = scene["boxes"][chosen]
        centres = scene["points"][chosen] if skill == "point" else (boxes[:, :2] + boxes[:, 2:]) / 2
        sizes = boxes[:, 2:] - boxes[:, :2]
        order = np.lexsort((centres[:, 1], centres[:, 0]))
        if len(order) <= MOST_ANSWERS:
            packed.add_list(self._prompt(skill, name), skill, centres[order], sizes[order], chosen[order])

    def _segment(self, packed: _Packed, name: int, scene: dict[str, np.ndarray], rng: np.random.Generator) -> None:
        chosen = np.flatnonzero(np.isin(scene["names"], list(self.answers_to[name])))
        row = int(rng.choice(chosen))
        box = scene["boxes"][row]
        centre, size = (box[:2] + box[2:]) / 2, box[2:] - box[:2]
        reference = np.clip(centre + rng.normal(0, 0.06, 2) * size, 0, 1)
        contour = np.clip((scene["contours"][row] - box[:2]) / size, 0, 1)
        packed.add_segment(self._prompt("segment", name), reference, (centre, size), contour, row)

    def _prompt(self, skill: str, name: int) -> tuple[list[int], list[int]]:
        """(prefix, object and suffix): spatial references go between."""
        template = self.tokens.templates[skill]
        return template["prefix"], [self.first + name, *template["suffix"]]


def _behind(cells: np.ndarray) -> np.ndarray:
    """bool[cells]: where nothing but the background shows, nor in a neighbour."""
    side = round(len(cells) ** 0.5)
    shows = (cells >= 0).astype(np.uint8).reshape(side, side)
    return np.asarray(cv2.dilate(shows, np.ones((3, 3), np.uint8)) == 0).ravel()


class _Packed:
    """Questions of one scene, laid one after another; one that does not fit is left out."""

    def __init__(self, length: int, tokens: TokenizerConfig, rng: np.random.Generator) -> None:
        self.tokens, self.length, self.used, self.count, self.rng = tokens, length, 0, 0, rng
        self.arrays: dict[str, np.ndarray] = {
            "ids": np.zeros(length, np.int64),
            "coords": np.zeros(length, np.float32),
            "sizes": np.zeros((length, 2), np.float32),
            "query": np.full(length, NO_QUERY, np.int64),
            "step": np.zeros(length, np.int64),
            "stop": np.full(length, -1, np.int64),
            "coord_target": np.full(length, -1, np.float32),
            "size_target": np.full((length, 2), -1, np.float32),
            "look": np.full(length, -1, np.int64),
        }

    def add_list(
        self,
        prompt: tuple[list[int], list[int]],
        skill: str,
        centres: np.ndarray,
        sizes: np.ndarray,
        things: np.ndarray,
    ) -> None:
        values: list[Value] = []
        fed: list[Value] = []
        kept = 3 if skill == "detect" else 2
        for centre, size in zip(centres, sizes, strict=True):
            values += [float(centre[0]), float(centre[1]), size][:kept]
            fed += self._slipped(centre, size)[:kept]
        starts = range(0, len(values) + 1, kept)
        self._add(prompt[0] + prompt[1], [], values, fed, set(starts), np.repeat(things, kept))

    def add_segment(
        self,
        prompt: tuple[list[int], list[int]],
        reference: np.ndarray,
        box: tuple[np.ndarray, np.ndarray],
        contour: np.ndarray,
        thing: int,
    ) -> None:
        """`box`: centre and size; `contour`: vertices in 0..1 of the box."""
        centre, size = box
        values: list[Value] = [float(centre[0]), float(centre[1]), size, *map(float, contour.ravel())]
        aside = self.rng.normal(0, SLIP, 2) + self.rng.normal(0, SLIP, contour.shape)
        fed = [*self._slipped(centre, size), *map(float, np.clip(contour + aside, 0, 1).ravel()[:-1])]
        coord = self.tokens.coord_id
        ids = [*prompt[0], coord, coord, *prompt[1]]
        places = [(len(prompt[0]) + axis, float(reference[axis])) for axis in (0, 1)]
        self._add(ids, places, values, fed, set(), np.full(len(values), thing))

    def _add(
        self,
        ids: list[int],
        references: list[tuple[int, float]],
        values: list[Value],
        fed: list[Value],
        decides: set[int],
        things: np.ndarray,
    ) -> None:
        """`fed` follow the prompt; the state before value i gives it, and stop or go where i is in `decides`."""
        total = len(ids) + len(fed)
        if self.used + total > self.length:
            return
        arrays, start = self.arrays, self.used
        arrays["ids"][start : start + len(ids)] = ids
        for place, coordinate in references:
            arrays["coords"][start + place] = coordinate
        for number, value in enumerate(fed):
            self._value(start + len(ids) + number, value)
        state = start + len(ids) - 1
        for number, value in enumerate(values):
            target = "size_target" if isinstance(value, np.ndarray) else "coord_target"
            arrays[target][state + number] = value
        arrays["look"][state : state + len(values)] = things
        for number in decides:
            arrays["stop"][state + number] = number == len(values)
        arrays["query"][start : start + total] = self.count
        arrays["step"][start : start + total] = np.arange(total)
        self.used, self.count = start + total, self.count + 1

    def _slipped(self, centre: np.ndarray, size: np.ndarray) -> list[Value]:
        """Centre and size of a box as they are fed."""
        x, y = np.clip(centre + self.rng.normal(0, SLIP, 2) * size, 0, 1)
        return [float(x), float(y), np.minimum(size * np.exp(self.rng.normal(0, SLIP, 2)), 1)]

    def _value(self, place: int, value: Value) -> None:
        is_size = isinstance(value, np.ndarray)
        self.arrays["ids"][place] = self.tokens.size_id if is_size else self.tokens.coord_id
        self.arrays["sizes" if is_size else "coords"][place] = value


def make_batch(
    scenes: Scenes, indices: np.ndarray, asker: Asker, rng: np.random.Generator, teller: Teller | None = None
) -> Batch:
    """The scenes `indices` with fresh questions; a `teller` tells some of them, and some are strange."""
    rows = [scenes.scene(int(index)) for index in indices]
    strange = np.zeros(len(rows), np.float32)
    if teller:
        rows, strange = teller.tell_some(rows, rng)
    packed = [asker.ask(row, rng) for row in rows]

    def stacked(source: list[dict[str, np.ndarray]], name: str) -> Tensor:
        return torch.from_numpy(np.stack([row[name] for row in source]))

    return Batch(
        features=stacked(rows, "features").float() / STEP,
        word_index=stacked(rows, "word_index").long(),
        word_weight=stacked(rows, "word_weight").float() / 255,
        cells=stacked(rows, "cells").long(),
        names=stacked(rows, "names").long(),
        boxes=stacked(rows, "boxes"),
        points=stacked(rows, "points"),
        contours=stacked(rows, "contours"),
        strange=torch.from_numpy(strange[:, None, None]),
        **{name: stacked(packed, name) for name in packed[0]},
    )
