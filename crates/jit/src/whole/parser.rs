//! The parser of a whole program as one function. It returns 0, or one more than the error that it went to reject
//! with.

use super::function::Gen;
use super::layout::at;
use super::site::What;
use crate::value::{Base, Val, copy_bytes};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use ir::program::{PARSER_STEPS_MAX, parser_error};
use ir::{Expr, FieldRef, HeaderId, ParserOp, Select, Transition};

impl Gen<'_> {
    /// All states.
    pub(crate) fn states(&mut self) {
        self.parser = true;
        let program = self.layout.program.clone();
        let states: Vec<Block> = program.parser.iter().map(|_| self.block()).collect();
        match states.first() {
            Some(start) => self.jump(*start),
            None => self.ret(0),
        }
        for (state, block) in program.parser.iter().zip(&states) {
            self.enter(*block);
            let steps = self.word(at::STEPS);
            let most = self.constant(PARSER_STEPS_MAX as u64);
            let many = self.compare(IntCC::UnsignedGreaterThanOrEqual, steps, most);
            self.reject_if(&many, parser_error::TIMEOUT);
            let steps = self.b.ins().iadd_imm_u(steps, 1);
            self.set_word(at::STEPS, steps);
            state.ops.iter().for_each(|op| self.parser_op(op));
            self.transition(&state.next, &states);
        }
    }

    fn reject(&mut self, code: u8) {
        self.ret(u64::from(code) + 1);
    }

    fn reject_if(&mut self, condition: &Val, code: u8) {
        if condition.known_truth() == Some(false) {
            return;
        }
        let (yes, no) = (self.block(), self.block());
        self.branch(condition, yes, no);
        self.enter(yes);
        self.reject(code);
        self.enter(no);
    }

    fn parser_op(&mut self, op: &ParserOp) {
        match op {
            ParserOp::Extract { header, varbit } => self.extract(*header, varbit.as_ref()),
            ParserOp::ExtractNext { stack, varbit } => {
                // The one behind the last valid one.
                let elements = self.layout.stack(*stack);
                let rest = self.block();
                for i in elements.clone().rev() {
                    let valid = self.valid(HeaderId(i as u32));
                    let (here, before) = (self.block(), self.block());
                    self.branch(&valid, here, before);
                    self.enter(here);
                    match i + 1 < elements.end {
                        true => {
                            self.extract(HeaderId(i as u32 + 1), varbit.as_ref());
                            self.jump(rest);
                        }
                        false => self.reject(parser_error::STACK_OUT_OF_BOUNDS),
                    }
                    self.enter(before);
                }
                match elements.is_empty() {
                    true => self.reject(parser_error::STACK_OUT_OF_BOUNDS),
                    false => {
                        self.extract(HeaderId(elements.start as u32), varbit.as_ref());
                        self.jump(rest);
                    }
                }
                self.enter(rest);
            }
            ParserOp::Advance(bits) => {
                let bits = self.value(bits);
                let bits = self.amount(&bits);
                let (cursor, all) = (self.word(at::CURSOR), self.word(at::BITS));
                let end = self.b.ins().iadd(cursor, bits);
                let short = self.compare(IntCC::UnsignedLessThan, all, end);
                self.reject_if(&short, parser_error::PACKET_TOO_SHORT);
                self.set_word(at::CURSOR, end);
                let zero = self.constant(0);
                let none = self.compare(IntCC::Equal, bits, zero);
                let none = none.cast(&mut self.b, 64).to_i64_low(&mut self.b);
                let in_order = self.word(at::IN_ORDER);
                let in_order = self.b.ins().band(in_order, none);
                self.set_word(at::IN_ORDER, in_order);
            }
            ParserOp::Assign(field, value) => {
                let value = self.value(value);
                if !matches!(field, FieldRef::Meta(_)) {
                    self.set_word_to(at::IN_ORDER, 0);
                }
                self.assign(*field, &value);
            }
            ParserOp::Verify(condition, code) => {
                let holds = self.value(condition);
                let fails = holds.is_zero(&mut self.b);
                self.reject_if(&fails, *code);
            }
        }
    }

    fn extract(&mut self, h: HeaderId, varbit: Option<&Expr>) {
        let layout = self.layout;
        let ty = layout.type_of(h);
        let place = layout.headers[h.index()];
        let (cursor, all) = (self.word(at::CURSOR), self.word(at::BITS));
        let end = self.b.ins().iadd_imm_u(cursor, i64::from(ty.fixed));
        let short = self.compare(IntCC::UnsignedLessThan, all, end);
        self.reject_if(&short, parser_error::PACKET_TOO_SHORT);
        if let Some(union) = layout.program.headers[h.index()].union {
            let mut any = Val::bool(false);
            for member in &layout.program.unions[union.index()].members {
                let valid = self.valid(*member);
                any = Val::binary(&mut self.b, ir::BinaryOp::Or, &any, &valid).unwrap_or(any);
            }
            let none = any.is_zero(&mut self.b).cast(&mut self.b, 64).to_i64_low(&mut self.b);
            let in_order = self.word(at::IN_ORDER);
            let in_order = self.b.ins().band(in_order, none);
            self.set_word(at::IN_ORDER, in_order);
        }
        let (whole, part, rest) = (self.block(), self.block(), self.block());
        let within = self.b.ins().band_imm_u(cursor, 7);
        self.b.ins().brif(within, part, &[], whole, &[]);
        self.enter(whole);
        if ty.fixed.is_multiple_of(8) {
            let data = self.word(at::DATA);
            let byte = self.b.ins().ushr_imm_u(cursor, 3);
            let from = self.b.ins().iadd(data, byte);
            let flags = super::function::flags();
            let (from, to) = (Base::new(from, flags), Base::new(self.words, flags));
            copy_bytes(&mut self.b, from, 0, to, place.at as i32, ty.fixed / 8);
        } else {
            self.site(What::Extract(h), &[], None);
        }
        self.jump(rest);
        self.enter(part);
        self.site(What::Extract(h), &[], None);
        self.jump(rest);
        self.enter(rest);
        if ty.varbit > 0 {
            self.set_varbit(h, 0);
        }
        self.mark_valid(h);
        match varbit {
            None => self.set_word(at::CURSOR, end),
            Some(width) => {
                // Rust reads it, and moves the cursor behind it; or says what is wrong, as parsers do.
                let width = self.value(width);
                let width = self.amount(&width);
                let width = Val::from_i64(&mut self.b, width, 64);
                let wrong = self.site(What::Extract(h), &[width], None);
                let (yes, no) = (self.block(), self.block());
                self.b.ins().brif(wrong, yes, &[], no, &[]);
                self.enter(yes);
                self.b.ins().return_(&[wrong]);
                self.enter(no);
            }
        }
        match place.order {
            None => self.set_word_to(at::IN_ORDER, 0),
            Some(order) => {
                let next = self.word(at::NEXT_ORDER);
                let order = self.constant(u64::from(order));
                let fits = self.compare(IntCC::UnsignedGreaterThanOrEqual, order, next);
                let (yes, no, rest) = (self.block(), self.block(), self.block());
                self.branch(&fits, yes, no);
                self.enter(yes);
                let next = self.b.ins().iadd_imm_u(order, 1);
                self.set_word(at::NEXT_ORDER, next);
                self.jump(rest);
                self.enter(no);
                self.set_word_to(at::IN_ORDER, 0);
                self.jump(rest);
                self.enter(rest);
            }
        }
    }

    fn transition(&mut self, transition: &Transition, states: &[Block]) {
        match transition {
            Transition::Accept => self.ret(0),
            Transition::Reject => self.reject(parser_error::NONE),
            Transition::State(state) => self.jump(states[state.index()]),
            Transition::Select { keys, cases } => {
                let values: Vec<Val> = keys.iter().map(|k| self.value(k)).collect();
                for case in cases {
                    let mut all = Val::bool(true);
                    for (pattern, value) in case.patterns.iter().zip(&values) {
                        let here = self.select(pattern, value);
                        all = match all.known_truth() {
                            Some(true) => here,
                            _ => Val::binary(&mut self.b, ir::BinaryOp::And, &all, &here)
                                .unwrap_or(Val::bool(false)),
                        };
                    }
                    let (yes, no) = (self.block(), self.block());
                    self.branch(&all, yes, no);
                    self.enter(yes);
                    self.transition(&case.next, states);
                    self.enter(no);
                }
                self.reject(parser_error::NO_MATCH);
            }
        }
    }

    fn select(&mut self, pattern: &Select, value: &Val) -> Val {
        match pattern {
            Select::Any => Val::bool(true),
            Select::Masked(v, mask) => {
                let (v, mask) = (v.and(mask).cast(value.width), mask.cast(value.width));
                let (v, mask) = (Val::constant(&mut self.b, &v), Val::constant(&mut self.b, &mask));
                match Val::binary(&mut self.b, ir::BinaryOp::And, value, &mask) {
                    Ok(masked) => masked.equal(&mut self.b, &v),
                    Err(why) => {
                        self.failed.get_or_insert_with(|| why.to_string());
                        Val::bool(false)
                    }
                }
            }
            Select::Range(lo, hi) => value.within(&mut self.b, lo, hi),
            Select::ValueSet(id) => {
                let what = What::ValueSet(*id);
                let found: Value = self.site(what, std::slice::from_ref(value), None);
                Val::from_i64(&mut self.b, found, 1)
            }
        }
    }
}
