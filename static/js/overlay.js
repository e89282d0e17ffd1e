// The picture and its answers. Shapes are checked and clipped in Python (app/drawing/overlay.py).
const frame = find(".ph-frame");
const picture = find(".ph-picture");
const shapesLayer = find(".ph-shapes");
const labelsLayer = find(".ph-labels");
const note = find(".ph-note");
const MANY = 40; // more labels than this would cover the picture: only that of the lit object is shown
const PATH_ONLY = /^[MLHVZh0-9., -]*$/; // what may reach an SVG path

function pathOf(shape, d, kind) {
  return svg("path", { d: PATH_ONLY.test(d) ? d : "", class: `ph-${kind}`, "fill-rule": "evenodd", "data-key": keyOf(shape) });
}

// Every stroke is drawn twice, dark below and coloured above, so that it shows on any picture.
function drawShape(shape) {
  const group = svg("g", { class: `ph-shape ph-is-${shape.kind}`, "data-key": keyOf(shape), style: { "--colour": shape.colour } });
  if (shape.kind === "contour") group.append(pathOf(shape, shape.frame, "guide"));
  group.append(pathOf(shape, shape.d, "halo"), pathOf(shape, shape.d, "line"));
  if (shape.tiny) {
    const [x0, y0, x1, y1] = shape.box;
    const dot = `M${(x0 + x1) / 2} ${(y0 + y1) / 2}h0`;
    group.append(pathOf(shape, dot, "dot-halo"), pathOf(shape, dot, "dot"));
  }
  return group;
}

// Larger objects lie below smaller ones, so that each can be reached.
function areaOf(shape) {
  return shape.box ? (shape.box[2] - shape.box[0]) * (shape.box[3] - shape.box[1]) : 0;
}

function drawLabel(shape) {
  return node("span", { class: "ph-label", "data-key": keyOf(shape), "data-sure": sureness(shape), style: { "--colour": shape.colour }, text: `${shape.name} ${shape.index}` });
}

// Labels have a size on the screen, not in the picture, so they are placed after layout: above the
// object where there is room, else inside, and never past an edge.
function placeLabels() {
  const { width, height } = props.value || {};
  const [w, h] = [frame.clientWidth, frame.clientHeight];
  if (!width || !w) return;
  const byKey = new Map((props.value.shapes || []).map((shape) => [keyOf(shape), shape]));
  for (const label of labelsLayer.children) {
    const shape = byKey.get(label.dataset.key);
    if (!shape) continue;
    const [left, top] = shape.kind === "point" ? [shape.x, shape.y] : shape.box;
    const lift = shape.kind === "point" ? 10 : 3;
    let x = (left / width) * w + (shape.kind === "point" ? 8 : 0);
    let y = (top / height) * h - label.offsetHeight - lift;
    if (y < 0) y = (top / height) * h + lift;
    x = Math.max(0, Math.min(x, w - label.offsetWidth));
    y = Math.max(0, Math.min(y, h - label.offsetHeight));
    label.style.transform = `translate(${x}px, ${y}px)`;
  }
}

function draw() {
  const value = props.value || {};
  const there = Boolean(value.src);
  find(".ph-stage").dataset.state = there ? "picture" : "empty";
  if (!there) return;
  frame.style.setProperty("--ratio", value.width / value.height);
  if (picture.getAttribute("src") !== value.src) {
    picture.setAttribute("src", value.src);
    drawReference((marked = []));
  }
  picture.alt = value.note ? `${value.name}. ${value.note}` : value.name || "Your picture";
  shapesLayer.setAttribute("viewBox", `0 0 ${value.width} ${value.height}`);
  shapesLayer.replaceChildren(...[...value.shapes].sort((a, b) => areaOf(b) - areaOf(a)).map(drawShape));
  labelsLayer.replaceChildren(...value.shapes.map(drawLabel));
  find(".ph-stage").classList.toggle("ph-many", value.shapes.length > MANY);
  note.textContent = value.note || "";
  find(".ph-credit").textContent = value.credit || "";
  placeLabels();
}

function light(key) {
  find(".ph-stage").classList.toggle("ph-lit", Boolean(key));
  for (const one of element.querySelectorAll("[data-key]")) one.classList.toggle("ph-on", one.dataset.key === key);
  placeLabels(); // the lit one says more
}

function sendFile(file) {
  if (!file) return;
  upload(file)
    .then(({ path }) => trigger("drop", { path, name: file.name || "pasted picture" }))
    .catch((error) => trigger("drop", { path: "", name: String(error.message || error) }));
}

frame.addEventListener("pointerover", (event) => highlight(event.target.dataset.key || null));
frame.addEventListener("pointerleave", () => highlight(null));
onHighlight(light);

const stage = find(".ph-stage");
stage.addEventListener("dragover", (event) => event.preventDefault());
stage.addEventListener("drop", (event) => {
  event.preventDefault();
  sendFile(event.dataTransfer.files[0]);
});

// What is dragged from another page is an address: the server fetches it, wherever on this page it is dropped.
const onlyWords = (data) => !data.types.includes("Files");
const typing = (target) => target.matches?.("input, textarea, [contenteditable]");
function addressIn(data) {
  const html = new DOMParser().parseFromString(data.getData("text/html"), "text/html").querySelector("img")?.src;
  const listed = data.getData("text/uri-list").split(/\r?\n/).find((line) => line && !line.startsWith("#"));
  return html?.startsWith("http") ? html : listed || "";
}
document.addEventListener("dragover", (event) => {
  if (onlyWords(event.dataTransfer) && !typing(event.target)) event.preventDefault();
});
document.addEventListener("drop", (event) => {
  if (!onlyWords(event.dataTransfer) || typing(event.target)) return;
  event.preventDefault();
  const url = addressIn(event.dataTransfer);
  trigger("drop", url ? { url } : { path: "", name: "what was dropped is neither a file nor the address of one." });
});

// A table or a text on the clipboard brings a picture of itself along: in a box of words, the words are meant.
document.addEventListener("paste", (event) => {
  const words = event.clipboardData.getData("text/plain");
  if (!(words && typing(event.target))) sendFile(event.clipboardData.files[0]);
});

// Gradio's chooser goes by a file's ending; whether it is a picture is seen in its bytes.
document.addEventListener(
  "change",
  (event) => {
    const file = event.target.closest?.("#picture-in") && event.target.files?.[0];
    if (!file || file.type.startsWith("image/")) return;
    event.stopImmediatePropagation();
    sendFile(file);
  },
  true,
);

// A click on the picture is a point reference, a drag is a box reference, for the next question.
const reference = find(".ph-reference");
let dragFrom = null;
let marked = []; // what the next question refers to

function placeOf(event) {
  const box = frame.getBoundingClientRect();
  const within = (value) => Math.min(Math.max(value, 0), 1);
  return [within((event.clientX - box.left) / box.width), within((event.clientY - box.top) / box.height)];
}

function referenceOf(from, to) {
  const [w, h] = [frame.clientWidth, frame.clientHeight];
  if (Math.hypot((to[0] - from[0]) * w, (to[1] - from[1]) * h) < 6) return from;
  return [Math.min(from[0], to[0]), Math.min(from[1], to[1]), Math.max(from[0], to[0]), Math.max(from[1], to[1])];
}

function drawReference(values) {
  const [x0, y0, x1, y1] = values;
  const d = values.length === 4 ? `M${x0} ${y0}H${x1}V${y1}H${x0}Z` : values.length === 2 ? `M${x0} ${y0}h0` : "";
  reference.setAttribute("viewBox", "0 0 1 1");
  reference.classList.toggle("ph-is-point", values.length === 2);
  reference.replaceChildren(svg("path", { d, class: "ph-halo" }), svg("path", { d, class: "ph-line" }));
  find(".ph-refers").hidden = values.length === 0;
  const words = values.map((value) => value.toFixed(2)).join(", ");
  find(".ph-refers-to").textContent = values.length ? `Refers to ${values.length === 2 ? "the point" : "the box"} ${words}` : "";
}

function mark(values) {
  drawReference((marked = values));
  trigger("refer", { values });
}

// Of two fingers the second only zooms.
frame.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || !event.isPrimary) return;
  dragFrom = placeOf(event);
  frame.setPointerCapture(event.pointerId);
});
frame.addEventListener("pointermove", (event) => {
  if (dragFrom && event.isPrimary) drawReference(referenceOf(dragFrom, placeOf(event)));
});
frame.addEventListener("pointerup", (event) => {
  if (!dragFrom || !event.isPrimary) return;
  mark(referenceOf(dragFrom, placeOf(event)));
  dragFrom = null;
});
// The browser took the gesture for its own: the page is scrolled or zoomed, and nothing is marked.
frame.addEventListener("pointercancel", () => {
  dragFrom = null;
  drawReference(marked);
});
find(".ph-refers-clear").addEventListener("click", () => mark([]));

const labelsTool = find(".ph-tool-labels");
labelsTool.addEventListener("change", () => stage.classList.toggle("ph-no-labels", !labelsTool.checked));
const fillTool = find(".ph-tool-fill");
const setFill = () => stage.style.setProperty("--fill", `${fillTool.value}%`);
fillTool.addEventListener("input", setFill);
setFill();
find(".ph-remove").addEventListener("click", () => trigger("remove"));

new ResizeObserver(placeLabels).observe(frame);
watch("value", draw);
draw();
