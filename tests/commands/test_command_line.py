"""`python -m photon`: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from PIL import Image

from photon import ModelLoadError, PictureLimits
from photon.__main__ import main
from photon.commands.draw import draw
from tests import recorded

OBJECT_SKILLS = ("point", "detect", "segment")
KEYS = {"point": {"points"}, "detect": {"objects"}, "segment": {"path", "bbox", "polygons", "objects"}}
RECORDED = str(recorded.folder("md2"))


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pictures") / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)).save(path)
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that succeeds prints, and nothing on stderr."""
    assert main(list(words)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


# -- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skill", OBJECT_SKILLS)
def test_json_is_the_result_in_either_mode(skill: str, picture: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = (skill, picture, "cat", "--json", "--max-objects", "2", "--threads", "1")
    result = json.loads(printed(capsys, *words))
    assert set(result) == KEYS[skill]
    assert len(result["points" if skill == "point" else "objects"]) <= 2
    assert json.loads(printed(capsys, *words, "--blocking")) == result


def test_without_json_a_person_reads_what_was_found_and_how_long_it_took(
    picture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    *found, times = printed(capsys, "point", picture, "cat", "--blocking", "--max-objects", "1").splitlines()
    assert found[0] in ("1 x cat", "No cat found.")
    assert times.startswith("blocking: ")
    assert "ms in all" in times


@pytest.mark.parametrize("skill", OBJECT_SKILLS)
def test_the_answer_is_drawn_on_the_picture(
    skill: str, picture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "drawn.png"
    printed(capsys, skill, picture, "cat", "--max-objects", "1", "--draw", str(out))
    with Image.open(out) as drawn:
        assert drawn.size == (80, 60)


def test_points_boxes_and_outlines_are_drawn_where_they_are() -> None:
    black = Image.new("RGB", (200, 100))
    corners = {"x_min": 0.1, "y_min": 0.2, "x_max": 0.5, "y_max": 0.8}
    triangle = [[0.1, 0.2], [0.5, 0.2], [0.1, 0.8]]
    for result, at in (
        ({"points": [{"x": 0.5, "y": 0.5, "score": 1.0}]}, (100, 50)),
        ({"objects": [{**corners, "score": 1.0}]}, (20, 50)),
        ({"objects": [{"bbox": corners, "polygons": [triangle]}]}, (60, 50)),
    ):
        drawn = draw(black, result)
        assert drawn.getpixel(at) != (0, 0, 0), result
        assert drawn.getpixel((190, 5)) == (0, 0, 0)
    assert black.getextrema() == ((0, 0),) * 3, "the picture itself stays as it is"


@pytest.mark.parametrize(
    ("words", "key"), [(("query", "{}", "What is it?"), "answer"), (("caption", "{}", "--length", "short"), "caption")]
)
def test_text_streams_to_the_terminal(
    words: tuple[str, ...], key: str, picture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    full = [word.format(picture) for word in words] + ["--model", RECORDED, "--max-tokens", "6", "--threads", "1"]
    result = json.loads(printed(capsys, *full, "--json"))
    assert set(result) == {key, "finish_reason"}
    assert result["finish_reason"] == "length"
    text, cut, times = printed(capsys, *full).rsplit("\n", 3)[:3]
    assert text == result[key]
    assert cut == "Cut: the answer reached its limit of tokens."
    assert times.startswith("pipelined: ")


def test_text_is_printed_piece_by_piece(picture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr("builtins.print", lambda *text, **options: written.append(f"{options.get('flush')}:{text[0]}"))
    assert main(["query", picture, "What?", "--model", RECORDED, "--max-tokens", "8", "--threads", "1"]) == 0
    pieces = [text for text in written if text.startswith("True:")]
    assert len(pieces) > 1


def test_reasoning_is_asked_for(picture: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("query", picture, "What?", "--model", RECORDED, "--max-tokens", "4", "--reasoning", "--json")
    assert set(json.loads(printed(capsys, *words))) == {"answer", "reasoning", "finish_reason"}


def test_a_photograph_of_a_phone_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (40, 20), "white").save(tmp_path / "phone.heic", "HEIF")
    assert "No cat found." in printed(capsys, "point", str(tmp_path / "phone.heic"), "cat")


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("point", "{picture}", " "), "name is empty"),
        (("detect", "{text}", "cat"), "is not a picture"),
        (("detect", "{folder}", "cat"), "cannot be read: Is a directory"),
        (("segment", "{folder}/none.png", "cat"), "There is no file"),
        (("point", "{huge}", "cat"), "far more than the 50 megapixels that are accepted"),
        (("point", "{picture}", "cat", "--model", "moondream9"), "no model 'moondream9'"),
        (("point", "{picture}", "cat", "--model", "{folder}"), "holds 0 weight files"),
        (("query", "{picture}", "What is it?"), "photon-tiny cannot query"),
        (("caption", "{picture}"), "photon-tiny cannot caption"),
        (("point", "{picture}", "xyzzyx"), "does not know the word 'xyzzyx'"),
        (("point", "{picture}", "cat", "--max-objects", "0"), "max_objects is 0"),
        (("point", "{picture}", "cat", "--threads", "0"), "threads is 0"),
        (("point", "{picture}", "cat", "--device", "abacus"), "'abacus'"),
        (("point", "{picture}", "cat", "--draw", "{folder}/out.nothing"), "cannot be written"),
        (("point", "{picture}", "cat", "--draw", "{folder}/none/out.png"), "cannot be written"),
        (("download", "moondream9"), "no model 'moondream9'"),
        (("download", "photon-tiny", "--revision", "main"), "no revisions"),
    ],
)
def test_refusals_are_one_sentence_and_exit_code_2(
    words: tuple[str, ...], says: str, picture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("This is text.")
    if any("huge" in word for word in words):
        Image.new("1", (20_000, 10_000)).save(tmp_path / "huge.png")
    places = {"picture": picture, "folder": tmp_path, "text": tmp_path / "notes.txt", "huge": tmp_path / "huge.png"}
    assert main([word.format(**places) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("photon: ")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["dance"], ["point"], ["caption", "a.png", "--length", "endless"]])
def test_what_is_not_a_command_shows_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "usage: python -m photon" in capsys.readouterr().err


def test_an_interruption_is_quiet(picture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: Path, limits: PictureLimits) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("photon.commands.verbs.read_picture", interrupted)
    assert main(["point", picture, "cat"]) == 130


# -- models -----------------------------------------------------------------------------------------------------------


def test_models_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    listed = json.loads(printed(capsys, "models", "--json"))
    assert {"name", "bytes", "skills", "on_disk", "fits", "reason"} < set(listed[0])
    text = printed(capsys, "models")
    for model in listed:
        (line,) = [line for line in text.splitlines() if line.startswith(model["name"] + " ")]
        name, size, unit, here, fits, skills = line.split(maxsplit=5)
        assert (name, unit, skills) == (model["name"], "GB", ", ".join(model["skills"]))
        assert float(size) == round(model["bytes"] / 1e9, 2)
        assert (here, fits) == tuple("yes" if model[key] else "no" for key in ("on_disk", "fits"))
        assert all(sentence in text for sentence in (model["reason"], *model["lacks"].values()))
    assert "python -m photon download sam2.1-small" in text


def test_download_prints_where_the_files_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("photon.commands.models.download", lambda name: Path("/cache") / name)
    assert printed(capsys, "download", "moondream2") == "moondream2 is in /cache/moondream2\n"
    words = ("download", "moondream2", "--revision", "2026-01-01")
    assert printed(capsys, *words) == "moondream2@2026-01-01 is in /cache/moondream2@2026-01-01\n"


def test_a_failed_download_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def offline(name: str) -> Path:
        raise ModelLoadError("The Hub is out of reach.")

    monkeypatch.setattr("photon.commands.models.download", offline)
    assert main(["download", "moondream2"]) == 2
    assert capsys.readouterr().err == "photon: The Hub is out of reach.\n"


# -- a process of its own ---------------------------------------------------------------------------------------------

HEAVY = ("torch", "transformers", "cv2", "huggingface_hub", "gradio", "fastapi", "app")


def run(*words: str) -> tuple[int, str, set[str]]:
    """(exit code, stdout, which of the HEAVY modules were imported)."""
    program = (
        "import sys, runpy; sys.argv = ['photon', *sys.argv[1:]]\n"
        "try: runpy.run_module('photon', run_name='__main__')\n"
        f"finally: print(*[m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, set(done.stderr.splitlines()[-1].split())


def test_help_names_every_command_and_waits_for_nothing() -> None:
    code, out, imported = run("--help")
    assert code == 0
    for command in (*OBJECT_SKILLS, "query", "caption", "models", "download"):
        assert f"\n    {command} " in out
    assert imported == set()


def test_a_mistyped_path_waits_for_nothing() -> None:
    code, _, imported = run("point", "none.png", "cat")
    assert code == 2
    assert imported == set()


def test_asking_imports_neither_the_page_nor_a_second_model(picture: str) -> None:
    code, out, imported = run("segment", picture, "cat", "--json", "--max-objects", "1")
    assert code == 0
    assert set(json.loads(out)) == KEYS["segment"]
    assert imported <= {"torch", "huggingface_hub", "cv2"}
