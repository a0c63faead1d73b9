//! All that keep connections on a switch: the tracker of `ct`, and services by name.
//!
//! They are walked in slices, between which packets go on: a slice is one lock's time, some tens of microseconds. So a list
//! is no picture of one moment: a connection that opens or ends meanwhile may be in it or not.

use crate::program::services::owners;
use datapath::services::Connections;
use datapath::services::elements::Named;
use service::conntrack::{Connection, Selection};
use std::collections::HashMap;
use std::sync::Arc;
use switch::Switch;

/// Places that one slice looks at.
const SLICE: usize = 256;
/// The name of the tracker of `ct`.
pub(super) const CT: &str = "ct";

/// Who keeps connections.
pub(super) enum Tracker {
    Ct(Arc<Connections>),
    Service(Arc<Named>),
}

impl Tracker {
    /// All of a switch, `ct` first. Of services that share their state, the first.
    pub(super) fn all(switch: &Switch) -> Vec<Tracker> {
        let services = switch.services();
        let mut all: Vec<Tracker> = Vec::new();
        all.extend(services.connections().map(|connections| Tracker::Ct(connections.clone())));
        let keeps = |named: &Arc<Named>| ["nat", "conntrack", "balancer"].contains(&&*named.kind);
        all.extend(owners(switch).into_iter().filter(keeps).map(Tracker::Service));
        all
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Tracker::Ct(_) => CT,
            Tracker::Service(named) => &named.name,
        }
    }

    pub(super) fn kind(&self) -> &str {
        match self {
            Tracker::Ct(_) => CT,
            Tracker::Service(named) => &named.kind,
        }
    }

    /// Connections held, those of them that are half open, memory.
    pub(super) fn size(&self) -> (usize, usize, usize) {
        match self {
            Tracker::Ct(connections) => {
                let (held, half_open, memory) = connections.size();
                (held, half_open, memory.total())
            }
            Tracker::Service(named) => named.size(),
        }
    }

    /// Forgets what is chosen.
    pub(super) fn forget(&self, chosen: &Selection) -> usize {
        match self {
            Tracker::Ct(connections) => connections.flush_selected(chosen),
            Tracker::Service(named) => named.forget(chosen),
        }
    }

    /// The names of a balancer's backends, by number.
    pub(super) fn backends(&self) -> HashMap<u16, String> {
        let Tracker::Service(named) = self else { return HashMap::new() };
        let members = named.spread().map(|spread| spread.backends().list()).unwrap_or_default();
        members.into_iter().filter_map(|member| Some((member.number?, member.name))).collect()
    }

    /// Connections from a place on, with the number of a balancer's backend: a slice. The place to go on from.
    pub(super) fn slice(
        &self,
        switch: &Switch,
        from: usize,
        see: &mut dyn FnMut(Connection, Option<u16>),
    ) -> Option<usize> {
        let now_ns = switch.now_ns();
        match self {
            Tracker::Ct(connections) => {
                connections.page(now_ns, from, SLICE, &mut |connection| see(connection, None))
            }
            Tracker::Service(named) => {
                let mut kept = |kept: service::element::Kept| see(kept.connection, kept.backend);
                named.page(now_ns, from, SLICE, &mut kept)
            }
        }
    }
}
