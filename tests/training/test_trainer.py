"""The trainer: its clock, its checkpoints, and the start it gives the decoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from photon.models.moondream.efficientnet import FEATURES
from photon.models.moondream.model import Moondream
from photon.models.registry import load_model
from photon.training.data.compose import MOST_OBJECTS
from photon.training.dataset import Scenes
from photon.training.export import MOST_ALARMS, best_bias
from photon.training.losses import GUIDED_LAYERS
from photon.training.priming import look_before, read_things
from photon.training.recipe import initialise, place_code, save_checkpoint
from photon.training.team import Team
from photon.training.train import STAGES, Stage, Trainer, learning_rate
from tests.training.toy import toy_batch, toy_config, toy_lexicon


def toy_trainer() -> Trainer:
    return Trainer(STAGES["answers"], toy_lexicon(), torch.device("cpu"), toy_config())


def test_the_rate_warms_up_stays_and_falls_to_zero() -> None:
    stage = Stage(STAGES["answers"].mix, None, batch=10, rate=1.0, decay=0.5)
    assert learning_rate(stage, 0.0, 0) == pytest.approx(0.02)
    assert learning_rate(stage, 0.4, 10_000) == 1.0
    assert learning_rate(stage, 0.75, 10_000) == pytest.approx(0.5)
    assert learning_rate(stage, 1.0, 10_000) == 0.0


def test_an_interrupted_stage_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batch, trainer = toy_batch(2), toy_trainer()
    trainer.step(batch, 1e-3)
    trainer.spent_s = 12.5
    trainer.save(tmp_path / "a.pt")
    resumed = toy_trainer()
    resumed.load(tmp_path / "a.pt", same_stage=True)
    assert (resumed.spent_s, resumed.images) == (12.5, 2)
    for one in (trainer, resumed):
        torch.manual_seed(1)
        one.step(batch, 1e-3)
    for name, value in trainer.model.state_dict().items():
        if not name.startswith("vision.net."):
            torch.testing.assert_close(resumed.model.state_dict()[name], value, msg=name)


def test_the_next_stage_keeps_weights_and_starts_its_own_clock(tmp_path: Path) -> None:
    trainer = toy_trainer()
    trainer.spent_s = 12.5
    trainer.save(tmp_path / "a.pt")
    following = toy_trainer()
    following.load(tmp_path / "a.pt", same_stage=False)
    assert following.spent_s == 0.0


def test_training_leaves_the_frozen_network_alone() -> None:
    trainer = toy_trainer()
    before = {name: value.clone() for name, value in trainer.model.vision.net.state_dict().items()}
    trainer.step(toy_batch(2), 1e-2)
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.vision.net.state_dict().items())


def test_the_stages_that_adapt_start_as_the_networks_and_keep_how_they_filter_channels(tmp_path: Path) -> None:
    torch.manual_seed(0)
    before, batch = toy_trainer(), toy_batch(2)
    before.model.vision.feature_scale.fill_(0.5)
    before.save(tmp_path / "a.pt")
    trainer = Trainer(STAGES["adapt"], toy_lexicon(), torch.device("cpu"), toy_config(adapted=True))
    trainer.load(tmp_path / "a.pt", same_stage=False)
    tower = trainer.model.vision
    features = torch.randn(2, 4, FEATURES)
    torch.testing.assert_close(tower.learned(features), before.model.vision.learned(features))
    start = {name: value.clone() for name, value in tower.adapted.state_dict().items()}
    for _ in range(2):
        trainer.step(batch, 1e-2)
    moved = {name for name, value in tower.adapted.state_dict().items() if not torch.equal(value, start[name])}
    assert moved == {name for name in start if "depthwise" not in name}


def test_a_team_of_one_changes_nothing() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    Team().average([parameter])
    assert parameter.grad is None
    assert Team().agree(0.25) == 0.25
    assert Team().leads


def test_primed_heads_look_at_the_token_before() -> None:
    model = Moondream(toy_config())
    initialise(model, toy_lexicon(), seed=0)
    look_before(model)
    seen: list[torch.Tensor] = []

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
        future = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)
        seen.append(weights[0, 1])
        return torch.einsum("bhts,bshd->bthd", weights, v)

    model.text(torch.randn(1, 12, 32) * 0.25, torch.arange(12)[None], attend)
    assert (seen[0][2:].argmax(-1) == torch.arange(1, 11)).float().mean() > 0.8


def test_primed_heads_read_the_thing_of_a_cell() -> None:
    torch.manual_seed(0)
    model, batch = Moondream(toy_config()), toy_batch(120)
    tokens = torch.randn(120, 4, 32)
    blind = read_things(model, tokens, batch)
    tokens[..., :2] = batch.boxes.gather(1, batch.cells.clamp_min(0).unsqueeze(-1).expand(-1, -1, 4))[..., :2]
    explained = read_things(model, tokens, batch)
    assert list(explained) == list(GUIDED_LAYERS)
    assert explained[GUIDED_LAYERS[0]] > blind[GUIDED_LAYERS[0]] + 0.1


def test_each_cell_says_its_place() -> None:
    torch.manual_seed(0)
    middle = (torch.arange(12) + 0.5) / 12
    places = torch.stack([middle.repeat(12), middle.repeat_interleave(12)], dim=1).double()
    code = torch.cat([place_code(144, 64), torch.ones(144, 1)], dim=1).double()
    fit = torch.linalg.lstsq(code, places).solution
    torch.testing.assert_close(code @ fit, places, atol=1e-4, rtol=0)


def test_saved_files_load_as_a_model(tmp_path: Path) -> None:
    trainer = toy_trainer()
    save_checkpoint(trainer.model, toy_lexicon(), tmp_path)
    loaded = load_model(str(tmp_path), torch.device("cpu"), torch.float32)
    assert loaded.tokenizer.encode(" Tower ") == [18]
    assert loaded.vocabulary is not None
    assert loaded.vocabulary.taught == tuple(toy_lexicon().names[:6])
    assert loaded.model.vision.word_table.tolist() == toy_lexicon().word_table()
    image = np.random.default_rng(0).integers(0, 255, (50, 60, 3), np.uint8)
    wanted = trainer.model.eval().vision([trainer.model.vision.preprocess(image)])
    torch.testing.assert_close(
        loaded.model.vision([loaded.model.vision.preprocess(image)]), wanted, rtol=0.02, atol=0.02
    )


def test_scenes_without_shards_say_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="validation"):
        Scenes(tmp_path, "validation")
    assert MOST_OBJECTS == 16


def test_the_stop_bias_lets_so_many_absent_names_be_answered_and_no_more() -> None:
    absent, present = np.linspace(-1, 1, 200), np.linspace(-3, -0.5, 200)
    right = np.repeat([1, 0], 200)
    bias, alarms, misses = best_bias(np.concatenate([absent, present]), right)
    assert MOST_ALARMS - 0.03 < alarms <= MOST_ALARMS
    assert alarms == pytest.approx((absent + bias <= 0).mean())
    assert misses == pytest.approx((present + bias > 0).mean())
    assert misses > 0
