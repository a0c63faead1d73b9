//! `dpif/*`: ports of bridges. There is no flow cache.

use super::command::{Answer, Command, Context, bridges, known};
use std::fmt::Write as _;

pub(super) const COMMANDS: &[Command] = &[
    Command { name: "dpif/show", usage: "", min: 0, max: 0, run: show },
    Command { name: "dpif/dump-dps", usage: "", min: 0, max: 0, run: dump_dps },
    Command {
        name: "dpif/dump-flows",
        usage: "[-m] [--names | --no-names] bridge",
        min: 1,
        max: usize::MAX,
        run: dump_flows,
    },
];

/// What is said where Open vSwitch would list what it has cached.
pub(super) const NO_CACHE: &str = "there is no flow cache: every packet is looked up in the flow tables; bridge/dump-flows shows them";

fn show(context: &Context, _: &[String]) -> Answer {
    let mut out = String::new();
    for bridge in bridges(context) {
        let ports = context.switch.ports(&bridge);
        if out.is_empty() {
            // Every packet is looked up, so all are misses of a cache that is not there.
            let looked_up = context.switch.looked_up();
            let _ = writeln!(out, "netdev@millrace: hit:0 missed:{looked_up}");
        }
        // Writing to a string does not fail.
        let _ = writeln!(out, "  {bridge}:");
        for port in ports {
            let mut kind = port.kind;
            if kind == "internal" {
                kind = "tap".to_owned();
            }
            let options: Vec<String> =
                port.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
            if !options.is_empty() {
                kind += &format!(": {}", options.join(", "));
            }
            let below = if port.kind_is_patch { "none".to_owned() } else { port.below.to_string() };
            let _ = writeln!(out, "    {} {}/{below}: ({kind})", port.name, port.number);
        }
    }
    Ok(out)
}

fn dump_dps(context: &Context, _: &[String]) -> Answer {
    Ok(bridges(context).into_iter().map(|name| format!("netdev@{name}\n")).collect())
}

fn dump_flows(context: &Context, words: &[String]) -> Answer {
    let bridge = words.iter().rfind(|word| !word.starts_with('-'));
    known(context, bridge.ok_or("dpif/dump-flows BRIDGE was expected")?)?;
    Ok(NO_CACHE.to_owned())
}
