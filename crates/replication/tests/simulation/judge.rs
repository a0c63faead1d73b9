//! What must hold.

use crate::traffic::{Connection, Held, L};
use crate::world::{MS, Planted, World, name, number};
use replication::{Owner, Reason, Role};
use std::collections::BTreeMap;

/// What has happened.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Members went on for one that had died, having had all.
    pub(crate) deaths: u64,
    /// Shares were handed over.
    pub(crate) handed: u64,
    /// Connections that were judged then.
    pub(crate) kept: u64,
    /// Claims that the store has confirmed.
    pub(crate) claims: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.deaths += other.deaths;
        self.handed += other.handed;
        self.kept += other.kept;
        self.claims += other.claims;
    }
}

/// What a member had of a share when it was active no more.
pub(crate) struct Left {
    at: u64,
    who: usize,
    had: BTreeMap<u32, Connection>,
    backends: (u64, u64),
    /// It handed over, and had told all.
    handed: bool,
}

impl Left {
    pub(crate) fn handed(at: u64, who: usize, held: &Held) -> Left {
        let (had, backends) = (held.connections.clone(), held.backends);
        Left { at, who, had, backends, handed: true }
    }

    pub(crate) fn died(at: u64, who: usize, held: &Held) -> Left {
        Left { handed: false, ..Left::handed(at, who, held) }
    }
}

impl World {
    /// Somebody goes on.
    pub(crate) fn promoted(&mut self, n: usize, share: usize, reason: &Reason) {
        let Some(left) = self.left[share].take() else { return };
        let from = |name: &String| number(name) == left.who;
        let held = &self.nodes[n].held[share];
        let nothing_lost = held.lost_at + 100 * MS < left.at;
        let sure = match reason {
            Reason::HandedOver(name) => left.handed && from(name),
            Reason::Closed(name) | Reason::Silent(name) => {
                let synced = held.synced_since.is_some_and(|since| since + L < left.at);
                !left.handed && from(name) && synced
            }
            _ => false,
        };
        if !sure || !nothing_lost {
            return;
        }
        // Who hands over has told all.
        let (before, who) = (if left.handed { left.at + 1 } else { left.at - L }, left.who);
        let mut kept = 0;
        let mut lost = None;
        for (id, connection) in left.had.iter().filter(|(_, c)| c.opened < before) {
            match held.connections.get(id) {
                None => lost = Some(format!("{id} of {who} is lost to {n}")),
                Some(copy) if copy.port != connection.port => {
                    lost = Some(format!("{id} has another port"));
                }
                Some(copy) => {
                    if self.planted == Planted::StrictWindows
                        && copy.progress + 3 < connection.progress
                    {
                        lost = Some(format!("{id} is stuck"));
                    }
                    kept += 1;
                }
            }
        }
        if left.backends.1 < before && held.backends != left.backends {
            lost = Some(format!("{n} knows other backends than {who} did"));
        }
        self.tally.kept += kept;
        match left.handed {
            true => self.tally.handed += 1,
            false => self.tally.deaths += 1,
        }
        if let Some(lost) = lost {
            self.fail(format!("share {share}: {lost}"));
        }
    }

    /// A port is given out.
    pub(crate) fn judge_binding(&mut self, n: usize, share: usize, id: u32, port: u16) {
        for (other, node) in self.nodes.iter().enumerate() {
            let open = |id: &u32| !self.closed.contains(id);
            let mut all = node.held[share].connections.iter();
            let same = all.find(|(id, c)| c.port == port && open(id));
            // One that is no more than an old copy is superseded when its holder learns of it.
            let lives = other != n && self.is_active(other, share);
            if let (Some((theirs, _)), true) = (same, lives) {
                let what =
                    format!("share {share}: port {port} is bound by {id} and {theirs} at once");
                return self.fail(what);
            }
        }
    }

    /// The store confirms an epoch to a member.
    pub(crate) fn judge_owner(&mut self, share: usize, owner: &Owner) {
        let Owner { epoch, member } = owner;
        let confirmed = &mut self.store[share].confirmed;
        let highest = confirmed.last_key_value().map_or(0, |(highest, _)| *highest);
        let before = confirmed.insert(*epoch, member.clone()).filter(|before| before != member);
        if let Some(before) = before {
            self.fail(format!("share {share}: epoch {epoch} is {before}'s, and {member}'s"));
        } else if *epoch < highest {
            self.fail(format!("share {share}: epoch {epoch} follows {highest}"));
        }
    }

    /// All was quiet for long enough.
    pub(crate) fn judge_the_end(&mut self) {
        if let Err(problem) = self.find_problem() {
            self.fail(problem);
        }
    }

    pub(crate) fn find_problem(&self) -> Result<(), String> {
        let judge = |share| self.judge_share(share).map_err(|why| format!("share {share}: {why}"));
        (0..self.store.len()).try_for_each(judge)
    }

    fn judge_share(&self, share: usize) -> Result<(), String> {
        let active = self.active(share);
        let [a] = active[..] else { return Err(format!("{active:?} are active in the end")) };
        let member = self.member(a, share);
        let me = Owner { epoch: member.epoch(), member: name(a) };
        if self.store[share].owner.as_ref() != Some(&me) {
            let owner = &self.store[share].owner;
            return Err(format!("the store names {owner:?}, and {me:?} is active in the end"));
        }
        let held = &self.nodes[a].held[share];
        for (n, node) in self.nodes.iter().enumerate().filter(|(n, _)| *n != a) {
            let (other, its) = (self.member(n, share), &node.held[share]);
            debug_assert_eq!(other.role(), Role::Standby);
            if !other.is_synced() {
                return Err(format!("{n} has not all in the end"));
            }
            let old = |c: &Connection| c.opened + L < self.now;
            let has = |id: &u32, c: &Connection| {
                its.connections.get(id).is_some_and(|copy| copy.port == c.port)
            };
            if let Some((id, _)) = held.connections.iter().find(|(id, c)| old(c) && !has(id, c)) {
                return Err(format!("{n} lacks {id} in the end"));
            }
            if held.backends.1 + L < self.now && its.backends != held.backends {
                return Err(format!("{n} knows other backends than {a} in the end"));
            }
            let earlier = other.config().priority > member.config().priority;
            if earlier && !other.is_drained() {
                return Err(format!("{a} is active in the end, and {n} is preferred"));
            }
        }
        Ok(())
    }
}
