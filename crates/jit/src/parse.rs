//! The parser: instances of states, extraction, selection.
//!
//! The entry's parser has code of its own for each short way, as far as there are not too many; a
//! packet on another way is left to a second segment, whose parser takes any way.
//!
//! A header that is extracted gets a base in the packet, nothing is copied. What the interpreter
//! does bit by bit (headers and skips that are not whole bytes, varbit fields that do not fit) bails
//! out.

use crate::emit::{self, Ended, Env, Gen};
use crate::graph::{Lasts, Lies, Step, asks_what_was_parsed, step};
use crate::value::{Val, load_be};
use crate::version::{Facts, Know, STATE_VERSIONS, nothing, pick};
use cranelift_codegen::ir::{Block, InstBuilder, Value, condcodes::IntCC};
use ir::program::{SelectCase, intrinsic, parser_error};
use ir::{BlockId, DropReason, Expr, FieldRef, HeaderId, ParserOp, Select, Transition};
use std::cmp::Reverse;

/// Code for a state: what it knows, and where it is.
type Way = (Facts, Block);

/// Elements of stacks behind the first, which few packets have; headers that matter, for the more
/// there are, the more is to be known; where the last state was entered, in bytes from the packet's
/// start. The least comes first.
type Worth = (usize, Reverse<usize>, u64);

/// Where control goes from an instance.
struct Ways {
    /// By instance: versions.
    instances: Vec<Vec<Way>>,
    /// With how much each is worth a version.
    accept: Vec<(Facts, (Block, Worth))>,
    /// Where the state at hand was entered.
    entered: u64,
}

/// The next cases of a selection, as far as they demand the same of some keys.
struct Alike {
    cases: usize,
    /// If there are several cases.
    keys: Vec<usize>,
}

impl Alike {
    /// The first of these cases, and those behind it.
    fn of(cases: &[SelectCase]) -> Alike {
        let Some((first, rest)) = cases.split_first() else {
            return Alike { cases: 0, keys: Vec::new() };
        };
        let same =
            |case: &SelectCase, key: usize| case.patterns.get(key) == first.patterns.get(key);
        let (mut count, mut keys) = (1, Vec::new());
        if let Some(next) = rest.first() {
            let asks = |key: &usize| first.patterns[*key] != Select::Any;
            keys.extend((0..first.patterns.len()).filter(asks).filter(|key| same(next, *key)));
        }
        if !keys.is_empty() {
            count += rest.iter().take_while(|case| keys.iter().all(|key| same(case, *key))).count();
        }
        Alike { cases: count, keys }
    }
}

/// A state that is being generated.
#[derive(Clone, Copy)]
struct Place<'a> {
    at: usize,
    ops: &'a [ParserOp],
    lasts: &'a Lasts,
}

impl<'f, 'p> Gen<'f, 'p> {
    /// Parses the packet and runs the blocks.
    pub(crate) fn parse(&mut self) {
        let plan = self.plan;
        let none = vec![Vec::new(); plan.graph.instances.len()];
        let mut ways = Ways { instances: none, accept: Vec::new(), entered: u64::MAX };
        if plan.graph.instances.is_empty() {
            self.first_block();
            return;
        }
        if let (Some(floor), false) = (plan.graph.floor(), self.any_way) {
            // Packets that are shorter than most are left to the other segment, so that the lengths
            // of headers are looked at once.
            let floor_value = self.constant(floor);
            let short = self.compare(IntCC::UnsignedLessThan, self.len, floor_value);
            let (yes, no) = (self.b.create_block(), self.b.create_block());
            self.b.set_cold_block(yes);
            self.branch(&short, yes, no);
            self.enter(yes);
            self.leave();
            self.enter(no);
            self.floor = floor;
        }
        let _: Result<(), Ended> = self.instance(0, &mut ways);
        for at in 1..plan.graph.instances.len() {
            // Code of an instance leads to later ones only.
            for (facts, block) in ways.instances[at].clone() {
                self.enter(block);
                ways.entered = match facts.first() {
                    Some(Know::Const(cursor)) => *cursor,
                    _ => u64::MAX,
                };
                let _: Result<(), Ended> = self.instance(at, &mut ways);
            }
        }
        // There are not versions for all.
        ways.accept.sort_by_key(|(_, (_, worth))| *worth);
        for (_, (accept, _)) in ways.accept {
            self.enter(accept);
            self.site = String::new();
            if plan.program.blocks.is_empty() {
                self.end(None);
                continue;
            }
            if self.parses_for.is_some() {
                self.behind_edit();
                continue;
            }
            let facts = self.facts(self.behind_parser);
            let block = self.version(BlockId(0), facts);
            self.b.ins().jump(block, &[]);
        }
        self.pending_blocks();
    }

    /// Leaves the packet to the segment that parses whatever comes.
    pub(crate) fn leave(&mut self) -> Ended {
        let point = self.points.rest();
        self.wait(point, None);
        self.b.ins().jump(self.next, &[]);
        Ended
    }

    /// Facts about a way to an instance that is worth code of its own. `None` for others.
    fn facts_of_way(&mut self, to: usize) -> Option<Facts> {
        let facts = self.facts_in_parser();
        let short = matches!(facts[0], Know::Const(cursor) if self.plan.graph.is_short(to, cursor));
        short.then_some(facts)
    }

    fn first_block(&mut self) {
        self.site = String::new();
        if self.parses_for.is_some() {
            self.behind_edit();
            self.pending_blocks();
            return;
        }
        if self.plan.program.blocks.is_empty() {
            self.end(None);
            return;
        }
        let facts = self.facts(self.behind_parser);
        let block = self.version(BlockId(0), facts);
        self.b.ins().jump(block, &[]);
        self.pending_blocks();
    }

    fn instance(&mut self, at: usize, ways: &mut Ways) -> Result<(), Ended> {
        let plan = self.plan;
        let instance = &plan.graph.instances[at];
        let state = &plan.program.parser[instance.state.index()];
        self.site = format!("parser state {}", state.name);
        let (mut lasts, mut order) = (instance.lasts.clone(), instance.order);
        let env = Env { parser: true, ..Env::default() };
        for op in &state.ops {
            let step = step(plan.program, &plan.shape, op, &mut lasts, &mut order);
            match (step, op) {
                (Step::Full, _) => {
                    return Err(self.reject(parser_error::STACK_OUT_OF_BOUNDS, ways));
                }
                (
                    Step::Extract(header, lies),
                    ParserOp::Extract { varbit, .. } | ParserOp::ExtractNext { varbit, .. },
                ) => {
                    if !crate::graph::supported(plan.program) {
                        return Err(self.bail("a union of stack elements"));
                    }
                    self.extract(header, varbit.as_ref(), lies, ways)?;
                }
                (_, ParserOp::Advance(bits)) => self.advance(bits, ways)?,
                (_, ParserOp::Assign(FieldRef::Meta(id), value)) => {
                    let value = self.value(value, env)?;
                    self.set_meta(*id, &value);
                }
                (_, ParserOp::Assign(field, value)) => {
                    let value = self.value(value, env)?;
                    self.assign(*field, &value)?;
                    if asks_what_was_parsed(self.plan.program) {
                        self.clear_in_order(&Val::bool(true));
                    }
                }
                (_, ParserOp::Verify(condition, code)) => {
                    let holds = self.value(condition, env)?;
                    let fails = self.not(&holds);
                    self.reject_if(&fails, *code, ways)?;
                }
                _ => {}
            }
        }
        let place = Place { at, ops: &state.ops, lasts: &lasts };
        self.transition(place, &state.next, ways)
    }

    fn reject(&mut self, code: u8, ways: &mut Ways) -> Ended {
        if !self.plan.program.reject_continues {
            return self.end(Some(DropReason::ParserReject));
        }
        self.accept(code, ways)
    }

    fn accept(&mut self, code: u8, ways: &mut Ways) -> Ended {
        let width = self.plan.program.metadata[intrinsic::PARSER_ERROR.index()].width;
        let code = Val::constant(&mut self.b, &ir::Bits::from_u128(code.into(), width));
        self.set_meta(intrinsic::PARSER_ERROR, &code);
        let mut facts = self.facts(self.behind_parser);
        if self.any_way {
            facts = nothing(&facts);
        }
        let worth = self.worth(ways.entered);
        let (b, bound) = (&mut self.b, self.points.bounds.accept);
        let new = || (b.create_block(), worth);
        let at = pick(&mut ways.accept, facts, bound, new);
        self.b.ins().jump(ways.accept[at].1.0, &[]);
        Ended
    }

    /// How much a way that has come to its end is worth a version.
    fn worth(&mut self, entered: u64) -> Worth {
        let plan = self.plan;
        let (mut repeated, mut headers) = (0, 0);
        for (h, header) in (0..).map(HeaderId).zip(&plan.program.headers) {
            if self.valid(h).known_truth() != Some(true) {
                continue;
            }
            headers += usize::from(self.behind_parser.headers.has(h.index()));
            let behind_first =
                |(stack, _): (ir::StackId, _)| h != plan.program.stacks[stack.index()].first;
            repeated += usize::from(header.stack.is_some_and(behind_first));
        }
        (repeated, Reverse(headers), entered)
    }

    fn reject_if(&mut self, condition: &Val, code: u8, ways: &mut Ways) -> Result<(), Ended> {
        match condition.known_truth() {
            Some(false) => return Ok(()),
            Some(true) => return Err(self.reject(code, ways)),
            None => {}
        }
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        self.branch(condition, yes, no);
        self.enter(yes);
        self.reject(code, ways);
        self.enter(no);
        Ok(())
    }

    fn extract(
        &mut self,
        h: HeaderId,
        varbit: Option<&Expr>,
        lies: Lies,
        ways: &mut Ways,
    ) -> Result<(), Ended> {
        let plan = self.plan;
        let header = &plan.shape.headers[h.index()];
        if !header.fixed.is_multiple_of(8) {
            return Err(self.bail("a header that is not whole bytes"));
        }
        let fixed = u64::from(header.fixed / 8);
        let cursor = self.b.use_var(self.cursor);
        let end = self.plus(cursor, fixed);
        let short = self.is_beyond(end);
        self.reject_if(&short, parser_error::PACKET_TOO_SHORT, ways)?;

        // A member of the union that was valid has given its bytes.
        if let Some(union) = plan.program.headers[h.index()].union {
            for member in &plan.program.unions[union.index()].members {
                let valid = self.valid(*member);
                self.moves_if(&valid);
            }
            self.invalidate_union(h, &Val::bool(true));
        }
        let Some(vars) = self.headers[h.index()].clone() else {
            return Err(self.bail("a header is extracted unexpectedly"));
        };
        let base = match self.known(cursor) {
            Some(cursor) => self.place(cursor),
            None => self.b.ins().iadd(self.data, cursor),
        };
        self.b.def_var(vars.base, base);
        self.set_known(vars.valid, 1);
        self.set_known(vars.varbit, 0);
        // What the parser wrote to it before is gone.
        self.set_dirty(h, 0);
        let mut end = end;
        if let Some(width) = varbit {
            let env = Env { parser: true, ..Env::default() };
            let width = self.value(width, env)?;
            let max = header.varbit.unwrap_or(0);
            // More than 32 bits of a width, or too many bits, are a header too short.
            let b = &mut self.b;
            let most = Val::constant(b, &ir::Bits::from_u128(max.into(), 32));
            let long = most.less(b, &width);
            self.bail_if(&long, "a varbit field that is too long")?;
            let ragged = width.slice(&mut self.b, 2, 0).is_nonzero(&mut self.b);
            self.bail_if(&ragged, "a varbit field that is not whole bytes")?;
            let bits = width.to_i64_low(&mut self.b);
            let bytes = self.b.ins().ushr_imm_u(bits, 3);
            end = self.sum(end, bytes);
            let short = self.is_beyond(end);
            self.bail_if(&short, "a varbit field that is cut short")?;
            self.b.def_var(vars.varbit, bytes);
        }
        self.b.def_var(self.cursor, end);
        if plan.graph.shuffled || header.order.is_some_and(|order| order < plan.shape.moving) {
            self.b.def_var(self.edge, end);
        }
        match lies {
            Lies::InOrder => {}
            Lies::Elsewhere => self.set_known(self.moved, 1),
            Lies::Repeated => self.clear_in_order(&Val::bool(true)),
        }
        Ok(())
    }

    /// Headers are to be laid anew, if the condition holds.
    fn moves_if(&mut self, condition: &Val) {
        let moved = self.get(self.moved, 1);
        let moved = self.or(&moved, condition);
        self.set(self.moved, &moved);
    }

    /// One bit: so many bytes are more than the packet has.
    fn is_beyond(&mut self, end: Value) -> Val {
        if self.known(end).is_some_and(|end| end <= self.floor) {
            return Val::bool(false);
        }
        self.compare(IntCC::UnsignedGreaterThan, end, self.len)
    }

    fn clear_in_order(&mut self, condition: &Val) {
        let old = self.b.use_var(self.in_order);
        let zero = self.constant(0);
        let new = self.select(condition, zero, old);
        self.b.def_var(self.in_order, new);
    }

    fn advance(&mut self, bits: &Expr, ways: &mut Ways) -> Result<(), Ended> {
        let bits = self.value(bits, Env { parser: true, ..Env::default() })?;
        let cursor = self.b.use_var(self.cursor);
        // The amount is compared at its own width, and at least at 64 bits.
        let left = self.b.ins().isub(self.len, cursor);
        let left = self.b.ins().ishl_imm_u(left, 3);
        let left = Val::from_i64(&mut self.b, left, 64);
        let short = left.less(&mut self.b, &bits);
        self.reject_if(&short, parser_error::PACKET_TOO_SHORT, ways)?;
        let ragged = bits.slice(&mut self.b, 2, 0).is_nonzero(&mut self.b);
        self.bail_if(&ragged, "a skip that is not whole bytes")?;
        let some = bits.is_nonzero(&mut self.b);
        self.moves_if(&some);
        let bytes = bits.cast(&mut self.b, 64).shr(&mut self.b, 3);
        let cursor = Val::from_i64(&mut self.b, cursor, 64);
        let cursor = match self.get(self.cursor, 64).as_const() {
            Some(known) => Val::constant(&mut self.b, &known),
            None => cursor,
        };
        let cursor = cursor.add(&mut self.b, &bytes);
        self.set(self.cursor, &cursor);
        self.set(self.edge, &cursor);
        Ok(())
    }

    /// Bits of the unparsed rest; zero past the packet's end.
    pub(crate) fn lookahead(&mut self, skip: u32, width: u32) -> Result<Val, String> {
        if width == 0 {
            return Ok(Val::zero(0));
        }
        let (byte, bit) = (skip / 8, skip % 8);
        let bytes = (bit + width).div_ceil(8);
        if bytes > self.plan.slots.zeros {
            return Err("a lookahead that is too wide".to_owned());
        }
        let cursor = self.b.use_var(self.cursor);
        let start = self.plus(cursor, u64::from(byte));
        let end = self.plus(start, u64::from(bytes));
        let outside = self.is_beyond(end);
        if bytes > 1 && outside.known_truth().is_none() {
            let within = self.compare(IntCC::UnsignedLessThan, start, self.len);
            let partly = self.and(&outside, &within);
            if self.bail_if(&partly, "a lookahead that is cut short").is_err() {
                // The block goes on unreachable, so that the caller need not know.
                let rest = self.b.create_block();
                self.enter(rest);
            }
        }
        let at = self.sum(self.data, start);
        let at = self.select(&outside, self.zeros, at);
        Ok(load_be(&mut self.b, emit::bytes(at), 0, bit, width, 0..bytes as i32))
    }

    fn transition(
        &mut self,
        place: Place<'_>,
        transition: &Transition,
        ways: &mut Ways,
    ) -> Result<(), Ended> {
        match transition {
            Transition::Accept => Err(self.accept(parser_error::NONE, ways)),
            Transition::Reject => Err(self.reject(parser_error::NONE, ways)),
            Transition::State(state) => {
                let Some(to) = self.plan.graph.target(place.at, *state, place.lasts) else {
                    return Err(self.bail("the parser loops, or goes on for too long"));
                };
                let facts = if self.any_way { None } else { self.facts_of_way(to) };
                let versions = &mut ways.instances[to];
                let known = versions.iter().position(|(f, _)| Some(f) == facts.as_ref());
                let at = match (known, facts) {
                    (Some(at), _) => at,
                    (None, Some(facts)) if versions.len() < 2 * STATE_VERSIONS => {
                        versions.push((facts, self.b.create_block()));
                        versions.len() - 1
                    }
                    (None, _) if !self.any_way => return Err(self.leave()),
                    (None, _) => {
                        if versions.is_empty() {
                            versions.push((Facts::new(), self.b.create_block()));
                        }
                        0
                    }
                };
                self.b.ins().jump(versions[at].1, &[]);
                Err(Ended)
            }
            Transition::Select { keys, cases } => {
                let env = Env { parser: true, ..Env::default() };
                let mut values = Vec::with_capacity(keys.len());
                for key in keys {
                    values.push(self.value(key, env)?);
                }
                let mut at = 0;
                while at < cases.len() {
                    // What the next cases demand as well is asked once for all of them.
                    let alike = Alike::of(&cases[at..]);
                    let here = self.matches(&cases[at], &values, |key| alike.keys.contains(&key));
                    let group = &cases[at..at + alike.cases];
                    at += alike.cases;
                    let Some(here) = here else { continue };
                    let none = (!here.is_empty()).then(|| self.b.create_block());
                    if let Some(none) = none {
                        self.demand(&here, none);
                    }
                    let mut left = true;
                    for case in group {
                        let rest = |key| !alike.keys.contains(&key);
                        let Some(here) = self.matches(case, &values, rest) else { continue };
                        let no = (!here.is_empty()).then(|| self.b.create_block());
                        if let Some(no) = no {
                            self.demand(&here, no);
                        }
                        for (pattern, key) in case.patterns.iter().zip(keys) {
                            self.learn(place.ops, pattern, key);
                        }
                        let went = self.transition(place, &case.next, ways);
                        match no {
                            Some(no) => self.enter(no),
                            None => {
                                left = false;
                                match none {
                                    Some(_) => break,
                                    None => return went,
                                }
                            }
                        }
                    }
                    if let Some(none) = none {
                        if left {
                            self.b.ins().jump(none, &[]);
                        }
                        self.enter(none);
                    }
                }
                Err(self.reject(parser_error::NO_MATCH, ways))
            }
        }
    }

    /// A key has matched a pattern: metadata that this state has set to the same is known now.
    fn learn(&mut self, ops: &[ParserOp], pattern: &Select, key: &Expr) {
        let Select::Masked(value, mask) = pattern else { return };
        let Some(width) = key.width(self.plan.program, &[]) else { return };
        if value.width() != width || *mask != ir::Bits::ones(width) {
            return;
        }
        for (at, op) in ops.iter().enumerate() {
            let ParserOp::Assign(FieldRef::Meta(id), e) = op else { continue };
            // What is extracted or assigned after that may be another thing.
            let later = &ops[at + 1..];
            let stays = later.iter().all(|op| match op {
                ParserOp::Assign(FieldRef::Meta(other), _) => {
                    other != id && *key != Expr::Field(FieldRef::Meta(*other))
                }
                ParserOp::Verify(..) => true,
                _ => false,
            });
            let same_width = self.plan.program.metadata[id.index()].width == width;
            if e == key && stays && same_width {
                let value = Val::constant(&mut self.b, value);
                self.set_meta(*id, &value);
            }
        }
    }

    /// What has yet to be asked of those keys that are looked at, for a case to match; none if it cannot.
    fn matches(
        &mut self,
        case: &SelectCase,
        values: &[Val],
        looked_at: impl Fn(usize) -> bool,
    ) -> Option<Vec<Val>> {
        let mut open = Vec::with_capacity(values.len());
        for (key, (pattern, value)) in case.patterns.iter().zip(values).enumerate() {
            if !looked_at(key) {
                continue;
            }
            let here = self.select_matches(pattern, value);
            match here.known_truth() {
                Some(true) => {}
                Some(false) => return None,
                None => open.push(here),
            }
        }
        Some(open)
    }

    /// Goes elsewhere unless all of them hold: one after the other, as each is easily predicted.
    fn demand(&mut self, all: &[Val], or_else: Block) {
        for here in all {
            let yes = self.b.create_block();
            self.branch(here, yes, or_else);
            self.enter(yes);
        }
    }

    /// One bit: the value matches.
    fn select_matches(&mut self, pattern: &Select, value: &Val) -> Val {
        let b = &mut self.b;
        match pattern {
            Select::Any => Val::bool(true),
            Select::Masked(v, mask) => {
                let (v, m) = (Val::constant(b, &v.and(mask)), Val::constant(b, mask));
                match Val::binary(b, ir::BinaryOp::And, value, &m) {
                    Ok(masked) => masked.equal(b, &v),
                    Err(_) => Val::bool(false),
                }
            }
            Select::Range(lo, hi) => value.within(b, lo, hi),
            Select::ValueSet(id) => {
                let plan = self.plan;
                let members = plan.unit.value_sets.get(id.index()).map_or(&[][..], |m| m);
                let mut any = Val::bool(false);
                for member in members {
                    // A value set holds patterns only, no other value sets.
                    if !matches!(member, Select::ValueSet(_)) {
                        let here = self.select_matches(member, value);
                        any = self.or(&any, &here);
                    }
                }
                any
            }
        }
    }
}
