"""`python -m tests.e2e.scripted_server`: the application over exact, scripted answers.

moondream2 takes a moment to load, can all tasks and finds one object more than photon-tiny; the others cannot be had.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from app.server import build_app
from app.settings import ServerSettings
from app.web.serving import listen, serve
from photon import SKILLS, ModelInfo, Progress
from tests.app.live import StreamingEngine
from tests.app.scripted import ANSWERS, BOX, ScriptedEngine, box

ABSENT = "The files of moondream3.1 are not on this machine; fetch them with: python -m photon download moondream3.1"
SHELF = {
    "photon-tiny": ModelInfo("photon-tiny", 40_000_000, SKILLS[:3], on_disk=True, fits=True),
    "moondream2": ModelInfo("moondream2", 7_710_000_000, SKILLS, on_disk=True, fits=True),
    "moondream3-preview": ModelInfo(
        "moondream3-preview",
        37_070_000_000,
        SKILLS,
        reason="moondream3-preview needs 51.2 GB of memory for weights and cache; this machine has 25.3 GB.",
    ),
    "moondream3.1": ModelInfo("moondream3.1", 37_070_000_000, SKILLS, fits=True, reason=ABSENT),
}


def look(names: Sequence[str]) -> list[ModelInfo]:
    return [SHELF[name] for name in names]


def load(name: str, progress: Progress) -> ScriptedEngine:
    settings = ServerSettings.from_env()
    limits: dict[str, Any] = {"rows": settings.max_batch, "queue": settings.queue}
    limits["delay_s"] = float(os.environ.get("SCRIPTED_DELAY_S", "0"))
    if name == "photon-tiny":
        gate = os.environ.get("SCRIPTED_GATE", os.devnull)
        while not os.path.exists(gate):
            time.sleep(0.05)
        return ScriptedEngine(name, **limits)
    for step in range(20):
        progress(step / 20)
        time.sleep(float(os.environ.get("SCRIPTED_LOAD_S", "2")) / 20)
    found = {"objects": [BOX, box(0.1, 0.6, 0.3, 0.9)]}
    return StreamingEngine(name, answers={**ANSWERS, "detect": found}, vocabulary=None, **limits)


def main() -> None:
    settings = ServerSettings.from_env()
    app: Any = build_app(settings, load, look)
    serve(app, listen(settings.host, settings.port), app.state.models.close)


if __name__ == "__main__":
    main()
