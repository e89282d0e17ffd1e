"""Trains photon-tiny on cached scenes, stage by stage, by the clock.

``python -m photon.training.train --stage dense --material DIR --features DIR --out DIR --minutes 10``, then stages
``answers`` (point and detect), ``segments`` (all three), ``finish`` (the same at a falling rate) and ``adapt`` (once
more, with copies of the tower's last stages that adapt). A stage starts from the one before it and goes on from its
own checkpoint after an interruption.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.efficientnet import LAST, SameConv
from photon.models.moondream.model import Moondream
from photon.training.data.lexicon import Lexicon
from photon.training.data.library import open_lexicon
from photon.training.dataset import Asker, Batch, Mix, Scenes, make_batch
from photon.training.dense import SEEN_LAYERS, DenseHeads, dense_loss
from photon.training.features import LITE0
from photon.training.lite0 import load_lite0
from photon.training.losses import BlockAttention, answer_loss, answer_states, image_tokens, seen_states
from photon.training.priming import look_before, read_things
from photon.training.recipe import initialise, photon_tiny, tower_of, widened
from photon.training.team import Team
from photon.training.telling import Teller

SEEING_SCALE, READING_SCALE = 0.7, 2.0
"""Rates of Muon in the projection and the blocks that see, on which all else rests, and in the blocks that read."""

ADAPTING_SCALE = 0.25
"""Rate in the adapted stages: they start as the published network's."""

SIZE_COST = 0.02
"""Cost of the mean square of the states. Left free, the dense loss let what all cells have in common grow to twenty
times the norm of a token, and the names in the prompts were lost beside it."""


@dataclass(frozen=True)
class Stage:
    """`told`: share of the usual pictures that are told, and `renames`: some by other names (see `telling`). `splits`:
    which scenes are seen. `adapted`: whether copies of the tower's last stages are trained. `decay`: share of the
    time, at the end, over which the learning rate falls to zero."""

    mix: Mix
    after: str | None
    answers: bool = True
    dense: float = 1.0
    look: float = 0.0
    dropout: float = 0.0
    told: float = 0.0
    renames: bool = False
    splits: tuple[str, ...] = ("train",)
    adapted: bool = False
    batch: int = 24
    rate: float = 2e-3
    decay: float = 0.3


STAGES = {
    "dense": Stage(Mix(questions=0, length=1), None, answers=False, batch=48, rate=2.5e-3, dropout=0.1),
    "answers": Stage(Mix(length=96, questions=10), "dense", look=1.5, dropout=0.05, decay=0.0),
    "segments": Stage(Mix(0.36, 0.12, 128, 10), "answers", look=1.5, dropout=0.05, decay=0.0),
    "finish": Stage(Mix(0.4, 0.15, 128, 10), "segments", look=1.5, dropout=0.05, told=0.4, decay=1.0),
    "adapt": Stage(
        Mix(0.4, 0.15, 128, 10),
        "finish",
        look=1.5,
        dropout=0.05,
        told=0.4,
        renames=True,
        splits=("train", "dressed"),
        adapted=True,
        batch=32,
        decay=1.0,
    ),
}


class Trainer:
    """A model with its optimisers and the clock of its stage; all of it is in the checkpoint."""

    def __init__(
        self, stage: Stage, lexicon: Lexicon, device: torch.device, config: MoondreamConfig | None = None
    ) -> None:
        self.stage, self.lexicon, self.device = stage, lexicon, device
        self.model = Moondream(config or photon_tiny(lexicon, stage.adapted))
        initialise(self.model, lexicon, seed=0)
        look_before(self.model)
        self.heads = DenseHeads(self.model.config.text.dim)
        self.model.to(device)
        self.heads.to(device)
        self._freeze()
        self.optimisers = make_optimisers(self.model, self.heads)
        self.spent_s = 0.0
        self.images = 0
        self.team = Team()

    def _freeze(self) -> None:
        """What is never trained. Of the adapted stages that is how they filter each channel by itself: on CPUs the
        gradient of these few weights takes longer than that of all others."""
        tower, region = tower_of(self.model), self.model.region
        filters = [] if tower.adapted is None else [m for m in tower.adapted.modules() if isinstance(m, SameConv)]
        for part in (tower.net, *filters):
            part.requires_grad_(False)
        for features in (region.coord_features, region.size_features):
            features.requires_grad_(False)

    def step(self, batch: Batch, rate: float) -> dict[str, float]:
        """One update; returns the parts of the loss."""
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate * group["scale"]
            optimiser.zero_grad(set_to_none=True)
        parts = self.losses(batch)
        total = self.total(parts)
        total.backward()
        trained = [p for optimiser in self.optimisers for group in optimiser.param_groups for p in group["params"]]
        self.team.average(trained)
        nn.utils.clip_grad_norm_([p for p in trained if p.grad is not None], 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
        self.images += len(batch.names) * self.team.size
        return {name: float(part.detach()) for name, part in parts.items()}

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Parts of the loss. Answers train neither the image tokens nor what the first blocks see in them: letting
        them cost the tokens a quarter of their right names."""
        with torch.autocast(self.device.type, torch.bfloat16):
            tokens = image_tokens(self.model, batch, self.stage.dropout if torch.is_grad_enabled() else 0.0)
            parts: dict[str, Tensor] = {}
            if self.stage.answers:
                attend = BlockAttention(batch.query, self.model.config.prefix_len)
                hidden, seen = answer_states(self.model, tokens, batch, attend)
                parts = answer_loss(self.model, hidden, batch, attend)
                parts["size"] = (hidden.float().square().mean() + seen.float().square().mean()) / 2
            else:
                seen = seen_states(self.model, tokens)
                parts["size"] = seen.float().square().mean()
            return dense_loss(self.model, self.heads, tokens, seen, batch) | parts

    def total(self, parts: dict[str, Tensor]) -> Tensor:
        total = self.stage.dense * (parts["word"] + parts["box"] + 2 * parts["shape"]) + SIZE_COST * parts["size"]
        if self.stage.answers:
            total = total + parts["coord"] + 0.7 * parts["sizes"] + 2 * parts["stop"]
            total = total + self.stage.look * parts["look"]
        return total

    def save(self, path: Path) -> None:
        state = {
            "model": {k: v for k, v in self.model.state_dict().items() if not k.startswith("vision.net.")},
            "heads": self.heads.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "spent_s": self.spent_s,
            "images": self.images,
        }
        torch.save(state, path.with_suffix(".partial"))
        path.with_suffix(".partial").rename(path)

    def load(self, path: Path, same_stage: bool) -> None:
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(widened(state["model"], tower_of(self.model)), strict=False)
        self.heads.load_state_dict(state["heads"])
        if same_stage:
            for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
                scales = [group["scale"] for group in optimiser.param_groups]
                optimiser.load_state_dict(saved)
                for group, scale in zip(optimiser.param_groups, scales, strict=True):
                    group["scale"] = scale
            self.spent_s, self.images = state["spent_s"], state["images"]


def prepare(trainer: Trainer, material: Path, features: Path) -> None:
    """Gives the tower its frozen parts: the ImageNet weights, and the statistics of the cached features."""
    vision = tower_of(trainer.model)
    vision.net.load_state_dict(load_lite0(material / LITE0).state_dict())
    statistics = np.load(features / "statistics.npz")
    vision.feature_mean.copy_(torch.from_numpy(statistics["mean"]))
    vision.feature_scale.copy_(torch.from_numpy(statistics["scale"]))
    if vision.adapted is not None:
        vision.adapted.load_state_dict(nn.Sequential(*(vision.net.stages[stage] for stage in LAST)).state_dict())


def prime(trainer: Trainer, scenes: Scenes, count: int = 800) -> None:
    """Lets a fresh decoder read what the dense stage has taught the cells to say (see `priming`)."""
    asker = Asker(trainer.model.config, trainer.lexicon, Mix(questions=0, length=1))
    batch = make_batch(scenes, np.arange(min(count, len(scenes))), asker, np.random.default_rng(0))
    with torch.no_grad():
        batch = batch.to(trainer.device)
        explained = read_things(trainer.model, image_tokens(trainer.model, batch), batch)
    if trainer.team.leads:
        print(json.dumps({"variance explained, by layer": explained}), flush=True)


def make_optimisers(model: Moondream, heads: DenseHeads) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside, AdamW for embeddings, heads, norms and biases."""
    seeing: list[nn.Parameter] = []
    reading: list[nn.Parameter] = []
    adapting: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    sees = ("vision.proj_mlp.", *(f"text.blocks.{layer}." for layer in range(SEEN_LAYERS)))
    for name, parameter in [*model.named_parameters(), *heads.named_parameters()]:
        if not parameter.requires_grad or name == "vision.word_embedding":
            continue
        if name.startswith("vision.adapted."):
            adapting.append(parameter)
            continue
        inside = parameter.ndim == 2 and (".blocks." in name or "_decoder." in name or ".proj_mlp." in name)
        (rest if not inside else seeing if name.startswith(sees) else reading).append(parameter)
    muon = torch.optim.Muon(
        [{"params": seeing, "scale": SEEING_SCALE}, {"params": reading, "scale": READING_SCALE}],
        lr=1.0,
        weight_decay=0.3,
        adjust_lr_fn="match_rms_adamw",
    )
    groups = [{"params": rest, "scale": 1.0}, {"params": adapting, "scale": ADAPTING_SCALE}]
    adam = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98), weight_decay=0.0)
    return [muon, adam]


def learning_rate(stage: Stage, share: float, images: int) -> float:
    """The rate after `share` of the stage's time: a short warm-up, level, then linear decay to zero."""
    warm = min(1.0, (images / stage.batch + 1) / 50)
    fall = min(1.0, (1 - share) / stage.decay) if stage.decay else 1.0
    return stage.rate * warm * max(fall, 0.0)


def batches(scenes: Scenes, asker: Asker, teller: Teller, size: int, seed: int) -> Iterator[Batch]:
    """Endless shuffled batches, two made ahead in a thread."""
    rng = np.random.default_rng(seed)

    def orders() -> Iterator[np.ndarray]:
        while True:
            order = rng.permutation(len(scenes))
            yield from (order[i : i + size] for i in range(0, len(order) - size + 1, size))

    source = orders()
    with ThreadPoolExecutor(1) as pool:
        ahead = [pool.submit(make_batch, scenes, next(source), asker, rng, teller) for _ in range(2)]
        while True:
            ready = ahead.pop(0).result()
            ahead.append(pool.submit(make_batch, scenes, next(source), asker, rng, teller))
            yield ready


@torch.no_grad()
def validate(trainer: Trainer, scenes: Scenes, asker: Asker, count: int = 192) -> dict[str, float]:
    """Mean loss parts over the first `count` held-out scenes, with the same questions every time."""
    rng = np.random.default_rng(7)
    sums: dict[str, float] = {}
    starts = range(0, min(count, len(scenes)), 32)
    for start in starts:
        batch = make_batch(scenes, np.arange(start, start + 32), asker, rng).to(trainer.device)
        for name, value in trainer.losses(batch).items():
            sums[name] = sums.get(name, 0.0) + float(value) / len(starts)
    return sums


def train(trainer: Trainer, arguments: argparse.Namespace, checkpoint: Path) -> None:
    """Runs the stage until its minutes are spent, saying every 50 steps how it goes."""
    stage, team, limit = trainer.stage, trainer.team, arguments.minutes * 60
    asker = Asker(trainer.model.config, trainer.lexicon, stage.mix)
    scenes, held_out = Scenes(arguments.features, *stage.splits), Scenes(arguments.features, "validation")
    last, saved, count = time.monotonic(), trainer.spent_s, 0
    recent: dict[str, float] = {}
    teller = Teller(trainer.lexicon, stage.told, stage.renames)
    for batch in batches(scenes, asker, teller, stage.batch // team.size, seed=trainer.images * 8 + team.rank):
        share = team.agree(trainer.spent_s / limit)
        if share >= 1:
            return
        parts = trainer.step(batch.to(trainer.device), learning_rate(stage, share, trainer.images))
        for name, value in parts.items():
            recent[name] = 0.95 * recent.get(name, value) + 0.05 * value
        now = time.monotonic()
        trainer.spent_s, last, count = trainer.spent_s + now - last, now, count + 1
        done = trainer.spent_s >= limit
        if not team.leads:
            continue
        if count % 50 == 0 or done:
            speed = trainer.images / trainer.spent_s
            print(report(f"{trainer.spent_s:6.0f} s {speed:5.1f} images/s", recent), flush=True)
        if count % 500 == 0 or done:
            print(report("held out", validate(trainer, held_out, asker)), flush=True)
        if trainer.spent_s - saved > 90 or done:
            trainer.save(checkpoint)
            saved = trainer.spent_s


def report(head: str, parts: dict[str, float]) -> str:
    return f"{head}  " + "  ".join(f"{name} {value:.3f}" for name, value in parts.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--material", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--start", type=Path, help="checkpoint to start from instead of the stage before")
    parser.add_argument("--workers", type=int, default=1, help="processes that share each batch (CPU)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.workers == 1:
        work(0, arguments)
        return
    (arguments.out / "meeting").unlink(missing_ok=True)
    spawn(work, (arguments,), arguments.workers)


def work(rank: int, arguments: argparse.Namespace) -> None:
    """One process of the team."""
    if arguments.workers > 1:
        torch.set_num_threads(1)
    stage = STAGES[arguments.stage]
    trainer = Trainer(stage, open_lexicon(arguments.material), torch.device(arguments.device))
    trainer.team = Team.join(rank, arguments.workers, arguments.out / "meeting")
    prepare(trainer, arguments.material, arguments.features)
    checkpoint = arguments.out / f"{arguments.stage}.pt"
    before = arguments.start or (arguments.out / f"{stage.after}.pt" if stage.after else None)
    if checkpoint.exists():
        trainer.load(checkpoint, same_stage=True)
    elif before:
        trainer.load(before, same_stage=False)
        if arguments.stage == "answers":
            prime(trainer, Scenes(arguments.features, "train"))
    if trainer.team.leads:
        start = {"stage": arguments.stage, "images": trainer.images, "spent_s": trainer.spent_s}
        print(json.dumps(start), flush=True)
    train(trainer, arguments, checkpoint)


if __name__ == "__main__":
    main()
