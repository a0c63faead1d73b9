// What all views share: elements, numbers, questions to the switch, the stream of samples, tabs.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
/** Shows these in place of what was there; lists in lists are fine. */
function showIn(node, ...children) {
  node.replaceChildren();
  fill(node, null, children);
}
/** Sets a text only where it differs, so that selections and readers are left alone. */
function put(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
}

// Numbers.
const whole = new Intl.NumberFormat("en");
const count = (n) => whole.format(Math.round(n));
function scaled(n, unit) {
  const steps = ["", "k", "M", "G", "T"];
  let at = 0;
  while (n >= 1000 && at < steps.length - 1) { n /= 1000; at += 1; }
  const digits = at === 0 || n >= 100 ? 0 : n >= 10 ? 1 : 2;
  return `${n.toFixed(digits)} ${steps[at]}${unit}`;
}
const pps = (n) => scaled(n, "pkt/s");
const bps = (n) => scaled(n * 8, "bit/s");
const share = (part, all) => (all > 0 ? `${(100 * part / all).toFixed(1)} %` : "–");
function bytes(n) {
  return n < 1024 ? `${n} B` : n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / 1048576).toFixed(1)} MiB`;
}

// Questions.
const state = { sample: null, before: null, history: [], about: null, lost: 0, bridge: null, view: "topology" };
const token = () => sessionStorage.getItem("token") || "";

async function ask(path, options) {
  const headers = { ...(options && options.headers) };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (answer.status === 401) {
    $("token-open").hidden = false;
    $("token-form").hidden = false;
    throw new Error(token() ? "The switch does not know this token." : "The switch wants its token.");
  }
  return answer;
}
async function result(answer) {
  const text = await answer.text();
  let told;
  try { told = JSON.parse(text); } catch { throw new Error(text.trim() || `status ${answer.status}`); }
  if (told.error !== undefined) throw new Error(told.error);
  return told.result;
}
/** What a verb answers that only looks. */
async function look(verb, parameters) {
  const all = { ...parameters };
  if (all.bridge === undefined && state.bridge) all.bridge = state.bridge;
  const query = Object.entries(all).map(([name, value]) =>
    `${encodeURIComponent(name)}=${encodeURIComponent(JSON.stringify(value))}`);
  return result(await ask(`/api/${verb}${query.length ? `?${query.join("&")}` : ""}`));
}
/** Has a verb change something. */
async function change(verb, parameters) {
  const body = JSON.stringify({ bridge: state.bridge, ...parameters });
  return result(await ask(`/api/${verb}`, { method: "POST", headers: { "Content-Type": "application/json" }, body }));
}
const mayChange = () => Boolean(state.about && state.about.changes && token());

// The banner tells what is wrong, by where it comes from; the last one is shown.
const wrong = new Map();
function trouble(of, text) {
  if (text) wrong.set(of, text); else wrong.delete(of);
  put($("banner"), [...wrong.values()].pop() || "");
}

// Views: each has `show` (its first elements), `sample` (a sample has come), `enter` (it is looked at).
const views = {};
const now = () => views[state.view];

const ofBridge = (sample) => sample && (sample.bridges.find((one) => one.name === state.bridge) || sample.bridges[0]);
/** What a counter has grown by in a second, by the last two samples. */
function rate(counter) {
  if (!state.before || !state.sample) return 0;
  const seconds = (state.sample.at_ms - state.before.at_ms) / 1000;
  const [old, value] = [counter(state.before), counter(state.sample)];
  return seconds > 0 && old !== undefined && value !== undefined ? Math.max(0, (value - old) / seconds) : 0;
}

function took(event, data) {
  if (event === "history") { state.history = data; return; }
  if (event === "lost") { state.lost += data; return; }
  state.before = state.sample;
  state.sample = data;
  state.history.push(data.point);
  if (state.history.length > 600) state.history.shift();
  bridges(data.bridges.map((one) => one.name));
  const lost = state.lost ? `, ${state.lost} samples missed` : "";
  put($("live-text"), `live, ${data.bridges.length} bridge${data.bridges.length === 1 ? "" : "s"}${lost}`);
  for (const view of Object.values(views)) if (view.sample) view.sample();
}

function bridges(names) {
  const select = $("bridge");
  if ([...select.options].map((option) => option.value).join("\n") === names.join("\n")) return;
  const kept = names.includes(state.bridge) ? state.bridge : names[0] || null;
  select.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
  if (kept) select.value = kept;
  state.bridge = kept;
  entered();
}
function entered() {
  const view = now();
  if (view.enter && state.bridge) Promise.resolve(view.enter()).then(() => trouble("view", ""), (error) => trouble("view", error.message));
}

async function stream() {
  const answer = await ask("/api/live");
  if (!answer.ok) throw new Error((await answer.text()).trim());
  $("live").className = "live on";
  trouble("live", "");
  trouble("view", "");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    // A switch that stands still says nothing.
    const late = new Promise((_, fail) => { setTimeout(() => fail(new Error("The switch has said nothing for 10 s.")), 10000); });
    const { value, done } = await Promise.race([reader.read(), late]);
    if (done) throw new Error("The switch has closed the connection.");
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const event = /^event: (.*)\ndata: (.*)$/s.exec(text.slice(0, end));
      text = text.slice(end + 2);
      if (event) took(event[1], JSON.parse(event[2]));
    }
  }
}
async function watch() {
  for (;;) {
    try {
      state.about = await result(await ask("/api/page"));
      put($("version"), state.about.version);
      $("token-open").hidden = !state.about.changes;
      for (const view of Object.values(views)) if (view.about) view.about();
      await stream();
    } catch (error) {
      $("live").className = "live off";
      put($("live-text"), "not connected");
      state.before = null;
      const text = error instanceof TypeError ? "The switch does not answer." : error.message;
      trouble("live", `Connection lost: ${text} Trying again every 2 s.`);
    }
    await new Promise((go) => { setTimeout(go, 2000); });
  }
}

// A table whose cells are kept and change their texts.
function grid(caption, columns, empty) {
  const body = el("tbody");
  const head = columns.map(([name, kind]) => el("th", { scope: "col", class: kind === "n" ? "n" : null }, name));
  const table = el("table", null, el("caption", null, caption), el("thead", null, el("tr", null, head)), body);
  const none = el("p", { class: "empty", hidden: true }, empty);
  const around = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, table);
  const rows = (all) => {
    while (body.rows.length > all.length) body.deleteRow(-1);
    all.forEach((cells, at) => {
      const row = body.rows[at] || body.appendChild(el("tr", null, columns.map(([, kind], n) =>
        n === 0 ? el("th", { scope: "row" }) : el("td", { class: kind || null }))));
      cells.forEach((value, n) => {
        const [text, look] = Array.isArray(value) ? value : [value, null];
        put(row.cells[n], text);
        if (look !== null) row.cells[n].className = look;
      });
    });
    around.hidden = all.length === 0;
    none.hidden = all.length > 0;
  };
  return { node: el("div", null, around, none), rows };
}
/** A list of figures, by name. */
function figures(names) {
  const cells = names.map(() => el("dd", null, "–"));
  const node = el("dl", { class: "figures" }, names.map((name, n) => el("div", null, el("dt", null, name), cells[n])));
  return { node, set: (values) => values.forEach((value, n) => put(cells[n], value)) };
}
