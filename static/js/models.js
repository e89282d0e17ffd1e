// The models that may be chosen, and the one that this visitor's requests go to.
let chosen = null;

function drawRow(row, current) {
  const button = node(
    "button",
    { type: "button", class: "ph-choice", role: "radio", "aria-checked": String(row.name === current), disabled: row.refusal !== "" },
    node("span", { class: "ph-choice-head" }, node("b", { text: row.name }), node("span", { class: "ph-choice-state", text: row.state })),
    node("span", { class: "ph-choice-about", text: [row.size, row.skills].filter(Boolean).join(" · ") }),
    row.refusal ? node("span", { class: "ph-choice-refusal", text: row.refusal }) : null,
  );
  button.addEventListener("click", () => row.name !== props.value.model && trigger("choose", { name: row.name }));
  return button;
}

function drawProgress(progress) {
  const known = progress.share > 0;
  return node(
    "div",
    { role: "progressbar", "aria-label": "Loading the model", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": known ? Math.round(progress.share * 100) : null },
    node("div", { class: "ph-bar-head" }, node("span", { text: progress.text }), node("span", { text: known ? percent(progress.share) : "" })),
    node("div", { class: "ph-track" }, node("div", { class: known ? "ph-fill" : "ph-fill ph-unknown", style: { width: `${known ? progress.share * 100 : 30}%` } })),
  );
}

function draw() {
  const value = props.value || {};
  const rows = value.rows || [];
  element.hidden = rows.length < 2;
  const current = rows.find((row) => row.name === value.model) || {};
  find(".ph-models-name").textContent = value.model || "";
  find(".ph-models-skills").textContent = current.skills || "";
  find(".ph-models-progress").replaceChildren(...(value.progress ? [drawProgress(value.progress)] : []));
  find(".ph-status").dataset.kind = value.problem ? "problem" : "idle";
  find(".ph-status").textContent = value.problem || "";
  const focused = document.activeElement && document.activeElement.classList.contains("ph-choice") && document.activeElement.querySelector("b").textContent;
  const drawn = rows.map((row) => drawRow(row, value.model));
  find(".ph-models-list").replaceChildren(...drawn);
  const again = drawn[rows.findIndex((row) => row.name === focused)];
  if (again) again.focus();
  if (chosen !== null && value.model !== chosen) find("details").open = false;
  chosen = value.model ?? chosen;
}
watch("value", draw);
draw();
