"""The button that starts something, and the one that stops it: one of the two is seen."""

from __future__ import annotations

from typing import Any

import gradio as gr


def buttons(running: bool) -> tuple[Any, Any]:
    """Updates of the start button and of the stop button."""
    return gr.update(visible=not running), gr.update(visible=running)
