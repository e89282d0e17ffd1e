"""The path that Moondream 3 spells: its grammar, its outlines, and the state that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from photon import EngineConfig, Photon
from photon.core.request import Choice, Token
from photon.skills import Ask, SkillContext
from photon.skills.segment import segment_end, segment_plan
from photon.skills.segment_svg import SvgState
from photon.skills.svg_outline import polygons
from photon.skills.svg_path import Command, PathReader, path_text
from tests.recorded import folder, image, read
from tests.skills.conftest import feed, finish

EOS, COORD, SIZE = 0, 5, 6
WHOLE = {"x_min": 0.0, "y_min": 0.0, "x_max": 1.0, "y_max": 1.0}
BOX = [Token(COORD, coord=0.5), Token(COORD, coord=0.25), Token(SIZE, width=0.5, height=0.5)]
BBOX = {"x_min": 0.25, "y_min": 0.0, "x_max": 0.75, "y_max": 0.5}


def read_path(tokens: Sequence[str]) -> tuple[list[Command], str | None]:
    reader = PathReader()
    commands = [*(reader.add(token) for token in tokens), reader.finish()]
    return [c for c in commands if c is not None], reader.error


@pytest.mark.parametrize(
    ("tokens", "path"),
    [
        ([], ""),
        (["M", "0", "0", "L", "960", "480", "z"], "M 0 0 L 1 0.5 z"),
        (["M", " 96 ", "\n", "", "100", "Z"], "M 0.1 0.104 Z"),
        (["m", "-", "96", "-48", "l", "1", "-", "1"], "m -0.1 -0.05 l 0.001 -0.001"),
        (["M", "1", "2", "3", "L"], "M 0.001 0.002 L"),
        (["H", "100", "V", "200", "C", "0", "0", "480", "480", "960", "0"], "H V C 0 0 0.5 0.5 1 0"),
        (["a", "-", "0", "0"], "a 0 0"),
        (["M", "1920", "960"], "M 2 1"),
        (["M", "0010", "0"], "M 0.01 0"),
    ],
)
def test_paths_of_the_grammar(tokens: list[str], path: str) -> None:
    commands, error = read_path(tokens)
    assert error is None
    assert path_text(commands) == path


@pytest.mark.parametrize("letter", "MmLlHhVvCcSsQqTtAaZz")
def test_every_command_letter(letter: str) -> None:
    assert read_path([letter, "960", "0"]) == ([Command(letter, (960, 0))], None)


@pytest.mark.parametrize(
    "tokens",
    [
        ["5", "M"],
        ["M", "1.5", "2"],
        ["M", "x"],
        ["B", "1", "2"],
        ["M", "-", "-", "1"],
        ["M", "-", "-1"],
        ["M", "-", "L"],
        ["M", "1", "-"],
        ["M", "+1", "2"],
        ["M", "٣", "2"],
        ["MM"],
        ["M1"],
        ["-", "1"],
        ["M", "1_000", "2"],
    ],
)
def test_anything_else_is_an_error(tokens: list[str]) -> None:
    assert read_path(tokens)[1] is not None


def test_a_command_is_complete_when_the_next_one_begins() -> None:
    reader = PathReader()
    assert [reader.add(t) for t in ("M", "1", "2", "L")] == [None, None, None, Command("M", (1, 2))]
    assert reader.finish() == Command("L", ())
    assert reader.finish() is None


def outline(path: str, bbox: dict[str, float] = WHOLE) -> list[list[list[float]]]:
    commands, error = read_path(path.split())
    assert error is None
    return polygons(commands, bbox)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("M 0 0 L 960 0 L 960 480 Z", [[[0, 0], [1, 0], [1, 0.5]]]),
        ("M 0 0 L 960 0 960 480", [[[0, 0], [1, 0], [1, 0.5]]]),
        ("M 0 0 960 0 960 480", [[[0, 0], [1, 0], [1, 0.5]]]),
        ("M 96 96 l 96 0 l 0 96 z", [[[0.1, 0.1], [0.2, 0.1], [0.2, 0.2]]]),
        (
            "M 0 0 L 960 0 0 960 z m 96 96 l 96 0 0 96 z",
            [[[0, 0], [1, 0], [0, 1]], [[0.1, 0.1], [0.2, 0.1], [0.2, 0.2]]],
        ),
        ("M 0 0 L 2000 -960 0 960", [[[0, 0], [1, 0], [0, 1]]]),
        ("M 0 0 L 960 960", []),
        ("M 0 0 H 960 V 960 A 1 1 L 960 0 960 960", [[[0, 0], [1, 0], [1, 1]]]),
        ("", []),
    ],
    ids=["lines", "repeated", "after move", "relative", "two parts", "clipped", "no area", "lost arguments", "empty"],
)
def test_straight_outlines(path: str, expected: list[list[list[float]]]) -> None:
    found = outline(path)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == [pytest.approx(p) for p in theirs]


@pytest.mark.parametrize(
    ("path", "middle"),
    [
        ("M 0 0 Q 480 960 960 0", [0.5, 0.5]),
        ("M 0 0 C 0 960 960 960 960 0", [0.5, 0.75]),
        ("M 0 0 c 0 960 960 960 960 0", [0.5, 0.75]),
        ("M 0 0 L 0 0 S 960 960 960 0", [0.5, 0.375]),
    ],
)
def test_curves_pass_where_they_should(path: str, middle: list[float]) -> None:
    (points,) = outline(path)
    assert points[-1] == pytest.approx([1, 0])
    assert any(p == pytest.approx(middle) for p in points)


@pytest.mark.parametrize(
    ("smooth", "spelled"),
    [
        ("M 0 0 C 0 480 480 480 480 0 S 960 0 960 480", "M 0 0 C 0 480 480 480 480 0 C 480 -480 960 0 960 480"),
        ("M 0 0 Q 240 480 480 0 T 960 0", "M 0 0 Q 240 480 480 0 Q 720 -480 960 0"),
    ],
)
def test_smooth_curves_mirror_the_last_handle(smooth: str, spelled: str) -> None:
    assert outline(smooth) == outline(spelled)


def test_outlines_lie_in_their_box() -> None:
    (points,) = outline("M 0 0 L 960 0 960 960", BBOX)
    assert points == [[0.25, 0.0], [0.75, 0.0], [0.75, 0.5]]


# -- the skill --------------------------------------------------------------------------------------------------------


WORDS = {100 + i: w for i, w in enumerate(["M", "L", "Z", " 0", " 960", "-", "?", " "])}
IDS = {word.strip(): i for i, word in WORDS.items()}


def spell(text: str) -> list[Token]:
    return [Token(IDS[word]) for word in text.split()]


def svg_state(context: SkillContext) -> SvgState:
    return SvgState(context.config.tokenizer, lambda ids: "".join(WORDS[i] for i in ids))


def test_the_box_and_then_each_command_is_told_once_complete(context: SkillContext) -> None:
    state = svg_state(context)
    assert state.choice() == Choice(None)
    path = "M 0 0 L 960 0 L - 960 960 Z"
    told = feed(state, [*BOX, *spell(path), Token(EOS)])
    assert told == [
        {"bbox": BBOX},
        {"chunk": "M 0 0"},
        {"chunk": " L 1 0"},
        {"chunk": " L -1 1"},
        {"chunk": " Z"},
    ]
    result = state.result()
    assert result["path"] == "".join(piece["chunk"] for piece in told[1:]) == "M 0 0 L 1 0 L -1 1 Z"
    assert result["bbox"] == BBOX
    assert state.done
    assert "parse_error" not in result


def test_the_order_is_not_forced(context: SkillContext) -> None:
    state = svg_state(context)
    more = [Token(COORD, coord=0.9), Token(SIZE, width=1.0, height=1.0), Token(3), Token(20)]
    told = feed(state, [*spell("M 0 0 L 960 0"), BOX[2], *BOX[:2], *spell("L 960 960"), *more, Token(EOS)])
    assert told[0] == {"bbox": BBOX}
    assert state.result()["path"] == "M 0 0 L 1 0 L 1 1" == "".join(p["chunk"] for p in told[1:])
    assert state.result()["polygons"] == [[[0.25, 0.0], [0.75, 0.0], [0.75, 0.5]]]


def test_a_path_that_is_none_is_empty_with_its_text_and_the_reason(context: SkillContext) -> None:
    state = svg_state(context)
    feed(state, [*BOX, *spell("M 0 0 ? L 0 0"), Token(EOS)])
    result = state.result()
    assert (result["path"], result["polygons"], result["bbox"]) == ("", [], BBOX)
    assert result["text"] == "M 0 0?L 0 0"
    assert "'?'" in result["parse_error"]


@pytest.mark.parametrize("tokens", [[], BOX[:2], [BOX[2]], spell("M 0 0")])
def test_nothing_is_found_without_a_box(context: SkillContext, ask: Callable[..., Ask], tokens: list[Token]) -> None:
    plan = segment_plan(context, ask("segment", "cat"))
    next(plan)
    state = svg_state(context)
    assert feed(state, [*tokens, Token(EOS)]) == []
    assert finish(plan, [state.result()]) == {"path": "", "bbox": None, "polygons": [], "objects": []}


def test_the_answer_has_the_form_of_all_segments(context: SkillContext, ask: Callable[..., Ask]) -> None:
    plan = segment_plan(context, ask("segment", "cat", refs=BOX[:2]))
    (request,) = next(plan)
    assert [t.id for t in request.prompt] == [1, 18, 2, COORD, COORD, *(32 + b for b in b"cat"), 3]
    assert request.limit == 768
    state = svg_state(context)
    feed(state, [*BOX, *spell("M 0 0 L 960 0 L 960 960"), Token(EOS)])
    answer: Any = finish(plan, [state.result()])
    (found,) = answer["objects"]
    assert found == {k: answer[k] for k in ("path", "bbox", "polygons")} | {"score": 1.0}
    assert segment_end(answer) == {"path": "M 0 0 L 1 0 L 1 1", "bbox": BBOX, "completed": True}


@pytest.fixture(scope="module")
def speller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Photon]:
    """The recorded Moondream 3 with a prompt for segment and a liking for values: it spells boxes, not paths."""
    place = tmp_path_factory.mktemp("md3")
    tensors = load_file(folder("md3") / "model.safetensors")
    tensors["model.text.lm_head.bias"][[COORD, SIZE]] += 3.0
    save_file(tensors, place / "model.safetensors")
    (place / "tokenizer.json").symlink_to(folder("md3") / "tokenizer.json")
    config = read("md3", "config.json")
    config["tokenizer"]["templates"]["segment"] = {"prefix": [1, 18, 2], "suffix": [3]}
    (place / "config.json").write_text(json.dumps(config))
    with Photon.load(str(place), EngineConfig(device="cpu", threads=1, max_batch=4)) as model:
        yield model


def test_the_engine_spells_the_same_in_both_modes_and_streamed(speller: Photon) -> None:
    picture = speller.encode_image(image("md3"))
    boxes = 0
    for seed in range(4):
        settings = {"temperature": 1.0, "top_p": 1.0, "seed": seed, "max_tokens": 60}
        whole = speller.segment(picture, "cat", settings=settings)
        assert speller.segment(picture, "cat", settings=settings, pipelined=False) == whole
        pieces = list(speller.segment(picture, "cat", settings=settings, stream=True))
        assert pieces[-1] == {"path": whole["path"], "bbox": whole["bbox"], "completed": True}
        boxes += pieces[0] == {"bbox": whole["bbox"]}
        assert set(whole) >= {"path", "bbox", "polygons", "objects"}
    assert boxes, "no seed brought a box: this shows nothing"
