"""The shape of photon-tiny: its configuration, its tokens and its files."""

from __future__ import annotations

import json
from pathlib import Path

import tokenizers
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import normalizers
from tokenizers.models import WordLevel
from torch import Tensor

from photon import OBJECT_SKILLS
from photon.models.moondream.config import MoondreamConfig, RegionConfig, TextConfig, TokenizerConfig, VisionConfig
from photon.models.moondream.efficientnet import EfficientNetTower
from photon.models.moondream.model import Moondream
from photon.models.moondream.text import Block, DenseMlp
from photon.training.data.geometry import VERTICES
from photon.training.data.lexicon import Lexicon

SPECIAL = (
    "<|end|>",
    "<|prompt|>",
    "<|object|>",
    "<|answer|>",
    "<|think|>",
    "<|coord|>",
    "<|size|>",
    "<|points|>",
    "<|unknown|>",
    "<|points_end|>",
    "point",
    "detect",
    "segment",
    "<|reserved_13|>",
    "<|reserved_14|>",
    "<|reserved_15|>",
)
FIRST_NAME = len(SPECIAL)


def photon_tiny(lexicon: Lexicon, adapted: bool = True) -> MoondreamConfig:
    """About 7 million weights beside the frozen network, 2 of them in the `adapted` copy of its last stages; 144 image
    tokens, 256 coordinate bins."""
    dim, names = 256, len(lexicon.names)
    vision = VisionConfig(
        proj_out_dim=dim,
        crop_size=384,
        kind="efficientnet_lite0",
        enc_patch_size=32,
        proj_inner_dim=512,
        options={
            "words": names,
            "word_table": lexicon.word_table(),
            "top_words": 16,
            "lexical_floor": 8.0,
            "lexical_scale": 2.0,
            "adapted": adapted,
        },
    )
    return MoondreamConfig(
        text=TextConfig(dim, 1024, 5, FIRST_NAME + names, 1024, 4),
        vision=vision,
        region=RegionConfig(dim, 128, 256, 128, 512, 512),
        tokenizer=TokenizerConfig(templates=templates(), segment_vertices=VERTICES),
    )


def templates() -> dict[str, dict[str, list[int]]]:
    """Prompt ids around the object, per skill (docs/model.md 6)."""
    return {skill: {"prefix": [1, SPECIAL.index(skill), 2], "suffix": [3]} for skill in OBJECT_SKILLS}


def make_tokenizer(lexicon: Lexicon) -> tokenizers.Tokenizer:
    """One token for a whole known name, whatever spaces surround it; anything else is the unknown token."""
    words = {word: index for index, word in enumerate((*SPECIAL, *lexicon.names))}
    tokenizer = tokenizers.Tokenizer(WordLevel(words, unk_token="<|unknown|>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Lowercase()])
    return tokenizer


def save_checkpoint(model: Moondream, lexicon: Lexicon, folder: Path) -> None:
    """Writes config.json, model.safetensors (float16), tokenizer.json and vocabulary.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model.config.to_dict(), indent=1) + "\n")
    state = {
        name: (tensor.half() if tensor.is_floating_point() else tensor).contiguous().clone()
        for name, tensor in model.state_dict().items()
    }
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    make_tokenizer(lexicon).save(str(folder / "tokenizer.json"))
    vocabulary = {"taught": lexicon.taught, "names": lexicon.names, "synonyms": lexicon.synonyms}
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary, indent=0) + "\n")


def tower_of(model: Moondream) -> EfficientNetTower:
    """The vision tower of a photon-tiny, by its own type."""
    assert isinstance(model.vision, EfficientNetTower)
    return model.vision


def place_code(cells: int, dim: int, strength: float = 3.5) -> torch.Tensor:
    """f32[cells, dim]: column and row of each cell as a ramp and three waves each, in random orthogonal directions.

    Where a thing lies can then be read off the cells that show it, undisturbed by what is in them.
    """
    side = round(cells**0.5)
    middle = (torch.arange(side) + 0.5) / side
    waves = [2 * middle - 1] + [f(torch.pi * k * middle) for k in (1, 2, 3) for f in (torch.cos, torch.sin)]
    ramp = torch.stack(waves, dim=-1)
    across = ramp.expand(side, side, -1).flatten(0, 1)
    down = ramp.unsqueeze(1).expand(side, side, -1).flatten(0, 1)
    code = torch.cat([across, down], dim=-1) * strength
    directions: torch.Tensor = torch.linalg.qr(torch.randn(dim, code.shape[1]))[0]
    return torch.matmul(code, directions.T)


def initialise(model: Moondream, lexicon: Lexicon, seed: int) -> None:
    """Starting weights whose image tokens, words, coordinates and sizes all have norms of about the same size."""
    torch.manual_seed(seed)
    text, vision, region = model.text, tower_of(model), model.region
    with torch.no_grad():
        text.wte.normal_(0, 0.25)
        for linear in (m for m in model.modules() if isinstance(m, torch.nn.Linear)):
            if linear is not vision.net.classifier:
                torch.nn.init.normal_(linear.weight, 0, linear.in_features**-0.5)
                torch.nn.init.zeros_(linear.bias)
        for block in text.blocks:
            assert isinstance(block, Block)
            assert isinstance(block.mlp, DenseMlp)
            block.attn.proj.weight.mul_(0.5)
            block.mlp.fc2.weight.mul_(0.3)
        vision.proj_ln.weight.fill_(0.25)
        vision.pos_emb.copy_(place_code(vision.config.n_tokens, vision.config.proj_out_dim))
        region.coord_features.copy_(2.0 ** torch.linspace(-2, 6, region.coord_features.shape[1])[None])
        region.size_features.copy_(torch.randn_like(region.size_features) * 4)
        for encoder in (region.coord_encoder, region.size_encoder):
            encoder.weight.mul_(0.5)
        text.lm_head.weight.zero_()
        text.lm_head.weight[[0, 5, 6]] = torch.randn(3, text.config.dim) * 0.05
        text.lm_head.bias.fill_(-20)
        text.lm_head.bias[[0, 5, 6]] = 0.0
        vision.word_embedding.copy_(text.wte[FIRST_NAME:])


def widened(state: dict[str, Tensor], tower: EfficientNetTower) -> dict[str, Tensor]:
    """The weights `state` of a model without adapted stages, for one whose `tower` has them: it answers as before."""
    name = "vision.proj_mlp.fc1.weight"
    missing = tower.proj_mlp.fc1.in_features - state[name].shape[1]
    return {**state, name: F.pad(state[name], (0, missing))}
