// Small helpers that every drawn component uses. All text goes through textContent, never through markup.
const SVG = "http://www.w3.org/2000/svg";
const HIGHLIGHT = "photon:highlight";

function node(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") made.textContent = value;
    else if (name === "style") Object.entries(value).forEach(([k, v]) => made.style.setProperty(k, v));
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

const find = (selector) => element.querySelector(selector);
const keyOf = (shape) => `${shape.name}#${shape.index}`;

// The table and the picture light up the same object; they only share this event.
function highlight(key) {
  document.dispatchEvent(new CustomEvent(HIGHLIGHT, { detail: key }));
}

function onHighlight(react) {
  document.addEventListener(HIGHLIGHT, (event) => react(event.detail));
}

function ms(value) {
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  if (value >= 100) return `${value.toFixed(0)} ms`;
  if (value >= 10) return `${value.toFixed(1)} ms`;
  return `${value.toFixed(2)} ms`;
}

const percent = (share) => `${Math.round(share * 100)} %`;
const sureness = (shape) => (shape.certainty == null ? "" : shape.certainty < 0.01 ? "< 1 %" : percent(shape.certainty));
