"""Memory that a forward has freed serves the next one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="page faults are counted and glibc is set on Linux only"
)

SCRIPT = """
import resource
import numpy as np
from photon import EngineConfig, Photon

def fresh_pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

rng = np.random.default_rng(0)
with Photon.load("photon-tiny", EngineConfig(device="cpu")) as model:
    for number in range(10):
        before = fresh_pages()
        model.point(rng.integers(0, 255, (480, 640, 3), np.uint8), "cat")
        print(fresh_pages() - before)
"""


def faults_of_the_last_pictures(environment: dict[str, str]) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return sorted(map(int, done.stdout.split()[-5:]))[2]


def test_a_picture_needs_few_fresh_pages(clean_environment: dict[str, str]) -> None:
    assert faults_of_the_last_pictures(clean_environment) < 500


def test_settings_of_the_environment_are_left_alone(clean_environment: dict[str, str]) -> None:
    small = {**clean_environment, "MALLOC_MMAP_THRESHOLD_": "131072"}
    assert faults_of_the_last_pictures(small) > 4000


@pytest.fixture
def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
