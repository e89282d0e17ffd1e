"""A context of the recorded models' configuration and tokenizer, without weights, and engines with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from photon.core.request import ImageRef, SkillState, Token
from photon.core.settings import Settings
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.tokenizer import Tokenizer
from photon.skills import Ask, SkillContext
from photon.skills.base import Plan
from tests.recorded import folder, read

BYTES = 32
"""The recorded tokenizer gives byte b the id 32 + b; lower ids print as `<id>`."""


def ids_of(text: str) -> list[int]:
    return [BYTES + b for b in text.encode()]


def tokens_of(text: str) -> list[Token]:
    return [Token(i) for i in ids_of(text)]


@pytest.fixture(scope="session")
def context() -> SkillContext:
    """Bytes as tokens, the ids and templates of moondream2, and a template for segment."""
    config = MoondreamConfig.from_dict(read("md2", "config.json"))
    templates = config.tokenizer.templates | {"segment": {"prefix": [1, 18, 2], "suffix": [3]}}
    tokenizer = dataclasses.replace(config.tokenizer, templates=templates)
    return SkillContext(
        "bytes",
        dataclasses.replace(config, tokenizer=tokenizer),
        Tokenizer.load(folder("md2") / "tokenizer.json"),
        vocabulary=None,
    )


@pytest.fixture(scope="session")
def picture() -> ImageRef:
    return ImageRef.of(np.zeros((4, 4, 3), dtype=np.uint8))


@pytest.fixture
def ask(picture: ImageRef) -> Callable[..., Ask]:
    def make(skill: str, text: str, settings: dict[str, Any] | None = None, **more: Any) -> Ask:
        return Ask(skill, text, Settings.parse(settings), **{"image": picture, **more})

    return make


def feed(state: SkillState, tokens: Sequence[Token], limit: int | None = None) -> list[Any]:
    """Advance as the engine does: (the updates told on the way, with those of the end)."""
    told: list[Any] = []
    for count, token in enumerate(tokens, 1):
        assert not state.done
        state.advance(token)
        if state.done or count == limit:
            break
        told += state.updates()
    state.result()
    return [*told, *state.updates()]


def finish(plan: Plan, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The answer of a plan that waits for the results of its last stage."""
    with pytest.raises(StopIteration) as end:
        plan.send(list(results))
    answer: dict[str, Any] = end.value.value
    return answer
