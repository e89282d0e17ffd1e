"""`python -m tests.e2e.scripted_server`: the application over exact, scripted answers."""

from __future__ import annotations

import os

import uvicorn

from app.server import build_app
from app.settings import Settings
from tests.app.scripted import ScriptedEngine


def main() -> None:
    settings = Settings.from_env()
    delay_s = float(os.environ.get("SCRIPTED_DELAY_S", "0"))
    app = build_app(settings, lambda: ScriptedEngine(delay_s=delay_s))
    uvicorn.run(app, host=settings.host, port=settings.port, log_level="warning")


if __name__ == "__main__":
    main()
