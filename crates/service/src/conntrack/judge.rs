//! A packet that is not a usual one: whose it is, what it does to its connection, and the connection that it opens.

use super::Tracker;
use super::fragment::Arrival;
use super::parse::{Subject, Transport};
use super::record::{Flags, Notes, Progress};
use super::request::{FENCED, INVALID, Nat, Outcome, Request};
use super::state::{Apart, CtState, Direction, Drop};
use super::time::{deadline_after, deadline_of};
use super::told::told;
use super::tuple::{Role, Tuple};
use super::{Found, alg, parse, sctp, tcp};
use crate::packet::{Fragment, Packet};
use wire::IpProtocol;

/// How a connection takes a packet.
pub(super) enum Advance {
    Valid { forget: bool },
    Reopen,
    Invalid,
}

/// What a connection's first packet makes of it.
pub(super) struct First {
    progress: Progress,
    notes: Notes,
    state: u8,
    timeout: Option<u32>,
}

impl First {
    /// One past the sequence number of a SYN, if it is one.
    pub(super) fn syn_end(&self, tuple: &Tuple) -> Option<u32> {
        let syn = tuple.protocol == IpProtocol::TCP && self.state == tcp::State::SynSent as u8;
        syn.then_some(self.progress.sides[0].end)
    }
}

impl Tracker {
    /// What a packet is about. First fragments are noted, later ones looked up.
    pub(super) fn subject(&mut self, now: u32, zone: u16, packet: &Packet<'_>) -> Subject {
        let subject = parse::subject(packet, zone, self.config.check_checksums);
        let Subject::Fragment { tuple, ident, first } = subject else { return subject };
        let name = self.name_of(&tuple, ident);
        let leaves = self.apart.now == Apart::Leave;
        if leaves && (first || !self.fragments.knows(&name, now)) {
            if first {
                // What it may open, others of the burst are not to open before it.
                self.apart.opens(self.hasher.hash(&tuple));
            }
            return Subject::Apart;
        }
        let Some(piece) = parse::piece(packet) else { return Subject::Malformed };
        let time = (now, now.saturating_add(deadline_after(self.config.timeouts.fragment)));
        let transport = if first { Transport::Whole } else { Transport::Later };
        let arrival = if first {
            self.fragments.first(name, tuple, piece, time)
        } else {
            let holds = self.apart.now == Apart::Hold;
            self.fragments.later(name, piece, holds.then_some(packet.frame.len()), time)
        };
        self.counters.fragmented_evicted = self.fragments.evicted();
        match arrival {
            Arrival::Of(tuple) => Subject::Flow { tuple, transport },
            Arrival::Waits(ticket) => Subject::Waits(ticket),
            Arrival::Orphan => Subject::Orphan,
            Arrival::Overlaps => Subject::Refused { tiny: false },
            Arrival::Tiny => Subject::Refused { tiny: true },
        }
    }

    /// What becomes of a packet.
    pub(super) fn judge(
        &mut self,
        now_ns: u64,
        now: u32,
        request: &Request,
        packet: &mut Packet<'_>,
        subject: &Subject,
        mut found: Found,
    ) -> Outcome {
        if let Some((at, direction)) = found {
            let record = &self.records[at as usize];
            if record.deadline <= now {
                self.counters.connections_expired += 1;
                self.remove(at);
                found = None;
            } else if request.force
                && request.commit
                && direction == Direction::Reply
                && matches!(subject, Subject::Flow { transport: Transport::Whole, .. })
            {
                self.counters.connections_closed += 1;
                self.remove(at);
                found = None;
            }
        }
        let (tuple, transport) = match *subject {
            Subject::Flow { tuple, transport } => (tuple, transport),
            Subject::Apart => {
                self.counters.left_apart += 1;
                return Outcome { drop: Some(Drop::Apart), ..INVALID };
            }
            Subject::Waits(ticket) => {
                self.counters.fragments_waited += 1;
                return Outcome { drop: Some(Drop::Waits(ticket)), ..INVALID };
            }
            Subject::Refused { tiny } => {
                self.counters.malformed += 1;
                self.counters.fragments_tiny += u64::from(tiny);
                self.counters.fragments_overlapping += u64::from(!tiny);
                return Outcome { drop: Some(Drop::Fragment), ..INVALID };
            }
            Subject::Error { tuple } => {
                if found.is_none()
                    && self.apart.now == Apart::Leave
                    && self.apart.has(self.hasher.hash(&tuple))
                {
                    self.counters.left_apart += 1;
                    return Outcome { drop: Some(Drop::Apart), ..INVALID };
                }
                return self.error(request, packet, found).unwrap_or_else(|| {
                    self.counters.invalid += 1;
                    INVALID
                });
            }
            Subject::Untracked => {
                self.counters.untracked += 1;
                return Outcome::default();
            }
            Subject::Malformed => {
                self.counters.malformed += 1;
                return INVALID;
            }
            Subject::Orphan | Subject::Fragment { .. } => {
                self.counters.fragment_orphan += 1;
                return INVALID;
            }
        };
        if let Some((at, direction)) = found {
            let controls = self.records[at as usize].flags().has(Flags::CONTROL)
                && packet.at.fragment == Fragment::Whole;
            if controls && request.apart == Apart::Leave && self.may_grow(request, packet) {
                self.counters.left_apart += 1;
                return Outcome { drop: Some(Drop::Apart), ..INVALID };
            }
            let before = if controls { self.unshift(packet, at, direction) } else { None };
            let followed = self.log.is_some().then(|| self.worth_telling(at));
            match self.advance(now_ns, now, packet, transport, at, direction) {
                Advance::Invalid => {
                    if let Some(before) = before {
                        packet.frame.copy_from_slice(&before);
                    }
                    self.counters.invalid += 1;
                    return INVALID;
                }
                Advance::Reopen => {
                    self.counters.connections_closed += 1;
                    self.remove(at);
                }
                Advance::Valid { forget } => {
                    let marks = request.commit && self.exec(at, request);
                    self.counted(at, self.records[at as usize].flags(), direction);
                    let mut outcome = self.outcome(at, direction);
                    if direction == Direction::Reply {
                        self.records[at as usize].flags_mut().set(Flags::REPLIED);
                    }
                    let announced = match controls {
                        true => self.announced(now, request, packet, at, direction),
                        false => Ok(None),
                    };
                    // As Linux does it: while nobody has answered, only who may open a connection translates its packets. One that
                    // is forgotten now is not found then.
                    let unanswered = direction == Direction::Original
                        && !forget
                        && !self.records[at as usize].flags().has(Flags::REPLIED);
                    if request.nat != Nat::None && !(unanswered && request.nat == Nat::Existing) {
                        let tuples = self.tuples(at);
                        self.translate((&tuples.0, &tuples.1), direction, packet, &mut outcome);
                        if let Fragment::First { ident } | Fragment::Later { ident } =
                            packet.at.fragment
                        {
                            let to = match direction {
                                Direction::Original => tuples.1.inverted(),
                                Direction::Reply => tuples.0.inverted(),
                            };
                            self.rename(ident, &tuple, &to);
                        }
                    }
                    match announced {
                        Err(alg::Partial) => outcome.drop = Some(Drop::Partial),
                        Ok(announced) if controls => {
                            self.shift(request, packet, at, direction, announced, before);
                        }
                        Ok(_) => {}
                    }
                    if forget {
                        self.counters.connections_closed += 1;
                        self.remove(at);
                    } else {
                        self.requeue(at);
                        if let Some(before) = followed {
                            self.tell_if_changed(now_ns, at, before, marks);
                        }
                    }
                    return outcome;
                }
            }
        }
        self.open(now_ns, now, request, packet, tuple, transport).unwrap_or_else(|| {
            self.counters.invalid += 1;
            INVALID
        })
    }

    /// A packet that no connection has. None if it cannot open one.
    pub(super) fn open(
        &mut self,
        now_ns: u64,
        now: u32,
        request: &Request,
        packet: &mut Packet<'_>,
        tuple: Tuple,
        transport: Transport,
    ) -> Option<Outcome> {
        if self.fence.is_shut() {
            self.counters.refused += 1;
            self.counters.fenced += 1;
            return Some(FENCED);
        }
        if self.apart.now != Apart::Never
            && let Some(apart) = self.behind_others(now, request, &tuple)
        {
            return Some(apart);
        }
        // Who replies needs to have been asked.
        if tuple.role == Role::Reply {
            return None;
        }
        // A later fragment says too little to keep a connection, but has its first one's, which nobody has kept.
        if transport == Transport::Later {
            if matches!(tuple.protocol, IpProtocol::TCP | IpProtocol::SCTP) {
                return None;
            }
            self.counters.new += 1;
            let state = CtState::NEW | CtState::TRACKED;
            return Some(Outcome { state, original: Some(tuple), ..Outcome::default() });
        }
        let First { progress, notes, state, timeout } = self.first_of(now, &tuple, packet)?;
        let mut outcome = Outcome {
            state: CtState::NEW | CtState::TRACKED,
            original: Some(tuple),
            ..Outcome::default()
        };
        let expected = match self.helpers.expects() {
            true => self.helpers.expected(&tuple, now),
            // Nearly always.
            false => None,
        };
        if let Some(expected) = &expected {
            outcome.state |= CtState::RELATED;
            (outcome.mark, outcome.label) = (expected.mark, expected.label);
            outcome.original = Some(expected.parent);
        }
        if !request.commit {
            self.counters.new += 1;
            return Some(outcome);
        }
        let deadline = deadline_of(now_ns, timeout.unwrap_or(self.timeouts(tuple.zone).other));
        let bound = match expected.filter(|_| request.nat != Nat::None) {
            Some(expected) => self.bind_expected(&expected, &tuple),
            None => Ok(None),
        };
        let kept = bound.and_then(|bound| {
            self.insert(now, request, tuple, bound, (progress, notes), (state, deadline))
        });
        match kept {
            Ok(at) => {
                self.counters.new += 1;
                if let Some(expected) = expected {
                    self.relate(at, &tuple, &expected);
                }
                self.exec(at, request);
                self.control(at, request);
                // One that opens another way than by a handshake, or that carries what was announced, may be of note at once.
                if self.log.is_some() {
                    self.tell(now_ns, at);
                }
                if self.records[at as usize].flags().has(Flags::CONTROL) {
                    // Of UDP, the first packet says it.
                    let _ = self.announced(now, request, packet, at, Direction::Original);
                }
                outcome = self.outcome(at, Direction::Original);
                if request.nat != Nat::None {
                    let tuples = self.tuples(at);
                    self.translate(
                        (&tuples.0, &tuples.1),
                        Direction::Original,
                        packet,
                        &mut outcome,
                    );
                    if let Fragment::First { ident } = packet.at.fragment {
                        self.rename(ident, &tuple, &tuples.1.inverted());
                    }
                }
            }
            Err(drop) => {
                self.counters.refused += 1;
                outcome.drop = Some(drop);
            }
        }
        Some(outcome)
    }

    /// What the first packet of a connection makes of it. None if it cannot open one.
    pub(super) fn first_of(&self, now: u32, tuple: &Tuple, packet: &Packet<'_>) -> Option<First> {
        let (mut progress, mut notes) = (Progress::NEW, Notes::NEW);
        let payload = parse::payload(packet);
        let timeouts = self.timeouts(tuple.zone);
        let (state, timeout) = match tuple.protocol {
            IpProtocol::TCP => {
                let segment = tcp::Segment::parse(payload)?;
                if !tcp::open(&mut progress, &segment, &self.config.tcp) {
                    return None;
                }
                let first = tcp::Arrival {
                    state: tcp::State::None,
                    direction: Direction::Original,
                    segment: &segment,
                    known: tcp::Known { replied: false, assured: false },
                };
                match tcp::segment(
                    &mut progress,
                    &mut notes,
                    first,
                    self.config.tcp_rules(timeouts),
                ) {
                    tcp::Decision::Accept { state, timeout, .. } => (state as u8, timeout),
                    _ => return None,
                }
            }
            IpProtocol::SCTP => {
                let (state, way) = (sctp::State::None, Direction::Original);
                let timeouts = &timeouts.sctp;
                match sctp::packet(&mut progress, &mut notes, state, way, payload, true, timeouts) {
                    sctp::Decision::Accept { state, timeout, .. } => (state as u8, timeout),
                    sctp::Decision::Invalid => return None,
                }
            }
            IpProtocol::UDP | IpProtocol::UDP_LITE => {
                progress.sides[0].end = now.saturating_add(deadline_after(2));
                (0, Some(timeouts.udp))
            }
            _ if tuple.is_query() => (0, Some(timeouts.icmp)),
            _ => (0, Some(timeouts.other)),
        };
        Some(First { progress, notes, state, timeout })
    }

    /// A packet that no connection has: whether it is to come alone, as an earlier one of its burst might open one.
    pub(super) fn behind_others(
        &mut self,
        now: u32,
        request: &Request,
        tuple: &Tuple,
    ) -> Option<Outcome> {
        let hash = self.hasher.hash(tuple);
        match self.apart.now {
            Apart::Leave if !request.commit => {
                if !self.apart.meets(hash, now) {
                    return None;
                }
                self.counters.left_apart += 1;
                Some(Outcome { drop: Some(Drop::Apart), ..INVALID })
            }
            Apart::Hold if !request.commit => {
                self.apart.none(hash);
                None
            }
            _ => {
                self.apart.opened(hash);
                None
            }
        }
    }

    /// Mark and label, as the action sets them; whether they are others now.
    pub(super) fn exec(&mut self, at: u32, request: &Request) -> bool {
        let flags = self.records[at as usize].flags_mut();
        flags.touch();
        let mut changes = false;
        if let Some((value, mask)) = request.mark {
            let rest = &mut self.rests[at as usize];
            let mark = rest.mark & !mask | value & mask;
            changes = std::mem::replace(&mut rest.mark, mark) != mark;
            flags.set(Flags::MARKED);
        }
        if let Some((value, mask)) = request.label {
            changes |= (self.label_of(at) ^ value) & mask != 0;
            self.set_label(at, (value, mask));
        }
        changes
    }

    /// What a packet of a connection is told.
    #[inline(always)]
    pub(super) fn outcome(&self, at: u32, direction: Direction) -> Outcome {
        let record = &self.records[at as usize];
        let state = told(record.flags(), direction);
        let mut outcome =
            Outcome { state, original: Some(record.original_v4()), ..Outcome::default() };
        if record.flags().has(Flags::MARKED | Flags::V6 | Flags::RELATED) {
            self.tell_rest(at, &mut outcome);
        }
        outcome
    }

    /// What of that is not in the record.
    #[cold]
    pub(super) fn tell_rest(&self, at: u32, outcome: &mut Outcome) {
        (outcome.mark, outcome.label) = (self.rests[at as usize].mark, self.label_of(at));
        outcome.original = Some(self.original_of(at));
        if self.records[at as usize].flags().has(Flags::RELATED)
            && let Some(parent) = self.helpers.parent(at)
        {
            outcome.original = Some(parent);
            outcome.state |= CtState::RELATED;
        }
    }

    /// An error that quotes a packet of the connection found: it goes the way that the quoted packet's
    /// answer would. None without a connection, or if it is not for who sent the quoted packet.
    pub(super) fn error(
        &mut self,
        request: &Request,
        packet: &mut Packet<'_>,
        found: Found,
    ) -> Option<Outcome> {
        let (at, direction) = found?;
        self.counters.related += 1;
        let mut outcome = self.outcome(at, direction);
        outcome.state = CtState::RELATED | CtState::TRACKED;
        if direction == Direction::Reply {
            outcome.state |= CtState::REPLY;
        }
        if request.nat != Nat::None {
            let tuples = self.tuples(at);
            self.translate_error((&tuples.0, &tuples.1), direction, packet, &mut outcome);
        }
        Some(outcome)
    }

    /// Moves a connection on by a packet.
    pub(super) fn advance(
        &mut self,
        now_ns: u64,
        now: u32,
        packet: &Packet<'_>,
        transport: Transport,
        at: u32,
        direction: Direction,
    ) -> Advance {
        const VALID: Advance = Advance::Valid { forget: false };
        let record = &mut self.records[at as usize];
        record.flags_mut().touch();
        if transport == Transport::Later {
            return VALID;
        }
        let rest = &mut self.rests[at as usize];
        rest.notes = record.notes(rest);
        record.flags_mut().clear(Flags::AT_EDGE | Flags::UNNOTED);
        let flags = record.flags();
        let timeouts = self.zones.timeouts(record.zone, &self.config.timeouts);
        let was = record.state();
        let (progress, notes) = (&mut record.progress, &mut rest.notes);
        let (state, timeout, assured) = match IpProtocol(record.protocol) {
            IpProtocol::TCP => {
                let Some(segment) = tcp::Segment::parse(parse::payload(packet)) else {
                    return Advance::Invalid;
                };
                let known = tcp::Known {
                    replied: flags.has(Flags::REPLIED),
                    assured: flags.has(Flags::ASSURED),
                };
                let state = tcp::State::from_number(was);
                let arrival = tcp::Arrival { state, direction, segment: &segment, known };
                match tcp::segment(progress, notes, arrival, self.config.tcp_rules(timeouts)) {
                    tcp::Decision::Accept { state, timeout, assured } => {
                        (state as u8, timeout, assured)
                    }
                    tcp::Decision::Ignore => return VALID,
                    tcp::Decision::Forget => return Advance::Valid { forget: true },
                    tcp::Decision::Reopen => return Advance::Reopen,
                    tcp::Decision::Invalid { shorten } => {
                        self.doubt(now_ns, now, at, shorten);
                        return Advance::Invalid;
                    }
                }
            }
            IpProtocol::SCTP => {
                let state = sctp::State::from_number(was);
                let payload = parse::payload(packet);
                let timeouts = &timeouts.sctp;
                match sctp::packet(progress, notes, state, direction, payload, false, timeouts) {
                    sctp::Decision::Accept { state, timeout, assured } => {
                        (state as u8, timeout, assured)
                    }
                    sctp::Decision::Invalid => return Advance::Invalid,
                }
            }
            IpProtocol::UDP | IpProtocol::UDP_LITE => {
                let stream = flags.has(Flags::REPLIED) && now > progress.sides[0].end;
                let timeout = if stream { timeouts.udp_stream } else { timeouts.udp };
                (0, Some(timeout), stream)
            }
            _ if flags.has(Flags::QUERY) => (0, Some(timeouts.icmp), false),
            _ => (0, Some(timeouts.other), false),
        };
        let record = &mut self.records[at as usize];
        record.set_state(state);
        if assured {
            record.flags_mut().set(Flags::ASSURED);
        }
        if let Some(timeout) = timeout {
            self.refresh(now_ns, at, timeout);
        }
        VALID
    }
}
