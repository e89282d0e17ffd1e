// The answers as a table and as JSON.
let view = "table";
const ENDINGS = { json: "json", coco: "coco.json", svg: "svg", mask: "mask.png", png: "answers.png" };

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
    node("td", { class: "ph-num", text: sureness(row) || "–" }),
  );
  for (const name of ["pointerenter", "focus"]) tr.addEventListener(name, () => highlight(tr.dataset.key));
  for (const name of ["pointerleave", "blur"]) tr.addEventListener(name, () => highlight(null));
  return tr;
}

// The views besides the table are text; an address that only the browser knows is filled in here.
function textOf(value) {
  const origin = (location.origin + location.pathname.replace(/\/$/, "")).replaceAll("'", "%27");
  if (view === "curl") return (value.curl || "").replace("{origin}", () => origin);
  return (view === "python" ? value.python : value.json) || "";
}

function show(chosen) {
  view = chosen;
  find(".ph-view-table").hidden = view !== "table";
  find(".ph-view-text").hidden = view === "table";
  find(".ph-text").textContent = view === "table" ? "" : textOf(props.value || {});
  for (const tab of element.querySelectorAll(".ph-tab")) tab.setAttribute("aria-selected", tab.dataset.view === view);
}

function draw() {
  const value = props.value || {};
  const rows = value.rows || [];
  find(".ph-results").dataset.state = value.json ? "answered" : value.writing ? "writing" : "empty";
  find(".ph-results").dataset.answer = value.text ? "text" : "shapes";
  find(".ph-place").textContent = rows.length && rows[0].kind === "point" ? "x, y (px)" : "left, top, right, bottom (px)";
  find("tbody").replaceChildren(...rows.map(drawRow));
  find(".ph-rows").hidden = rows.length === 0;
  find(".ph-nothing").hidden = rows.length !== 0;
  find(".ph-nothing").textContent = value.note || "";
  find(".ph-json").textContent = value.json || "";
  find(".ph-download-problem").textContent = "";
  show(view);
}

function save(blob, form) {
  const stem = (props.value.name || "picture").replace(/\.[^.]*$/, "");
  const link = node("a", { href: URL.createObjectURL(blob), download: `${stem}.${ENDINGS[form]}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function download(form) {
  const value = props.value;
  find(".ph-download-problem").textContent = "";
  if (form === "json") return save(new Blob([value.json], { type: "application/json" }), form);
  const body = JSON.stringify({ answers: JSON.parse(value.json), picture: value.picture, name: value.name });
  const response = await fetch(`export/${form}`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
  if (response.ok) save(await response.blob(), form);
  else find(".ph-download-problem").textContent = (await response.json()).error;
}

for (const tab of element.querySelectorAll(".ph-tab")) tab.addEventListener("click", () => show(tab.dataset.view));
for (const button of element.querySelectorAll("[data-form]")) button.addEventListener("click", () => download(button.dataset.form));
// A page over plain http from another computer has no clipboard; then the text is selected, and copied if that is allowed.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(text);
    return document.execCommand("copy");
  }
}

find(".ph-copy-text").addEventListener("click", async (event) => {
  event.target.textContent = (await copied(find(".ph-text"))) ? "Copied" : "Selected: press Ctrl+C";
  setTimeout(() => (event.target.textContent = "Copy"), 1500);
});
onHighlight((key) => {
  for (const row of element.querySelectorAll("tr[data-key]")) row.classList.toggle("ph-on", row.dataset.key === key);
});
watch("value", draw);
draw();
