//! Checksum fields of an emission, as one function. Its second argument is what the values were right after parsing.
//! A field that it writes is noted, with what it held, among the words ([`Layout::sums`]), so that the driver can
//! take it back.
//!
//! What is left to Rust: CRC-32C, varbit fields that have bits, and more than 64 checksums.

use super::function::Gen;
use super::layout::Layout;
use super::run;
use super::site::{What, end};
use crate::value::{Adjust, Base, Val, store_words};
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::{BinaryOp, Checksum, ChecksumAlgorithm, ChecksumMode, Expr, FieldRef};

/// Code can do it.
fn by_code(layout: &Layout, number: usize, checksum: &Checksum) -> bool {
    let field = checksum.field;
    // A varbit field may be an input, but no part of one.
    let whole = |e: &Expr| matches!(e, Expr::Field(FieldRef::Header(..)));
    let varies = |e: &Expr| {
        let mut varies = false;
        e.visit(&mut |e| {
            varies |= matches!(e, Expr::Field(f) if layout.is_varbit(*f));
            varies |= matches!(e, Expr::Lookahead { .. } | Expr::Remaining);
        });
        varies && !whole(e)
    };
    let conditions =
        checksum.condition.iter().any(|e| varies(e) || whole(e) && !is_fixed(layout, e));
    number < 64
        && checksum.algorithm == ChecksumAlgorithm::Csum16
        && matches!(field, FieldRef::Header(..))
        && layout.width(field) == 16
        && !conditions
        && !checksum.inputs.iter().any(varies)
}

fn is_fixed(layout: &Layout, e: &Expr) -> bool {
    !matches!(e, Expr::Field(f) if layout.is_varbit(*f))
}

impl Gen<'_> {
    /// All checksums of the program.
    pub(crate) fn checksums(&mut self) {
        let program = self.layout.program.clone();
        for (number, checksum) in program.checksums.iter().enumerate() {
            match by_code(self.layout, number, checksum) {
                true => self.checksum(number, checksum),
                false => {
                    let rest = self.block();
                    if let FieldRef::Header(h, _) = checksum.field {
                        let valid = self.valid(h);
                        self.only_if(&valid, rest);
                    }
                    self.site(What::Checksum(number), &[], None);
                    self.jump(rest);
                    self.enter(rest);
                }
            }
        }
        self.ret(end::NONE);
    }

    /// Goes on if this holds, else to `rest`.
    fn only_if(&mut self, condition: &Val, rest: cranelift_codegen::ir::Block) {
        let go = self.block();
        self.branch(condition, go, rest);
        self.enter(go);
    }

    fn checksum(&mut self, number: usize, checksum: &Checksum) {
        let FieldRef::Header(h, _) = checksum.field else { return };
        let (now, then) = (self.words, self.args);
        let rest = self.block();
        let valid = self.valid(h);
        self.only_if(&valid, rest);
        let varbits = self.varbits(checksum);
        if varbits.known_truth() != Some(false) {
            let (long, short) = (self.block(), self.block());
            self.branch(&varbits, long, short);
            self.enter(long);
            self.site(What::Checksum(number), &[], None);
            self.jump(rest);
            self.enter(short);
        }
        if let Some(condition) = &checksum.condition {
            let holds = self.value(condition);
            self.only_if(&holds, rest);
        }
        let old = self.value(&Expr::Field(checksum.field));
        if checksum.zero_is_none {
            self.only_if(&old, rest);
        }
        let before = self.valid_then(h, then);
        match checksum.mode {
            ChecksumMode::Incremental => {
                self.only_if(&before, rest);
                let (mut adjust, mut position) = (Adjust::new(), 0u64);
                let mut differs = Val::bool(false);
                for e in &checksum.inputs {
                    if self.has_varbit(e) {
                        // As long as can be, and all zeros.
                        position += u64::from(e.width(&self.layout.program, &[]).unwrap_or(0));
                        continue;
                    }
                    let (is, was) = (self.value_at(e, now), self.value_at(e, then));
                    let here = is.differs(&mut self.b, &was);
                    differs = self.either(&differs, &here);
                    adjust.change(&mut self.b, &was, &is, (position % 16) as u32);
                    position += u64::from(is.width);
                }
                self.only_if(&differs, rest);
                let new = adjust.finish(&mut self.b, &old, position, checksum.zero_is_none);
                self.put(number, checksum, &old, &new);
                self.jump(rest);
            }
            ChecksumMode::IfChanged => {
                let (look, anew) = (self.block(), self.block());
                self.branch(&before, look, anew);
                self.enter(look);
                let mut differs = Val::bool(false);
                for e in checksum.inputs.iter().filter(|e| is_fixed(self.layout, e)) {
                    let (is, was) = (self.value_at(e, now), self.value_at(e, then));
                    let here = is.differs(&mut self.b, &was);
                    differs = self.either(&differs, &here);
                }
                self.branch(&differs, anew, rest);
                self.enter(anew);
                self.renew(number, checksum, &old);
                self.jump(rest);
            }
            ChecksumMode::Always => {
                self.renew(number, checksum, &old);
                self.jump(rest);
            }
        }
        self.enter(rest);
    }

    /// Some varbit field among the inputs has bits, or had.
    fn varbits(&mut self, checksum: &Checksum) -> Val {
        let mut any = Val::bool(false);
        for e in &checksum.inputs {
            let Expr::Field(FieldRef::Header(h, _)) = e else { continue };
            if !self.has_varbit(e) {
                continue;
            }
            for base in [self.words, self.args] {
                let bits = self.varbit_at(base, *h);
                let valid = self.value_at(&Expr::Valid(*h), base);
                let none = Val::zero(32);
                let bits = Val::mux(&mut self.b, &valid, &bits, &none).unwrap_or(bits);
                any = self.either(&any, &bits);
            }
        }
        any
    }

    fn valid_then(&mut self, h: ir::HeaderId, then: Value) -> Val {
        self.value_at(&Expr::Valid(h), then)
    }

    fn either(&mut self, x: &Val, y: &Val) -> Val {
        Val::binary(&mut self.b, BinaryOp::LogicalOr, x, y).unwrap_or(Val::bool(true))
    }

    /// The checksum of all inputs.
    fn renew(&mut self, number: usize, checksum: &Checksum, old: &Val) {
        let (mut sum, mut position) = (Adjust::new(), 0u32);
        for e in checksum.inputs.iter().filter(|e| is_fixed(self.layout, e)) {
            let value = self.value(e);
            sum.include(&mut self.b, &value, position % 16);
            position += value.width;
        }
        if checksum.payload {
            let payload = self.call(run::helper::PAYLOAD(), &[self.words]);
            let payload = Val::from_i64(&mut self.b, payload, 16);
            sum.include(&mut self.b, &payload, 0);
        }
        let mut new = sum.anew(&mut self.b);
        if checksum.zero_is_none {
            let ones = Val::constant(&mut self.b, &ir::Bits::ones(16));
            new = Val::mux(&mut self.b, &new, &new, &ones).unwrap_or(ones);
        }
        self.put(number, checksum, old, &new);
    }

    /// Writes a field, and notes what it held.
    fn put(&mut self, number: usize, checksum: &Checksum, old: &Val, new: &Val) {
        let first = self.layout.sums;
        let to = Base::new(self.words, super::function::flags());
        store_words(&mut self.b, to, (first + 8 * (1 + number)) as i32, old);
        let written = self.word(first / 8);
        let written = self.b.ins().bor_imm_u(written, 1i64 << number);
        self.set_word(first / 8, written);
        self.assign(checksum.field, new);
    }
}
