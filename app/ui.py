"""The page: one Blocks, built by one function; what happens on it is in `app.handlers`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr

from app import parts
from app.asking import MAX_OBJECTS
from app.batch_view import BatchView
from app.chooser import SKILLS, Chooser, on_model
from app.endpoints import Endpoints
from app.gains import Gains
from app.gains_view import gains_panel
from app.handlers import Handlers
from app.models import Models
from app.race import IN_FLIGHT, MAX_COUNT
from app.race_view import MANY, ONE, RaceView

TASKS = [skill.capitalize() for skill in SKILLS]
BOXES = {"Query": ("Question", "What is on the table?")}
TITLE = "Photon Demo"
QUEUE_SIZE = 512  # events that may wait in Gradio
WORKERS = 256  # events that Gradio handles at once: the engine's own queue orders them and says when it is full
CACHE_S = 3600  # how long uploads are kept
SWEEP_S = 300  # how often those that are older are looked for


def build_page(handlers: Handlers, models: Models) -> gr.Blocks:
    """The page over these handlers. Each visitor's picture is in `gr.State`, nothing else is kept."""
    batches = BatchView(handlers.backend, handlers.store)
    races = RaceView(handlers.backend, handlers.store)
    with gr.Blocks(title=TITLE, fill_width=True, analytics_enabled=False, delete_cache=(SWEEP_S, CACHE_S)) as page:
        header = parts.header()
        picture, reference, model = gr.State(None), gr.State(None), gr.State(models.main.name)
        with gr.Row(elem_id="main", equal_height=False):
            with gr.Column(scale=8, min_width=340):
                with gr.Column(elem_id="intake") as intake:
                    picture_in = parts.picture_input()
                    address = parts.web_address()
                stage = parts.stage()
                examples = parts.examples(
                    [{"src": one.src, "title": one.title, "credit": one.credit} for one in handlers.examples]
                )
            with gr.Column(scale=5, min_width=300, elem_id="ask"):
                offer = parts.models()
                task = gr.Radio(TASKS, value="Detect", label="Task", elem_id="task")
                skills = parts.skills()
                text = gr.Textbox(
                    label="What to look for",
                    placeholder="cat, or several: cat, dog",
                    lines=1,
                    max_lines=1,
                    max_length=1000,
                    elem_id="names",
                )
                with gr.Row(elem_id="actions"):
                    run = gr.Button("Run", variant="primary", elem_id="run")
                    cancel = gr.Button("Cancel", visible=False, elem_id="cancel")
                pipelined = gr.Checkbox(
                    True, label="Pipelined decoding", info="For your requests only", elem_id="pipelined"
                )
                with gr.Accordion("Settings", open=False, elem_id="settings"):
                    most = gr.Slider(1, MAX_OBJECTS, value=50, step=1, label="At most this many objects")
                    warmth = gr.Slider(
                        0, 2, value=0, step=0.1, label="Temperature", info="0 always takes the likeliest answer"
                    )
                status = parts.status()
                results = parts.results()
        where = parts.time_panel()
        parts.race_head()
        with gr.Row(elem_id="race", equal_height=True):
            count = gr.Slider(2, MAX_COUNT, value=16, step=2, label="Requests", scale=3, min_width=160)
            in_flight = gr.Radio(
                list(IN_FLIGHT), value=4, label="In flight together", scale=2, min_width=160, elem_id="in-flight"
            )
            about = gr.Radio([ONE, MANY], value=ONE, label="About", scale=2, min_width=220, elem_id="race-about")
            start = gr.Button("Race", elem_id="race-start", scale=1, min_width=100)
            stop = gr.Button("Stop", visible=False, elem_id="race-stop", scale=1, min_width=100)
        raced = parts.race_view()
        gains_panel(Gains())
        with gr.Accordion("Batch: the same question about up to 64 pictures", open=False, elem_id="batch"):
            files = parts.batch_input()
            with gr.Row():
                begin = gr.Button("Ask about all", elem_id="batch-start")
                end = gr.Button("Stop", visible=False, elem_id="batch-stop")
            batched = parts.batch_view()
        notes = parts.about()

        taken = [intake, picture_in, stage, picture, reference, results, where, status]
        quiet = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        chooser = Chooser(models)
        page.load(handlers.visit, outputs=[header, notes], **quiet)
        page.load(chooser.visit, [model, task], [offer, task, skills], **quiet)
        offer.choose(chooser.choose, [model, task], [offer, task, skills, model, header, notes], **quiet)
        task.change(question_box, task, text, **quiet)
        picture_in.input(handlers.take_upload, picture_in, taken, **quiet)
        address.submit(handlers.take_address, address, taken, **quiet)
        stage.drop(handlers.take_drop, None, taken, **quiet)
        stage.remove(handlers.forget, None, taken, **quiet)
        stage.refer(handlers.refer, None, reference, **quiet)
        chosen = examples.choose(handlers.take_example, None, [*taken, text, task], **quiet)
        asked = [model, picture, task, text, pipelined, most, reference, warmth]
        answered = [status, run, cancel, stage, results, where]
        ask = on_model(models, lambda backend: replace(handlers, backend=backend).run)
        running = [
            # An event has not ended yet when its last update is shown: "once" would drop a click made just then.
            gr.on([run.click, text.submit], ask, asked, answered, trigger_mode="always_last", **quiet),
            chosen.success(ask, asked, answered, **quiet),
        ]
        cancel.click(handlers.cancelled, None, [status, run, cancel], cancels=running, **quiet)
        race = on_model(models, lambda backend: replace(races, backend=backend).start)
        raced_on = [model, picture, task, text, most, count, in_flight, about, files]
        racing = start.click(race, raced_on, [raced, start, stop], **quiet)
        stop.click(races.stopped, None, [raced, start, stop], cancels=[racing], **quiet)
        Endpoints(models, handlers.limits, handlers.fetcher, handlers.upload_folder).add()
        batch = on_model(models, lambda backend: replace(batches, backend=backend).start)
        batching = begin.click(batch, [model, files, task, text, pipelined, most], [batched, begin, end], **quiet)
        end.click(batches.stopped, None, [batched, begin, end], cancels=[batching], **quiet)
    page.max_threads = WORKERS
    page.queue(max_size=QUEUE_SIZE, default_concurrency_limit=None)
    return page


def question_box(task: str) -> Any:
    """The box for words, as the task wants it."""
    label, hint = BOXES.get(task, ("What to look for", "cat, or several: cat, dog"))
    return gr.update(label=label, placeholder=hint, visible=task != "Caption")
