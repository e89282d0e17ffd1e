"""config.json: what is read, what is computed from it, what is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from photon.errors import ModelLoadError
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.published import MOONDREAM_2, MOONDREAM_3, MOONDREAM_HALF
from tests.paths import PARITY


def raw(name: str = "md3") -> dict[str, Any]:
    data: dict[str, Any] = json.loads((PARITY / name / "config.json").read_text())
    return data


@pytest.mark.parametrize("config", [MOONDREAM_2, MOONDREAM_3, MOONDREAM_HALF], ids=["2", "3", "0.5B"])
def test_public_sizes(config: MoondreamConfig) -> None:
    assert config.text.head_dim == 64
    assert config.text.rotary_dim == 32
    assert config.text.n_kv_heads == config.text.n_heads
    assert config.text.qkv_dim == 3 * config.text.dim
    assert config.vision.enc_dim // config.vision.enc_n_heads == 72
    assert config.vision.n_tokens == 729
    assert config.prefix_len == 730
    assert config.region.coord_bins == config.region.size_bins == 1024


def test_public_skills() -> None:
    assert set(MOONDREAM_2.skills) == {"query", "caption", "detect", "point"}
    assert set(MOONDREAM_3.skills) == {"query", "caption", "detect", "point", "segment"}


@pytest.mark.parametrize("name", ["md2", "md3"])
def test_reading_and_writing_are_inverse(name: str) -> None:
    config = MoondreamConfig.from_dict(raw(name))
    assert MoondreamConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("config", [MOONDREAM_2, MOONDREAM_3, MOONDREAM_HALF], ids=["2", "3", "0.5B"])
def test_public_configurations_survive_json(config: MoondreamConfig) -> None:
    assert MoondreamConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_moondream_3_section() -> None:
    config = MoondreamConfig.from_dict(raw())
    assert config.text.tau
    assert config.text.rope_theta == 1_500_000.0
    assert [config.text.is_moe(layer) for layer in range(3)] == [False, True, True]
    assert config.region.linear_heads
    assert config.region.norm


def test_image_tokens_may_differ_from_patches() -> None:
    data = raw("md2")
    data["vision"]["n_tokens"] = 144
    del data["text"]["prefix_attn"]
    assert MoondreamConfig.from_dict(data).prefix_len == 145


def change(path: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(raw())
    *parents, last = path.split(".")
    place = data
    for parent in parents:
        place = place[parent]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("text.dim", None, "section text: dim"),
        ("vision", None, "no section 'vision'"),
        ("text.colour", 3, "section text: colour"),
        ("md3.colour", 3, "section md3: colour"),
        ("md3.moe.num_experts", None, "section md3.moe: num_experts"),
        ("md3.tau_gelu", "relu", "'relu'"),
        ("text.n_heads", 3, "3 heads"),
        ("text.rotary_dim", 7, "rotary_dim is 7"),
        ("text.prefix_attn", 729, "prefix_attn 729"),
        ("region.dim", 64, "region width 64"),
        ("text.dim", "128", "dim '128' in section text"),
        ("text.n_layers", 2.5, r"n_layers 2\.5 in section text"),
        ("text.n_heads", True, "n_heads True in section text"),
        ("text.n_heads", 0, "0 heads"),
        ("text.ff_dim", -1, "ff_dim -1 in section text"),
        ("vision.enc_n_heads", 5, "5 heads"),
        ("vision.enc_n_heads", 0, "0 heads"),
        ("tokenizer.eos_id", "0", "eos_id '0' in section tokenizer"),
        ("md3.moe", 8, "no section 'md3.moe'"),
        ("md3.moe.experts_per_token", 0, "0 of "),
        ("md3.moe.num_experts", 1, " of 1 experts"),
        ("md3.moe.num_experts", "8", "num_experts '8' in section md3.moe"),
    ],
)
def test_a_bad_configuration_is_refused(path: str, value: Any, says: str) -> None:
    with pytest.raises(ModelLoadError, match=says):
        MoondreamConfig.from_dict(change(path, value))
