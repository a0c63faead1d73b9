//! Nodes of interfaces as updates: a leaf each, or a JSON tree for each node.

use crate::interface::Interface;
use crate::path::{Frame, Selection, leaf_names, strip};
use crate::proto::{Path, Update};
use crate::schema::{ABOVE, Filter, LEAVES, Module, Node};
use crate::value::Written;
use serde_json::{Map, Value as Json};

/// What an answer is written by.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// How paths are written.
    pub frame: &'a Frame,
    /// The origin that the path named.
    pub origin: &'a str,
    /// How values are written.
    pub written: Written,
}

impl Style<'_> {
    /// An update of a leaf of an interface.
    pub fn leaf(&self, row: usize, interface: &Interface) -> Update {
        let path = self.frame.path(&leaf_names(row), Some(&interface.name), self.origin);
        let val = Some((LEAVES[row].read)(interface).typed(self.written));
        Update { path: Some(path), val, ..Update::default() }
    }

    /// The path of an interface.
    pub fn interface(&self, name: &str) -> Path {
        self.frame.path(&ABOVE, Some(name), self.origin)
    }

    /// An update of a node: of one interface, or of those that there are if it is above them.
    pub fn node(&self, node: &Node, interfaces: &[&Interface], filter: &Filter) -> Update {
        let of = interfaces.first().filter(|_| node.depth() >= ABOVE.len());
        let path = self.frame.path(&node.names, of.map(|i| &*i.name), self.origin);
        let json = tree(node, interfaces, filter, self.written);
        Update { path: Some(path), val: Some(self.written.tree(&json)), ..Update::default() }
    }
}

/// Those that a selection is of.
pub fn chosen<'a>(selection: &Selection, all: &'a [Interface]) -> Vec<&'a Interface> {
    let is = |i: &&Interface| selection.interface.as_ref().is_none_or(|name| *name == i.name);
    all.iter().filter(is).collect()
}

/// A node as JSON. In RFC 7951 members bear their module's name where it is not that of the object around them, which the
/// whole has none of.
fn tree(node: &Node, interfaces: &[&Interface], filter: &Filter, written: Written) -> Json {
    let ietf = written != Written::Json;
    let first = interfaces.first();
    if node.is_leaf() {
        return first.map_or(Json::Null, |i| (LEAVES[node.leaves.start].read)(i).json(written));
    }
    let mut object = Map::new();
    if let Some(below) = ABOVE.get(node.depth()) {
        let inner = Node { names: ABOVE[..=node.depth()].to_vec(), leaves: node.leaves.clone() };
        let name = member(below, Module::Interfaces, ietf);
        let value = if inner.depth() == ABOVE.len() {
            let each = interfaces.iter().map(|i| tree(&inner, &[i], filter, written));
            // Their members are within the list.
            Json::Array(each.map(unqualified).collect())
        } else {
            unqualified(tree(&inner, interfaces, filter, written))
        };
        object.insert(name, value);
        return Json::Object(object);
    }
    let depth = node.depth() - ABOVE.len();
    for leaf in LEAVES[node.leaves.clone()].iter().filter(|leaf| filter.has(leaf)) {
        let Some(interface) = first else { continue };
        let mut at = &mut object;
        let path = &leaf.path[depth..];
        for (level, name) in path[..path.len() - 1].iter().enumerate() {
            let name = member(name, Module::Interfaces, ietf && level == 0);
            let inner = at.entry(name).or_insert_with(|| Json::Object(Map::new()));
            let Json::Object(inner) = inner else { unreachable!("a container is an object") };
            at = inner;
        }
        let is_outer = path.len() == 1 || leaf.module != Module::Interfaces;
        let name = member(path[path.len() - 1], leaf.module, ietf && is_outer);
        at.insert(name, (leaf.read)(interface).json(written));
    }
    Json::Object(object)
}

fn member(name: &str, module: Module, qualified: bool) -> String {
    if qualified { format!("{}:{name}", module.name()) } else { name.to_owned() }
}

/// Members of the interfaces' module without its name.
fn unqualified(json: Json) -> Json {
    let Json::Object(object) = json else { return json };
    let own = |name: String| {
        let is_own = name.split_once(':').is_some_and(|(m, _)| m == Module::Interfaces.name());
        if is_own { strip(&name).to_owned() } else { name }
    };
    Json::Object(object.into_iter().map(|(name, value)| (own(name), value)).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::interface::Counters;
    use crate::path::resolve;
    use crate::path::tests::path;
    use crate::proto::typed_value::Value as Typed;

    pub(crate) fn interface(number: u32) -> Interface {
        Interface {
            number,
            name: format!("p{number}"),
            hardware: format!("memory:m{number}"),
            enabled: true,
            admin_up: true,
            present: true,
            up: number != 2,
            changed_ns: 5,
            transitions: 3,
            since_ns: 1,
            counters: Counters { in_octets: 100, ..Counters::default() },
        }
    }

    fn json(text: &str, written: Written) -> String {
        let selection = resolve(None, &path(text)).unwrap();
        let all = [interface(1), interface(2)];
        let chosen = chosen(&selection, &all);
        let style = Style { frame: &Frame::default(), origin: "", written };
        let update = style.node(selection.nodes[0], &chosen, &Filter::new(1, &[]).unwrap());
        match update.val.unwrap().value.unwrap() {
            Typed::JsonVal(bytes) | Typed::JsonIetfVal(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn members_bear_modules_where_these_change() {
        let entry =
            |n: u8| format!(r#"{{"config":{{"enabled":true,"name":"p{n}"}},"name":"p{n}"}}"#);
        let both = format!("[{},{}]", entry(1), entry(2));
        let plain = format!(r#"{{"interfaces":{{"interface":{both}}}}}"#);
        assert_eq!(json("/", Written::Json), plain);
        let ietf = plain.replace("{\"interfaces", "{\"openconfig-interfaces:interfaces");
        assert_eq!(json("/", Written::JsonIetf), ietf);
        let list = format!(r#"{{"openconfig-interfaces:interface":{both}}}"#);
        assert_eq!(json("/interfaces", Written::JsonIetf), list);
        let one = json("/interfaces/interface[name=p2]", Written::JsonIetf);
        let of = "openconfig-interfaces";
        assert_eq!(
            one,
            format!(r#"{{"{of}:config":{{"enabled":true,"name":"p2"}},"{of}:name":"p2"}}"#)
        );
        assert_eq!(json("/interfaces/interface[name=p2]/config/enabled", Written::Json), "true");
    }

    #[test]
    fn leaves_of_other_modules_bear_their_names() {
        let all = [interface(1)];
        let selection = resolve(None, &path("/interfaces/interface/state")).unwrap();
        let style = Style { frame: &Frame::default(), origin: "", written: Written::JsonIetf };
        let update = style.node(selection.nodes[0], &chosen(&selection, &all), &Filter::all());
        let Some(Typed::JsonIetfVal(bytes)) = update.val.unwrap().value else { panic!() };
        let json: Json = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(json["openconfig-p4rt:id"], 1);
        assert_eq!(json["openconfig-platform-port:hardware-port"], "memory:m1");
        assert_eq!(json["openconfig-interfaces:counters"]["in-octets"], "100");
        assert_eq!(update.path, Some(path("/interfaces/interface[name=p1]/state")));
    }
}
