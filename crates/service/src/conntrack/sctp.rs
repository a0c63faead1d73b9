//! SCTP, seen from the middle: the state of an association by the chunks that pass (RFC 9260 §4), and
//! the verification tags that each side must send (§8.5).
//!
//! The names are those of an endpoint's states, but what is tracked is what was seen of both ends: an
//! INIT alone leaves an association [`State::Closed`] until its answer. A HEARTBEAT may open a
//! connection of its own, that of a further path of a multi-homed association (§5.4).
//!
//! Verdicts are those of Linux's tracker.
//!
//! Progress holds: the tag that each direction must send in the sides' `end`, 0 if not known; in
//! `said`, whether it has sent INIT; in `noted`, whether a HEARTBEAT with another tag is on its way,
//! and in `last` its direction.
//!
//! Checked by: the tests below; `lab/conntrack` against the kernel.

use super::record::{Notes, Progress};
use super::state::Direction;

/// Where an association is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Nothing seen.
    None,
    /// Over, or an INIT alone.
    Closed,
    /// INIT was answered.
    CookieWait,
    /// COOKIE ECHO was sent.
    CookieEchoed,
    /// COOKIE ACK was sent.
    Established,
    /// The opener has sent SHUTDOWN.
    ShutdownSent,
    /// The other side has.
    ShutdownReceived,
    /// It was acknowledged.
    ShutdownAckSent,
    /// A HEARTBEAT of a further path.
    HeartbeatSent,
}

impl State {
    /// The state of that number; [`State::None`] of any other.
    pub fn from_number(n: u8) -> State {
        use State::*;
        let all = [
            None,
            Closed,
            CookieWait,
            CookieEchoed,
            Established,
            ShutdownSent,
            ShutdownReceived,
            ShutdownAckSent,
            HeartbeatSent,
        ];
        all.get(usize::from(n)).copied().unwrap_or(None)
    }
}

/// Timeouts in seconds, with Linux's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// Closed, or an INIT alone.
    pub closed: u32,
    /// The cookie is under way; also while shutting down.
    pub transient: u32,
    /// Established: two heartbeats' time.
    pub established: u32,
    /// A further path, until its heartbeat is answered.
    pub heartbeat: u32,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { closed: 10, transient: 3, established: 210, heartbeat: 30 }
    }
}

impl Timeouts {
    fn of(&self, state: State) -> u32 {
        match state {
            State::None | State::Closed => self.closed,
            State::Established => self.established,
            State::HeartbeatSent => self.heartbeat,
            _ => self.transient,
        }
    }
}

/// Chunk types (RFC 9260 §3.2).
mod chunk {
    pub(super) const DATA: u8 = 0;
    pub(super) const INIT: u8 = 1;
    pub(super) const INIT_ACK: u8 = 2;
    pub(super) const HEARTBEAT: u8 = 4;
    pub(super) const HEARTBEAT_ACK: u8 = 5;
    pub(super) const ABORT: u8 = 6;
    pub(super) const SHUTDOWN: u8 = 7;
    pub(super) const SHUTDOWN_ACK: u8 = 8;
    pub(super) const ERROR: u8 = 9;
    pub(super) const COOKIE_ECHO: u8 = 10;
    pub(super) const COOKIE_ACK: u8 = 11;
    pub(super) const SHUTDOWN_COMPLETE: u8 = 14;
}

const HEARTBEAT_DIFFERS: u8 = 1;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It belongs to the association; `None`: its timeout stays as it is.
    Accept {
        state: State,
        timeout: Option<u32>,
        assured: bool,
    },
    Invalid,
}

struct Chunk<'a> {
    kind: u8,
    flags: u8,
    len: u16,
    value: &'a [u8],
}

/// The chunks, as far as they fit.
fn chunks(packet: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = packet.get(wire::sctp::HEADER_LEN..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (&[kind, flags, hi, lo], value) = rest.split_first_chunk::<4>()?;
        let len = u16::from_be_bytes([hi, lo]);
        // A length of 0 is found out before it could stop the walk: see `sensible`.
        rest = rest.get(usize::from(len).next_multiple_of(4).max(4)..).unwrap_or_default();
        Some(Chunk { kind, flags, len, value })
    })
}

/// RFC 9260 §3: INIT, INIT ACK and SHUTDOWN COMPLETE come alone, a cookie comes first.
fn sensible(packet: &[u8]) -> bool {
    let (mut count, mut alone) = (0, false);
    for chunk in chunks(packet) {
        alone |= matches!(chunk.kind, chunk::INIT | chunk::INIT_ACK | chunk::SHUTDOWN_COMPLETE);
        let first = matches!(chunk.kind, chunk::COOKIE_ECHO | chunk::COOKIE_ACK);
        if (alone || first) && count != 0 || chunk.len == 0 {
            return false;
        }
        count += 1;
    }
    count != 0
}

/// Where a chunk leads; none, if it cannot come there.
fn next(state: State, kind: u8, direction: Direction) -> Option<State> {
    use State::*;
    let opener = direction == Direction::Original;
    if !opener && state == None {
        return Option::None;
    }
    if !opener && state == HeartbeatSent {
        return match kind {
            chunk::HEARTBEAT => Some(HeartbeatSent),
            chunk::HEARTBEAT_ACK => Some(Established),
            chunk::INIT..=chunk::COOKIE_ACK | chunk::SHUTDOWN_COMPLETE if kind != 3 => Option::None,
            _ => Some(state),
        };
    }
    let fresh = matches!(state, None | HeartbeatSent);
    Some(match (kind, state) {
        (chunk::INIT, HeartbeatSent) => CookieWait,
        (chunk::INIT, None) => Closed,
        (chunk::INIT, ShutdownSent | ShutdownReceived) if opener => Closed,
        (chunk::INIT_ACK, Closed) if !opener => CookieWait,
        (chunk::ABORT, _) => Closed,
        (chunk::SHUTDOWN, Established) if opener => ShutdownSent,
        (chunk::SHUTDOWN, Established) => ShutdownReceived,
        (chunk::SHUTDOWN_ACK, ShutdownSent | ShutdownReceived) => ShutdownAckSent,
        (chunk::SHUTDOWN_ACK, _) if fresh => ShutdownAckSent,
        (chunk::ERROR, CookieEchoed) if !opener => Closed,
        (chunk::COOKIE_ECHO, CookieWait) => CookieEchoed,
        (chunk::COOKIE_ACK, CookieEchoed) => Established,
        (chunk::SHUTDOWN_COMPLETE, ShutdownAckSent) => Closed,
        (chunk::HEARTBEAT, None) => HeartbeatSent,
        (chunk::HEARTBEAT_ACK, HeartbeatSent) | (chunk::HEARTBEAT, HeartbeatSent) => state,
        (
            chunk::INIT_ACK
            | chunk::SHUTDOWN
            | chunk::ERROR
            | chunk::COOKIE_ECHO
            | chunk::COOKIE_ACK
            | chunk::SHUTDOWN_COMPLETE
            | chunk::HEARTBEAT_ACK,
            _,
        ) if fresh => Closed,
        _ => state,
    })
}

/// Begins to track an association; false if the packet cannot be its first.
fn open(progress: &mut Progress, packet: &[u8], tag: u32) -> bool {
    for chunk in chunks(packet) {
        match next(State::None, chunk.kind, Direction::Original) {
            None | Some(State::None) => return false,
            Some(_) => {}
        }
        match chunk.kind {
            chunk::INIT => match (tag, initiate_tag(&chunk)) {
                (0, Some(initiate)) => progress.sides[1].end = initiate,
                // §8.5.1 (A)
                _ => return false,
            },
            chunk::HEARTBEAT | chunk::HEARTBEAT_ACK => progress.sides[0].end = tag,
            // Out of the blue (§8.4): what answers a SHUTDOWN ACK bears its tag.
            chunk::SHUTDOWN_ACK => progress.sides[1].end = tag,
            _ => {}
        }
    }
    true
}

/// The tag that an INIT or INIT ACK asks for.
fn initiate_tag(chunk: &Chunk<'_>) -> Option<u32> {
    // §3.3.2: the fixed part is 16 octets.
    let fixed = chunk.value.first_chunk::<16>()?;
    fixed.first_chunk::<4>().map(|tag| u32::from_be_bytes(*tag))
}

/// Judges a packet, the IP packet's payload, and notes what its chunks say. `fresh` says that it would
/// open a connection.
pub(crate) fn packet(
    progress: &mut Progress,
    notes: &mut Notes,
    state: State,
    direction: Direction,
    packet: &[u8],
    fresh: bool,
    timeouts: &Timeouts,
) -> Decision {
    let Some(tag) = packet.get(4..8).and_then(|b| b.first_chunk()).map(|b| u32::from_be_bytes(*b))
    else {
        return Decision::Invalid;
    };
    if packet.len() < wire::sctp::HEADER_LEN || !sensible(packet) {
        return Decision::Invalid;
    }
    let has = |kinds: &[u8]| chunks(packet).any(|chunk| kinds.contains(&chunk.kind));
    let (me, peer) = (direction as usize, 1 - direction as usize);
    if fresh {
        let blue = [chunk::ABORT, chunk::SHUTDOWN_COMPLETE, chunk::COOKIE_ACK];
        if has(&blue) || !open(progress, packet, tag) {
            return Decision::Invalid;
        }
    }
    let own_rules = [
        chunk::INIT,
        chunk::SHUTDOWN_COMPLETE,
        chunk::COOKIE_ECHO,
        chunk::ABORT,
        chunk::SHUTDOWN_ACK,
        chunk::HEARTBEAT,
        chunk::HEARTBEAT_ACK,
    ];
    if !has(&own_rules) && tag != progress.sides[me].end {
        return Decision::Invalid;
    }
    let (mut now, mut assured, mut refresh) = (state, false, true);
    for chunk in chunks(packet) {
        let tags = [progress.sides[0].end, progress.sides[1].end];
        match chunk.kind {
            chunk::INIT if tag != 0 => return Decision::Invalid,
            // §8.5.1 (B), (C): the T bit says that the sender had no tag but the peer's own.
            chunk::ABORT | chunk::SHUTDOWN_COMPLETE => {
                let whose = if chunk.flags & 1 == 0 { me } else { peer };
                if tag != tags[whose] {
                    return Decision::Invalid;
                }
            }
            chunk::COOKIE_ECHO if tag != tags[me] => return Decision::Invalid,
            chunk::COOKIE_ACK => progress.said = [0; 2],
            chunk::HEARTBEAT | chunk::HEARTBEAT_ACK => {
                let answer = chunk.kind == chunk::HEARTBEAT_ACK;
                if tags[me] == 0 {
                    progress.sides[me].end = tag;
                } else if tag == tags[me] {
                    notes.noted &= !HEARTBEAT_DIFFERS;
                } else if has(&[chunk::DATA]) || !refresh {
                    return Decision::Invalid;
                } else if answer {
                    let asked = notes.noted & HEARTBEAT_DIFFERS != 0;
                    if !asked || progress.last == direction as u8 {
                        return Decision::Invalid;
                    }
                    // The other side answers under the new tag: the association was restarted.
                    notes.noted &= !HEARTBEAT_DIFFERS;
                    progress.sides[me].end = tag;
                    progress.sides[peer].end = 0;
                } else {
                    notes.noted |= HEARTBEAT_DIFFERS;
                    progress.last = direction as u8;
                    refresh = false;
                    continue;
                }
            }
            _ => {}
        }
        let before = now;
        let Some(after) = next(before, chunk.kind, direction) else { return Decision::Invalid };
        match chunk.kind {
            chunk::INIT => {
                let Some(initiate) = initiate_tag(&chunk) else { return Decision::Invalid };
                if progress.said == [1; 2] {
                    progress.said[peer] = 0;
                }
                progress.said[me] = 1;
                progress.sides[peer].end = initiate;
                // Who repeats an INIT does not keep a connection that nobody answers.
                if before == State::Closed && after == State::Closed && !fresh {
                    refresh = false;
                }
            }
            chunk::INIT_ACK => {
                let Some(initiate) = initiate_tag(&chunk) else { return Decision::Invalid };
                let differs = tags[peer] != initiate;
                let unasked = progress.said[peer] == 0 && tags[peer] != 0 && differs;
                let collides = progress.said == [1; 2] && differs;
                if unasked || collides {
                    return Decision::Invalid;
                }
                progress.sides[peer].end = initiate;
            }
            _ => {}
        }
        assured |= after == State::Established && before != after;
        now = after;
    }
    Decision::Accept { state: now, timeout: refresh.then(|| timeouts.of(now)), assured }
}
