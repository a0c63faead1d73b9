//! What records say: the state for packets, the list that they are in.

use super::lists::Queue;
use super::record::{Flags, Record};
use super::state::{CtState, Direction};
use super::{sctp, tcp};
use wire::IpProtocol;

/// What a packet of a connection with these flags is told.
#[inline(always)]
pub(super) fn told(flags: Flags, direction: Direction) -> CtState {
    let state = match direction {
        Direction::Reply => CtState::ESTABLISHED | CtState::REPLY,
        Direction::Original if flags.has(Flags::REPLIED) => CtState::ESTABLISHED,
        Direction::Original => CtState::NEW,
    };
    state | CtState::TRACKED
}

/// Where a connection waits for its end: in a queue while it is half-open, then in the wheel, and in a queue when it is over.
pub(super) fn queue(record: &Record) -> Option<Queue> {
    let replied = record.flags().has(Flags::REPLIED);
    match IpProtocol(record.protocol) {
        IpProtocol::TCP => match tcp::State::from_number(record.state()) {
            tcp::State::SynReceived => Some(Queue::SynReceived),
            state if state.is_handshake() => Some(Queue::SynSent),
            _ if !replied => Some(Queue::PickedUp),
            tcp::State::TimeWait => Some(Queue::TimeWait),
            tcp::State::Closed => Some(Queue::Closed),
            _ => None,
        },
        IpProtocol::SCTP => {
            let assured = record.flags().has(Flags::ASSURED);
            match sctp::State::from_number(record.state()) {
                _ if !replied || !assured => Some(Queue::Sctp),
                sctp::State::Closed => Some(Queue::Closed),
                _ => None,
            }
        }
        _ if replied => None,
        IpProtocol::UDP | IpProtocol::UDP_LITE => Some(Queue::Udp),
        _ if record.flags().has(Flags::QUERY) => Some(Queue::Icmp),
        _ => Some(Queue::Other),
    }
}
