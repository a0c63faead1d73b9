//! What a standby knows of the active member's stream.
//!
//! Messages come in order, or not at all, or late. The number of each tells: the next one is applied; one that was there is not; one
//! beyond the next means that something is lost, and all connections are asked for.

use crate::message::{Body, Message, Part};

/// Whether a standby has what the active member has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Something is missing, and all is to be asked for.
    Missing,
    /// All was asked for, at this time.
    Asked(u64),
    /// It comes, under this number.
    Comes(u64),
    /// It has all.
    Has,
}

/// What is to be done with a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Take {
    /// Nothing: it was there.
    Nothing,
    /// All begins.
    Begin,
    /// These are applied.
    Apply(Vec<Part>),
    /// All has come.
    End,
    /// This member goes on in the sender's place.
    GoOn,
}

/// The stream of one active member, in one epoch.
#[derive(Debug)]
pub struct Receiver {
    /// Whose, and in which epoch.
    of: Option<(String, u64)>,
    /// The number of the message that comes next.
    next: u64,
    sync: Sync,
    /// Messages that were missing when a later one came.
    pub(crate) gaps: u64,
    /// Messages of members that are not active any more.
    pub(crate) stale: u64,
}

impl Receiver {
    /// Nothing was heard yet.
    pub(crate) fn new() -> Receiver {
        Receiver { of: None, next: 0, sync: Sync::Missing, gaps: 0, stale: 0 }
    }

    /// Whether it has what the active member has.
    pub fn sync(&self) -> Sync {
        self.sync
    }

    /// Whose stream it is, and in which epoch.
    pub(crate) fn of(&self) -> Option<(&str, u64)> {
        self.of.as_ref().map(|(name, epoch)| (&**name, *epoch))
    }

    /// The number of the last message that was taken.
    pub fn applied(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// All was asked for.
    pub(crate) fn asked(&mut self, now_ns: u64) {
        self.sync = Sync::Asked(now_ns);
    }

    /// Something of the stream was not applied.
    pub(crate) fn lost(&mut self) {
        self.sync = Sync::Missing;
    }

    /// Whom it follows has started anew.
    pub(crate) fn begin_anew(&mut self) {
        (self.next, self.sync) = (0, Sync::Missing);
    }

    /// The active member is another one, or the same anew: what is known stays until its own is here.
    pub(crate) fn follow(&mut self, member: &str, epoch: u64) {
        let same = self.of.as_ref().is_some_and(|(name, e)| name == member && *e == epoch);
        if !same {
            self.of = Some((member.to_owned(), epoch));
            (self.next, self.sync) = (0, Sync::Missing);
        }
    }

    /// Takes a message of the member that it follows.
    pub(crate) fn take(&mut self, me: &str, message: Message) -> Take {
        let Message { from, epoch, seq, body, .. } = message;
        if self.of.as_ref().is_none_or(|(name, e)| *name != from || *e != epoch) {
            self.stale += 1;
            return Take::Nothing;
        }
        if self.next != 0 && seq < self.next {
            return Take::Nothing;
        }
        if self.next != 0 && seq > self.next {
            self.gaps += 1;
            self.sync = Sync::Missing;
        }
        self.next = seq.saturating_add(1);
        match (body, self.sync) {
            (Body::Changes(parts), _) if parts.is_empty() => Take::Nothing,
            // Whole states: they are right, whatever else is missing.
            (Body::Changes(parts), _) => Take::Apply(parts),
            (Body::AllBegins { id, to }, Sync::Missing | Sync::Asked(_)) if to == me => {
                self.sync = Sync::Comes(id);
                Take::Begin
            }
            (Body::PartOfAll { id, parts }, Sync::Comes(this)) if id == this => Take::Apply(parts),
            (Body::AllEnds { id }, Sync::Comes(this)) if id == this => {
                self.sync = Sync::Has;
                Take::End
            }
            (Body::GoOn { to }, _) if to == me => Take::GoOn,
            _ => Take::Nothing,
        }
    }
}
