// Tasks that the visitor's model lacks are disabled, and why is said.
let watched = null;

function draw() {
  const { lines = [] } = props.value || {};
  const task = document.querySelector("#task");
  if (task && task !== watched) {
    watched = task;
    new MutationObserver(disable).observe(task, { childList: true, subtree: true });
  }
  disable();
  find(".ph-skills").replaceChildren(...lines.map((text) => node("span", { text })));
}

function disable() {
  const unable = (props.value || {}).unable || {};
  for (const input of document.querySelectorAll("#task input[type=radio]")) {
    const why = unable[input.value] || "";
    input.disabled = why !== "";
    input.closest("label").title = why;
    input.closest("label").classList.toggle("ph-unable", why !== "");
  }
}
watch("value", draw);
draw();
