//! What a burst leaves behind: answers of services, copies that were laid, what was done to state and told.
//!
//! Cost: nothing is allocated per burst once a [`Scratch`] has served the same code before.

use crate::compile::Compiled;
use crate::journal::{Did, Journal};
use crate::messages::Messages;
use crate::state::Pace;
use abi::{BURST_MAX, IMAGES_BYTES, Noted};
use smallvec::SmallVec;

/// Memory with the alignment of a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

/// Buffers of a burst, used again from burst to burst.
#[derive(Default)]
pub struct Scratch {
    /// The code that they are laid out for.
    pub(crate) id: Option<u64>,
    /// What segments see, laid out by the code's [`Frame`].
    pub(crate) block: Vec<Line>,
    /// Answers of services, stop by stop.
    pub(crate) answers: Vec<u64>,
    /// Where each stop's begin.
    pub(crate) answered: Vec<usize>,
    /// Calls of the last burst, in order.
    pub(crate) calls: Vec<Call>,
    /// Packets that were handed to a service that edits, call by call.
    pub(crate) edited: Vec<Edited>,
    /// Bytes of packets before calls that might change them, and after.
    pub(crate) bytes: Vec<u8>,
    /// What code notes beside packets, and headers of copies; none before some code does.
    pub(crate) noted: Vec<Noted>,
    pub(crate) images: Vec<u8>,
    /// What the packets of the last burst have done to state, and told.
    /// In a box, as the functions that code calls write to it while the rest is the driver's.
    pub(crate) past: Box<Past>,
    pub(crate) pace: Pace,
    /// By node: its table.
    pub(crate) tables: Vec<ir::TableId>,
    /// The last burst was run by code.
    pub(crate) ran: bool,
}

/// What code has done besides forwarding, in the last burst.
#[derive(Default)]
pub(crate) struct Past {
    pub(crate) journal: Journal,
    pub(crate) messages: Messages,
}

/// Packets were handed to a service. One for all of a burst that came to the call: only those that bail out behind it ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Where the answers of packet 0 would begin, and words of each packet's.
    pub(crate) answers: (usize, usize),
    /// By packet: it was handed over; it went on.
    pub(crate) packets: u64,
    pub(crate) passes: u64,
    /// By packet: it was handed over, and answered or left.
    pub(crate) handed: u64,
    /// For a service that edits: where the first of them is among [`Scratch::edited`].
    pub(crate) edited: Option<usize>,
}

/// A packet was handed to a service that might change it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edited {
    pub(crate) packet: u32,
    /// How many copies had been laid beside it.
    pub(crate) laid: u8,
    /// Where the packet's bytes before the call are, and how many.
    pub(crate) before: u32,
    pub(crate) len: u32,
    /// And behind it, if the packet has bailed out: where they are, and how many.
    pub(crate) after: Option<(u32, u32)>,
}

/// What code was told about a packet, for whoever runs it again from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// What services have said, call by call. Bytes are there for packets that have bailed out.
    pub calls: Vec<Answered>,
    /// What it has done to state, in order.
    pub did: Vec<Did>,
}

impl Said {
    /// Nothing.
    pub const NONE: Said = Said { calls: Vec::new(), did: Vec::new() };

    /// It was told nothing.
    pub fn is_none(&self) -> bool {
        self.calls.is_empty() && self.did.is_empty()
    }
}

/// What a service has said of a packet, and made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The packet goes on.
    pub passes: bool,
    /// Its answers, as [`Handed::results`].
    pub results: SmallVec<[u64; 16]>,
    /// The packet's bytes behind the call, if the service may have changed them.
    pub bytes: Option<Vec<u8>>,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scratch(for {:?})", self.id)
    }
}

impl Scratch {
    /// Nothing yet.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    pub(crate) fn prepare(&mut self, code: &Compiled) {
        if self.id == Some(code.id) {
            return;
        }
        if code.notes && self.noted.is_empty() {
            self.noted.resize(BURST_MAX, Noted::NONE);
            self.images.resize(IMAGES_BYTES, 0);
        }
        self.block.clear();
        let lines = code.frame.bytes(code.points).div_ceil(size_of::<Line>());
        self.block.resize(lines, Line([0; 64]));
        self.pace = Pace::default();
        self.tables.clear();
        self.tables.extend(code.nodes.iter().map(|node| node.table));
        self.answered.clear();
        let mut answers = 0;
        for stop in &code.stops {
            self.answered.push(answers);
            answers += BURST_MAX * stop.words.1;
        }
        self.answers.clear();
        self.answers.resize(answers, 0);
        self.id = Some(code.id);
    }

    /// A burst is run without code: no service has seen any of its packets.
    pub fn forget(&mut self) {
        self.ran = false;
        self.calls.clear();
        self.edited.clear();
        self.bytes.clear();
        self.past.journal.clear();
        self.past.messages.clear();
    }

    /// Where code has dealt the packets of the last burst to, if it was run by code.
    #[inline]
    pub fn dealt(&self) -> Option<&abi::Dealt> {
        crate::run::context(self).map(|context| &context.dealt)
    }

    /// What was said of a packet of the last burst.
    pub fn said(&self, packet: usize) -> Said {
        Said { calls: self.answered(packet), did: self.past.journal.of(packet) }
    }

    pub(crate) fn answered(&self, packet: usize) -> Vec<Answered> {
        // Nearly always.
        if self.calls.is_empty() {
            return Vec::new();
        }
        let calls = self.calls.iter().filter(|call| call.packets >> packet & 1 != 0);
        let part = |(from, len): (u32, u32)| from as usize..from as usize + len as usize;
        let answered = calls.map(|call| {
            let (first, words) = call.answers;
            let before = (call.handed & ((1 << packet) - 1)).count_ones() as usize;
            let after = call.edited.and_then(|edited| self.edited[edited + before].after);
            Answered {
                passes: call.passes >> packet & 1 != 0,
                results: SmallVec::from_slice(&self.answers[first + packet * words..][..words]),
                bytes: after.map(|after| self.bytes[part(after)].to_vec()),
            }
        });
        answered.collect()
    }

    /// The packet's bytes as they were when this copy of it was laid, if a service that might have changed them came behind.
    pub(crate) fn before(&self, packet: usize, copy: usize) -> Option<&[u8]> {
        let all = self.edited.iter().filter(|edited| edited.packet as usize == packet);
        let edited = { all }.find(|edited| copy < edited.laid.into())?;
        Some(&self.bytes[edited.before as usize..][..edited.len as usize])
    }

    /// Some service has seen, and might have changed, this packet of the last burst.
    pub fn was_edited(&self, packet: usize) -> bool {
        self.edited.iter().any(|edited| edited.packet as usize == packet)
    }
}
