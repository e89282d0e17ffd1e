"""What a person types becomes a known name, or is refused with a hint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from photon.errors import InvalidRequestError, ModelLoadError, UnknownWordError
from photon.models.registry import BUNDLED
from photon.models.vocabulary import Vocabulary

NAMES = ["cat", "person", "knife", "box", "berry", "hot dog", "glasses", "jack-o'-lantern", "leaf"]


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(NAMES, {"kitten": "cat", "human being": "person", "spectacles": "glasses"}, taught=3)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("cat", "cat"),
        ("  CAT ", "cat"),
        ("the cats", "cat"),
        ("some kittens", "cat"),
        ("people", "person"),
        ("a Human-Being", "person"),
        ("knives", "knife"),
        ("boxes", "box"),
        ("berries", "berry"),
        ("hot dogs", "hot dog"),
        ("hot_dog", "hot dog"),
        ("glasses", "glasses"),
        ("Jack-o'-lantern", "jack-o'-lantern"),
        ("cat!", "cat"),
        ("leaves", "leaf"),
    ],
)
def test_case_plural_article_and_synonym_lead_to_the_name(vocabulary: Vocabulary, typed: str, name: str) -> None:
    assert vocabulary.resolve(typed) == name


def test_an_unknown_word_is_refused_with_the_nearest_names(vocabulary: Vocabulary) -> None:
    with pytest.raises(UnknownWordError, match="knive") as refusal:
        vocabulary.resolve("knive blade")
    assert refusal.value.word == "knive blade"
    with pytest.raises(UnknownWordError) as close:
        vocabulary.resolve("kniffe")
    assert close.value.nearest[0] == "knife"


def test_nothing_to_look_for_is_refused(vocabulary: Vocabulary) -> None:
    for nothing in ("", "   "):
        with pytest.raises(InvalidRequestError, match="empty"):
            vocabulary.resolve(nothing)


@pytest.mark.parametrize("text", ["😀", "?!", "-", "猫", "👩\u200d🚀"])
def test_signs_are_unknown_words_not_nothing(vocabulary: Vocabulary, text: str) -> None:
    with pytest.raises(UnknownWordError, match="does not know the word") as refusal:
        vocabulary.resolve(text)
    assert refusal.value.word == text
    assert refusal.value.nearest == ()


def test_in_says_what_resolve_would_take(vocabulary: Vocabulary) -> None:
    assert "Kittens" in vocabulary
    assert "dog" not in vocabulary


def test_taught_names_come_first(vocabulary: Vocabulary) -> None:
    assert vocabulary.taught == ("cat", "person", "knife")
    assert len(vocabulary) == len(NAMES)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text("{")
    with pytest.raises(ModelLoadError, match=r"vocabulary\.json"):
        Vocabulary.load(path)
    path.write_text(json.dumps({"names": ["cat"], "taught": 1, "synonyms": {"hound": "dog"}}))
    with pytest.raises(ModelLoadError, match="dog"):
        Vocabulary.load(path)


def test_the_bundled_model_knows_at_least_128_everyday_names() -> None:
    vocabulary = Vocabulary.load(BUNDLED["photon-tiny"] / "vocabulary.json")
    assert len(vocabulary.taught) >= 128
    everyday = "cat dog car bicycle person chair table cup bottle apple banana book phone laptop clock tree house"
    assert all(word in vocabulary for word in everyday.split())
    assert vocabulary.resolve("puppies") == "dog"


def test_every_bundled_name_resolves_to_itself() -> None:
    vocabulary = Vocabulary.load(BUNDLED["photon-tiny"] / "vocabulary.json")
    assert [vocabulary.resolve(name) for name in vocabulary.names] == list(vocabulary.names)
