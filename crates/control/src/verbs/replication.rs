//! `replication`: the group that this process is a member of, shown; and who of it forwards.

use crate::group::{Shown, Stripes};
use crate::protocol::Reply;
use crate::role::Role;
use crate::verb::{At, Change, Verb};
use replication::{PeerView, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replication {
    /// What this member is to do, if it is to do something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Act>,
    /// With which share; with all of them without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// Which other member is gone for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
}

/// What a member is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Forward, whoever else does.
    Promote,
    /// Forward no more, until it is told to.
    Demote,
    /// Hand over to a standby that has all connections.
    Drain,
    /// It was drained, and gets its shares back.
    Rebalance,
    /// Another member is gone for good: what it has claimed of the pool of ports is free.
    Forget,
}

impl Act {
    fn word(self) -> &'static str {
        match self {
            Act::Promote => "promote",
            Act::Demote => "demote",
            Act::Drain => "drain",
            Act::Rebalance => "rebalance",
            Act::Forget => "forget",
        }
    }
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Who goes on, of a member that has handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_to: Option<String>,
    /// The group.
    pub group: String,
    /// This member.
    pub member: String,
    /// Its process, and the version of millrace that it runs.
    pub pid: u32,
    /// See there.
    pub version: String,
    /// `active`, `standby`, or `shared` if it forwards some of the shares.
    pub role: String,
    /// The highest epoch that it knows.
    pub epoch: u64,
    /// Of an active one: a standby would go on with all connections. Of a standby: it has all connections. Of one with shares: both,
    /// of all of them.
    pub protected: bool,
    /// It was drained, and gets nothing back until it is told to.
    pub drained: bool,
    /// Whether the engine is there.
    pub engine: bool,
    /// Whom the store names, and in which epoch; of shares, see there.
    pub owner: Option<(String, u64)>,
    /// The number of the last message sent, or applied.
    pub seq: u64,
    /// Messages that were missing.
    pub gaps: u64,
    /// Between a message's being sent and its being applied, if the two clocks agree.
    pub lag_us: u64,
    /// Records told, and applied.
    pub told: u64,
    /// Records applied.
    pub applied: u64,
    /// Records for trackers that are not here, records that were none, connections without room.
    pub left_out: [u64; 3],
    /// Packets without a connection, dropped while another member may have opened it.
    #[serde(default)]
    pub fenced: u64,
    /// What keeps the engine away, or what it refuses.
    pub fault: Option<String>,
    /// How often that was told.
    pub faults: u64,
    /// How often the program of `notify=` ran, and how often it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notified: Option<(u64, u64)>,
    /// The others.
    pub peers: Vec<Peer>,
    /// Services and registers that it is to have and has not; of shares, see there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Stripes of ports, where some are a pool; of shares, see there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripes: Option<Stripes>,
    /// The shares, if there are some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
}

/// A share.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Who forwards it, as far as this member knows.
    pub active: Option<String>,
    /// `active` or `standby`.
    pub role: String,
    /// The highest epoch that this member knows.
    pub epoch: u64,
    /// Of an active one: a standby would go on with all connections. Of a standby: it has all connections.
    pub protected: bool,
    /// It was drained here.
    pub drained: bool,
    /// Whom the store names, and in which epoch.
    pub owner: Option<(String, u64)>,
    /// The number of the last message sent, or applied.
    pub seq: u64,
    /// Messages that were missing.
    pub gaps: u64,
    /// Its services that are not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Stripes of ports, where some are a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripes: Option<Stripes>,
}

/// Another member.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Whether it lives.
    pub alive: bool,
    /// `active`, `standby`, `shared`, or nothing of one that was not heard.
    pub role: String,
    /// Whether it has all connections.
    pub synced: bool,
    /// Whether its configuration is the same.
    pub same: bool,
    /// The number of the last message that it has sent or applied.
    pub seq: u64,
    /// Milliseconds since it was heard.
    pub silent_ms: Option<u64>,
}

fn told(stripes: &Stripes) -> String {
    let Stripes { usable, claimed, free } = stripes;
    format!("{usable} of 64 stripes here, {claimed} of them claimed, {free} free")
}

fn word(active: bool) -> String {
    if active { "active" } else { "standby" }.to_owned()
}

/// Of several.
fn words(all: impl Iterator<Item = bool>) -> String {
    let all: Vec<bool> = all.collect();
    match all.iter().all(|active| *active == all[0]) {
        true => word(all.first() == Some(&true)),
        false => "shared".to_owned(),
    }
}

fn owner(view: &View) -> Option<(String, u64)> {
    let (_, owner) = view.store.owner.as_ref()?;
    owner.as_ref().map(|owner| (owner.member.clone(), owner.epoch))
}

impl Share {
    fn of(view: &View, drained: bool, missing: &[String], member: &str) -> Share {
        let active = view.role == replication::Role::Active;
        let leads = |peer: &&PeerView| {
            let last = peer.last.as_ref();
            peer.alive && last.is_some_and(|last| last.active && last.epoch == view.epoch)
        };
        let other = view.peers.iter().find(leads).map(|peer| peer.name.clone());
        Share {
            name: view.share.clone(),
            active: if active { Some(member.to_owned()) } else { other },
            role: word(active),
            epoch: view.epoch,
            protected: view.protected,
            drained,
            owner: owner(view),
            seq: view.seq,
            gaps: view.gaps,
            missing: missing.to_vec(),
            stripes: None,
        }
    }
}

impl Peer {
    /// Of one member, as it is seen in all shares.
    fn of(all: &[&PeerView]) -> Peer {
        let heard: Vec<_> = all.iter().filter_map(|peer| peer.last.as_ref()).collect();
        Peer {
            name: all.first().map(|peer| peer.name.clone()).unwrap_or_default(),
            alive: all.iter().all(|peer| peer.alive),
            role: match heard.is_empty() {
                true => String::new(),
                false => words(heard.iter().map(|last| last.active)),
            },
            synced: !heard.is_empty() && heard.iter().all(|last| last.synced),
            same: all.iter().all(|peer| peer.same),
            seq: heard.iter().map(|last| last.seq).max().unwrap_or(0),
            silent_ms: all.iter().filter_map(|peer| peer.silent_ns).min().map(|ns| ns / 1_000_000),
        }
    }
}

impl Answer {
    fn of(shown: &Shown) -> Answer {
        let Shown { group, member, views, drained, missing, stripes, counts } = shown;
        let active = |view: &View| view.role == replication::Role::Active;
        let mut peers: BTreeMap<&str, Vec<&PeerView>> = BTreeMap::new();
        for peer in views.iter().flat_map(|view| &view.peers) {
            peers.entry(&peer.name).or_default().push(peer);
        }
        let shares = views.iter().zip(drained).zip(missing).zip(stripes);
        let shares = shares.filter(|(((view, _), _), _)| !view.share.is_empty());
        let alone = views.first().filter(|view| view.share.is_empty());
        Answer {
            handed_to: None,
            group: group.clone(),
            member: member.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: words(views.iter().map(active)),
            epoch: views.iter().map(|view| view.epoch).max().unwrap_or(0),
            protected: views.iter().all(|view| view.protected),
            drained: drained.contains(&true),
            engine: views.iter().all(|view| view.store.connected),
            owner: alone.and_then(owner),
            seq: views.iter().map(|view| view.seq).max().unwrap_or(0),
            gaps: views.iter().map(|view| view.gaps).sum(),
            lag_us: counts.lag_ns / 1000,
            told: counts.told,
            applied: counts.applied,
            left_out: [counts.unknown, counts.refused, counts.no_room],
            fenced: counts.fenced,
            fault: counts.fault.clone(),
            faults: counts.faults,
            notified: counts.notified,
            peers: peers.values().map(|all| Peer::of(all)).collect(),
            stripes: alone.and(stripes.first()).copied().flatten(),
            missing: alone.and(missing.first()).cloned().unwrap_or_default(),
            shares: shares
                .map(|(((view, drained), missing), stripes)| Share {
                    stripes: *stripes,
                    ..Share::of(view, *drained, missing, member)
                })
                .collect(),
        }
    }
}

impl Verb for Replication {
    const NAME: &'static str = "replication";
    const ABOUT: &'static str =
        "The group whose members go on for each other: shown, and who of it forwards";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let none = || "this switch is no member of a group: start it with --replication".to_owned();
        let group = at.bridges()?.replication().ok_or_else(none)?;
        let mut handed_to = None;
        match self.action {
            None => {}
            Some(Act::Promote) => group.promote(self.share)?,
            Some(Act::Demote) => group.demote(self.share)?,
            Some(Act::Drain) => handed_to = Some(group.drain(self.share)?),
            Some(Act::Rebalance) => group.rebalance()?,
            Some(Act::Forget) => {
                group.forget(self.member.ok_or("which member is gone?")?)?;
            }
        }
        Ok(Reply::Answer(Answer { handed_to, ..Answer::of(&group.shown()) }))
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        if let Some(to) = &answer.handed_to {
            let _ = writeln!(out, "handed over to {to}");
        }
        let has = match (&*answer.role, answer.protected) {
            ("active" | "shared", true) => "protected",
            ("shared", false) => "UNPROTECTED: see the shares",
            ("active", false) => "UNPROTECTED: no standby has all connections",
            (_, true) => "has all connections",
            (_, false) => "has not all connections",
        };
        let Answer { group, member, role, epoch, seq, .. } = answer;
        let drained = if answer.drained { ", drained" } else { "" };
        let _ =
            writeln!(out, "group {group}, member {member}: {role}, epoch {epoch}, {has}{drained}");
        let engine = if answer.engine { "there" } else { "AWAY" };
        let owner = match &answer.owner {
            Some((name, epoch)) => format!(", store names {name}, epoch {epoch}"),
            None if answer.shares.is_empty() => ", store names nobody".to_owned(),
            None => String::new(),
        };
        let _ = writeln!(out, "engine {engine}{owner}");
        if let Some(fault) = &answer.fault {
            let _ = writeln!(out, "engine: {fault}; told {} times", answer.faults);
        }
        let _ = writeln!(
            out,
            "message {seq}, lag {} us, records told {}, applied {}, gaps {}",
            answer.lag_us, answer.told, answer.applied, answer.gaps
        );
        if let Some((ran, failed)) = answer.notified {
            let _ = writeln!(out, "program told of roles: {ran} times, {failed} failed");
        }
        if answer.left_out != [0; 3] {
            let [unknown, refused, no_room] = answer.left_out;
            let _ = writeln!(
                out,
                "left out: {unknown} for trackers that are not here, {refused} that were none, {no_room} without room"
            );
        }
        if answer.fenced > 0 {
            let _ = writeln!(
                out,
                "fenced: {} packets without a connection, while another member may have opened it",
                answer.fenced
            );
        }
        if let Some(stripes) = &answer.stripes {
            let _ = writeln!(out, "ports: {}", told(stripes));
        }
        if !answer.missing.is_empty() {
            let _ = writeln!(out, "MISSING: {}", answer.missing.join(", "));
        }
        for share in &answer.shares {
            let Share { name, role, epoch, .. } = share;
            let who = match (&share.active, &**role) {
                (_, "active") => "here".to_owned(),
                (Some(active), _) => format!("at {active}"),
                (None, _) => "NOWHERE".to_owned(),
            };
            let has = match (&**role, share.protected) {
                ("active", true) => "protected",
                ("active", false) => "UNPROTECTED",
                (_, true) => "all connections here",
                (_, false) => "not all connections here",
            };
            let owner = match &share.owner {
                Some((name, epoch)) => format!("store names {name}, epoch {epoch}"),
                None => "store names nobody".to_owned(),
            };
            let drained = if share.drained { ", drained" } else { "" };
            let missing = match &share.missing[..] {
                [] => String::new(),
                missing => format!(", MISSING: {}", missing.join(", ")),
            };
            let ports = share.stripes.as_ref().map(|stripes| format!(", ports: {}", told(stripes)));
            let missing = format!("{}{missing}", ports.unwrap_or_default());
            let _ = writeln!(
                out,
                "share {name}: active {who}, epoch {epoch}, {has}, {owner}{drained}{missing}"
            );
        }
        for peer in &answer.peers {
            let alive = if peer.alive { "alive" } else { "DEAD" };
            let role = if peer.role.is_empty() { "never heard" } else { &peer.role };
            let synced = if peer.synced { ", has all connections" } else { "" };
            let same = if peer.same { "" } else { ", ANOTHER CONFIGURATION" };
            let silent =
                peer.silent_ms.map(|ms| format!(", heard {ms} ms ago")).unwrap_or_default();
            let _ = writeln!(
                out,
                "peer {}: {alive}, {role}{synced}{same}, message {}{silent}",
                peer.name, peer.seq
            );
        }
        out
    }

    fn change(&self) -> Option<Change> {
        let act = self.action?;
        let about = self.share.as_deref().or(self.member.as_deref());
        let share = about.map(|about| format!(" {about}")).unwrap_or_default();
        Some(Change { kind: "replication", how: "modify", text: format!("{}{share}", act.word()) })
    }

    fn role(&self) -> Role {
        if self.action.is_some() { Role::Operate } else { Role::Read }
    }
}
