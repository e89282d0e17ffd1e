// The race: the same requests with the pipeline off and on.
const NAMES = { blocking: "Pipeline off", pipelined: "Pipeline on" };

function drawProgress(progress) {
  const share = progress.done / progress.count;
  return node(
    "div",
    { class: "ph-progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": progress.count, "aria-valuenow": progress.done, "aria-label": NAMES[progress.mode] },
    node("div", { class: "ph-bar-head" }, node("b", { text: NAMES[progress.mode] }), node("span", { text: `${progress.done} of ${progress.count}` })),
    node("div", { class: "ph-track" }, node("div", { class: `ph-fill ph-fill-${progress.mode}`, style: { width: `${100 * share}%` } })),
  );
}

function drawTable(report) {
  const columns = [
    ["Requests/s", (m) => m.requests_per_s.toFixed(2)],
    ["Tokens/s", (m) => m.tokens_per_s.toFixed(0)],
    ["p50", (m) => ms(m.p50_ms)],
    ["p95", (m) => ms(m.p95_ms)],
    ["Device busy", (m) => percent(m.timeline.busy_share)],
    ["In all", (m) => ms(m.wall_ms)],
  ];
  const head = node("tr", {}, node("th", {}), ...columns.map(([text]) => node("th", { class: "ph-num", text })));
  const rows = Object.entries(report.modes).map(([mode, figures]) =>
    node("tr", {}, node("th", { scope: "row", text: NAMES[mode] }), ...columns.map(([, read]) => node("td", { class: "ph-num", text: read(figures) }))),
  );
  return node("div", { class: "ph-scroll" }, node("table", { class: "ph-rows ph-race-table" }, node("thead", {}, head), node("tbody", {}, ...rows)));
}

function drawVerdict(report) {
  const equal = report.equal === report.count ? `all ${report.count} answers are equal` : `${report.count - report.equal} of ${report.count} answers differ`;
  const about = report.pictures > 1 ? `, about ${report.pictures} pictures, each new to the engine in both runs` : "";
  return node(
    "p",
    { class: "ph-verdict" },
    node("b", { text: `× ${report.ratio.toFixed(2)}` }),
    node("span", { text: `requests per second with the pipeline on; ${equal}${about}.` }),
  );
}

function draw() {
  const value = props.value || {};
  const blocks = [];
  if (value.text) blocks.push(node("p", { class: "ph-status", "data-kind": value.problem ? "problem" : "busy", role: "status", text: value.text }));
  if (value.progress) blocks.push(drawProgress(value.progress));
  const report = value.report;
  if (report) {
    blocks.push(drawVerdict(report), drawTable(report));
    for (const mode of ["blocking", "pipelined"]) blocks.push(timelinePanel(report.modes[mode].timeline, NAMES[mode], report.scale_ms || 1));
    const lines = Object.values(report.modes).map((mode) => mode.timeline);
    blocks.push(drawLegend(...lines));
    if (value.note) blocks.push(node("p", { class: "ph-hint", text: value.note }));
  }
  find(".ph-race-body").replaceChildren(...blocks);
}
watch("value", draw);
draw();
