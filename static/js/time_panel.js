// The panel below the picture: the last question's requests and their steps.
function draw() {
  const value = props.value || {};
  const requests = value.requests || [];
  find(".ph-time").dataset.state = requests.length ? "answered" : "empty";
  const blocks = requests.length ? [drawRequests(requests)] : [];
  const line = value.timeline;
  if (line && line.steps.length) blocks.push(timelinePanel(line, "Steps of the engine", line.end_ms || 1), drawLegend(line));
  find(".ph-time-body").replaceChildren(...blocks);
}
watch("value", draw);
draw();
