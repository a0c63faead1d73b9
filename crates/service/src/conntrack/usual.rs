//! The usual packet: one of an open connection, that changes nothing but how far it has come.
//!
//! In: a connection's parts, which the caller has to itself, and a packet. Out: what the packet is told, and what is left to be done where
//! lists and logs are: seldom anything. So the same rule serves who has the tracker alone and [who shares it](super::together).

use super::config::Config;
use super::lists::Lists;
use super::record::{Flags, Notes, Progress, Record, Rest};
use super::state::Direction;
use super::time::{deadline_after, deadline_of};
use super::zones::Zones;
use super::{parse, tcp};
use crate::packet::Packet;
use wire::IpProtocol;

/// What packets are judged by.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) config: &'a Config,
    pub(super) zones: &'a Zones,
    pub(super) lists: &'a Lists,
}

/// What such a packet may change of its connection, and what it is judged by.
pub(super) struct Parts<'a> {
    pub(super) state: u8,
    pub(super) zone: u16,
    pub(super) deadline: &'a mut u32,
    pub(super) progress: &'a mut Progress,
    pub(super) notes: &'a mut Notes,
}

impl<'a> Parts<'a> {
    /// Those of a connection that the caller has as its own.
    #[inline(always)]
    pub(super) fn of(record: &'a mut Record, rest: &'a mut Rest) -> Parts<'a> {
        let (state, zone) = (record.state(), record.zone);
        let (deadline, progress) = (&mut record.deadline, &mut record.progress);
        Parts { state, zone, deadline, progress, notes: &mut rest.notes }
    }
}

/// What became of it.
pub(super) enum Taken {
    /// It is the connection's, of which this is true now.
    Told { flags: Flags, left: Left },
    /// It is outside the connection's windows.
    Invalid { shorten: bool },
}

/// What is left to be done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
    /// The connection waits elsewhere for its end, which is so many seconds ahead.
    pub(super) refresh: Option<u32>,
    /// Both ends have proved themselves: who follows is to hear of it.
    pub(super) assured: bool,
}

impl Left {
    /// Nearly always.
    #[inline(always)]
    pub(super) fn is_nothing(&self) -> bool {
        self.refresh.is_none() && !self.assured
    }
}

impl Setting<'_> {
    /// Takes a packet that goes this way, if nothing but the packet's place in its connection and its time are to be noted: the
    /// connection was answered, or the packet goes the way of the first. None if not, and nothing has changed.
    #[inline(always)]
    pub(super) fn take(
        self,
        (now_ns, now): (u64, u32),
        direction: Direction,
        protocol: IpProtocol,
        of: Parts<'_>,
        packet: &Packet<'_>,
    ) -> Option<Taken> {
        let Parts { state, zone, deadline, progress, notes: beside } = of;
        let flags = progress.flags();
        let (replied, assured) = (flags.has(Flags::REPLIED), flags.has(Flags::ASSURED));
        if *deadline <= now || !replied && direction == Direction::Reply {
            return None;
        }
        let timeouts = self.zones.timeouts(zone, &self.config.timeouts);
        let (timeout, proved, spared) = if protocol == IpProtocol::TCP {
            if state != tcp::State::Established as u8 {
                return None;
            }
            let segment = tcp::Segment::bare_ack(parse::payload(packet))?;
            let mut notes = match progress.last_said() {
                Some((last_ack, last_end)) => Notes { last_ack, last_end, ..Notes::NEW },
                None => *beside,
            };
            let known = tcp::Known { replied, assured };
            let state = tcp::State::Established;
            let arrival = tcp::Arrival { state, direction, segment: &segment, known };
            let rules = self.config.tcp_rules(timeouts);
            match tcp::bare_ack(progress, &mut notes, arrival, rules) {
                tcp::Decision::Accept { state: tcp::State::Established, timeout, assured } => {
                    let spared = progress.spared((notes.last_ack, notes.last_end));
                    if spared == Flags::default() {
                        keep(beside, notes);
                    }
                    (timeout, assured, spared)
                }
                // What was last said has not changed, but may be at the edge no more.
                decision => {
                    keep(beside, notes);
                    return Some(without_effect(progress, decision));
                }
            }
        } else {
            let stream = replied && now > progress.stream_from();
            let timeout = if stream { timeouts.udp_stream } else { timeouts.udp };
            (Some(timeout), stream, Flags::default())
        };
        // All at once: each would wait for the one before.
        let mut flags = flags;
        flags.touch();
        flags.clear(Flags::AT_EDGE | Flags::UNNOTED);
        flags.set(Flags::ASSURED.when(proved) | spared);
        *progress.flags_mut() = flags;
        let mut left = Left { refresh: None, assured: proved & !assured };
        if let Some(timeout) = timeout {
            let (before, due) = (*deadline, deadline_of(now_ns, timeout));
            // What was answered and is open waits in the wheel, what was not in a queue.
            match replied {
                true if !self.lists.is_nearer(now, before, due) => *deadline = due,
                false if (before..=before + deadline_after(1)).contains(&due) => {}
                _ => left.refresh = Some(timeout),
            }
        }
        Some(Taken::Told { flags, left })
    }
}

/// What the last segment has said is kept beside the record.
#[cold]
fn keep(beside: &mut Notes, notes: Notes) {
    (beside.last_ack, beside.last_end) = (notes.last_ack, notes.last_end);
}

/// A segment that is outside its connection's windows, or passes and changes nothing.
#[cold]
fn without_effect(progress: &mut Progress, decision: tcp::Decision) -> Taken {
    let flags = progress.flags_mut();
    flags.clear(Flags::AT_EDGE | Flags::UNNOTED);
    flags.touch();
    match decision {
        tcp::Decision::Invalid { shorten } => Taken::Invalid { shorten },
        _ => Taken::Told { flags: *flags, left: Left::default() },
    }
}
