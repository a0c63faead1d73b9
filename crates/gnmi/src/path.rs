//! Paths of requests, resolved to nodes of the [schema](crate::schema); paths of answers.
//!
//! A path may have `*` for one element, `...` for any number of them (one at least where it is last), and an interface
//! without its name or with the name `*` for all interfaces. A path that leads nowhere is refused with the element that
//! is wrong.

use crate::fault::{Fault, fault, listed};
use crate::proto::{Path, PathElem};
use crate::schema::{ABOVE, KEY, LEAVES, Module, NODES, Node};

/// Elements of a path, at most.
const ELEMENTS_MAX: usize = 64;
/// Bytes of a name, a key or its value, at most.
const WORD_MAX: usize = 1024;
/// The origin of a path that names none.
const ORIGIN: &str = "openconfig";
const ONE: &str = "*";
const MANY: &str = "...";

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The interface; none for all.
    pub interface: Option<String>,
    /// Nodes of which none is above another.
    pub nodes: Vec<&'static Node>,
    /// It has no wildcard, and names the interface if it leads to one.
    pub exact: bool,
}

impl Selection {
    /// Rows of the leaves, in their order.
    pub fn leaves(&self) -> impl Iterator<Item = usize> + '_ {
        self.nodes.iter().flat_map(|node| node.leaves.clone())
    }
}

/// How answers write paths: beside a prefix, or whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// The prefix of answers.
    pub prefix: Option<Path>,
    /// So many elements are in it.
    cut: usize,
}

impl Frame {
    /// For requests with this prefix. One that has wildcards is not the answers'.
    pub fn of(prefix: Option<&Path>) -> Frame {
        let Some(prefix) = prefix.filter(|p| **p != Path::default()) else {
            return Frame::default();
        };
        let open = |e: &PathElem| {
            let name = strip(&e.name);
            let keys = e.key.get(KEY).is_none_or(|name| name == ONE);
            [ONE, MANY].contains(&name) || (name == ABOVE[1] && keys)
        };
        let mut prefix = prefix.clone();
        #[expect(deprecated, reason = "it goes along with the elements")]
        prefix.element.clear();
        if prefix.elem.iter().any(open) {
            prefix.elem.clear();
        }
        Frame { cut: prefix.elem.len(), prefix: Some(prefix) }
    }

    /// The path of a node of an interface, or above all.
    pub fn path(&self, names: &[&str], interface: Option<&str>, origin: &str) -> Path {
        let elem = |(at, name): (usize, &&str)| PathElem {
            name: (*name).to_owned(),
            key: match interface {
                Some(name) if at + 1 == ABOVE.len() => [(KEY.to_owned(), name.to_owned())].into(),
                _ => Default::default(),
            },
        };
        let elem = names.iter().enumerate().map(elem).skip(self.cut).collect();
        Path { elem, origin: origin.to_owned(), ..Path::default() }
    }
}

/// A path as people write it.
pub fn text(path: &Path) -> String {
    if path.elem.is_empty() {
        return "/".to_owned();
    }
    path.elem.iter().map(|elem| format!("/{}", element(elem))).collect()
}

fn element(elem: &PathElem) -> String {
    // In order, since a map has none.
    let mut keys: Vec<_> = elem.key.iter().collect();
    keys.sort();
    let keys: String = keys.iter().map(|(key, value)| format!("[{key}={value}]")).collect();
    let text = format!("{}{keys}", elem.name);
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// Without the name of a module in front.
pub(crate) fn strip(name: &str) -> &str {
    match name.split_once(':') {
        Some((module, rest)) if Module::ALL.iter().any(|m| m.name() == module) => rest,
        _ => name,
    }
}

/// Both paths, one behind the other, are whole: what they lead to.
pub fn resolve(prefix: Option<&Path>, path: &Path) -> Result<Selection, Fault> {
    let none = Path::default();
    let prefix = prefix.unwrap_or(&none);
    origin(prefix, path)?;
    if !path.target.is_empty() {
        let target = &path.target;
        return Err(fault!(InvalidArgument, "path: the target {target:?} belongs to the prefix"));
    }
    for path in [prefix, path] {
        #[expect(deprecated, reason = "it is refused")]
        if path.elem.is_empty() && !path.element.is_empty() {
            return Err(fault!(
                InvalidArgument,
                "path: `element` is of gNMI before 0.4; write elements as `elem`"
            ));
        }
    }
    let elems: Vec<&PathElem> = prefix.elem.iter().chain(&path.elem).collect();
    if elems.len() > ELEMENTS_MAX {
        let n = elems.len();
        return Err(fault!(InvalidArgument, "path: {n} elements; there may be {ELEMENTS_MAX}"));
    }
    let interface = keys(&elems)?;
    let names: Vec<&str> = elems.iter().map(|elem| strip(&elem.name)).collect();
    let found = |names: &[&str]| -> Vec<&'static Node> {
        NODES.iter().filter(|node| matches(names, &node.names)).collect()
    };
    let mut nodes = found(&names);
    if nodes.is_empty() {
        return Err(wrong(&elems, &names, found));
    }
    // Those above stand first.
    let mut top: Vec<&Node> = Vec::new();
    nodes.retain(|node| {
        let below = top.iter().any(|above| node.names.starts_with(&above.names));
        if !below {
            top.push(node);
        }
        !below
    });
    let open = names.iter().any(|name| [ONE, MANY].contains(name));
    let exact = !open && (interface.is_some() || !names.contains(&ABOVE[1]));
    Ok(Selection { interface, nodes, exact })
}

fn origin(prefix: &Path, path: &Path) -> Result<(), Fault> {
    let (of_prefix, of_path) = (&*prefix.origin, &*path.origin);
    if !of_prefix.is_empty() && !of_path.is_empty() && of_prefix != of_path {
        return Err(fault!(
            InvalidArgument,
            "origin: the prefix has {of_prefix:?} and the path {of_path:?}; leave one out"
        ));
    }
    match [of_prefix, of_path].into_iter().find(|origin| !origin.is_empty()) {
        // Some clients take a module's name in front of a path for the origin.
        None | Some(ORIGIN) => Ok(()),
        Some(other) if Module::ALL.iter().any(|m| m.name() == other) => Ok(()),
        Some(other) => {
            Err(fault!(Unimplemented, "origin: there is no origin {other:?}; there is {ORIGIN:?}"))
        }
    }
}

/// Looks whether keys are where keys may be. The interface that they name, unless it is any.
fn keys(elems: &[&PathElem]) -> Result<Option<String>, Fault> {
    let mut interface = None;
    for (at, elem) in elems.iter().enumerate() {
        let words = elem.key.iter().flat_map(|(key, value)| [key, value]).chain([&elem.name]);
        if let Some(long) = words.into_iter().find(|word| word.len() > WORD_MAX) {
            let n = long.len();
            return Err(fault!(
                InvalidArgument,
                "path: a word of {n} bytes; there may be {WORD_MAX}"
            ));
        }
        let is_list = strip(&elem.name) == ABOVE[1];
        for (key, value) in &elem.key {
            if !is_list {
                return Err(fault!(
                    InvalidArgument,
                    "path element {}, {}: `{}` has no keys",
                    at + 1,
                    element(elem),
                    elem.name
                ));
            }
            if key != KEY {
                return Err(fault!(
                    InvalidArgument,
                    "path element {}, {}: an interface's key is `{KEY}`, not `{key}`",
                    at + 1,
                    element(elem)
                ));
            }
            if value != ONE {
                interface = Some(value.clone());
            }
        }
    }
    Ok(interface)
}

/// Whether a pattern is that of these names.
fn matches(pattern: &[&str], names: &[&str]) -> bool {
    match (pattern, names) {
        ([], _) => names.is_empty(),
        ([MANY], _) => !names.is_empty(),
        ([MANY, rest @ ..], _) => (0..=names.len()).any(|n| matches(rest, &names[n..])),
        ([ONE, rest @ ..], [_, below @ ..]) => matches(rest, below),
        ([name, rest @ ..], [first, below @ ..]) => name == first && matches(rest, below),
        (_, []) => false,
    }
}

/// Names the first element that leads nowhere.
fn wrong(
    elems: &[&PathElem],
    names: &[&str],
    found: impl Fn(&[&str]) -> Vec<&'static Node>,
) -> Fault {
    let reached = (0..names.len()).rfind(|n| !found(&names[..*n]).is_empty()).unwrap_or(0);
    let at = found(&names[..reached]);
    let mut below: Vec<&str> = Vec::new();
    for node in NODES.iter() {
        let parent = node.names.split_last().map(|(_, parent)| parent);
        if at.iter().any(|above| parent == Some(&above.names))
            && let Some(last) = node.names.last()
            && !below.contains(last)
        {
            below.push(last);
        }
    }
    let (n, elem) = (reached + 1, element(elems[reached]));
    match below.as_slice() {
        [] => fault!(Unimplemented, "path element {n}, {elem}: nothing is below a leaf"),
        _ => fault!(
            Unimplemented,
            "path element {n}, {elem}: there is no such node here; there are {}",
            listed(below)
        ),
    }
}

/// Names of a leaf from the root on.
pub fn leaf_names(row: usize) -> Vec<&'static str> {
    ABOVE.iter().chain(LEAVES[row].path).copied().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tonic::Code;

    /// `/interfaces/interface[name=p1]/state`
    pub(crate) fn path(text: &str) -> Path {
        let elem = text.split('/').filter(|e| !e.is_empty()).map(|e| {
            let (name, keys) = e.split_once('[').unwrap_or((e, ""));
            let keys = keys.trim_end_matches(']').split("][").filter_map(|k| k.split_once('='));
            let key = keys.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            PathElem { name: name.to_owned(), key }
        });
        Path { elem: elem.collect(), ..Path::default() }
    }

    fn nodes(text: &str) -> Vec<String> {
        let selection = resolve(None, &path(text)).unwrap();
        selection.nodes.iter().map(|node| node.names.join("/")).collect()
    }

    #[test]
    fn paths_lead_to_nodes() {
        assert_eq!(nodes("/"), [""]);
        assert_eq!(nodes("/interfaces"), ["interfaces"]);
        assert_eq!(nodes("/interfaces/interface[name=*]"), ["interfaces/interface"]);
        let id = ["interfaces/interface/state/id"];
        for text in [
            "/interfaces/interface/state/id",
            "/openconfig-interfaces:interfaces/interface/state/openconfig-p4rt:id",
            "/*/*/*/id",
            "/.../id",
            "/interfaces/.../id",
            "/.../state/.../id",
            "/interfaces/interface[name=p1]/.../id",
        ] {
            assert_eq!(nodes(text), id, "{text}");
        }
        let names = ["name", "config/name", "state/name"];
        assert_eq!(nodes("/.../name"), names.map(|n| format!("interfaces/interface/{n}")));
        let below = ["name", "config", "state"].map(|n| format!("interfaces/interface/{n}"));
        assert_eq!(nodes("/interfaces/interface/..."), below);
        assert_eq!(nodes("/interfaces/interface/*"), below);
        assert_eq!(nodes("/..."), ["interfaces"]);
    }

    #[test]
    fn a_prefix_stands_in_front() {
        let of = |prefix: &str, rest: &str| resolve(Some(&path(prefix)), &path(rest)).unwrap();
        let whole = resolve(None, &path("/interfaces/interface[name=p1]/state/id")).unwrap();
        assert_eq!(of("/interfaces/interface[name=p1]", "/state/id"), whole);
        assert_eq!((whole.interface.as_deref(), whole.exact), (Some("p1"), true));
        assert!(!of("/interfaces", "/interface/state").exact);
        assert!(!of("/interfaces", "/interface[name=p1]/*/name").exact);
        assert!(of("/", "/").exact);
        // Answers have it, unless it says less than they do.
        let frame = Frame::of(Some(&path("/interfaces/interface[name=p1]")));
        let told = frame.path(&leaf_names(2), Some("p1"), "");
        assert_eq!(told, path("/config/enabled"));
        for open in ["/interfaces/interface", "/*", "/interfaces/interface[name=*]/state"] {
            let frame = Frame::of(Some(&Path { target: "t".into(), ..path(open) }));
            assert_eq!(frame.prefix, Some(Path { target: "t".into(), ..Path::default() }));
            let told = frame.path(&leaf_names(2), Some("p1"), "");
            assert_eq!(text(&told), "/interfaces/interface[name=p1]/config/enabled");
        }
        assert_eq!(Frame::of(Some(&Path::default())), Frame::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str| {
            let fault = resolve(None, &path(text)).unwrap_err();
            (fault.code, fault.text)
        };
        let (code, told) = refused("/interfaces/interface[name=p1]/state/counters/in-unicast-pkts");
        assert_eq!(code, Code::Unimplemented);
        assert!(
            told.starts_with("path element 5, in-unicast-pkts: there is no such node"),
            "{told}"
        );
        assert!(told.contains("in-octets"), "{told}");
        let (_, told) = refused("/system/state");
        assert!(
            told.ends_with("system: there is no such node here; there are interfaces"),
            "{told}"
        );
        assert!(refused("/interfaces/interface/state/id/x").1.contains("below a leaf"));
        let (code, told) = refused("/interfaces/interface[id=1]");
        assert_eq!(code, Code::InvalidArgument);
        assert!(told.contains("interface[id=1]: an interface's key is `name`, not `id`"), "{told}");
        assert!(refused("/interfaces[name=1]").1.contains("`interfaces` has no keys"));
        assert!(refused("/*[name=1]/interface").1.contains("has no keys"));
        assert!(refused(&"/*".repeat(65)).1.contains("65 elements"));
        assert!(refused(&format!("/{}", "x".repeat(2000))).1.contains("2000 bytes"));
        let of = |prefix: Path, path: Path| resolve(Some(&prefix), &path).unwrap_err();
        let origin = |origin: &str| Path { origin: origin.into(), ..Path::default() };
        let fault = of(origin("openconfig"), origin("cli"));
        assert_eq!(fault.code, Code::InvalidArgument);
        assert_eq!(of(Path::default(), origin("cli")).code, Code::Unimplemented);
        assert!(resolve(None, &origin("openconfig-interfaces")).is_ok());
        let target = Path { target: "x".into(), ..Path::default() };
        assert!(of(Path::default(), target).text.contains("belongs to the prefix"));
        #[expect(deprecated, reason = "it is refused")]
        let old = Path { element: vec!["interfaces".into()], ..Path::default() };
        assert!(of(Path::default(), old).text.contains("gNMI before 0.4"));
    }
}
