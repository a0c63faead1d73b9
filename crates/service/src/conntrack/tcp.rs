//! TCP, seen from the middle (RFC 9293; the window rules are van Rooij's, *Real Stateful TCP Packet
//! Filtering in IP Filter*, 2001, as widened by Linux's tracker).
//!
//! The tracker stands between two ends and sees what may yet be lost. It keeps for each end what it
//! has sent (`end`), how far the other lets it go (`max_end`), how large a window it has offered
//! (`max_window`) and what it has acknowledged (`max_ack`). A segment is believed when
//!
//! - I: it begins no further than the receiver allows: `seq <= max_end`;
//! - II: it ends within a window of what was sent before: `end >= own end - receiver's max_window`;
//! - III: it acknowledges nothing that was not sent: `ack <= receiver's end`;
//! - IV: nor something acknowledged long ago: `ack >= receiver's end - max(own max_window, 66000)`;
//!
//! where `ack` is the highest right edge of a SACK block if there is one. What fails I or III is
//! invalid; what fails II or IV is old: it passes and changes nothing, as does a segment that runs a
//! little over the window.
//!
//! A connection taken up in its middle has unknown window scales, so its windows are not checked.
//!
//! Verdicts are those of Linux 6.x, packet for packet (`lab/conntrack` compares), since rules written
//! for `ct_state` rely on them. Where RFC 9293 and Linux differ, the comments say so.
//!
//! Checked by: the tests below; `lab/conntrack` against the kernel.

use super::record::{Notes, Progress, Side};
use super::state::Direction;
use wire::tcp::{Flags, Opt, Options};

/// Where a connection is, judged by what was seen of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Nothing seen.
    None,
    /// A SYN.
    SynSent,
    /// A SYN and its answer.
    SynReceived,
    /// The answer was acknowledged.
    Established,
    /// One side has sent FIN.
    FinWait,
    /// That FIN was acknowledged.
    CloseWait,
    /// Both sides have sent FIN.
    LastAck,
    /// Both were acknowledged.
    TimeWait,
    /// Reset.
    Closed,
    /// A SYN from each side.
    SynSent2,
}

impl State {
    /// The state of that number; [`State::None`] of any other.
    pub fn from_number(n: u8) -> State {
        use State::*;
        match n {
            1 => SynSent,
            2 => SynReceived,
            3 => Established,
            4 => FinWait,
            5 => CloseWait,
            6 => LastAck,
            7 => TimeWait,
            8 => Closed,
            9 => SynSent2,
            _ => None,
        }
    }

    /// Whether the opening handshake is not done.
    pub(crate) fn is_handshake(self) -> bool {
        matches!(self, State::None | State::SynSent | State::SynSent2 | State::SynReceived)
    }

    /// Whether it is over or about to be.
    fn is_closing(self) -> bool {
        use State::*;
        matches!(self, FinWait | CloseWait | LastAck | TimeWait | Closed)
    }
}

/// What a segment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// None of these flags.
    Bare,
    Syn,
    SynAck,
    Fin,
    Ack,
    Rst,
}

impl Kind {
    fn of(flags: Flags) -> Kind {
        if flags.contains(Flags::RST) {
            Kind::Rst
        } else if flags.contains(Flags::SYN | Flags::ACK) {
            Kind::SynAck
        } else if flags.contains(Flags::SYN) {
            Kind::Syn
        } else if flags.contains(Flags::FIN) {
            Kind::Fin
        } else if flags.contains(Flags::ACK) {
            Kind::Ack
        } else {
            Kind::Bare
        }
    }
}

/// A segment's header, as far as it is tracked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<'a> {
    kind: Kind,
    flags: Flags,
    seq: u32,
    ack: u32,
    window: u16,
    /// Sequence numbers that it takes, SYN and FIN included.
    len: u32,
    options: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads the header at the front of `bytes`, the IP packet's payload. None if it is cut short or
    /// its flags make no sense together.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Segment<'a>> {
        let head: &[u8; wire::tcp::HEADER_LEN] = bytes.first_chunk()?;
        let header_len = usize::from(head[12] >> 4) * 4;
        if header_len < wire::tcp::HEADER_LEN || header_len > bytes.len() {
            return None;
        }
        let flags = Flags(u16::from_be_bytes([head[12], head[13]]) & 0x1ff);
        // PSH, ECE, CWR and AE say nothing here (RFC 9293 §3.1).
        let core = flags.0 & (Flags::FIN | Flags::SYN | Flags::RST | Flags::ACK | Flags::URG).0;
        let (syn, rst, fin) = (Flags::SYN.0, Flags::RST.0, Flags::FIN.0);
        let (ack, urg) = (Flags::ACK.0, Flags::URG.0);
        const fn one_of<const N: usize>(flags: [u16; N]) -> u64 {
            let (mut set, mut n) = (0, 0);
            while n < N {
                set |= 1 << flags[n];
                n += 1;
            }
            set
        }
        let sensible =
            [syn, syn | urg, syn | ack, rst, rst | ack, fin | ack, fin | ack | urg, ack, ack | urg];
        if one_of(sensible) >> core & 1 == 0 {
            return None;
        }
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let counted = flags.contains(Flags::SYN) as u32 + flags.contains(Flags::FIN) as u32;
        Some(Segment {
            kind: Kind::of(flags),
            flags,
            seq: word(4),
            ack: word(8),
            window: u16::from_be_bytes([head[14], head[15]]),
            len: (bytes.len() - header_len) as u32 + counted,
            options: &bytes[wire::tcp::HEADER_LEN..header_len],
        })
    }

    /// Whether the header at the front of `bytes` has, of the flags that count here, only ACK.
    #[inline(always)]
    pub(crate) fn is_bare_ack(bytes: &[u8]) -> bool {
        let core = Flags::FIN | Flags::SYN | Flags::RST | Flags::ACK | Flags::URG;
        bytes.get(13).is_some_and(|flags| u16::from(*flags) & core.0 == Flags::ACK.0)
    }

    /// The header of a segment whose only flag that counts here is ACK: most of an open connection's. None for others,
    /// which [`parse`](Self::parse) reads.
    #[inline(always)]
    pub(crate) fn bare_ack(bytes: &'a [u8]) -> Option<Segment<'a>> {
        let head: &[u8; wire::tcp::HEADER_LEN] = bytes.first_chunk()?;
        let header_len = usize::from(head[12] >> 4) * 4;
        if header_len < wire::tcp::HEADER_LEN || header_len > bytes.len() {
            return None;
        }
        if !Segment::is_bare_ack(head) {
            return None;
        }
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Some(Segment {
            kind: Kind::Ack,
            flags: Flags::ACK,
            seq: word(4),
            ack: word(8),
            window: u16::from_be_bytes([head[14], head[15]]),
            len: (bytes.len() - header_len) as u32,
            options: &bytes[wire::tcp::HEADER_LEN..header_len],
        })
    }

    fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len)
    }

    fn has(&self, flag: Flags) -> bool {
        self.flags.contains(flag)
    }

    /// Window scale and permission of SACK that a SYN offers; the last of each counts.
    fn offers(&self) -> (u8, Option<u8>) {
        let (mut said, mut scale) = (0, None);
        for option in Options::new(self.options).map_while(Result::ok) {
            match option {
                Opt::SackPermitted => said |= SACK,
                // RFC 7323 §2.3: a larger shift counts as 14.
                Opt::WindowScale(shift) => scale = Some(shift.min(14)),
                _ => {}
            }
        }
        (said | if scale.is_some() { SCALES } else { 0 }, scale)
    }

    /// The highest right edge of the SACK blocks, or the acknowledgment number.
    #[inline]
    fn sack(&self) -> u32 {
        // Padding and timestamps, as most stacks send them on each segment (RFC 7323 appendix A).
        let stamps = self.options.len() == 12 && self.options.starts_with(&[1, 1, 8, 10]);
        if self.options.is_empty() || stamps { self.ack } else { self.sack_of_options() }
    }

    fn sack_of_options(&self) -> u32 {
        let blocks = Options::new(self.options)
            .map_while(Result::ok)
            .find_map(|option| if let Opt::Sack(blocks) = option { Some(blocks) } else { None });
        blocks.unwrap_or_default().iter().fold(self.ack, |highest, block| {
            let edge = u32::from_be_bytes([block[4], block[5], block[6], block[7]]);
            if after(edge, highest) { edge } else { highest }
        })
    }
}

/// Sides' `said`: it offered window scaling.
const SCALES: u8 = 1;
/// It may be sent SACKs.
const SACK: u8 = 2;
/// It was the first to close.
const CLOSED_FIRST: u8 = 4;
/// What a side has offered in its SYN.
pub(super) const OFFERS: u8 = SCALES | SACK;
/// Its windows are not checked.
pub(super) const UNCHECKED: u8 = 8;
/// It has data under way.
const UNACKNOWLEDGED: u8 = 16;
/// Its `max_ack` is set.
const HAS_ACKED: u8 = 32;
/// `noted`: the ACK that answers this SYN may be a challenge (RFC 5961 §4).
const CHALLENGE: u8 = 64;
/// `noted`: both sides have sent a SYN.
const BOTH_OPENED: u8 = 128;

/// The least tolerance for old acknowledgments: a window without scaling, and a segment.
const OLD_ACK: u32 = 66_000;

/// Settings, with Linux's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether connections are taken up in their middle.
    pub pick_up: bool,
    /// Whether windows go unchecked, but for what resets say.
    pub liberal: bool,
    /// Repetitions of a segment from which on a shorter timeout counts.
    pub repeats_max: u8,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { pick_up: true, liberal: false, repeats_max: 3 }
    }
}

/// Timeouts in seconds, with Linux's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// After a SYN.
    pub syn_sent: u32,
    /// After its answer.
    pub syn_received: u32,
    /// Established: RFC 5382 §5 asks for 2 h 4 min at least.
    pub established: u32,
    /// After one FIN.
    pub fin_wait: u32,
    /// After its acknowledgment.
    pub close_wait: u32,
    /// After both FINs.
    pub last_ack: u32,
    /// After their acknowledgments.
    pub time_wait: u32,
    /// After a reset.
    pub closed: u32,
    /// At most, while a segment is repeated or a window is closed.
    pub repeating: u32,
    /// At most, while data is not acknowledged, and for connections taken up in their middle.
    pub unacknowledged: u32,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            syn_sent: 120,
            syn_received: 60,
            established: 432_000,
            fin_wait: 120,
            close_wait: 60,
            last_ack: 30,
            time_wait: 120,
            closed: 10,
            repeating: 300,
            unacknowledged: 300,
        }
    }
}

impl Timeouts {
    fn of(&self, state: State) -> u32 {
        match state {
            State::None | State::SynSent | State::SynSent2 => self.syn_sent,
            State::SynReceived => self.syn_received,
            State::Established => self.established,
            State::FinWait => self.fin_wait,
            State::CloseWait => self.close_wait,
            State::LastAck => self.last_ack,
            State::TimeWait => self.time_wait,
            State::Closed => self.closed,
        }
    }
}

/// What is known of the connection as a whole before this segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) replied: bool,
    pub(crate) assured: bool,
}

/// What becomes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It belongs to the connection.
    Accept {
        /// Where the connection is now.
        state: State,
        /// Its timeout in seconds from now on; none: it stays as it is.
        timeout: Option<u32>,
        /// Both ends have proved themselves.
        assured: bool,
    },
    /// It passes as part of the connection and changes nothing.
    Ignore,
    /// It passes, and the connection is over at once.
    Forget,
    /// The connection is over, and this opens another.
    Reopen,
    /// It is no part of the connection.
    Invalid {
        /// The connection may be out of step with its ends, and is not to outlive `unacknowledged`.
        shorten: bool,
    },
}

/// Where a segment of this kind leads.
enum Next {
    To(State),
    Ignore,
    Invalid,
}

#[inline(always)]
fn next(state: State, kind: Kind, direction: Direction) -> Next {
    use Direction::{Original, Reply};
    use State::*;
    let to = match (kind, direction, state) {
        (Kind::Bare, ..) | (_, Reply, None) => return Next::Invalid,

        // RFC 9293 §3.5: a SYN opens, also after the end; a second one may come late. Elsewhere it is
        // for the receiver to judge.
        (Kind::Syn, Original, None | SynSent | TimeWait | Closed) => SynSent,
        (Kind::Syn, Original, SynSent2) => SynSent2,
        (Kind::Syn, Original, _) => return Next::Ignore,
        // Simultaneous open (RFC 9293 figure 8); after the end, sides may change roles.
        (Kind::Syn, Reply, SynSent | SynSent2) => SynSent2,
        (Kind::Syn, Reply, TimeWait) => SynSent,
        (Kind::Syn, Reply, _) => return Next::Invalid,

        (Kind::SynAck, Original, SynSent2 | SynReceived) => SynReceived,
        (Kind::SynAck, Original, _) => return Next::Invalid,
        (Kind::SynAck, Reply, SynSent | SynSent2) => SynReceived,
        (Kind::SynAck, Reply, _) => return Next::Ignore,

        (Kind::Fin, _, None | SynSent | SynSent2) => return Next::Invalid,
        (Kind::Fin, _, SynReceived | Established) => FinWait,
        (Kind::Fin, _, FinWait | CloseWait | LastAck) => LastAck,
        (Kind::Fin, _, TimeWait | Closed) => state,

        (Kind::Ack, Original, SynSent | SynSent2) => return Next::Invalid,
        (Kind::Ack, Original, None | SynReceived) => Established,
        // The answer of a half-open connection (RFC 9293 §3.5.1).
        (Kind::Ack, Reply, SynSent | SynSent2) => return Next::Ignore,
        (Kind::Ack, Reply, SynReceived) => SynReceived,
        (Kind::Ack, _, Established) => Established,
        (Kind::Ack, _, FinWait | CloseWait) => CloseWait,
        (Kind::Ack, _, LastAck | TimeWait) => TimeWait,
        (Kind::Ack, _, Closed) => Closed,

        (Kind::Rst, Original, None) => return Next::Invalid,
        (Kind::Rst, ..) => Closed,
    };
    Next::To(to)
}

/// Begins to track a connection with its first segment; false if it cannot be one's first.
pub(crate) fn open(progress: &mut Progress, segment: &Segment<'_>, settings: &Settings) -> bool {
    let picked_up = match next(State::None, segment.kind, Direction::Original) {
        Next::To(State::SynSent) => false,
        Next::To(_) if settings.pick_up => true,
        _ => return false,
    };
    let window = u32::from(segment.window).max(1);
    let side = &mut progress.sides[0];
    *side = Side { end: segment.end(), max_end: segment.end(), max_window: window, max_ack: 0 };
    if picked_up {
        side.max_end = side.end.wrapping_add(window);
        progress.said = [SACK | UNCHECKED; 2];
    } else {
        let (said, scale) = segment.offers();
        progress.said[0] = said;
        progress.scales[0] = scale.unwrap_or(0);
    }
    progress.last = Kind::Bare as u8;
    true
}

/// A segment that comes to a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    /// Where the connection is.
    pub(crate) state: State,
    /// Which way the segment goes.
    pub(crate) direction: Direction,
    pub(crate) segment: &'a Segment<'a>,
    pub(crate) known: Known,
}

/// What segments are judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) timeouts: &'a Timeouts,
}

/// Judges a segment and notes what it says. A connection's first segment comes through [`open`] first, with
/// [`State::None`].
#[inline(never)]
pub(crate) fn segment(
    progress: &mut Progress,
    notes: &mut Notes,
    arrival: Arrival<'_>,
    rules: Rules<'_>,
) -> Decision {
    judge(progress, notes, arrival, rules)
}

/// The same of a [bare ACK](Segment::bare_ack) of an open connection: the compiler leaves out what only others meet.
#[inline(always)]
pub(crate) fn bare_ack(
    progress: &mut Progress,
    notes: &mut Notes,
    arrival: Arrival<'_>,
    rules: Rules<'_>,
) -> Decision {
    let segment = Segment { kind: Kind::Ack, flags: Flags::ACK, ..*arrival.segment };
    let arrival = Arrival { state: State::Established, segment: &segment, ..arrival };
    judge(progress, notes, arrival, rules)
}

#[inline(always)]
fn judge(
    progress: &mut Progress,
    notes: &mut Notes,
    arrival: Arrival<'_>,
    rules: Rules<'_>,
) -> Decision {
    let Arrival { state, direction, segment, known } = arrival;
    let Rules { settings, timeouts } = rules;
    let (me, peer) = (direction as usize, 1 - direction as usize);
    let last_is = |progress: &Progress, kind: Kind| progress.last & 0x7f == kind as u8;
    let last_same_way = |progress: &Progress| progress.last >> 7 == direction as u8;
    let mut old = state;
    let mut checked = true;
    let mut new = match next(state, segment.kind, direction) {
        Next::To(new) => Some(new),
        Next::Ignore => None,
        Next::Invalid => return Decision::Invalid { shorten: false },
    };
    if new == Some(State::SynSent) && matches!(state, State::TimeWait | State::Closed) {
        let said = progress.said[0] | progress.said[1];
        if said & CLOSED_FIRST != 0 || last_same_way(progress) && last_is(progress, Kind::Rst) {
            return Decision::Reopen;
        }
        new = None;
    }
    match new {
        None => {
            let answered = usize::from(progress.last >> 7);
            let in_step = segment.kind == Kind::SynAck
                && last_is(progress, Kind::Syn)
                && !last_same_way(progress)
                && segment.ack == notes.last_end;
            if !in_step {
                note(progress, notes, state, direction, segment);
                return Decision::Ignore;
            }
            // It answers a SYN that was let through without effect: the ends agree with each other,
            // and what was noted of the SYN puts the tracker in step with them.
            let (end, window) = (notes.last_end, u32::from(progress.last_window).max(1));
            progress.sides[answered] = Side {
                end,
                max_end: end,
                max_window: window,
                max_ack: progress.sides[answered].max_ack,
            };
            progress.scales[answered] = notes.noted_scale;
            notes.noted &= !CHALLENGE;
            progress.said[answered] = notes.noted;
            progress.sides[me] = Side::default();
            progress.scales[me] = 0;
            progress.said[me] &= UNCHECKED;
            (old, new) = (State::SynSent, Some(State::SynReceived));
        }
        Some(State::TimeWait) => {
            let challenged = old == State::LastAck
                && segment.kind == Kind::Ack
                && !last_same_way(progress)
                && last_is(progress, Kind::Syn)
                && notes.noted & CHALLENGE != 0;
            if challenged {
                // It answers a SYN (RFC 5961 §4), not the last FIN.
                notes.noted &= !CHALLENGE;
                return Decision::Ignore;
            }
        }
        Some(State::SynSent2) => notes.noted |= BOTH_OPENED,
        Some(State::SynReceived) => {
            let opened = notes.noted & BOTH_OPENED != 0;
            if direction == Direction::Reply && segment.kind == Kind::Ack && opened {
                new = Some(State::Established);
            }
        }
        Some(State::Closed) if segment.kind == Kind::Rst => {
            match reset(progress, notes, old, direction, segment, known) {
                Reset::Invalid => return Decision::Invalid { shorten: false },
                Reset::Check => {}
                Reset::Stay => new = Some(old),
                Reset::Trust => checked = false,
                Reset::StayTrust => (new, checked) = (Some(old), false),
            }
        }
        Some(_) => {}
    }
    let new = new.unwrap_or(state);
    if checked {
        match window(progress, notes, state, direction, segment, settings) {
            Window::Inside => {}
            Window::Old => return Decision::Ignore,
            Window::Outside => {
                return Decision::Invalid {
                    shorten: note_close(progress, direction, segment, known),
                };
            }
        }
    }
    progress.last = segment.kind as u8 | (direction as u8) << 7;
    if new == State::FinWait && old != State::FinWait {
        progress.said[me] |= CLOSED_FIRST;
    }
    let usual = timeouts.of(new);
    let unacknowledged = (progress.said[me] | progress.said[peer]) & UNACKNOWLEDGED != 0;
    let mut timeout = if progress.repeats >= settings.repeats_max && usual > timeouts.repeating {
        timeouts.repeating
    } else if segment.kind == Kind::Rst {
        timeouts.closed
    } else if unacknowledged && usual > timeouts.unacknowledged {
        timeouts.unacknowledged
    } else if progress.last_window == 0 && usual > timeouts.repeating {
        timeouts.repeating
    } else {
        usual
    };
    let mut assured = known.assured;
    if !known.replied {
        if segment.kind == Kind::Rst {
            // A closed port's answer, most of the time: nothing is left to track.
            return Decision::Forget;
        }
        if segment.kind == Kind::Syn && old == State::SynSent {
            // Who repeats a SYN does not keep a connection that nobody answers.
            return Decision::Accept { state: new, timeout: None, assured };
        }
        if new == State::Established {
            timeout = timeout.min(timeouts.unacknowledged);
        }
    } else if matches!(old, State::SynReceived | State::Established) && new == State::Established {
        assured = true;
    }
    Decision::Accept { state: new, timeout: Some(timeout), assured }
}

/// Keeps what a segment without effect says: the other end may believe it.
#[inline(never)]
fn note(
    progress: &mut Progress,
    notes: &mut Notes,
    state: State,
    direction: Direction,
    segment: &Segment<'_>,
) {
    progress.last = segment.kind as u8 | (direction as u8) << 7;
    notes.last_end = segment.end();
    progress.last_len = segment.len as u16;
    progress.last_window = segment.window;
    if segment.kind == Kind::Syn && direction == Direction::Original {
        let (said, scale) = segment.offers();
        notes.noted = said;
        notes.noted_scale = scale.unwrap_or(0);
        if state == State::LastAck {
            notes.noted |= CHALLENGE;
        }
    }
    let half_open = state == State::SynSent && direction == Direction::Reply;
    if half_open && segment.kind == Kind::Ack {
        notes.last_ack = segment.ack;
    }
}

/// How a reset is to be taken.
enum Reset {
    Invalid,
    /// Its window is checked.
    Check,
    /// As that, but the connection stays as it is: the ends may yet disagree with the reset.
    Stay,
    /// It is right.
    Trust,
    /// It is right, but for its number.
    StayTrust,
}

/// RFC 5961 §3: a reset counts only where its number is exactly what is expected next; close to it, the
/// receiver asks.
#[inline(never)]
fn reset(
    progress: &Progress,
    notes: &Notes,
    state: State,
    direction: Direction,
    segment: &Segment<'_>,
    known: Known,
) -> Reset {
    let peer = 1 - direction as usize;
    let last_is = |kind: Kind| progress.last & 0x7f == kind as u8;
    let same_way = progress.last >> 7 == direction as u8;
    // Addresses and ports may be in use again, and the numbers kept here be out of date.
    if state.is_closing() {
        return Reset::Trust;
    }
    let established = state == State::Established && known.assured;
    let mut stay = false;
    if progress.said[peer] & HAS_ACKED != 0 && !last_is(Kind::Syn) {
        let expected = progress.sides[peer].max_ack;
        // Most likely the answer to a SYN that was let through.
        if segment.seq == 0 && !established {
            return Reset::Check;
        }
        if before(segment.seq, expected) {
            return Reset::Invalid;
        }
        if !established || segment.seq == expected {
            return Reset::Check;
        }
        // It may follow data that is under way: its number is the one after.
        if last_is(Kind::Ack) && same_way && segment.seq == notes.last_end {
            return Reset::Check;
        }
        stay = true;
    }
    // The answer to the other side's SYN, or to an ACK of a half-open connection, that was let through.
    let to_syn = known.replied && last_is(Kind::Syn) && !same_way;
    let to_ack = !known.assured && last_is(Kind::Ack);
    if (to_syn || to_ack) && segment.ack == notes.last_end {
        return if stay { Reset::StayTrust } else { Reset::Trust };
    }
    let to_challenge = state == State::SynSent
        && last_is(Kind::Ack)
        && progress.last >> 7 == Direction::Reply as u8
        && segment.seq == notes.last_ack;
    match (to_challenge, stay) {
        (true, true) => Reset::StayTrust,
        (true, false) => Reset::Trust,
        (false, true) => Reset::Stay,
        (false, false) => Reset::Check,
    }
}

/// Notes a FIN or RST outside the window. True if one of each direction has come: the ends are closing
/// what the tracker believes open.
#[inline(never)]
fn note_close(
    progress: &mut Progress,
    direction: Direction,
    segment: &Segment<'_>,
    known: Known,
) -> bool {
    if !known.assured || !matches!(segment.kind, Kind::Fin | Kind::Rst) {
        return false;
    }
    let last = progress.last & 0x7f;
    let other_way = progress.last >> 7 != direction as u8;
    if other_way && (last == Kind::Fin as u8 || last == Kind::Rst as u8) {
        return true;
    }
    progress.last = segment.kind as u8 | (direction as u8) << 7;
    false
}

enum Window {
    Inside,
    Old,
    Outside,
}

/// A side's first segment, or its SYN anew.
fn begin(progress: &mut Progress, direction: Direction, segment: &Segment<'_>) {
    let me = direction as usize;
    let end = segment.end();
    let side = &mut progress.sides[me];
    (side.end, side.max_end) = (end, end);
    side.max_window = u32::from(segment.window).max(1);
    if !segment.options.is_empty() {
        let (said, scale) = segment.offers();
        progress.said[me] = progress.said[me] & UNCHECKED | said;
        progress.scales[me] = scale.unwrap_or(0);
    }
    // RFC 7323 §2.2: both sides must have offered it.
    let scaled = progress.said[0] & progress.said[1] & SCALES != 0;
    if direction == Direction::Reply && !scaled {
        progress.scales = [0; 2];
    }
}

/// Checks a segment against the windows, and moves them by what it says.
#[inline(always)]
fn window(
    progress: &mut Progress,
    notes: &mut Notes,
    state: State,
    direction: Direction,
    segment: &Segment<'_>,
    settings: &Settings,
) -> Window {
    let (me, peer) = (direction as usize, 1 - direction as usize);
    let (mut seq, mut end) = (segment.seq, segment.end());
    let mut ack = segment.ack;
    let mut sack = if progress.said[peer] & SACK != 0 { segment.sack() } else { ack };
    let syn = segment.has(Flags::SYN);
    let opening = matches!(state, State::SynSent | State::SynReceived);
    if progress.sides[me].max_window == 0 {
        if syn {
            begin(progress, direction, segment);
            if !segment.has(Flags::ACK) {
                return Window::Inside;
            }
        } else {
            // Its history was not seen: what it says now must do.
            let scaled = u32::from(segment.window) << progress.scales[me];
            let side = &mut progress.sides[me];
            side.end = end;
            side.max_window = scaled.max(1);
            side.max_end = end.wrapping_add(side.max_window);
            let other = &mut progress.sides[peer];
            if other.max_window == 0 {
                (other.end, other.max_end) = (sack, sack);
            } else if sack == other.end.wrapping_add(1) {
                // The answer to a keep-alive, which lies one before the end (RFC 9293 §3.8.4).
                other.end = sack;
            }
        }
    } else if syn && opening && after(end, progress.sides[me].end) {
        // RFC 9293 §3.4.3: a side may begin anew with a larger number.
        begin(progress, direction, segment);
        if direction == Direction::Reply && !segment.has(Flags::ACK) {
            return Window::Inside;
        }
    }
    let (mine, theirs) = (progress.sides[me], progress.sides[peer]);
    let reset = segment.has(Flags::RST);
    // A segment that acknowledges nothing is as good as one that is up to date; some stacks send
    // resets with ACK and a number of 0.
    if !segment.has(Flags::ACK) || reset && ack == 0 {
        (ack, sack) = (theirs.end, theirs.end);
    }
    if reset && seq == 0 && state == State::SynSent {
        (seq, end) = (mine.end, mine.end);
    }
    let unchecked = settings.liberal || progress.said[me] & UNCHECKED != 0;
    let not = |window: Window| if unchecked { Window::Inside } else { window };
    let tolerance = mine.max_window.max(OLD_ACK);
    let recent_ack = after(sack, theirs.end.wrapping_sub(tolerance).wrapping_sub(1));
    let known_ack = !after(sack, theirs.end);
    let lower = mine.end.wrapping_sub(theirs.max_window).wrapping_sub(1);
    let recent = theirs.max_window == 0 || after(end, lower);
    // I
    if after(seq, mine.max_end) {
        let over = end.wrapping_sub(mine.max_end).wrapping_add(1);
        let slight = theirs.max_window != 0
            && recent
            && recent_ack
            && known_ack
            && over <= theirs.max_window;
        if slight {
            // The receiver may take it all the same, and acknowledge it.
            progress.sides[me].end = end;
            progress.said[me] |= UNACKNOWLEDGED;
            return not(Window::Old);
        }
        return not(Window::Outside);
    }
    // III
    if !known_ack {
        return not(Window::Outside);
    }
    // II, IV
    if !recent || !recent_ack {
        return not(Window::Old);
    }

    let mut offered = u32::from(segment.window);
    if !syn {
        offered <<= progress.scales[me];
    }
    let side = &mut progress.sides[me];
    side.max_window = side.max_window.max(offered.wrapping_add(sack.wrapping_sub(ack)));
    if after(end, side.end) {
        side.end = end;
        progress.said[me] |= UNACKNOWLEDGED;
    }
    if segment.has(Flags::ACK) && (progress.said[me] & HAS_ACKED == 0 || after(ack, side.max_ack)) {
        side.max_ack = ack;
        progress.said[me] |= HAS_ACKED;
    }
    let beyond = after(end, mine.max_end).then(|| end.wrapping_sub(mine.max_end));
    let other = &mut progress.sides[peer];
    if let Some(beyond) = beyond
        && other.max_window != 0
    {
        other.max_window = other.max_window.wrapping_add(beyond);
    }
    let edge = sack.wrapping_add(offered);
    if !before(edge, other.max_end) {
        // A closed window is open for one probe (RFC 9293 §3.8.6.1).
        other.max_end = edge.wrapping_add(u32::from(offered == 0));
    }
    if ack == other.end {
        progress.said[peer] &= !UNACKNOWLEDGED;
    }
    if segment.kind == Kind::Ack {
        let same = progress.last >> 7 == direction as u8
            && notes.last_ack == ack
            && notes.last_end == end
            && progress.last_window == segment.window
            && progress.last_len == segment.len as u16;
        if same {
            progress.repeats = progress.repeats.saturating_add(1);
        } else {
            (notes.last_ack, notes.last_end) = (ack, end);
            progress.last_window = segment.window;
            progress.last_len = segment.len as u16;
            progress.repeats = 0;
        }
    }
    Window::Inside
}

/// Whether `a` comes after `b` in sequence space (RFC 9293 §3.4).
fn after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

fn before(a: u32, b: u32) -> bool {
    after(b, a)
}
