// Bridges, their ports and the patch links between them.

views.topology = (() => {
  const BOX = 250, PORT = 40, HEAD = 34, SHOWN = 10;
  const total = figures(["Packets received", "Packets sent", "Received", "Sent", "Packets dropped"]);
  const picture = el("div");
  const ports = grid("Ports of all bridges", [["Bridge"], ["Port", "n"], ["Name"], ["Link"], ["Kind"],
    ["Packets in", "n"], ["Bits in", "n"], ["Packets out", "n"], ["Bits out", "n"], ["Dropped", "n"]],
    "No bridge has a port. Add one with `millrace port add NAME=KIND:DEVICE`, or start with --port.");
  const choice = el("select", { id: "port-name" }), said = el("p", { class: "note", role: "status" });
  const buttons = ["up", "down"].map((way) => el("button", { type: "button", id: `port-${way}` }, `Put ${way}`));
  const form = el("form", { class: "line", hidden: true, on: { submit: (event) => event.preventDefault() } },
    el("div", null, el("label", { for: "port-name" }, "Port to put up or down"), choice), buttons);
  let drawn = "", rates = [], offered = "";

  buttons.forEach((button, n) => button.addEventListener("click", async () => {
    const way = ["up", "down"][n], [bridge, name] = JSON.parse(choice.value);
    put(said, "");
    try {
      await change("port", { bridge, [way]: [name] });
      put(said, `Done: ${name} of ${bridge} is put ${way}.`);
    } catch (error) { put(said, error.message); }
  }));
  /** Ports to choose from, where the token allows a change. */
  function offer(all) {
    const names = all.flatMap((bridge) => bridge.ports.map((port) => [bridge.name, port.name])), text = JSON.stringify(names);
    form.hidden = !mayChange() || !names.length;
    if (text === offered) return;
    const kept = choice.value;
    offered = text;
    choice.replaceChildren(...names.map((of) => el("option", { value: JSON.stringify(of) }, `${of[1]} of ${of[0]}`)));
    if ([...choice.options].some((option) => option.value === kept)) choice.value = kept;
  }

  const key = (bridge, port) => (sample) => {
    const one = sample.bridges.find((b) => b.name === bridge);
    return one && one.ports.find((p) => p.number === port);
  };
  const of = (bridge, port, name) => rate((sample) => { const one = key(bridge, port)(sample); return one && one[name]; });
  const dropped = (port) => Object.values(port.drops).reduce((sum, n) => sum + n, 0);

  function draw(all, width) {
    const columns = Math.max(1, Math.min(all.length, Math.floor((width + 30) / (BOX + 60))));
    const wide = Math.min(BOX + 60, Math.max(BOX, (width - BOX * columns) / Math.max(1, columns - 1) + BOX));
    const at = new Map(), boxes = [];
    rates = [];
    let top = 8, row = 0;
    all.forEach((bridge, n) => {
      const column = n % columns;
      if (column === 0 && n) { top += row + 26; row = 0; }
      const shown = bridge.ports.slice(0, SHOWN), more = bridge.ports.length - shown.length;
      const height = HEAD + Math.max(1, shown.length + (more ? 1 : 0)) * PORT + 8, x = 2 + column * wide;
      row = Math.max(row, height);
      boxes.push(svg("rect", { class: "box", x, y: top, width: BOX, height, rx: 10 }),
        svg("text", { x: x + 12, y: top + 22, "font-weight": 600 }, bridge.name),
        svg("text", { x: x + BOX - 12, y: top + 22, class: "dim", "text-anchor": "end" }, `${bridge.kind}, ${count(bridge.entries)} entries`));
      shown.forEach((port, p) => {
        const y = top + HEAD + p * PORT, text = svg("text", { x: x + 18, y: y + 30, class: "dim" }, "");
        at.set(port.name, { x, y: y + PORT / 2 - 2, spec: port.spec });
        rates.push([bridge.name, port.number, text]);
        boxes.push(svg("rect", { class: port.up ? "port" : "port off", x: x + 8, y, width: BOX - 16, height: PORT - 5, rx: 6 }),
          svg("text", { x: x + 18, y: y + 15 }, `${port.name}${port.up ? "" : " (down)"}`),
          svg("text", { x: x + BOX - 18, y: y + 15, class: "dim", "text-anchor": "end" }, port.spec.split(":")[0]), text);
      });
      if (!shown.length) boxes.push(svg("text", { x: x + 14, y: top + HEAD + 20, class: "dim" }, "no ports"));
      if (more) boxes.push(svg("text", { x: x + 14, y: top + HEAD + SHOWN * PORT + 20, class: "dim" }, `and ${more} more, below`));
    });
    const links = [], said = [];
    for (const [name, from] of at) {
      const peer = /^patch:(.*)$/.exec(from.spec), to = peer && at.get(peer[1]);
      if (!to || name > peer[1]) continue;
      said.push(`${name} to ${peer[1]}`);
      const [left, right] = from.x <= to.x ? [from, to] : [to, from];
      const [a, b] = [left.x + BOX - 8, left.x === right.x ? right.x + BOX - 8 : right.x + 8];
      const bend = left.x === right.x ? 46 : (b - a) / 2;
      links.push(svg("path", { class: "link", d: `M${a} ${left.y} C${a + bend} ${left.y} ${left.x === right.x ? b + bend : b - bend} ${right.y} ${b} ${right.y}` }));
    }
    const used = columns > 1 ? 4 + (columns - 1) * wide + BOX : BOX + 44;
    const label = `${all.length} bridges: ${all.map((b) => `${b.name} with ${b.ports.length} ports`).join(", ")}. ${
      said.length ? `Patch links: ${said.join(", ")}.` : "No patch links."} Rates are in the table below.`;
    const node = svg("svg", { viewBox: `0 0 ${used} ${top + row + 8}`, width: used, height: top + row + 8, role: "img", "aria-label": label }, links, boxes);
    // As large as it is drawn: text keeps its size.
    node.style.width = `${used}px`;
    node.style.maxWidth = "100%";
    picture.replaceChildren(node);
  }

  function sample() {
    if (state.view !== "topology" || !state.sample) return;
    const all = state.sample.bridges, point = state.sample.point, seconds = point.span_ms / 1000 || 1;
    const lost = Object.values(point.drops).reduce((sum, n) => sum + n, 0);
    total.set([pps(point.rx_packets / seconds), pps(point.tx_packets / seconds), bps(point.rx_bytes / seconds), bps(point.tx_bytes / seconds), pps(lost / seconds)]);
    const width = picture.clientWidth || 800;
    const form = JSON.stringify([width, all.map((b) => [b.name, b.kind, b.entries, b.ports.map((p) => [p.number, p.name, p.up, p.spec])])]);
    if (form !== drawn) { drawn = form; draw(all, width); }
    for (const [bridge, port, text] of rates) {
      put(text, `in ${pps(of(bridge, port, "rx_packets"))}, out ${pps(of(bridge, port, "tx_packets"))}`);
    }
    offer(all);
    ports.rows(all.flatMap((bridge) => bridge.ports.map((port) => [bridge.name, port.number === 0xfffffffe ? "LOCAL" : port.number, port.name,
      port.up ? ["up", "up"] : [port.present ? "down" : "gone", "down"], port.spec.split(":")[0],
      pps(of(bridge.name, port.number, "rx_packets")), bps(of(bridge.name, port.number, "rx_bytes")),
      pps(of(bridge.name, port.number, "tx_packets")), bps(of(bridge.name, port.number, "tx_bytes")), count(dropped(port))])));
  }
  const show = (node) => node.append(
    el("h2", null, "All ports together"), total.node,
    el("h2", null, "Bridges"), el("div", { class: "card" }, picture),
    el("h2", null, "Ports"), form, said, el("div", { class: "card" }, ports.node));
  return { show, sample, enter: sample };
})();
