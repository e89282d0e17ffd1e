"""A small detector of the eighty kinds of things of COCO, beside the bundled model's vision tower.

NanoDet-g (RangiLyu, 2020): a CSP network of plain convolutions, features of strides 8, 16 and 32 joined from the top
down and back up, and a head for each of the three that gives eighty scores and a box at every position. What it
believes is read out per stride-32 cell, so that it joins the tower's other features (`Beliefs`). Batch norms are
folded into the convolutions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_CLASSES = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, stop sign, "
    "parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, backpack, umbrella, "
    "handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard, "
    "surfboard, tennis racket, bottle, wine glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange, "
    "broccoli, carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop, "
    "mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, "
    "teddy bear, hair drier, toothbrush"
)
CLASSES = tuple(_CLASSES.split(", "))
"""The kinds of things, in the order of the head's scores."""

WIDTH, BINS, STRIDES = 128, 11, (8, 16, 32)
BOX = 4 + 1
"""A candidate's box (centre, and log2 of the size, as shares of the picture) and its best score before the sigmoid."""

SMALLEST = 2.0**-7
"""Sizes below it, as shares of the picture, count as it."""

BOXES = BOX * (1 + 1 + 4)
BELIEFS = BOXES + len(CLASSES) + WIDTH
"""Values per cell: the boxes of the best of its 21 candidates, of the stride-32 one and of the four stride-16 ones
(`BOXES` values), then the best score of each class before the sigmoid and the stride-32 features."""


class Beliefs(NamedTuple):
    """What the detector says of each stride-32 cell: features [n, cells, BELIEFS], scores f32[n, cells, 80] in 0..1."""

    features: Tensor
    scores: Tensor


class NanoDet(nn.Module):
    """Pixels to what is believed of each stride-32 cell."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 32, stride=2)
        self.stages = nn.ModuleList([_Csp(32, 1, 1), _Csp(64, 2, 2), _Csp(128, 2, 2), _Csp(256, 3, 2)])
        self.laterals = nn.ModuleList(nn.Conv2d(width, WIDTH, 1) for width in (128, 256, 512))
        self.hidden = nn.ModuleList(_conv(WIDTH, WIDTH) for _ in STRIDES)
        self.heads = nn.ModuleList(nn.Conv2d(WIDTH, len(CLASSES) + 4 * BINS, 1) for _ in STRIDES)

    def forward(self, pixels: Tensor) -> Beliefs:
        """Pixels [n, 3, c, c], normalised as for ImageNet; c must be a multiple of 32. Cells are row-major."""
        blue_first = pixels.flip(1)
        x = F.max_pool2d(_leaky(self.stem(blue_first)), 3, 2, 1)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        joined = self._join([lateral(m) for lateral, m in zip(self.laterals, maps[1:], strict=True)])
        heads = zip(joined, self.hidden, self.heads, STRIDES, strict=True)
        found = [_candidates(head(_leaky(hidden(m))).float(), stride) for m, hidden, head, stride in heads]
        return _by_cell(found, joined[-1])

    def _join(self, maps: list[Tensor]) -> list[Tensor]:
        """Adds to each stride what the coarser ones see, then what the finer ones see."""
        fine, middle, coarse = maps
        middle = middle + _resized(coarse, 2.0)
        fine = fine + _resized(middle, 2.0)
        middle = middle + _resized(fine, 0.5)
        return [fine, middle, coarse + _resized(middle, 0.5)]


class _Csp(nn.Module):
    """Residual blocks that concatenate: the first takes half of the width, and the input goes past all of them."""

    def __init__(self, width: int, blocks: int, stride: int) -> None:
        super().__init__()
        self.enter = _conv(width, width, stride)
        half = width // 2
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"narrow": _conv(width, half), "inner": _conv(half, half)}) for _ in range(blocks)
        )
        self.leave = _conv(width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = entered = _leaky(self.enter(x))
        for block in self.blocks:
            assert isinstance(block, nn.ModuleDict)
            narrowed = _leaky(block["narrow"](x))
            x = torch.cat([_leaky(block["inner"](narrowed)), narrowed], dim=1)
        return torch.cat([_leaky(self.leave(x)), entered], dim=1)


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1)


def _leaky(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.1, inplace=True)


def _resized(x: Tensor, by: float) -> Tensor:
    return F.interpolate(x, scale_factor=by, mode="bilinear", align_corners=False)


def _candidates(out: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """A head's output f32[n, 124, h, w] -> score logits [n, 80, h, w] and `BOX` values [n, BOX, h, w].

    The distance to each side is the mean of a distribution over 0 to 10 strides (Generalized Focal Loss, section 3).
    Centres are told from the middle of the stride-32 cell, in shares of the picture.
    """
    scores, bins = out[:, : len(CLASSES)], out[:, len(CLASSES) :].unflatten(1, (4, BINS)).softmax(2)
    reach = (bins * torch.arange(BINS, device=out.device).view(-1, 1, 1)).sum(2)
    left, top, right, bottom = reach.unbind(1)
    height, width = out.shape[-2:]
    centres = [
        _aside(width, stride, out) + (right - left) / 2,
        _aside(height, stride, out)[:, None] + (bottom - top) / 2,
    ]
    sizes = [(left + right) / width, (top + bottom) / height]
    box = [centres[0] / width, centres[1] / height, *(size.clamp_min(SMALLEST).log2() for size in sizes)]
    return scores, torch.stack([*box, scores.amax(1)], dim=1)


def _aside(count: int, stride: int, like: Tensor) -> Tensor:
    """How far the middles of `count` positions lie from those of their stride-32 cells, in strides."""
    each = STRIDES[-1] // stride
    return torch.arange(count, device=like.device) % each + 0.5 - each / 2


def _by_cell(found: list[tuple[Tensor, Tensor]], coarse: Tensor) -> Beliefs:
    """What the candidates of all strides say, gathered by stride-32 cell; `coarse`: the stride-32 features."""
    side = coarse.shape[-1]
    boxes = [F.pixel_unshuffle(box, box.shape[-1] // side).unflatten(1, (BOX, -1)) for _, box in found]
    every = torch.cat(boxes, dim=2)
    best = every[:, -1:].argmax(2, keepdim=True).expand(-1, BOX, 1, -1, -1)
    scores = torch.stack([F.max_pool2d(score, score.shape[-1] // side) for score, _ in found]).amax(0)
    chosen = [every.gather(2, best), boxes[2], boxes[1]]
    features = torch.cat([*(box.flatten(1, 2) for box in chosen), scores, coarse.float()], dim=1)
    return Beliefs(features.flatten(2).transpose(1, 2), scores.flatten(2).transpose(1, 2).sigmoid())
