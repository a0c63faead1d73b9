//! An answer in parts: a length of 4 octets, then that much; 0 ends it. What goes over that has a form of its own.

use openflow::{Action, Instruction, Message, Version};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// The version whose messages say all that entries are.
pub(crate) const VERSION: Version = Version::V15;
/// Octets of one part, at most.
pub(crate) const PART_MAX: usize = 1 << 20;
/// What this process is able to do as the running one: see the head of [`takeover`](super).
pub(crate) const STEPS: u64 = 6;
/// What one must be able to do to stop before it ends.
pub(crate) const STOPS: u64 = 2;
/// What one must be able to do to hand its sockets over.
pub(crate) const HANDS_SOCKETS: u64 = 3;

/// What one must be able to do to hand over what its services keep.
pub(crate) const HANDS_SERVICES: u64 = 4;

/// What one must be able to do to hand over several bridges, and P4 programs.
pub(crate) const HANDS_BRIDGES: u64 = 5;

/// What one must be able to do to hand over what ports and entries have counted.
pub(crate) const HANDS_COUNTERS: u64 = 6;

/// All bridges, the first one first.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Told {
    pub(crate) bridges: Vec<One>,
}

/// A bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct One {
    pub(crate) name: String,
    /// It runs a P4 program, in place of OpenFlow's tables.
    pub(crate) p4: bool,
    /// Its services, as `--service` takes them.
    pub(crate) services: Vec<String>,
    /// Services that no line can say.
    pub(crate) unsaid: Vec<String>,
}

/// An entry with an action of 1.0's is one of 1.0's: it may take away a tag that is not there.
pub(crate) fn in_its_dialect(mut message: Message) -> Message {
    if let Message::FlowMod(flow) = &mut message
        && let [Instruction::ApplyActions(actions)] = &flow.instructions[..]
        && actions.iter().any(|action| action.is_of_v10() || *action == Action::PopVlan)
    {
        flow.dialect = Version::V10;
    }
    message
}

/// Writes an answer in parts.
pub(crate) struct Parts<W> {
    to: W,
    part: Vec<u8>,
}

impl<W: Write> Parts<W> {
    pub(crate) fn new(to: W) -> Parts<W> {
        Parts { to, part: Vec::new() }
    }

    fn send(&mut self) -> std::io::Result<()> {
        self.to.write_all(&(self.part.len() as u32).to_le_bytes())?;
        self.to.write_all(&self.part)?;
        self.part.clear();
        Ok(())
    }

    /// What is left, and that it was all.
    pub(crate) fn end(mut self) -> std::io::Result<()> {
        self.flush()?;
        self.send()
    }
}

impl<W: Write> Write for Parts<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = PART_MAX - self.part.len();
        let some = &bytes[..bytes.len().min(room)];
        self.part.extend_from_slice(some);
        if self.part.len() == PART_MAX {
            self.send()?;
        }
        Ok(some.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.part.is_empty() { Ok(()) } else { self.send() }
    }
}
