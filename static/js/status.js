// One line that says what is going on.
function draw() {
  const value = props.value || {};
  const line = find(".ph-status");
  line.dataset.kind = value.kind || "idle";
  line.setAttribute("role", value.kind === "problem" ? "alert" : "status");
  line.textContent = value.text || "";
}
watch("value", draw);
draw();
