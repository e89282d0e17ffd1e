// What a reader, a screen reader and a phone find wrong with the page; each function returns a list of complaints.
function shows(element) {
  const box = element.getBoundingClientRect();
  const style = getComputedStyle(element);
  return box.width > 0 && box.height > 0 && style.visibility === "visible" && style.opacity !== "0";
}

const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

// Any CSS colour as red, green, blue (0..255) and alpha (0..1).
function rgba(colour) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}

const over = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);

function ground(element) {
  const layers = [];
  for (let one = element; one; one = one.parentElement) layers.push(rgba(getComputedStyle(one).backgroundColor));
  return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255, 1]);
}

function luminance([r, g, b]) {
  const [x, y, z] = [r, g, b].map((value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}

function contrast(element, colour) {
  const back = ground(element);
  const [a, b] = [luminance(over(rgba(colour), back)), luminance(back)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}

function faint() {
  const wrong = [];
  const check = (element, colour, text) => {
    const ratio = contrast(element, colour);
    const style = getComputedStyle(element);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) wrong.push(`${text.trim().slice(0, 40)} (${element.tagName} ${element.className}): ${ratio.toFixed(2)}`);
  };
  for (const element of document.querySelectorAll("body *")) {
    if (!shows(element) || element.disabled || element.closest("[aria-hidden=true]:not(.ph-labels), :disabled")) continue;
    const text = [...element.childNodes].filter((one) => one.nodeType === 3).map((one) => one.textContent).join("");
    const style = getComputedStyle(element);
    if (text.trim()) check(element, element instanceof SVGElement ? style.fill : style.color, text);
    if (element.placeholder && !element.value) check(element, getComputedStyle(element, "::placeholder").color, element.placeholder);
    if (/^(input|textarea)$/i.test(element.tagName) && element.value && !/range|checkbox|radio|file/.test(element.type)) check(element, style.color, element.value);
  }
  return wrong;
}

function nameless() {
  const wrong = [];
  for (const element of document.querySelectorAll("button, a, input, textarea, select, img, [role=button], [role=img], [role=slider], [tabindex='0']")) {
    if (!shows(element) && element.type !== "checkbox" && element.type !== "radio") continue;
    if (element.matches("tr, pre, [aria-hidden=true], [aria-hidden=true] *, input[type=file]")) continue;
    if (element.tagName === "IMG" && element.hasAttribute("alt")) continue;
    const by = (element.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent || "").join(" ");
    const label = [...(element.labels || [])].map((one) => one.textContent).join(" ");
    const name = [element.getAttribute("aria-label"), by, label, element.title, element.textContent].find((one) => one && one.trim());
    if (!name) wrong.push(element.outerHTML.slice(0, 160));
  }
  return wrong;
}

// What is cut off at the right edge, other than in a part that scrolls by itself.
function tooWide() {
  const scrolls = (element) => element && (/auto|scroll|hidden/.test(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
  return [...document.querySelectorAll("main *")]
    .filter((one) => shows(one) && one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one.parentElement))
    .map((one) => `${one.tagName} ${one.className}`);
}
