// What the connection tracker knows.

views.connections = (() => {
  const MOST = 2000;
  const total = figures(["Connections", "Half open", "Memory", "Opened", "Expired", "Invalid packets"]);
  const zones = grid("By zone", [["Zone"], ["Connections", "n"]], "No connections.");
  const states = grid("By protocol and state", [["Protocol and state"], ["Connections", "n"]], "No connections.");
  const list = grid("Connections", [["Protocol"], ["Zone", "n"], ["From"], ["To"], ["Reply from"], ["State"], ["Mark"], ["Left", "n"]],
    "No connection is tracked, or none fits the filter. Entries with `ct(commit)` make connections.");
  const words = el("input", { id: "filter", spellcheck: "false", autocomplete: "off", placeholder: "tcp 10.0.0.1 established", on: { input: fillList } });
  const remark = el("p", { class: "note" });
  const forget = el("button", { type: "button", hidden: true, on: { click: flush } }, "Forget all connections");
  let known = null, due = 0;

  const end = (side, which) => {
    const number = side[`${which}_port`];
    const address = side[which].includes(":") && number !== undefined ? `[${side[which]}]` : side[which];
    return number !== undefined ? `${address}:${number}` : which === "src" && side.icmp_id !== undefined ? `${address} id ${side.icmp_id}` : address;
  };
  const row = (one) => [one.protocol, one.zone, end(one.original, "src"), end(one.original, "dst"), end(one.reply, "src"),
    one.state || (one.replied ? "replied" : "unreplied"), one.mark ? `0x${one.mark.toString(16)}` : "", `${one.timeout} s`];
  const tally = (of) => {
    const sums = new Map();
    for (const one of known.connections) sums.set(of(one), (sums.get(of(one)) || 0) + 1);
    return [...sums.entries()].sort((a, b) => b[1] - a[1]).map(([name, n]) => [String(name), count(n)]);
  };
  function fillList() {
    if (!known) return;
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = known.connections.map(row).filter((cells) => { const text = cells.join(" ").toLowerCase(); return wanted.every((word) => text.includes(word)); });
    list.rows(rows.slice(0, 200));
    const told = known.connections.length, parts = [];
    if (told < known.held) parts.push(`Counted are ${count(told)} of ${count(known.held)} connections.`);
    if (rows.length > 200) parts.push(`Shown are 200 of ${count(rows.length)}.`);
    put(remark, parts.join(" "));
  }
  async function load() {
    known = await look("conntrack", { flush: false, limit: MOST });
    const counted = known.counters;
    total.set([count(known.held), count(known.half_open), bytes(known.memory_bytes), count(counted.connections_opened || 0), count(counted.connections_expired || 0), count(counted.invalid || 0)]);
    zones.rows(tally((one) => one.zone));
    states.rows(tally((one) => `${one.protocol} ${row(one)[5]}`));
    fillList();
    forget.hidden = !mayChange() || !known.held;
  }
  async function flush() {
    try { await change("conntrack", { flush: true, zone: null, limit: 0 }); await load(); } catch (error) { trouble("view", error.message); }
  }
  async function enter() {
    due = Date.now() + 3000;
    await load();
  }
  function sample() {
    if (state.view !== "connections" || Date.now() < due || document.hidden) return;
    enter().then(() => trouble("view", ""), (error) => trouble("view", error.message));
  }
  const show = (node) => node.append(el("h2", null, "Connection tracking"), total.node, forget,
    el("div", { class: "card" }, zones.node, states.node),
    el("h2", null, "Connections"),
    el("form", { class: "line", on: { submit: (event) => event.preventDefault() } }, el("div", { class: "grow" }, el("label", { for: "filter" }, "Filter: words that all must be there"), words)),
    remark, el("div", { class: "card" }, list.node));
  return { show, sample, enter };
})();
