"""Spatial references: what is taken, what it becomes, what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from photon import InvalidRequestError
from photon.core.request import Token
from photon.core.settings import MAX_OBJECTS
from photon.models.moondream.config import TokenizerConfig
from photon.skills.references import reference_tokens

IDS = TokenizerConfig()


@pytest.mark.parametrize(
    ("refs", "tokens"),
    [
        (None, []),
        ([], []),
        ([[0.25, 0.5]], [Token(5, coord=0.25), Token(5, coord=0.5)]),
        ([(0, 1)], [Token(5, coord=0.0), Token(5, coord=1.0)]),
        (
            [[0.125, 0.25, 0.625, 0.75]],
            [Token(5, coord=0.375), Token(5, coord=0.5), Token(6, width=0.5, height=0.5)],
        ),
        ([[0.5, 0.5, 0.5, 0.5]], [Token(5, coord=0.5), Token(5, coord=0.5), Token(6)]),
        ([[np.float32(0.25), np.int64(1)]], [Token(5, coord=0.25), Token(5, coord=1.0)]),
        ([[0, 0], [1, 1]], [Token(5), Token(5), Token(5, coord=1.0), Token(5, coord=1.0)]),
    ],
)
def test_references_as_tokens(refs: Any, tokens: list[Token]) -> None:
    assert list(reference_tokens(refs, IDS)) == tokens


def test_so_many_references_are_taken_and_no_more_whatever_they_are() -> None:
    assert len(reference_tokens([[0.5, 0.5]] * MAX_OBJECTS, IDS)) == 2 * MAX_OBJECTS
    with pytest.raises(InvalidRequestError, match=f"has 1000000 references; up to {MAX_OBJECTS}"):
        reference_tokens([None] * 1_000_000, IDS)


@pytest.mark.parametrize(
    "refs",
    [
        [[0.5]],
        [[0.1, 0.2, 0.3]],
        [[0.1] * 5],
        [[-0.01, 0.5]],
        [[0.5, 1.01]],
        [[float("nan"), 0.5]],
        [[float("inf"), 0.5]],
        [["0.5", 0.5]],
        [[True, 0.5]],
        [[None, 0.5]],
        [[0.6, 0.2, 0.5, 0.9]],
        [[0.1, 0.9, 0.5, 0.2]],
        [0.5, 0.5],
        "0.5, 0.5",
        {"x": 0.5, "y": 0.5},
        0.5,
    ],
)
def test_what_is_no_reference_is_refused_with_what_is(refs: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"allowed are lists of 2 .* or 4 .* numbers in 0\.\.1"):
        reference_tokens(refs, IDS)


def test_a_model_without_coordinates_takes_none() -> None:
    ids = dataclasses.replace(IDS, coord_id=-1, size_id=-1)
    with pytest.raises(InvalidRequestError, match="knows no coordinates"):
        reference_tokens([[0.5, 0.5]], ids)
    assert reference_tokens([], ids) == ()
