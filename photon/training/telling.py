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

STRANGE, MIXED, HIDDEN = 0.2, (0.3, 1.0), (0.6, 1.0)
"""Share of the pictures whose learned half sees another picture as well; how much of it, and how much where the
picture is renamed."""

RENAMED = 0.6
"""Share of the strange and of the dressed ones in which every thing is renamed. In the others only those are whose
names the classifier has no class for: nothing could tell what they are."""

SURELY = 90
"""The weight, of 255, from which on the lexical path believes in a word."""

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
    """Tells a share of the pictures, and gives names where `renames`; `lexicon` knows the classifier's classes."""

    def __init__(self, lexicon: Lexicon, share: float, renames: bool = False) -> None:
        self.share, self.renames = share, renames
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
            odd = chance < STRANGE and not scene["dressed"]
            everything = rng.random() < RENAMED
            if odd:
                strange[number] = rng.uniform(*(HIDDEN if self.renames and everything else MIXED))
            if self.renames and (scene["dressed"] or (odd and chance < self.share)):
                scene = self.tell(self.rename(scene, rng, everything), rng, recognised=1.0)
            elif scene["dressed"] or chance < self.share:
                scene = self.tell(scene, rng)
            told.append(scene)
        return told, strange

    def rename(self, scene: Scene, rng: np.random.Generator, everything: bool = True) -> Scene:
        """The scene with another name for each of its names, or for each that cannot be told.

        What the picture may still be taken for, by the old names or by what the classifier believes to see, becomes
        doubtful. A thing without a cell, where nothing can be told, loses its name.
        """
        old = set(scene["names"].tolist()) - {-1}
        given = {name: self._another(name, rng) if everything or not self._classes[name] else name for name in old}
        new = [
            given[name] if name >= 0 and (scene["cells"] == i).any() else -1
            for i, name in enumerate(scene["names"].tolist())
        ]
        gone = np.array([name for name in old if given[name] != name], np.int64)
        weight = np.where(np.isin(scene["word_index"], gone), 0, scene["word_weight"]).astype(np.uint8)
        believed = scene["word_index"][weight > SURELY]
        doubtful = np.setdiff1d(np.concatenate([scene["doubtful"], gone, believed]), new)
        return {**scene, "names": np.array(new, scene["names"].dtype), "word_weight": weight, "doubtful": doubtful}

    def _another(self, name: int, rng: np.random.Generator) -> int:
        """Any other name that has classes."""
        while (drawn := int(rng.choice(self._sayable))) == name:
            pass
        return drawn

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
