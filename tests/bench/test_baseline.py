"""The plain loop generates what the engine generates, and the reports that compare their times have their form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from photon import EngineConfig, Photon
from photon.bench.__main__ import main
from photon.bench.baseline import WORKLOADS, requests
from photon.bench.clients import compared, pictures, put
from photon.bench.fixed import single
from photon.bench.plain import PlainLoop
from tests.bench.conftest import MODEL

OPTIONS = ["--model", MODEL, "--threads", "1", "--rounds", "1"]


@pytest.fixture
def model() -> Iterator[Photon]:
    with Photon.load(MODEL, EngineConfig(device="cpu", threads=1, max_batch=4)) as loaded:
        yield loaded


@pytest.mark.parametrize("keep_prefixes", [False, True])
def test_the_plain_loop_generates_the_engines_tokens(model: Photon, folder: Path, keep_prefixes: bool) -> None:
    rgb = pictures(folder, 3)
    loop = PlainLoop(model.parts.loaded.model, keep_prefixes)
    plain = [[loop.generate(request)] for request in requests(model, WORKLOADS[1], rgb, "plain")]
    engine = put(model, [lambda r=r: single(r) for r in requests(model, WORKLOADS[1], rgb, "engine")], callers=3)
    alone = [lambda r=r: single(r) for r in requests(model, WORKLOADS[1], rgb, "alone", "blocking")]
    verdicts = compared(model, plain, engine.tokens, alone)
    assert verdicts.answers_equal
    assert verdicts.equal + verdicts.tied == 3


def test_a_loop_that_keeps_prefixes_computes_each_picture_once(model: Photon, folder: Path) -> None:
    runs: list[int] = []
    vision = model.parts.loaded.model.vision
    handle = vision.register_forward_hook(lambda *_: runs.append(1))
    for keep, expected in ((False, 3), (True, 1)):
        runs.clear()
        loop = PlainLoop(model.parts.loaded.model, keep)
        for request in requests(model, WORKLOADS[1], pictures(folder, 3), f"{keep}"):
            loop.generate(request)
        assert len(runs) == expected
    handle.remove()


def test_fixed_requests_generate_three_tokens_an_object_and_eos(model: Photon, folder: Path) -> None:
    ids = model.context.config.tokenizer
    for workload in WORKLOADS:
        (request,) = requests(model, workload, pictures(folder, 1), "lengths")
        with torch.inference_mode():
            tokens = PlainLoop(model.parts.loaded.model).generate(request)
        kinds = [ids.coord_id, ids.coord_id, ids.size_id] * workload.objects
        assert [t.id for t in tokens] == [*kinds, ids.eos_id]


def test_the_baseline_report_has_the_agreed_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--images", str(folder), "--requests", "2", "--concurrency", "1,2", "--json"]
    assert main(["baseline", *OPTIONS, *options]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert [(r["workload"], r["concurrency"]) for r in rows] == [
        (name, callers) for name in ("distinct", "shared", "long") for callers in (1, 2)
    ]
    for row in rows:
        assert row.keys() >= {"speedup", "speedup_over_caching_loop", "answers_equal"}
        assert row["answers_equal"] is True
        assert sum(row["answers"].values()) == 2


def test_the_prefix_report_counts_one_vision_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--images", str(folder), "--questions", "3", "--json"]
    assert main(["prefix", *OPTIONS, *options]) == 0
    (row,) = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert row["questions"] == 3
    assert row["vision_runs"] == 1
    assert row["answers_equal"] is True
    assert row.keys() >= {"model", "time_over_ideal", "speedup_over_separate_images"}


def test_one_question_shares_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prefix", *OPTIONS, "--questions", "1"]) == 2
    assert "allowed are numbers from 2" in capsys.readouterr().err
