"""The vision tower of the bundled model: EfficientNet-Lite0 with a lexical half.

The image is stretched to one crop of 384 x 384. Each stride-32 cell becomes one image token: the features of
strides 32, 16 and 8 that lie in it, projected to the decoder's width, plus a learned position, plus the embeddings
of the words that the network's own ImageNet classifier sees in that cell (the lexical path). The classifier needs the
network as it was; beside it a second copy of the last stages may adapt to what training shows. EfficientNet-Lite is
MobileNet-style inverted residuals with ReLU6 and no squeeze-and-excitation (Tan and Le, 2019); batch norms are
folded into the convolutions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from photon.models.moondream.config import VisionConfig
from photon.models.moondream.preprocess import check_image
from photon.models.moondream.text import DenseMlp
from photon.models.moondream.tower import Crops, Tower

STAGES = (
    # (expansion, kernel, stride, channels, blocks); the last block of stages 2, 4 and 6 is read out
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
STEM, HEAD, CLASSES = 32, 1280, 1000
READ_OUT = (2, 4, 6)
FINE, MIDDLE, COARSE = 40 * 16, 112 * 4, 320
FEATURES = FINE + MIDDLE + COARSE
"""Values per cell: strides 8 and 16 by space-to-depth, and stride 32."""

LAST = (5, 6)
"""The stages between strides 16 and 32, of which there may be an adapted copy."""

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class SameConv(nn.Conv2d):
    """A convolution that pads as TensorFlow's SAME does: a surplus pixel goes to the right and the bottom."""

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        total = max(kernel - stride, 0) if x.shape[-1] % stride == 0 else kernel - x.shape[-1] % stride
        before = total // 2
        if total % 2 == 0:
            return F.conv2d(x, self.weight, self.bias, self.stride, before, 1, self.groups)
        x = F.pad(x, (before, total - before, before, total - before))
        return F.conv2d(x, self.weight, self.bias, self.stride, 0, 1, self.groups)


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; added to the input where shapes allow."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = nn.Conv2d(inputs, inner, 1) if expansion > 1 else None
        self.depthwise = SameConv(inner, inner, kernel, stride, groups=inner)
        self.project = nn.Conv2d(inner, outputs, 1)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        inner = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        out: Tensor = self.project(F.relu6(self.depthwise(inner), inplace=True))
        return x + out if self.residual else out


class EfficientNetLite0(nn.Module):
    """Pixels to cell features and to the class log-probabilities of each stride-32 cell."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv(3, STEM, 3, 2)
        self.stages = nn.ModuleList(_stage(index) for index in range(len(STAGES)))
        self.head = nn.Conv2d(COARSE, HEAD, 1)
        self.classifier = nn.Linear(HEAD, CLASSES)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised pixels [n, 3, c, c] -> features [n, cells, FEATURES], log-probabilities f32[n, cells, 1000].

        Cells are row-major; c must be a multiple of 32.
        """
        x = F.relu6(self.stem(pixels), inplace=True)
        maps = []
        for index, stage in enumerate(self.stages):
            x = stage(x)
            if index in READ_OUT:
                maps.append(x)
        joined = [F.pixel_unshuffle(m, m.shape[-1] // x.shape[-1]) for m in maps]
        features = torch.cat(joined, dim=1).flatten(2).transpose(1, 2)
        scores = self.classifier(F.relu6(self.head(x), inplace=True).flatten(2).transpose(1, 2))
        return features, torch.log_softmax(scores.float(), dim=-1)


def _stage(number: int) -> nn.Sequential:
    """Stage `number` of `STAGES`."""
    expansion, kernel, stride, channels, count = STAGES[number]
    before = STAGES[number - 1][3] if number else STEM
    return nn.Sequential(
        *(
            InvertedResidual(channels if index else before, channels, expansion, kernel, 1 if index else stride)
            for index in range(count)
        )
    )


class Words(NamedTuple):
    """The likeliest words of each cell: which int64[n, cells, k], and their weight [n, cells, k] in 0..1."""

    which: Tensor
    weight: Tensor


class EfficientNetTower(Tower):
    """Options of `VisionConfig`: words (known names), word_table (pairs of word index and ImageNet class, as two
    lists), top_words (words kept a cell), lexical_floor (log-probability counted as nothing), lexical_scale and
    adapted (whether there is a second, adapted copy of the stages `LAST`, whose features join the others)."""

    feature_mean: Tensor
    feature_scale: Tensor
    word_table: Tensor

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        options, dim = config.options, config.proj_out_dim
        self.net = EfficientNetLite0()
        self.register_buffer("feature_mean", torch.zeros(FEATURES))
        self.register_buffer("feature_scale", torch.ones(FEATURES))
        self.word_embedding = nn.Parameter(torch.zeros(options["words"], dim))
        self.adapted = nn.Sequential(*map(_stage, LAST)) if options.get("adapted") else None
        inputs = FEATURES if self.adapted is None else FEATURES + COARSE
        self.proj_mlp = DenseMlp(inputs, config.proj_inner_dim, out=dim)
        self.proj_ln = nn.LayerNorm(dim)
        self.pos_emb = nn.Parameter(torch.zeros(config.n_tokens, dim))
        self._make_table(self.pos_emb.device)

    def preprocess(self, image: NDArray[np.uint8]) -> Crops:
        """uint8[H, W, 3] -> one crop, the whole image stretched to the crop's square."""
        check_image(image)
        side = self.config.crop_size
        shrinks = image.shape[0] >= side and image.shape[1] >= side
        filtering = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        square = cv2.resize(np.ascontiguousarray(image), (side, side), interpolation=filtering)
        return Crops(torch.from_numpy(np.ascontiguousarray(square.transpose(2, 0, 1))[None]), (1, 1))

    def forward(self, crops: list[Crops]) -> Tensor:
        pixels = torch.cat([c.pixels.to(self.pos_emb.device, non_blocking=True) for c in crops])
        features, log_p = self._look(normalised(pixels, self.pos_emb.dtype))
        standard = (features - self.feature_mean) * self.feature_scale
        return self.project(standard, self.words(log_p), self.word_embedding)

    def _look(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """The network over a batch; on a CPU picture by picture, since the activations of several leave its cache."""
        if pixels.device.type != "cpu" or len(pixels) == 1:
            seen: tuple[Tensor, Tensor] = self.net(pixels)
            return seen
        features, log_p = zip(*(self.net(one) for one in pixels.split(1)), strict=True)
        return torch.cat(features), torch.cat(log_p)

    def words(self, log_p: Tensor) -> Words:
        """log-probabilities [n, cells, 1000] -> the words kept.

        The weight of a word is clamp(log p + floor, 0, floor) / floor, where p sums the classes that the word
        table lists for it (docs/bundled-model.md "Lexical path").
        """
        floor, count = self.config.options["lexical_floor"], self.config.options["top_words"]
        word, imagenet_class = self.word_table
        p = log_p.new_zeros(*log_p.shape[:-1], self.config.options["words"])
        p = p.index_add(-1, word, log_p.exp()[..., imagenet_class])
        top = p.topk(count, dim=-1)
        weight = (top.values.clamp_min(math.exp(-floor)).log() + floor).clamp(0, floor) / floor
        return Words(top.indices, weight)

    def _make_table(self, device: torch.device) -> None:
        table = torch.tensor(self.config.options["word_table"], device=device)
        self.register_buffer("word_table", table, persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> EfficientNetTower:
        """Moves and casts; the word table is made anew, so that it holds numbers after `to_empty`."""
        super()._apply(fn, recurse)
        self._make_table(self.pos_emb.device)
        return self

    def project(self, features: Tensor, words: Words, embedding: Tensor) -> Tensor:
        """Standardised features [n, cells, FEATURES] and words -> image tokens [n, cells, F]."""
        return self.learned(features) + self.pos_emb + self.lexical(words, embedding)

    def learned(self, features: Tensor) -> Tensor:
        """The half of a token that training makes of the features [n, cells, FEATURES]."""
        if self.adapted is not None:
            features = torch.cat([features, self.adapt(self.adapted, features)], dim=-1)
        out: Tensor = self.proj_ln(self.proj_mlp(features))
        return out

    def adapt(self, stages: nn.Module, features: Tensor) -> Tensor:
        """What the adapted stages make of the stride-16 part of `features`, standardised: [n, cells, COARSE]."""
        middle, coarse = slice(FINE, FINE + MIDDLE), slice(FINE + MIDDLE, FEATURES)
        inputs = features[..., middle] / self.feature_scale[middle] + self.feature_mean[middle]
        side = math.isqrt(inputs.shape[1])
        inputs = inputs.transpose(1, 2).reshape(len(inputs), MIDDLE, side, side)
        seen: Tensor = stages(F.pixel_shuffle(inputs, 2)).flatten(2).transpose(1, 2)
        return (seen - self.feature_mean[coarse]) * self.feature_scale[coarse]

    def lexical(self, words: Words, embedding: Tensor) -> Tensor:
        """The half of a token that the words of each cell lend to it: the sum of their embeddings by weight."""
        index, weight = words.which.flatten(0, 1), words.weight.flatten(0, 1).to(embedding.dtype)
        named = F.embedding_bag(index, embedding, mode="sum", per_sample_weights=weight)
        scale: float = self.config.options["lexical_scale"]
        return scale * named.view(*words.which.shape[:2], -1)


def normalised(pixels: Tensor, dtype: torch.dtype) -> Tensor:
    """uint8[n, 3, c, c] -> [n, 3, c, c] in `dtype`, as the ImageNet weights expect."""
    # Numbers, not tensors: bringing these to a GPU would make the host wait.
    planes = zip(pixels.unbind(1), MEAN, STD, strict=True)
    return torch.stack([((plane.float() / 255 - mean) / std).to(dtype) for plane, mean, std in planes], dim=1)
