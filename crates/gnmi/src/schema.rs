//! What is served of OpenConfig: a row for each leaf of an interface, and the nodes above them.
//!
//! Rows of one container stand together, so that a node is a depth and a range of rows. Everything else reads this
//! list: paths are resolved by it, values are read and JSON is built by it.

use crate::fault::{Fault, fault, listed};
use crate::interface::Interface;
use crate::proto::ModelData;
use crate::proto::get_request::DataType;
use crate::value::Value;
use std::ops::Range;
use std::sync::LazyLock;

/// The version of gNMI.
pub const VERSION: &str = "0.10.0";
/// What interfaces are below.
pub const ABOVE: [&str; 2] = ["interfaces", "interface"];
/// The key of an interface.
pub const KEY: &str = "name";

/// A YANG module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// Interfaces.
    Interfaces,
    /// The number by which P4Runtime knows a port.
    P4rt,
    /// What is behind an interface.
    Port,
}

impl Module {
    /// All.
    pub const ALL: [Module; 3] = [Module::Interfaces, Module::P4rt, Module::Port];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Module::Interfaces => "openconfig-interfaces",
            Module::P4rt => "openconfig-p4rt",
            Module::Port => "openconfig-platform-port",
        }
    }

    /// The version whose leaves these are.
    fn version(self) -> &'static str {
        match self {
            Module::Interfaces => "3.8.1",
            Module::P4rt => "1.0.0",
            Module::Port => "1.0.1",
        }
    }

    /// As capabilities tell it.
    pub fn data(self) -> ModelData {
        ModelData {
            name: self.name().to_owned(),
            organization: "OpenConfig working group".to_owned(),
            version: self.version().to_owned(),
        }
    }
}

/// What a leaf's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// It may be set.
    Config,
    /// What was set, as state.
    Applied,
    /// It happens.
    State,
}

/// A leaf of an interface.
pub struct Leaf {
    /// Its path below the interface.
    pub path: &'static [&'static str],
    /// Who defines it.
    pub module: Module,
    /// What it is.
    pub data: Data,
    /// It counts, so that it is sampled where the target may choose. Others change by events.
    pub counts: bool,
    /// Its value.
    pub read: fn(&Interface) -> Value,
}

const fn leaf(path: &'static [&'static str], data: Data, read: fn(&Interface) -> Value) -> Leaf {
    Leaf { path, module: Module::Interfaces, data, counts: false, read }
}

const fn counter(path: &'static [&'static str], read: fn(&Interface) -> Value) -> Leaf {
    Leaf { path, module: Module::Interfaces, data: Data::State, counts: true, read }
}

fn status(up: bool) -> Value {
    Value::Word(if up { "UP" } else { "DOWN" })
}

fn oper_status(i: &Interface) -> Value {
    if i.present { status(i.up) } else { Value::Word("NOT_PRESENT") }
}

fn name(i: &Interface) -> Value {
    Value::Text(i.name.clone())
}

/// All leaves.
pub static LEAVES: &[Leaf] = &[
    leaf(&["name"], Data::Config, name),
    leaf(&["config", "name"], Data::Config, name),
    leaf(&["config", "enabled"], Data::Config, |i| Value::Bool(i.enabled)),
    leaf(&["state", "name"], Data::Applied, name),
    leaf(&["state", "enabled"], Data::Applied, |i| Value::Bool(i.enabled)),
    Leaf {
        module: Module::P4rt,
        ..leaf(&["state", "id"], Data::Applied, |i| Value::Number(i.number))
    },
    leaf(&["state", "ifindex"], Data::State, |i| Value::Number(i.number)),
    leaf(&["state", "admin-status"], Data::State, |i| status(i.admin_up)),
    leaf(&["state", "oper-status"], Data::State, oper_status),
    leaf(&["state", "last-change"], Data::State, |i| Value::Long(i.changed_ns)),
    Leaf {
        module: Module::Port,
        ..leaf(&["state", "hardware-port"], Data::State, |i| Value::Text(i.hardware.clone()))
    },
    counter(&["state", "counters", "in-octets"], |i| Value::Long(i.counters.in_octets)),
    counter(&["state", "counters", "in-pkts"], |i| Value::Long(i.counters.in_pkts)),
    counter(&["state", "counters", "in-discards"], |i| Value::Long(i.counters.in_discards)),
    counter(&["state", "counters", "in-errors"], |i| Value::Long(i.counters.in_errors)),
    counter(&["state", "counters", "in-fcs-errors"], |i| Value::Long(i.counters.in_fcs_errors)),
    counter(&["state", "counters", "out-octets"], |i| Value::Long(i.counters.out_octets)),
    counter(&["state", "counters", "out-pkts"], |i| Value::Long(i.counters.out_pkts)),
    counter(&["state", "counters", "out-discards"], |i| Value::Long(i.counters.out_discards)),
    counter(&["state", "counters", "out-errors"], |i| Value::Long(i.counters.out_errors)),
    leaf(&["state", "counters", "carrier-transitions"], Data::State, |i| {
        Value::Long(i.transitions)
    }),
    leaf(&["state", "counters", "interface-transitions"], Data::State, |i| {
        Value::Long(i.transitions)
    }),
    leaf(&["state", "counters", "last-clear"], Data::State, |i| Value::Long(i.since_ns)),
];

/// A node of the tree: the leaves below it, and how deep it is. The root's depth is 0, a list's entry is at 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Names from the root on.
    pub names: Vec<&'static str>,
    /// Rows of [`LEAVES`].
    pub leaves: Range<usize>,
}

impl Node {
    /// How many names lead to it.
    pub fn depth(&self) -> usize {
        self.names.len()
    }

    /// It is a leaf.
    pub fn is_leaf(&self) -> bool {
        self.leaves.len() == 1
            && self.names.len() == ABOVE.len() + LEAVES[self.leaves.start].path.len()
    }
}

/// All nodes, each behind those above it.
pub static NODES: LazyLock<Vec<Node>> = LazyLock::new(|| {
    let all = 0..LEAVES.len();
    let above = (0..=ABOVE.len()).map(|n| Node { names: ABOVE[..n].to_vec(), leaves: all.clone() });
    let mut nodes: Vec<Node> = above.collect();
    for (at, leaf) in LEAVES.iter().enumerate() {
        for depth in 1..=leaf.path.len() {
            let names: Vec<_> = ABOVE.iter().chain(&leaf.path[..depth]).copied().collect();
            match nodes.iter_mut().find(|node| node.names == names) {
                Some(node) => node.leaves.end = at + 1,
                None => nodes.push(Node { names, leaves: at..at + 1 }),
            }
        }
    }
    nodes
});

/// Which leaves a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    data: DataType,
    modules: Vec<Module>,
}

impl Filter {
    /// All of them.
    pub fn all() -> Filter {
        Filter { data: DataType::All, modules: Module::ALL.to_vec() }
    }

    /// Those of a type and of these models; without models those of all.
    pub fn new(data: i32, models: &[ModelData]) -> Result<Filter, Fault> {
        let known = |data: i32| DataType::try_from(data).ok();
        let data =
            known(data).ok_or_else(|| fault!(InvalidArgument, "type: there is no type {data}"))?;
        let mut modules = Vec::new();
        for model in models {
            let found = Module::ALL.into_iter().find(|m| m.name() == model.name);
            let Some(module) = found else {
                let names = listed(Module::ALL.map(Module::name));
                let name = &model.name;
                return Err(fault!(
                    InvalidArgument,
                    "use_models: there is no model {name:?}; there are {names}"
                ));
            };
            if !model.version.is_empty() && model.version != module.version() {
                return Err(fault!(
                    InvalidArgument,
                    "use_models: {} is of version {} here, not {}",
                    model.name,
                    module.version(),
                    model.version
                ));
            }
            modules.push(module);
        }
        if models.is_empty() {
            modules = Module::ALL.to_vec();
        }
        Ok(Filter { data, modules })
    }

    /// The type of data.
    pub fn data(&self) -> DataType {
        self.data
    }

    /// It asks for this leaf.
    pub fn has(&self, leaf: &Leaf) -> bool {
        let data = match self.data {
            DataType::All => true,
            DataType::Config => leaf.data == Data::Config,
            DataType::State => leaf.data != Data::Config,
            DataType::Operational => leaf.data == Data::State,
        };
        data && self.modules.contains(&leaf.module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_container_stand_together() {
        for node in NODES.iter() {
            for (at, leaf) in LEAVES.iter().enumerate() {
                let names: Vec<_> = ABOVE.iter().chain(leaf.path).copied().collect();
                let below = names.starts_with(&node.names);
                assert_eq!(below, node.leaves.contains(&at), "{:?} {names:?}", node.names);
            }
        }
        let leaves = NODES.iter().filter(|node| node.is_leaf()).count();
        assert_eq!(leaves, LEAVES.len());
        let containers: Vec<String> =
            NODES.iter().filter(|n| !n.is_leaf()).map(|n| n.names.join("/")).collect();
        let below = "interfaces/interface";
        let below = ["config", "state", "state/counters"].map(|c| format!("{below}/{c}"));
        assert_eq!(containers[..3], ["", "interfaces", "interfaces/interface"]);
        assert_eq!(containers[3..], below);
    }

    #[test]
    fn models_and_types_choose_leaves() {
        let names = |filter: &Filter| {
            let leaves = LEAVES.iter().filter(|leaf| filter.has(leaf));
            leaves.map(|leaf| leaf.path.join("/")).collect::<Vec<_>>()
        };
        let model = |name: &str, version: &str| ModelData {
            name: name.to_owned(),
            version: version.to_owned(),
            ..ModelData::default()
        };
        let config = Filter::new(DataType::Config as i32, &[]).unwrap();
        assert_eq!(names(&config), ["name", "config/name", "config/enabled"]);
        let p4rt = Filter::new(0, &[model("openconfig-p4rt", "1.0.0")]).unwrap();
        assert_eq!(names(&p4rt), ["state/id"]);
        let operational = Filter::new(DataType::Operational as i32, &[]).unwrap();
        assert!(!names(&operational).contains(&"state/enabled".to_owned()));
        assert!(names(&operational).contains(&"state/counters/in-octets".to_owned()));
        let text = |models: &[ModelData]| Filter::new(0, models).unwrap_err().text;
        assert!(text(&[model("ietf-interfaces", "")]).contains("no model \"ietf-interfaces\""));
        assert!(text(&[model("openconfig-p4rt", "9")]).contains("version 1.0.0 here, not 9"));
        assert!(Filter::new(9, &[]).unwrap_err().text.contains("no type 9"));
    }
}
