// The answers as a table and as JSON.
const views = { table: find(".ph-view-table"), json: find(".ph-view-json") };

function place(row) {
  const whole = (values) => values.map((value) => Math.round(value)).join(", ");
  return row.kind === "point" ? whole([row.x, row.y]) : whole(row.box);
}

function drawRow(row) {
  const tr = node(
    "tr",
    { "data-key": keyOf(row), tabindex: 0 },
    node("td", {}, node("i", { class: "ph-swatch", style: { "--colour": row.colour } }), node("span", { text: row.name })),
    node("td", { class: "ph-num", text: row.index }),
    node("td", { class: "ph-num", text: place(row) }),
    node("td", { class: "ph-num", text: row.score == null ? "–" : row.score.toFixed(2) }),
  );
  for (const name of ["pointerenter", "focus"]) tr.addEventListener(name, () => highlight(tr.dataset.key));
  for (const name of ["pointerleave", "blur"]) tr.addEventListener(name, () => highlight(null));
  return tr;
}

function show(view) {
  for (const [name, pane] of Object.entries(views)) pane.hidden = name !== view;
  for (const tab of element.querySelectorAll(".ph-tab")) tab.setAttribute("aria-selected", tab.dataset.view === view);
}

function draw() {
  const value = props.value || {};
  const rows = value.rows || [];
  find(".ph-results").dataset.state = value.json ? "answered" : "empty";
  find(".ph-place").textContent = rows.length && rows[0].kind === "point" ? "x, y (px)" : "left, top, right, bottom (px)";
  find("tbody").replaceChildren(...rows.map(drawRow));
  find(".ph-rows").hidden = rows.length === 0;
  find(".ph-nothing").hidden = rows.length !== 0;
  find(".ph-nothing").textContent = value.note || "";
  find(".ph-json").textContent = value.json || "";
}

for (const tab of element.querySelectorAll(".ph-tab")) tab.addEventListener("click", () => show(tab.dataset.view));
find(".ph-copy").addEventListener("click", async (event) => {
  await navigator.clipboard.writeText(props.value.json);
  event.target.textContent = "Copied";
  setTimeout(() => (event.target.textContent = "Copy"), 1500);
});
onHighlight((key) => {
  for (const row of element.querySelectorAll("tr[data-key]")) row.classList.toggle("ph-on", row.dataset.key === key);
});
watch("value", draw);
draw();
