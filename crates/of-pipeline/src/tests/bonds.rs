//! Bonds under NORMAL: random bonds and frames, by both engines, against Open vSwitch's rules told again in a few lines;
//! what changes without new code; frames of LACP.

use super::bed::*;
use crate::vlans::bonds::{Admission, BondConfig, BondHash, Member, SLOTS, Sends, slot_of_source};
use crate::vlans::{MirrorConfig, MirrorTarget, NormalConfig, NormalRefusal};
use ir::DropReason;
use of_lower::normal::config::PortVlans;
use openflow::{FlowMod, Match, PortNo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use switch::EngineKind;

const PORTS: u32 = 7;

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

    /// A bond of these ports in some state, reachable or not.
    fn bond(&mut self, place: u32, ports: &[u32]) -> BondConfig {
        let by_source = self.below(2) == 0;
        let how = |r: &mut Random| match by_source {
            true => r.one(&[Admission::Unmoved, Admission::Unmoved, Admission::None]),
            false => r.one(&[Admission::All, Admission::None]),
        };
        let member = |r: &mut Random| Member { unicast: how(r), multicast: how(r) };
        let members = ports.iter().map(|port| (*port, member(self))).collect();
        let any = |r: &mut Random| (r.below(8) > 0).then(|| r.one(ports));
        let sends = match by_source {
            false => Sends::One(any(self)),
            true => {
                let hash = BondHash::Source { basis: self.below(3) as u32 };
                let mut slots = [None; SLOTS];
                slots.iter_mut().for_each(|slot| *slot = any(self));
                Sends::Slots(hash, Arc::new(slots))
            }
        };
        BondConfig { place, members, lacp: false, by_source, sends }
    }

    fn frame(&mut self) -> Frame {
        let station = |n: u64| [2, 0, 0, 0, 0, n as u8];
        Frame {
            dst: match self.below(4) {
                0 => self.one(&[[0xff; 6], [1, 0, 0x5e, 1, 2, 3], [1, 0x80, 0xc2, 0, 0, 2]]),
                _ => station(self.below(6)),
            },
            src: station(self.below(6)),
            vlan: self.one(&[None, None, Some(10), Some(20)]),
            arp: self.below(5) == 0,
        }
    }
}

#[derive(Clone, Debug)]
struct Frame {
    dst: [u8; 6],
    src: [u8; 6],
    vlan: Option<u16>,
    /// An ARP reply.
    arp: bool,
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.dst, self.src].concat();
        if let Some(vlan) = self.vlan {
            bytes.extend([0x81, 0]);
            bytes.extend(vlan.to_be_bytes());
        }
        if self.arp {
            bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
            bytes.extend(self.src);
            bytes.extend([10, 0, 0, 1]);
            bytes.extend(self.dst);
            bytes.extend([10, 0, 0, 1]);
        } else {
            bytes.extend([0x88, 0xb5]);
        }
        bytes.resize(80, 7);
        bytes
    }

    fn vid(&self) -> u16 {
        self.vlan.unwrap_or(0)
    }

    fn is_gratuitous(&self) -> bool {
        self.arp && self.dst == [0xff; 6]
    }
}

fn number(mac: [u8; 6]) -> u64 {
    mac.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Open vSwitch's `xlate_normal`, `bond_check_admissibility` and `choose_output_member`.
fn normal(
    config: &NormalConfig,
    in_port: u32,
    frame: &Frame,
    station: impl Fn([u8; 6]) -> Option<u32>,
) -> BTreeSet<u32> {
    let bundle = |port: u32| config.bond_of(port).map_or(port, BondConfig::bundle);
    let multicast = frame.dst[0] & 1 == 1;
    if frame.dst[..5] == [1, 0x80, 0xc2, 0, 0] {
        return BTreeSet::new();
    }
    if let Some(bond) = config.bond_of(in_port) {
        let member = bond.members[&in_port];
        match if multicast { member.multicast } else { member.unicast } {
            Admission::None => return BTreeSet::new(),
            Admission::All => {}
            Admission::Unmoved => {
                let moved = station(frame.src).is_some_and(|at| bundle(at) != bond.bundle());
                if moved && !frame.is_gratuitous() {
                    return BTreeSet::new();
                }
            }
        }
    }
    let known = station(frame.dst).filter(|_| !multicast);
    let to: BTreeSet<u32> = match known {
        Some(port) => [bundle(port)].into(),
        None => (1..=PORTS).map(bundle).collect(),
    };
    let out = |to: u32| match config.bond(to) {
        None => Some(to),
        Some(bond) => match &bond.sends {
            Sends::One(member) => *member,
            Sends::Slots(BondHash::Source { basis }, slots) => {
                slots[slot_of_source(frame.src, frame.vid(), *basis, SLOTS)]
            }
            Sends::Slots(BondHash::Layers { .. }, _) => unreachable!("not in this test"),
        },
    };
    to.into_iter().filter(|to| *to != bundle(in_port)).filter_map(out).collect()
}

fn engines() -> [EngineKind; 2] {
    [EngineKind::Interp, EngineKind::default()]
}

fn with_normal(engine: EngineKind) -> Bed {
    let mut bed = Bed::by(engine, program(), PORTS as usize);
    bed.ok(add(Match::new(), apply([output(PortNo::NORMAL.0)])));
    bed
}

fn out(bed: &Bed, bytes: &[u8]) -> BTreeSet<u32> {
    let mut out = BTreeSet::new();
    for port in 1..=PORTS {
        while let Some(got) = bed.taken(port as usize) {
            assert_eq!(got, bytes);
            assert!(out.insert(port), "two copies by port {port}");
        }
    }
    out
}

#[test]
fn bonds_do_what_the_model_says() {
    for engine in engines() {
        let mut random = Random(7);
        let mut bed = with_normal(engine.clone());
        for round in 0..25 {
            let mut bonds = vec![random.bond(0, &[3, 4])];
            if random.below(3) > 0 {
                bonds.push(random.bond(5, &[5, 6, 7]));
            }
            let config = NormalConfig { bonds, ..NormalConfig::default() };
            bed.agent.set_normal_config(config.clone()).unwrap();
            for _ in 0..40 {
                let (port, frame) = (1 + random.below(PORTS.into()) as u32, random.frame());
                let stations = bed.agent.stations();
                let station = |mac| stations.port(frame.vid(), number(mac));
                let wanted = normal(&config, port, &frame, station);
                bed.send(port as usize, &frame.bytes());
                let got = out(&bed, &frame.bytes());
                assert_eq!(got, wanted, "{engine:?}, {round}: {frame:?} by {port}: {config:#?}");
                bed.agent.poll();
            }
        }
        bed.agent.set_normal_config(NormalConfig::default()).unwrap();
        let frame = Frame { dst: [0xff; 6], src: [2, 0, 0, 0, 0, 9], vlan: Some(3), arp: false };
        bed.send(3, &frame.bytes());
        assert_eq!(out(&bed, &frame.bytes()), [1, 2, 4, 5, 6, 7].into());
    }
}

fn members(ports: &[u32], how: Admission) -> BTreeMap<u32, Member> {
    ports.iter().map(|port| (*port, Member { unicast: how, multicast: how })).collect()
}

fn active(port: Option<u32>) -> BondConfig {
    BondConfig {
        place: 0,
        members: members(&[3, 4], Admission::All),
        lacp: false,
        by_source: false,
        sends: Sends::One(port),
    }
}

fn only(bond: BondConfig) -> NormalConfig {
    NormalConfig { bonds: vec![bond], ..NormalConfig::default() }
}

fn unicast(src: u8, dst: u8) -> Frame {
    Frame { dst: [2, 0, 0, 0, 0, dst], src: [2, 0, 0, 0, 0, src], vlan: None, arp: false }
}

#[test]
fn stations_are_learnt_at_the_bond_and_stay_when_a_member_fails() {
    for engine in engines() {
        let mut bed = with_normal(engine);
        bed.agent.set_normal_config(only(active(Some(3)))).unwrap();
        bed.send(3, &unicast(9, 1).bytes());
        assert_eq!(out(&bed, &unicast(9, 1).bytes()), [1, 2, 5, 6, 7].into(), "not its own bond");
        bed.until("a station is learnt", |bed| {
            bed.agent.stations().port(0, 0x0200_0000_0009) == Some(3)
        });
        for (sends, leaves) in [(Some(3), vec![3]), (Some(4), vec![4]), (None, vec![])] {
            bed.agent.set_normal_config(only(active(sends))).unwrap();
            bed.send(1, &unicast(1, 9).bytes());
            assert_eq!(out(&bed, &unicast(1, 9).bytes()), leaves.into_iter().collect());
            assert!(!bed.agent.stations().is_empty());
            bed.agent.poll();
        }
        assert_eq!(bed.drops(DropReason::BondDown), 1);
        // From the other member it is the same place, so it goes nowhere.
        bed.send(4, &unicast(8, 9).bytes());
        assert_eq!(out(&bed, &unicast(8, 9).bytes()), BTreeSet::new());
        assert_eq!(bed.drops(DropReason::OutputToIngress), 1);
    }
}

#[test]
fn what_members_do_is_data() {
    let mut bed = with_normal(EngineKind::default());
    bed.agent.set_normal_config(only(active(Some(3)))).unwrap();
    let program = |bed: &Bed| bed.agent.switch().with_pipeline(|p| p.program().clone());
    let before = program(&bed);
    let mut slots = [Some(3); SLOTS];
    slots[..100].fill(Some(4));
    let sends = Sends::Slots(BondHash::Layers { basis: 1 }, Arc::new(slots));
    let all = members(&[3, 4, 5], Admission::All);
    for bond in [
        active(Some(4)),
        active(None),
        BondConfig { sends, ..active(None) },
        BondConfig { members: all, ..active(Some(3)) },
    ] {
        bed.agent.set_normal_config(only(bond)).unwrap();
        assert!(Arc::ptr_eq(&before, &program(&bed)), "the program is another one");
    }
    let lacp = BondConfig { lacp: true, ..active(Some(3)) };
    bed.agent.set_normal_config(only(lacp)).unwrap();
    assert!(!Arc::ptr_eq(&before, &program(&bed)));
}

/// A frame of TCP from one station to another.
fn tcp(ports: (u16, u16), back: bool) -> Vec<u8> {
    let both = |a: u8, b: u8| if back { (b, a) } else { (a, b) };
    let ((s, d), (sp, dp)) = (both(1, 9), if back { (ports.1, ports.0) } else { ports });
    let mut bytes = [[2, 0, 0, 0, 0, d], [2, 0, 0, 0, 0, s]].concat();
    bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, s, 10, 0, 0, d]);
    bytes.extend(sp.to_be_bytes());
    bytes.extend(dp.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
    bytes
}

#[test]
fn balance_tcp_deals_connections_and_both_engines_alike() {
    let mut answers = Vec::new();
    for engine in engines() {
        let mut bed = with_normal(engine);
        let slots: Vec<Option<u32>> = (0..SLOTS).map(|at| Some(3 + at as u32 % 2)).collect();
        let slots: Arc<[Option<u32>; SLOTS]> = Arc::new(slots.try_into().unwrap());
        let sends = Sends::Slots(BondHash::Layers { basis: 0 }, slots);
        let config = only(BondConfig { sends, ..active(None) });
        bed.agent.set_normal_config(config).unwrap();
        let mut answer = Vec::new();
        for n in 0..64 {
            let member = |bed: &mut Bed, frame: Vec<u8>| {
                bed.send(1, &frame);
                let out = out(bed, &frame);
                let used: Vec<u32> = out.into_iter().filter(|port| [3, 4].contains(port)).collect();
                assert_eq!(used.len(), 1, "one member");
                used[0]
            };
            let there = member(&mut bed, tcp((1000 + n, 80), false));
            assert_eq!(member(&mut bed, tcp((1000 + n, 80), true)), there, "both ways alike");
            answer.push(there);
        }
        let third = answer.iter().filter(|port| **port == 3).count();
        assert!((16..=48).contains(&third), "{third} of 64 by port 3");
        let sent: u64 = bed.agent.bond_slot_bytes(0).unwrap().iter().sum();
        assert_eq!(sent, 128 * 54, "slots count what they send");
        answers.push(answer);
    }
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn a_station_that_said_where_it_is_stays_there_whatever_comes_back() {
    for engine in engines() {
        let mut bed = with_normal(engine);
        let slots = Arc::new([Some(3); SLOTS]);
        let slb = BondConfig {
            members: members(&[3, 4], Admission::Unmoved),
            by_source: true,
            sends: Sends::Slots(BondHash::Source { basis: 0 }, slots),
            ..active(None)
        };
        bed.agent.set_normal_config(only(slb)).unwrap();
        let at = |bed: &Bed| bed.agent.stations().port(0, 0x0200_0000_0001);
        bed.send(1, &unicast(1, 9).bytes());
        bed.until("a station is learnt", |bed| at(bed) == Some(1));
        out(&bed, &unicast(1, 9).bytes());
        // What the bond sent comes back by its other member.
        bed.send(4, &unicast(1, 9).bytes());
        assert_eq!(out(&bed, &unicast(1, 9).bytes()), BTreeSet::new());
        assert_eq!(bed.drops(DropReason::BondReflected), 1);
        // A station that moved says so, and is believed.
        let arp = Frame { dst: [0xff; 6], arp: true, ..unicast(1, 0) };
        bed.send(4, &arp.bytes());
        bed.until("the station has moved", |bed| at(bed) == Some(3));
        // It comes back and says so; what the bond sends of that is not believed when it comes back.
        bed.send(1, &arp.bytes());
        bed.until("the station is back", |bed| at(bed) == Some(1));
        bed.send(4, &arp.bytes());
        let locked = |bed: &Bed| {
            let tallies = bed.agent.switch().tallies();
            tallies.iter().any(|(name, n)| *name == "stations_locked" && *n == 1)
        };
        bed.until("what came back is not believed", locked);
        assert_eq!(at(&bed), Some(1));
    }
}

/// Frames that were handed over, with the port that each came in by.
type Seen = Arc<Mutex<Vec<(u32, Vec<u8>)>>>;

#[test]
fn frames_of_lacp_are_for_the_switch_itself() {
    for engine in engines() {
        let mut bed = with_normal(engine);
        let seen: Seen = Arc::default();
        let taken = seen.clone();
        bed.agent.set_protocol_frames(Box::new(move |port, bytes| {
            taken.lock().unwrap().push((port, bytes.to_vec()));
        }));
        let lacp = BondConfig { lacp: true, ..active(Some(3)) };
        bed.agent.set_normal_config(only(lacp)).unwrap();
        let before_normal =
            |port| FlowMod { priority: 0xffff, ..add(from_port(port), apply([output(1)])) };
        bed.ok(before_normal(4));
        let mut frame = Frame { dst: [1, 0x80, 0xc2, 0, 0, 2], ..unicast(1, 0) }.bytes();
        frame[12..14].copy_from_slice(&[0x88, 0x09]);
        // Whatever entries say of the port.
        bed.send(4, &frame);
        bed.until("the frame is taken", |_| !seen.lock().unwrap().is_empty());
        assert_eq!(*seen.lock().unwrap(), [(4, frame.clone())]);
        assert_eq!(out(&bed, &frame), BTreeSet::new());
        // A port that speaks no LACP is as any other.
        bed.ok(before_normal(2));
        bed.send(2, &frame);
        assert_eq!(out(&bed, &frame), [1].into());
    }
}

#[test]
fn members_have_vlans_and_mirrors_see_a_bond_once() {
    for engine in engines() {
        let mut bed = with_normal(engine);
        let ports = |ports: &[u32]| Some(ports.iter().copied().collect());
        let mirror = MirrorConfig {
            sources: ports(&[]),
            destinations: ports(&[3, 4]),
            vlans: None,
            to: MirrorTarget::Port(7),
            length_max: None,
        };
        let access = [(1, 10), (3, 10), (4, 10), (2, 20)];
        let config = NormalConfig {
            ports: access.map(|(port, vlan)| (port, PortVlans::access(vlan))).into(),
            mirrors: vec![mirror],
            ..only(active(Some(4)))
        };
        bed.agent.set_normal_config(config).unwrap();
        let all = Frame { dst: [0xff; 6], ..unicast(1, 0) };
        bed.send(1, &all.bytes());
        let mut tagged = all.bytes();
        tagged.splice(12..12, [0x81, 0, 0, 10]);
        assert_eq!(bed.taken(4), Some(all.bytes()), "without its tag");
        assert_eq!(bed.taken(5), Some(tagged.clone()), "a trunk");
        assert_eq!(bed.taken(7), Some(tagged), "the mirror, once");
        [2, 3, 4, 7].iter().for_each(|port| bed.silent(*port));
        bed.taken(6);
        // From the bond nothing goes to it, so the mirror sees nothing.
        bed.send(3, &all.bytes());
        assert_eq!(bed.taken(1), Some(all.bytes()));
        [3, 4, 7].iter().for_each(|port| bed.silent(*port));
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut bed = with_normal(EngineKind::default());
    let mut refused = |bonds: Vec<BondConfig>| {
        let config = NormalConfig { bonds, ..NormalConfig::default() };
        bed.agent.set_normal_config(config).unwrap_err()
    };
    let other = BondConfig { place: 1, ..active(None) };
    assert_eq!(refused(vec![active(None), other]), NormalRefusal::TwoBonds(3));
    assert_eq!(refused(vec![active(None); 2]), NormalRefusal::BondPlace(0));
    assert_eq!(refused(vec![active(None); 65]).to_string(), "65 bonds: a bridge has at most 64");
}

/// All slots have a member, or, now and then, none has: as whoever runs the bond assigns them.
fn assign(random: &mut Random, bond: &mut BondConfig) {
    let ports: Vec<u32> = bond.members.keys().copied().collect();
    if let Sends::Slots(_, slots) = &mut bond.sends {
        let up = random.below(4) > 0;
        let one = |_| up.then(|| random.one(&ports));
        *slots = Arc::new(std::array::from_fn(one));
    }
}

/// Flooded VLANs, mirrors of both directions and bonds in one bridge: where each frame goes, and one copy of those that a
/// mirror chooses.
#[test]
fn bonds_flooded_vlans_and_mirrors_do_together_what_the_model_says() {
    // Each round is compiled, which takes longer than all else.
    for (engine, rounds) in engines().into_iter().zip([25, 8]) {
        let mut random = Random(11);
        let mut bed = with_normal(engine.clone());
        let any = |r: &mut Random| match r.below(3) {
            0 => None,
            // Whole bonds, as the database chooses them.
            _ => {
                let bundles = [&[1][..], &[2], &[3, 4], &[5, 6]];
                let some = bundles.into_iter().filter(|_| r.below(2) == 0);
                Some(some.flatten().copied().collect::<BTreeSet<u32>>())
            }
        };
        for round in 0..rounds {
            let mirror = MirrorConfig {
                sources: any(&mut random),
                destinations: any(&mut random),
                vlans: None,
                to: MirrorTarget::Port(PORTS),
                length_max: None,
            };
            let mut bonds = vec![random.bond(0, &[3, 4]), random.bond(5, &[5, 6])];
            bonds.iter_mut().for_each(|bond| assign(&mut random, bond));
            let config = NormalConfig {
                bonds,
                flood_vlans: random.one(&[vec![], vec![10], vec![0, 20]]).into_iter().collect(),
                mirrors: vec![mirror.clone()],
                ..NormalConfig::default()
            };
            bed.agent.set_normal_config(config.clone()).unwrap();
            for _ in 0..40 {
                let (port, frame) = (1 + random.below(u64::from(PORTS) - 1) as u32, random.frame());
                let stations = bed.agent.stations();
                let floods = config.flood_vlans.contains(frame.vid());
                let station = |mac| stations.port(frame.vid(), number(mac)).filter(|_| !floods);
                let mut wanted = normal(&config, port, &frame, station);
                wanted.remove(&PORTS);
                // A bond is chosen if all its members are.
                let bundle = |port: u32| config.bond_of(port);
                let chosen = |ports: &Option<BTreeSet<u32>>, port: u32| {
                    ports.as_ref().is_none_or(|ports| match bundle(port) {
                        Some(bond) => bond.members.keys().all(|member| ports.contains(member)),
                        None => ports.contains(&port),
                    })
                };
                let leaves = wanted.iter().any(|to| chosen(&mirror.destinations, *to));
                if chosen(&mirror.sources, port) || leaves {
                    wanted.insert(PORTS);
                }
                bed.send(port as usize, &frame.bytes());
                let got = out(&bed, &frame.bytes());
                assert_eq!(got, wanted, "{engine:?}, {round}: {frame:?} by {port}: {config:#?}");
                bed.agent.poll();
            }
        }
    }
}

#[test]
fn a_station_that_stays_at_a_bond_stays_when_the_way_of_balancing_changes() {
    let mut bed = with_normal(EngineKind::default());
    bed.agent.set_normal_config(only(active(Some(3)))).unwrap();
    bed.agent.add_station(0, 0x0200_0000_0009, 4).unwrap();
    bed.agent.add_station(0, 0x0200_0000_0008, 1).unwrap();
    let slb = BondConfig {
        members: members(&[3, 4], Admission::Unmoved),
        by_source: true,
        sends: Sends::Slots(BondHash::Source { basis: 0 }, Arc::new([Some(4); SLOTS])),
        ..active(None)
    };
    bed.agent.set_normal_config(only(slb)).unwrap();
    assert_eq!(bed.agent.stations().len(), 2);
    bed.send(2, &unicast(2, 9).bytes());
    assert_eq!(out(&bed, &unicast(2, 9).bytes()), [4].into());
    // What comes back by the bond of a station that is elsewhere was sent by the bond.
    bed.send(3, &unicast(8, 2).bytes());
    assert_eq!(out(&bed, &unicast(8, 2).bytes()), BTreeSet::new());
    assert_eq!(bed.drops(DropReason::BondReflected), 1);
}
