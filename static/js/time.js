// Where the time went: one bar a request, its figures, and the timeline of the engine's steps.
const LANE = 24;
const GAP = 10;
const AXIS = 22;
const HINTS = {
  ingest: "Having the picture's pixels at hand: from memory, or decoded again from the file",
  preprocess: "Resizing and cutting the picture for the vision encoder",
  encode: "The vision encoder, where it runs on a core of its own ahead of the prefill; else part of the prefill",
  queue: "Waiting for a place in the batch",
  prefill: "The decoder over picture and prompt, up to the first token; the vision encoder too where it has no time of its own",
  decode: "One token after the other, up to the last",
  post: "Building the result and its drawing",
};
const WHY = {
  idle: "launched as the device had nothing to do",
  sure: "launched before the step ahead was read: somebody was sure to need it",
  likely: "launched before the step ahead was read: all of its rows may have ended, but that was unlikely",
  read: "launched after the step ahead was read: its rows may have ended, or others may join",
  blocking: "launched after the step ahead was read, as always in blocking mode",
};
// A kind of block, its name, and what it is.
const KINDS = [
  ["prefill", "prefill", "The decoder reads picture and question at once, up to the first token."],
  ["decode", "decode", "The decoder's forward pass for one more token of every row."],
  ["sampling", "sampling", "The next token of every row is chosen, among those that may follow."],
  ["copy", "copy to host", "The chosen tokens travel from the device to the CPU."],
  ["launch", "launch", "The CPU hands the device its next step: before the step ahead has been read, where that pays."],
  ["read-first", "launch after reading", "Here the step ahead was read first: its rows might have ended, or others might join."],
  ["commit", "commit", "The CPU reads the tokens of a step and moves every answer on: the bookkeeping that the pipeline hides."],
  ["finalize", "finalize", "The CPU says which tokens may follow, and sampling can begin."],
  ["wait", "waiting for the copy", "The CPU has nothing to do until the tokens arrive."],
  ["bubble", "bubble: device idle", "The device waits for the CPU. In blocking mode it does so at every step; the pipeline is there to close it."],
  ["zombie", "step with zombie rows", "A zombie is a row that had ended before its last step was launched; its token is thrown away."],
];

function figure(label, text, hint) {
  return node("div", { class: "ph-figure", title: hint }, node("dt", { text: label }), node("dd", { text }));
}

function drawBar(request, longest) {
  const bar = node("div", { class: "ph-bar", style: { width: `${Math.max((request.total_ms / longest) * 100, 2)}%` } });
  for (const part of request.parts) {
    if (part.ms <= 0) continue;
    const words = `${part.label} ${ms(part.ms)}`;
    bar.append(node("span", { class: `ph-part ph-${part.key}`, style: { "flex-grow": part.ms }, title: words }));
  }
  const head = node(
    "div",
    { class: "ph-bar-head" },
    node("b", { text: request.name }),
    node("span", { text: `${ms(request.total_ms)} · ${request.mode}` }),
  );
  return node("button", { type: "button", class: "ph-request", "aria-label": `Figures of ${request.name}` }, head, node("div", { class: "ph-track" }, bar));
}

// A bar a request, on one scale; the figures are those of the bar that is chosen.
function drawRequests(requests) {
  const longest = Math.max(...requests.map((request) => request.total_ms), 0.001);
  const figures = node("div", { "aria-live": "polite" });
  const bars = requests.map((request) => {
    const bar = drawBar(request, longest);
    bar.addEventListener("click", () => choose(request, bar));
    return bar;
  });
  const choose = (request, bar) => {
    for (const other of bars) other.setAttribute("aria-pressed", other === bar);
    figures.replaceChildren(drawFigures(request));
  };
  choose(requests[0], bars[0]);
  return node("section", { class: requests.length > 1 ? "ph-requests ph-several" : "ph-requests" }, ...bars, figures);
}

// The engine's count holds the zombie steps already.
function stepsOf(request) {
  const zombies = request.zombie_steps;
  return zombies ? `${request.steps - zombies} + ${zombies} zombie` : request.steps;
}

function drawFigures(request) {
  const list = node("dl", { class: "ph-figures" });
  for (const part of request.parts) {
    const made = figure(part.label, ms(part.ms), HINTS[part.key]);
    made.classList.add("ph-keyed", `ph-key-${part.key}`);
    list.append(made);
  }
  list.append(
    figure("First token", ms(request.first_token_ms), "From the request to its first token"),
    figure("Total", ms(request.total_ms), "From the request to its drawn answer"),
    figure("Tokens", request.tokens, "Tokens that the model generated"),
    figure("Steps", stepsOf(request), "A zombie step was launched before the end was known; its token is thrown away"),
    figure("Device busy, asked to answered", percent(request.device_busy), "Share of the request in which the device computed"),
  );
  return list;
}

// A round distance between ticks that leaves each at least 70 pixels.
function tickOf(span, width) {
  const least = (span / width) * 70;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((f) => f * power).find((step) => step >= least);
}

function drawAxis(chart, view, x, height) {
  const step = tickOf(view.to - view.from, view.width);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
    chart.append(svg("line", { class: "ph-grid", x1: x(t), x2: x(t), y1: 0, y2: height }));
    chart.append(svg("text", { class: "ph-tick", x: x(t) + 4, y: height + 15, text: `${t.toFixed(digits)} ms` }));
  }
}

function aboutSpan(line, span) {
  const [, kind, start, end, row] = span;
  const step = line.steps[row];
  const zombies = step.zombies ? `, ${step.zombies} of them zombie` : "";
  const rows = `${step.rows} ${step.rows === 1 ? "row" : "rows"}${zombies}`;
  return `Step ${step.step} (${step.kind} of ${step.tokens} ${step.tokens === 1 ? "token" : "tokens"}, slot ${step.slot}, ${rows}): ${kind} ${ms(end - start)}, at ${ms(start)}; ${WHY[step.why]}`;
}

function drawTimeline(line, view, readout) {
  const height = line.lanes.length * (LANE + GAP);
  const chart = svg("svg", { class: "ph-chart", width: view.width, height: height + AXIS, role: "img", "aria-label": `Timeline of ${line.steps.length} steps over ${ms(line.end_ms)}` });
  chart.append(
    svg("defs", {}, svg("pattern", { id: "ph-hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("rect", { width: 2, height: 6, class: "ph-hatch" }))),
  );
  const x = (t) => ((t - view.from) / (view.to - view.from)) * view.width;
  const top = (lane) => lane * (LANE + GAP) + GAP / 2;
  line.lanes.forEach((_, lane) => chart.append(svg("rect", { class: "ph-lane", x: 0, y: top(lane), width: view.width, height: LANE })));
  drawAxis(chart, view, x, height);
  const block = (kind, lane, start, end, words) => {
    if (end < view.from || start > view.to) return;
    const rect = svg("rect", { class: `ph-span ph-${kind}`, x: x(start), y: top(lane), width: Math.max(x(end) - x(start), 0.75), height: LANE });
    rect.addEventListener("pointerenter", () => (readout.textContent = words));
    chart.append(rect);
  };
  for (const [start, end] of line.bubbles) block("bubble", 1, start, end, `Bubble: the device waited ${ms(end - start)}`);
  for (const span of line.spans) {
    const readFirst = span[1] === "launch" && line.steps[span[4]].why === "read";
    block(readFirst ? "read-first" : span[1], span[0], span[2], span[3], aboutSpan(line, span));
    if (span[0] === 1 && span[1] !== "sampling" && line.steps[span[4]].zombies) block("zombie", 1, span[2], span[3], aboutSpan(line, span));
  }
  return chart;
}

// Each entry says what it is and lights its blocks in the timelines beside it.
function drawLegend(...lines) {
  const seen = new Set(lines.flatMap((line) => line.spans.map((span) => span[1])));
  if (lines.some((line) => line.bubbles.length)) seen.add("bubble");
  if (lines.some((line) => line.steps.some((step) => step.why === "read"))) seen.add("read-first");
  if (lines.some((line) => line.steps.some((step) => step.zombies))) seen.add("zombie");
  const said = node("p", { class: "ph-said", "aria-live": "polite" });
  const items = KINDS.filter(([kind]) => seen.has(kind)).map(([kind, words, sentence]) => {
    const item = node("button", { type: "button", class: "ph-entry", "data-kind": kind }, node("i", { class: `ph-chip ph-${kind}` }), node("span", { text: words }));
    const light = (lit) => {
      said.textContent = lit ? sentence : "";
      for (const block of element.querySelectorAll(".ph-span")) block.classList.toggle("ph-faded", lit && !block.classList.contains(`ph-${kind}`));
    };
    for (const name of ["pointerenter", "focus"]) item.addEventListener(name, () => light(true));
    for (const name of ["pointerleave", "blur"]) item.addEventListener(name, () => light(false));
    return node("li", {}, item);
  });
  return node("div", {}, node("ul", { class: "ph-legend" }, ...items), said);
}

// One timeline with its own zoom; `until` lets several share a scale.
function timelinePanel(line, title, until) {
  const readout = node("p", { class: "ph-readout", text: " " });
  const scroller = node("div", { class: "ph-lanes" });
  const view = { from: 0, to: until };
  const redraw = () => {
    view.width = scroller.clientWidth || 600;
    scroller.replaceChildren(drawTimeline(line, view, readout));
  };
  const zoom = (factor, centre = (view.from + view.to) / 2) => {
    const span = Math.min(Math.max((view.to - view.from) * factor, 0.2), until);
    view.from = Math.min(Math.max(centre - span / 2, 0), until - span);
    view.to = view.from + span;
    redraw();
  };
  const pan = (share) => {
    const span = view.to - view.from;
    view.from = Math.min(Math.max(view.from + span * share, 0), until - span);
    view.to = view.from + span;
    redraw();
  };
  const button = (text, label, act) => {
    const made = node("button", { type: "button", "aria-label": label, title: label, text });
    made.addEventListener("click", act);
    return made;
  };
  const buttons = node("span", { class: "ph-zoom" }, button("◀", "Earlier", () => pan(-0.5)), button("▶", "Later", () => pan(0.5)), button("−", "Zoom out", () => zoom(2)), button("+", "Zoom in", () => zoom(0.5)), button("Fit", "Show all", () => zoom(Infinity)));
  scroller.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8);
  }, { passive: false });
  const facts = `device busy ${percent(line.busy_share)} from its first to its last work · idle ${ms(line.idle_ms)} · ${line.tokens} ${line.tokens === 1 ? "token" : "tokens"} · ${line.tokens_per_s.toFixed(0)} tokens/s`;
  const head = node("div", { class: "ph-line-head" }, node("b", { text: title }), node("span", { text: facts }), buttons);
  const names = node("div", { class: "ph-lane-names" }, ...line.lanes.map((name) => node("span", { text: name })));
  const panel = node("div", { class: "ph-timeline" }, head, node("div", { class: "ph-line-body" }, names, scroller), readout);
  if (line.left_out) panel.append(node("p", { class: "ph-readout", text: `${line.left_out} further steps are not drawn.` }));
  new ResizeObserver(redraw).observe(scroller);
  return panel;
}
