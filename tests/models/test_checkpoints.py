"""Reading checkpoints: naming families, shards, quantised forms, and what is refused with which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from photon.errors import ModelLoadError
from photon.models.moondream import checkpoint
from photon.models.moondream.checkpoint import Checkpoint
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.names import our_names
from photon.models.moondream.published import MOONDREAM_2, MOONDREAM_3, MOONDREAM_HALF, recognised
from photon.models.moondream.weights import check, plan
from photon.models.registry import load_model
from tests.models.checkpoint_files import CPU, as_family_b_of_three, folder_with, parameters, same, stored
from tests.paths import PARITY


def test_family_a_loads_as_it_is() -> None:
    wanted = {name.removeprefix("model."): tensor for name, tensor in stored().items()}
    assert same(parameters(PARITY / "md2"), wanted)


def test_a_weight_file_takes_its_neighbours() -> None:
    assert same(parameters(PARITY / "md2" / "model.safetensors"), parameters(PARITY / "md2"))


def test_a_loaded_model_is_named_in_its_dtype_and_without_gradients() -> None:
    loaded = load_model(str(PARITY / "md2"), CPU, torch.bfloat16)
    assert loaded.name == "md2"
    assert loaded.vocabulary is None
    assert {p.dtype for p in loaded.model.parameters()} == {torch.bfloat16}
    assert loaded.model.text.rope_cos.dtype == torch.float32
    assert not any(p.requires_grad for p in loaded.model.parameters())
    assert not loaded.model.training


def test_family_b_loads_to_the_same_parameters(tmp_path: Path) -> None:
    """legacy_names.json was found by comparing the values of two files of one model, not from our rules."""
    names: dict[str, str] = json.loads((PARITY / "md2" / "legacy_names.json").read_text())
    family_a = stored()
    legacy = {old: family_a["model." + new] for old, new in names.items()}
    for old in ("region_model.coordinate_features.weight", "region_model.size_features.weight"):
        legacy[old] = legacy[old].T
    assert same(parameters(folder_with(tmp_path, legacy)), parameters(PARITY / "md2"))


def test_family_b_of_moondream_3(tmp_path: Path) -> None:
    legacy = as_family_b_of_three(stored("md3"))
    assert same(parameters(folder_with(tmp_path, legacy, "md3")), parameters(PARITY / "md3"))


def test_compiled_residue_is_stripped(tmp_path: Path) -> None:
    tensors = {name.replace("model.text.", "model.text._orig_mod."): tensor for name, tensor in stored().items()}
    assert same(parameters(folder_with(tmp_path, tensors)), parameters(PARITY / "md2"))


def test_two_names_for_one_parameter_are_refused() -> None:
    with pytest.raises(ModelLoadError, match=r"same parameter text\.wte"):
        our_names(["model.text.wte", "model.text._orig_mod.wte"])


def test_shards_load_through_their_index(tmp_path: Path) -> None:
    tensors = stored()
    folder = folder_with(tmp_path, None)
    homes = {name: f"model-0000{1 + (i % 2)}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for shard in set(homes.values()):
        save_file({name: tensors[name] for name, home in homes.items() if home == shard}, folder / shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": homes}))
    assert same(parameters(folder), parameters(PARITY / "md2"))
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelLoadError, match="model-00002-of-00002"):
        parameters(folder)


def shards_with(tmp_path: Path, change: dict[str, Any]) -> Path:
    """The recorded model in two shards, and an index of them with changed homes."""
    tensors = stored()
    folder = folder_with(tmp_path, None)
    homes: dict[str, Any] = {name: f"{i % 2}.safetensors" for i, name in enumerate(tensors)}
    for shard in set(homes.values()):
        save_file({name: tensors[name] for name, home in homes.items() if home == shard}, folder / shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": homes | change}))
    return folder


@pytest.mark.parametrize("home", ["2.safetensors", "../model/0.safetensors", "/etc/passwd", 7, None])
def test_an_index_names_only_files_beside_it(tmp_path: Path, home: object) -> None:
    folder = shards_with(tmp_path, {"model.text.wte": home})
    says = r"no weight file .*2\.safetensors" if home == "2.safetensors" else r"puts the tensor model\.text\.wte into"
    with pytest.raises(ModelLoadError, match=says):
        parameters(folder)


def test_an_index_may_not_promise_what_its_shards_lack(tmp_path: Path) -> None:
    folder = shards_with(tmp_path, {"model.text.blocks.9.ln.bias": "1.safetensors"})
    with pytest.raises(
        ModelLoadError, match=r"the tensor model\.text\.blocks\.9\.ln\.bias into 1\.safetensors; it is not"
    ):
        parameters(folder)


def test_a_cut_off_shard_is_named(tmp_path: Path) -> None:
    folder = shards_with(tmp_path, {})
    (folder / "1.safetensors").write_bytes((folder / "1.safetensors").read_bytes()[:-1])
    with pytest.raises(ModelLoadError, match=r"1\.safetensors is damaged"):
        parameters(folder)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    folder = shards_with(tmp_path, {})
    both = load_file(folder / "0.safetensors") | {"model.text.wte": stored()["model.text.wte"]}
    other = load_file(folder / "1.safetensors") | {"model.text.wte": stored()["model.text.wte"]}
    save_file(both, folder / "0.safetensors")
    save_file(other, folder / "1.safetensors")
    with pytest.raises(ModelLoadError, match=r"model\.text\.wte stands in .*0\.safetensors and in .*1\.safetensors"):
        parameters(folder)


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.float8_e5m2, torch.complex64])
def test_an_unknown_dtype_is_named_with_its_tensor(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = stored()
    tensors["model.text.blocks.1.ln.bias"] = tensors["model.text.blocks.1.ln.bias"].to(dtype)
    folder = folder_with(tmp_path, tensors)
    with pytest.raises(ModelLoadError, match=r"model\.text\.blocks\.1\.ln\.bias in .*model\.safetensors has the dtype"):
        parameters(folder)
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "model.pt")
    with pytest.raises(ModelLoadError, match=r"model\.text\.blocks\.1\.ln\.bias in .*model\.pt has the dtype"):
        parameters(folder)


def test_bytes_are_no_weights(tmp_path: Path) -> None:
    tensors = stored()
    tensors["model.text.blocks.1.ln.bias"] = tensors["model.text.blocks.1.ln.bias"].to(torch.uint8)
    with pytest.raises(ModelLoadError, match=r"model\.text\.blocks\.1\.ln\.bias .*whole numbers"):
        parameters(folder_with(tmp_path, tensors))


def test_wider_and_narrower_numbers_become_the_models(tmp_path: Path) -> None:
    tensors = {
        name: tensor.to((torch.float64, torch.bfloat16, torch.float16)[i % 3])
        for i, (name, tensor) in enumerate(stored().items())
    }
    got = parameters(folder_with(tmp_path, tensors))
    assert {tensor.dtype for tensor in got.values()} == {torch.float32}
    for name, tensor in tensors.items():
        assert torch.equal(got[name.removeprefix("model.")], tensor.float())


def test_files_are_mapped_anew_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("photon.models.moondream.checkpoint.UNMAP_BYTES", 1)
    opened: list[str] = []
    real = checkpoint.safe_open

    def counting(file: str, **options: Any) -> Any:
        opened.append(file)
        return real(file, **options)

    monkeypatch.setattr(checkpoint, "safe_open", counting)
    wanted = {name.removeprefix("model."): tensor for name, tensor in stored().items()}
    assert same(parameters(PARITY / "md2"), wanted)
    assert len(opened) == len(wanted)


def test_a_state_dict_of_torch_loads(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, None)
    torch.save(stored(), folder / "model.pt")
    assert same(parameters(folder), parameters(PARITY / "md2"))


def test_a_pickle_with_code_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, None)
    torch.save({"weights": Path("x")}, folder / "model.pt")
    with pytest.raises(ModelLoadError, match=r"model\.pt"):
        parameters(folder)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    tensors = stored()
    del tensors["model.text.blocks.1.attn.qkv.bias"]
    with pytest.raises(ModelLoadError, match=r"text\.blocks\.1\.attn\.qkv\.bias is missing from .*model\.safetensors"):
        parameters(folder_with(tmp_path, tensors))


def test_a_surplus_tensor_is_named(tmp_path: Path) -> None:
    tensors = stored() | {"model.text.blocks.3.ln.weight": torch.zeros(128)}
    with pytest.raises(ModelLoadError, match=r"text\.blocks\.3\.ln\.weight is not part of this model"):
        parameters(folder_with(tmp_path, tensors))


def test_a_misshapen_tensor_is_named_with_both_shapes(tmp_path: Path) -> None:
    tensors = stored()
    tensors["model.text.wte"] = tensors["model.text.wte"][:300]
    with pytest.raises(ModelLoadError, match=r"text\.wte .*\[300, 128\].*\[320, 128\]"):
        parameters(folder_with(tmp_path, tensors))


def test_a_transposed_tensor_is_misshapen(tmp_path: Path) -> None:
    tensors = stored()
    tensors["model.region.size_features"] = tensors["model.region.size_features"].T
    with pytest.raises(ModelLoadError, match=r"region\.size_features"):
        parameters(folder_with(tmp_path, tensors))


@pytest.mark.parametrize("kept", [5, 5000, 4_000_000])
def test_a_cut_off_file_is_named(tmp_path: Path, kept: int) -> None:
    folder = folder_with(tmp_path, stored())
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ModelLoadError, match=r"model\.safetensors is damaged"):
        parameters(folder)


def test_damaged_neighbours_are_named(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, stored())
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json"):
        parameters(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelLoadError, match=r"config\.json"):
        parameters(folder)


def test_an_unknown_tower_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, stored())
    config = json.loads((folder / "config.json").read_text())
    config["vision"]["kind"] = "convnext"
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match="'convnext'"):
        parameters(folder)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ModelLoadError, match=r"'moondream9'.*photon-tiny.*moondream2"):
        load_model("moondream9", CPU, torch.float32)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="holds 0 weight files"):
        load_model(str(tmp_path), CPU, torch.float32)


def test_a_public_name_without_files_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelLoadError, match=r"python -m photon download moondream2$"):
        load_model("moondream2", CPU, torch.bfloat16)


@pytest.mark.parametrize(
    ("config", "count"), [(MOONDREAM_2, 1_927_237_104), (MOONDREAM_3, None), (MOONDREAM_HALF, None)]
)
def test_public_weights_are_recognised_by_their_shapes(config: MoondreamConfig, count: int | None) -> None:
    with torch.device("meta"):
        model = Moondream(config)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert recognised(shapes) == config
    if count is not None:
        assert sum(p.numel() for p in model.parameters()) == count
        assert len(shapes) == 592


def test_an_early_moondream_3_has_no_norm_before_its_heads() -> None:
    with torch.device("meta"):
        shapes = {name: tuple(tensor.shape) for name, tensor in Moondream(MOONDREAM_3).state_dict().items()}
    del shapes["region.ln.weight"], shapes["region.ln.bias"]
    assert not recognised(shapes).region.norm


def test_unknown_widths_are_not_recognised() -> None:
    with pytest.raises(ModelLoadError, match="128"):
        recognised({"text.wte": (320, 128)})


def test_weights_of_another_architecture_are_refused_before_memory_is_given() -> None:
    files = Checkpoint.open(PARITY / "md3")
    with torch.device("meta"):
        model = Moondream(MoondreamConfig.from_dict(json.loads((PARITY / "md2" / "config.json").read_text())))
    with pytest.raises(ModelLoadError, match=r"text\.blocks\.1\.mlp\.fc1\.bias \(and 11 more\) is missing"):
        check(model, plan(files), files)
