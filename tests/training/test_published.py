"""The published weights that the bundled model builds on, read from the forms in which they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from photon.models.moondream.nanodet import NanoDet
from photon.training.nanodet import _in_order, load_nanodet


def as_graph(net: NanoDet, folder: Path) -> Path:
    """The network's weights as a TensorFlow.js graph, its arrays in another order than its convolutions."""
    nodes: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = [{"name": "whole", "dtype": "int32", "shape": [1]}]
    data = [np.array([7], np.int32).tobytes()]
    for number, convolution in reversed(list(enumerate(_in_order(net)))):
        at = f"PartitionedCall/convolution{f'_{number}' if number else ''}"
        nodes += [
            {"name": at, "op": "Conv2D", "input": ["x", f"w{number}"]},
            {"name": f"add{number}", "op": "Add", "input": [at, f"b{number}"]},
        ]
        for name, tensor in ((f"w{number}", convolution.weight.permute(2, 3, 1, 0)), (f"b{number}", convolution.bias)):
            half = tensor.detach().half().contiguous().numpy()
            quantised = {"dtype": "float16", "original_dtype": "float32"}
            entries.append({"name": name, "dtype": "float32", "shape": list(half.shape), "quantization": quantised})
            data.append(half.tobytes())
    (folder / "weights.bin").write_bytes(b"".join(data))
    manifest = [{"paths": ["weights.bin"], "weights": entries}]
    (folder / "net.json").write_text(json.dumps({"modelTopology": {"node": nodes}, "weightsManifest": manifest}))
    return folder / "net.json"


def test_the_detectors_graph_becomes_our_network(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = NanoDet().eval()
    loaded = load_nanodet(as_graph(net, tmp_path))
    for name, wanted in net.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], wanted.half().float(), rtol=0, atol=0)
    assert not loaded.training


def test_convolutions_are_counted_as_they_run() -> None:
    net, ran = NanoDet().eval(), []
    order = _in_order(net)
    for convolution in order:
        convolution.register_forward_hook(lambda module, *_: ran.append(module))
    with torch.no_grad():
        net(torch.randn(1, 3, 64, 64))
    assert ran == order
