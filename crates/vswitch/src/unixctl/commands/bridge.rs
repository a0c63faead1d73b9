//! `bridge/dump-flows`, `bridge/reconnect`.

use super::command::{Answer, Command, Context, known};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "bridge/dump-flows",
        usage: "[--offload-stats] bridge",
        min: 1,
        max: 2,
        run: dump_flows,
    },
    Command { name: "bridge/reconnect", usage: "[bridge]", min: 0, max: 1, run: reconnect },
];

fn dump_flows(context: &Context, words: &[String]) -> Answer {
    let bridge = match words {
        [bridge] => bridge,
        [option, _] if option == "--offload-stats" => {
            return Err("--offload-stats: nothing is offloaded".to_owned());
        }
        _ => return Err("bridge/dump-flows BRIDGE was expected".to_owned()),
    };
    let lines = context.switch.flows(known(context, bridge)?)?;
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

fn reconnect(context: &Context, words: &[String]) -> Answer {
    match words.first() {
        Some(bridge) => context.switch.reconnect(Some(known(context, bridge)?))?,
        None => context.switch.reconnect(None)?,
    }
    Ok(String::new())
}
