// One line that says what is going on.
function draw() {
  const value = props.value || {};
  const line = find(".ph-status");
  // A heartbeat that was under way when the request was cancelled comes too late to say that it is going on.
  if (value.beat && line.dataset.kind !== "busy") return;
  line.dataset.kind = value.kind || "idle";
  line.setAttribute("role", value.kind === "problem" ? "alert" : "status");
  line.textContent = value.text || "";
}
watch("value", draw);
draw();
