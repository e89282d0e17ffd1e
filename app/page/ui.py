"""The page: its panels put together, and what happens on them connected with the handlers that do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gradio as gr

from app.api.endpoints import EndpointBlocks, Endpoints
from app.engines.models import Models
from app.page import parts
from app.page.batch_view import BatchView
from app.page.chooser import Chooser, on_model
from app.page.gains_view import gains_panel
from app.page.handlers import Handlers
from app.page.panels import (
    AskPanel,
    BatchPanel,
    PicturePanel,
    RacePanel,
    ask_panel,
    batch_panel,
    picture_panel,
    question_box,
    race_panel,
)
from app.page.race_view import RaceView
from app.page.turn import Turn
from app.runs.gains import Gains

TITLE = "Photon Demo"
QUEUE_SIZE = 512  # events that may wait in Gradio
WORKERS = 256  # events that Gradio handles at once: the engine's own queue orders them and says when it is full
SESSIONS = 1000  # visitors whose state is kept, the latest; each takes a tenth of a megabyte
CACHE_S = 3600  # how long uploads are kept
SWEEP_S = 300  # how often those that are older are looked for
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}


class Visit:
    """What a visitor's browser session keeps: the picture, the reference marked on it, the model's name, the turn of
    the question, and which example was taken last, another value each time."""

    def __init__(self, model: str) -> None:
        self.picture, self.reference, self.model = gr.State(None), gr.State(None), gr.State(model)
        self.turn, self.example = gr.State(Turn()), gr.State("")


def build_page(handlers: Handlers, models: Models) -> gr.Blocks:
    """The page over these handlers. Each visitor's picture is in `gr.State`, nothing else is kept."""
    with EndpointBlocks(title=TITLE, fill_width=True, analytics_enabled=False, delete_cache=(SWEEP_S, CACHE_S)) as page:
        header = parts.header()
        visit = Visit(models.main.name)
        with gr.Row(elem_id="main", equal_height=False):
            picture, asking = picture_panel(handlers.examples), ask_panel()
        where = parts.time_panel()
        racing = race_panel()
        gains_panel(Gains())
        batch = batch_panel()
        notes = parts.about()

        page.load(handlers.visit, outputs=[header, notes], **QUIET)
        chooser = Chooser(models)
        offered = [asking.models, asking.task, asking.skills]
        page.load(chooser.visit, [visit.model, asking.task], offered, **QUIET)
        choice = [*offered, visit.model, header, notes]
        asking.models.choose(chooser.choose, [visit.model, asking.task], choice, **QUIET)
        asking.task.change(question_box, asking.task, asking.text, **QUIET)
        _connect_questions(handlers, models, visit, picture, asking, where)
        _connect_race(handlers, models, visit, asking, racing, batch)
        Endpoints(models, handlers.limits, handlers.fetcher, handlers.upload_folder).add()
        _connect_batch(handlers, models, visit, asking, batch)
    page.max_threads = WORKERS
    page.state_session_capacity = SESSIONS
    page.queue(max_size=QUEUE_SIZE, default_concurrency_limit=None)
    return page


def _connect_questions(
    handlers: Handlers, models: Models, visit: Visit, picture: PicturePanel, asking: AskPanel, where: Any
) -> None:
    """A picture is taken or removed, a reference marked, a question asked or cancelled.

    Another picture ends the question about the last one: its answer would come over the new picture. Gradio's own
    `cancels` would lose an example's question that is asked before the cancellation has come back.
    """
    asked = [visit.model, visit.picture, asking.task, asking.text]
    asked += [asking.pipelined, asking.most, visit.reference, asking.temperature, visit.turn]
    buttons = [asking.status, asking.run, asking.cancel]
    answered = [*buttons, picture.stage, asking.results, where]
    ask = on_model(models, lambda holder: replace(handlers, holder=holder).run)
    # An event has not ended yet when its last update is shown: "once" would drop a click made just then.
    by = [asking.run.click, asking.text.submit, visit.example.change]
    running = gr.on(by, ask, asked, answered, trigger_mode="always_last", **QUIET)
    _connect_stop(asking.cancel, running, handlers.cancelled, buttons)

    shown = [picture.intake, picture.upload, picture.stage]
    taken = [*shown, visit.picture, visit.reference, asking.results, where, *buttons]
    picture.upload.input(handlers.take_upload, [picture.upload, visit.turn], taken, **QUIET)
    picture.address.submit(handlers.take_address, [picture.address, visit.turn], taken, **QUIET)
    picture.stage.drop(handlers.take_drop, visit.turn, taken, **QUIET)
    picture.stage.remove(handlers.forget, visit.turn, taken, **QUIET)
    picture.stage.refer(handlers.refer, None, visit.reference, **QUIET)
    example = [*taken, asking.text, asking.task, visit.example]
    picture.examples.choose(handlers.take_example, visit.turn, example, trigger_mode="always_last", **QUIET)


def _connect_race(
    handlers: Handlers, models: Models, visit: Visit, asking: AskPanel, racing: RacePanel, batch: BatchPanel
) -> None:
    races = RaceView(handlers.holder, handlers.store)
    race = on_model(models, lambda holder: replace(races, holder=holder).start)
    about = [visit.model, visit.picture, asking.task, asking.text, asking.most]
    about += [racing.count, racing.in_flight, racing.about, batch.files]
    outputs = [racing.view, racing.start, racing.stop]
    running = racing.start.click(race, about, outputs, **QUIET)
    _connect_stop(racing.stop, running, races.stopped, outputs)


def _connect_batch(handlers: Handlers, models: Models, visit: Visit, asking: AskPanel, batch: BatchPanel) -> None:
    batches = BatchView(handlers.holder, handlers.store)
    start = on_model(models, lambda holder: replace(batches, holder=holder).start)
    about = [visit.model, batch.files, asking.task, asking.text, asking.pipelined, asking.most]
    outputs = [batch.view, batch.start, batch.stop]
    running = batch.start.click(start, about, outputs, **QUIET)
    _connect_stop(batch.stop, running, batches.stopped, outputs)


def _connect_stop(stop: gr.Button, running: Any, ended: Callable[[], Any], outputs: list[Any]) -> None:
    """Lets `stop` cancel the event `running`, and then shows what `ended` gives.

    What is cancelled "fails" once the browser listens to it no more; only then may its end be shown, or a last update
    comes over it. Not by the queue: its stream may be closing with what was cancelled, and the answer is then lost.
    """
    stop.click(None, cancels=[running])
    running.failure(ended, None, outputs, queue=False, **QUIET)
