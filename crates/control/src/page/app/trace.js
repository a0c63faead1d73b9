// What happens to a packet: typed as octets or as a flow, answered as a tree.

views.trace = (() => {
  const port = el("select", { id: "trace-port" });
  const packet = el("input", { id: "trace-packet", class: "mono", spellcheck: "false", autocomplete: "off", value: "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=80" });
  const out = el("div", { "aria-live": "polite" }, el("p", { class: "empty" },
    "Type a packet as `ovs-appctl ofproto/trace` takes it, or its octets in hexadecimal. No packet is sent and nothing is counted."));
  const form = el("form", { class: "line", on: { submit: send } },
    el("div", null, el("label", { for: "trace-port" }, "Comes in by"), port),
    el("div", { class: "grow" }, el("label", { for: "trace-packet" }, "Packet"), packet),
    el("button", { type: "submit", class: "main" }, "Trace"));

  /** Lines to a list of lists, by the spaces in front. */
  function tree(lines) {
    const root = el("ul", { class: "tree mono" }), path = [[-1, root]];
    for (const text of lines) {
      const depth = text.length - text.trimStart().length;
      while (path.length > 1 && path[path.length - 1][0] >= depth) path.pop();
      const [, above] = path[path.length - 1];
      let list = above;
      if (above.tagName === "LI") {
        list = above.querySelector(":scope > ul") || above.appendChild(el("ul"));
      }
      const item = el("li", null, text.trim());
      list.append(item);
      path.push([depth, item]);
    }
    return root;
  }
  const named = (number, name) => (name ? `${name} (${number})` : String(number));
  async function send(event) {
    event.preventDefault();
    try {
      const told = await look("trace", { in_port: Number(port.value), packet: packet.value });
      const frame = (one) => el("li", null, one.summary, " ", el("details", null, el("summary", null, "octets"), el("code", { class: "inside" }, el("pre", null, one.hex))));
      showIn(out,
        el("h2", null, "Result"),
        el("p", null, el("span", { class: "verdict" }, told.verdict), ` in version ${told.version}: in by ${named(told.in_port, told.in_name)}, ${told.packet.summary}`),
        told.not_called.map((name) => el("p", { class: "note" }, `Service ${name} was not called, as it would remember this packet. The rest holds if it lets the packet go on.`)),
        el("h3", null, "Steps"), el("div", { class: "card" }, tree(told.steps)),
        el("h3", null, "Sent"),
        told.outputs.length ? el("ul", null, told.outputs.map((one) => el("li", null, `by ${named(one.port, one.name)}: ${one.packet.summary}`))) : el("p", { class: "note" }, "Nothing is sent."),
        told.punts.length ? [el("h3", null, "To the controller"), el("ul", null, told.punts.map((one) => el("li", null, `${one.reason}: ${one.packet.summary}`)))] : null,
        el("h3", null, "The packet"), el("ul", null, frame(told.packet)));
      trouble("view", "");
    } catch (error) {
      out.replaceChildren(el("p", { class: "down" }, error.message));
    }
  }
  function enter() {
    const bridge = ofBridge(state.sample);
    if (!bridge) return;
    const kept = port.value;
    port.replaceChildren(...bridge.ports.map((one) => el("option", { value: one.number }, named(one.number, one.name))));
    if ([...port.options].some((option) => option.value === kept)) port.value = kept;
  }
  const show = (node) => node.append(el("h2", null, "Trace a packet"), form, out);
  return { show, enter };
})();
