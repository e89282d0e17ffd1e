"""How much memory loading takes: a generated checkpoint of random weights is loaded in a process of its own.

The weights lie in a temporary folder and are removed afterwards. What is measured:

    model     the parameters in memory
    baseline  the process before loading: interpreter, torch, photon
    peak      the most that the process held at once (VmHWM): baseline, model, and pages of the mapped file
    private   the most of it that no other process could share or the system drop (RssAnon, sampled)

The bound is on `peak`: at most the model and 1 GB.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from photon.bench.report import table
from photon.catalog.available import LOADING_BYTES
from photon.core.config import DTYPES
from photon.errors import PhotonError
from photon.models.files import CONFIG, SINGLE, TOKENIZER
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.published import MOONDREAM_2
from photon.models.public import PUBLISHED

FULL_BYTES = 2 * 1_927_237_104
"""moondream2 in bfloat16: what a bound of 1 GB belongs to."""

SMALL = dataclasses.replace(
    MOONDREAM_2,
    text=dataclasses.replace(
        MOONDREAM_2.text, dim=1024, ff_dim=4096, n_layers=8, vocab_size=16384, n_heads=16, n_kv_heads=16
    ),
    vision=dataclasses.replace(MOONDREAM_2.vision, proj_out_dim=1024, enc_n_layers=4, proj_inner_dim=4096),
    region=dataclasses.replace(MOONDREAM_2.region, dim=1024, inner_dim=4096),
)
MODELS: Mapping[str, MoondreamConfig] = {"small": SMALL, **{name: p.config for name, p in PUBLISHED.items()}}
_CHUNK = 2**24


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", choices=MODELS, default="moondream2", help="whose sizes (default: moondream2)")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="what it is loaded as (default: bfloat16)")
    parser.add_argument("--folder", type=Path, help="where the temporary files go")


def run(options: argparse.Namespace) -> dict[str, Any]:
    config = MODELS[options.model]
    with tempfile.TemporaryDirectory(prefix="photon-load-", dir=options.folder) as folder:
        start = time.perf_counter()
        parameters = generate(config, Path(folder))
        generated_s = time.perf_counter() - start
        command = [sys.executable, "-m", "photon.bench.load", folder, options.dtype]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PhotonError(f"The process that loads has failed: {(done.stderr.strip() or 'no output')[-500:]}")
        measured = json.loads(done.stdout)
    model_bytes = parameters * getattr(torch, options.dtype).itemsize
    allowed = int(LOADING_BYTES * min(1.0, model_bytes / FULL_BYTES))
    return {
        "model": options.model,
        "parameters": parameters,
        "dtype": options.dtype,
        "model_bytes": model_bytes,
        **measured,
        "over_model_bytes": measured["peak_bytes"] - model_bytes,
        "over_model_and_baseline_bytes": measured["peak_bytes"] - measured["baseline_bytes"] - model_bytes,
        "within": measured["peak_bytes"] - model_bytes <= LOADING_BYTES,
        "within_scaled": measured["peak_bytes"] - measured["baseline_bytes"] - model_bytes <= allowed,
        "generated_s": generated_s,
    }


def show(report: dict[str, Any]) -> str:
    row = {"model": report["model"], "dtype": report["dtype"], "parameters": report["parameters"]}
    row |= {
        f"{k} MB": round(report[f"{k}_bytes"] / 1e6) for k in ("model", "baseline", "peak", "private", "over_model")
    }
    verdict = "within" if report["within"] else "OVER"
    return f"{table([row])}\n{verdict} the bound of model + 1 GB; loaded in {report['load_s']:.1f} s"


def generate(config: MoondreamConfig, folder: Path) -> int:
    """Write config.json, tokenizer.json and model.safetensors of random bfloat16; returns how many parameters.

    Tensor by tensor, so that the files may be larger than the memory.
    """
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in Moondream(config).state_dict().items()}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * shape.numel()
        header[f"model.{name}"] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / SINGLE).open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            for start in range(0, shape.numel(), _CHUNK):
                values = torch.empty(min(_CHUNK, shape.numel() - start), dtype=torch.bfloat16).normal_(std=0.02)
                file.write(values.view(torch.int16).numpy().data)
    (folder / CONFIG).write_text(json.dumps(config.to_dict()))
    vocabulary = {"type": "WordLevel", "vocab": {"<|endoftext|>": 0}, "unk_token": "<|endoftext|>"}
    (folder / TOKENIZER).write_text(json.dumps({"version": "1.0", "model": vocabulary}))
    return sum(shape.numel() for shape in shapes.values())


def measure(folder: str, dtype: str) -> dict[str, Any]:
    """Load in this process, which must be a fresh one: its high-water mark only rises."""
    from photon.models.registry import load_model

    device = torch.device("cpu")
    with torch.device("meta"):  # what torch sets up at its first use is no part of loading
        Moondream(SMALL)
    baseline = _status("VmRSS")
    watch = _Watch()
    start = time.perf_counter()
    loaded = load_model(folder, device, getattr(torch, dtype))
    seconds = time.perf_counter() - start
    private = watch.stop()
    checksum = float(loaded.model.text.wte[0].float().sum())
    return {
        "baseline_bytes": baseline,
        "peak_bytes": _status("VmHWM"),
        "private_bytes": private,
        "after_bytes": _status("VmRSS"),
        "load_s": seconds,
        "finite": checksum == checksum,
    }


class _Watch:
    """Samples private memory every few milliseconds."""

    def __init__(self) -> None:
        self._most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.005):
            self._most = max(self._most, _status("RssAnon"))

    def stop(self) -> int:
        self._ended.set()
        self._thread.join()
        return max(self._most, _status("RssAnon"))


def _status(field: str) -> int:
    """Bytes of a field of this process's status, as Linux gives it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return 1024 * int(value.split()[0])
    raise PhotonError(f"This system does not tell {field}; memory is measured on Linux only.")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2])))
