"""app.page.about: what the page says of the engine that answers."""

from __future__ import annotations

from app.page.about import device_in_words, engine_in_words


def test_the_engine_says_how_it_attends_and_what_its_cache_holds() -> None:
    about = {"attention": "fused", "pages": 640, "page_size": 16, "attention_refused": ()}
    assert engine_in_words(about) == "Attention: fused. Cache: 640 pages of 16 positions."
    refused = {**about, "attention_refused": ["varlen with pages of 16 is not used: no kernel image."]}
    assert engine_in_words(refused).endswith("16 positions. varlen with pages of 16 is not used: no kernel image.")
    assert engine_in_words({"model": "scripted"}) == ""


def test_a_cpu_is_named_with_its_threads_and_a_gpu_without() -> None:
    assert device_in_words({"device": "cpu", "threads": 1, "dtype": "torch.float32"}) == "CPU, 1 thread, float32"
    assert device_in_words({"device": "NVIDIA H200", "threads": 8, "dtype": "bfloat16"}) == "NVIDIA H200, bfloat16"
