// Tabs, theme, token; then the stream.

const tabs = [...document.querySelectorAll("[role=tab]")];
function select(name, focus) {
  state.view = name;
  for (const tab of tabs) {
    const own = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(own));
    tab.tabIndex = own ? 0 : -1;
    if (own && focus) tab.focus();
    $(tab.getAttribute("aria-controls")).hidden = !own;
  }
  if (location.hash.slice(1) !== name) history.replaceState(null, "", `#${name}`);
  trouble("view", "");
  entered();
}
tabs.forEach((tab, at) => {
  const name = tab.id.slice(4);
  tab.addEventListener("click", () => select(name, false));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(tabs[(to + tabs.length) % tabs.length].id.slice(4), true);
  });
  views[name].show($(`view-${name}`));
});

function theme(name) {
  document.documentElement.dataset.theme = name;
  put($("theme"), name === "dark" ? "Light" : "Dark");
  $("theme").setAttribute("aria-label", `Change to ${name === "dark" ? "light" : "dark"} colours`);
}
const system = matchMedia("(prefers-color-scheme: dark)");
const themed = () => localStorage.getItem("theme") || (system.matches ? "dark" : "light");
system.addEventListener("change", () => theme(themed()));
$("theme").addEventListener("click", () => {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  theme(themed());
});
theme(themed());

$("bridge").addEventListener("change", () => { state.bridge = $("bridge").value; entered(); });
$("token-open").addEventListener("click", () => { $("token-form").hidden = !$("token-form").hidden; if (!$("token-form").hidden) $("token").focus(); });
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value.trim());
  $("token").value = "";
  $("token-form").hidden = true;
  entered();
});
addEventListener("hashchange", () => { const name = location.hash.slice(1); if (views[name] && name !== state.view) select(name, false); });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
const first = location.hash.slice(1);
select(views[first] ? first : "topology", false);
watch();
