//! Flow entries in the words of Open vSwitch: `bridge/dump-flows`, and what `ofproto/trace` shows of an entry.

use control::bridges::Bridge;
use of_pipeline::Agent;
use of_pipeline::flow_table::Flow;
use openflow::syntax::{print_flow, print_match};
use openflow::{TableId, Version};

/// The priority of an entry that says none, which is not shown.
const PRIORITY_DEFAULT: u16 = 32768;

/// What an entry matches.
pub(super) fn matches(flow: &Flow) -> String {
    print_match(&flow.matching, Version::V15)
}

/// What an entry does, as one text.
pub(super) fn actions(table: u8, flow: &Flow) -> String {
    let line = print_flow(&flow.stats(TableId(table)), Version::V15, false);
    line.split_once("actions=").map_or(String::new(), |(_, actions)| actions.to_owned())
}

/// Splits a list of actions at the commas that stand outside of parentheses and brackets.
pub(super) fn split(actions: &str) -> Vec<&str> {
    let (mut depth, mut start, mut all) = (0_u32, 0, Vec::new());
    for (at, c) in actions.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                all.push(&actions[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(&actions[start..]);
    all.into_iter().filter(|action| !action.is_empty()).collect()
}

/// All entries of a bridge, a line each.
pub(super) fn dump(bridge: &Bridge) -> Result<Vec<String>, String> {
    let openflow = bridge.openflow().ok_or("it runs a P4 program")?;
    let agent: &Agent = &openflow.agent();
    let (switch, mut lines) = (bridge.switch(), Vec::new());
    let now_ns = switch.now_ns();
    for table in 0..agent.flows().tables() {
        let Ok(table) = u8::try_from(table) else { break };
        for (key, flow) in agent.flows().iter(table) {
            let of_table = if table > 0 { format!("table_id={table}, ") } else { String::new() };
            let seconds = now_ns.saturating_sub(flow.created_ns) / 1_000_000_000;
            let counted = switch.counter(key.id);
            let priority = match flow.priority {
                PRIORITY_DEFAULT => String::new(),
                priority => format!("priority={priority}"),
            };
            let matching = matches(flow);
            let comma = if priority.is_empty() || matching.is_empty() { "" } else { "," };
            lines.push(format!(
                "{of_table}duration={seconds}s, n_packets={}, n_bytes={}, {priority}{comma}{matching},actions={}",
                counted.packets,
                counted.bytes,
                actions(table, flow)
            ));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_told_apart_outside_of_parentheses() {
        let text =
            "load:1->NXM_NX_REG0[0..3],ct(commit,zone=1,exec(load:1->NXM_NX_CT_MARK[])),output:2";
        assert_eq!(split(text).len(), 3);
        assert_eq!(split("drop"), ["drop"]);
        assert!(split("").is_empty());
    }
}
