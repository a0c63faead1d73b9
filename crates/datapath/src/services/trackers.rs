//! The trackers of a switch, whichever service keeps them: for who follows them, and for who has them go on.
//!
//! In: the services of a switch. Out: each tracker once, by a name that another process has for it, too: `ct` for that of
//! connection tracking's actions, `service:NAME` for that of a service, where `NAME` is its group's if it has one.
//!
//! A tracker is behind its service's lock: what is done [with](Tracked::with) it keeps packets waiting.

use super::Services;
use super::connections::Connections;
use super::elements::Named;
use service::conntrack::Tracker;
use std::sync::Arc;

/// A tracker, by the service that keeps it.
#[derive(Clone)]
pub struct Tracked {
    /// Its name.
    pub name: String,
    keeper: Keeper,
}

#[derive(Clone)]
enum Keeper {
    Connections(Arc<Connections>),
    Element(Arc<Named>),
}

impl Tracked {
    /// Whether it is this one, and not another of the same name that has come later.
    pub fn is(&self, other: &Tracked) -> bool {
        match (&self.keeper, &other.keeper) {
            (Keeper::Connections(one), Keeper::Connections(other)) => Arc::ptr_eq(one, other),
            (Keeper::Element(one), Keeper::Element(other)) => one.shares_with(other),
            _ => false,
        }
    }

    /// Does something with the tracker, while packets wait. None if its service has lost it.
    pub fn with<R>(&self, act: impl FnOnce(&mut Tracker) -> R) -> Option<R> {
        match &self.keeper {
            Keeper::Connections(connections) => Some(connections.with(act)),
            Keeper::Element(named) => named.with_tracker(act),
        }
    }
}

impl std::fmt::Debug for Tracked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tracked({})", self.name)
    }
}

impl Services {
    /// All trackers that there are now.
    pub fn trackers(&self) -> Vec<Tracked> {
        let connections = self.connections().map(|connections| Tracked {
            name: "ct".to_owned(),
            keeper: Keeper::Connections(connections.clone()),
        });
        let owners = self.elements().map(|elements| elements.owners()).unwrap_or_default();
        let elements = owners.into_iter().filter(|named| named.with_tracker(|_| ()).is_some());
        let elements = elements.map(|named| Tracked {
            name: format!("service:{}", named.group.as_deref().unwrap_or(&named.name)),
            keeper: Keeper::Element(named),
        });
        connections.into_iter().chain(elements).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::elements::New;
    use service::catalogue;

    #[test]
    fn each_tracker_is_there_once_by_its_groups_name() {
        let mut services = Services::default();
        services.track(service::conntrack::Config::new(16, 1));
        services.soft();
        let elements = services.elements().unwrap().clone();
        let mut number = 0;
        let mut add =
            |name: &'static str, kind: &'static str, group: Option<&'static str>, words: &str| {
                number += 1;
                let settings =
                    catalogue::parse(words.split(' ').filter(|word| !word.is_empty())).unwrap();
                let element = catalogue::element(kind, &settings).unwrap();
                let new = New { number, name, kind, settings, group, element };
                elements.add(new, (0, u64::from(number))).unwrap();
            };
        add("out", "nat", Some("home"), "direction=out addresses=192.0.2.1");
        add("in", "nat", Some("home"), "direction=in addresses=192.0.2.1");
        add("wall", "conntrack", None, "");
        add("count", "counter", None, "");
        let all = services.trackers();
        let names: Vec<_> = all.iter().map(|tracked| &*tracked.name).collect();
        assert_eq!(names, ["ct", "service:home", "service:wall"]);
        assert!(all.iter().all(|tracked| tracked.with(|tracker| tracker.is_empty()) == Some(true)));
    }
}
