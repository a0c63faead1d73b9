//! Where copies of a packet go, called in the order of the program's steps.

use ir::{Bits, DigestId, EntryId, GroupId, PuntReason, TableId};

/// A packet as it leaves: two runs of bytes, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Emitted headers (and whatever of the payload had to be copied). If the packet is unchanged,
    /// a prefix of the input.
    pub headers: &'a [u8],
    /// The rest: always a tail of the input bytes, never a copy of them.
    pub payload: &'a [u8],
    /// The bytes are those that came in.
    pub unchanged: bool,
}

impl Packet<'_> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.headers.len() + self.payload.len()
    }

    /// There are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        [self.headers, self.payload].concat()
    }
}

/// Who called blocks that a packet is still in ([`ir::Op::Call`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The table looked up last by then, if any.
    pub table: Option<TableId>,
    /// The entry that matched in it.
    pub entry: Option<EntryId>,
    /// The bucket whose action it was, if it was no table's: its group, and its place in it.
    pub bucket: Option<(GroupId, u32)>,
    /// Which call of the action.
    pub site: u16,
}

/// A copy for the control plane.
#[derive(Clone, Copy, Debug)]
pub struct Punt<'a> {
    /// Why.
    pub reason: PuntReason,
    /// The table looked up last, if any.
    pub table: Option<TableId>,
    /// The entry that matched in it; `None` after a miss.
    pub entry: Option<EntryId>,
    /// The bucket whose action punts, if it is no table's: its group, and its place in it.
    pub bucket: Option<(GroupId, u32)>,
    /// Who called what this is in, of this copy of the packet alone; the first one first.
    pub callers: &'a [Caller],
    /// Values that the control plane asked for, by position.
    pub args: &'a [Bits],
    /// The packet as it is at that moment.
    pub packet: Packet<'a>,
}

/// Where copies go.
pub trait Sink {
    /// A copy for a port.
    fn output(&mut self, port: u32, queue: u32, packet: Packet<'_>);

    /// The packet that is sent next has been cut to at most so many bytes, however many it had. Only the interpreter says so:
    /// for traces.
    fn cut_to(&mut self, _bytes: u32) {}

    /// A copy for the control plane.
    fn punt(&mut self, punt: Punt<'_>);
    /// A message for the control plane, one value for each of the digest's fields.
    fn digest(&mut self, digest: DigestId, args: &[Bits]);
}

/// A copy that went to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The port.
    pub port: u32,
    /// Its queue.
    pub queue: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// As [`Packet::unchanged`].
    pub unchanged: bool,
}

/// A copy that went to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Punted {
    /// Why.
    pub reason: PuntReason,
    /// The table looked up last, if any.
    pub table: Option<TableId>,
    /// The entry that matched in it.
    pub entry: Option<EntryId>,
    /// Values beside it.
    pub args: Vec<Bits>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A sink that keeps everything, for tests and offline runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collect {
    /// Copies to ports, in order.
    pub outputs: Vec<Output>,
    /// Copies to the control plane, in order.
    pub punts: Vec<Punted>,
    /// Messages to the control plane, in order.
    pub digests: Vec<(DigestId, Vec<Bits>)>,
}

impl Sink for Collect {
    fn output(&mut self, port: u32, queue: u32, packet: Packet<'_>) {
        let Packet { unchanged, .. } = packet;
        self.outputs.push(Output { port, queue, bytes: packet.to_vec(), unchanged });
    }

    fn punt(&mut self, punt: Punt<'_>) {
        self.punts.push(Punted {
            reason: punt.reason,
            table: punt.table,
            entry: punt.entry,
            args: punt.args.to_vec(),
            bytes: punt.packet.to_vec(),
        });
    }

    fn digest(&mut self, digest: DigestId, args: &[Bits]) {
        self.digests.push((digest, args.to_vec()));
    }
}
