//! `replication`: the group that this process is a member of, shown; and who of it forwards.

use crate::group::Shown;
use crate::protocol::Reply;
use crate::role::Role;
use crate::verb::{At, Change, Verb};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replication {
    /// What this member is to do, if it is to do something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Act>,
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
}

impl Act {
    fn word(self) -> &'static str {
        match self {
            Act::Promote => "promote",
            Act::Demote => "demote",
            Act::Drain => "drain",
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
    /// `active` or `standby`.
    pub role: String,
    /// The highest epoch that it knows.
    pub epoch: u64,
    /// Of an active one: a standby would go on with all connections. Of a standby: it has all connections.
    pub protected: bool,
    /// Whether the engine is there.
    pub engine: bool,
    /// Whom the store names, and in which epoch.
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
    /// The others.
    pub peers: Vec<Peer>,
}

/// Another member.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Whether it lives.
    pub alive: bool,
    /// `active`, `standby`, or nothing of one that was not heard.
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

impl Answer {
    fn of(shown: Shown) -> Answer {
        let Shown { group, member, view, counts } = shown;
        let word = |active: bool| if active { "active" } else { "standby" }.to_owned();
        let peers = view.peers.into_iter().map(|peer| {
            let last = peer.last.as_ref();
            Peer {
                alive: peer.alive,
                role: last.map(|last| word(last.active)).unwrap_or_default(),
                synced: last.is_some_and(|last| last.synced),
                same: peer.same,
                seq: last.map_or(0, |last| last.seq),
                silent_ms: peer.silent_ns.map(|ns| ns / 1_000_000),
                name: peer.name,
            }
        });
        let owner = view.store.owner.and_then(|(_, owner)| owner);
        Answer {
            handed_to: None,
            group,
            member,
            role: word(view.role == replication::Role::Active),
            epoch: view.epoch,
            protected: view.protected,
            engine: view.store.connected,
            owner: owner.map(|owner| (owner.member, owner.epoch)),
            seq: view.seq,
            gaps: view.gaps,
            lag_us: counts.lag_ns / 1000,
            told: counts.told,
            applied: counts.applied,
            left_out: [counts.unknown, counts.refused, counts.no_room],
            peers: peers.collect(),
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
            Some(Act::Promote) => group.promote()?,
            Some(Act::Demote) => group.demote()?,
            Some(Act::Drain) => handed_to = Some(group.drain()?),
        }
        Ok(Reply::Answer(Answer { handed_to, ..Answer::of(group.shown()) }))
    }

    fn text(answer: &Answer) -> String {
        let mut out = String::new();
        if let Some(to) = &answer.handed_to {
            let _ = writeln!(out, "handed over to {to}");
        }
        let has = match (&*answer.role, answer.protected) {
            ("active", true) => "protected",
            ("active", false) => "UNPROTECTED: no standby has all connections",
            (_, true) => "has all connections",
            (_, false) => "has not all connections",
        };
        let Answer { group, member, role, epoch, seq, .. } = answer;
        let _ = writeln!(out, "group {group}, member {member}: {role}, epoch {epoch}, {has}");
        let engine = if answer.engine { "there" } else { "AWAY" };
        let owner = match &answer.owner {
            Some((name, epoch)) => format!("names {name}, epoch {epoch}"),
            None => "names nobody".to_owned(),
        };
        let _ = writeln!(out, "engine {engine}, store {owner}");
        let _ = writeln!(
            out,
            "message {seq}, lag {} us, records told {}, applied {}, gaps {}",
            answer.lag_us, answer.told, answer.applied, answer.gaps
        );
        if answer.left_out != [0; 3] {
            let [unknown, refused, no_room] = answer.left_out;
            let _ = writeln!(
                out,
                "left out: {unknown} for trackers that are not here, {refused} that were none, {no_room} without room"
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
        Some(Change { kind: "replication", how: "modify", text: act.word().to_owned() })
    }

    fn role(&self) -> Role {
        if self.action.is_some() { Role::Operate } else { Role::Read }
    }
}
