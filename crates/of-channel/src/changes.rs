//! What requests change, in the words of the log (see [`switch::changes`]).

use openflow::syntax::{print_flow_mod, print_group_mod, print_meter_mod};
use openflow::{FlowModCommand, GroupModCommand, Message, MeterModCommand, Version};

/// What kind of change a request is, and how it changes that. None for what changes nothing.
pub(crate) fn kind(message: &Message) -> Option<(&'static str, &'static str)> {
    Some(match message {
        Message::FlowMod(m) => {
            let verb = match m.command {
                FlowModCommand::Add => "add",
                FlowModCommand::Modify | FlowModCommand::ModifyStrict => "modify",
                FlowModCommand::Delete | FlowModCommand::DeleteStrict => "delete",
            };
            ("flow_mod", verb)
        }
        Message::GroupMod(m) => {
            let verb = match m.command {
                GroupModCommand::Add => "add",
                GroupModCommand::Delete => "delete",
                _ => "modify",
            };
            ("group_mod", verb)
        }
        Message::MeterMod(m) => {
            let verb = match m.command {
                MeterModCommand::Add => "add",
                MeterModCommand::Delete => "delete",
                _ => "modify",
            };
            ("meter_mod", verb)
        }
        Message::PortMod(_) => ("port_mod", "modify"),
        Message::TableMod(_) => ("table_mod", "modify"),
        _ => return None,
    })
}

/// All of a change, as `ovs-ofctl` writes it.
pub(crate) fn text(message: &Message, version: Version) -> String {
    match message {
        Message::FlowMod(m) => print_flow_mod(m, version),
        Message::GroupMod(m) => print_group_mod(m, version),
        Message::MeterMod(m) => print_meter_mod(m),
        Message::PortMod(m) => {
            format!("port={} config={:?} mask={:?}", m.port_no, m.config, m.mask)
        }
        Message::TableMod(m) => format!("table={} config={:#x}", m.table_id, m.config),
        other => other.type_name().to_owned(),
    }
}
