"""From a training checkpoint to the bundled model's files.

``python -m photon.training.export --checkpoint FILE --material DIR --features DIR --out photon/assets`` also sets the
bias of the stop token on validation scenes, so that names that are not there are rarely answered.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from photon.training.data.library import open_lexicon
from photon.training.dataset import Asker, Mix, Scenes, make_batch
from photon.training.losses import BlockAttention, answer_states, image_tokens
from photon.training.recipe import FIRST_NAME, save_checkpoint, tower_of
from photon.training.train import STAGES, Trainer, prepare

MOST_ALARMS = 0.055
"""Share of absent names on validation scenes that may be answered: of the same questions put by three skills, some
8 % are then answered by one of them."""


@torch.no_grad()
def stop_margins(trainer: Trainer, scenes: Scenes, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Logit of stop minus logit of going on at the first token of every question; whether stop is right."""
    model, special = trainer.model, trainer.model.config.tokenizer
    asker, rng = Asker(model.config, trainer.lexicon, Mix(absent=0.5)), np.random.default_rng(11)
    margins, right = [], []
    for start in range(0, min(count, len(scenes)), 25):
        batch = make_batch(scenes, np.arange(start, start + 25), asker, rng).to(trainer.device)
        attend = BlockAttention(batch.query, model.config.prefix_len)
        hidden = answer_states(model, image_tokens(model, batch), batch, attend)[0]
        first = (batch.stop >= 0) & (batch.ids == special.answer_id)
        logits = model.logits(hidden[first]).float()
        margins.append((logits[:, special.eos_id] - logits[:, special.coord_id]).cpu().numpy())
        right.append(batch.stop[first].cpu().numpy())
    return np.concatenate(margins), np.concatenate(right)


def best_bias(margins: np.ndarray, stop_is_right: np.ndarray) -> tuple[float, float, float]:
    """The least bias with at most `MOST_ALARMS`, and the shares of false alarms and of misses it leaves."""
    for bias in np.arange(-2, 8, 0.05):
        stops = margins + bias > 0
        alarms, misses = 1 - stops[stop_is_right == 1].mean(), stops[stop_is_right == 0].mean()
        if alarms <= MOST_ALARMS:
            break
    return float(bias), float(alarms), float(misses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--stage", choices=STAGES, default="adapt", help="the stage that wrote the checkpoint")
    parser.add_argument("--material", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    lexicon = open_lexicon(arguments.material)
    trainer = Trainer(STAGES[arguments.stage], lexicon, torch.device("cpu"))
    prepare(trainer, arguments.material, arguments.features)
    trainer.load(arguments.checkpoint, same_stage=True)
    model = trainer.model.eval()
    margins, right = stop_margins(trainer, Scenes(arguments.features, "validation"), 500)
    bias, alarms, misses = best_bias(margins, right)
    with torch.no_grad():
        model.text.lm_head.bias[model.config.tokenizer.eos_id] += bias
        tower_of(model).word_embedding.copy_(model.text.wte[FIRST_NAME:])
    save_checkpoint(model, lexicon, arguments.out)
    print(f"stop bias {bias:+.1f}: false alarms {alarms:.3f}, misses {misses:.3f} on validation questions")


if __name__ == "__main__":
    main()
