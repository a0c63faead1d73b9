//! What was touched since it was last kept: noted by the stores, taken by `keeping`.

use crate::flow::{Flow, FlowKey};
use crate::observer::Observer;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Flow entries that came, changed or went, in order, each once.
    pub flows: Vec<FlowKey>,
    /// The same of groups.
    pub groups: BTreeSet<u32>,
    /// The same of meters.
    pub meters: BTreeSet<u32>,
    /// Ports that were configured.
    pub ports: BTreeSet<u32>,
    /// What is set of tables.
    pub tables: bool,
    /// What is set of the switch.
    pub settings: bool,
    /// The map of Geneve options.
    pub options: bool,
}

impl Changed {
    /// Nothing has.
    pub fn is_empty(&self) -> bool {
        *self == Changed::default()
    }
}

/// Returns once all that was kept before is written: whoever answers a request calls it first, without the agent.
pub type Written = Arc<dyn Fn() + Send + Sync>;

/// Numbers that were touched, if somebody wants to know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    on: bool,
    touched: BTreeSet<u32>,
}

impl Numbers {
    /// From now on somebody does.
    pub(crate) fn begun() -> Numbers {
        Numbers { on: true, touched: BTreeSet::new() }
    }

    pub(crate) fn take(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.touched)
    }

    pub(crate) fn touch(&mut self, number: u32) {
        if self.on {
            self.touched.insert(number);
        }
    }
}

/// Flow entries that were touched, if somebody wants to know.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    on: bool,
    flows: Vec<FlowKey>,
}

impl Touched {
    /// From now on somebody does.
    pub(crate) fn begun() -> Touched {
        Touched { on: true, flows: Vec::new() }
    }

    pub(crate) fn take(&mut self) -> Vec<FlowKey> {
        std::mem::take(&mut self.flows)
    }

    fn touch(&mut self, key: FlowKey) {
        if self.on && self.flows.last() != Some(&key) {
            self.flows.push(key);
        }
    }
}

impl Observer for Touched {
    fn came(&mut self, key: FlowKey, _: &Flow) {
        self.touch(key);
    }

    fn went(&mut self, key: FlowKey, _: &Flow) {
        self.touch(key);
    }
}
