//! Registers of P4 programs, by snapshots: a standby has what the active member's had a second ago or less.
//!
//! Packets write registers without a word, so who follows has to look: each second at all cells, some thousand at a time, and told are those that
//! have changed since. Registers are named by the user, since only he knows which of them are worth it.
//!
//! # Records
//!
//! Least significant octets first: a cell's index (4), its value in as many octets as its width needs, the most significant first.

use crate::bridges::Bridges;
use crate::controllers::p4::P4;
use crate::program::host::Host;
use ir::{Bits, RegisterId};
use replication::message::Part;
use std::collections::BTreeMap;
use switch::Switch;

/// Between the begins of two snapshots, at least.
const EVERY_NS: u64 = 1_000_000_000;
/// Cells that are looked at in one slice, a fraction of a millisecond, and octets of their records, at most.
const SLICE: u32 = 4096;
const OCTETS: u32 = 256 << 10;

/// A register of a bridge's program.
struct One {
    switch: Switch,
    id: RegisterId,
    width: u32,
    size: u32,
    /// The cells as they were told last: those that were not zero.
    told: BTreeMap<u32, Bits>,
}

impl One {
    fn octets(&self) -> usize {
        self.width.div_ceil(8) as usize
    }

    /// The end of the slice that begins here.
    fn slice(&self, from: u32) -> u32 {
        let cells = SLICE.min(OCTETS / (4 + self.width.div_ceil(8))).max(1);
        self.size.min(from.saturating_add(cells))
    }

    fn put(&self, out: &mut Vec<u8>, index: u32, value: &Bits) {
        let octets = value.to_be_bytes();
        let (wants, has) = (self.octets(), octets.len());
        out.extend(index.to_le_bytes());
        out.extend(std::iter::repeat_n(0, wants.saturating_sub(has)));
        out.extend(&octets[has.saturating_sub(wants)..]);
    }
}

/// Whether a register is one of these, or a part of one.
fn is_named(names: &[String], register: &str) -> bool {
    names.iter().any(|name| {
        let rest = register.strip_prefix(&**name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Those that are replicated.
pub(super) struct Registers {
    names: Vec<String>,
    all: BTreeMap<String, One>,
    /// The register and the cell that come next in the snapshot that is under way.
    next: Option<(String, u32)>,
    began_ns: u64,
}

fn tracker(name: &str) -> String {
    format!("registers:{name}")
}

impl Registers {
    /// Registers of these names: a program's, or those that it is made of if it has a struct in each cell.
    pub(super) fn new(names: Vec<String>) -> Registers {
        Registers { names, all: BTreeMap::new(), next: None, began_ns: 0 }
    }

    /// Those that are there now, by bridge and name.
    pub(super) fn look(&mut self, bridges: &Bridges) {
        if self.names.is_empty() {
            return;
        }
        let mut all = BTreeMap::new();
        for bridge in bridges.all() {
            let Some(p4) = bridge.controllers().find::<P4>() else { continue };
            // While somebody changes the program or its entries, it is looked at again in a second: heartbeats do not wait.
            let Some(host) = p4.host_if_free() else {
                let here = format!("{}/", bridge.name());
                let its = |name: &String, _: &mut One| name.starts_with(&here);
                all.extend(self.all.extract_if(.., its));
                continue;
            };
            for (name, one) in self.found(bridge.name(), &host) {
                all.insert(name, one);
            }
        }
        self.all = all;
    }

    /// Those of a bridge's program, with what was told of them.
    fn found(&mut self, bridge: &str, host: &Host) -> Vec<(String, One)> {
        let registers = &host.control().pipeline.program().registers;
        let named = (0..).zip(registers).filter(|(_, r)| is_named(&self.names, &r.name));
        let mut found = Vec::new();
        for (n, register) in named {
            let name = format!("{bridge}/{}", register.name);
            let (id, width, size) = (RegisterId(n), register.width, register.size);
            let same = |one: &One| (one.id, one.width, one.size) == (id, width, size);
            let told = self.all.remove(&name).filter(same).map(|one| one.told).unwrap_or_default();
            let switch = host.switch().clone();
            found.push((name, One { switch, id, width, size, told }));
        }
        found
    }

    /// Names that no program has.
    pub(super) fn missing(&self) -> Vec<String> {
        let has = |name: &String| {
            let registers = self.all.keys().filter_map(|known| known.split_once('/'));
            registers.into_iter().any(|(_, known)| is_named(std::slice::from_ref(name), known))
        };
        self.names.iter().filter(|name| !has(name)).cloned().collect()
    }

    /// All is new to whoever hears it from here on.
    pub(super) fn begin(&mut self) {
        self.all.values_mut().for_each(|one| one.told.clear());
        (self.next, self.began_ns) = (None, 0);
    }

    /// The first cell of all, for [`tell`](Self::tell).
    pub(super) fn first(&self) -> Option<(String, u32)> {
        self.all.keys().next().map(|name| (name.clone(), 0))
    }

    fn behind(&self, name: &str) -> Option<(String, u32)> {
        let range = (std::ops::Bound::Excluded(name.to_owned()), std::ops::Bound::Unbounded);
        self.all.range(range).next().map(|(name, _)| (name.clone(), 0))
    }

    /// The next slice of the snapshot, or of a new one if it is time: cells that have changed.
    pub(super) fn changes(&mut self, now_ns: u64) -> Option<Part> {
        if self.next.is_none() {
            if self.all.is_empty()
                || self.began_ns != 0 && now_ns.saturating_sub(self.began_ns) < EVERY_NS
            {
                return None;
            }
            (self.began_ns, self.next) = (now_ns.max(1), self.first());
        }
        let (name, from) = self.next.take()?;
        let after = self.behind(&name);
        let Some(one) = self.all.get_mut(&name) else {
            self.next = after;
            return None;
        };
        let to = one.slice(from);
        let mut records = Vec::new();
        for index in from..to {
            let Some(value) = one.switch.register(one.id, index) else { break };
            let before = one.told.get(&index);
            if before.map_or(value.is_zero(), |before| *before == value) {
                continue;
            }
            one.put(&mut records, index, &value);
            match value.is_zero() {
                true => drop(one.told.remove(&index)),
                false => drop(one.told.insert(index, value)),
            }
        }
        self.next = if to < one.size { Some((name.clone(), to)) } else { after };
        (!records.is_empty()).then(|| Part { tracker: tracker(&name), records })
    }

    /// All cells, a slice at a time: what it says, and what comes next.
    pub(super) fn tell(
        &self,
        (name, from): (String, u32),
    ) -> (Option<Part>, Option<(String, u32)>) {
        let Some(one) = self.all.get(&name) else { return (None, self.behind(&name)) };
        let to = one.slice(from);
        let mut records = Vec::new();
        for index in from..to {
            let Some(value) = one.switch.register(one.id, index) else { break };
            one.put(&mut records, index, &value);
        }
        let next = if to < one.size { Some((name.clone(), to)) } else { self.behind(&name) };
        ((!records.is_empty()).then(|| Part { tracker: tracker(&name), records }), next)
    }

    /// Takes cells that another member has told; none if the part is about no register, or about one that is not here.
    pub(super) fn apply(&self, part: &Part) -> Option<Result<u64, String>> {
        let one = self.all.get(part.tracker.strip_prefix("registers:")?)?;
        let mut cells = part.records.chunks_exact(4 + one.octets());
        let mut taken = 0;
        for cell in &mut cells {
            let (index, value) = cell.split_at(4);
            let index = index.first_chunk().map_or(0, |octets| u32::from_le_bytes(*octets));
            one.switch.set_register(one.id, index, &Bits::from_be_bytes(value, one.width));
            taken += 1;
        }
        Some(match cells.remainder() {
            [] => Ok(taken),
            _ => Err("a cell of a register is cut short".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridges::p4_bed::{host, text};

    const INGRESS: &str = "
    register<bit<72>>(5000) seen;
    register<bit<8>>(8) other;
    apply {
        bit<72> n;
        seen.read(n, (bit<32>)h.h.a);
        seen.write((bit<32>)h.h.a, n + 1);
        other.write(0, h.h.b);
        sm.egress_spec = 1;
    }";

    fn program() -> Host {
        host(&text(INGRESS))
    }

    fn registers(host: &Host, names: &[&str]) -> Registers {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let mut registers = Registers::new(names);
        registers.all = registers.found("br0", host).into_iter().collect();
        registers
    }

    /// Hands one snapshot over; how many cells were told.
    fn snapshot(from: &mut Registers, to: &Registers, now_ns: u64) -> u64 {
        let (mut told, mut rounds) = (0, 0);
        loop {
            if let Some(part) = from.changes(now_ns) {
                told += to.apply(&part).unwrap().unwrap();
            }
            rounds += 1;
            if from.next.is_none() {
                assert!(rounds < 10);
                return told;
            }
        }
    }

    #[test]
    fn cells_that_have_changed_are_told_each_second() {
        let (a, b) = (program(), program());
        let (mut here, mut there) = (registers(&a, &["I.seen"]), registers(&b, &["I.seen"]));
        assert!(here.missing().is_empty());
        assert_eq!(registers(&a, &["I.see", "I.other"]).missing(), ["I.see"]);
        let id = here.all["br0/I.seen"].id;
        let cell = |host: &Host, at| host.switch().register(id, at).unwrap();
        let wide = Bits::from_u128(0x12_3456_789a_bcde_f012, 72);
        for at in [0, 7, 4999] {
            a.switch().set_register(id, at, &wide);
        }
        assert_eq!(snapshot(&mut here, &there, 5), 3);
        assert_eq!(here.changes(6), None, "not before a second is over");
        let set = [0, 1, 7, 4999].map(|at| cell(&b, at) == wide);
        assert_eq!(set, [true, false, true, true]);
        // One changes, one is zero again.
        a.switch().set_register(id, 7, &Bits::zero(72));
        a.switch().set_register(id, 8, &wide);
        assert_eq!(snapshot(&mut here, &there, 2_000_000_000), 2);
        assert!(cell(&b, 7).is_zero() && cell(&b, 8) == wide);
        // One that joins with something of its own has all as the active member has it.
        let c = program();
        let joins = registers(&c, &["I.seen"]);
        c.switch().set_register(id, 9, &wide);
        let mut next = here.first();
        while let Some(at) = next {
            let (part, then) = here.tell(at);
            part.into_iter().for_each(|part| assert!(joins.apply(&part).unwrap().is_ok()));
            next = then;
        }
        assert!((0..5000).all(|at| cell(&c, at) == cell(&a, at)));
        let short = Part { tracker: "registers:br0/I.seen".to_owned(), records: vec![1; 14] };
        assert!(there.apply(&short).unwrap().is_err());
        let unknown = Part { tracker: "registers:br0/I.other".to_owned(), records: Vec::new() };
        assert!(there.apply(&unknown).is_none());
        there.begin();
        for host in [a, b, c] {
            host.switch().stop();
        }
    }
}
