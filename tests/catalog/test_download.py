"""Fetching by name, from a Hub on this machine, and what is said when it cannot be done."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch

from photon import EngineConfig, ModelLoadError, download, models_available
from photon.catalog.download import name_at
from photon.models import public
from photon.models.hub import Repo, find_weights
from photon.models.moondream import published
from photon.models.moondream.config import MoondreamConfig
from photon.models.public import model_name
from photon.models.registry import load_model
from tests.models.fake_hub import FakeHub, serving
from tests.paths import PARITY

CPU = torch.device("cpu")
STARMIE = published.STARMIE
FILE = PARITY / "md2" / "model.safetensors"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """An empty cache, a Hub that has the recorded model as moondream2, and sizes to match."""
    config = MoondreamConfig.from_dict(json.loads((PARITY / "md2" / "config.json").read_text()))
    small = public.Published(config, Repo("vikhyatk/moondream2", "2025-06-21"), "2025-06-21")
    monkeypatch.setitem(public.PUBLISHED, "moondream2", small)  # type: ignore[arg-type]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with serving(FakeHub()) as server:
        point_to(server.url, monkeypatch)
        server.add("vikhyatk/moondream2", "2025-06-21", "model.safetensors", FILE.read_bytes())
        server.add("vikhyatk/moondream2", "2025-06-21", "tokenizer.json", b"one of an earlier format")
        tokenizer = (PARITY / "md2" / "tokenizer.json").read_bytes()
        server.add(STARMIE.id, STARMIE.revision, "tokenizer.json", tokenizer)
        yield server


def point_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)


def info(name: str) -> tuple[bool, str]:
    (found,) = [m for m in models_available(EngineConfig(device="cpu")) if m.name == name]
    return found.on_disk, found.reason


def test_what_was_downloaded_loads_without_the_hub(
    hub: FakeHub, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TQDM_POSITION", "-1")  # as on a terminal: show progress
    assert info("moondream2") == (False, public.not_here("moondream2"))
    shares: list[float] = []
    folder = download("moondream2", shares.append)
    assert shares[-1] == 1.0
    assert (folder / "model.safetensors").read_bytes() == FILE.read_bytes()
    assert "model.safetensors: 100%" in capfd.readouterr().err
    assert sorted(hub.sent) == ["model.safetensors", "tokenizer.json"]
    hub.broken = True
    shares.clear()
    loaded = load_model("moondream2", CPU, torch.float32, shares.append)
    assert loaded.name == "moondream2"
    assert (shares, shares[-1]) == (sorted(shares), 1.0)
    assert len(shares) == len(loaded.model.state_dict())
    assert loaded.tokenizer.decode([32 + ord("x")]) == "x"
    assert info("moondream2") == (True, "")
    assert download("moondream2") == folder


def test_loading_and_listing_never_ask_the_hub(hub: FakeHub) -> None:
    with pytest.raises(ModelLoadError, match=r"python -m photon download moondream2$"):
        load_model("moondream2", CPU, torch.float32)
    models_available()
    assert hub.sent == []


def test_another_revision_has_a_name_of_its_own(hub: FakeHub) -> None:
    hub.add("vikhyatk/moondream2", "2026-01-01", "model.safetensors", FILE.read_bytes())
    name = name_at("moondream2", "2026-01-01")
    assert name == "moondream2@2026-01-01"
    download(name)
    assert load_model(name, CPU, torch.float32).name == name
    assert not info("moondream2")[0]


def test_shards_come_by_their_index_and_nothing_else(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = Repo("someone/sharded", "main")
    monkeypatch.setitem(public.PUBLISHED, "sharded", public.Published(published.MOONDREAM_3, repo))  # type: ignore[arg-type]
    index = json.dumps({"weight_map": {"a": "two.safetensors", "b": "one.safetensors"}}).encode()
    for file in ("one.safetensors", "two.safetensors", "quantised.safetensors", "model.safetensors"):
        hub.add(repo.id, "main", file, file.encode())
    hub.add(repo.id, "main", "model.safetensors.index.json", index)
    shares: list[float] = []
    folder = download("sharded", shares.append)
    assert shares == sorted(shares)
    assert {0.5, 1.0} <= set(shares)
    wanted = ["model.safetensors.index.json", "one.safetensors", "two.safetensors"]
    assert sorted(p.name for p in folder.iterdir()) == wanted
    assert find_weights(repo) == folder
    (folder / "two.safetensors").unlink()
    assert find_weights(repo) is None


def test_a_mask_model_is_two_files(hub: FakeHub) -> None:
    for file in ("config.json", "model.safetensors", "sam2.1_hiera_small.pt"):
        hub.add("facebook/sam2.1-hiera-small", "ee5bba1d82bb8749febdf90f45e84b687142ba03", file, b"{}")
    assert sorted(p.name for p in download("sam2.1-small").iterdir()) == ["config.json", "model.safetensors"]


def test_what_is_bundled_is_there_already(hub: FakeHub) -> None:
    assert (download("photon-tiny") / "model.safetensors").is_file()
    assert hub.sent == []


def test_offline_is_said_in_one_sentence(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    point_to("http://127.0.0.1:9", monkeypatch)
    with pytest.raises(ModelLoadError, match=r"^moondream/starmie-v1 cannot be fetched: .* online\.$"):
        download("moondream2")


def test_the_hubs_refusals_are_said_in_one_sentence(hub: FakeHub) -> None:
    with pytest.raises(ModelLoadError, match=r"^vikhyatk/moondream2 has no revision 2031-01-01\.$"):
        download("moondream2@2031-01-01")
    with pytest.raises(ModelLoadError, match=r"^There is no repository moondream/moondream3\.1-9B-A2B .*hf auth login"):
        download("moondream3.1")
    hub.gated.add("moondream/moondream3-preview")
    with pytest.raises(ModelLoadError, match=r"on request only: ask at https://huggingface\.co/moondream/moondream3"):
        download("moondream3-preview")
    del hub.files["vikhyatk/moondream2", "model.safetensors"]
    with pytest.raises(ModelLoadError, match=r"^There is no file model\.safetensors in vikhyatk/moondream2 at"):
        download("moondream2")
    hub.broken = True
    with pytest.raises(ModelLoadError, match=r"cannot be fetched: the Hub says .*500"):
        download("moondream2")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("moondream9", r"'moondream9'.*photon-tiny, moondream2.*sam2\.1-small"),
        ("moondream-0.5b", "not public"),
        ("moondream2@2025-01-09", "earlier format; allowed are revisions since 2025-06-21"),
    ],
)
def test_names_that_cannot_be_fetched(hub: FakeHub, name: str, says: str) -> None:
    with pytest.raises(ModelLoadError, match=says):
        download(name)
    assert hub.sent == []


@pytest.mark.parametrize("name", ["photon-tiny", "sam2.1-small", "moondream9", "moondream2@2026-01-01"])
def test_a_revision_is_only_for_models_that_have_some(name: str) -> None:
    with pytest.raises(ModelLoadError, match="no revisions to choose from"):
        name_at(name, "main")


def test_the_catalogue_names_what_the_registry_loads() -> None:
    found = {m.name: m for m in models_available(EngineConfig(device="cpu"))}
    assert list(found) == ["photon-tiny", "moondream2", "moondream3-preview", "moondream3.1", "moondream-0.5b"]
    assert found["moondream2"].bytes == 4 * 1_927_237_104
    assert found["moondream2"].skills == ("point", "detect", "segment", "query", "caption")
    assert found["moondream-0.5b"].skills == ("query", "caption")
    assert "not public" in found["moondream-0.5b"].reason
    tiny = found["photon-tiny"]
    assert (tiny.on_disk, tiny.fits, tiny.reason) == (True, True, "")


def test_the_dtype_decides_the_size() -> None:
    config = EngineConfig(device="cpu", dtype="bfloat16")
    assert {m.name: m.bytes for m in models_available(config)}["moondream2"] == 2 * 1_927_237_104


def test_a_model_that_is_too_large_says_how_much_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("photon.catalog.available.memory_bytes", lambda device: 8 * 10**9)
    found = {m.name: m for m in models_available(EngineConfig(device="cpu", dtype="bfloat16"))}
    assert found["moondream2"].fits
    assert not found["moondream3.1"].fits
    assert found["moondream3.1"].reason == (
        "moondream3.1 needs 26.1 GB of memory for weights and cache; this machine has 8.0 GB."
    )
    monkeypatch.setattr("photon.catalog.available.memory_bytes", lambda device: None)
    assert all(m.fits for m in models_available(EngineConfig(device="cpu")))


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("moondream2@2025-01-09", "moondream2@2025-01-09"),
        ("/models/gone/", "gone"),
        ("{folder}/cut.safetensors", "cut"),
    ],
)
def test_what_cannot_be_read_goes_by_one_name_everywhere(tmp_path: Path, name: str, called: str) -> None:
    (tmp_path / "cut.safetensors").write_bytes(b"no weights")
    name = name.format(folder=tmp_path)
    (found,) = models_available(EngineConfig(device="cpu"), [name])
    assert found.reason
    assert found.name == model_name(name) == called


def test_any_name_that_loads_can_be_looked_up(hub: FakeHub) -> None:
    names = [str(PARITY / "md2"), str(FILE), "moondream2@2026-01-01", "moondream9", "moondream2@2024-08-26"]
    folder, file, revision, unknown, old = models_available(EngineConfig(device="cpu"), names)
    assert [m.name for m in (folder, file, revision)] == ["md2", "model", "moondream2@2026-01-01"]
    assert (folder.on_disk, folder.fits, folder.reason, folder.fetchable) == (True, True, "", False)
    assert (
        folder.bytes
        == file.bytes
        == sum(p.numel() for p in load_model(names[0], CPU, torch.float32).model.parameters()) * 4
    )
    assert folder.needed_bytes > folder.bytes
    assert (revision.on_disk, revision.fetchable) == (False, True)
    assert "There is no model 'moondream9'" in unknown.reason
    assert "earlier format" in old.reason
    assert hub.sent == []


def test_a_skill_that_needs_a_second_model_says_so_until_it_is_here(hub: FakeHub, tmp_path: Path) -> None:
    def lacks(mask_model: str) -> Mapping[str, str]:
        (found,) = models_available(EngineConfig(device="cpu", mask_model=mask_model), [str(PARITY / "md2")])
        return found.lacks

    assert "python -m photon download sam2.1-small" in lacks("sam2.1-small")["segment"]
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_text("{}")
    assert lacks(str(tmp_path)) == {}
    assert models_available(EngineConfig(device="cpu"), ["photon-tiny"])[0].lacks == {}
