//! What came of a run: each probe's times, and what was odd.

use crate::expect;
use std::collections::BTreeMap;

/// A probe that leaves so much after it was due has missed its slot, in nanoseconds.
pub const SLOT_NS: u64 = 1_000_000;

/// What is wrong with frames that came out, whatever the rules are, and what came that is not of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Odd {
    /// Frames that were compared, or are probes.
    pub looked_at: u64,
    /// Copies beyond the first.
    pub doubled: u64,
    /// Probes that came back at the port that sends.
    pub returned: u64,
    /// Frames of which one bit was flipped.
    pub corrupted: u64,
    /// Frames that differ otherwise from what they should be.
    pub changed: u64,
    /// Frames that came out as they went in, though the rule changes them.
    pub undone: u64,
    /// Frames that look like ours but whose mark cannot be read.
    pub unreadable: u64,
    /// The fields that differ, and in how many frames.
    pub fields: BTreeMap<&'static str, u64>,
    /// The bit that was flipped first, and whether it was always that one.
    pub bit: Option<(usize, bool)>,
    /// Probes of another process.
    pub others: u64,
    /// Probes of earlier runs of this process.
    pub earlier: u64,
    /// Frames that are no probes.
    pub foreign: u64,
    /// Bytes of these, and of others' and earlier probes.
    pub strange_bytes: u64,
    /// Frames that others have sent out of the sending port's interface.
    pub sent_by_others: u64,
    /// How often a link was found gone.
    pub link_gone: u64,
}

impl Odd {
    /// Adds what another run saw.
    pub fn add(&mut self, more: &Odd) {
        let Odd { looked_at, doubled, returned, corrupted, changed, undone, unreadable, .. } = more;
        self.looked_at += looked_at;
        self.doubled += doubled;
        self.returned += returned;
        self.corrupted += corrupted;
        self.changed += changed;
        self.undone += undone;
        self.unreadable += unreadable;
        more.fields.iter().for_each(|(name, n)| *self.fields.entry(name).or_default() += n);
        self.bit = match (self.bit, more.bit) {
            (Some((a, same)), Some((b, too))) => Some((a, same && too && a == b)),
            (a, b) => a.or(b),
        };
        self.others += more.others;
        self.earlier += more.earlier;
        self.foreign += more.foreign;
        self.strange_bytes += more.strange_bytes;
        self.sent_by_others += more.sent_by_others;
        self.link_gone += more.link_gone;
    }

    /// Frames that came out and are not of the run.
    pub fn strangers(&self) -> u64 {
        self.others + self.earlier + self.foreign
    }

    pub(super) fn differs(&mut self, expected: &[u8], came: &[u8]) {
        match expect::flipped(expected, came) {
            Some(bit) => {
                self.corrupted += 1;
                self.bit = Some(self.bit.map_or((bit, true), |(b, same)| (b, same && b == bit)));
            }
            None => self.changed += 1,
        }
        for name in expect::differences(expected, came) {
            *self.fields.entry(name).or_default() += 1;
        }
    }
}

/// What happened, probe by probe: the index is the sequence number. Times by [`clock`]; 0 is never.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// When each was due.
    pub due: Vec<u64>,
    /// When each was sent; of those that the port took.
    pub sent: Vec<u64>,
    /// When each first came back.
    pub received: Vec<u64>,
    /// When the kernel handed each to its device, and took it from one, by the wall clock; 0 where it did not say.
    pub on_wire: Vec<[u64; 2]>,
    /// Which of them came back at the port that sent them ([`Plan::both`]).
    pub returned: Vec<bool>,
    /// When the link was taken away; 0 if it was not.
    pub cut_at: u64,
    /// From the first probe's being sent to the last one's, in nanoseconds.
    pub sending_ns: u64,
    /// Probes or frames that nobody took in time from [`Live::with_captures`] or [`Live::with_frames`].
    pub untold: u64,
    /// Frames that the filter kept out.
    pub filtered: u64,
    /// When the first and the last probe came back; 0 if none did.
    pub came_first: u64,
    /// Likewise.
    pub came_last: u64,
    /// What is wrong with what came, and what is not ours.
    pub odd: Odd,
    /// Whether the sending ended early, as latencies said that there is a queue.
    pub queued: bool,
    /// Probes that came after a later one of the same flow.
    pub reordered: u64,
    /// Probes that our port refused to send.
    pub refused: u64,
    /// Frames that were lost on our side of the wire.
    pub missed: u64,
    /// Probes that left more than [`SLOT_NS`] after they were due.
    pub late: u64,
}

impl Capture {
    /// Probes sent.
    pub fn sent_count(&self) -> u64 {
        self.sent.iter().filter(|t| **t > 0).count() as u64
    }

    /// Probes that were sent and did not come out. What came but could not be read is not counted here.
    pub fn lost_count(&self) -> u64 {
        self.sent_count().saturating_sub(self.received_count() + self.odd.unreadable)
    }

    /// Probes that came back, each counted once.
    pub fn received_count(&self) -> u64 {
        self.received.iter().filter(|t| **t > 0).count() as u64
    }

    /// From when it was due to its coming back, of each that did, in nanoseconds.
    pub fn latencies(&self) -> impl Iterator<Item = u64> + '_ {
        let both = self.due.iter().zip(&self.received);
        both.filter(|(_, r)| **r > 0).map(|(due, r)| r.saturating_sub(*due))
    }

    /// From when the kernel let it go to when the kernel had it again, of each of which it said both, in nanoseconds.
    pub fn wires(&self) -> impl Iterator<Item = u64> + '_ {
        let known = self.on_wire.iter().filter(|[left, came]| *left > 0 && *came > 0);
        known.map(|[left, came]| came.saturating_sub(*left))
    }
}
