"""What the page says about itself: which model and device answer, and what may be expected of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.engines.holder import EngineHolder, State

ON_A_CPU = (
    "With the switch on, the engine launches the next step before the last one's tokens are known, where that pays, so "
    "that its bookkeeping hides behind the device's work. This server answers on a CPU: bookkeeping and model "
    "share the same cores and a step takes far longer than its bookkeeping, so there is little to hide and "
    "the two modes take nearly the same time. On a GPU the bookkeeping is a larger share. "
    "Either way the answers are the same."
)
ON_A_GPU = (
    "With the switch on, the engine launches the next step before the last one's tokens are known, where that pays, so "
    "that its bookkeeping hides behind the device's work. With it off, the device waits while the engine keeps "
    "its books: those waits are the bubbles in the timeline. Either way the answers are the same."
)


def header(holder: EngineHolder) -> dict[str, Any]:
    """The header's value: model, device, whether times are measured, and the problem if there is one."""
    if holder.state is not State.READY:
        waiting = holder.state is State.STARTING
        return {
            "state": holder.state.value,
            "model": "loading" if waiting else "not available",
            "device": "–",
            "times": "–",
            "problem": holder.reason,
            "note": holder.note,
        }
    about = holder.engine().describe()
    return {
        "state": holder.state.value,
        "model": str(about.get("model", "")),
        "device": device_in_words(about),
        "times": "modelled, not measured" if about.get("modelled") else "measured",
        "problem": "",
        "note": holder.note,
    }


def device_in_words(about: Mapping[str, Any]) -> str:
    """For example "CPU, 2 threads, float32"."""
    device = str(about.get("device", "")).upper()
    threads = about.get("threads") if device.startswith("CPU") else None
    words = f"{threads} {'thread' if threads == 1 else 'threads'}" if threads else ""
    parts = [device, words, about.get("dtype")]
    return ", ".join(str(part).removeprefix("torch.") for part in parts if part)


def engine_in_words(about: Mapping[str, Any]) -> str:
    """How it attends and what its cache holds; empty where that is not said."""
    if not about.get("attention"):
        return ""
    refused = " ".join(about.get("attention_refused", ()))
    return (
        f"Attention: {about['attention']}. Cache: {about['pages']} pages of {about['page_size']} positions. {refused}"
    ).strip()


def notes(holder: EngineHolder) -> dict[str, Any]:
    """The value of the notes below the page; empty while no engine answers."""
    if holder.state is not State.READY:
        return {}
    engine = holder.engine()
    on_cpu = str(engine.describe().get("device", "")).startswith("cpu")
    names = sorted(engine.vocabulary.names) if engine.vocabulary is not None else []
    return {
        "pipeline": ON_A_CPU if on_cpu else ON_A_GPU,
        "engine": engine_in_words(engine.describe()),
        "names": ", ".join(names),
        "count": len(names),
        "knows": (
            "It is small, made to answer at once on any computer, and knows only the names below. It was "
            "taught with composed scenes and is often wrong on cluttered photographs."
        ),
    }
