//! Bonds with the ports that are there, and what NORMAL is told of them.

use super::config::Bond;
use bond::bond::{Admits, Sends as Leaves};
use bond::lacp::LinkConfig;
use bond::{MemberConfig, SLOTS, Transmit};
use of_pipeline::vlans::bonds::{Admission, BONDS_MAX, BondConfig, BondHash, Member, Sends};
use std::collections::BTreeMap;

const _: () = assert!(SLOTS == of_pipeline::vlans::bonds::SLOTS);

/// A bond that runs.
#[derive(Clone)]
pub(super) struct Running {
    /// Its place among the bridge's bonds, as long as it is there.
    pub(super) place: u32,
    /// Members by name.
    pub(super) ports: BTreeMap<String, u32>,
    pub(super) bond: bond::Bond,
    /// When its slots were counted last.
    pub(super) counted_ms: u64,
}

/// The bonds of a bridge.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) all: Vec<Running>,
    /// What NORMAL was told last.
    pub(super) told: Vec<BondConfig>,
    /// Frames of LACP that the thread is to send.
    pub(super) frames: Vec<Transmit>,
}

impl Running {
    /// What NORMAL is told.
    pub(super) fn config(&self) -> BondConfig {
        use bond::{LacpMode, Mode};
        let settings = self.bond.settings();
        let unmoved = Admission::Unmoved;
        let member = |how: Admits| match how {
            Admits::None => Member { unicast: Admission::None, multicast: Admission::None },
            Admits::All => Member { unicast: Admission::All, multicast: Admission::All },
            Admits::Unmoved { multicast: true } => Member { unicast: unmoved, multicast: unmoved },
            Admits::Unmoved { .. } => Member { unicast: unmoved, multicast: Admission::None },
        };
        let basis = settings.basis;
        BondConfig {
            place: self.place,
            members: self.bond.admits().into_iter().map(|(p, how)| (p, member(how))).collect(),
            lacp: settings.lacp != LacpMode::Off,
            by_source: settings.mode == Mode::BalanceSlb,
            sends: match self.bond.sends() {
                Leaves::One(port) => Sends::One(port),
                Leaves::Source(slots) => Sends::Slots(BondHash::Source { basis }, slots),
                Leaves::Layers(slots) => Sends::Slots(BondHash::Layers { basis }, slots),
            },
        }
    }
}

impl Bond {
    /// What NORMAL is told at this place while the links of all its ports are up, by their numbers.
    pub fn settled(&self, place: u32, number: impl Fn(&str) -> Option<u32>) -> BondConfig {
        let mut state = State::default();
        let port = |name: &String| Some((name.clone(), (number(name)?, [0; 6])));
        let ports = self.members.iter().filter_map(port).collect();
        state.follow(std::slice::from_ref(self), &ports, [2, 0, 0, 0, 0, 1], 0);
        let one = &mut state.all[0];
        self.members.iter().for_each(|name| one.bond.set_carrier(name, true, 0));
        let _ = one.bond.run(0);
        BondConfig { place, ..one.config() }
    }
}

impl State {
    /// Bonds become those that are wanted, of ports that are there: name, number and address.
    pub(super) fn follow(
        &mut self,
        wanted: &[Bond],
        ports: &BTreeMap<String, (u32, [u8; 6])>,
        system: [u8; 6],
        now_ms: u64,
    ) {
        self.all.retain(|one| wanted.iter().any(|bond| bond.name == one.bond.name));
        for want in wanted {
            let at = match self.all.iter().position(|one| one.bond.name == want.name) {
                Some(at) => {
                    self.all[at].bond.configure(want.settings.clone(), system, now_ms);
                    at
                }
                None => {
                    let taken = |place: &u32| self.all.iter().any(|one| one.place == *place);
                    let place = (0..BONDS_MAX as u32).find(|place| !taken(place)).unwrap_or(0);
                    let bond = bond::Bond::new(&want.name, want.settings.clone(), system, now_ms);
                    let ports = BTreeMap::new();
                    self.all.push(Running { place, ports, bond, counted_ms: now_ms });
                    self.all.len() - 1
                }
            };
            let one = &mut self.all[at];
            let there = want.members.iter().filter_map(|name| Some((name, ports.get(name)?)));
            let member = |(name, (port, mac)): (&String, &(u32, [u8; 6]))| {
                let mut link = want
                    .links
                    .get(name)
                    .copied()
                    .unwrap_or(LinkConfig { priority: 65535, ..LinkConfig::default() });
                if link.port == 0 {
                    link.port = *port as u16;
                }
                (name.clone(), MemberConfig { port: *port, mac: *mac, link })
            };
            let members: BTreeMap<String, MemberConfig> = there.map(member).collect();
            one.ports = members.iter().map(|(name, m)| (name.clone(), m.port)).collect();
            one.bond.set_members(members, now_ms);
        }
    }

    /// What NORMAL is to be told.
    pub(super) fn wanted(&self) -> Vec<BondConfig> {
        self.all.iter().filter(|one| !one.ports.is_empty()).map(Running::config).collect()
    }
}
