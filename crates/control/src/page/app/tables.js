// Tables as a graph: where entries send packets next, hits, the template of each and why.

views.tables = (() => {
  const nodes = el("ul", { class: "nodes" }), arcs = svg("svg", { "aria-hidden": "true" });
  const none = el("p", { class: "empty" }, "No table has entries. Give some with --flows FILE or `ovs-ofctl add-flow`, or connect a controller.");
  const remark = el("pre"), left = el("details", { hidden: true }, el("summary", { class: "note" }, "What the code for bursts leaves to code for one packet"), remark);
  const engines = figures(["By compiled code", "By code for one packet", "By the interpreter", "Entries"]);
  const flows = grid("The entries with most packets", [["Table"], ["Priority", "n"], ["Packets", "n"], ["Bytes", "n"], ["Match", "wrap"], ["Actions", "wrap"]],
    "No flow entries.");
  const line = el("input", { id: "flow-line", class: "mono", spellcheck: "false", placeholder: "table=0,priority=10,ip actions=drop" });
  const said = el("p", { class: "note", role: "status" });
  const form = el("form", { class: "line", hidden: true, on: { submit: send } },
    el("div", { class: "grow" }, el("label", { for: "flow-line" }, "Add an entry, or `delete MATCH`"), line),
    el("button", { type: "submit" }, "Apply"));
  const part = el("p", { class: "note", hidden: true }, "Ways are those of the first 50,000 entries.");
  let graph = { edges: [], partial: false }, explained = new Map(), shown = "", parts = new Map(), due = 0;

  async function send(event) {
    event.preventDefault();
    try {
      const told = await change("flow", { line: line.value });
      put(said, `Done: ${count(told.total)} entries now.`);
      await enter();
    } catch (error) { put(said, error.message); }
  }
  const chosen = (text) => /^\s+(\S+)\s+chosen: (.*)$/m.exec(text || "") || [];
  const names = (bridge) => {
    const order = bridge ? bridge.tables.map((table) => table.table) : [];
    const ends = graph.edges.flatMap((edge) => [edge.from, edge.to]);
    const all = [...new Set([...order, ...ends.filter((name) => !order.includes(name))])];
    const number = (name) => (/^t\d+$/.test(name) ? Number(name.slice(1)) : 1e6);
    return all.sort((a, b) => number(a) - number(b) || order.indexOf(a) - order.indexOf(b));
  };

  function build(all) {
    parts = new Map();
    nodes.replaceChildren(...all.map((name) => {
      const part = { entries: el("span"), hit: el("span"), looks: el("span"), template: el("span", { class: "chip" }),
        bar: el("meter", { min: 0, max: 1, value: 0, "aria-label": `hit rate of ${name}` }), why: el("pre"), next: el("p", { class: "note" }) };
      part.entries.className = part.hit.className = part.looks.className = "n";
      part.node = el("li", null, el("details", { on: { toggle: arrows } },
        el("summary", null, el("span", { class: "row" }, el("b", null, name), part.template, part.entries, part.hit, part.bar, part.looks)),
        el("div", { class: "inside" }, part.next, part.why)));
      parts.set(name, part);
      return part.node;
    }));
  }
  function sample() {
    if (state.view !== "tables") return;
    const bridge = ofBridge(state.sample);
    if (!bridge) return;
    const all = names(bridge), form = JSON.stringify([bridge.name, all]);
    none.hidden = all.length > 0;
    if (form !== shown) { shown = form; build(all); arrows(); }
    for (const name of all) {
      const part = parts.get(name), table = bridge.tables.find((one) => one.table === name) || { entries: 0, lookups: 0, matches: 0 };
      const of = (what) => rate((one) => { const held = one.bridges.find((b) => b.name === bridge.name); const found = held && held.tables.find((t) => t.table === name); return found && found[what]; });
      const choice = explained.get(name), [, template] = chosen(choice);
      put(part.entries, `${count(table.entries)} entries`);
      put(part.hit, `${share(table.matches, table.lookups)} hit`);
      part.bar.value = table.lookups ? table.matches / table.lookups : 0;
      put(part.looks, pps(of("lookups")));
      put(part.template, template || (table.entries ? "not compiled" : "empty"));
      put(part.why, choice || "No entries: every packet takes the table's default.");
      const out = graph.edges.filter((edge) => edge.from === name);
      put(part.next, out.length ? `Goes on to ${out.map((edge) => `${edge.to} (${edge.by}${edge.entries ? `, ${count(edge.entries)} entries` : ""})`).join(", ")}.`
        : "No entry sends packets to another table.");
    }
    const ran = bridge.packets, of = (name) => (ran[name] ? ran[name].packets : 0), sum = of("code") + of("whole") + of("interpreter");
    engines.set([share(of("code"), sum), share(of("whole"), sum), share(of("interpreter"), sum), count(bridge.entries)]);
    if (Date.now() > due && !document.hidden) { due = Date.now() + 5000; load().catch((error) => trouble("view", error.message)); }
  }
  /** Arcs beside the rows, from a table to the next. */
  function arrows() {
    requestAnimationFrame(() => {
      const top = nodes.getBoundingClientRect().top, width = arcs.parentNode ? arcs.parentNode.clientWidth && arcs.getBoundingClientRect().width : 0;
      const middle = (name) => { const part = parts.get(name); if (!part) return null; const box = part.node.getBoundingClientRect(); return box.top - top + Math.min(22, box.height / 2); };
      const lines = [];
      graph.edges.forEach((edge) => {
        const [a, b] = [middle(edge.from), middle(edge.to)];
        if (a === null || b === null || !width) return;
        const out = Math.min(width - 8, 14 + Math.abs(b - a) / 5), end = width - 2, own = edge.from === edge.to;
        const [from, to] = own ? [a - 7, a + 7] : [a + 4, b - 4];
        lines.push(svg("path", { class: b < a || own ? "link back" : "link", d: `M${end} ${from} C${end - out * 1.3} ${from} ${end - out * 1.3} ${to} ${end - 6} ${to}` }),
          svg("path", { class: "s0", d: `M${end} ${to} l-8 -4.5 v9 z` }));
      });
      arcs.replaceChildren(...lines);
    });
  }
  async function load() {
    const bridge = state.bridge, openflow = (ofBridge(state.sample) || {}).kind !== "p4";
    const [told, ways, held] = await Promise.all([look("explain"), look("graph"), openflow ? look("flows", { sort: "packets", limit: 50 }) : { flows: [], total: 0 }]);
    if (bridge !== state.bridge) return;
    explained = new Map(told.tables.map((table) => [table.table, table.choice]));
    graph = ways;
    put(remark, told.leaves.join("\n"));
    left.hidden = !told.leaves.length;
    part.hidden = !ways.partial;
    flows.rows(held.flows.map((one) => [one.table, one.priority, count(one.packets), bytes(one.bytes), one.match || "*", one.actions]));
    form.hidden = !mayChange() || !openflow;
  }
  async function enter() {
    due = Date.now() + 5000;
    await load();
    sample();
    arrows();
  }
  const show = (node) => {
    node.append(el("h2", null, "Pipeline as it is compiled"), engines.node,
      el("p", { class: "note" }, "Each row is a table: its template, entries and hits. Open one to see why it is looked up so. Arrows show where entries send packets next; dashed ones go back."),
      el("div", { class: "card" }, none, el("div", { class: "graph" }, el("div", null, arcs), nodes)), part, left,
      el("h2", null, "Flow entries"), form, said, el("div", { class: "card" }, flows.node));
    new ResizeObserver(arrows).observe(nodes);
  };
  return { show, sample, enter };
})();
