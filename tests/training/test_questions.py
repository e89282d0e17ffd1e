"""Questions packed behind one image: what is fed, what is asked for, and who sees whom."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from photon.models.moondream.model import Moondream
from photon.models.moondream.reference import FullAttention
from photon.models.moondream.region import size_bin
from photon.training.data.geometry import VERTICES
from photon.training.data.lexicon import Lexicon
from photon.training.dataset import BELIEVED, SLIP, UNTAUGHT, Asker, Batch, Mix
from photon.training.dense import compare_boxes, dense_loss
from photon.training.losses import BlockAttention, answer_loss, answer_states, image_tokens, soft_target
from photon.training.recipe import FIRST_NAME
from photon.training.train import STAGES, Trainer
from tests.training.toy import TAUGHT, toy_batch, toy_config, toy_lexicon


@pytest.fixture(scope="module")
def model() -> Moondream:
    torch.manual_seed(0)
    return Moondream(toy_config()).eval().requires_grad_(False)


def scene(names: list[int], doubtful: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
    count = len(names)
    left = np.linspace(0.8, 0.1, count)
    boxes = np.stack([left, left * 0 + 0.2, left + 0.1, left * 0 + 0.6], axis=1).astype(np.float32)
    return {
        "names": np.array([*names, -1]),
        "boxes": np.concatenate([boxes, np.zeros((1, 4), np.float32)]),
        "points": np.concatenate([boxes[:, :2] + 0.05, np.zeros((1, 2), np.float32)]),
        "contours": np.full((count + 1, VERTICES, 2), 0.5, np.float32),
        "doubtful": np.array([*doubtful, -1]),
        "cells": np.zeros(4, np.int8),
        "word_index": np.zeros((4, 2), np.int64),
        "word_weight": np.zeros((4, 2), np.uint8),
    }


def asked(mix: Mix, names: list[int], doubtful: tuple[int, ...] = (), seed: int = 0) -> dict[str, np.ndarray]:
    asker = Asker(toy_config(), toy_lexicon(), mix)
    return asker.ask(scene(names, doubtful), np.random.default_rng(seed))


def test_answers_go_from_left_to_right_and_end_with_stop() -> None:
    packed = asked(Mix(absent=0.0, length=64, questions=1), [1, 1, 1])
    given = packed["coord_target"][packed["coord_target"] >= 0]
    assert given[0::2].tolist() == sorted(given[0::2].tolist())
    assert len(given) == 6
    stops = packed["stop"][packed["stop"] >= 0]
    assert stops.tolist() == [0, 0, 0, 1]


def test_what_is_fed_is_near_what_was_asked_for_one_place_before() -> None:
    packed = asked(Mix(absent=0.0, length=64, questions=4), [1, 2, 2])
    ids = packed["ids"]
    coords, sizes = np.flatnonzero(ids == 5), np.flatnonzero(ids == 6)
    aside = np.abs(packed["coords"][coords] - packed["coord_target"][coords - 1])
    assert 0 < aside.max() < 5 * SLIP * 0.4
    ratio = packed["sizes"][sizes] / packed["size_target"][sizes - 1]
    assert 0 < np.abs(np.log(ratio)).max() < 5 * SLIP


def test_an_absent_name_is_answered_by_stop_at_once() -> None:
    packed = asked(Mix(absent=1.0, length=64, questions=3), [1])
    assert set(packed["stop"][packed["stop"] >= 0].tolist()) == {1}
    assert (packed["coord_target"] < 0).all()
    assert FIRST_NAME + 1 not in packed["ids"]


def test_doubtful_names_are_never_asked_for() -> None:
    for seed in range(5):
        packed = asked(Mix(absent=0.5, length=200, questions=9), [1], doubtful=(2, 3), seed=seed)
        assert not {FIRST_NAME + 2, FIRST_NAME + 3} & set(packed["ids"].tolist())


def test_a_segment_answer_has_its_box_and_its_vertices_and_no_stop() -> None:
    packed = asked(Mix(segment=1.0, length=64, questions=1), [1])
    assert (packed["coord_target"] >= 0).sum() == 2 + 2 * VERTICES
    assert (packed["size_target"][:, 0] >= 0).sum() == 1
    assert (packed["stop"] < 0).all()
    assert (packed["query"] >= 0).sum() == 3 + 2 + 2 + 2 + 2 * VERTICES
    vertices = packed["coord_target"][packed["coord_target"] >= 0][2:]
    assert vertices[1] == pytest.approx((0.5 - 0.2) / 0.4), "a vertex is in 0..1 of its box"


def test_packed_questions_give_what_each_gives_alone(model: Moondream) -> None:
    batch = toy_batch(1)
    tokens = torch.randn(1, 4, model.config.text.dim)
    attend = BlockAttention(batch.query, model.config.prefix_len)
    together = answer_states(model, tokens, batch, attend)[0][0]
    for number in range(int(batch.query.max()) + 1):
        mine = batch.query[0] == number
        embedded = model.embed(batch.ids[:, mine], batch.coords[:, mine], batch.sizes[:, mine])
        x = torch.cat([model.prefix(tokens), embedded], dim=1)
        alone = model.text(x, torch.arange(x.shape[1])[None], FullAttention(model.config.prefix_len))
        torch.testing.assert_close(together[mine], alone[0, model.config.prefix_len :], rtol=1e-4, atol=1e-4)


def test_no_question_sees_another_or_its_own_future() -> None:
    sees = BlockAttention(torch.tensor([[0, 0, 1, -1]]), 2).bias[0, 0] == 0
    wanted = torch.tensor(
        [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 1, 0], [1, 1, 0, 0, 0, 1]], dtype=torch.bool
    )
    assert torch.equal(sees, wanted)


def test_a_soft_target_peaks_at_its_bin_and_sums_to_one() -> None:
    weights = soft_target(torch.tensor([0.0, 7.4, 15.0]), 16)
    assert weights.argmax(-1).tolist() == [0, 7, 15]
    assert weights.sum(-1).tolist() == pytest.approx([1, 1, 1])
    assert size_bin(torch.tensor(1.0), 16) == 15


def test_twenty_steps_lower_the_loss() -> None:
    torch.manual_seed(0)
    trainer = Trainer(STAGES["answers"], toy_lexicon(), torch.device("cpu"), toy_config())
    batch = toy_batch(4)
    first = float(trainer.total(trainer.losses(batch)).detach())
    for _ in range(20):
        trainer.step(batch, 5e-3)
    assert float(trainer.total(trainer.losses(batch)).detach()) < 0.8 * first


def test_losses_are_finite_where_nothing_is_shown(model: Moondream) -> None:
    batch = toy_batch(2)
    batch.cells.fill_(-1)
    trainer = Trainer(STAGES["dense"], toy_lexicon(), torch.device("cpu"), toy_config())
    tokens = torch.randn(2, 4, model.config.text.dim)
    attend = BlockAttention(batch.query, model.config.prefix_len)
    hidden, seen = answer_states(model, tokens, batch, attend)
    parts = dense_loss(trainer.model, trainer.heads, tokens, seen, batch)
    parts |= answer_loss(model, hidden, batch, attend)
    assert all(torch.isfinite(part) for name, part in parts.items() if name != "first_x")


def test_a_cell_that_says_the_box_has_no_distance_left() -> None:
    box = torch.tensor([[[0.1, 0.2, 0.5, 0.8], [0.4, 0.0, 0.6, 0.1], [0.0, 0.0, 1.0, 1.0], [0.3, 0.3, 0.4, 0.4]]])
    centre, size = (box[..., :2] + box[..., 2:]) / 2, box[..., 2:] - box[..., :2]
    code = torch.cat([centre, size.log2()], dim=-1)
    overlap, distance = compare_boxes(code, box)
    assert overlap[0].tolist() == pytest.approx([1] * 4, abs=1e-5)
    assert distance[0].tolist() == pytest.approx([0] * 4, abs=1e-4)
    code[0, 1, 0] += 0.1
    assert compare_boxes(code, box)[0][0, 1] == pytest.approx(1 / 3, abs=1e-4)


def test_answers_train_neither_the_image_tokens_nor_what_is_seen_in_them() -> None:
    model, batch = Moondream(toy_config()), toy_batch(2)
    tokens = torch.randn(2, 4, model.config.text.dim, requires_grad=True)
    attend = BlockAttention(batch.query, model.config.prefix_len)
    hidden, seen = answer_states(model, tokens, batch, attend)
    (gradient,) = torch.autograd.grad(hidden.square().sum(), tokens, retain_graph=True, allow_unused=True)
    assert gradient is None or not gradient.any()
    assert torch.autograd.grad(seen.square().sum(), tokens)[0].any()


def test_a_batch_moves_as_one() -> None:
    moved = toy_batch(1).to(torch.device("meta"))
    assert isinstance(moved, Batch)
    assert moved.ids.device.type == "meta"


def test_the_names_of_a_lexicon_are_tokens_in_order() -> None:
    assert isinstance(toy_lexicon(), Lexicon)
    assert toy_config().text.vocab_size == FIRST_NAME + len(toy_lexicon().names)


def test_a_strange_picture_changes_the_learned_half_of_a_token_alone(model: Moondream) -> None:
    batch = toy_batch(4)
    usual = image_tokens(model, batch)
    batch.strange[1:] = 0.5
    changed = (image_tokens(model, batch) - usual).abs().amax((1, 2))
    assert not changed[0]
    assert changed[1:].min() > 0
    batch.features[:] = batch.features[:1]
    seen = image_tokens(model, batch)
    batch.strange[:] = 0
    torch.testing.assert_close(seen, image_tokens(model, batch))


def believing(names: list[int], shown: bool) -> dict[str, np.ndarray]:
    """A scene where the lexical path believes in name 4 in every cell, all of which show a thing, or none does."""
    words = {"word_index": np.full((64, 2), 4, np.int64), "word_weight": np.full((64, 2), 200, np.uint8)}
    return scene(names) | words | {"cells": np.full(64, 0 if shown else -1, np.int8)}


def absent_names(seen: dict[str, np.ndarray]) -> list[int]:
    asker, rng = Asker(toy_config(), toy_lexicon(), Mix()), np.random.default_rng(0)
    return [name for _ in range(300) for name in asker.absent([1], seen, rng)]


def test_so_many_absent_names_are_ones_that_the_lexical_path_believes_in() -> None:
    names, any_of = absent_names(believing([1], shown=True)), len(toy_lexicon().names)
    others = (1 - BELIEVED) * ((1 - UNTAUGHT) / TAUGHT + UNTAUGHT / any_of)  # drawn like any other
    assert names.count(4) / len(names) == pytest.approx((BELIEVED + others) / (1 - others), abs=0.03)
    assert names.count(6) / len(names) == pytest.approx((1 - BELIEVED) * UNTAUGHT / any_of, abs=0.01)


def test_what_the_lexical_path_believes_in_behind_all_things_is_not_asked_for_as_absent() -> None:
    names = absent_names(believing([1], shown=False))
    assert names
    assert 4 not in names


def test_names_that_no_scene_teaches_are_asked_for_where_a_picture_has_them() -> None:
    packed = asked(Mix(absent=0.0, length=64, questions=4), [6])
    assert FIRST_NAME + 6 in packed["ids"]
    assert (packed["coord_target"] >= 0).any()
