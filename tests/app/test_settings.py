"""app.settings: the environment is read in one place and bad values are refused in one sentence."""

from __future__ import annotations

import dataclasses

import pytest

from app.settings import ServerSettings, SettingsError


def test_an_empty_environment_gives_the_defaults() -> None:
    assert ServerSettings.from_env({}) == ServerSettings()
    assert (ServerSettings().host, ServerSettings().port, ServerSettings().model) == ("127.0.0.1", 7860, "photon-tiny")


def test_blank_values_mean_the_default() -> None:
    assert ServerSettings.from_env({"PORT": " ", "PHOTON_THREADS": "", "PHOTON_API_KEY": " "}) == ServerSettings()


def test_every_variable_is_read() -> None:
    assert ServerSettings.from_env(
        {
            "HOST": "0.0.0.0",
            "PORT": "8000",
            "PHOTON_MODEL": "moondream2",
            "PHOTON_MODELS": "photon-tiny, moondream2,,moondream2",
            "PHOTON_DEVICE": "CPU",
            "PHOTON_DTYPE": "bfloat16",
            "PHOTON_THREADS": "2",
            "PHOTON_MAX_BATCH": "8",
            "PHOTON_KV_PAGES": "512",
            "PHOTON_QUEUE": "10",
            "PHOTON_MASK_MODEL": "sam2.1-large",
            "PHOTON_API_KEY": "secret",
            "PHOTON_ALLOW_DOWNLOAD": "1",
            "PHOTON_MAX_IMAGE_MB": "5.5",
            "PHOTON_MAX_MEGAPIXELS": "12",
        }
    ) == ServerSettings(
        host="0.0.0.0",
        port=8000,
        model="moondream2",
        models=("photon-tiny", "moondream2"),
        device="cpu",
        dtype="bfloat16",
        threads=2,
        max_batch=8,
        kv_pages=512,
        queue=10,
        mask_model="sam2.1-large",
        api_key="secret",
        allow_download=True,
        max_image_mb=5.5,
        max_megapixels=12.0,
    )


@pytest.mark.parametrize(("value", "found"), [("true", True), ("1", True), ("0", False), ("false", False), ("", False)])
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_on_zero_gpu_the_device_is_the_cpu(value: str, found: bool, device: str) -> None:
    settings = ServerSettings.from_env({"SPACES_ZERO_GPU": value, "PHOTON_DEVICE": device})
    assert (settings.zero_gpu, settings.device) == (found, "cpu" if found else device)


def test_a_gpu_cannot_be_asked_for_on_zero_gpu() -> None:
    with pytest.raises(SettingsError, match="'cuda'; allowed here are auto and cpu"):
        ServerSettings.from_env({"SPACES_ZERO_GPU": "true", "PHOTON_DEVICE": "cuda"})


def test_by_default_the_chosen_model_and_those_that_can_be_had_are_offered() -> None:
    assert ServerSettings.from_env({"PHOTON_MODEL": "moondream2"}).models == (
        "moondream2",
        "photon-tiny",
        "moondream3-preview",
        "moondream3.1",
    )
    assert ServerSettings.from_env({"PHOTON_MODELS": "photon-tiny"}).models == ("photon-tiny",)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("PORT", "http", "a whole number from 1 to 65535"),
        ("PORT", "0", "a whole number from 1 to 65535"),
        ("PORT", "70000", "a whole number from 1 to 65535"),
        ("PORT", "80.5", "a whole number"),
        ("PHOTON_DEVICE", "tpu", "auto, cpu, cuda"),
        ("PHOTON_DTYPE", "int8", "float32"),
        ("PHOTON_THREADS", "0", "a whole number from 1"),
        ("PHOTON_MAX_BATCH", "-1", "a whole number from 1"),
        ("PHOTON_KV_PAGES", "many", "a whole number"),
        ("PHOTON_QUEUE", "0", "a whole number from 1"),
        ("PHOTON_ALLOW_DOWNLOAD", "maybe", "0, 1"),
        ("PHOTON_MAX_IMAGE_MB", "nan", "a number"),
        ("PHOTON_MAX_IMAGE_MB", "inf", "a number"),
        ("PHOTON_MAX_MEGAPIXELS", "0", "a number"),
        ("PHOTON_MODELS", "moondream2", "photon-tiny"),
    ],
)
def test_a_bad_value_is_refused_with_name_value_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ServerSettings.from_env({name: value})
    sentence = str(caught.value)
    assert name in sentence
    assert value in sentence
    assert allowed in sentence
    assert sentence.endswith(".")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ServerSettings().port = 1  # type: ignore[misc]
