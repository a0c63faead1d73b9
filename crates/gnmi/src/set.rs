//! Set: what a request makes of the interfaces' configuration, and the ports put up and down by it.
//!
//! [`plan`] reads the whole request and says what each interface is to be; nothing is done before all of it is right.
//! [`set`] then does it, and undoes it if a port refuses.
//!
//! Interfaces come and go with ports. So an interface cannot be made here, and one that is deleted or not part of a
//! replacement has its defaults again: it is enabled.

use crate::fault::{Fault, extensions, fault, listed};
use crate::get::PATHS_MAX;
use crate::interface::{Interface, Source, now_ns};
use crate::path::{Selection, resolve, strip, text};
use crate::proto::typed_value::Value as Typed;
use crate::proto::update_result::Operation;
use crate::proto::{Path, SetRequest, SetResponse, TypedValue, Update, UpdateResult};
use crate::schema::{ABOVE, KEY, Node};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use switch::PortConfig;
use tonic::Code;

/// Which interfaces are to be enabled, by name.
pub type Wanted = BTreeMap<String, bool>;

/// Does a request, all of it or nothing.
pub fn set(request: &SetRequest, source: &Source) -> Result<SetResponse, Fault> {
    let setting = source.setting();
    let snapshot = source.states();
    let (wanted, response) = plan(request, &snapshot.interfaces)?;
    let mut done = Vec::new();
    for interface in &snapshot.interfaces {
        let Some(enabled) = wanted.get(&interface.name).filter(|on| **on != interface.enabled)
        else {
            continue;
        };
        if let Err(fault) = enable(source, interface, *enabled) {
            for (interface, before) in done {
                if let Err(fault) = enable(source, interface, before) {
                    tracing::error!(error = fault.text, "a Set that has failed is not undone");
                }
            }
            return Err(fault);
        }
        done.push((interface, interface.enabled));
    }
    drop(setting);
    for (interface, before) in done {
        let (switch, _) = source.port(&interface.name).unzip();
        switch.as_ref().unwrap_or(source.home()).note_change("gnmi", "port", "modify", || {
            format!("interface {} enabled={}", interface.name, !before)
        });
    }
    let prefix = request.prefix.clone();
    Ok(SetResponse { prefix, response, timestamp: now_ns(), ..SetResponse::default() })
}

/// Puts a port up or down.
fn enable(source: &Source, interface: &Interface, enabled: bool) -> Result<(), Fault> {
    let name = &interface.name;
    let Some((switch, port)) = source.port(name) else {
        return Err(fault!(Aborted, "interface {name} has gone meanwhile"));
    };
    let config = PortConfig { down: !enabled, ..port.config };
    let done = switch.configure_port(port.number, config);
    done.map_err(|error| fault!(Aborted, "interface {name}, config/enabled: {error}"))
}

/// What a request makes of interfaces, and what is answered for each operation.
pub fn plan(
    request: &SetRequest,
    interfaces: &[Interface],
) -> Result<(Wanted, Vec<UpdateResult>), Fault> {
    extensions(&request.extension)?;
    let changes = request.replace.len() + request.update.len() + request.union_replace.len();
    let operations = request.delete.len() + changes;
    if operations > PATHS_MAX {
        return Err(fault!(
            ResourceExhausted,
            "{operations} operations; a request may have {PATHS_MAX}"
        ));
    }
    if !request.union_replace.is_empty() && operations > request.union_replace.len() {
        return Err(fault!(InvalidArgument, "union_replace stands beside no other operation"));
    }
    let wanted = interfaces.iter().map(|i| (i.name.clone(), i.enabled)).collect();
    let mut plan = Plan { prefix: request.prefix.as_ref(), wanted, results: Vec::new() };
    for (at, path) in request.delete.iter().enumerate() {
        plan.operation(Operation::Delete, at, path, |plan, selection| plan.reset(selection, true))?;
    }
    // What is replaced is left, and then written: of a union all is left before any is written.
    for (at, update) in request.union_replace.iter().enumerate() {
        let found = plan.resolve(path_of(update)).and_then(|selection| {
            exact(&selection)?;
            plan.reset(&selection, false)
        });
        found.map_err(|fault| within(Operation::UnionReplace, at, path_of(update), &fault))?;
    }
    let union = request.union_replace.iter().map(|u| (Operation::UnionReplace, u));
    let replace = request.replace.iter().map(|u| (Operation::Replace, u));
    let update = request.update.iter().map(|u| (Operation::Update, u));
    let all = union.enumerate().chain(replace.enumerate()).chain(update.enumerate());
    for (at, (kind, update)) in all {
        plan.operation(kind, at, path_of(update), |plan, selection| {
            exact(selection)?;
            let node = selection.nodes[0];
            let value = value(update, node)?;
            if kind == Operation::Replace {
                plan.reset(selection, false)?;
            }
            if kind != Operation::Update
                && node.depth() == ABOVE.len()
                && value.as_object().is_some_and(serde_json::Map::is_empty)
            {
                return Err(fault!(InvalidArgument, "an empty object has no key; write `delete`"));
            }
            plan.write(node, selection.interface.as_deref(), &value)
        })?;
    }
    Ok((plan.wanted, plan.results))
}

/// What operations come to.
struct Plan<'a> {
    prefix: Option<&'a Path>,
    wanted: Wanted,
    results: Vec<UpdateResult>,
}

static ROOT: std::sync::LazyLock<Path> = std::sync::LazyLock::new(Path::default);

fn path_of(update: &Update) -> &Path {
    update.path.as_ref().unwrap_or(&ROOT)
}

/// A fault, with its operation.
fn within(kind: Operation, at: usize, path: &Path, fault: &Fault) -> Fault {
    let kind = match kind {
        Operation::Invalid => "operation",
        Operation::Delete => "delete",
        Operation::Replace => "replace",
        Operation::Update => "update",
        Operation::UnionReplace => "union_replace",
    };
    Fault::new(fault.code, format!("{kind} {at}, {}: {}", text(path), fault.text))
}

fn exact(selection: &Selection) -> Result<(), Fault> {
    if selection.exact {
        return Ok(());
    }
    Err(fault!(
        InvalidArgument,
        "a value is for one node: name the interface, as interface[name=p1], and use no wildcards"
    ))
}

fn read_only(node: &Node) -> Fault {
    let name = node.names.last().unwrap_or(&"/");
    fault!(InvalidArgument, "`{name}` is state, which is read and not set; set config/enabled")
}

impl Plan<'_> {
    fn resolve(&self, path: &Path) -> Result<Selection, Fault> {
        resolve(self.prefix, path).map_err(|fault| match fault.code {
            // So the protocol has it for changes.
            Code::Unimplemented => Fault { code: Code::NotFound, ..fault },
            _ => fault,
        })
    }

    fn operation(
        &mut self,
        kind: Operation,
        at: usize,
        path: &Path,
        f: impl FnOnce(&mut Self, &Selection) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let found = self.resolve(path);
        let done = found.and_then(|selection| f(self, &selection));
        done.map_err(|fault| within(kind, at, path, &fault))?;
        self.results.push(UpdateResult {
            path: Some(path.clone()),
            op: kind as i32,
            ..UpdateResult::default()
        });
        Ok(())
    }

    /// Gives what is selected its defaults. What is not there is left out where it is `deleted`.
    fn reset(&mut self, selection: &Selection, deleted: bool) -> Result<(), Fault> {
        let configs = |node: &&&Node| {
            let below = node.names.get(ABOVE.len());
            below.is_none() || below == Some(&"config")
        };
        let Some(first) = selection.nodes.iter().find(configs) else {
            let node = selection.nodes[0];
            // A key is there as long as its interface.
            return match deleted || node.names.last() != Some(&KEY) {
                true => Err(read_only_or_key(node)),
                false => Ok(()),
            };
        };
        if first.names.last() == Some(&KEY) {
            return if deleted { Err(read_only_or_key(first)) } else { Ok(()) };
        }
        match &selection.interface {
            None => self.wanted.values_mut().for_each(|enabled| *enabled = true),
            Some(name) => match self.wanted.get_mut(name) {
                Some(enabled) => *enabled = true,
                None if deleted => {}
                None => return Err(self.no_interface(name)),
            },
        }
        Ok(())
    }

    fn no_interface(&self, name: &str) -> Fault {
        let names = listed(self.wanted.keys().map(|name| &**name));
        fault!(
            NotFound,
            "there is no interface {name:?}; there are {names}. Interfaces are ports: add one by `millrace port add`"
        )
    }

    /// Writes a value at a node; `name` is that of the interface, if the node is of one.
    fn write(&mut self, node: &Node, name: Option<&str>, value: &Json) -> Result<(), Fault> {
        let Some(name) = name else {
            let members = object(value)?;
            let below = ABOVE[node.depth()];
            for (member, value) in members {
                if strip(member) != below {
                    return Err(unknown(member, below));
                }
                if node.depth() == 0 {
                    let node = Node { names: ABOVE[..1].to_vec(), leaves: node.leaves.clone() };
                    self.write(&node, None, value)?;
                    continue;
                }
                let Json::Array(entries) = value else {
                    return Err(fault!(InvalidArgument, "`{below}`: a list was expected"));
                };
                for entry in entries {
                    let named = object(entry)?.iter().find(|(key, _)| strip(key) == KEY);
                    let Some(name) = named.and_then(|(_, name)| name.as_str()) else {
                        return Err(fault!(InvalidArgument, "`{below}`: an entry has no `{KEY}`"));
                    };
                    self.entry(name, entry)?;
                }
            }
            return Ok(());
        };
        match node.names[ABOVE.len()..] {
            [] => self.entry(name, value),
            [KEY] | ["config", KEY] => self.key(name, value),
            ["config"] => self.config(name, value),
            ["config", "enabled"] => self.enabled(name, value),
            _ => Err(read_only(node)),
        }
    }

    fn entry(&mut self, name: &str, value: &Json) -> Result<(), Fault> {
        for (member, value) in object(value)? {
            match strip(member) {
                KEY => self.key(name, value)?,
                "config" => self.config(name, value)?,
                "state" => {
                    return Err(fault!(
                        InvalidArgument,
                        "`state` is read and not set; leave it out"
                    ));
                }
                _ => return Err(unknown(member, "name, config")),
            }
        }
        self.known(name).map(|_| ())
    }

    fn config(&mut self, name: &str, value: &Json) -> Result<(), Fault> {
        for (member, value) in object(value)? {
            match strip(member) {
                KEY => self.key(name, value)?,
                "enabled" => self.enabled(name, value)?,
                _ => return Err(unknown(member, "name, enabled")),
            }
        }
        self.known(name).map(|_| ())
    }

    fn known(&mut self, name: &str) -> Result<&mut bool, Fault> {
        match self.wanted.contains_key(name) {
            true => Ok(self.wanted.entry(name.to_owned()).or_default()),
            false => Err(self.no_interface(name)),
        }
    }

    fn enabled(&mut self, name: &str, value: &Json) -> Result<(), Fault> {
        let Json::Bool(on) = value else {
            return Err(fault!(
                InvalidArgument,
                "`enabled` of {name}: true or false was expected, not {}",
                short(value)
            ));
        };
        *self.known(name)? = *on;
        Ok(())
    }

    fn key(&mut self, name: &str, value: &Json) -> Result<(), Fault> {
        self.known(name)?;
        if value.as_str() == Some(name) {
            return Ok(());
        }
        Err(fault!(
            InvalidArgument,
            "`{KEY}` of {name}: an interface keeps its name, so that {} cannot be set",
            short(value)
        ))
    }
}

fn read_only_or_key(node: &Node) -> Fault {
    match node.names.last() {
        Some(&KEY) => fault!(InvalidArgument, "`{KEY}` is the interface's key, and stays with it"),
        _ => read_only(node),
    }
}

fn unknown(member: &str, there: &str) -> Fault {
    let member: String = member.chars().take(80).collect();
    fault!(
        InvalidArgument,
        "value: there is no member `{member}` that can be set; there are {there}"
    )
}

fn object(value: &Json) -> Result<&serde_json::Map<String, Json>, Fault> {
    let wrong =
        || fault!(InvalidArgument, "value: a JSON object was expected, not {}", short(value));
    value.as_object().ok_or_else(wrong)
}

fn short(value: &Json) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// An update's value as JSON.
fn value(update: &Update, node: &Node) -> Result<Json, Fault> {
    #[expect(deprecated, reason = "it is refused")]
    if update.val.is_none() && update.value.is_some() {
        return Err(fault!(InvalidArgument, "`value` is of gNMI before 0.3; write it as `val`"));
    }
    let Some(TypedValue { value: Some(value) }) = &update.val else {
        return Err(fault!(InvalidArgument, "there is no value"));
    };
    let scalar = match value {
        Typed::JsonVal(bytes) | Typed::JsonIetfVal(bytes) => {
            let json = serde_json::from_slice(bytes);
            return json
                .map_err(|error| fault!(InvalidArgument, "value: this is no JSON: {error}"));
        }
        Typed::StringVal(text) => Json::from(text.as_str()),
        Typed::BoolVal(on) => Json::from(*on),
        Typed::UintVal(n) => Json::from(*n),
        Typed::IntVal(n) => Json::from(*n),
        Typed::DoubleVal(n) => Json::from(*n),
        Typed::AsciiVal(_) => return Err(not_done("ASCII")),
        Typed::BytesVal(_) | Typed::ProtoBytes(_) | Typed::AnyVal(_) => {
            return Err(not_done("BYTES"));
        }
        _ => {
            return Err(fault!(InvalidArgument, "value: a boolean, a string or JSON was expected"));
        }
    };
    if !node.is_leaf() {
        let name = node.names.last().unwrap_or(&"/");
        return Err(fault!(
            InvalidArgument,
            "`{name}` has nodes below it: write its value as JSON"
        ));
    }
    Ok(scalar)
}

fn not_done(encoding: &str) -> Fault {
    fault!(
        Unimplemented,
        "value: the encoding {encoding} is not done here; use PROTO, JSON or JSON_IETF"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::path;
    use crate::tree::tests::interface;

    fn all() -> Vec<Interface> {
        let mut all = vec![interface(1), interface(2)];
        all[1].enabled = false;
        all
    }

    fn update(at: &str, value: Typed) -> Update {
        let val = Some(TypedValue { value: Some(value) });
        Update { path: Some(path(at)), val, ..Update::default() }
    }

    fn json(text: &str) -> Typed {
        Typed::JsonIetfVal(text.as_bytes().to_vec())
    }

    fn comes_to(request: &SetRequest) -> Result<(bool, bool), (Code, String)> {
        match plan(request, &all()) {
            Ok((wanted, _)) => Ok((wanted["p1"], wanted["p2"])),
            Err(fault) => Err((fault.code, fault.text)),
        }
    }

    const P1: &str = "/interfaces/interface[name=p1]";

    fn updated(at: &str, value: Typed) -> Result<(bool, bool), (Code, String)> {
        comes_to(&SetRequest { update: vec![update(at, value)], ..SetRequest::default() })
    }

    fn replaced(at: &str, value: Typed) -> Result<(bool, bool), (Code, String)> {
        comes_to(&SetRequest { replace: vec![update(at, value)], ..SetRequest::default() })
    }

    #[test]
    fn values_are_taken_in_every_form() {
        let enabled = format!("{P1}/config/enabled");
        let down = Ok((false, false));
        assert_eq!(updated(&enabled, Typed::BoolVal(false)), down);
        assert_eq!(updated(&enabled, json("false")), down);
        assert_eq!(updated(&enabled, Typed::JsonVal(b" false ".to_vec())), down);
        assert_eq!(updated(&format!("{P1}/config"), json(r#"{"enabled":false}"#)), down);
        let member = r#"{"openconfig-interfaces:config":{"name":"p1","enabled":false}}"#;
        assert_eq!(updated(P1, json(member)), down);
        let entry = r#"{"name":"p1","config":{"enabled":false}}"#;
        let list = format!(r#"{{"openconfig-interfaces:interface":[{entry}]}}"#);
        assert_eq!(updated("/interfaces", json(&list)), down);
        assert_eq!(updated("/", json(&format!(r#"{{"interfaces":{list}}}"#))), down);
        assert_eq!(
            updated(&format!("{P1}/name"), Typed::StringVal("p1".into())),
            Ok((true, false))
        );
    }

    #[test]
    fn what_is_replaced_or_deleted_has_its_defaults() {
        // Those that are left out are enabled again; an update leaves them.
        let list = r#"{"interface":[{"name":"p1","config":{"enabled":false}}]}"#;
        assert_eq!(replaced("/interfaces", json(list)), Ok((false, true)));
        assert_eq!(updated("/interfaces", json(list)), Ok((false, false)));
        let p2 = "/interfaces/interface[name=p2]";
        assert_eq!(replaced(&format!("{p2}/config"), json("{}")), Ok((true, true)));
        assert_eq!(replaced("/", json("{}")), Ok((true, true)));
        let deleted =
            |at: &str| comes_to(&SetRequest { delete: vec![path(at)], ..SetRequest::default() });
        for at in ["/", "/interfaces", p2, "/interfaces/interface/config/enabled", "/.../enabled"] {
            assert_eq!(deleted(at), Ok((true, true)), "{at}");
        }
        assert_eq!(deleted("/interfaces/interface[name=p9]"), Ok((true, false)));
        assert!(deleted(&format!("{p2}/state")).unwrap_err().1.contains("is state"));
        assert!(deleted(&format!("{p2}/config/name")).unwrap_err().1.contains("key"));
        // Of a union all is left before any is written.
        let union = |parts: &[(&str, &str)]| {
            let parts = parts.iter().map(|(at, value)| update(at, json(value))).collect();
            comes_to(&SetRequest { union_replace: parts, ..SetRequest::default() })
        };
        let enabled = format!("{P1}/config/enabled");
        assert_eq!(union(&[(&enabled, "false"), ("/", "{}")]), Ok((false, true)));
    }

    #[test]
    fn operations_are_done_in_order_and_all_are_answered() {
        let enabled = "/interfaces/interface[name=p2]/config/enabled";
        let request = SetRequest {
            prefix: Some(path("/interfaces")),
            delete: vec![path("interface[name=p2]")],
            replace: vec![update("interface[name=p2]/config/enabled", Typed::BoolVal(false))],
            update: vec![
                update("interface[name=p2]/config/enabled", Typed::BoolVal(true)),
                update("interface[name=p1]/config/enabled", Typed::BoolVal(false)),
            ],
            ..SetRequest::default()
        };
        assert_eq!(comes_to(&request), Ok((false, true)));
        let (_, results) = plan(&request, &all()).unwrap();
        let ops: Vec<i32> = results.iter().map(|r| r.op).collect();
        assert_eq!(ops, [1, 2, 3, 3]);
        assert_eq!(results[0].path, Some(path("interface[name=p2]")));
        assert_eq!(comes_to(&SetRequest::default()), Ok((true, false)));
        let mixed = SetRequest {
            union_replace: vec![update(enabled, Typed::BoolVal(true))],
            delete: vec![path("/")],
            ..SetRequest::default()
        };
        assert_eq!(comes_to(&mixed).unwrap_err().0, Code::InvalidArgument);
    }

    #[test]
    fn what_is_wrong_changes_nothing_and_is_named() {
        let refused = |done: Result<(bool, bool), (Code, String)>, code, text: &str| {
            let told = done.unwrap_err();
            assert!(told.0 == code && told.1.contains(text), "{told:?}, not {text}");
        };
        use Code::{InvalidArgument, NotFound, Unimplemented};
        let at = |rest: &str| format!("{P1}{rest}");
        let enabled = at("/config/enabled");
        refused(updated(&enabled, Typed::StringVal("no".into())), InvalidArgument, "not \"no\"");
        refused(updated(&enabled, json("nope")), InvalidArgument, "this is no JSON");
        refused(updated(&enabled, Typed::AsciiVal("x".into())), Unimplemented, "ASCII");
        refused(updated(&enabled, Typed::BytesVal(vec![1])), Unimplemented, "BYTES");
        refused(updated(P1, Typed::BoolVal(true)), InvalidArgument, "write its value as JSON");
        refused(updated(P1, json("[]")), InvalidArgument, "object was expected, not []");
        refused(updated(P1, json(r#"{"mtu":1}"#)), InvalidArgument, "`mtu`");
        refused(updated(P1, json(r#"{"state":{}}"#)), InvalidArgument, "`state`");
        refused(updated(P1, json(r#"{"config":{"mtu":1}}"#)), InvalidArgument, "`mtu`");
        refused(replaced(P1, json("{}")), InvalidArgument, "no key");
        refused(updated(&at("/config/name"), json("\"x\"")), InvalidArgument, "keeps its name");
        refused(updated(&at("/state/id"), Typed::UintVal(1)), InvalidArgument, "`id` is state");
        refused(updated("/interfaces/interface/config", json("{}")), InvalidArgument, "one node");
        refused(updated("/.../enabled", json("true")), InvalidArgument, "no wildcards");
        refused(updated("/system", json("{}")), NotFound, "update 0, /system: path element 1");
        let gone = "/interfaces/interface[name=p9]/config/enabled";
        refused(updated(gone, json("true")), NotFound, "no interface \"p9\"; there are p1, p2");
        refused(replaced(gone, json("true")), NotFound, "no interface \"p9\"");
        let unnamed = r#"{"interface":[{"config":{}}]}"#;
        refused(updated("/interfaces", json(unnamed)), InvalidArgument, "no `name`");
        refused(updated("/interfaces", json(r#"{"interface":{}}"#)), InvalidArgument, "a list");
        refused(updated("/", json(r#"{"system":{}}"#)), InvalidArgument, "`system`");
        let deep = "[".repeat(10_000);
        refused(updated(P1, json(&deep)), InvalidArgument, "no JSON");
        let nothing = SetRequest { update: vec![Update::default()], ..SetRequest::default() };
        refused(comes_to(&nothing), InvalidArgument, "update 0, /: there is no value");
        let many = vec![update(&enabled, json("true")); PATHS_MAX + 1];
        let many = SetRequest { update: many, ..SetRequest::default() };
        refused(comes_to(&many), Code::ResourceExhausted, "1025 operations");
    }
}
