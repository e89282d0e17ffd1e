"""What loading the bundled model costs at start."""

from __future__ import annotations

import subprocess
import sys

LOAD = """
import sys
import torch
from photon.models.registry import load_model
load_model("photon-tiny", torch.device("cpu"), torch.float32)
print("torch._dynamo" in sys.modules)
"""


def test_loading_a_model_does_not_load_torchs_tracer() -> None:
    """It takes longer than all else in a start; operations on the meta device bring it in."""
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "False", done.stderr
