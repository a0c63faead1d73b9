//! The state machines of all shares of a group, at one member: what comes in goes to the share that it is about, and shares are given back one
//! at a time.
//!
//! A group that is not divided is one share without a name.

use crate::heartbeat::Heartbeat;
use crate::member::{Config, ConfigError, Member};
use crate::message::Message;
use crate::placement;
use crate::store::Owner;
use std::collections::HashMap;

/// Shares of a group, at most.
pub const SHARES_MAX: usize = 256;
/// Between two shares that a member gives back: the next one goes when the network has learnt where the last one is.
const BETWEEN_NS: u64 = 250_000_000;

/// A share, and whom it prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Members that come first, in this order; the others behind them.
    pub prefer: Vec<String>,
}

/// All of them.
#[derive(Debug)]
pub struct Shares {
    members: Vec<Member>,
    /// Which of them has this name: each heartbeat and each message asks.
    places: HashMap<String, usize>,
    moved_ns: Option<u64>,
}

impl Shares {
    /// One state machine for each share; one alone, as `config` has it, if there are none.
    ///
    /// # Errors
    /// [`ConfigError`], also of more than [`SHARES_MAX`] and of two with one name.
    pub fn new(config: &Config, shares: &[Share], now_ns: u64) -> Result<Shares, ConfigError> {
        config.check()?;
        if shares.len() > SHARES_MAX {
            return Err(ConfigError::Many);
        }
        let mut members = Vec::new();
        let mut places = HashMap::new();
        for (n, share) in shares.iter().enumerate() {
            if places.insert(share.name.clone(), n).is_some() {
                return Err(ConfigError::ShareTwice(share.name.clone()));
            }
            if share.name.is_empty() {
                return Err(ConfigError::Name(share.name.clone()));
            }
            let known = |name: &&String| **name == config.name || config.peers.contains(name);
            if let Some(other) = share.prefer.iter().find(|name| !known(name)) {
                return Err(ConfigError::Prefers(share.name.clone(), other.clone()));
            }
            let place = placement::place(&share.name, &config.name, &config.peers, &share.prefer);
            let priority = placement::priority(place);
            let config = Config { share: share.name.clone(), priority, ..config.clone() };
            members.push(Member::new(config, now_ns)?);
        }
        if members.is_empty() {
            places.insert(config.share.clone(), 0);
            members.push(Member::new(config.clone(), now_ns)?);
        }
        Ok(Shares { members, places, moved_ns: None })
    }

    /// Each of them, in the order in which they were given.
    pub fn all(&self) -> &[Member] {
        &self.members
    }

    /// Each of them, to do something with.
    pub fn all_mut(&mut self) -> &mut [Member] {
        &mut self.members
    }

    /// Which share has this name.
    pub fn find(&self, share: &str) -> Option<usize> {
        self.places.get(share).copied()
    }

    /// A heartbeat has come, by any path.
    pub fn heard(&mut self, now_ns: u64, beat: Heartbeat) {
        if let Some(at) = self.find(&beat.share) {
            self.members[at].heard(now_ns, beat);
        }
    }

    /// A member's process has ended.
    pub fn closed(&mut self, now_ns: u64, name: &str) {
        self.members.iter_mut().for_each(|member| member.closed(now_ns, name));
    }

    /// A message of the stream has come; which share it was about.
    pub fn received(&mut self, now_ns: u64, message: Message) -> Option<usize> {
        let at = self.find(&message.share)?;
        self.members[at].received(now_ns, message);
        Some(at)
    }

    /// What the store holds of a share.
    pub fn stored(&mut self, now_ns: u64, share: &str, revision: u64, owner: Option<Owner>) {
        if let Some(at) = self.find(share) {
            self.members[at].stored(now_ns, revision, owner);
        }
    }

    /// The engine is there, or is not.
    pub fn connected(&mut self, connected: bool) {
        self.members.iter_mut().for_each(|member| member.connected(connected));
    }

    /// Time has passed.
    pub fn tick(&mut self, now_ns: u64, wall_ns: u64) {
        self.members.iter_mut().for_each(|member| member.tick(now_ns, wall_ns));
    }

    /// When [`tick`](Self::tick) is due at the latest.
    pub fn next_wake(&self) -> u64 {
        self.members.iter().map(Member::next_wake).min().unwrap_or(u64::MAX)
    }

    /// The share that is to be handed over now, to a member that it prefers. The next one comes some time later.
    pub fn gives_back(&mut self, now_ns: u64) -> Option<usize> {
        if self.moved_ns.is_some_and(|moved| now_ns.saturating_sub(moved) < BETWEEN_NS) {
            return None;
        }
        let at = self.members.iter().position(|member| member.gives_back(now_ns))?;
        self.moved_ns = Some(now_ns);
        Some(at)
    }
}

#[cfg(test)]
mod tests;
