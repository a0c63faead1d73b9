//! `bfd/*` of `ovs-appctl`, in Open vSwitch's words.

use crate::bridges::Bridges;
use std::collections::BTreeMap;

/// The answer to a command by its words.
///
/// # Errors
/// A sentence: what is not there, or is not asked so.
pub fn ask(bridges: &Bridges, words: &[&str]) -> Result<String, String> {
    match words {
        ["show"] => {
            let one = |(port, text)| format!("---- {port} ----\n{text}");
            Ok(all(bridges).into_iter().map(one).collect())
        }
        ["show", port] => all(bridges).remove(*port).ok_or_else(|| "no such bfd object".to_owned()),
        ["set-forwarding", word] => force(bridges, None, word),
        ["set-forwarding", port, word] => force(bridges, Some(port), word),
        _ => Err("bfd: there is no such command".to_owned()),
    }
}

fn all(bridges: &Bridges) -> BTreeMap<String, String> {
    bridges.all().iter().flat_map(|bridge| bridge.bfd.show()).collect()
}

fn force(bridges: &Bridges, port: Option<&str>, word: &str) -> Result<String, String> {
    let forced = match word.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        "normal" => None,
        _ => return Err("unknown fault string".to_owned()),
    };
    let set = |bridge: &std::sync::Arc<crate::bridges::Bridge>| {
        bridge.bfd.force(bridge.switch(), port, forced)
    };
    let found = bridges.all().iter().filter(|bridge| set(bridge)).count();
    match (port, found) {
        (Some(_), 0) => Err("no such BFD object".to_owned()),
        _ => Ok("OK".to_owned()),
    }
}
