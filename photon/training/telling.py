"""What the lexical path says of a photograph, put into the place of what it says of a drawing.

The frozen classifier recognises photographs and hardly ever drawings: of things that cover 15 to 40 cells of a scene,
half get no weight at all for their own name. Trained on that alone, a decoder learns that the path is silent, and
answers photographs by silence. So some pictures are told: the names of their things stand in the cells that show them,
patchy and blurred, beside weaker ones of the same kind, as the classifier doubts.

Most names of the classifier belong to no drawing at all. For them some strange pictures, whose learned half knows
little of what is there, are renamed: their things get names out of all that the classifier has, and are told by these.
"""

from __future__ import annotations

import cv2
import numpy as np

from photon.training.data.lexicon import Lexicon

STRANGE, MIXED = 0.2, (0.3, 1.0)
"""Share of the pictures whose learned half sees another picture as well, and how much of it."""

RENAMED = 0.6
"""Share of the strange and of the dressed ones that are renamed."""

RECOGNISED = 0.85
"""Share of a told picture's things whose names stand in it."""

SURE, DOUBTED = (0.65, 1.0), (0.35, 0.8)
"""Weights of a thing's own name where it is seen best, and of names of the same kind."""

KIN = 12
"""How far apart in ImageNet's order, which follows the kinds of things, two classes of one kind may stand."""

SPREAD, PATCHES = 0.45, 0.3
"""What a cell of distance costs the weight, and the standard deviation of its unevenness."""


Scene = dict[str, np.ndarray]
"""The arrays of one cached scene (see `features`)."""


class Teller:
    """Tells a share of the pictures; `lexicon` knows which names the classifier has classes for."""

    def __init__(self, lexicon: Lexicon, share: float) -> None:
        self.share = share
        self._classes = lexicon.classes
        self._named = {number: name for name, numbers in enumerate(lexicon.classes) for number in numbers}
        self._sayable = [name for name, numbers in enumerate(lexicon.classes) if numbers]

    def tell_some(self, scenes: list[Scene], rng: np.random.Generator) -> tuple[list[Scene], np.ndarray]:
        """Scenes, `share` of the usual ones told and all dressed ones (see `dressing`), and f32[scenes]: how much of
        another picture each one's learned half sees."""
        told: list[Scene] = []
        strange = np.zeros(len(scenes), np.float32)
        for number, scene in enumerate(scenes):
            chance = rng.random()
            if scene["dressed"]:
                scene = self.tell(self.rename(scene, rng) if chance < RENAMED else scene, rng, recognised=1.0)
            elif chance < min(STRANGE * RENAMED, self.share):
                scene = self.tell(self.rename(scene, rng), rng, recognised=1.0)
            elif chance < self.share:
                scene = self.tell(scene, rng)
            if chance < STRANGE and not scene["dressed"]:
                strange[number] = rng.uniform(*MIXED)
            told.append(scene)
        return told, strange

    def rename(self, scene: Scene, rng: np.random.Generator) -> Scene:
        """The scene with another name for each of its names."""
        given = {name: name if name < 0 else rng.choice(self._sayable) for name in set(scene["names"].tolist())}
        return {**scene, "names": np.array([given[name] for name in scene["names"].tolist()], scene["names"].dtype)}

    def tell(self, scene: Scene, rng: np.random.Generator, recognised: float = RECOGNISED) -> Scene:
        """The scene (see `features`) with other word_index [cells, k] and word_weight uint8 [cells, k]."""
        index, weight = scene["word_index"].copy(), scene["word_weight"].copy()
        slot = index.shape[1]
        for number, name in enumerate(scene["names"]):
            shows = scene["cells"] == number
            if name < 0 or not self._classes[name] or not shows.any() or rng.random() > recognised:
                continue
            for word, peak in ((int(name), rng.uniform(*SURE)), (self._kin(int(name), rng), rng.uniform(*DOUBTED))):
                slot = slot - 1 if slot > index.shape[1] // 2 else index.shape[1] - 1
                _write(index, weight, slot, word, _field(shows, peak, rng))
        return {**scene, "word_index": index, "word_weight": weight}

    def _kin(self, name: int, rng: np.random.Generator) -> int:
        """A name near `name` in ImageNet's order."""
        near = int(rng.choice(self._classes[name])) + int(rng.integers(-KIN, KIN + 1))
        return self._named.get(near, name)


def _field(shows: np.ndarray, peak: float, rng: np.random.Generator) -> np.ndarray:
    """uint8[cells]: the weight of a word, `peak` at the best of the cells bool[cells] that show its thing."""
    side = round(len(shows) ** 0.5)
    away = cv2.distanceTransform((~shows).astype(np.uint8).reshape(side, side), cv2.DIST_L2, 3)
    patches = cv2.resize(rng.normal(0, PATCHES, (4, 4)), (side, side), interpolation=cv2.INTER_LINEAR)
    values = (-SPREAD * away - np.abs(patches)).ravel()
    field = np.clip(peak + values - values[shows].max(), 0, 1)
    return np.asarray(np.round(255 * field).astype(np.uint8))


def _write(index: np.ndarray, weight: np.ndarray, slot: int, word: int, field: np.ndarray) -> None:
    """Where `field` exceeds what a cell gives to `word`, that word gets it, in a slot of its own or in `slot`."""
    known = index == word
    better = field > (weight * known).max(1)
    weight[known & better[:, None]] = 0
    index[better, slot], weight[better, slot] = word, field[better]
