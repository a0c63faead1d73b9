//! VLANs of ports and mirrors: random configurations and frames, by both engines, against the model; and what a
//! controller's entries do beside them.

mod answers;
mod limit;
mod model;

use super::bed::*;
use crate::vlans::{MirrorConfig, MirrorTarget, NormalConfig, NormalRefusal, StationConfig};
use ir::DropReason;
use model::{Tag, Tagged, normal};
use of_lower::normal::config::{PortVlans, PriorityTags, TagType, VlanMode, VlanSet};
use openflow::Match;
use std::collections::{BTreeMap, BTreeSet};
use switch::EngineKind;

const PORTS: u32 = 6;

/// A generator that gives the same numbers every time (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    fn vlan(&mut self) -> u16 {
        self.one(&[0, 10, 10, 20, 30, 4095])
    }

    fn set(&mut self) -> Option<VlanSet> {
        (self.below(2) == 0).then(|| (0..self.below(4) + 1).map(|_| self.vlan()).collect())
    }

    fn port(&mut self) -> PortVlans {
        let vlan = self.vlan();
        let tag_type = self.one(&[TagType::Customer, TagType::Service]);
        PortVlans {
            mode: match self.below(6) {
                0 => VlanMode::Trunk,
                1 | 2 => VlanMode::Access(vlan),
                3 => VlanMode::NativeTagged(vlan),
                4 => VlanMode::NativeUntagged(vlan),
                _ => VlanMode::Tunnel { vlan, tag_type },
            },
            vlans: self.set(),
            priority_tags: self.one(&WAYS),
        }
    }

    fn ports(&mut self) -> Option<BTreeSet<u32>> {
        let some = |r: &mut Random| (0..r.below(3)).map(|_| 1 + r.below(6) as u32).collect();
        (self.below(3) > 0).then(|| some(self))
    }

    fn config(&mut self, mirrors: u64) -> NormalConfig {
        let mut ports = BTreeMap::new();
        for port in 1..=PORTS {
            if self.below(4) > 0 {
                ports.insert(port, self.port());
            }
        }
        let mirror = |r: &mut Random| MirrorConfig {
            sources: r.ports(),
            destinations: r.ports(),
            vlans: r.set(),
            to: match r.below(3) {
                0 => MirrorTarget::Vlan(r.one(&[20, 30, 99])),
                _ => MirrorTarget::Port(5 + r.below(2) as u32),
            },
            length_max: None,
        };
        let mirrors = (0..self.below(mirrors + 1)).map(|_| mirror(self)).collect();
        let protected = match self.below(3) {
            0 => (0..1 + self.below(3)).map(|_| 1 + self.below(PORTS.into()) as u32).collect(),
            _ => BTreeSet::new(),
        };
        let flood_vlans = match self.below(3) {
            0 => (0..1 + self.below(2)).map(|_| self.vlan()).collect(),
            _ => VlanSet::default(),
        };
        NormalConfig {
            vlan_limit: self.one(&[Some(1), Some(2), Some(3), None]),
            ports,
            mirrors,
            protected,
            flood_vlans,
            forwards_bpdu: self.below(4) == 0,
            ..NormalConfig::default()
        }
    }

    fn frame(&mut self) -> Tagged {
        let station = |n: u64| [2, 0, 0, 0, 0, n as u8];
        let group = [[0xff; 6], [1, 0, 0x5e, 1, 2, 3], [1, 0x80, 0xc2, 0, 0, 2]];
        let tag =
            |r: &mut Random| -> Tag { (r.one(&[0x8100, 0x88a8]), r.vlan(), r.one(&[0, 0, 5])) };
        let tags = (0..self.one(&[0, 0, 1, 1, 1, 2, 2])).map(|_| tag(self)).collect();
        Tagged {
            dst: match self.below(4) {
                0 => self.one(&group),
                _ => station(self.below(6)),
            },
            src: station(self.below(6)),
            tags,
        }
    }
}

const WAYS: [PriorityTags; 3] =
    [PriorityTags::Never, PriorityTags::IfNonZero, PriorityTags::Always];

fn engines() -> [EngineKind; 2] {
    [EngineKind::Interp, EngineKind::default()]
}

fn with_normal(engine: EngineKind) -> Bed {
    let mut bed = Bed::by(engine, program(), PORTS as usize);
    bed.ok(add(Match::new(), apply([output(openflow::PortNo::NORMAL.0)])));
    bed
}

/// Everything that came out of all ports, in no order: of copies to several places none is before another.
fn all_taken(bed: &Bed) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let mut out: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    for port in 1..=PORTS {
        while let Some(bytes) = bed.taken(port as usize) {
            out.entry(port).or_default().push(bytes);
        }
    }
    out.values_mut().for_each(|frames| frames.sort());
    out
}

fn expected(frames: BTreeMap<u32, Vec<Tagged>>) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let bytes = |frames: Vec<Tagged>| {
        let mut all: Vec<Vec<u8>> = frames.iter().map(Tagged::bytes).collect();
        all.sort();
        all
    };
    frames.into_iter().map(|(port, frames)| (port, bytes(frames))).collect()
}

fn by_the_model(seed: u64, rounds: u64, mirrors: u64) {
    // Each round is compiled, which takes longer than all else.
    for (engine, rounds) in engines().into_iter().zip([rounds, rounds / 3]) {
        let mut random = Random(seed);
        let mut bed = with_normal(engine.clone());
        for round in 0..rounds {
            let config = random.config(mirrors);
            bed.agent.set_normal_config(config.clone()).unwrap();
            for _ in 0..30 {
                let (port, frame) = (1 + random.below(PORTS.into()) as u32, random.frame());
                let mac = frame.dst.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
                let stations = bed.agent.stations();
                let wanted = normal(&config, PORTS, port, &frame, |vlan| stations.port(vlan, mac));
                bed.send(port as usize, &frame.bytes());
                let got = all_taken(&bed);
                assert_eq!(
                    got,
                    expected(wanted),
                    "{engine:?}, round {round}: {frame:?} by port {port} with {config:#?}"
                );
                bed.agent.poll();
            }
        }
        // And back to a switch without any.
        bed.agent.set_normal_config(NormalConfig::default()).unwrap();
        let frame = Tagged { dst: [0xff; 6], src: [2, 0, 0, 0, 0, 1], tags: vec![(0x8100, 7, 0)] };
        bed.send(1, &frame.bytes());
        assert_eq!(all_taken(&bed).into_keys().collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
    }
}

#[test]
fn ports_with_vlans_do_what_the_model_says() {
    by_the_model(1, 30, 0);
}

#[test]
fn mirrors_do_what_the_model_says() {
    by_the_model(2, 30, 3);
}

fn access_and_trunk() -> NormalConfig {
    let ports =
        [(1, PortVlans::access(10)), (2, PortVlans::access(10)), (3, PortVlans::access(20))];
    NormalConfig { ports: ports.into_iter().collect(), ..NormalConfig::default() }
}

fn frame(tags: &[Tag]) -> Tagged {
    Tagged { dst: [2, 0, 0, 0, 0, 9], src: [2, 0, 0, 0, 0, 1], tags: tags.to_vec() }
}

#[test]
fn entries_are_not_asked_for_the_vlans_of_ports() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), PORTS as usize);
        bed.agent.set_normal_config(access_and_trunk()).unwrap();
        bed.ok(add(from_port(1), apply([output(3), output(openflow::PortNo::FLOOD.0)])));
        bed.ok(add(from_port(2), apply([output(openflow::PortNo::NORMAL.0), output(3)])));
        let tagged = frame(&[(0x8100, 30, 0)]);
        bed.send(1, &tagged.bytes());
        let (one, bytes) = (vec![tagged.bytes()], tagged.bytes());
        let flooded = [(2, one.clone()), (3, vec![bytes.clone(), bytes]), (4, one.clone())];
        let flooded = flooded.into_iter().chain([(5, one.clone()), (6, one)]);
        assert_eq!(all_taken(&bed), flooded.collect());
        // What NORMAL does to a copy's tags is not seen behind it.
        let plain = frame(&[]);
        bed.send(2, &plain.bytes());
        let out = all_taken(&bed);
        assert_eq!((&out[&3], &out[&1]), (&vec![plain.bytes()], &vec![plain.bytes()]));
        assert_eq!(out[&4], [frame(&[(0x8100, 10, 0)]).bytes()]);
    }
}

#[test]
fn a_packet_of_another_vlan_is_dropped_under_a_reason() {
    let mut bed = with_normal(EngineKind::default());
    bed.agent.set_normal_config(access_and_trunk()).unwrap();
    bed.send(1, &frame(&[(0x8100, 10, 0)]).bytes());
    assert_eq!(bed.drops(DropReason::VlanNotAllowed), 1);
    let to = MirrorTarget::Port(6);
    let all =
        MirrorConfig { sources: None, destinations: None, vlans: None, to, length_max: Some(64) };
    let config = NormalConfig { mirrors: vec![all], ..access_and_trunk() };
    bed.agent.set_normal_config(config).unwrap();
    bed.send(6, &frame(&[]).bytes());
    assert_eq!(bed.drops(DropReason::MirrorPort), 1);
    bed.send(1, &frame(&[]).bytes());
    assert_eq!(bed.taken(6).unwrap(), frame(&[(0x8100, 10, 0)]).bytes()[..64]);
    assert_eq!(bed.agent.mirror_counts(0), Some((1, frame(&[]).bytes().len() as u64)));
}

#[test]
fn stations_are_learnt_in_their_vlan_and_forgotten_with_it() {
    let mut bed = with_normal(EngineKind::default());
    bed.agent.set_normal_config(access_and_trunk()).unwrap();
    bed.send(1, &frame(&[]).bytes());
    bed.until("a station is learnt", |bed| {
        bed.agent.stations().port(10, 0x0200_0000_0001) == Some(1)
    });
    let mut config = access_and_trunk();
    config.ports.insert(1, PortVlans::access(20));
    bed.agent.set_normal_config(config).unwrap();
    assert!(bed.agent.stations().is_empty());
}

#[test]
fn outputs_of_entries_are_mirrored_once() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), PORTS as usize);
        let ports = |ports: &[u32]| Some(ports.iter().copied().collect());
        let mirror = MirrorConfig {
            sources: ports(&[]),
            destinations: ports(&[2, 3]),
            vlans: None,
            to: MirrorTarget::Port(6),
            length_max: None,
        };
        let config = NormalConfig { mirrors: vec![mirror], ..NormalConfig::default() };
        bed.agent.set_normal_config(config).unwrap();
        let flood = output(openflow::PortNo::FLOOD.0);
        bed.ok(add(from_port(1), apply([flood.clone(), output(2), output(3)])));
        bed.ok(add(from_port(2), apply([output(4)])));
        bed.ok(add(from_port(3), apply([flood])));
        bed.send(1, &frame(&[]).bytes());
        // A flood's own copy for the port, and the mirror's.
        assert_eq!(all_taken(&bed)[&6].len(), 2);
        bed.send(2, &frame(&[]).bytes());
        assert!(!all_taken(&bed).contains_key(&6));
        bed.send(3, &frame(&[]).bytes());
        assert_eq!(all_taken(&bed)[&6].len(), 2);
        assert_eq!(bed.agent.mirror_counts(0).unwrap().0, 2);
    }
}

#[test]
fn nothing_that_is_sent_between_protected_ports_arrives() {
    for engine in engines() {
        let mut bed = Bed::by(engine, program(), PORTS as usize);
        let config =
            NormalConfig { protected: [1, 2].into_iter().collect(), ..NormalConfig::default() };
        bed.agent.set_normal_config(config).unwrap();
        bed.ok(add(from_port(1), apply([output(2), output(3)])));
        bed.ok(add(from_port(2), apply([output(openflow::PortNo::ALL.0)])));
        bed.ok(add(from_port(3), apply([output(2), output(1)])));
        let ports = |bed: &mut Bed, from: usize| {
            bed.send(from, &frame(&[]).bytes());
            all_taken(bed).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(ports(&mut bed, 1), [3]);
        assert_eq!(ports(&mut bed, 2), [3, 4, 5, 6]);
        assert_eq!(ports(&mut bed, 3), [1, 2]);
        // As in Open vSwitch it is not even sent back.
        bed.ok(add(from_port(1), apply([output(openflow::PortNo::IN_PORT.0)])));
        assert!(ports(&mut bed, 1).is_empty());
        bed.ok(add(from_port(1), apply([output(2)])));
        assert!(ports(&mut bed, 1).is_empty());
        assert_eq!(bed.drops(DropReason::ProtectedPort), 2);
        bed.agent.set_normal_config(NormalConfig::default()).unwrap();
        assert_eq!(ports(&mut bed, 1), [2]);
    }
}

#[test]
fn nothing_is_learnt_in_vlans_that_are_flooded() {
    for engine in engines() {
        let mut bed = with_normal(engine);
        let config =
            NormalConfig { flood_vlans: [10].into_iter().collect(), ..NormalConfig::default() };
        bed.agent.set_normal_config(config).unwrap();
        bed.send(1, &frame(&[(0x8100, 10, 0)]).bytes());
        bed.send(1, &frame(&[(0x8100, 20, 0)]).bytes());
        // What came later is known, and what came before is not.
        bed.until("a station is learnt", |bed| {
            bed.agent.stations().port(20, 0x0200_0000_0001) == Some(1)
        });
        assert_eq!(bed.agent.stations().len(), 1);
        assert_eq!(all_taken(&bed).values().map(Vec::len).sum::<usize>(), 10);
    }
}

#[test]
fn room_for_stations_and_their_age_can_be_set() {
    let mut bed = with_normal(EngineKind::default());
    let learn = |bed: &mut Bed, n: u8| {
        let from = Tagged { src: [2, 0, 0, 0, 1, n], ..frame(&[]) };
        bed.send(1, &from.bytes());
        all_taken(bed);
        bed.until("a station is learnt", move |bed| {
            bed.agent.stations().port(0, 0x0200_0000_0100 + u64::from(n)) == Some(1)
        });
    };
    (0..5).for_each(|n| learn(&mut bed, n));
    let stations = |max: u32, age_s: u16| StationConfig { max: Some(max), age_s };
    let with = |stations| NormalConfig { stations, ..NormalConfig::default() };
    bed.agent.set_normal_config(with(stations(3, 300))).unwrap();
    let known = |bed: &Bed| {
        let mut all: Vec<u64> = bed.agent.stations().iter().map(|(_, mac, _)| mac & 0xff).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(known(&bed), [2, 3, 4], "those heard of longest ago give way");
    learn(&mut bed, 9);
    assert_eq!(known(&bed).len(), 3);
    // Those who are known already are forgotten after the new time, too.
    bed.agent.set_normal_config(with(stations(3, 1))).unwrap();
    bed.until("all are forgotten", |bed| bed.agent.stations().is_empty());
    let refused = |stations| bed.agent.set_normal_config(with(stations)).unwrap_err().to_string();
    let mut refused = refused;
    assert_eq!(refused(stations(17, 300)), "17 stations: at least 1, and at most 16");
    assert!(refused(stations(1, 0)).contains("0 seconds"));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut bed = with_normal(EngineKind::default());
    let config = NormalConfig {
        ports: [(1, PortVlans::access(5000))].into_iter().collect(),
        ..NormalConfig::default()
    };
    assert_eq!(bed.agent.set_normal_config(config), Err(NormalRefusal::Vlan(5000)));
    let to = MirrorTarget::Port(6);
    let one = MirrorConfig { sources: None, destinations: None, vlans: None, to, length_max: None };
    let config = NormalConfig { mirrors: vec![one; 33], ..NormalConfig::default() };
    let refusal = bed.agent.set_normal_config(config).unwrap_err();
    assert_eq!(refusal.to_string(), "33 mirrors: a bridge has at most 32");
    assert!(bed.agent.normal_config().is_empty());
}
