"""photon.training.data.lexicon: which names the classifier's and the detector's classes stand for."""

from __future__ import annotations

from photon.models.moondream.nanodet import CLASSES
from photon.training.data.lexicon import Lexicon


def test_the_detectors_kinds_are_found_by_name_by_synonym_and_by_what_they_are_called_here() -> None:
    names = ["mouse", "sofa", "dog", "computer mouse", "tench"]
    lexicon = Lexicon(names, 4, {"couch": "sofa"}, [[], [], [], [], [0]])
    pairs = {names[name]: CLASSES[kind] for name, kind in zip(*lexicon.detector_table(), strict=True)}
    assert pairs == {"sofa": "couch", "dog": "dog", "computer mouse": "mouse"}


def test_a_name_stands_for_one_kind_at_most() -> None:
    lexicon = Lexicon(["seat"], 1, {"couch": "seat", "chair": "seat"}, [[]])
    (names, kinds) = lexicon.detector_table()
    assert names == [0]
    assert [CLASSES[kind] for kind in kinds] == ["chair"]


def test_a_lexicon_without_any_of_them_has_an_empty_table() -> None:
    assert Lexicon(["tench"], 0, {}, [[0]]).detector_table() == [[], []]
