//! One bond's actor (behaviour: Open vSwitch's `lib/lacp.c`; IEEE 802.1AX-2020 §6.4.12 to §6.4.16).
//!
//! A link is *current* while frames of its partner come, *expired* for three seconds after they have failed to, then
//! *defaulted*. Links whose partner is the same system with the same key as the best link's are *attached*; an attached
//! link whose partner says so, too, may be used. Of links to two systems, those of the better one are.
//!
//! Holds true: a frame is sent when what it would say has changed, or its time has come, and not by a passive side that
//! hears nothing.

use super::pdu::{Info, Pdu, Slow, read, state};
use std::collections::BTreeMap;

/// Time between frames, if a partner wants them fast or not.
const FAST_MS: u64 = 1000;
const SLOW_MS: u64 = 30_000;
/// So many of those without a frame, and the partner is gone.
const RX_MULTIPLIER: u64 = 3;

/// How it stands with the partner of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Its frames come.
    Current,
    /// They have failed to.
    Expired,
    /// Nothing is known of it.
    #[default]
    Defaulted,
}

/// Where a bond stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkStatus {
    /// It has no LACP.
    Off,
    /// There is no partner.
    Configured,
    /// There is one.
    Negotiated,
}

impl LinkStatus {
    /// As Open vSwitch writes it.
    pub fn word(self) -> &'static str {
        match self {
            LinkStatus::Off => "off",
            LinkStatus::Configured => "configured",
            LinkStatus::Negotiated => "negotiated",
        }
    }
}

/// What is counted of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames sent.
    pub sent: u64,
    /// Frames that came.
    pub received: u64,
    /// Of those, that were not LACP's.
    pub bad: u64,
    /// Requests of the marker protocol.
    pub markers: u64,
    /// How often the partner fell silent.
    pub expired: u64,
    /// How often it was given up.
    pub defaulted: u64,
    /// How often the carrier came or went.
    pub carrier: u64,
}

/// What a link is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    /// Its number.
    pub port: u16,
    /// Its priority.
    pub priority: u16,
    /// Its key; 0 for the bond's.
    pub key: u16,
}

/// A link.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// What it was told.
    pub config: LinkConfig,
    /// How it stands with the partner.
    pub status: Status,
    /// It belongs to the bond.
    pub attached: bool,
    /// What the partner says of itself.
    pub partner: Info,
    /// What is counted.
    pub counts: Counts,
    /// What was said last.
    said: Option<Info>,
    send_ms: u64,
    expires_ms: Option<u64>,
}

/// The actor.
#[derive(Clone, Debug)]
pub struct Machine {
    /// It speaks without being asked.
    pub active: bool,
    /// It wants frames fast.
    pub fast: bool,
    /// Links without partner are attached, and one of them is used.
    pub fallback_ab: bool,
    /// The system.
    pub system: [u8; 6],
    /// Its priority.
    pub priority: u16,
    /// There is a partner.
    pub negotiated: bool,
    links: BTreeMap<String, Link>,
    /// The link whose number is the bond's key.
    key_link: Option<String>,
    update: bool,
}

impl Machine {
    /// An actor without links.
    pub fn new(
        active: bool,
        fast: bool,
        fallback_ab: bool,
        system: [u8; 6],
        priority: u16,
    ) -> Machine {
        Machine {
            active,
            fast,
            fallback_ab,
            system,
            priority,
            negotiated: false,
            links: BTreeMap::new(),
            key_link: None,
            update: true,
        }
    }

    /// Changes what the actor says of itself.
    pub fn configure(&mut self, like: &Machine) {
        let same = (self.active, self.fallback_ab, self.system, self.priority)
            == (like.active, like.fallback_ab, like.system, like.priority);
        self.update |= !same;
        (self.active, self.fast) = (like.active, like.fast);
        (self.fallback_ab, self.system, self.priority) =
            (like.fallback_ab, like.system, like.priority);
    }

    /// A link is there, or is told something else.
    pub fn set_link(&mut self, name: &str, config: LinkConfig, now_ms: u64) {
        let fresh = !self.links.contains_key(name);
        let link = self.links.entry(name.to_owned()).or_default();
        if !fresh && link.config == config {
            return;
        }
        link.config = config;
        self.update = true;
        if self.key_link.is_none() {
            self.key_link = Some(name.to_owned());
        }
        if self.active || link.status == Status::Current {
            expire(link, now_ms);
        }
    }

    /// A link is there no more.
    pub fn remove_link(&mut self, name: &str) {
        if self.links.remove(name).is_some() {
            self.update = true;
            if self.key_link.as_deref() == Some(name) {
                self.key_link = self.links.keys().next().cloned();
            }
        }
    }

    /// The carrier of a link came or went.
    pub fn carrier_changed(&mut self, name: &str, now_ms: u64) {
        let active = self.active;
        let Some(link) = self.links.get_mut(name) else { return };
        link.counts.carrier += 1;
        if link.status == Status::Current || active {
            expire(link, now_ms);
            self.update = true;
        }
    }

    /// A frame came by a link.
    pub fn receive(&mut self, name: &str, frame: &[u8], now_ms: u64) {
        let Some(link) = self.links.get_mut(name) else { return };
        link.counts.received += 1;
        let pdu = match read(frame) {
            Slow::Lacp(pdu) => pdu,
            Slow::Marker => return link.counts.markers += 1,
            Slow::Bad => return link.counts.bad += 1,
        };
        link.status = Status::Current;
        let wanted = if self.fast { FAST_MS } else { SLOW_MS };
        link.expires_ms = Some(now_ms + RX_MULTIPLIER * wanted);
        // What the partner knows of this side: if that is not so, it is told.
        link.said = Some(pdu.partner);
        if link.partner != pdu.actor {
            link.partner = pdu.actor;
            self.update = true;
        }
    }

    /// Does what is due. Frames to be sent are handed out with the link; their source is the link's address.
    pub fn run(&mut self, now_ms: u64) -> Vec<(String, Pdu)> {
        for link in self.links.values_mut() {
            if link.expires_ms.is_none_or(|at| at > now_ms) {
                continue;
            }
            match link.status {
                Status::Current => {
                    expire(link, now_ms);
                    link.counts.expired += 1;
                    self.update = true;
                }
                Status::Expired => {
                    link.partner = Info::default();
                    (link.status, link.expires_ms) = (Status::Defaulted, None);
                    link.counts.defaulted += 1;
                    self.update = true;
                }
                Status::Defaulted => link.expires_ms = None,
            }
        }
        if std::mem::take(&mut self.update) {
            self.attach();
        }
        let actors: Vec<(String, Info)> =
            self.links.iter().map(|(name, link)| (name.clone(), self.actor(link))).collect();
        let active = self.active;
        let mut frames = Vec::new();
        for (name, actor) in actors {
            let Some(link) = self.links.get_mut(&name) else { continue };
            if !active && link.status == Status::Defaulted {
                continue;
            }
            if link.send_ms > now_ms && link.said == Some(actor) {
                continue;
            }
            link.said = Some(actor);
            link.counts.sent += 1;
            let wanted = link.partner.state & state::TIMEOUT != 0;
            link.send_ms = now_ms + if wanted { FAST_MS } else { SLOW_MS };
            frames.push((name, Pdu { actor, partner: link.partner }));
        }
        frames
    }

    /// When [`run`](Self::run) has something to do at the latest.
    pub fn due_ms(&self) -> Option<u64> {
        let links = self.links.values();
        let times = links.flat_map(|link| {
            let sends = self.active || link.status != Status::Defaulted;
            [link.expires_ms, sends.then_some(link.send_ms)]
        });
        times.flatten().min()
    }

    /// Decides which links belong to the bond.
    fn attach(&mut self) {
        let system = self.system;
        let mut lead: Option<(bool, Info, Info)> = None;
        let priorities: Vec<Info> =
            self.links.values().map(|link| self.link_priority(link)).collect();
        for (link, priority) in self.links.values_mut().zip(priorities) {
            let enabled = link.attached && link.partner.state & state::SYNCHRONIZED != 0;
            link.attached = false;
            if link.partner.system == system {
                // Its own frames come back: a loop.
                continue;
            }
            if link.status == Status::Defaulted {
                link.attached = self.fallback_ab;
                continue;
            }
            link.attached = true;
            let better = lead.is_none_or(|(led, best, _)| (!enabled, priority) < (!led, best));
            if better {
                lead = Some((enabled, priority, link.partner));
            }
        }
        self.negotiated = lead.is_some();
        let Some((_, _, partner)) = lead else { return };
        for link in self.links.values_mut() {
            let same = (link.partner.key, link.partner.system) == (partner.key, partner.system);
            if !same || link.status == Status::Defaulted {
                link.attached = false;
            }
        }
    }

    /// By which links are compared: the better system's own words.
    fn link_priority(&self, link: &Link) -> Info {
        let actor = self.actor(link);
        let of = |info: &Info| (info.system_priority, info.system);
        let better = if of(&actor) < of(&link.partner) { actor } else { link.partner };
        Info { key: 0, state: 0, ..better }
    }

    /// What is said of a link.
    pub fn actor(&self, link: &Link) -> Info {
        let mut bits = 0;
        let mut set = |condition: bool, bit: u8| bits |= if condition { bit } else { 0 };
        set(self.active, state::ACTIVITY);
        set(self.fast, state::TIMEOUT);
        set(link.attached, state::SYNCHRONIZED);
        set(link.status == Status::Defaulted, state::DEFAULTED);
        set(link.status == Status::Expired, state::EXPIRED);
        set(self.links.len() > 1, state::AGGREGATION);
        let used = link.attached || !self.negotiated;
        set(used, state::COLLECTING | state::DISTRIBUTING);
        Info {
            system_priority: self.priority,
            system: self.system,
            key: self.key(),
            port_priority: link.config.priority,
            port: link.config.port,
            state: bits,
        }
    }

    /// The key that links of the bond have; 0 without links.
    pub fn key(&self) -> u16 {
        let link = self.key_link.as_ref().and_then(|name| self.links.get(name));
        link.map_or(0, |link| match link.config.key {
            0 => link.config.port,
            key => key,
        })
    }

    /// Whether a link may be used.
    pub fn may_enable(&self, name: &str) -> bool {
        self.links.get(name).is_some_and(|link| {
            let fallback = self.fallback_ab && link.status == Status::Defaulted;
            link.attached && (link.partner.state & state::SYNCHRONIZED != 0 || fallback)
        })
    }

    /// Where the bond stands.
    pub fn status(&self) -> LinkStatus {
        if self.negotiated { LinkStatus::Negotiated } else { LinkStatus::Configured }
    }

    /// The links.
    pub fn links(&self) -> &BTreeMap<String, Link> {
        &self.links
    }
}

/// Nothing has come of the partner: it is asked for frames fast, and given up after three.
fn expire(link: &mut Link, now_ms: u64) {
    link.status = Status::Expired;
    link.partner.state |= state::TIMEOUT;
    link.partner.state &= !state::SYNCHRONIZED;
    link.expires_ms = Some(now_ms + RX_MULTIPLIER * FAST_MS);
}
