//! What is asked of a tracker and what it answers: requests, outcomes, counters, connections as people see them.

use super::account::Account;
use super::alg::Alg;
use super::state::{Apart, CtState, Drop};
use super::tuple::Tuple;
use super::{sctp, tcp};
use crate::nat;

/// What translation an action asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nat {
    /// None.
    #[default]
    None,
    /// Packets of connections that are translated, from their first answer on.
    Existing,
    /// That, and new connections by this rule.
    New(nat::Rule),
}

/// What the pipeline's action says: Open vSwitch's `ct(...)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// The zone.
    pub zone: u16,
    /// Whether a new connection is kept.
    pub commit: bool,
    /// Whether a connection that goes the other way is replaced by one that goes this way.
    pub force: bool,
    /// Translation.
    pub nat: Nat,
    /// Value and mask for the mark of connections that are kept.
    pub mark: Option<(u32, u32)>,
    /// Value and mask for the label of connections that are kept.
    pub label: Option<(u128, u128)>,
    /// Which helper a new connection that is kept has.
    pub alg: Option<Alg>,
    /// What can be done with packets that must not be judged here.
    pub apart: Apart,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Its `ct_state`.
    pub state: CtState,
    /// Its `ct_mark`.
    pub mark: u32,
    /// Its `ct_label`.
    pub label: u128,
    /// Of its connection, the opener's direction; none for a packet that belongs to none.
    pub original: Option<Tuple>,
    /// Set if it must be dropped.
    pub drop: Option<Drop>,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What has happened. Each packet is counted under one of the first eight.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// These and those.
            pub fn with(&self, more: &Counters) -> Counters {
                Counters { $($name: self.$name + more.$name,)* }
            }

            /// Names, in stable words, and numbers.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Packets that open a connection or come before its answer.
    new,
    /// Packets of answered connections.
    established,
    /// Errors about packets of connections.
    related,
    /// Packets not tracked, by protocol.
    untracked,
    /// Headers cut short, flags that make no sense, a wrong checksum.
    malformed,
    /// Fragments without their first.
    fragment_orphan,
    /// Packets that their connection, or the lack of one, makes invalid.
    invalid,
    /// Packets to be dropped for want of room or ports.
    refused,
    /// Connections kept.
    connections_opened,
    /// Connections whose time was over.
    connections_expired,
    /// Connections closed by a packet.
    connections_closed,
    /// Half-open connections that made room for others.
    half_open_evicted,
    /// Closed connections that made room for others.
    closed_evicted,
    /// Closed connections whose address and port another one has got.
    closed_replaced,
    /// Connections refused for want of room.
    table_full,
    /// Connections refused since their zone has as many as it may.
    zone_full,
    /// Connections refused for want of an address and port.
    nat_exhausted,
    /// Packets without a connection, dropped while another process may open it.
    fenced,
    /// Connections refused since their answers would be another's packets.
    insert_failed,
    /// Packets whose translation is impossible.
    nat_impossible,
    /// Connections taken over from an [`image`].
    connections_imported,
    /// Packets whose port has named their connection.
    hints_used,
    /// Packets whose port has named another, or none that is there.
    hints_stale,
    /// Connections that control connections have announced.
    alg_announced,
    /// Of them, those that came and were kept.
    alg_related,
    /// Announcements of another's address, or for which there is no port or room.
    alg_refused,
    /// Segments dropped since an announcement in them is cut off.
    alg_partial,
    /// Packets left to come alone, behind their burst.
    left_apart,
    /// Fragments that have waited for their first.
    fragments_waited,
    /// Of them, those whose first has not come, or that made room for others.
    fragments_lost,
    /// Fragments that overlap others of their datagram, dropped.
    fragments_overlapping,
    /// Fragments that begin within the transport header, dropped.
    fragments_tiny,
    /// Datagrams in fragments that made room for others.
    fragmented_evicted,
}

/// A connection, as shown to people and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The opener's direction.
    pub original: Tuple,
    /// The other.
    pub reply: Tuple,
    /// The mark.
    pub mark: u32,
    /// The label.
    pub label: u128,
    /// The state of TCP's machine.
    pub tcp: Option<tcp::State>,
    /// The state of SCTP's.
    pub sctp: Option<sctp::State>,
    /// Whether it was answered.
    pub replied: bool,
    /// Whether both ends have proved themselves.
    pub assured: bool,
    /// Seconds until it is gone unless a packet comes, rounded.
    pub timeout: u32,
    /// What was counted of it, if that is counted.
    pub account: Option<Account>,
}

/// Memory taken, in octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Records and what goes with each.
    pub records: usize,
    /// The index.
    pub index: usize,
    /// Extensions, fragments.
    pub other: usize,
}

impl Memory {
    /// All of it.
    pub fn total(&self) -> usize {
        self.records + self.index + self.other
    }
}

/// What a packet that makes no sense is told.
pub(super) const INVALID: Outcome = Outcome {
    state: CtState(CtState::INVALID.0 | CtState::TRACKED.0),
    mark: 0,
    label: 0,
    original: None,
    drop: None,
};

/// What a packet without a connection is told while another process may open it.
pub(super) const FENCED: Outcome = Outcome {
    state: CtState(CtState::NEW.0 | CtState::TRACKED.0),
    drop: Some(Drop::Fenced),
    ..INVALID
};
