// The group whose members go on for each other.

views.group = (() => {
  const own = figures(["Group and member", "Role", "Epoch", "Connections", "Engine", "Store names", "Behind the sender"]);
  const peers = grid("Other members", [["Member"], ["Lives"], ["Role"], ["Connections"], ["Configuration"], ["Messages behind", "n"], ["Heard", "n"]],
    "No other member is named.");
  const shares = grid("Shares", [["Share"], ["Forwarded by"], ["Role here"], ["Epoch", "n"], ["Connections"]], "");
  const shared = el("div", { class: "card", hidden: true }, shares.node);
  const counted = grid("Messages and records", [["What"], ["Count", "n"]], "");
  const remark = el("p", { class: "note" });
  const none = el("p", { class: "empty", hidden: true });
  const rest = el("div", null, own.node, remark, shared, el("div", { class: "card" }, peers.node), el("div", { class: "card" }, counted.node));
  let due = 0;

  const has = (known) => known.role === "active"
    ? (known.protected ? "protected" : "UNPROTECTED: no standby has all")
    : (known.protected ? "has all" : "has not all");
  function show(known) {
    own.set([`${known.group}, ${known.member}`, known.role, count(known.epoch), has(known), known.engine ? "there" : "AWAY",
      known.owner ? `${known.owner[0]}, epoch ${count(known.owner[1])}` : "nobody", `${count(known.lag_us)} µs`]);
    put(remark, known.fault ? `Engine: ${known.fault}; told ${count(known.faults)} times.` : "");
    peers.rows(known.peers.map((peer) => [peer.name, peer.alive ? "yes" : "DEAD", peer.role || "never heard",
      peer.synced ? "has all" : "has not all", peer.same ? "the same" : "ANOTHER",
      known.role === "active" && peer.alive ? count(Math.max(0, known.seq - peer.seq)) : "–",
      peer.silent_ms === null ? "never" : `${count(peer.silent_ms)} ms ago`]));
    const all = known.shares || [];
    shared.hidden = all.length === 0;
    shares.rows(all.map((one) => [one.name, one.active || "nobody", one.drained ? `${one.role}, drained` : one.role, count(one.epoch), has(one)]));
    const [unknown, refused, noRoom] = known.left_out;
    const rows = [["Last message", known.seq], ["Messages missing", known.gaps], ["Records told", known.told], ["Records applied", known.applied],
      ["Of trackers not here", unknown], ["No records", refused], ["Without room", noRoom]];
    counted.rows(rows.map(([what, n]) => [what, count(n)]));
  }
  async function enter() {
    due = Date.now() + 1000;
    let known = null;
    try {
      known = await look("replication");
    } catch (error) {
      if (!/no member of a group/.test(error.message)) throw error;
      put(none, "This switch is no member of a group: start it with --replication.");
    }
    rest.hidden = known === null;
    none.hidden = known !== null;
    if (known) show(known);
  }
  function sample() {
    if (state.view !== "group" || Date.now() < due || document.hidden) return;
    enter().then(() => trouble("view", ""), (error) => trouble("view", error.message));
  }
  return { show: (node) => node.append(el("h2", null, "Group"), none, rest), sample, enter };
})();
