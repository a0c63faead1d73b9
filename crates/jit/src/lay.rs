//! Copies of a packet that goes on to change.
//!
//! What is output is only noted. Before the packet changes, or what is output is cut, the headers of what was output since the last
//! change are laid beside the packet as they would leave: the bytes of the frame itself are written at the end only, so
//! that a later bail-out stays free. Whoever sends the copies puts what came in behind their headers.
//!
//! Holds true: a copy has all that any commit of the program may write, so what comes in behind it stays as it came in. What code
//! knows of the packet is the same behind a copy as in front of it: an emission's checksums are not the packet's.
//! Cost: about a hundred instructions where it is not known what was written, twenty where it is.
//! Checked by: `tests/differential.rs`, with programs that output much.

use crate::emit::{self, Ended, Gen, fixed, trusted};
use crate::mutant::{Mutant, is_planted};
use crate::value::{Val, copy_bytes};
use crate::version::Know;
use abi::{IMAGES_BYTES, LAID_MAX, offset, size};
use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use ir::{FieldId, HeaderId};

/// Places of one function where a copy is laid, at most.
const LAYINGS_MAX: u32 = 128;
/// Bytes that are copied without a loop, at most.
const COPIED_MAX: u64 = 256;

impl Gen<'_, '_> {
    /// Something that the emitted bytes depend on is about to change, if the condition holds: what was output before is laid
    /// aside.
    pub(crate) fn touch(&mut self, condition: &Val) -> Result<(), Ended> {
        let unlaid = self.get(self.unlaid, 1);
        let both = self.and(condition, &unlaid);
        match both.known_truth() {
            Some(false) => Ok(()),
            Some(true) => self.lay(),
            None => {
                let (yes, rest) = (self.b.create_block(), self.b.create_block());
                self.branch(&both, yes, rest);
                self.enter(yes);
                if self.lay().is_ok() {
                    self.b.ins().jump(rest, &[]);
                }
                self.enter(rest);
                if condition.known_truth() == Some(true) {
                    self.set_known(self.unlaid, 0);
                }
                Ok(())
            }
        }
    }

    /// From here on, outputs have so many bytes at most.
    pub(crate) fn truncate(&mut self, length: &Val) -> Result<(), Ended> {
        let length = length.cast(&mut self.b, 32);
        let cut = self.get(self.cut, 32);
        let less = length.less(&mut self.b, &cut);
        let cut = Val::mux(&mut self.b, &less, &length, &cut);
        let cut = cut.map_err(|e| self.bail(&e.to_string()))?.cast(&mut self.b, 64);
        self.set(self.cut, &cut);
        Ok(())
    }

    /// Lays a copy of the headers as they would leave beside the packet, for the outputs that have none yet. It has all that
    /// any commit may write, so that the rest of it is the packet's for good. What the code knows of the packet stays as it is.
    pub(crate) fn lay(&mut self) -> Result<(), Ended> {
        self.layings += 1;
        if self.layings > LAYINGS_MAX {
            return Err(self.bail("the packet changes after outputs in too many places"));
        }
        let plan = self.plan;
        let bytes = plan.program.deparser.iter().map(|h| {
            let header = &plan.shape.headers[h.index()];
            u64::from(header.fixed.div_ceil(8) + header.varbit.unwrap_or(0).div_ceil(8))
        });
        // What moves, and what lies behind it.
        let Some(room) = (IMAGES_BYTES as u64).checked_sub(2 * bytes.sum::<u64>()) else {
            return Err(self.bail("headers that are too long to be laid aside"));
        };
        let laid = self.b.use_var(self.laid);
        let max = self.constant(LAID_MAX as u64);
        let full = self.compare(IntCC::Equal, laid, max);
        self.bail_if(&full, "more copies than there is room for")?;
        let flags = trusted();
        let used = self.b.ins().uload32(flags, self.context, offset::CONTEXT_IMAGES_LEN);
        let room = self.constant(room);
        let full = self.compare(IntCC::UnsignedGreaterThan, used, room);
        self.bail_if(&full, "more copies than there is room for")?;
        let kept = self.summed();
        let changed = match self.always() {
            true => Val::bool(true),
            false => {
                let (moved, dirty) = (self.get(self.moved, 1), self.any_dirty());
                self.or(&moved, &dirty)
            }
        };
        self.checksums()?;
        let images = self.b.ins().load(types::I64, fixed(), self.context, offset::CONTEXT_IMAGES);
        let to = self.b.ins().iadd(images, used);
        let mut bytes = self.constant(0);
        let mut edge = self.constant(0);
        if self.may_have_moved() {
            bytes = self.lay_moving(to)?;
            edge = self.b.use_var(self.edge);
        }
        let end = self.covered_end(edge);
        let rest = self.minus(end, edge);
        self.copy_some(edge, to, bytes, rest);
        if !is_planted(Mutant::OldCopy) {
            self.overlays(edge, to, bytes);
        }
        let len = self.sum(bytes, rest);
        kept.into_iter().for_each(|(var, value)| self.b.def_var(var, value));
        let noted = self.noted();
        let (noted, at) = match self.known(laid) {
            Some(laid) => (noted, size::LAID as i32 * laid as i32),
            None => {
                let at = self.b.ins().imul_imm_u(laid, size::LAID as i64);
                (self.b.ins().iadd(noted, at), 0)
            }
        };
        let (outputs, cut) = (self.b.use_var(self.outputs), self.b.use_var(self.cut));
        let changed = changed.cast(&mut self.b, 64).to_i64_low(&mut self.b);
        for (value, of) in [
            (outputs, offset::LAID_OUTPUTS),
            (cut, offset::LAID_CUT),
            (used, offset::LAID_AT),
            (len, offset::LAID_LEN),
            (end, offset::LAID_PAYLOAD),
            (changed, offset::LAID_CHANGED),
        ] {
            let value = self.b.ins().ireduce(types::I32, value);
            self.b.ins().store(flags, value, noted, offset::NOTED_LAID + at + of);
        }
        // The next ones begin at whole words.
        let used = self.sum(used, len);
        let used = self.plus(used, 7);
        let used = self.b.ins().band_imm_s(used, -8);
        let used = self.b.ins().ireduce(types::I32, used);
        self.b.ins().store(flags, used, self.context, offset::CONTEXT_IMAGES_LEN);
        let more = self.plus(laid, 1);
        self.b.def_var(self.laid, more);
        self.set_known(self.unlaid, 0);
        Ok(())
    }

    /// Headers may have moved. Where none ever does, nobody keeps what is needed to lay them anew.
    fn may_have_moved(&mut self) -> bool {
        self.plan.flow.end.moved && self.get(self.moved, 1).known_truth() != Some(false)
    }

    /// Some commit may write to a header or move it.
    fn covered(&self, h: HeaderId) -> bool {
        let (shape, end) = (&self.plan.shape, &self.plan.flow.end);
        let header = &shape.headers[h.index()];
        let first = header.first_field;
        let fields = first..first + self.plan.program.type_of(h).fields.len();
        header.order.is_some_and(|order| {
            end.moved && order < shape.moving || fields.clone().any(|f| end.dirty.has(f))
        })
    }

    /// A place behind the packet's first byte.
    fn distance(&mut self, base: Value) -> Value {
        match self.know(base) {
            Know::Data(k) => self.constant(k),
            _ => self.b.ins().isub(base, self.data),
        }
    }

    /// `x - y`.
    fn minus(&mut self, x: Value, y: Value) -> Value {
        match (self.known(x), self.known(y)) {
            (Some(x), Some(y)) => self.constant(x.wrapping_sub(y)),
            (_, Some(0)) => x,
            _ => self.b.ins().isub(x, y),
        }
    }

    /// Where the last header ends that a commit may write and that lies from `edge` on; the edge, if none does.
    fn covered_end(&mut self, edge: Value) -> Value {
        let plan = self.plan;
        let moved = self.may_have_moved();
        let mut end = edge;
        for h in &plan.program.deparser {
            let header = &plan.shape.headers[h.index()];
            let moves = moved && header.order.is_some_and(|order| order < plan.shape.moving);
            if !self.covered(*h) || moves {
                continue;
            }
            let valid = self.valid(*h);
            if valid.known_truth() == Some(false) {
                continue;
            }
            let base = self.base(*h);
            let at = self.distance(base);
            let mut here = self.plus(at, u64::from(header.fixed / 8));
            if header.varbit.is_some()
                && let Some(vars) = self.headers[h.index()].clone()
            {
                let bytes = self.b.use_var(vars.varbit);
                here = self.sum(here, bytes);
            }
            end = self.select(&valid, here, end);
        }
        end
    }

    /// Copies so many of the packet's bytes from `from` on to `to + at`.
    fn copy_some(&mut self, from: Value, to: Value, at: Value, bytes: Value) {
        let source = match self.known(from) {
            Some(from) => self.place(from),
            None => self.b.ins().iadd(self.data, from),
        };
        let target = self.sum(to, at);
        match self.known(bytes) {
            Some(bytes) if bytes <= COPIED_MAX => {
                let (source, target) = (emit::bytes(source), emit::bytes(target));
                copy_bytes(&mut self.b, source, 0, target, 0, bytes as u32);
            }
            _ => self.copy_run(source, target, bytes),
        }
    }

    /// Stores written fields of headers that lie from `edge` on to a copy of them, which is at `to + at`.
    fn overlays(&mut self, edge: Value, to: Value, at: Value) {
        let plan = self.plan;
        let moved = self.may_have_moved();
        for h in &plan.program.deparser {
            let Some(order) = plan.shape.headers[h.index()].order else { continue };
            if moved && order < plan.shape.moving
                || self.valid(*h).known_truth() == Some(false)
                || self.any_dirty_of(*h).known_truth() == Some(false)
            {
                continue;
            }
            let base = self.base(*h);
            let place = self.distance(base);
            let place = self.minus(place, edge);
            let place = self.sum(place, at);
            let base = self.sum(to, place);
            self.overlay(*h, base);
        }
    }

    /// One bit: some field of a header was written.
    fn any_dirty_of(&mut self, h: HeaderId) -> Val {
        let mut any = Val::bool(false);
        for f in 0..self.plan.program.type_of(h).fields.len() as u32 {
            let dirty = self.dirty(h, FieldId(f));
            any = self.or(&any, &dirty);
        }
        any
    }
}
