// The batch: progress, then a table and a ZIP of all answers.
function drawRow(row) {
  return node(
    "tr",
    { class: row.problem ? "ph-bad" : "" },
    node("td", { text: row.name }),
    node("td", { text: row.found }),
    node("td", { class: "ph-num", text: ms(row.ms) }),
  );
}

function drawProgress(progress) {
  return node(
    "div",
    { class: "ph-progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": progress.count, "aria-valuenow": progress.done, "aria-label": "Batch" },
    node("div", { class: "ph-bar-head" }, node("b", { text: "Pictures" }), node("span", { text: `${progress.done} of ${progress.count}` })),
    node("div", { class: "ph-track" }, node("div", { class: "ph-fill", style: { width: `${(100 * progress.done) / progress.count}%` } })),
  );
}

function draw() {
  const value = props.value || {};
  const blocks = [];
  if (value.text) blocks.push(node("p", { class: "ph-status", "data-kind": value.problem ? "problem" : "done", role: "status", text: value.text }));
  if (value.progress) blocks.push(drawProgress(value.progress));
  if (value.zip) blocks.push(node("p", { class: "ph-zip" }, node("a", { href: value.zip, download: "answers.zip", text: "Download all answers (ZIP)" })));
  if ((value.rows || []).length) {
    const head = node("tr", {}, node("th", { text: "Picture" }), node("th", { text: "Found" }), node("th", { class: "ph-num", text: "Time" }));
    blocks.push(node("div", { class: "ph-scroll ph-view-table" }, node("table", { class: "ph-rows ph-race-table" }, node("thead", {}, head), node("tbody", {}, ...value.rows.map(drawRow)))));
  }
  find(".ph-batch-body").replaceChildren(...blocks);
}
watch("value", draw);
draw();
