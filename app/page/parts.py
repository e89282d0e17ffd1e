"""The page's own components: fixed markup, drawn by scripts in `static/js` from plain values.

The markup never changes and holds no value, so nothing that a person typed passes through a
template; scripts put text in with `textContent`.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.paths import STATIC
from app.pictures.fetch import MAX_URL_LENGTH

STYLES = [STATIC / "css" / "page.css", STATIC / "css" / "models.css"]
ICON = STATIC / "icons" / "photon.png"

CERTAINTY = (
    "How sure the model is of each number that places the object: x and y of a point; x, y, width and height of a box. "
    "It is the geometric mean of their probabilities; at 100 % the model saw no other choice."
)


def picture_input() -> gr.Image:
    """Upload, drop, paste or webcam; hands over the path of the raw file, unopened.

    Gradio's own reading would open the file, and a broken one would raise there: here `photon.read_picture`
    decides, so the component's preprocess is replaced. It is emptied by a plain None: for an update Gradio would build
    a new component for this visitor, without the replacement.
    """
    made = gr.Image(
        sources=["upload", "webcam", "clipboard"],
        type="filepath",
        label="Picture",
        show_label=False,
        height=420,
        buttons=[],
        elem_id="picture-in",
        placeholder="Drop a picture here, paste one,\nor click to choose a file",
    )
    made.preprocess = lambda payload: None if payload is None else payload.path
    return made


def _drawn(markup: str, *scripts: str, value: Any = None, **options: Any) -> gr.HTML:
    """A component whose scripts, one after the other in one scope, draw `props.value`."""
    code = "\n".join((STATIC / "js" / f"{name}.js").read_text("utf-8") for name in ("common", *scripts))
    return gr.HTML(
        value=value,
        html_template=markup,
        js_on_load=code,
        apply_default_css=False,
        padding=False,
        **options,
    )


def web_address() -> gr.Textbox:
    """Where the address of a picture on the web goes."""
    return gr.Textbox(
        show_label=False,
        label="Address of a picture on the web",
        placeholder="or the address of a picture: https://…",
        lines=1,
        max_lines=1,
        max_length=MAX_URL_LENGTH,
        container=False,
        elem_id="web-address",
    )


def stage() -> gr.HTML:
    """The picture with its answers; value: app.drawing.overlay.scene.

    Events: drop {path, name} or {url}, remove, refer {values} (a point or a box in 0..1; none to clear).
    """
    return _drawn(
        """
        <figure class="ph-stage" data-state="empty">
          <div class="ph-frame">
            <img class="ph-picture" alt="" draggable="false">
            <svg class="ph-shapes" preserveAspectRatio="none" aria-hidden="true"></svg>
            <svg class="ph-reference" preserveAspectRatio="none" aria-hidden="true"></svg>
            <div class="ph-labels" aria-hidden="true"></div>
          </div>
          <figcaption>
            <span class="ph-note" role="status"></span>
            <span class="ph-refers" hidden><span class="ph-refers-to"></span>
            <button type="button" class="ph-refers-clear">Clear</button></span>
            <span class="ph-tools">
              <label><input type="checkbox" class="ph-tool-labels" checked> Labels</label>
              <label>Fill <input type="range" class="ph-tool-fill" min="0" max="60" value="14"></label>
              <button type="button" class="ph-remove">Remove picture</button>
            </span>
            <span class="ph-credit"></span>
          </figcaption>
        </figure>
        """,
        "overlay",
        visible="hidden",
        elem_id="stage",
    )


def results() -> gr.HTML:
    """Table, JSON, the same as code, downloads; value: app.page.handlers.results_value."""
    return _drawn(
        f"""
        <section class="ph-results" data-state="empty" aria-label="Answers">
          <div class="ph-tabs" role="tablist">
            <button type="button" role="tab" class="ph-tab" data-view="table" aria-selected="true">Answers</button>
            <button type="button" role="tab" class="ph-tab" data-view="json" aria-selected="false">JSON</button>
            <button type="button" role="tab" class="ph-tab" data-view="python" aria-selected="false">Python</button>
            <button type="button" role="tab" class="ph-tab" data-view="curl" aria-selected="false">curl</button>
          </div>
          <p class="ph-hint">Answers are listed here.</p>
          <div class="ph-view ph-view-table" role="tabpanel">
            <p class="ph-nothing"></p>
            <table class="ph-rows" hidden>
              <thead><tr><th>Name</th><th class="ph-num">#</th><th class="ph-num ph-place"></th>
              <th class="ph-num"><abbr tabindex="0" title="{CERTAINTY}">Certainty</abbr></th></tr></thead>
              <tbody></tbody>
            </table>
          </div>
          <div class="ph-view ph-view-text" role="tabpanel" hidden>
            <button type="button" class="ph-copy-text">Copy</button>
            <pre class="ph-text" tabindex="0"></pre>
          </div>
          <pre class="ph-json" hidden></pre>
          <p class="ph-downloads">Download
            <button type="button" data-form="json">JSON</button>
            <button type="button" data-form="coco">COCO</button>
            <button type="button" data-form="svg">SVG</button>
            <button type="button" data-form="mask">Mask</button>
            <button type="button" data-form="png">PNG</button>
            <span class="ph-download-problem" role="alert"></span>
          </p>
        </section>
        """,
        "results",
        elem_id="results",
    )


def time_panel() -> gr.HTML:
    """The split and the timeline; value: {"requests": splits, "timeline": app.drawing.timeline.timeline}."""
    return _drawn(
        """
        <section class="ph-time" data-state="empty" aria-label="Where the time went">
          <h2>Where the time went</h2>
          <p class="ph-hint">Ask something, and each millisecond of the request is shown here.</p>
          <div class="ph-time-body"></div>
        </section>
        """,
        "time",
        "time_panel",
        elem_id="time",
    )


def race_head() -> gr.HTML:
    """What a race is."""
    return gr.HTML(
        """
        <section class="ph-race">
          <h2>Race</h2>
          <p class="ph-hint">The question above, asked many times about this picture, or about those of the batch below:
          first with the pipeline off, then on.</p>
        </section>
        """,
        js_on_load=None,
        apply_default_css=False,
        padding=False,
    )


def race_view() -> gr.HTML:
    """A race; value: {"text", "problem", "progress": {mode, done, count}, "report": app.runs.race, "note"}."""
    return _drawn('<div class="ph-race-body"></div>', "time", "race", elem_id="race-view")


def gains_head() -> gr.HTML:
    """What the estimate is, and what of it is measured."""
    return gr.HTML(
        """
        <section class="ph-race">
          <h2>What a GPU would gain</h2>
          <p class="ph-hint">Modelled, not measured: how long a GPU takes for a step is given by published figures.
          Only the bookkeeping is this server's own, measured when you ask.</p>
        </section>
        """,
        js_on_load=None,
        apply_default_css=False,
        padding=False,
    )


def gains_view() -> gr.HTML:
    """The estimate; value: {"text", "problem", "report": {"accelerators": app.runs.gains.shown, "note"}}."""
    return _drawn('<div class="ph-race-body ph-gains-body"></div>', "gains", elem_id="gains-view")


def batch_input() -> gr.File:
    """Many pictures; hands over the paths as they are, without Gradio's empty temporary file for each."""
    made = gr.File(file_count="multiple", label="Pictures", height=140, elem_id="batch-in")
    made.preprocess = lambda payload: [one.path for one in payload.root] if payload else None
    return made


def batch_view() -> gr.HTML:
    """A batch; value: {"text", "problem", "progress": {done, count}, "rows", "zip": address}."""
    return _drawn('<div class="ph-race-body ph-batch-body"></div>', "batch", elem_id="batch-view")


def models() -> gr.HTML:
    """The choice of a model; value: see app.page.chooser.Chooser. Event: choose {name}."""
    return _drawn(
        """
        <section class="ph-models" aria-label="Model">
          <details>
            <summary><span class="ph-models-what">Model</span><b class="ph-models-name"></b>
            <span class="ph-models-skills"></span></summary>
            <div class="ph-models-list" role="radiogroup" aria-label="Models"></div>
          </details>
          <div class="ph-models-progress"></div>
          <p class="ph-status" data-kind="idle" role="alert"></p>
        </section>
        """,
        "models",
        elem_id="models",
    )


def skills() -> gr.HTML:
    """What the visitor's model lacks; value: app.page.chooser.lacking."""
    return _drawn('<p class="ph-skills"></p>', "skills", elem_id="skills")


def status() -> gr.HTML:
    """One line; value: {"kind": "idle" | "busy" | "done" | "problem", "text": sentence}."""
    return _drawn('<p class="ph-status" data-kind="idle"></p>', "status", elem_id="status")


def examples(value: list[dict[str, str]]) -> gr.HTML:
    """Example pictures; value: [{"src", "title", "credit"}]. Event: choose {index}."""
    return _drawn('<div class="ph-examples"></div>', "examples", value=value, visible=bool(value), elem_id="examples")


def header() -> gr.HTML:
    """Name, what it is about, and what answers; value: app.page.about.header."""
    return _drawn(
        """
        <header class="ph-header">
          <div><h1>Photon Demo</h1>
          <p>Ask a vision model where things are, and see where each millisecond goes. <b>Pipelined decoding</b>: while
          the device computes step t + 1, the CPU does the bookkeeping of step t.</p></div>
          <dl class="ph-about">
            <div><dt>Model</dt><dd class="ph-model"></dd></div>
            <div><dt>Device</dt><dd class="ph-device"></dd></div>
            <div><dt>Times</dt><dd class="ph-times"></dd></div>
            <div><dt>Theme</dt><dd><button type="button" class="ph-theme">Light</button></dd></div>
          </dl>
          <p class="ph-status" data-kind="problem" role="alert" hidden></p>
          <p class="ph-where" hidden></p>
        </header>
        """,
        "header",
        elem_id="header",
    )


def about() -> gr.HTML:
    """What pipelining does here and what the model knows; value: app.page.about.notes."""
    return gr.HTML(
        value={},
        html_template="""
        <section class="ph-notes">
          {{#if value.pipeline}}
          <div><h2>What the switch does</h2><p>{{value.pipeline}}</p>
          <p class="ph-engine">{{value.engine}}</p></div>
          {{/if}}
          {{#if value.names}}
          <div><h2>What this model knows</h2>
          <p>{{value.knows}}</p>
          <details><summary>All {{value.count}} names</summary>
          <p class="ph-names">{{value.names}}</p></details></div>
          {{/if}}
        </section>
        """,
        js_on_load=None,
        apply_default_css=False,
        padding=False,
        elem_id="about",
    )
