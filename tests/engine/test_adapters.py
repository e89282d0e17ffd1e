"""LoRA through the real engine: what an adapter adds, who gets it, and which files are refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from photon import EngineConfig, InvalidRequestError, ModelLoadError, Photon
from photon.devices.cpu import CpuDevice
from photon.models.moondream.config import TextConfig
from photon.models.moondream.lora import Adapter, make_adapter
from photon.models.moondream.reference import FullAttention
from photon.models.moondream.text import TextDecoder
from photon.models.registry import load_model
from photon.runtime.adapter_bank import AdapterBank
from tests.paths import PARITY

RANK = 8


def text_config(name: str) -> TextConfig:
    return load_model(str(PARITY / name), torch.device("cpu"), torch.float32).model.config.text


def finetune(config: TextConfig, seed: int) -> dict[str, Tensor]:
    """Random weights in the MLP-only form (docs/model.md 8.2)."""
    torch.manual_seed(seed)
    first = config.moe.start_layer if config.moe else config.n_layers
    state: dict[str, Tensor] = {}
    for layer in range(first):
        for site, inputs, outputs in (("up", config.dim, config.ff_dim), ("down", config.ff_dim, config.dim)):
            state[f"text_lora.dense.{layer}.{site}_a"] = torch.randn(RANK, inputs) * 0.1
            state[f"text_lora.dense.{layer}.{site}_b"] = torch.randn(outputs, RANK) * 0.1
    if config.moe:
        experts, inner = config.moe.num_experts, config.moe.expert_inner_dim
        for j in range(config.n_layers - first):
            for site, inputs, outputs in (("up", config.dim, 2 * inner), ("down", inner, config.dim)):
                state[f"text_lora.moe.{j}.{site}_a"] = torch.randn(experts, RANK // 8, inputs) * 0.1
                state[f"text_lora.moe.{j}.{site}_b"] = torch.randn(experts, outputs, RANK // 8) * 0.1
    return state


def variant(config: TextConfig, seed: int) -> dict[str, Tensor]:
    """Random weights in the form of the older variants, under their published names (docs/model.md 8.1)."""
    torch.manual_seed(seed)
    sizes = {
        "mixer.Wqkv": (config.dim, config.qkv_dim),
        "mixer.out_proj": (config.dim, config.dim),
        "mlp.fc1": (config.dim, config.ff_dim),
        "mlp.fc2": (config.ff_dim, config.dim),
    }
    state: dict[str, Tensor] = {}
    for layer in range(config.n_layers):
        for site, (inputs, outputs) in sizes.items():
            stem = f"text_model.transformer.h.{layer}.{site}.parametrizations.weight.0"
            state[f"{stem}.A"] = torch.randn(4, inputs) * 0.1
            state[f"{stem}.B"] = torch.randn(outputs, 4) * 0.1
    return state


def merged(text: TextDecoder, state: dict[str, Tensor]) -> TextDecoder:
    """A decoder whose weights hold the MLP-only adapter: W + B A."""
    out = copy.deepcopy(text)
    with torch.no_grad():
        for key in [k for k in state if k.endswith("_a")]:
            _, kind, index, site = key.split(".")
            layer = int(index) + (text.config.moe.start_layer if kind == "moe" and text.config.moe else 0)
            block = out.blocks[layer].mlp  # type: ignore[union-attr]
            linear: nn.Linear = block.fc1 if site == "up_a" else block.fc2  # type: ignore[union-attr,assignment]
            linear.weight += state[key.replace("_a", "_b")] @ state[key]
    return out


def load(bank: AdapterBank, slot: int, adapter: Adapter) -> None:
    packed = adapter.packed(torch.float32, lambda tensor: tensor)
    bank.add(packed)
    bank.load(slot, packed)


@pytest.mark.parametrize("name", ["md2", "md3"])
def test_rows_of_one_batch_use_different_adapters_as_if_merged(name: str) -> None:
    loaded = load_model(str(PARITY / name), torch.device("cpu"), torch.float32)
    text, config = loaded.model.text, loaded.model.config.text
    states = [finetune(config, seed) for seed in (1, 2)]
    bank = AdapterBank(config, 3, RANK, CpuDevice(), torch.float32)
    for slot, state in enumerate(states, start=1):
        load(bank, slot, make_adapter("a", state, config, RANK))
    x = torch.randn(4, 5, config.dim)
    positions = torch.arange(5).expand(4, -1)
    with torch.inference_mode():
        mixed = text(x, positions, FullAttention(0), bank.batch(torch.tensor([0, 2, 1, 2])))
        for row, decoder in enumerate(
            [text, merged(text, states[1]), merged(text, states[0]), merged(text, states[1])]
        ):
            alone = decoder(x[row : row + 1], positions[:1], FullAttention(0))
            torch.testing.assert_close(mixed[row : row + 1], alone, atol=2e-5, rtol=0)
    assert (mixed[1] - mixed[0]).abs().max() > 1e-2


def test_a_slot_loaded_anew_holds_nothing_of_its_last_adapter() -> None:
    config = text_config("md2")
    bank = AdapterBank(config, 1, RANK, CpuDevice(), torch.float32)
    load(bank, 1, make_adapter("attention too", variant(config, 3), config, RANK))
    load(bank, 1, make_adapter("mlp only", finetune(config, 1), config, RANK))
    batch = bank.batch(torch.tensor([1]))
    assert batch is not None
    delta = batch.delta(0, "qkv", torch.randn(1, 2, config.dim))
    assert delta is not None
    assert delta.abs().max() == 0


def test_variants_reach_every_projection_and_keep_the_reference_input_of_proj() -> None:
    config = text_config("md2")
    adapter = make_adapter("v", variant(config, 4), config, RANK)
    assert {site for _, site in adapter.sites} == {"qkv", "proj", "fc1", "fc2"}
    bank = AdapterBank(config, 1, RANK, CpuDevice(), torch.float32)
    load(bank, 1, adapter)
    batch = bank.batch(torch.tensor([1]))
    assert not getattr(batch, "exact_proj", False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Photon]:
    folder = tmp_path_factory.mktemp("adapters")
    config = text_config("md2")
    with Photon.load(str(PARITY / "md2"), EngineConfig(device="cpu", max_adapters=1, parity=True)) as model:
        for name, seed in (("one", 1), ("two", 2)):
            torch.save({"lora_state_dict": finetune(config, seed)}, folder / f"{name}.pt")
            model.add_adapter(name, folder / f"{name}.pt")
        yield model


def test_adapters_share_one_slot_in_turn_and_answers_depend_on_them_alone(model: Photon) -> None:
    image = np.random.default_rng(0).integers(0, 255, (100, 100, 3), dtype=np.uint8)

    def ask(adapter: str | None) -> list[dict[str, float]]:
        settings = {"max_objects": 3} | ({"variant": adapter} if adapter else {})
        return list(model.point(image, "A", settings=settings)["points"])

    alone = {name: ask(name) for name in (None, "one", "two")}
    assert alone["one"] != alone["two"]
    assert [ask(name) for name in ("two", None, "one", "two")] == [alone[name] for name in ("two", None, "one", "two")]


def test_an_unknown_adapter_is_refused_before_queueing(model: Photon) -> None:
    with pytest.raises(InvalidRequestError, match="no adapter 'three'; known adapters: one, two"):
        model.point(np.zeros((8, 8, 3), np.uint8), "A", settings={"variant": "three"})


def test_adapter_files_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    config = text_config("md2")
    good = finetune(config, 1)

    def refuse(state: dict[str, Tensor], match: str, rank: int = RANK) -> None:
        with pytest.raises(ModelLoadError, match=match):
            make_adapter("bad", state, config, rank)

    refuse({}, "empty")
    refuse({k: v for k, v in good.items() if not k.endswith("1.up_b")}, "only one half of fc1 in layer 1")
    refuse({k: v for k, v in good.items() if ".1.up_" not in k}, "lacks fc1 of layer 1")
    refuse(
        good | {"dense.9.up_a": torch.zeros(RANK, config.dim), "dense.9.up_b": torch.zeros(config.ff_dim, RANK)},
        "names layer 9",
    )
    refuse(good | {"vision.x": torch.zeros(1)}, "belongs to no projection")
    refuse(good | {"text_lora.dense.0.up_a": torch.zeros(RANK, 3)}, "expected")
    refuse(good, "rank 8 .* up to 4 fits", rank=4)
    for value in (float("nan"), float("inf")):
        name = next(key for key in good if key.endswith("1.up_b"))
        refuse(good | {name: torch.full_like(good[name], value)}, "fc1 of layer 1 that are no numbers")


def test_a_damaged_or_missing_adapter_file_is_refused(model: Photon, tmp_path: Path) -> None:
    for name in ("broken.pt", "broken.safetensors"):
        (tmp_path / name).write_bytes(b"no weights at all")
    for name in ("broken.pt", "broken.safetensors", "missing.pt", "missing.safetensors"):
        with pytest.raises(ModelLoadError, match=name):
            model.add_adapter("x", tmp_path / name)
