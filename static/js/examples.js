// Example pictures; one click takes the picture, its question, and asks it.
function draw() {
  const items = (props.value || []).map((example, index) => {
    const button = node("button", { type: "button", class: "ph-example", title: `${example.title} (${example.credit})`, "aria-label": `Example: ${example.title}` }, node("img", { src: example.src, alt: "", loading: "lazy" }), node("span", { text: example.title }));
    button.addEventListener("click", () => trigger("choose", { index }));
    return button;
  });
  find(".ph-examples").replaceChildren(...items);
}
watch("value", draw);
draw();
