//! What another process must know of a balancer to go on for it: who takes flows, and flows that go elsewhere than the table has them.
//!
//! Members of a group have the same table for the same backends, so a flow that follows the table needs no word. Others remember a
//! backend that the table has given up since, as one that drains: those are told, whenever the table has changed.
//!
//! # Records
//!
//! Least significant octets first. Of flows ([`Balancer::tell`]): 1 and the key's own hash (8), before the others of a slice; or 2 and a flow,
//! its hash (8), seconds without a packet (4), its backend's number (2) and name as a number (8), addresses (40). A flow is told whole, so the
//! same again does no harm.
//!
//! Of backends ([`Backends::tell`]): the name (2 + n); 0 if people have it up, 1 draining, 2 down; milliseconds that are left of its drain, or
//! all ones (8); 0, or 1 and what checks have found: whether it lives (1), since how many milliseconds (8), answers and those that were not good (8
//! each), nanoseconds of the last good one or all ones (8), why the last other one was not (2 + n).
//!
//! Checked by: the tests below, `fuzz::follow_balancer`.

use super::backends::{Backends, Status};
use super::check::Found;
use super::{Balancer, Flow, Health, WAYS};
use std::collections::HashMap;

mod kind {
    pub(super) const KEY: u8 = 1;
    pub(super) const FLOW: u8 = 2;
}

/// Octets of records of backends in one piece, about, at most.
const PIECE: usize = 64 << 10;
/// There is none.
const NONE: u64 = u64::MAX;

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], &'static str> {
    let (front, rest) = bytes.split_first_chunk().ok_or("it is cut short")?;
    *bytes = rest;
    Ok(*front)
}

fn word(bytes: &mut &[u8]) -> Result<u64, &'static str> {
    take(bytes).map(u64::from_le_bytes)
}

fn text(bytes: &mut &[u8]) -> Result<String, &'static str> {
    let len = u16::from_le_bytes(take(bytes)?);
    let (text, rest) = bytes.split_at_checked(len.into()).ok_or("a name is cut short")?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).map_err(|_| "a name is no text")
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut len = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    out.extend((len as u16).to_le_bytes());
    out.extend(&text.as_bytes()[..len]);
}

impl Balancer {
    /// Tells flows that go elsewhere than the table has them, of so many sets from this one on; the set to go on from.
    pub(super) fn tell(
        &self,
        now_s: u32,
        key: u64,
        from: usize,
        sets: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let (now, begin) = (now_s.saturating_add(1), out.len());
        let all = &self.memory.sets;
        let end = all.len().min(from.saturating_add(sets.max(1)));
        for (set, flows) in all.iter().enumerate().take(end).skip(from) {
            for (way, flow) in flows.iter().enumerate() {
                let idle = now.saturating_sub(flow.seen);
                if flow.hash == 0 || idle > self.memory.idle_timeout_s || !self.is_its(flow) {
                    continue;
                }
                if self.table.backend(flow.hash).is_some_and(|backend| backend.0 == flow.place) {
                    continue;
                }
                if out.len() == begin {
                    out.push(kind::KEY);
                    out.extend(key.to_le_bytes());
                }
                out.push(kind::FLOW);
                out.extend(flow.hash.to_le_bytes());
                out.extend(idle.to_le_bytes());
                out.extend((flow.place + 1).to_le_bytes());
                out.extend(self.backends[usize::from(flow.place)].name.to_le_bytes());
                self.ends[set * WAYS + way].iter().for_each(|n| out.extend(n.to_le_bytes()));
            }
        }
        (end < all.len()).then_some(end)
    }

    /// Goes on with flows that another process has told, as long as its key is this one's: how many.
    ///
    /// # Errors
    /// If they are none; those before are taken.
    pub(super) fn told(
        &mut self,
        now_s: u32,
        key: u64,
        mut records: &[u8],
    ) -> Result<usize, &'static str> {
        let now = now_s.saturating_add(1);
        let (bytes, mut same, mut taken) = (&mut records, false, 0);
        while let Some((of, rest)) = bytes.split_first() {
            *bytes = rest;
            match *of {
                kind::KEY => same = word(bytes)? == key,
                kind::FLOW => {
                    let (hash, idle) = (word(bytes)?, u32::from_le_bytes(take(bytes)?));
                    let (number, name) = (u16::from_le_bytes(take(bytes)?), word(bytes)?);
                    let mut ends = [0; 5];
                    for end in &mut ends {
                        *end = word(bytes)?;
                    }
                    let place = number.wrapping_sub(1);
                    let known = self.backends.get(usize::from(place));
                    let Some(known) = known.filter(|known| known.name == name) else { continue };
                    if !same || hash == 0 || name == 0 {
                        continue;
                    }
                    let holder = known.holder;
                    let seen = now.saturating_sub(idle).max(1);
                    let flow = Flow { hash, seen, place, holder };
                    match self.memory.find(now, hash) {
                        Some(before) => *before = flow,
                        None => {
                            let (_, at) = self.memory.insert(flow);
                            if let Some(to) = at.and_then(|at| self.ends.get_mut(at)) {
                                *to = ends;
                            }
                        }
                    }
                    taken += 1;
                }
                _ => return Err("a record of no kind"),
            }
        }
        Ok(taken)
    }
}

/// A backend, as another process has it.
pub(super) struct Told {
    pub(super) health: Health,
    pub(super) drain_until_ns: Option<u64>,
    pub(super) found: Option<Found>,
}

impl Backends {
    /// What people and checks say of the backends, in pieces.
    pub fn tell(&self, now_ns: u64) -> Vec<Vec<u8>> {
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        for Status { member, found, drain_until_ns, .. } in self.status() {
            if pieces.last().is_none_or(|piece| piece.len() >= PIECE) {
                pieces.push(Vec::new());
            }
            let Some(out) = pieces.last_mut() else { continue };
            let ms = |ns: u64| (ns / 1_000_000).to_le_bytes();
            put_text(out, &member.name);
            out.push(match member.health {
                Health::Up => 0,
                Health::Draining => 1,
                Health::Down => 2,
            });
            match drain_until_ns {
                Some(until) => out.extend(ms(until.saturating_sub(now_ns))),
                None => out.extend(NONE.to_le_bytes()),
            }
            out.push(found.is_some().into());
            if let Some(found) = found {
                out.push(found.alive.into());
                out.extend(ms(now_ns.saturating_sub(found.since_ns)));
                out.extend(found.checks.to_le_bytes());
                out.extend(found.failures.to_le_bytes());
                out.extend(found.latency_ns.unwrap_or(NONE).to_le_bytes());
                put_text(out, found.error.as_deref().unwrap_or_default());
            }
        }
        pieces
    }

    /// Has backends as another process has told them: those that there are here. Checks that this process makes go on from there.
    ///
    /// # Errors
    /// If the octets are none; then nothing has changed.
    pub fn told_by_other(&self, now_ns: u64, mut piece: &[u8]) -> Result<(), &'static str> {
        let bytes = &mut piece;
        let mut all = HashMap::new();
        while !bytes.is_empty() {
            let name = text(bytes)?;
            let [set] = take(bytes)?;
            let health = match set {
                0 => Health::Up,
                1 => Health::Draining,
                2 => Health::Down,
                _ => return Err("a state of no kind"),
            };
            let ns = |ms: u64| ms.saturating_mul(1_000_000);
            let drain = word(bytes)?;
            let drain_until_ns = (drain != NONE).then(|| now_ns.saturating_add(ns(drain)));
            let found = match take(bytes)? {
                [0] => None,
                [1] => {
                    let [alive] = take(bytes)?;
                    let since_ns = now_ns.saturating_sub(ns(word(bytes)?));
                    let (checks, failures, latency) = (word(bytes)?, word(bytes)?, word(bytes)?);
                    let error = Some(text(bytes)?).filter(|error| !error.is_empty());
                    let latency_ns = (latency != NONE).then_some(latency);
                    let counts = (checks, failures);
                    Some(Found::known((alive != 0, since_ns), counts, (latency_ns, error), now_ns))
                }
                _ => return Err("what was found is of no kind"),
            };
            all.insert(name, Told { health, drain_until_ns, found });
        }
        self.adopt_told(&all);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::backends::Member;
    use super::super::check::tests::check;
    use super::*;

    fn members(names: &[&str]) -> Vec<Member> {
        let up = |name: &&str| Member {
            name: (*name).to_owned(),
            weight: 1,
            health: Health::Up,
            number: None,
        };
        names.iter().map(up).collect()
    }

    fn balancer(backends: &Backends) -> Balancer {
        let mut balancer = Balancer::new(4000, 60);
        adopt(&mut balancer, backends);
        balancer
    }

    fn adopt(balancer: &mut Balancer, backends: &Backends) {
        let state = backends.read();
        balancer.adopt(&state.numbers, state.table.clone());
    }

    fn picks(balancer: &mut Balancer, now_s: u32, flows: std::ops::Range<u64>) -> Vec<u16> {
        let hash = |n: u64| crate::hash::fold(n, 0x9e37_79b9_7f4a_7c15);
        flows.map(|n| balancer.pick(now_s, hash(n)).unwrap().0).collect()
    }

    fn told(from: &Balancer, now_s: u32, sets: usize) -> Vec<u8> {
        let (mut out, mut next) = (Vec::new(), Some(0));
        while let Some(at) = next {
            next = from.tell(now_s, 7, at, sets, &mut out);
        }
        out
    }

    #[test]
    fn flows_that_stay_where_the_table_has_them_no_more_stay_there_elsewhere_too() {
        let there = Backends::new(members(&["a", "b", "c"])).unwrap();
        let here = Backends::new(members(&["a", "b", "c"])).unwrap();
        let (mut active, mut copy) = (balancer(&there), balancer(&here));
        let before = picks(&mut active, 100, 0..600);
        assert!(told(&active, 100, 9).is_empty(), "the table says the same elsewhere");
        // One drains: its flows stay, and new ones go to the others.
        there.drain("b", Some(90_000_000_000)).unwrap();
        adopt(&mut active, &there);
        let records = told(&active, 110, 50);
        let of_b = before.iter().filter(|place| **place == 1).count();
        assert!(of_b > 100 && records.len() >= 9 + 63 * of_b);
        for piece in there.tell(30_000_000_000) {
            here.told_by_other(5_000_000_000, &piece).unwrap();
        }
        let status = here.status();
        assert_eq!(
            (status[1].takes, status[1].drain_until_ns),
            (Health::Draining, Some(65_000_000_000))
        );
        adopt(&mut copy, &here);
        // Twice, in another order, and by another clock.
        for _ in 0..2 {
            assert_eq!(copy.told(3, 7, &records), Ok(of_b));
        }
        assert_eq!(copy.told(3, 8, &records), Ok(0), "another key finds none of them");
        assert_eq!(picks(&mut copy, 4, 0..600), before);
        assert_eq!(picks(&mut copy, 4, 600..900), picks(&mut active, 111, 600..900));
        // It is back, and another is down: flows of both kinds.
        there.set_health("b", Health::Up);
        there.set_health("c", Health::Down);
        adopt(&mut active, &there);
        let after = picks(&mut active, 112, 0..900);
        for piece in there.tell(0) {
            here.told_by_other(0, &piece).unwrap();
        }
        adopt(&mut copy, &here);
        copy.told(5, 7, &told(&active, 112, 1000)).unwrap();
        assert_eq!(picks(&mut copy, 6, 0..900), after);
        for cut in 1..63 {
            assert!(copy.told(5, 7, &records[..9 + cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_checks_have_found_goes_over() {
        let [there, here] =
            [(); 2].map(|()| Backends::new(members(&["10.0.0.1", "10.0.0.2"])).unwrap());
        let check = check(2, 2);
        assert_eq!(there.due(&check, 0).len(), 2);
        there.told("10.0.0.1", &check, 1_000_000, Err("refused".to_owned()));
        there.told("10.0.0.2", &check, 1_000_000, Ok(5));
        for piece in there.tell(11_000_000) {
            here.told_by_other(100_000_000, &piece).unwrap();
            for cut in 1..piece.len() {
                let other = Backends::new(members(&["10.0.0.1"])).unwrap();
                // What ends between two backends says less, and is no error.
                let _ = other.told_by_other(0, &piece[..cut]);
            }
        }
        let status = here.status();
        let takes: Vec<Health> = status.iter().map(|status| status.takes).collect();
        assert_eq!(takes, [Health::Down, Health::Up]);
        let found = status[0].found.as_ref().unwrap();
        assert_eq!((found.since_ns, found.error.as_deref()), (90_000_000, Some("refused")));
        let changes = here.changes();
        for piece in there.tell(12_000_000) {
            here.told_by_other(101_000_000, &piece).unwrap();
        }
        assert_eq!(here.changes(), changes, "nothing new makes no new table");
    }

    #[test]
    fn random_records_do_no_harm() {
        let mut random = crate::random::Random(7);
        let backends = Backends::new(members(&["a", "b"])).unwrap();
        let good = backends.tell(0).concat();
        for n in 0..3000 {
            let mut data = if n % 2 == 0 { good.clone() } else { vec![kind::FLOW; n % 200] };
            for _ in 0..n % 7 {
                let at = (random.next() % data.len().max(1) as u64) as usize;
                if let Some(octet) = data.get_mut(at) {
                    *octet = random.next() as u8;
                }
            }
            crate::fuzz::follow_balancer(&data);
        }
    }
}
