"""The page's panels: what stands where. Each function builds one inside the open Blocks and returns its components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.page import parts
from app.page.race_view import MANY, ONE
from app.questions.examples import Example
from app.runs.race import IN_FLIGHT, MAX_COUNT
from photon import MAX_OBJECTS, SKILLS

TASKS = [skill.capitalize() for skill in SKILLS]
BOX = ("What to look for", "cat, or several: cat, dog")
BOXES = {"Query": ("Question", "What is on the table?")}

PIPELINED = "While the device computes step t + 1, the CPU does the bookkeeping of step t. For your requests only."


@dataclass(frozen=True)
class PicturePanel:
    """Where a picture comes in and is shown; `intake` holds what is hidden once there is one."""

    intake: gr.Column
    upload: Any
    address: Any
    stage: Any
    examples: Any


@dataclass(frozen=True)
class AskPanel:
    """Model, task, words, settings, and the answer in words."""

    models: Any
    task: gr.Radio
    skills: Any
    text: gr.Textbox
    run: gr.Button
    cancel: gr.Button
    pipelined: gr.Checkbox
    most: gr.Slider
    temperature: gr.Slider
    status: Any
    results: Any


@dataclass(frozen=True)
class RacePanel:
    """Pipelined against blocking decoding."""

    count: gr.Slider
    in_flight: gr.Radio
    about: gr.Radio
    start: gr.Button
    stop: gr.Button
    view: Any


@dataclass(frozen=True)
class BatchPanel:
    """The same question about many pictures."""

    files: Any
    start: gr.Button
    stop: gr.Button
    view: Any


def picture_panel(examples: Sequence[Example]) -> PicturePanel:
    """The left column."""
    with gr.Column(scale=8, min_width=340):
        with gr.Column(elem_id="intake") as intake:
            upload = parts.picture_input()
            address = parts.web_address()
        stage = parts.stage()
        shown = parts.examples([{"src": one.src, "title": one.title, "credit": one.credit} for one in examples])
    return PicturePanel(intake, upload, address, stage, shown)


def ask_panel() -> AskPanel:
    """The right column."""
    with gr.Column(scale=5, min_width=300, elem_id="ask"):
        models = parts.models()
        task = gr.Radio(TASKS, value="Detect", label="Task", elem_id="task")
        skills = parts.skills()
        label, hint = BOX
        text = gr.Textbox(label=label, placeholder=hint, lines=1, max_lines=1, max_length=1000, elem_id="names")
        with gr.Row(elem_id="actions"):
            run = gr.Button("Run", variant="primary", elem_id="run")
            cancel = gr.Button("Cancel", visible=False, elem_id="cancel")
        pipelined = gr.Checkbox(True, label="Pipelined decoding", info=PIPELINED, elem_id="pipelined")
        with gr.Accordion("Settings", open=False, elem_id="settings"):
            most = gr.Slider(1, MAX_OBJECTS, value=50, step=1, label="At most this many objects")
            warmth = gr.Slider(0, 2, value=0, step=0.1, label="Temperature", info="0 always takes the likeliest answer")
        status, results = parts.status(), parts.results()
    return AskPanel(models, task, skills, text, run, cancel, pipelined, most, warmth, status, results)


def race_panel() -> RacePanel:
    """The race's controls, and under them its view."""
    parts.race_head()
    with gr.Row(elem_id="race", equal_height=True):
        count = gr.Slider(2, MAX_COUNT, value=16, step=2, label="Requests", scale=3, min_width=160)
        in_flight = gr.Radio(
            list(IN_FLIGHT), value=4, label="In flight together", scale=2, min_width=160, elem_id="in-flight"
        )
        about = gr.Radio([ONE, MANY], value=ONE, label="About", scale=2, min_width=220, elem_id="race-about")
        start = gr.Button("Race", elem_id="race-start", scale=1, min_width=100)
        stop = gr.Button("Stop", visible=False, elem_id="race-stop", scale=1, min_width=100)
    return RacePanel(count, in_flight, about, start, stop, parts.race_view())


def batch_panel() -> BatchPanel:
    """Closed until it is wanted."""
    with gr.Accordion("Batch: the same question about up to 64 pictures", open=False, elem_id="batch"):
        files = parts.batch_input()
        with gr.Row():
            start = gr.Button("Ask about all", elem_id="batch-start")
            stop = gr.Button("Stop", visible=False, elem_id="batch-stop")
        view = parts.batch_view()
    return BatchPanel(files, start, stop, view)


def question_box(task: str) -> Any:
    """The box for words, as the task wants it."""
    label, hint = BOXES.get(task, BOX)
    return gr.update(label=label, placeholder=hint, visible=task != "Caption")
