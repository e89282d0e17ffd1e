"""Told pictures: the lexical path says what it would say of a photograph."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from photon.training.dataset import Asker, Mix, Scenes, make_batch
from photon.training.telling import DOUBTED, HIDDEN, KIN, RECOGNISED, RENAMED, STRANGE, SURE, SURELY, Teller
from tests.training.toy import toy_config, toy_lexicon

SIDE, WORDS = 6, 8
SHOWN, WITHOUT_CLASS = 2, 1


def scene(*names: int) -> dict[str, np.ndarray]:
    """Each thing in a corner of its own; the lexical path believes a little in name 5 everywhere."""
    cells = np.full((SIDE, SIDE), -1, np.int8)
    for number in range(len(names)):
        cells[:2, :2] = 0
        if number:
            cells[4:, 4:] = 1
    index = np.tile(np.arange(10, 10 + WORDS, dtype=np.int16), (SIDE * SIDE, 1))
    weight = np.zeros((SIDE * SIDE, WORDS), np.uint8)
    index[:, 0], weight[:, 0] = 5, 60
    return {
        "names": np.array([*names, -1], np.int16),
        "cells": cells.ravel(),
        "word_index": index,
        "word_weight": weight,
        "dressed": np.array(False),
        "doubtful": np.array([3, -1]),
    }


def weight_of(name: int, seen: dict[str, np.ndarray]) -> np.ndarray:
    """f64[SIDE, SIDE]: what each cell gives to a name."""
    return ((seen["word_index"] == name) * seen["word_weight"]).max(1).reshape(SIDE, SIDE) / 255


def told(count: int, *names: int) -> list[dict[str, np.ndarray]]:
    teller, rng = Teller(toy_lexicon(), 1.0), np.random.default_rng(0)
    return [teller.tell(scene(*names), rng) for _ in range(count)]


def test_a_things_name_stands_where_it_shows_and_fades_around_it() -> None:
    seen = [weight_of(SHOWN, one) for one in told(300, SHOWN)]
    sure = [field for field in seen if field.max() > 0]
    assert len(sure) / len(seen) == pytest.approx(RECOGNISED, abs=0.07)
    assert all(SURE[0] - 0.01 <= field[:2, :2].max() <= SURE[1] for field in sure)
    mean = np.mean(sure, axis=0)
    assert mean[:2, :2].min() > 2 * mean[3:, 3:].max()


def test_names_of_its_kind_are_doubted() -> None:
    kin = [max(weight_of(name, one).max() for name in (0, 6)) for one in told(200, SHOWN)]
    assert 0 < np.mean(np.array(kin) > 0) < 1
    assert max(kin) <= DOUBTED[1] + 0.01
    assert len(toy_lexicon().classes) < KIN


def test_a_name_without_class_stays_unsaid() -> None:
    assert not any(weight_of(WITHOUT_CLASS, one).any() for one in told(20, WITHOUT_CLASS))


def test_what_the_path_said_itself_stays_and_its_arrays_are_left_alone() -> None:
    before, teller = scene(SHOWN, 0), Teller(toy_lexicon(), 1.0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert (weight_of(5, teller.tell(before, rng)) == weight_of(5, before)).all()
    assert (before["word_index"] == scene(SHOWN, 0)["word_index"]).all()
    assert (before["word_weight"] == scene(SHOWN, 0)["word_weight"]).all()


def test_a_name_the_path_knew_is_not_said_twice() -> None:
    before = scene(5)
    lexicon = toy_lexicon()
    lexicon.classes[5] = [9]
    after = Teller(lexicon, 1.0).tell(before, np.random.default_rng(3))
    spoken = ((after["word_index"] == 5) & (after["word_weight"] > 0)).sum(1)
    assert spoken.max() == 1
    assert weight_of(5, after)[:2, :2].max() >= SURE[0] - 0.01


class OneScene:
    """As `Scenes`, of the same picture always."""

    def scene(self, index: int) -> dict[str, np.ndarray]:
        zeros = {name: np.zeros((3, *shape), np.float32) for name, shape in SHAPES.items()}
        features = np.zeros((SIDE * SIDE, 4), np.int8)
        return {**scene(SHOWN, 0), **zeros, "features": features, "doubtful": np.array([-1])}


SHAPES = {"boxes": (4,), "points": (2,), "contours": (16, 2)}


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_so_many_pictures_of_a_batch_are_told_and_strange(share: float) -> None:
    scenes, asker = cast(Scenes, OneScene()), Asker(toy_config(), toy_lexicon(), Mix(questions=0, length=1))
    batch = make_batch(scenes, np.arange(500), asker, np.random.default_rng(0), Teller(toy_lexicon(), share))
    fresh = scene(SHOWN, 0)["word_weight"] / np.float32(255)
    changed = (batch.word_weight.numpy() != fresh).any((1, 2))
    strange = batch.strange.ravel().numpy()
    assert changed.mean() == pytest.approx(share, abs=0.06)
    assert (strange > 0).mean() == pytest.approx(STRANGE, abs=0.06)
    assert strange.max() <= 1
    plain = make_batch(scenes, np.arange(20), asker, np.random.default_rng(0))
    assert not plain.strange.any()
    assert (plain.word_weight.numpy() == fresh).all()


def told_some(count: int, *names: int, dressed: bool = False, share: float = 1.0) -> tuple[list[Any], np.ndarray]:
    teller, rng = Teller(toy_lexicon(), share, renames=True), np.random.default_rng(0)
    return teller.tell_some([scene(*names) | {"dressed": np.array(dressed)} for _ in range(count)], rng)


def test_a_renamed_picture_says_its_new_names_where_its_things_show() -> None:
    teller, rng = Teller(toy_lexicon(), 1.0), np.random.default_rng(0)
    for _ in range(40):
        renamed = teller.tell(teller.rename(scene(WITHOUT_CLASS, SHOWN), rng), rng, recognised=1.0)
        first, second, padding = renamed["names"].tolist()
        assert toy_lexicon().classes[first]
        assert padding == -1
        assert weight_of(first, renamed)[:2, :2].max() >= SURE[0] - 0.01
        assert weight_of(second, renamed)[4:, 4:].max() >= SURE[0] - 0.01


def test_things_of_one_name_get_another_name_and_every_name_of_the_classifier_is_given() -> None:
    teller, rng, given = Teller(toy_lexicon(), 1.0), np.random.default_rng(0), set()
    for _ in range(60):
        names = teller.rename(scene(SHOWN, SHOWN), rng)["names"]
        assert names[0] == names[1] != SHOWN
        given.add(int(names[0]))
    assert given == {name for name, classes in enumerate(toy_lexicon().classes) if classes} - {SHOWN}


def test_what_a_renamed_picture_may_be_taken_for_is_not_said_and_not_asked_for_as_absent() -> None:
    teller, rng, seen = Teller(toy_lexicon(), 1.0), np.random.default_rng(0), scene(SHOWN, 0)
    seen["word_index"][:, 1], seen["word_weight"][:, 1] = SHOWN, 200
    seen["word_index"][:, 2], seen["word_weight"][:, 2] = 4, SURELY + 1
    renamed = teller.rename(seen, rng)
    assert not weight_of(SHOWN, renamed).any()
    new = {name for name in renamed["names"].tolist() if name >= 0}
    assert set(renamed["doubtful"].tolist()) == {3, SHOWN, 0, 4} - new


def test_a_thing_without_a_cell_loses_its_name_where_it_could_only_be_told() -> None:
    seen = scene(SHOWN, 0)
    seen["cells"][seen["cells"] == 1] = -1
    assert Teller(toy_lexicon(), 1.0).rename(seen, np.random.default_rng(0))["names"][1:].tolist() == [-1, -1]


def test_dressed_pictures_are_all_told_and_not_strange_and_some_are_renamed() -> None:
    told, strange = told_some(300, SHOWN, 0, dressed=True, share=0.0)
    assert not strange.any()
    assert all(weight_of(int(one["names"][0]), one)[:2, :2].max() > 0.6 for one in told)
    kept = np.mean([one["names"][:2].tolist() == [SHOWN, 0] for one in told])
    assert kept == pytest.approx(1 - RENAMED, abs=0.08)


def test_what_cannot_be_told_is_renamed_wherever_it_cannot_be_seen() -> None:
    for one in told_some(60, WITHOUT_CLASS, SHOWN, dressed=True)[0]:
        assert one["names"][0] != WITHOUT_CLASS
    told, strange = told_some(400, WITHOUT_CLASS)
    renamed = np.array([one["names"][0] != WITHOUT_CLASS for one in told])
    assert renamed.mean() == pytest.approx(STRANGE, abs=0.05)
    assert (renamed == (strange > 0)).all()


def test_what_is_renamed_altogether_is_well_hidden_and_only_where_it_is_strange() -> None:
    told, strange = told_some(600, SHOWN)
    renamed = np.array([one["names"][0] != SHOWN for one in told])
    assert renamed.mean() == pytest.approx(STRANGE * RENAMED, abs=0.05)
    assert strange[renamed].min() >= HIDDEN[0]
    usual = Teller(toy_lexicon(), 1.0).tell_some([scene(SHOWN) for _ in range(100)], np.random.default_rng(0))[0]
    assert all(one["names"][0] == SHOWN for one in usual)
