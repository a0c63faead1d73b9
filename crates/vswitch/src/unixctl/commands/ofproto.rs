//! `ofproto/list`, `ofproto/trace`.

use super::command::{Answer, Command, Context, bridges};

pub(super) const COMMANDS: &[Command] = &[
    Command { name: "ofproto/list", usage: "", min: 0, max: 0, run: list },
    Command {
        name: "ofproto/trace",
        usage: "bridge br_flow [OPTIONS...] [-generate|packet]",
        min: 1,
        max: usize::MAX,
        run: trace,
    },
];

fn list(context: &Context, _: &[String]) -> Answer {
    Ok(bridges(context).into_iter().map(|name| name + "\n").collect())
}

/// Digits of a packet, two an octet.
fn octets(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let whole = !digits.is_empty() && digits.len().is_multiple_of(2);
    whole.then(|| digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

fn trace(context: &Context, words: &[String]) -> Answer {
    let (mut plain, mut packet) = (Vec::new(), None);
    for word in words {
        match word.as_str() {
            // Without a packet one is made of the flow, whether or not that is asked for.
            "-generate" | "--generate" => {}
            // The names of ports are always shown.
            "--names" | "--no-names" => {}
            "-consistent" | "--consistent" => {}
            option if option.starts_with("--ct-next") => {
                return Err(
                    "--ct-next: the connection tracker itself says what it knows of the packet"
                        .to_owned(),
                );
            }
            option if option.starts_with('-') => {
                return Err(format!("{option}: unknown option"));
            }
            text => match octets(text).filter(|_| !plain.is_empty()) {
                Some(octets) if octets.len() >= 14 => packet = Some(octets),
                _ => plain.push(text),
            },
        }
    }
    match plain.as_slice() {
        [bridge, flow] => {
            if !bridges(context).iter().any(|name| name == bridge) {
                return Err(format!("{bridge}: unknown bridge"));
            }
            context.switch.trace(bridge, flow, packet.as_deref())
        }
        [flow] if flow.contains('(') => {
            Err("a datapath's flow names no bridge, and there is no datapath apart from bridges: \
             ofproto/trace BRIDGE FLOW was expected"
                .to_owned())
        }
        [flow] => Err(format!("syntax error at {flow} (or the bridge name was omitted)")),
        _ => Err("ofproto/trace BRIDGE FLOW [PACKET] was expected".to_owned()),
    }
}
