// What answers here, and the theme: the system's, until a person chooses.
const theme = find(".ph-theme");
const isDark = () => document.body.classList.contains("dark");

function nameTheme() {
  theme.textContent = isDark() ? "Dark" : "Light";
  theme.setAttribute("aria-label", `Theme: ${theme.textContent}. Change to ${isDark() ? "light" : "dark"}`);
}

theme.addEventListener("click", () => {
  document.body.classList.toggle("dark");
  nameTheme();
});

function draw() {
  const value = props.value || {};
  find(".ph-about").dataset.state = value.state || "";
  for (const part of ["model", "device", "times"]) find(`.ph-${part}`).textContent = value[part] || "–";
  find(".ph-status").textContent = value.problem || "";
  find(".ph-status").hidden = !value.problem;
  find(".ph-where").textContent = value.note || "";
  find(".ph-where").hidden = !value.note;
}
new MutationObserver(nameTheme).observe(document.body, { attributes: true, attributeFilter: ["class"] });
nameTheme();
watch("value", draw);
draw();
