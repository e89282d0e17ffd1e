// What a GPU would gain: a step of the modelled accelerator, with the pipeline off and on.
const us = (value) => (value >= 1000 ? `${(value / 1000).toFixed(2)} ms` : `${value.toFixed(0)} µs`);
const gain = (share) => `${share >= 0 ? "+" : "−"}${Math.abs(share * 100).toFixed(1)} %`;

// The device's part of a step, and after it the part in which the device waits.
function stepBar(label, device, whole, longest) {
  const share = (value) => `${(Math.max(value, 0) / longest) * 100}%`;
  const words = `${label}: ${whole.toFixed(2)} ms a step, of which the device works ${device.toFixed(2)} ms`;
  return node(
    "div",
    { class: "ph-step", role: "img", "aria-label": words, title: words },
    node("span", { class: "ph-step-name", text: label }),
    node(
      "span",
      { class: "ph-track" },
      node("span", { class: "ph-chip ph-decode", style: { width: share(Math.min(device, whole)) } }),
      node("span", { class: "ph-chip ph-bubble", style: { width: share(whole - device) } }),
    ),
    node("span", { class: "ph-step-ms", text: `${whole.toFixed(2)} ms` }),
  );
}

function drawLoad(name, device, load, longest) {
  return node(
    "div",
    { class: "ph-gain" },
    node("p", { class: "ph-gain-head" }, node("b", { text: gain(load.gain) }), node("span", { text: `${name}, ${us(load.bookkeeping_us)} a step` })),
    stepBar("off", device, load.off_ms, longest),
    stepBar("on", device, load.on_ms, longest),
  );
}

function drawRow(row, longest) {
  return node(
    "div",
    { class: "ph-gain-row" },
    node("h4", { text: row.together === 1 ? "One request" : `${row.together} requests together` }),
    drawLoad("this server's bookkeeping, measured", row.device_ms, row.own, longest),
    row.original && drawLoad("the original engine's, as published", row.device_ms, row.original, longest),
  );
}

function drawAccelerator(accelerator) {
  const longest = Math.max(...accelerator.rows.flatMap((row) => [row.own, row.original].filter(Boolean).map((load) => load.off_ms)));
  return node(
    "section",
    { class: "ph-accelerator" },
    node("h3", {}, node("span", { text: accelerator.name }), node("em", { text: "modelled" })),
    ...accelerator.rows.map((row) => drawRow(row, longest)),
  );
}

function draw() {
  const value = props.value || {};
  const blocks = [];
  if (value.text) blocks.push(node("p", { class: "ph-status", "data-kind": value.problem ? "problem" : "busy", role: "status", text: value.text }));
  if (value.report) {
    const legend = [["decode", "the device computes"], ["bubble", "the device waits"]];
    blocks.push(
      node("div", { class: "ph-accelerators" }, ...value.report.accelerators.map(drawAccelerator)),
      node("ul", { class: "ph-legend" }, ...legend.map(([kind, words]) => node("li", {}, node("i", { class: `ph-chip ph-${kind}` }), node("span", { text: words })))),
      node("p", { class: "ph-hint", text: value.report.note }),
    );
  }
  find(".ph-gains-body").replaceChildren(...blocks);
}
watch("value", draw);
draw();
