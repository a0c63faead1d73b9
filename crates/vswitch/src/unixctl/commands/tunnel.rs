//! `ovs/route/*`, `tnl/*`, `ofproto/list-tunnels`: tunnels, and the network that carries them.

use super::command::{Answer, Command, Context};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "ofproto/list-tunnels",
        usage: "",
        min: 0,
        max: 0,
        run: |c, _| of("tnl", "list", c, &[]),
    },
    Command {
        name: "ovs/route/lookup",
        usage: "ip_addr [pkt_mark=mark]",
        min: 1,
        max: 2,
        run: |c, w| of("route", "lookup", c, w),
    },
    Command {
        name: "ovs/route/show",
        usage: "",
        min: 0,
        max: 0,
        run: |c, w| of("route", "show", c, w),
    },
    Command {
        name: "tnl/arp/show",
        usage: "",
        min: 0,
        max: 0,
        run: |c, w| of("tnl", "neigh", c, w),
    },
    Command {
        name: "tnl/neigh/show",
        usage: "",
        min: 0,
        max: 0,
        run: |c, w| of("tnl", "neigh", c, w),
    },
    Command {
        name: "tnl/ports/show",
        usage: "",
        min: 0,
        max: 0,
        run: |c, w| of("tnl", "ports", c, w),
    },
    Command {
        name: "tnl/refusals",
        usage: "",
        min: 0,
        max: 0,
        run: |c, w| of("tnl", "refusals", c, w),
    },
];

fn of(family: &str, what: &str, context: &Context, words: &[String]) -> Answer {
    let mut all = vec![what];
    all.extend(words.iter().map(String::as_str));
    context.switch.ask(family, &all)
}
