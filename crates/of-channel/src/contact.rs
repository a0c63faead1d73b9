//! What has become of the attempts to reach each controller of the configuration.
//!
//! Kept by target, for who shows it to people. Time is an argument.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How far it is, as Open vSwitch names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was tried yet.
    #[default]
    Void,
    /// An attempt is under way.
    Connecting,
    /// It is connected, and has shaken hands.
    Active,
    /// The next attempt is waited for.
    Backoff,
}

impl Phase {
    /// As Open vSwitch writes it.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Void => "VOID",
            Phase::Connecting => "CONNECTING",
            Phase::Active => "ACTIVE",
            Phase::Backoff => "BACKOFF",
        }
    }
}

/// A controller of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contact {
    /// How far it is.
    pub phase: Phase,
    /// Why the last connection ended, or did not come to be.
    pub last_error: Option<String>,
    /// When it had shaken hands last.
    pub connected: Option<Instant>,
    /// When such a connection ended last.
    pub disconnected: Option<Instant>,
}

impl Contact {
    pub(crate) fn tries(&mut self) {
        self.phase = Phase::Connecting;
    }

    pub(crate) fn is_there(&mut self, now: Instant) {
        self.phase = Phase::Active;
        self.connected = Some(now);
    }

    /// A connection ended, or an attempt failed.
    pub(crate) fn ended(&mut self, why: &str, now: Instant) {
        if self.phase == Phase::Active {
            self.disconnected = Some(now);
        }
        self.phase = Phase::Backoff;
        // The system's number says what the words before it say.
        let words = why.split(" (os error ").next().unwrap_or(why);
        self.last_error = Some(words.to_owned());
    }
}

/// All of them, by target.
#[derive(Debug, Default)]
pub(crate) struct Contacts(Mutex<BTreeMap<String, Contact>>);

impl Contacts {
    pub(crate) fn change(&self, target: &str, change: impl FnOnce(&mut Contact)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(target.to_owned()).or_default());
    }

    pub(crate) fn all(&self) -> BTreeMap<String, Contact> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn attempts_and_connections_are_told_apart() {
        let (contacts, start) = (Contacts::default(), Instant::now());
        let later = start + Duration::from_secs(1);
        let of = || contacts.all().remove("tcp:a:1").unwrap_or_default();
        contacts.change("tcp:a:1", Contact::tries);
        assert_eq!(of().phase, Phase::Connecting);
        contacts.change("tcp:a:1", |one| one.ended("Connection refused (os error 111)", start));
        assert_eq!(of().last_error.as_deref(), Some("Connection refused"));
        assert_eq!((of().phase.word(), of().disconnected), ("BACKOFF", None));
        contacts.change("tcp:a:1", |one| one.is_there(start));
        contacts.change("tcp:a:1", |one| one.ended("End of file", later));
        assert_eq!((of().connected, of().disconnected), (Some(start), Some(later)));
    }
}
