"""The verbs as the official client has them, what they refuse, and in which words."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from photon import ImageLike, InvalidRequestError, Photon, UnsupportedSkillError
from photon.core.settings import Settings
from tests.recorded import REFS, folder, image

REQUIRED = inspect.Parameter.empty
VERBS: dict[str, dict[str, Any]] = {
    "query": {
        "image": None,
        "question": None,
        "stream": False,
        "settings": None,
        "reasoning": False,
        "spatial_refs": None,
    },
    "caption": {"image": REQUIRED, "length": "normal", "stream": False, "settings": None},
    "point": {"image": REQUIRED, "object": REQUIRED, "settings": None, "spatial_refs": None},
    "detect": {"image": REQUIRED, "object": REQUIRED, "settings": None},
    "segment": {"image": REQUIRED, "object": REQUIRED, "spatial_refs": None, "stream": False, "settings": None},
    "encode_image": {"image": REQUIRED},
}
"""Arguments of the official client, in order, with their defaults."""


@pytest.mark.parametrize("name", [*VERBS, *(f"a{verb}" for verb in VERBS if verb != "encode_image")])
def test_verbs_take_the_official_arguments(name: str) -> None:
    parameters = list(inspect.signature(getattr(Photon, name)).parameters.values())[1:]
    official = VERBS.get(name) or VERBS[name.removeprefix("a")]
    ours = {p.name: p.default for p in parameters[: len(official)]}
    assert list(ours.items()) == list(official.items())
    assert all(p.default is not REQUIRED for p in parameters[len(official) :])


def test_a_picture_stays_what_it_was_when_it_was_handed_over(model: Photon) -> None:
    pixels = np.zeros((30, 40, 3), np.uint8)
    handle = model.encode_image(pixels)
    pixels[:] = 255
    assert handle.pixels.max() == 0
    assert handle.key == model.encode_image(np.zeros((30, 40, 3), np.uint8)).key


def test_pictures_of_any_depth_and_transparency_are_taken(model: Photon) -> None:
    deep = Image.fromarray(np.array([[0, 20_000, 65_535]], np.uint16))
    assert model.encode_image(deep).pixels[0, :, 0].tolist() == [0, 78, 255]
    assert model.encode_image(Image.new("RGBA", (4, 4), (255, 0, 0, 0))).pixels.min() == 255


def test_the_engine_takes_nothing_with_it_that_it_refused(model: Photon, picture: ImageLike) -> None:
    before = model.stats()
    with pytest.raises(InvalidRequestError):
        model.point(picture, "cat", settings={"temperature": 3})
    after = model.stats()
    assert (after["requests"], after["pages"]) == (before["requests"], before["pages"])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperature": -0.1}, "temperature is -0.1; allowed is 0 to 2."),
        ({"temperature": 2.01}, "temperature is 2.01; allowed is 0 to 2."),
        ({"temperature": float("nan")}, "temperature is nan; allowed is 0 to 2."),
        ({"temperature": "hot"}, "temperature is 'hot'; allowed is 0 to 2."),
        ({"temperature": True}, "temperature is True; allowed is 0 to 2."),
        ({"top_p": 0}, "top_p is 0; allowed is more than 0 and at most 1."),
        ({"top_p": 1.5}, "top_p is 1.5; allowed is more than 0 and at most 1."),
        ({"top_p": float("inf")}, "top_p is inf; allowed is more than 0 and at most 1."),
        ({"max_tokens": 0}, "max_tokens is 0; allowed are whole numbers from 1 to 2048."),
        ({"max_tokens": 2049}, "max_tokens is 2049; allowed are whole numbers from 1 to 2048."),
        ({"max_tokens": 1.0}, "max_tokens is 1.0; allowed are whole numbers from 1 to 2048."),
        ({"max_objects": 0}, "max_objects is 0; allowed are whole numbers from 1 to 150."),
        ({"max_objects": 151}, "max_objects is 151; allowed are whole numbers from 1 to 150."),
        ({"max_objects": False}, "max_objects is False; allowed are whole numbers from 1 to 150."),
        ({"seed": -1}, f"seed is -1; allowed are whole numbers from 0 to {2**63 - 1}."),
        ({"logprobs": 1}, "logprobs is 1; allowed are true and false."),
        ({"variant": 7}, "variant is 7; allowed is the name of an adapter."),
        ({"variant": "x@1"}, "There is no adapter 'x@1'; known adapters: none has been added."),
        ({"heat": 1}, "The setting 'heat' is not known; allowed are temperature, top_p, max_tokens, "),
        ("hot", "settings is 'hot'; allowed is a dictionary of temperature, "),
        ([1], "settings is [1]; allowed is a dictionary of temperature, "),
    ],
)
def test_values_outside_their_range_are_refused(
    model: Photon, picture: ImageLike, settings: Any, sentence: str
) -> None:
    for ask in (
        lambda: model.point(picture, "cat", settings=settings),
        lambda: model.query(question="Why?", settings=settings),
        lambda: model.caption(picture, settings=settings, stream=True),
        lambda: asyncio.run(model.adetect(picture, "cat", settings=settings)),
    ):
        with pytest.raises(InvalidRequestError) as refused:
            ask()
        assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    "settings",
    [
        None,
        {},
        {"temperature": 0, "top_p": 1, "max_tokens": 1, "max_objects": 1},
        {"temperature": 2.0, "top_p": 1e-6, "max_tokens": 2048, "max_objects": 150, "seed": 2**63 - 1},
        {"temperature": np.float32(0.5), "max_tokens": np.int64(5), "logprobs": True},
        {"temperature": None, "top_p": None, "max_tokens": None, "max_objects": None, "seed": None, "variant": None},
    ],
)
def test_values_at_the_edge_of_their_range_are_taken(settings: dict[str, Any] | None) -> None:
    Settings.parse(settings, context=2048)


def test_defaults_are_those_of_the_table() -> None:
    defaults = Settings.parse(None)
    assert (defaults.sampling.temperature, defaults.sampling.top_p) == (0.0, 0.3)
    assert (defaults.max_tokens, defaults.max_objects, defaults.logprobs, defaults.adapter) == (None,) * 2 + (
        False,
        None,
    )


def test_a_seed_repeats_an_answer_and_its_absence_does_not(model: Photon, picture: ImageLike) -> None:
    hot = {"temperature": 2.0, "top_p": 1.0, "max_tokens": 12}
    ask = lambda **more: model.caption(picture, settings=hot | more)["caption"]  # noqa: E731
    assert ask(seed=5) == ask(seed=5)
    assert len({ask(seed=5), ask(seed=6), ask(), ask()}) == 4


def test_a_drawn_answer_does_not_depend_on_its_mates(model: Photon, picture: ImageLike) -> None:
    def settings(seed: int) -> dict[str, Any]:
        return {"temperature": 1.0, "top_p": 0.9, "max_tokens": 10, "max_objects": 3, "seed": seed}

    async def together() -> list[Any]:
        captions = [model.acaption(picture, settings=settings(seed)) for seed in range(3)]
        return await asyncio.gather(*captions, model.apoint(picture, "cat", settings=settings(9)))

    alone = [model.caption(picture, settings=settings(seed), pipelined=False) for seed in range(3)]
    assert asyncio.run(together()) == [*alone, model.point(picture, "cat", settings=settings(9), pipelined=False)]


def test_coordinates_are_drawn_at_a_temperature(model: Photon, picture: ImageLike) -> None:
    hot = {"temperature": 2.0, "top_p": 1.0, "max_objects": 2}
    boxes = [model.detect(picture, "cat", settings=hot | {"seed": seed})["objects"] for seed in range(6)]
    flat = {tuple(box.values()) for found in boxes for box in found}
    assert len(flat) == sum(map(len, boxes)) > 1


@pytest.mark.parametrize("name", ["", "  ", None, 5, ["cat"]])
def test_an_object_without_a_name_is_refused(model: Photon, picture: ImageLike, name: Any) -> None:
    for verb in (model.point, model.detect):
        with pytest.raises(InvalidRequestError, match="name is empty"):
            verb(picture, name)


@pytest.mark.parametrize("question", [None, "", " "])
def test_a_query_without_a_question_is_refused(model: Photon, picture: ImageLike, question: Any) -> None:
    with pytest.raises(InvalidRequestError, match="question is empty"):
        model.query(picture, question)
    with pytest.raises(ValueError, match="question"):
        model.query()


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (lambda m, p: m.query(p, "Why?", reasoning="yes"), "reasoning is 'yes'; allowed are true and false."),
        (lambda m, p: m.query(p, "Why?", stream=1), "stream is 1; allowed are true and false."),
        (lambda m, p: m.point(p, "cat", pipelined="off"), "pipelined is 'off'; allowed are true and false."),
        (lambda m, p: m.caption(p, "medium"), "length is 'medium'; allowed are short, normal, long."),
        (lambda m, p: m.query(question="Why?", spatial_refs=REFS), "spatial_refs point into a picture; give an image"),
        (lambda m, p: m.point(p, "cat", spatial_refs=[[2, 0]]), "The spatial reference [2, 0] cannot be used; allowed"),
        (lambda m, p: m.caption(None), "The image is NoneType; allowed are a PIL image, "),
        (lambda m, p: m.point("cat.png", "cat"), "The image is str; allowed are a PIL image, "),
        (lambda m, p: m.point(np.zeros((4, 4)), "cat"), "The image is float64 (4, 4); allowed are a PIL image, "),
        (lambda m, p: m.point(np.zeros((0, 4, 3), np.uint8), "cat"), "The image has the shape (0, 4, 3); it needs"),
        (lambda m, p: m.query(p, "x" * 2000), "The prompt ("),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(
    model: Photon, picture: ImageLike, what: Any, sentence: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        what(model, picture)
    assert str(refused.value).startswith(sentence)


def test_an_image_may_come_in_any_of_its_forms(model: Photon, picture: ImageLike) -> None:
    file = image("md2")
    forms = [file, np.asarray(file), picture, model.encode_image(picture), Image.fromarray(np.asarray(file))]
    settings = {"max_tokens": 4}
    answers = [model.query(form, "Why?", settings=settings) for form in forms]
    answers += [model.query(form, "Why?", settings=settings, spatial_refs=REFS) for form in forms[:1] + forms[2:3]]
    assert all(answer == answers[0] for answer in answers[:5])
    assert answers[5] == answers[6]
    assert model.stats()["requests"]["failed"] == 0


def test_max_tokens_and_max_objects_are_kept(model: Photon, picture: ImageLike) -> None:
    assert model.caption(picture, settings={"max_tokens": 3}).metrics.tokens == 3
    assert len(model.point(picture, "cat", settings={"max_objects": 2})["points"]) <= 2
    assert model.point(picture, "cat", settings={"max_tokens": 1})["points"] == []


@pytest.fixture(scope="module")
def tiny() -> Iterator[Photon]:
    with Photon.load("photon-tiny") as model:
        yield model


def test_a_skill_that_the_model_lacks_is_refused(tiny: Photon) -> None:
    for ask in (lambda: tiny.query(question="Why?"), lambda: tiny.caption(np.zeros((4, 4, 3), np.uint8))):
        with pytest.raises(
            UnsupportedSkillError, match=r"photon-tiny cannot (query|caption); it can point, detect, seg"
        ):
            ask()
    assert tiny.skills == ("point", "detect", "segment")


def test_segment_streams_in_the_official_form(tiny: Photon) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    assert tiny.vocabulary is not None
    name, refs = tiny.vocabulary.names[0], [[0.5, 0.5]]
    pieces = list(tiny.segment(pixels, name, spatial_refs=refs, stream=True))
    whole = tiny.segment(pixels, name, spatial_refs=refs)
    assert list(pieces[0]) == ["bbox"]
    assert pieces[-1] == {"path": whole["path"], "bbox": whole["bbox"], "completed": True}
    rough = "".join(piece["chunk"] for piece in pieces[1:-1])
    assert tiny.context.config.tokenizer.segment_vertices == 16
    assert re.fullmatch(r"M( [01](\.\d+)?){2}( L( [01](\.\d+)?){2}){15} Z", rough), "vertices in 0..1 of the box"
    assert len(whole["objects"]) == 1


def test_the_folder_of_a_checkpoint_names_the_model(model: Photon) -> None:
    assert model.describe()["model"] == folder("md2").name


def test_the_prompts_tokens_are_counted_with_the_pictures(model: Photon, picture: ImageLike) -> None:
    config, tokenizer = model.context.config, model.context.tokenizer
    short = {"max_tokens": 2}
    described = model.caption(picture, length="short", settings=short).metrics
    assert described.prompt_tokens == config.prefix_len + len(config.tokenizer.templates["caption"]["short"])
    assert described.tokens <= 2
    template = config.tokenizer.templates["query"]
    asked = model.query(question="Why?", settings=short).metrics
    words = len(tokenizer.encode("Why?"))
    assert asked.prompt_tokens == 1 + len(template["prefix"]) + words + len(template["suffix"])
