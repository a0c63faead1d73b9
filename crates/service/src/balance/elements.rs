//! The balancers as elements: Maglev with affinity, and SoftFlow's eight buckets.

use super::backends::{Backends, Member};
use super::check::Check;
use super::flow::Flows;
use super::settings::set_backends;
use super::{Balancer, Buckets, Flow, Given, Memory, not_zero};
use crate::catalogue::Error;
use crate::element::{Element, Fate, Instance, Kept, Passing, Writes};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Load balancing by Maglev's table, with affinity.
///
/// Reads nothing of `sf_argument`. Writes into `sf_metadata` the backend's number ([`Backends`]), and 0 where no backend
/// takes flows; sets `coalesce`. Drops nothing: the tables decide. Which packets are one flow the module `flow` says. Counts flows
/// that were given a backend (`assigned`), packets that followed their flow (`kept`), flows whose backend went down
/// or is gone (`moved`), flows forgotten to make room (`forgotten`), packets with no backend (`nobody`), later
/// fragments that went by their addresses alone (`fragment_orphan`).
///
/// While it runs, [`Element::set`] takes `backends=` and `health=NAME:up|draining|down,...`.
#[derive(Debug, Clone)]
pub struct Spread {
    backends: Arc<Backends>,
    flows_max: usize,
    idle_timeout_s: u32,
    key: u64,
    check: Option<Check>,
}

impl Spread {
    /// Spreads over these backends; each instance remembers about `flows_max` flows, for so long after
    /// their last packet. `key` is that of flows' hash.
    pub fn new(backends: Arc<Backends>, flows_max: usize, idle_timeout_s: u32, key: u64) -> Spread {
        Spread { backends, flows_max, idle_timeout_s, key, check: None }
    }

    /// With backends that are checked.
    #[must_use]
    pub fn checked_by(self, check: Option<Check>) -> Spread {
        Spread { check, ..self }
    }

    /// The backends.
    pub fn backends(&self) -> &Arc<Backends> {
        &self.backends
    }

    /// How they are checked, if they are.
    pub fn check(&self) -> Option<&Check> {
        self.check.as_ref()
    }
}

struct Spreading {
    backends: Arc<Backends>,
    /// Of `backends`, as `balancer` knows it.
    changes: u64,
    balancer: Balancer,
    flows: Flows,
    key: u64,
}

impl Spreading {
    /// Takes the backends as they are now.
    #[inline]
    fn adopt(&mut self) {
        // Read before the state, so that a change between the two is seen next time.
        let changes = self.backends.changes.load(Ordering::Acquire);
        if changes != self.changes {
            let state = self.backends.read();
            self.balancer.adopt(&state.numbers, state.table.clone());
            self.changes = changes;
        }
    }

    /// The key of hashes, told so that it stays a secret.
    fn key_name(&self) -> u64 {
        crate::hash::fold(self.key ^ 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db)
    }
}

impl Element for Spread {
    fn name(&self) -> &'static str {
        "balancer"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, _now_ns: u64, _seed: u64) -> Box<dyn Instance> {
        let balancer = Balancer::new(self.flows_max, self.idle_timeout_s);
        let flows = Flows::new(self.key);
        let (backends, key) = (self.backends.clone(), self.key);
        Box::new(Spreading { backends, changes: 0, balancer, flows, key })
    }

    fn set(&self, settings: &[(String, String)]) -> Result<(), Error> {
        set_backends(&self.backends, self.check.is_some(), settings)
    }

    fn itself(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn current(&self) -> Vec<(String, String)> {
        let members: Vec<String> = self.backends.list().iter().map(Member::to_string).collect();
        let mut current = vec![("backends".to_string(), members.join(","))];
        let mut hosts: Vec<String> =
            self.backends.hosts().iter().map(|(name, host)| format!("{name}={host}")).collect();
        if !hosts.is_empty() {
            hosts.sort();
            current.push(("hosts".to_string(), hosts.join(",")));
        }
        current
    }
}

impl Instance for Spreading {
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]) {
        self.adopt();
        let now_s = seconds(now_ns);
        for passing in burst.iter_mut().filter(|passing| passing.fate == Fate::Continue) {
            let flow = self.flows.of(now_s, &passing.packet);
            let backend = self.balancer.pick_for(now_s, flow, &passing.packet);
            passing.metadata.register = backend.map_or(0, |backend| u64::from(backend.0) + 1);
            passing.metadata.coalesce = true;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = self.balancer.counters();
        vec![
            ("assigned", c.assigned),
            ("kept", c.kept),
            ("moved", c.moved),
            ("forgotten", c.forgotten),
            ("nobody", c.nobody),
            ("fragment_orphan", self.flows.orphans()),
        ]
    }

    fn page(
        &self,
        now_ns: u64,
        from: usize,
        steps: usize,
        see: &mut dyn FnMut(Kept),
    ) -> Option<usize> {
        self.balancer.page(seconds(now_ns), from, steps.div_ceil(super::WAYS), see)
    }

    fn given(&mut self) -> Vec<Given> {
        self.adopt();
        self.balancer.given()
    }

    fn tell_flows(
        &mut self,
        now_ns: u64,
        from: usize,
        places: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        self.adopt();
        let sets = places.div_ceil(super::WAYS);
        self.balancer.tell(seconds(now_ns), self.key_name(), from, sets, out)
    }

    fn told_flows(&mut self, now_ns: u64, records: &[u8]) -> Result<usize, String> {
        self.adopt();
        let key = self.key_name();
        self.balancer.told(seconds(now_ns), key, records).map_err(str::to_owned)
    }

    fn export(&mut self, now_ns: u64, _taken_at: u64) -> Option<Vec<u8>> {
        self.adopt();
        Some(self.balancer.export(seconds(now_ns), self.key_name()))
    }

    fn import(&mut self, now_ns: u64, image: Vec<u8>) -> Result<usize, String> {
        self.adopt();
        let key = self.key_name();
        self.balancer.import(seconds(now_ns), key, &image).map_err(str::to_owned)
    }
}

/// SoftFlow's balancer (§4.2): a new flow goes to the one of eight buckets that was given the fewest octets
/// of late, and stays there while it is remembered.
///
/// Reads nothing of `sf_argument`. Writes into `sf_metadata` the bucket, 0 to 7, and clears `coalesce`: the
/// tables take the packet the full way. Drops nothing. Counts flows assigned (`assigned`), packets that
/// followed their flow (`kept`), flows forgotten to make room (`forgotten`), octets by bucket, and later fragments that
/// went by their addresses alone (`fragment_orphan`).
#[derive(Debug, Clone)]
pub struct Eight {
    /// The time in which half of a bucket's load is forgotten.
    pub half_life_ns: u64,
    /// Flows remembered by an instance, about.
    pub flows_max: usize,
    /// For so long after their last packet.
    pub idle_timeout_s: u32,
}

struct EightInstance {
    buckets: Buckets,
    memory: Memory,
    flows: Flows,
    assigned: u64,
    kept: u64,
    forgotten: u64,
    octets: [u64; 8],
}

impl Element for Eight {
    fn name(&self) -> &'static str {
        "balancer8"
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn instance(&self, _worker: usize, now_ns: u64, seed: u64) -> Box<dyn Instance> {
        Box::new(EightInstance {
            buckets: Buckets::new(now_ns, self.half_life_ns),
            memory: Memory::new(self.flows_max, self.idle_timeout_s),
            flows: Flows::new(seed),
            assigned: 0,
            kept: 0,
            forgotten: 0,
            octets: [0; 8],
        })
    }
}

impl Instance for EightInstance {
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]) {
        let now_s = seconds(now_ns);
        for passing in burst.iter_mut().filter(|passing| passing.fate == Fate::Continue) {
            let (now, hash) = not_zero(now_s, self.flows.of(now_s, &passing.packet));
            let bucket = if let Some(flow) = self.memory.find(now, hash) {
                flow.seen = now;
                self.kept += 1;
                usize::from(flow.place)
            } else {
                let bucket = self.buckets.least();
                let flow = Flow { hash, seen: now, place: bucket as u16, holder: 0 };
                self.forgotten += u64::from(self.memory.insert(flow).0);
                self.assigned += 1;
                bucket
            };
            let octets = passing.packet.frame.len() as u64;
            self.buckets.add(now_ns, bucket, octets);
            self.octets[bucket % 8] += octets;
            passing.metadata.register = bucket as u64;
            passing.metadata.coalesce = false;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        const NAMES: [&str; 8] = [
            "octets_0", "octets_1", "octets_2", "octets_3", "octets_4", "octets_5", "octets_6",
            "octets_7",
        ];
        let first =
            [("assigned", self.assigned), ("kept", self.kept), ("forgotten", self.forgotten)];
        let orphans = [("fragment_orphan", self.flows.orphans())];
        let octets = NAMES.into_iter().zip(self.octets);
        first.into_iter().chain(octets).chain(orphans).collect()
    }
}

/// Seconds of a clock in nanoseconds.
fn seconds(now_ns: u64) -> u32 {
    u32::try_from(now_ns / 1_000_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::{Clash, Health, NUMBERS_MAX};
    use super::*;
    use crate::craft::Frame;
    use crate::packet::Packet;
    use std::net::IpAddr;
    use wire::tcp::Flags;

    fn flow(n: u16, len: usize) -> Vec<u8> {
        let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        Frame::tcp((a, n), (b, 80), Flags::ACK, (1, 1), len).bytes()
    }

    fn call(instance: &mut dyn Instance, now_s: u64, frames: &mut [Vec<u8>]) -> Vec<(u64, bool)> {
        let mut burst: Vec<_> = frames.iter_mut().map(|f| Passing::new(Packet::of(f))).collect();
        instance.ingress(now_s * 1_000_000_000, &mut burst);
        burst.iter().map(|p| (p.metadata.register, p.metadata.coalesce)).collect()
    }

    fn members(names: &[&str]) -> Vec<Member> {
        let up = |name: &&str| Member {
            name: name.to_string(),
            weight: 1,
            health: Health::Up,
            number: None,
        };
        names.iter().map(up).collect()
    }

    #[test]
    fn workers_agree_and_flows_outlive_a_drain() {
        let backends = Arc::new(Backends::new(members(&["a", "b", "c"])).unwrap());
        let element = Spread::new(backends.clone(), 10_000, 60, 0);
        let mut workers = [element.instance(0, 0, 1), element.instance(1, 0, 2)];
        let mut frames: Vec<_> = (0..300).map(|n| flow(n, 5)).collect();
        let first = call(&mut *workers[0], 0, &mut frames);
        assert_eq!(call(&mut *workers[1], 0, &mut frames), first);
        for n in 1..=3 {
            assert!(first.iter().filter(|(to, _)| *to == n).count() > 70, "{first:?}");
        }
        assert!(backends.set_health("b", Health::Draining));
        assert!(!backends.set_health("d", Health::Draining));
        assert_eq!(call(&mut *workers[0], 1, &mut frames), first, "those it has stay");
        let mut others: Vec<_> = (300..600).map(|n| flow(n, 5)).collect();
        let new = call(&mut *workers[0], 1, &mut others);
        assert!(new.iter().all(|(to, coalesce)| (*to == 1 || *to == 3) && *coalesce), "{new:?}");
        assert!(backends.set_health("b", Health::Down));
        let moved = call(&mut *workers[0], 2, &mut frames);
        for ((was, _), (is, _)) in first.iter().zip(&moved) {
            assert!(if *was == 2 { *is != 2 } else { was == is });
        }
        backends.set(members(&[])).unwrap();
        assert_eq!(call(&mut *workers[0], 3, &mut frames[..1]), [(0, true)]);
        assert!(workers[0].counters().contains(&("nobody", 1)), "{:?}", workers[0].counters());
    }

    #[test]
    fn without_memory_the_table_alone_decides() {
        let backends = Arc::new(Backends::new(members(&["a", "b"])).unwrap());
        let mut instance = Spread::new(backends, 0, 60, 0).instance(0, 0, 1);
        let mut frames: Vec<_> = (0..50).map(|n| flow(n, 5)).collect();
        let first = call(&mut *instance, 0, &mut frames);
        assert_eq!(call(&mut *instance, 0, &mut frames), first);
        assert!(instance.counters().contains(&("kept", 0)));
    }

    /// To which names frames go.
    fn names(backends: &Backends, to: &[(u64, bool)]) -> Vec<String> {
        let list = backends.list();
        let name = |(to, _): &(u64, bool)| {
            let of = list.iter().find(|m| m.number.map(u64::from) == Some(*to));
            of.map_or("nobody".to_string(), |m| m.name.clone())
        };
        to.iter().map(name).collect()
    }

    #[test]
    fn only_flows_of_a_backend_that_is_gone_move_and_numbers_stay() {
        for remembered in [10_000, 0] {
            let all = ["b1", "b2", "b3", "b4", "b5"];
            let backends = Arc::new(Backends::new(members(&all)).unwrap());
            let mut worker = Spread::new(backends.clone(), remembered, 60, 7).instance(0, 0, 1);
            let mut frames: Vec<_> = (0..500).map(|n| flow(n, 5)).collect();
            let first = call(&mut *worker, 0, &mut frames);
            let was = names(&backends, &first);
            // Whatever their order in the new list is.
            backends.set(members(&["b5", "b1", "b4", "b2"])).unwrap();
            let second = call(&mut *worker, 1, &mut frames);
            let is = names(&backends, &second);
            let mut spread = std::collections::BTreeSet::new();
            for n in 0..500 {
                if was[n] == "b3" {
                    assert_ne!(second[n].0, 3);
                    spread.insert(second[n].0);
                } else if remembered != 0 {
                    assert_eq!((first[n], &was[n]), (second[n], &is[n]));
                }
            }
            let moved = (0..500).filter(|n| was[*n] != "b3" && was[*n] != is[*n]).count();
            assert!(moved < 50, "without a memory, few move: {moved}");
            assert_eq!(spread.into_iter().collect::<Vec<_>>(), [1, 2, 4, 5]);
            // The number of who is gone goes to nobody; who comes back has it again.
            backends.set(members(&["b6", "b1", "b2", "b4", "b5"])).unwrap();
            let list: Vec<_> = backends.list().iter().map(Member::to_string).collect();
            assert_eq!(list, ["b6@6:1", "b1@1:1", "b2@2:1", "b4@4:1", "b5@5:1"]);
            backends.set(members(&all)).unwrap();
            let third = names(&backends, &call(&mut *worker, 2, &mut frames));
            assert!(third.iter().zip(&was).filter(|(a, b)| a == b).count() > 400);
        }
    }

    #[test]
    fn numbers_may_be_said_and_clash_with_none() {
        let said =
            |name: &str, number| Member { number: Some(number), ..members(&[name]).remove(0) };
        let list = |backends: &Backends| {
            backends.list().iter().map(Member::to_string).collect::<Vec<_>>().join(",")
        };
        let named = |name: &str| members(&[name]).remove(0);
        let backends = Backends::new(vec![named("a"), said("b", 1), named("c")]).unwrap();
        assert_eq!(list(&backends), "a@2:1,b@1:1,c@3:1");
        let clash = |number, of: &str| Err(Clash { number, of: of.to_string() });
        assert_eq!(backends.set(vec![said("x", 2), named("a")]), clash(2, "x"));
        assert_eq!(backends.set(vec![said("x", 9), said("y", 9)]), clash(9, "x"));
        assert_eq!(list(&backends), "a@2:1,b@1:1,c@3:1", "nothing has changed");
        // A number is taken over from who is gone, by who says it.
        backends.set(vec![named("b"), said("d", 2), said("e", NUMBERS_MAX)]).unwrap();
        assert_eq!(list(&backends), "b@1:1,d@2:1,e@65534:1");
        backends.set(vec![named("a"), named("b"), named("c")]).unwrap();
        assert_eq!(list(&backends), "a@4:1,b@1:1,c@3:1", "2 was d's last");
    }

    #[test]
    fn when_all_numbers_were_given_those_of_the_gone_serve_again() {
        let backends = Backends::new(members(&["stays"])).unwrap();
        backends.set(members(&["gone", "stays"])).unwrap();
        backends.state.write().unwrap().fresh = NUMBERS_MAX;
        let number = |name: &str| {
            backends.set(members(&["stays", name])).unwrap();
            backends.list()[1].number.unwrap()
        };
        assert_eq!(number("new"), NUMBERS_MAX, "the last that nobody had");
        assert_eq!(number("gone"), 2, "it comes back");
        assert_eq!(number("newer"), 2, "the smallest that is free");
        assert_eq!(number("gone"), 2, "newer is gone by now");
    }

    #[test]
    fn a_number_that_goes_to_another_takes_no_flows_along() {
        let backends = Arc::new(Backends::new(members(&["a", "b"])).unwrap());
        let mut worker = Spread::new(backends.clone(), 10_000, 60, 7).instance(0, 0, 1);
        let mut frames: Vec<_> = (0..300).map(|n| flow(n, 5)).collect();
        let first = call(&mut *worker, 0, &mut frames);
        let c = Member { number: Some(2), ..members(&["c"]).remove(0) };
        backends.set(vec![members(&["a"]).remove(0), c, members(&["d"]).remove(0)]).unwrap();
        let second = call(&mut *worker, 1, &mut frames);
        let of_b = || first.iter().zip(&second).filter(|((was, _), _)| *was == 2);
        let to_c = of_b().filter(|(_, (is, _))| *is == 2).count();
        assert!(of_b().count() > 100 && to_c * 3 < of_b().count() * 2, "{to_c}");
        assert!(first.iter().zip(&second).all(|((was, _), (is, _))| *was != 1 || *is == 1));
    }

    #[test]
    fn eight_buckets_are_filled_evenly_and_flows_stay() {
        let element = Eight { half_life_ns: u64::MAX, flows_max: 1000, idle_timeout_s: 10 };
        let mut instance = element.instance(0, 0, 5);
        let mut frames: Vec<_> = (0..8).map(|n| flow(n, 50)).collect();
        let first = call(&mut *instance, 0, &mut frames);
        assert_eq!(first, (0..8).map(|n| (n, false)).collect::<Vec<_>>());
        let mut heavy = vec![flow(0, 1400)];
        assert_eq!(call(&mut *instance, 0, &mut heavy), [(0, false)], "it stays");
        let mut others: Vec<_> = (8..15).map(|n| flow(n, 50)).collect();
        let next = call(&mut *instance, 0, &mut others);
        assert_eq!(next, (1..8).map(|n| (n, false)).collect::<Vec<_>>());
        assert!(call(&mut *instance, 20, &mut heavy)[0].0 != 0, "after a pause it is a new flow");
        let counters = instance.counters();
        assert_eq!(counters[..3], [("assigned", 16), ("kept", 1), ("forgotten", 0)]);
    }
}
