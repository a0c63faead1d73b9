// Frames dropped, by reason, over the last ten minutes.

views.drops = (() => {
  const picture = el("figure", { class: "card" }), chart = el("div"), legend = el("ul", { class: "legend" });
  const table = grid("Drops by reason", [["Reason"], ["Now", "n"], ["Last 10 min", "n"], ["Since the start", "n"]],
    "No frame was dropped. A frame without a matching entry, for one, would be counted here as its reason.");
  const where = grid("Drops by port", [["Bridge"], ["Port"], ["Reason"], ["Since the start", "n"]], "No port has dropped a frame.");
  picture.append(chart, legend);
  let order = [];

  function sums() {
    const all = new Map(), add = (reason, at, n) => {
      const held = all.get(reason) || [0, 0, 0];
      held[at] += n;
      all.set(reason, held);
    };
    for (const point of state.history) for (const [reason, n] of Object.entries(point.drops)) add(reason, 1, n);
    for (const bridge of state.sample.bridges) for (const port of bridge.ports) for (const [reason, n] of Object.entries(port.drops)) add(reason, 2, n);
    const { point } = state.sample, seconds = point.span_ms / 1000 || 1;
    for (const [reason, n] of Object.entries(point.drops)) add(reason, 0, n / seconds);
    return all;
  }
  function draw(all) {
    const width = Math.max(280, chart.clientWidth || 800), height = 220, left = 62, bottom = 24, top = 12;
    const end = state.sample.at_ms, span = 600000, bins = Math.min(120, Math.floor((width - left) / 5)), each = span / bins;
    order = [...all.entries()].filter(([, sum]) => sum[1] > 0).sort((a, b) => b[1][1] - a[1][1]).map(([reason]) => reason);
    const place = (reason) => Math.min(5, order.indexOf(reason));
    const stacks = Array.from({ length: bins }, () => [0, 0, 0, 0, 0, 0]);
    for (const point of state.history) {
      const bin = Math.floor(bins - (end - point.at_ms) / each - 1e-9);
      if (bin < 0 || bin >= bins) continue;
      for (const [reason, n] of Object.entries(point.drops)) stacks[bin][place(reason)] += n / (each / 1000);
    }
    const most = Math.max(1, ...stacks.map((stack) => stack.reduce((a, b) => a + b, 0)));
    const x = (bin) => left + bin * (width - left - 4) / bins, y = (n) => top + (height - top - bottom) * (1 - n / most);
    const parts = [0, 0.5, 1].flatMap((part) => [
      svg("line", { class: "grid", x1: left, x2: width, y1: y(most * part), y2: y(most * part) }),
      svg("text", { class: "dim", x: left - 6, y: y(most * part) + 4, "text-anchor": "end" }, scaled(most * part, "/s"))]);
    for (const [minutes, anchor] of [[10, "start"], [5, "middle"], [0, "end"]]) {
      parts.push(svg("text", { class: "dim", x: left + (width - left - 4) * (1 - minutes / 10), y: height - 6, "text-anchor": anchor }, minutes ? `${minutes} min ago` : "now"));
    }
    stacks.forEach((stack, bin) => {
      let below = 0;
      stack.forEach((n, series) => {
        if (n > 0) parts.push(svg("rect", { class: `s${series}`, x: x(bin), y: y(below + n), width: Math.max(1, x(1) - x(0) - 1), height: Math.max(0.5, y(below) - y(below + n)) }));
        below += n;
      });
    });
    const label = order.length ? `Dropped frames per second over the last ten minutes, at most ${scaled(most, "per second")}. Most for ${order.slice(0, 3).join(", ")}. The table below has the numbers.`
      : "No frame was dropped in the last ten minutes.";
    chart.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, parts));
    legend.replaceChildren(...order.slice(0, 6).map((reason, n) => el("li", null, el("span", { class: `key s${n}`, "aria-hidden": "true" }), n === 5 && order.length > 6 ? "others" : reason)));
  }
  function sample() {
    if (state.view !== "drops" || !state.sample) return;
    const all = sums();
    draw(all);
    table.rows([...all.entries()].sort((a, b) => b[1][2] - a[1][2]).map(([reason, [now, late, ever]]) => [reason, pps(now), count(late), count(ever)]));
    where.rows(state.sample.bridges.flatMap((bridge) => bridge.ports.flatMap((port) => Object.entries(port.drops).map(([reason, n]) => [bridge.name, port.name, reason, n])))
      .sort((a, b) => b[3] - a[3]).slice(0, 100).map(([bridge, port, reason, n]) => [bridge, port, reason, count(n)]));
  }
  const show = (node) => node.append(el("h2", null, "Dropped frames per second"), picture, el("div", { class: "card" }, table.node), el("h2", null, "By port"), el("div", { class: "card" }, where.node));
  return { show, sample, enter: sample };
})();
