"""Scenes: cut-outs pasted on backgrounds, with exact ground truth of what stays visible.

Four kinds: ordinary ones, dense ones of many small things, ones of one or two big things (real objects are large),
and photographs without any named thing. A seed fixes a scene completely.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import cv2
import numpy as np

from photon.training.data.backgrounds import Background, crop, shifted, texture
from photon.training.data.dressing import dress
from photon.training.data.geometry import box_of, contour_of, point_of
from photon.training.data.store import CutoutStore

T = TypeVar("T")

SIDE = 384
KINDS = ("ordinary", "dense", "big", "empty")
SHARES = (0.42, 0.23, 0.27, 0.08)
MOST_OBJECTS = 16


@dataclass
class SceneObject:
    """One visible thing. mask: bool [height, width] of its visible pixels; the rest in 0..1 (see `geometry`)."""

    name: str
    mask: np.ndarray
    box: np.ndarray
    point: np.ndarray
    contour: np.ndarray


@dataclass
class Scene:
    """image: uint8 [height, width, 3]; `doubtful`: names that may or may not be there and must not be asked for."""

    image: np.ndarray
    objects: list[SceneObject]
    doubtful: set[str]
    background: str


@dataclass
class Library:
    """What scenes are made of: names with their (store, index) pairs, drawings and real-looking apart.

    textures: whether some scenes lie on made-up surfaces; dressed: whether named things are (see `dressing`).
    """

    backgrounds: list[Background]
    drawings: dict[str, list[tuple[CutoutStore, int]]] = field(default_factory=dict)
    real: dict[str, list[tuple[CutoutStore, int]]] = field(default_factory=dict)
    unnamed: list[tuple[CutoutStore, int]] = field(default_factory=list)
    textures: bool = True
    dressed: bool = False

    @property
    def names(self) -> list[str]:
        return sorted(set(self.drawings) | set(self.real))

    def draw(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """A cut-out of `name`, real-looking ones as often as drawings where both exist."""
        pools = [pool for pool in (self.drawings.get(name), self.real.get(name)) if pool]
        store, index = _pick(pools[int(rng.integers(len(pools)))], rng)
        pixels = store.pixels(index)
        return dress(pixels, _pick(self.backgrounds, rng).pixels, rng) if self.dressed else pixels


class Canvas:
    """The picture as it grows; `owner` says which pasted thing shows at each pixel (-1: background)."""

    def __init__(self, image: np.ndarray) -> None:
        self.image = image
        self.owner: np.ndarray = np.full(image.shape[:2], -1, np.int16)
        self.areas: np.ndarray = np.zeros(0, np.int64)
        self.visible: np.ndarray = np.zeros(0, np.int64)

    def paste(self, cutout: np.ndarray, left: int, top: int, most_hidden: float) -> bool:
        """Pastes RGBA at a corner that may lie outside; refused where an earlier thing would lose too much."""
        height, width = cutout.shape[:2]
        rows, columns = self.owner.shape
        x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + width, columns), min(top + height, rows)
        if x1 - x0 < 8 or y1 - y0 < 8:
            return False
        part = cutout[y0 - top : y1 - top, x0 - left : x1 - left]
        solid = part[..., 3] > 127
        under = self.owner[y0:y1, x0:x1]
        hidden = np.bincount(under[solid & (under >= 0)], minlength=len(self.areas))
        if (self.areas - (self.visible - hidden) > most_hidden * self.areas)[hidden > 0].any():
            return False
        alpha = part[..., 3:].astype(np.float32) / 255
        window = self.image[y0:y1, x0:x1]
        window[:] = (window * (1 - alpha) + part[..., :3] * alpha + 0.5).astype(np.uint8)
        under[solid] = len(self.areas)
        self.areas = np.append(self.areas, solid.sum())
        self.visible = np.append(self.visible - hidden, solid.sum())
        return True


def compose(library: Library, seed: int, kind: str | None = None, shape: tuple[int, int] = (SIDE, SIDE)) -> Scene:
    """The scene of `seed`; `kind` is drawn by `SHARES` when None; `shape`: (height, width) in pixels."""
    rng = np.random.default_rng(seed)
    kind = kind or str(rng.choice(KINDS, p=SHARES))
    background = _pick(library.backgrounds, rng)
    plain = library.textures and kind != "empty" and rng.random() < 0.25
    canvas = Canvas(texture(rng, SIDE) if plain else crop(background.pixels, rng, shape))
    doubtful = set() if plain else set(background.shows)
    stretch = float(np.exp(rng.uniform(-0.3, 0.3)))
    pasted: list[str | None] = []
    for name, size in _plan(library, kind, rng):
        pixels = library.draw(name, rng) if name else _unnamed(library, rng)
        if pixels is not None and _place(canvas, pixels, size * min(shape) / SIDE, stretch, kind, rng):
            pasted.append(name)
    objects = []
    for index, name in enumerate(pasted):
        if name is None:
            continue
        mask = canvas.owner == index
        if mask.sum() >= max(60, 0.5 * canvas.areas[index]):
            objects.append(SceneObject(name, mask, box_of(mask), point_of(mask), contour_of(mask)))
        else:
            doubtful.add(name)
    objects.sort(key=lambda thing: (thing.box[0] + thing.box[2], thing.box[1]))
    image = _finish(canvas.image, rng)
    return Scene(
        image, [o for o in objects if o.name not in doubtful], doubtful, "texture" if plain else background.name
    )


def _plan(library: Library, kind: str, rng: np.random.Generator) -> list[tuple[str | None, float]]:
    """(name or None for an unnamed thing, size in pixels) of all things to paste, later ones on top."""
    names = library.names
    if kind == "empty":
        return [(None, rng.uniform(40, 200)) for _ in range(rng.integers(0, 3))]
    count = {"ordinary": rng.integers(1, 8), "dense": rng.integers(9, 17), "big": rng.integers(1, 3)}[kind]
    low, high = {"ordinary": (48, 260), "dense": (40, 100), "big": (130, 370)}[kind]
    plan: list[tuple[str | None, float]] = []
    while len(plan) < count:
        name = str(names[rng.integers(len(names))])
        repeats = int(rng.integers(2, 5)) if kind != "big" and rng.random() < 0.22 else 1
        plan += [(name, _size(low, high, rng)) for _ in range(repeats)]
    plan = plan[:MOST_OBJECTS]
    if rng.random() < 0.3:
        plan += [(None, _size(40, 160, rng)) for _ in range(rng.integers(1, 4))]
    rng.shuffle(plan)  # type: ignore[arg-type]
    return plan


def _size(low: float, high: float, rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _unnamed(library: Library, rng: np.random.Generator) -> np.ndarray | None:
    if not library.unnamed:
        return None
    store, index = _pick(library.unnamed, rng)
    return store.pixels(index)


def _place(
    canvas: Canvas, pixels: np.ndarray, size: float, stretch: float, kind: str, rng: np.random.Generator
) -> bool:
    """Varies a cut-out and pastes it at a free place; gives up after a few tries."""
    cutout = _varied(pixels, size, stretch, rng)
    height, width = cutout.shape[:2]
    rows, columns = canvas.owner.shape
    over = 0.3 if kind == "big" else 0.12 if rng.random() < 0.2 else 0.0
    for _ in range(8):
        left = int(rng.uniform(-over * width, max(columns - width * (1 - over), 1 - over * width)))
        top = int(rng.uniform(-over * height, max(rows - height * (1 - over), 1 - over * height)))
        if canvas.paste(cutout, left, top, most_hidden=0.3):
            return True
    return False


def _varied(pixels: np.ndarray, size: float, stretch: float, rng: np.random.Generator) -> np.ndarray:
    """A cut-out mirrored, scaled to `size` (longer side), turned a little, its colours shifted."""
    height, width = pixels.shape[:2]
    scale = size / max(height / stretch, width * stretch)
    target = (max(12, round(width * stretch * scale)), max(12, round(height / stretch * scale)))
    filtering = cv2.INTER_AREA if target[0] < width else cv2.INTER_LINEAR
    cutout = cv2.resize(pixels, target, interpolation=filtering)
    if rng.random() < 0.5:
        cutout = cutout[:, ::-1]
    if rng.random() < 0.35:
        cutout = _turned(cutout, float(rng.normal(0, 14)))
    rgb = shifted(cutout[..., :3], rng, 0.2)
    return np.dstack([rgb, cutout[..., 3]])


def _turned(cutout: np.ndarray, degrees: float) -> np.ndarray:
    height, width = cutout.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0)
    cos, sin = abs(matrix[0, 0]), abs(matrix[0, 1])
    full = (int(height * sin + width * cos) + 1, int(height * cos + width * sin) + 1)
    matrix[:, 2] += [full[0] / 2 - width / 2, full[1] / 2 - height / 2]
    return np.asarray(cv2.warpAffine(np.ascontiguousarray(cutout), matrix, full, flags=cv2.INTER_LINEAR))


def _finish(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sometimes blur, noise or JPEG damage, and a shift of all colours."""
    if rng.random() < 0.2:
        image = cv2.GaussianBlur(image, (0, 0), rng.uniform(0.5, 1.5))
    if rng.random() < 0.2:
        noise = rng.normal(0, rng.uniform(2, 10), image.shape)
        image = np.clip(image + noise, 0, 255).astype(np.uint8)
    if rng.random() < 0.3:
        quality = int(rng.integers(30, 90))
        packed = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
        image = np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR))
    return shifted(image, rng, 0.1)


def _pick(items: list[T], rng: np.random.Generator) -> T:
    return items[int(rng.integers(len(items)))]
