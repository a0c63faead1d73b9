//! Members enabled and disabled, the active one, and slots (behaviour: Open vSwitch's `ofproto/bond.c`).
//!
//! A member may be used while it has a carrier and, with LACP, its partner agrees. It is enabled once that was so for the
//! up delay, and disabled once it was not for the down delay; with a partner that speaks LACP there are no delays. The
//! active member is the primary one or else the one that was, as long as it is enabled.
//!
//! | LACP | a member lets in | packets leave |
//! |---|---|---|
//! | negotiated | all, if it is enabled | as the mode says |
//! | configured, with fallback | as active-backup | by the active member |
//! | configured | nothing | by none |
//! | off, active-backup | all, if it is the active one | by the active member |
//! | off, balance-slb | to many only if it is the active one; what is not known elsewhere | by source |
//! | off, balance-tcp | nothing | by none |
//!
//! One member alone is a port as any other, whatever its partner says.
//!
//! Holds true: a slot's member is enabled, or none is.

use crate::SLOTS;
use crate::lacp::{LinkConfig, LinkStatus, Machine};
use crate::settings::{Lacp, Mode, Settings};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A member as it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberConfig {
    /// The port's number.
    pub port: u32,
    /// Its address.
    pub mac: [u8; 6],
    /// What LACP says of it.
    pub link: LinkConfig,
}

/// A member.
#[derive(Clone, Debug)]
pub struct Member {
    /// As it was told.
    pub config: MemberConfig,
    /// Its link is up.
    pub carrier: bool,
    /// Packets may go by it.
    pub enabled: bool,
    /// When it is enabled, or disabled, if its link stays as it is.
    pub changes_ms: Option<u64>,
}

/// A slot of the hash.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// Who has it, if somebody has.
    pub member: Option<String>,
    /// Bytes that it has sent lately.
    pub bytes: u64,
    /// What its counter said last.
    pub seen: u64,
}

/// What packets leave by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sends {
    /// One port, or none.
    One(Option<u32>),
    /// By slots of a hash of the source.
    Source(Arc<[Option<u32>; SLOTS]>),
    /// By slots of a hash of layers 2 to 4.
    Layers(Arc<[Option<u32>; SLOTS]>),
}

/// What a member lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admits {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// What does not come from a station that is elsewhere; packets to many only if this is set.
    Unmoved {
        /// It is the active member.
        multicast: bool,
    },
}

/// A frame to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The port that it leaves by.
    pub port: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What `ovs-appctl` may ask of a bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// A slot moves to a member.
    Migrate {
        /// The slot's number, or an address.
        hash: &'a str,
        /// Who gets it.
        member: &'a str,
    },
    /// Another member is the active one.
    SetActive(&'a str),
    /// A member is enabled.
    Enable(&'a str),
    /// A member is disabled.
    Disable(&'a str),
}

/// A bond.
#[derive(Clone, Debug)]
pub struct Bond {
    /// Its name.
    pub name: String,
    pub(crate) settings: Settings,
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) active: Option<String>,
    /// The address of the member that was active last.
    pub(crate) active_mac: [u8; 6],
    pub(crate) machine: Option<Machine>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) rebalance_at_ms: Option<u64>,
    /// Stations are to be told that they are behind another member.
    learning: bool,
    /// What is to be logged.
    said: Vec<String>,
}

impl Bond {
    /// A bond without members. `system` is the bridge's address.
    pub fn new(name: &str, settings: Settings, system: [u8; 6], now_ms: u64) -> Bond {
        let mut bond = Bond {
            name: name.to_owned(),
            settings: Settings::default(),
            members: BTreeMap::new(),
            active: None,
            active_mac: [0; 6],
            machine: None,
            slots: vec![Slot::default(); SLOTS],
            rebalance_at_ms: None,
            learning: false,
            said: Vec::new(),
        };
        bond.configure(settings, system, now_ms);
        bond
    }

    /// It is asked something else.
    pub fn configure(&mut self, settings: Settings, system: [u8; 6], now_ms: u64) {
        let machine = (settings.lacp != Lacp::Off).then(|| {
            let (active, id) =
                (settings.lacp == Lacp::Active, settings.system_id.unwrap_or(system));
            let (fast, priority) = (settings.fast, settings.system_priority);
            Machine::new(active, fast, settings.fallback_ab, id, priority)
        });
        match (&mut self.machine, machine) {
            (Some(old), Some(new)) => old.configure(&new),
            (old, new) => {
                *old = new;
                if let Some(machine) = old {
                    for (name, member) in &self.members {
                        machine.set_link(name, member.config.link, now_ms);
                    }
                }
            }
        }
        let before = std::mem::replace(&mut self.settings, settings);
        if before.mode != self.settings.mode {
            self.slots = vec![Slot::default(); SLOTS];
        }
        if before.primary != self.settings.primary {
            self.active = None;
        }
        let balances = self.settings.mode.balances() && self.settings.rebalance_ms > 0;
        let again = before.rebalance_ms != self.settings.rebalance_ms;
        self.rebalance_at_ms = match self.rebalance_at_ms {
            _ if !balances => None,
            Some(at) if !again => Some(at),
            _ => Some(now_ms + self.settings.rebalance_ms),
        };
    }

    /// Its members are these.
    pub fn set_members(&mut self, members: BTreeMap<String, MemberConfig>, now_ms: u64) {
        let gone: Vec<String> =
            self.members.keys().filter(|name| !members.contains_key(*name)).cloned().collect();
        for name in gone {
            self.members.remove(&name);
            if let Some(machine) = &mut self.machine {
                machine.remove_link(&name);
            }
            self.leave(&name);
        }
        for (name, config) in members {
            if let Some(machine) = &mut self.machine {
                machine.set_link(&name, config.link, now_ms);
            }
            let fresh = Member {
                config: MemberConfig::default(),
                carrier: false,
                enabled: false,
                changes_ms: None,
            };
            self.members.entry(name).or_insert(fresh).config = config;
        }
    }

    /// Nobody uses a member any more.
    fn leave(&mut self, name: &str) {
        if self.active.as_deref() == Some(name) {
            self.active = None;
        }
        for slot in &mut self.slots {
            if slot.member.as_deref() == Some(name) {
                slot.member = None;
            }
        }
    }

    /// The link of a member is up, or not.
    pub fn set_carrier(&mut self, name: &str, up: bool, now_ms: u64) {
        let Some(member) = self.members.get_mut(name) else { return };
        if member.carrier == up {
            return;
        }
        member.carrier = up;
        if let Some(machine) = &mut self.machine {
            machine.carrier_changed(name, now_ms);
        }
    }

    /// A frame of LACP came by a port, if it is a member.
    pub fn receive(&mut self, port: u32, frame: &[u8], now_ms: u64) {
        let by = |(_, member): &(&String, &Member)| member.config.port == port;
        let Some(name) = self.members.iter().find(by).map(|(name, _)| name.clone()) else { return };
        if let Some(machine) = &mut self.machine {
            machine.receive(&name, frame, now_ms);
        }
    }

    /// Where LACP stands.
    pub fn lacp_status(&self) -> LinkStatus {
        self.machine.as_ref().map_or(LinkStatus::Off, Machine::status)
    }

    pub(crate) fn may_enable(&self, name: &str) -> bool {
        let carrier = self.members.get(name).is_some_and(|member| member.carrier);
        carrier && self.machine.as_ref().is_none_or(|machine| machine.may_enable(name))
    }

    /// Does what is due; frames to be sent.
    pub fn run(&mut self, now_ms: u64) -> Vec<Transmit> {
        let mut frames = Vec::new();
        if let Some(machine) = &mut self.machine {
            for (name, pdu) in machine.run(now_ms) {
                if let Some(member) = self.members.get(&name).filter(|member| member.carrier) {
                    let (port, bytes) = (member.config.port, pdu.frame(member.config.mac));
                    frames.push(Transmit { port, bytes });
                }
            }
        }
        let names: Vec<String> = self.members.keys().cloned().collect();
        names.iter().for_each(|name| self.look_at(name, now_ms));
        self.choose_active();
        self.fill_slots();
        frames
    }

    /// Enables or disables a member whose time has come.
    fn look_at(&mut self, name: &str, now_ms: u64) {
        let (up, negotiated) =
            (self.may_enable(name), self.lacp_status() == LinkStatus::Negotiated);
        let delay = match up {
            _ if negotiated => 0,
            true => self.settings.up_delay_ms,
            false => self.settings.down_delay_ms,
        };
        let Some(member) = self.members.get_mut(name) else { return };
        if up == member.enabled {
            if member.changes_ms.take().is_some() {
                let word = if up { "disabled" } else { "enabled" };
                self.said.push(format!("member {name}: will not be {word}"));
            }
            return;
        }
        let at = *member.changes_ms.get_or_insert(now_ms + delay);
        if now_ms >= at {
            self.enable(name, up);
        }
    }

    fn enable(&mut self, name: &str, enabled: bool) {
        let Some(member) = self.members.get_mut(name) else { return };
        member.changes_ms = None;
        if member.enabled != enabled {
            member.enabled = enabled;
            let word = if enabled { "enabled" } else { "disabled" };
            self.said.push(format!("member {name}: {word}"));
        }
    }

    fn is_enabled(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|member| member.enabled)
    }

    fn choose_active(&mut self) {
        let primary = self.settings.primary.clone().filter(|_| !self.settings.mode.balances());
        let primary = primary.filter(|name| self.is_enabled(name));
        let stays = self.active.as_ref().is_some_and(|name| self.is_enabled(name));
        if stays && (primary.is_none() || self.active == primary) {
            return;
        }
        let last = || {
            let was = |(_, member): &(&String, &Member)| {
                member.enabled && member.config.mac == self.active_mac
            };
            self.members.iter().find(was).map(|(name, _)| name.clone())
        };
        let any = || {
            let found = self.members.iter().find(|(_, member)| member.enabled);
            found.map(|(name, _)| name.clone())
        };
        // All are disabled: who would be enabled first is at once.
        let first = || {
            let waits = self.members.iter().filter(|(name, _)| self.may_enable(name));
            let waits = waits.filter_map(|(name, member)| Some((member.changes_ms?, name)));
            waits.min().map(|(_, name)| name.clone())
        };
        let chosen = primary.or_else(last).or_else(any).or_else(first);
        match &chosen {
            Some(name) => {
                self.enable(name, true);
                if let Some(member) = self.members.get(name) {
                    self.active_mac = member.config.mac;
                }
                self.learning = true;
                self.said.push(format!("active member is now {name}"));
            }
            None if self.active.is_some() => {
                self.active_mac = [0; 6];
                self.said.push("all members disabled".to_owned());
            }
            None => {}
        }
        self.active = chosen;
    }

    /// Slots of members that are disabled, or of none, get enabled ones in turn.
    fn fill_slots(&mut self) {
        if !self.settings.mode.balances() {
            return;
        }
        let enabled: Vec<&String> = self
            .members
            .iter()
            .filter(|(_, member)| member.enabled)
            .map(|(name, _)| name)
            .collect();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let keeps = slot.member.as_ref().is_some_and(|name| enabled.contains(&name));
            if !keeps {
                slot.member = (!enabled.is_empty()).then(|| enabled[at % enabled.len()].clone());
            }
        }
    }

    /// The port of the only member: it is a port as any other, that may speak LACP.
    fn only(&self) -> Option<u32> {
        let mut members = self.members.values();
        members.next().filter(|_| self.members.len() == 1).map(|member| member.config.port)
    }

    /// Several ports are bonded.
    pub fn is_bonded(&self) -> bool {
        self.members.len() > 1
    }

    /// What packets leave by now.
    pub fn sends(&self) -> Sends {
        let active = || {
            let member = self.active.as_ref().and_then(|name| self.members.get(name));
            Sends::One(member.map(|member| member.config.port))
        };
        let slots = || {
            let port = |slot: &Slot| Some(self.members.get(slot.member.as_ref()?)?.config.port);
            let mut ports = [None; SLOTS];
            ports.iter_mut().zip(&self.slots).for_each(|(to, slot)| *to = port(slot));
            Arc::new(ports)
        };
        if let Some(only) = self.only() {
            return Sends::One(Some(only));
        }
        match (self.lacp_status(), self.settings.mode) {
            (LinkStatus::Configured, _) if !self.settings.fallback_ab => Sends::One(None),
            (LinkStatus::Configured, _) | (_, Mode::ActiveBackup) => active(),
            (_, Mode::BalanceSlb) => Sends::Source(slots()),
            (LinkStatus::Negotiated, Mode::BalanceTcp) => Sends::Layers(slots()),
            (LinkStatus::Off, Mode::BalanceTcp) => Sends::One(None),
        }
    }

    /// What each member lets in now, by port.
    pub fn admits(&self) -> BTreeMap<u32, Admits> {
        if let Some(only) = self.only() {
            return BTreeMap::from([(only, Admits::All)]);
        }
        let one = |(name, member): (&String, &Member)| {
            let active = self.active.as_ref() == Some(name);
            let only_active = if active { Admits::All } else { Admits::None };
            let how = match (self.lacp_status(), self.settings.mode) {
                (LinkStatus::Negotiated, _) => {
                    let used = member.enabled || self.may_enable(name);
                    if used { Admits::All } else { Admits::None }
                }
                (LinkStatus::Configured, _) if !self.settings.fallback_ab => Admits::None,
                (_, Mode::BalanceSlb) => {
                    Admits::Unmoved { multicast: active || self.settings.all_members }
                }
                (LinkStatus::Configured, _) | (LinkStatus::Off, Mode::ActiveBackup) => only_active,
                (LinkStatus::Off, Mode::BalanceTcp) => Admits::None,
            };
            (member.config.port, how)
        };
        self.members.iter().map(one).collect()
    }

    /// Whether stations elsewhere are to be told of the active member, once.
    pub fn take_learning(&mut self) -> bool {
        std::mem::take(&mut self.learning)
    }

    /// What happened since it was asked last, for a log.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    /// When [`run`](Self::run) has something to do at the latest.
    pub fn due_ms(&self) -> Option<u64> {
        let members = self.members.values().filter_map(|member| member.changes_ms);
        members.chain(self.machine.as_ref().and_then(Machine::due_ms)).min()
    }

    /// What it is asked.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The address of the active member; all zeros for none.
    pub fn active_mac(&self) -> [u8; 6] {
        let active = self.active.as_ref().and_then(|name| self.members.get(name));
        active.map_or([0; 6], |member| member.config.mac)
    }

    /// The active member.
    pub fn active(&self) -> Option<&str> {
        self.active.as_deref()
    }

    /// Members that are enabled.
    pub fn enabled(&self) -> impl Iterator<Item = &str> {
        self.members.iter().filter(|(_, member)| member.enabled).map(|(name, _)| name.as_str())
    }

    /// Its members' names.
    pub fn member_names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// Frames of a member's partner come; none without LACP.
    pub fn lacp_current(&self, member: &str) -> Option<bool> {
        let link = self.machine.as_ref()?.links().get(member)?;
        Some(link.status == crate::lacp::Status::Current)
    }

    /// A member is not to be used as long as LACP does not allow it; never without LACP.
    pub fn waits_for_lacp(&self, member: &str) -> bool {
        self.machine.as_ref().is_some_and(|machine| !machine.may_enable(member))
    }

    /// Does what `ovs-appctl` asks, and answers in its words.
    pub fn command(
        &mut self,
        command: Command<'_>,
        slot_of: impl Fn([u8; 6]) -> usize,
    ) -> Result<String, String> {
        let known = |bond: &Bond, name: &str| match bond.members.contains_key(name) {
            true => Ok(()),
            false => Err("no such member".to_owned()),
        };
        match command {
            Command::Migrate { hash, member } => {
                if self.settings.mode != Mode::BalanceSlb {
                    return Err("not an SLB bond".to_owned());
                }
                let slot = match hash.parse::<usize>() {
                    Ok(number) => number % SLOTS,
                    Err(_) => {
                        let mac = crate::settings::address(hash);
                        slot_of(mac.ok_or_else(|| "bad hash".to_owned())?) % SLOTS
                    }
                };
                known(self, member)?;
                if !self.is_enabled(member) {
                    return Err("cannot migrate to disabled member".to_owned());
                }
                self.slots[slot].member = Some(member.to_owned());
                Ok("migrated".to_owned())
            }
            Command::SetActive(member) => {
                known(self, member)?;
                if !self.is_enabled(member) {
                    return Err("cannot make disabled member active".to_owned());
                }
                if self.active.as_deref() == Some(member) {
                    return Ok("no change".to_owned());
                }
                self.active = Some(member.to_owned());
                self.active_mac = self.members[member].config.mac;
                self.learning = true;
                self.said.push(format!("active member is now {member}"));
                Ok("done".to_owned())
            }
            Command::Enable(member) | Command::Disable(member) => {
                known(self, member)?;
                let enabled = command == Command::Enable(member);
                self.enable(member, enabled);
                self.choose_active();
                self.fill_slots();
                Ok(if enabled { "enabled" } else { "disabled" }.to_owned())
            }
        }
    }
}
