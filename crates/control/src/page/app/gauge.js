// Reports of `millrace gauge`: from a file of this machine, or of the switch's folder.

views.gauge = (() => {
  const file = el("input", { id: "report-file", type: "file", accept: ".json,application/json", on: { change: picked } });
  const stored = el("select", { id: "report-name", on: { change: chosen } });
  const folder = el("div", { hidden: true }, el("label", { for: "report-name" }, "Report of the switch's folder"), stored);
  const out = el("div", { "aria-live": "polite" }, el("p", { class: "empty" },
    "Choose a report: the file that `millrace gauge run --out FILE` wrote. It stays in this browser. With --http-reports DIR the switch offers those of a folder."));

  const number = (n) => (Number.isInteger(n) ? count(n) : n.toPrecision(4));
  const us = (ns) => (typeof ns === "number" ? `${(ns / 1000).toFixed(1)} µs` : "–");
  function report(name, told) {
    if (!told || told.schema !== "millrace-gauge/1" || !Array.isArray(told.modules)) {
      throw new Error(`${name} is no report of gauge: "schema" must be "millrace-gauge/1".`);
    }
    const runs = told.modules.flatMap((one) => one.runs), findings = runs.reduce((sum, run) => sum + run.findings.length, 0);
    const who = [told.switch.manufacturer, told.switch.hardware, told.switch.software].filter(Boolean).join(" ") || told.switch.peer;
    const head = figures(["Judgement", "Modules", "Runs", "Findings", "Thresholds broken"]);
    head.set([told.good ? "good" : "not good", count(told.modules.length), count(runs.length), count(findings), count(told.broken_thresholds.length)]);
    const parts = told.modules.map((one) => {
      const sheet = grid(`Runs of ${one.module}`, [["Run"], ["Figure"], ["Value", "n"], ["Least", "n"], ["Most", "n"]], one.skipped || one.broke || "No runs.");
      sheet.rows(one.runs.flatMap((run) => {
        const label = run.repetition ? `${run.label} (${run.repetition + 1})` : run.label;
        return [...run.figures.map(([figure, value]) => [label, figure, number(value), "", ""]),
          ...run.latencies.map(([figure, sum]) => [label, `${figure}, mean`, us(sum.mean_ns), us(sum.min_ns), us(sum.max_ns)])];
      }));
      const said = one.runs.flatMap((run) => run.findings.map((finding) => el("li", null, `${run.label}: ${finding.text}`)));
      return [el("h3", null, one.module), el("div", { class: "card" }, sheet.node), said.length ? el("ul", null, said) : null];
    });
    showIn(out, el("h2", null, `${name}: ${who}`), head.node,
      el("p", { class: "note" }, `OpenFlow ${told.switch.openflow}, measured on ${told.machine.cpu} with ${told.machine.cpus} processors.`),
      told.broken_thresholds.map((text) => el("p", { class: "down" }, text)), parts);
  }
  const failed = (error) => out.replaceChildren(el("p", { class: "down" }, error.message));
  async function picked() {
    const [one] = file.files;
    if (!one) return;
    try { report(one.name, JSON.parse(await one.text())); } catch (error) { failed(error instanceof SyntaxError ? new Error(`${one.name} is no JSON: ${error.message}`) : error); }
  }
  async function chosen() {
    if (!stored.value) return;
    try {
      const answer = await ask(`/api/reports?name=${encodeURIComponent(stored.value)}`);
      const told = await answer.json();
      if (told.error) throw new Error(told.error);
      report(stored.value, told);
    } catch (error) { failed(error); }
  }
  async function enter() {
    folder.hidden = !(state.about && state.about.reports);
    if (folder.hidden) return;
    const names = await result(await ask("/api/reports")), kept = stored.value;
    stored.replaceChildren(el("option", { value: "" }, names.length ? "choose" : "the folder has none"), ...names.map((name) => el("option", { value: name }, name)));
    stored.value = names.includes(kept) ? kept : "";
  }
  const show = (node) => node.append(el("h2", null, "Reports of gauge"),
    el("form", { class: "line" }, el("div", null, el("label", { for: "report-file" }, "Report file"), file), folder), out);
  return { show, enter };
})();
