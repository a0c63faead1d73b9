//! The verbs of the control socket: a file and a row each.

pub mod backends;
pub mod bond;
pub mod bridge;
pub mod capture;
pub mod config;
pub mod conntrack;
pub mod conntrack_export;
pub mod conntrack_import;
pub mod dump;
mod entry;
pub mod events;
pub mod explain;
pub mod flow;
pub mod flows;
pub mod graph;
pub mod groups;
pub mod meters;
pub mod mirror;
pub mod named;
pub mod observe;
pub mod p4_do;
pub mod p4_load;
pub mod p4_names;
pub mod packets;
pub mod port;
pub mod queue;
pub mod replication;
pub mod save;
pub mod service;
pub mod stations;
pub mod stats;
pub mod take_over;
pub mod trace;
pub mod upgrade;
pub mod version;

use crate::protocol::{Reply, Request};
use crate::role::Role;
use crate::verb::{Asked, At, Change, Row};
use serde_json::Value;

/// All verbs, by name.
pub const ALL: &[Row] = &[
    Row::of::<backends::Backends>(),
    Row::of::<bridge::Bridge>(),
    Row::of::<capture::Capture>(),
    Row::of::<config::ConfigQuestion>(),
    Row::of::<conntrack::Conntrack>(),
    Row::of::<conntrack_export::ConntrackExport>(),
    Row::of::<conntrack_import::ConntrackImport>(),
    Row::of::<dump::Dump>(),
    Row::of::<events::Events>(),
    Row::of::<explain::Explain>(),
    Row::of::<flow::Flow>(),
    Row::of::<flows::Flows>(),
    Row::of::<graph::Graph>(),
    Row::of::<groups::Groups>(),
    Row::of::<meters::Meters>(),
    Row::of::<bond::Bonds>(),
    Row::of::<mirror::Mirrors>(),
    Row::of::<observe::Observe>(),
    Row::of::<p4_do::P4Do>(),
    Row::of::<p4_load::P4Load>(),
    Row::of::<p4_names::P4Names>(),
    Row::of::<port::Ports>(),
    Row::of::<queue::Queue>(),
    Row::of::<replication::Replication>(),
    Row::of::<save::Save>(),
    Row::of::<service::Service>(),
    Row::of::<stations::Stations>(),
    Row::of::<stats::Stats>(),
    Row::of::<take_over::TakeOver>(),
    Row::of::<trace::Trace>(),
    Row::of::<upgrade::Upgrade>(),
    Row::of::<version::Version>(),
];

/// Reads a question.
pub(crate) fn read(request: Request) -> Result<Box<dyn Asked>, String> {
    let Request { verb, bridge: _, arguments } = request;
    let row = ALL.iter().find(|row| row.name == verb).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|row| row.name).collect();
        format!("not a request: there is no verb {verb:?}; there are {}", names.join(", "))
    })?;
    (row.read)(arguments).map_err(|e| format!("not a request: {verb}: {e}"))
}

/// Answers a question, and notes what it has changed.
pub(crate) fn answer(at: &At<'_>, role: Role, request: Request) -> Result<Reply<Value>, String> {
    let verb = request.verb.clone();
    let asked = read(request)?;
    role.may(&verb, asked.role())?;
    let change = asked.change();
    let answer = asked.answer(at)?;
    if let Some(change) = change {
        note(at, change);
    }
    Ok(answer)
}

/// A bridge that was just added may be the first one.
fn note(at: &At<'_>, change: Change) {
    let first = || at.bridges().ok().and_then(|bridges| bridges.first());
    match (at.switch(), first()) {
        (Ok(switch), _) => switch.note_change("ctl", change.kind, change.how, || change.text),
        (Err(_), Some(bridge)) => {
            bridge.switch().note_change("ctl", change.kind, change.how, || change.text);
        }
        (Err(_), None) => {
            tracing::info!(kind = change.kind, how = change.how, text = change.text, "changed")
        }
    }
}
