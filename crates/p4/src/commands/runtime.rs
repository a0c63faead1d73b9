//! `runtime.json`, as the tutorials keep what a switch is to have: entries, multicast groups, sessions of clones.
//!
//! ```json
//! {"target": "bmv2", "p4info": "build/a.p4.p4info.txtpb", "bmv2_json": "build/a.json",
//!  "table_entries": [{"table": "I.routes", "match": {"hdr.ip.dst": ["10.0.0.0", 8]}, "priority": 0,
//!                     "action_name": "I.route", "action_params": {"port": 2}},
//!                    {"table": "I.routes", "default_action": true, "action_name": "I.drop", "action_params": {}}],
//!  "multicast_group_entries": [{"multicast_group_id": 1, "replicas": [{"egress_port": 1, "instance": 1}]}],
//!  "clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": 2, "instance": 1}]}]}
//! ```
//!
//! As in P4Runtime a *larger* priority wins. The program is the one that runs: `p4info` and `bmv2_json` name no other.
//! What goes wrong is told with its place and changes nothing; the rest is done.

use crate::control::multicast::{self, Copies, Cut, Replica};
use crate::control::{Control, Written, prioritised};
use ir::Update;
use ir::program::MatchKind;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Runtime {
    target: Option<String>,
    #[serde(rename = "p4info")]
    _p4info: Option<String>,
    #[serde(rename = "bmv2_json")]
    _bmv2_json: Option<String>,
    #[serde(default)]
    table_entries: Vec<TableEntry>,
    #[serde(default)]
    multicast_group_entries: Vec<Group>,
    #[serde(default)]
    clone_session_entries: Vec<Session>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableEntry {
    table: String,
    #[serde(default)]
    r#match: Option<Map<String, Value>>,
    #[serde(default)]
    default_action: Option<bool>,
    action_name: String,
    #[serde(default)]
    action_params: Map<String, Value>,
    #[serde(default)]
    priority: Option<i32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Copy {
    egress_port: u32,
    #[serde(default)]
    instance: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    multicast_group_id: u32,
    replicas: Vec<Copy>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    clone_session_id: u32,
    replicas: Vec<Copy>,
    #[serde(default)]
    packet_length_bytes: u32,
    #[serde(default)]
    class_of_service: u32,
}

/// Whether a text is such a file, and not lines of commands.
pub fn is_runtime(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// A value as a command has it.
fn word(value: &Value) -> Result<String, String> {
    match value {
        Value::Number(n) if n.is_u64() => Ok(n.to_string()),
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        Value::Bool(is) => Ok(is.to_string()),
        other => Err(format!("{other} is no value: a number from 0, or an address as a string")),
    }
}

/// What a key must match, as a command has it.
fn key(kind: MatchKind, value: &Value) -> Result<String, String> {
    let Value::Array(parts) = value else { return word(value) };
    match (kind, parts.as_slice()) {
        (MatchKind::Exact | MatchKind::Optional, [one]) => word(one),
        (MatchKind::Lpm, [value, length]) => Ok(format!("{}/{}", word(value)?, word(length)?)),
        (MatchKind::Ternary, [value, mask]) => Ok(format!("{}&&&{}", word(value)?, word(mask)?)),
        (MatchKind::Range, [low, high]) => Ok(format!("{}->{}", word(low)?, word(high)?)),
        (kind, _) => {
            let wanted = match kind {
                MatchKind::Exact | MatchKind::Optional => "a value",
                MatchKind::Lpm => "[value, prefix length]",
                MatchKind::Ternary => "[value, mask]",
                MatchKind::Range => "[low, high]",
            };
            Err(format!("{value}: {wanted} was expected, as the key is {}", kind.word()))
        }
    }
}

fn table_entry(control: &mut Control, entry: &TableEntry) -> Result<Vec<Update>, String> {
    let t = control.table(&entry.table)?;
    let given = |(name, value): (&String, &Value)| -> Result<Written, String> {
        Ok((Some(name.clone()), word(value).map_err(|e| format!("action_params.{name}: {e}"))?))
    };
    let args = entry.action_params.iter().map(given).collect::<Result<Vec<_>, _>>()?;
    if entry.default_action == Some(true) {
        if entry.r#match.as_ref().is_some_and(|keys| !keys.is_empty()) {
            return Err("a default action has no match".to_owned());
        }
        return Ok(control.set_default(&entry.table, &entry.action_name, &args)?);
    }
    let mut keys: Vec<Written> = Vec::new();
    for (name, value) in entry.r#match.iter().flatten() {
        let known = t.keys.iter().find(|k| k.name == *name).ok_or_else(|| {
            let all: Vec<&str> = t.keys.iter().map(|k| k.name.as_str()).collect();
            format!("the table `{}` has no key `{name}`; it has {}", t.name, all.join(", "))
        })?;
        let text = key(known.kind, value).map_err(|e| format!("match.{name}: {e}"))?;
        keys.push((Some(name.clone()), text));
    }
    // What is left out matches all.
    for k in t.keys.iter().filter(|k| k.kind != MatchKind::Exact) {
        if keys.iter().all(|(name, _)| name.as_deref() != Some(&k.name)) {
            keys.push((Some(k.name.clone()), "*".to_owned()));
        }
    }
    let priority = match (prioritised(t), entry.priority) {
        (false, None | Some(0)) => 0,
        (false, Some(_)) => {
            return Err(format!("entries of the table `{}` have no priority", t.name));
        }
        (true, Some(priority)) if priority > 0 => priority,
        (true, _) => {
            return Err(format!(
                "the table `{}` has ternary, range or optional keys: an entry needs a priority from 1; larger ones win",
                t.name
            ));
        }
    };
    Ok(control.add(&entry.table, &keys, priority, &entry.action_name, &args)?.1)
}

fn replicas(copies: &[Copy]) -> Result<Vec<Replica>, String> {
    let replica = |copy: &Copy| match copy.egress_port {
        port @ 0..=511 => {
            Ok(Replica { port, instance: copy.instance, numbered: false, backups: Vec::new() })
        }
        port => Err(format!("egress_port {port} is no port: 0 to 511 are")),
    };
    copies.iter().map(replica).collect()
}

fn session(control: &mut Control, session: &Session) -> Result<Vec<Update>, String> {
    let cut = Cut { length: session.packet_length_bytes, queue: session.class_of_service };
    let to = multicast::Session { replicas: replicas(&session.replicas)?, cut };
    Ok(control.session_insert(session.clone_session_id, to)?)
}

/// Does what a file says. Updates, and what went wrong.
pub(super) fn run(text: &str, control: &mut Control) -> (Vec<Update>, Vec<String>) {
    let runtime: Runtime = match serde_json::from_str(text) {
        Ok(runtime) => runtime,
        Err(error) => {
            return (Vec::new(), vec![format!("no runtime file as the tutorials have: {error}")]);
        }
    };
    let (mut updates, mut wrong) = (Vec::new(), Vec::new());
    if let Some(target) = runtime.target.filter(|target| target != "bmv2") {
        return (updates, vec![format!("target {target:?}: bmv2 is the only one")]);
    }
    let mut take = |list: &str, at: usize, done: Result<Vec<Update>, String>| match done {
        Ok(more) => updates.extend(more),
        Err(text) => wrong.push(format!("{list}[{at}]: {text}")),
    };
    for (at, entry) in runtime.table_entries.iter().enumerate() {
        take("table_entries", at, table_entry(control, entry));
    }
    for (at, group) in runtime.multicast_group_entries.iter().enumerate() {
        let done = replicas(&group.replicas).and_then(|replicas| {
            let copies = Copies { replicas, metadata: Vec::new() };
            Ok(control.multicast_insert(group.multicast_group_id, copies)?)
        });
        take("multicast_group_entries", at, done);
    }
    for (at, one) in runtime.clone_session_entries.iter().enumerate() {
        take("clone_session_entries", at, session(control, one));
    }
    (updates, wrong)
}
