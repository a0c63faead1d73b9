//! The configuration of a fleet: gateways without a controller take it from JetStream's key-value store.
//!
//! In: `--config nats://HOST[:PORT]/GROUP` ([`place`]), and versions that `millrace config apply FILE --to` writes there. Out: a process
//! that is what the last version says, and an acknowledgement in the store that says so, or why not.
//!
//! | module | is |
//! |---|---|
//! | [`place`] | where the configuration is, who this member is, where its copy lies |
//! | [`plain`], [`version`] | a version: its number, its text, its digest; whether it waits for a confirmation; what of it is one member's |
//! | [`ack`] | what a member says of a version |
//! | [`store`] | the store: read, followed, written by compare and set |
//! | [`cache`] | the copies on the disk |
//! | [`begin`], [`begun`] | the version that a process starts with |
//! | [`member`] | the thread that follows the store |
//! | [`ask`] | what operators ask of the store |
//!
//! Invariants:
//! - No two versions have one number: a version is written only over the one before it.
//! - A version is applied as one transaction ([`reload`](crate::reload)), or not at all. A member that refuses one goes on as it was.
//! - What a process starts with is the last version that is confirmed, or, if that was refused, the last good one.
//! - Members only read versions, and write only what they say of them.
//!
//! Checked by: the tests of its modules; `crates/millrace/tests/fleet.rs`, with a real server.

mod ack;
pub mod ask;
mod begin;
mod begun;
mod cache;
mod member;
pub(crate) mod place;
mod plain;
pub(crate) mod store;
pub(crate) mod version;

pub use begin::{not_started, prepare};
pub use begun::Begun;
pub(crate) use member::Fleet;
pub use place::Place;

use crate::sync::lock;
use ack::Ack;
use std::sync::Mutex;

/// Octets as a server might give them, for [`crate::fuzz`]: as an envelope, and as the text of one.
pub(crate) fn fuzz(data: &[u8]) {
    use plain::Plain;
    use version::{Version, changes, check, members, of_member};
    if let Ok(version) = Version::decode(data) {
        assert_eq!(Version::decode(&version.encode()), Ok(version.clone()));
    }
    if let Some(ack) = Ack::decode(data) {
        assert_eq!(Ack::decode(&ack.encode()), Some(ack));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let plain = Plain::new(1, String::new(), String::new(), text.to_owned());
    let version = Version { version: plain, waits: None };
    assert_eq!(Version::decode(&version.encode()), Ok(version));
    assert!(changes(text, text).is_empty());
    if let Ok(members) = members(text) {
        for member in members {
            // What is left is a table, and has no members.
            let (own, has) = of_member(text, &member).unwrap_or_default();
            assert!(has && of_member(&own, &member).is_ok_and(|(_, has)| !has));
        }
    }
    let _ = check(text);
    let _ = Place::parse(text);
}

/// What is known of this member, for metrics and the group's digest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    pub(crate) group: String,
    pub(crate) ack: Ack,
    /// The last version that the store has offered.
    pub(crate) offered: u64,
    /// Whether the store is there.
    pub(crate) connected: bool,
    pub(crate) applied: u64,
    pub(crate) refused: u64,
    /// Versions that were taken back, since nobody has confirmed them.
    pub(crate) lapsed: u64,
    /// Values in the store that were none.
    pub(crate) damaged: u64,
}

/// The same, for who shows it.
#[derive(Debug, Default)]
pub(crate) struct View(Mutex<Shown>);

impl View {
    pub(crate) fn shown(&self) -> Shown {
        lock(&self.0).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut lock(&self.0));
    }

    /// What must be the same for one member of a group to go on for another.
    pub(crate) fn digest(&self) -> String {
        let shown = lock(&self.0);
        format!("{} {}", shown.ack.running, shown.ack.digest)
    }
}
