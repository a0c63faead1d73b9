//! What packets are told of their connections, in words that all of the tracker uses.

use super::fragment::Ticket;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// As the connection's first packet.
    Original = 0,
    /// The other way.
    Reply = 1,
}

/// The bits of `ct_state`, as Open vSwitch numbers them (ovs-fields(7)).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CtState(pub u8);

impl CtState {
    /// It opens a connection, or the connection was not answered yet.
    pub const NEW: CtState = CtState(0x01);
    /// Of a connection that was answered.
    pub const ESTABLISHED: CtState = CtState(0x02);
    /// An error about a packet of a connection.
    pub const RELATED: CtState = CtState(0x04);
    /// In the reply direction.
    pub const REPLY: CtState = CtState(0x08);
    /// It makes no sense.
    pub const INVALID: CtState = CtState(0x10);
    /// It went through the tracker.
    pub const TRACKED: CtState = CtState(0x20);
    /// Its source was translated.
    pub const SOURCE_NAT: CtState = CtState(0x40);
    /// Its destination was translated.
    pub const DESTINATION_NAT: CtState = CtState(0x80);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: CtState) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for CtState {
    type Output = CtState;
    fn bitor(self, other: CtState) -> CtState {
        CtState(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for CtState {
    fn bitor_assign(&mut self, other: CtState) {
        self.0 |= other.0;
    }
}

/// As `ovs-ofctl` writes a match that sets these bits: `+est+rpl+trk`; `untracked` for none.
impl std::fmt::Display for CtState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 {
            return f.write_str("untracked");
        }
        let names = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
        names.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 != 0).try_for_each(
            |(_, name)| {
                f.write_str("+")?;
                f.write_str(name)
            },
        )
    }
}

impl std::fmt::Debug for CtState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Why the tracker wants a packet dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Drop {
    /// It opens a connection, and all room is taken by answered ones, or that of its zone is.
    TableFull,
    /// No address and port is left to translate it to.
    NatExhausted,
    /// No connection has it, and another process may open one for it.
    Fenced,
    /// Its answers would be another connection's packets: one that is translated has this address and port.
    Clash,
    /// A line of a control connection that may announce another, and is cut off.
    Partial,
    /// Its translation would change a checksum that covers what is not in the packet (SCTP fragments).
    NatImpossible,
    /// A fragment that overlaps others of its datagram, or begins within the transport header.
    Fragment,
    /// It is to come alone, behind its burst. Nothing was counted or noted.
    Apart,
    /// It is to be kept under this ticket. Nothing was counted.
    Waits(Ticket),
}

/// What a caller can do with packets that must not be judged where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Apart {
    /// Nothing.
    #[default]
    Never,
    /// Take them out of their burst, to come alone: [`Drop::Apart`].
    Leave,
    /// Keep them, until they are told to come again or are lost: [`Drop::Waits`].
    Hold,
}
