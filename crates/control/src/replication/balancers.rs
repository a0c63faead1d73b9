//! Balancers of the bridges: who takes flows and flows that the table does not know, told where this member is active, taken where it is a
//! standby.
//!
//! Whenever a balancer's table has changed, its backends are told, and then its flows a slice at a time: some milliseconds for some ten
//! thousand flows. A member that dies meanwhile loses the rest of them.

use datapath::services::elements::Named;
use replication::message::Part;
use std::collections::BTreeMap;
use std::sync::Arc;
use switch::Switch;

/// Places that are looked at in one slice.
const SLICE: usize = 4096;

struct One {
    named: Arc<Named>,
    switch: Switch,
    /// The changes of its backends that were told.
    told: Option<u64>,
    /// The place from which its flows are still to be told.
    next: Option<usize>,
}

/// All of them, by bridge and name.
#[derive(Default)]
pub(super) struct Balancers {
    all: BTreeMap<String, One>,
}

fn backends(name: &str) -> String {
    format!("backends:{name}")
}

fn flows(name: &str) -> String {
    format!("flows:{name}")
}

impl Balancers {
    /// Those that are there now.
    pub(super) fn look(&mut self, now: Vec<(String, Arc<Named>, Switch)>) {
        let mut all = BTreeMap::new();
        for (name, named, switch) in now {
            let known = self.all.remove(&name).filter(|one| one.named.shares_with(&named));
            all.insert(name, known.unwrap_or(One { named, switch, told: None, next: None }));
        }
        self.all = all;
    }

    /// All is new to whoever hears it from here on.
    pub(super) fn begin(&mut self) {
        self.all.values_mut().for_each(|one| (one.told, one.next) = (None, None));
    }

    /// What has changed since it was asked last, and the next slice of flows.
    pub(super) fn changes(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (name, one) in &mut self.all {
            let Some(spread) = one.named.spread() else { continue };
            let now_ns = one.switch.now_ns();
            let changes = spread.backends().changes();
            if one.told != Some(changes) {
                (one.told, one.next) = (Some(changes), Some(0));
                parts.extend(told(name, one, now_ns));
            }
            if let Some(from) = one.next {
                let mut records = Vec::new();
                one.next = one.named.tell_flows(now_ns, from, SLICE, &mut records);
                if !records.is_empty() {
                    parts.push(Part { tracker: flows(name), records });
                }
            }
        }
        parts
    }

    /// The first of them, for [`tell`](Self::tell).
    pub(super) fn first(&self) -> Option<(String, usize)> {
        self.all.keys().next().map(|name| (name.clone(), 0))
    }

    /// Tells all, a slice at a time: what it says, and what comes next.
    pub(super) fn tell(
        &self,
        (name, from): (String, usize),
    ) -> (Vec<Part>, Option<(String, usize)>) {
        let range = (std::ops::Bound::Excluded(name.clone()), std::ops::Bound::Unbounded);
        let after = self.all.range(range).next().map(|(name, _)| (name.clone(), 0));
        let Some(one) = self.all.get(&name) else { return (Vec::new(), after) };
        let now_ns = one.switch.now_ns();
        let mut parts = if from == 0 { told(&name, one, now_ns) } else { Vec::new() };
        let mut records = Vec::new();
        let next = one.named.tell_flows(now_ns, from, SLICE, &mut records);
        if !records.is_empty() {
            parts.push(Part { tracker: flows(&name), records });
        }
        (parts, next.map(|from| (name, from)).or(after))
    }

    /// Takes what another member has told; none if it is about no balancer, or about one that is not here.
    pub(super) fn apply(&self, part: &Part) -> Option<Result<u64, String>> {
        if let Some(name) = part.tracker.strip_prefix("backends:") {
            let one = self.all.get(name)?;
            let taken =
                one.named.spread()?.backends().told_by_other(one.switch.now_ns(), &part.records);
            return Some(taken.map(|()| 0).map_err(str::to_owned));
        }
        let one = self.all.get(part.tracker.strip_prefix("flows:")?)?;
        let taken = one.named.told_flows(one.switch.now_ns(), &part.records);
        Some(taken.map(|taken| taken as u64))
    }
}

fn told(name: &str, one: &One, now_ns: u64) -> Vec<Part> {
    let pieces = one.named.spread().map(|spread| spread.backends().tell(now_ns));
    let part = |records| Part { tracker: backends(name), records };
    pieces.unwrap_or_default().into_iter().map(part).collect()
}
