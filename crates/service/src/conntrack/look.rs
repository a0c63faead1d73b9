//! What would become of a packet, for a trace: nothing is kept, counted or bound.
//!
//! Left out are the rules of an open connection's own protocol (windows, states), connections that a helper expects, and ports of
//! pools that give senders blocks: who gets which shows when it is taken. A later fragment is nobody's.

use super::Tracker;
use super::parse::{self, Subject};
use super::record::Flags;
use super::request::{FENCED, INVALID, Nat, Outcome, Request};
use super::state::{CtState, Direction, Drop};
use super::time::ticks;
use super::tuple::{Role, Tuple};
use crate::nat::{self, Rule};
use crate::packet::Packet;

impl Tracker {
    /// What would be said of a packet. It is translated as it would be, where that is known without keeping its connection.
    pub fn look(&self, now_ns: u64, request: &Request, packet: &mut Packet<'_>) -> Outcome {
        let (tuple, error) = match parse::subject(packet, request.zone, self.config.check_checksums)
        {
            Subject::Untracked => return Outcome::default(),
            Subject::Flow { tuple, .. } | Subject::Fragment { tuple, first: true, .. } => {
                (tuple, false)
            }
            Subject::Error { tuple } => (tuple, true),
            _ => return INVALID,
        };
        let now_ns = self.clock.at(now_ns);
        let alive = |at: u32| self.records[at as usize].deadline > ticks(now_ns);
        let replaced = |way| request.force && request.commit && way == Direction::Reply && !error;
        match self.holder(&tuple).filter(|(at, way)| alive(*at) && !replaced(*way)) {
            Some((at, way)) if error => self.look_at_error(at, way, request, packet),
            Some((at, way)) => self.look_at_known(at, way, request, packet),
            None if error || tuple.role == Role::Reply => INVALID,
            None => self.look_at_new(now_ns, &tuple, request, packet),
        }
    }

    /// The same of a packet that was translated, in the same zone, and what was said of it then. Its connection may not be kept.
    pub fn look_again(
        &self,
        now_ns: u64,
        request: &Request,
        packet: &Packet<'_>,
        said: CtState,
    ) -> Outcome {
        let mut outcome = match self.known_again(now_ns, request, packet) {
            Some((at, direction, error)) => self.outcome_again(at, direction, error),
            None => Outcome { state: said, ..Outcome::default() },
        };
        if request.commit {
            mark(&mut outcome, request);
        }
        outcome
    }

    fn look_at_known(
        &self,
        at: u32,
        direction: Direction,
        request: &Request,
        packet: &mut Packet<'_>,
    ) -> Outcome {
        let mut outcome = self.outcome(at, direction);
        if request.commit {
            mark(&mut outcome, request);
        }
        // As in `judge`.
        let unanswered = direction == Direction::Original
            && !self.records[at as usize].flags().has(Flags::REPLIED);
        if request.nat != Nat::None && !(unanswered && request.nat == Nat::Existing) {
            let (original, reply) = self.tuples(at);
            let (from, to) = nat::ways(&original, &reply, direction);
            translate(&from, &to, packet, &mut outcome);
        }
        outcome
    }

    fn look_at_error(
        &self,
        at: u32,
        direction: Direction,
        request: &Request,
        packet: &mut Packet<'_>,
    ) -> Outcome {
        let mut outcome = self.outcome(at, direction);
        let reply = CtState(outcome.state.0 & CtState::REPLY.0);
        outcome.state = CtState::RELATED | CtState::TRACKED | reply;
        if request.nat != Nat::None {
            let (original, reply) = self.tuples(at);
            let (from, to) = nat::ways(&original, &reply, direction);
            if from != to {
                match nat::rewrite_error(packet, &from, &to) {
                    Some(()) => outcome.state |= nat::changed(&from, &to),
                    None => outcome.drop = Some(Drop::NatImpossible),
                }
            }
        }
        outcome
    }

    fn look_at_new(
        &self,
        now_ns: u64,
        tuple: &Tuple,
        request: &Request,
        packet: &mut Packet<'_>,
    ) -> Outcome {
        if self.fence.looks_shut() {
            return FENCED;
        }
        let now = ticks(now_ns);
        let Some(first) = self.first_of(now, tuple, packet) else { return INVALID };
        let state = CtState::NEW | CtState::TRACKED;
        let mut outcome = Outcome { state, original: Some(*tuple), ..Outcome::default() };
        if !request.commit {
            return outcome;
        }
        let dropped = outcome;
        mark(&mut outcome, request);
        let Nat::New(rule) = request.nat else { return outcome };
        let gives = |id: Option<nat::PoolId>| id.and_then(|id| self.pool(id));
        if [rule.source, rule.destination]
            .into_iter()
            .filter_map(gives)
            .any(nat::Pool::is_of_blocks)
        {
            return outcome;
        }
        let to = nat::Newcomer { now, syn_end: first.syn_end(tuple) };
        match self.would_bind(&rule, tuple, &to) {
            Some(reply) => translate(tuple, &reply.inverted(), packet, &mut outcome),
            None => return Outcome { drop: Some(Drop::NatExhausted), ..dropped },
        }
        outcome
    }

    /// The reply tuple that a new connection would have.
    fn would_bind(&self, rule: &Rule, original: &Tuple, to: &nat::Newcomer) -> Option<Tuple> {
        let mut random = self.random.clone();
        if *rule == Rule::default() {
            return self.same_address(original, &mut random);
        }
        let (mut pools, rule) = self.copies(rule);
        let mut would = |to| self.choose(&mut pools, &mut random.clone(), &rule, original, to);
        would(None).or_else(|| would(Some(to)))
    }
}

/// Mark and label, as the action would set them.
fn mark(outcome: &mut Outcome, request: &Request) {
    if let Some((value, mask)) = request.mark {
        outcome.mark = outcome.mark & !mask | value & mask;
    }
    if let Some((value, mask)) = request.label {
        outcome.label = outcome.label & !mask | value & mask;
    }
}

fn translate(from: &Tuple, to: &Tuple, packet: &mut Packet<'_>, outcome: &mut Outcome) {
    if from == to {
        return;
    }
    match nat::rewrite(packet, from, to) {
        Ok(()) => outcome.state |= nat::changed(from, to),
        Err(drop) => outcome.drop = Some(drop),
    }
}
