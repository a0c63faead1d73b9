//! The end of a packet that goes out: its bytes are brought up to date.
//!
//! First checksums are worked out, then headers that moved are laid anew in front of the rest, then
//! fields that were written are stored in place. All that can still bail out comes before the first
//! store to the packet.
//!
//! Headers that can move are those up to the last one, in the deparser's order, that any operation
//! makes valid, invalid or another; what is behind them stays where it is, and the packet's start
//! moves.

use crate::deal::Moved;
use crate::emit::{self, Ended, Env, Gen, UNCUT, packet, trusted};
use crate::mutant::{Mutant, is_planted};
use crate::shape::{Read, reads};
use crate::value::{Adjust, Val, copy_bytes, load_be, store_be, store_pieces};
use crate::version::{Know, pick};
use abi::{OUTPUTS_MAX, PUSH_MAX, offset, status};
use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use cranelift_frontend::Variable;
use ir::{Checksum, ChecksumAlgorithm, ChecksumMode, Expr, FieldId, FieldRef, HeaderId};
use smallvec::SmallVec;

/// Fields of a header from byte boundary to byte boundary.
struct Unit {
    /// The first byte within the header.
    at: i32,
    bytes: u32,
    /// What it is, if some field of it was written.
    value: Option<Val>,
}

type Units = SmallVec<[Unit; 8]>;

/// The word that a status begins.
fn word_of(status: u8, changed: bool) -> u32 {
    u32::from(status) | u32::from(changed) << (8 * (offset::PACKET_CHANGED - offset::PACKET_STATUS))
}

impl<'f, 'p> Gen<'f, 'p> {
    /// The packet goes out.
    pub(crate) fn forward(&mut self) -> Ended {
        // Where all outputs have copies of their own, the packet itself goes nowhere.
        let unlaid = self.get(self.unlaid, 1);
        let cut = self.b.use_var(self.cut);
        let uncut = self.constant(UNCUT);
        let is_cut = self.compare(IntCC::NotEqual, cut, uncut);
        for (condition, lays) in [(self.not(&unlaid), false), (is_cut, true)] {
            let rest = match condition.known_truth() {
                Some(false) => continue,
                Some(true) => None,
                None => {
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.branch(&condition, yes, no);
                    self.enter(yes);
                    Some(no)
                }
            };
            if !lays || self.lay().is_ok() {
                self.done(false, Moved::By(0));
            }
            match rest {
                Some(rest) => self.enter(rest),
                None => return Ended,
            }
        }
        let moved = self.get(self.moved, 1).known_truth() != Some(false);
        if moved || self.any_dirty().known_truth() != Some(false) || self.always() {
            let facts = self.facts_at_end();
            let (b, bound) = (&mut self.b, self.points.bounds.commit);
            let at = pick(&mut self.commits, facts, bound, || b.create_block());
            self.b.ins().jump(self.commits[at].1, &[]);
        } else {
            self.done(false, Moved::By(0));
        }
        Ended
    }

    /// Some checksum may have to be written although nothing changed.
    pub(crate) fn always(&self) -> bool {
        self.plan.program.checksums.iter().any(|c| c.mode == ChecksumMode::Always)
    }

    fn done(&mut self, changed: bool, moved: Moved) {
        let flags = trusted();
        // All of it lies in one word.
        let (outputs, laid) = (self.b.use_var(self.outputs), self.b.use_var(self.laid));
        let near = self.constant(OUTPUTS_MAX as u64);
        let many = self.compare(IntCC::UnsignedGreaterThan, outputs, near);
        let zero = self.constant(0);
        let differ = self.compare(IntCC::NotEqual, laid, zero);
        let several = self.or(&many, &differ);
        let (forward, copies) = (
            self.constant(u64::from(word_of(status::FORWARD, changed))),
            self.constant(u64::from(word_of(status::COPIES, changed))),
        );
        let mut word = self.select(&several, copies, forward);
        let told = self.get(self.told, 64);
        let one = self.constant(1);
        let one = self.compare(IntCC::Equal, outputs, one);
        let (alike, silent) = (self.not(&differ), self.not(&told));
        let alone = self.and(&one, &alike);
        let single = self.and(&alone, &silent);
        self.deal(&single, moved);
        let tells = word_of(status::TOLD, changed);
        let tells = self.constant(u64::from(tells));
        word = self.select(&told, tells, word);
        for (of, at) in [(outputs, offset::PACKET_OUTPUTS_LEN), (laid, offset::PACKET_LAID)] {
            let shift = 8 * (at - offset::PACKET_STATUS);
            word = match (self.known(of), self.known(word)) {
                (Some(0), _) => word,
                (Some(of), Some(word)) => self.constant(word | of << shift),
                _ => {
                    let of = self.b.ins().ishl_imm_u(of, i64::from(shift));
                    self.b.ins().bor(word, of)
                }
            };
        }
        let word = match self.known(word) {
            Some(word) => self.b.ins().iconst(types::I32, word as i64),
            None => self.b.ins().ireduce(types::I32, word),
        };
        self.b.ins().store(flags, word, self.packet, offset::PACKET_STATUS);
        self.b.ins().jump(self.next, &[]);
    }

    /// One bit: some field was written.
    pub(crate) fn any_dirty(&mut self) -> Val {
        let mut any = Val::bool(false);
        for f in 0..self.fields.len() {
            if let Some(vars) = self.fields[f].clone() {
                let dirty = self.get(vars.dirty, 1);
                any = self.or(&any, &dirty);
            }
        }
        any
    }

    /// Generates the code that writes the packet's bytes.
    pub(crate) fn commit(&mut self) {
        for (_, block) in std::mem::take(&mut self.commits) {
            self.enter(block);
            self.site = "deparser".to_owned();
            let _: Result<(), Ended> = self.emission();
        }
    }

    fn emission(&mut self) -> Result<(), Ended> {
        self.checksums()?;
        let moved = self.get(self.moved, 1);
        let mut how = Moved::By(0);
        match moved.known_truth() {
            Some(false) => self.stores(0),
            Some(true) => how = self.relay()?,
            None => {
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                self.branch(&moved, yes, no);
                self.enter(yes);
                if let Ok(moved) = self.relay() {
                    self.done(true, moved);
                }
                self.enter(no);
                self.stores(0);
            }
        }
        self.done(true, how);
        Err(Ended)
    }

    /// Lays headers that were written among the packet's slots, as they would leave, and says which: the driver
    /// shows them to a service. What the code knows of the packet stays as it is: an emission's checksums are
    /// not the packet's.
    pub(crate) fn images(&mut self) -> Result<(), Ended> {
        let plan = self.plan;
        let kept = self.summed();
        self.checksums()?;
        let changed = self.b.declare_var(types::I64);
        self.set_known(changed, 0);
        for h in 0..plan.program.headers.len() as u32 {
            let h = HeaderId(h);
            let mut written = Val::bool(false);
            for f in 0..plan.program.type_of(h).fields.len() as u32 {
                let dirty = self.dirty(h, FieldId(f));
                written = self.or(&written, &dirty);
            }
            if written.known_truth() == Some(false) || plan.shape.headers[h.index()].order.is_none()
            {
                continue;
            }
            let Some(number) = plan.slots.images.iter().position(|(of, _)| *of == h) else {
                self.bail_if(
                    &written,
                    "a service behind changes of a header that cannot be laid aside",
                )?;
                continue;
            };
            let rest = match written.known_truth() {
                Some(_) => None,
                None => {
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.branch(&written, yes, no);
                    self.enter(yes);
                    Some(no)
                }
            };
            let at = plan.slots.images[number].1;
            let base = self.base(h);
            let address = Val::from_i64(&mut self.b, base, 64);
            self.store_slot(at, &address);
            let to = self.plus(self.slots, at as u64 + 8);
            let bytes = plan.shape.headers[h.index()].fixed / 8;
            copy_bytes(&mut self.b, emit::bytes(base), 0, emit::bytes(to), 0, bytes);
            self.overlay(h, to);
            let others = self.b.use_var(changed);
            let bit = 1u64 << number;
            let all = match self.known(others) {
                Some(others) => self.constant(others | bit),
                None => self.b.ins().bor_imm_u(others, bit as i64),
            };
            self.b.def_var(changed, all);
            if let Some(rest) = rest {
                self.b.ins().jump(rest, &[]);
                self.enter(rest);
            }
        }
        if !plan.slots.images.is_empty() {
            let changed = self.get(changed, 64);
            self.store_slot(plan.slots.changed, &changed);
        }
        kept.into_iter().for_each(|(var, value)| self.b.def_var(var, value));
        Ok(())
    }

    /// What is known of fields that hold checksums.
    pub(crate) fn summed(&mut self) -> Vec<(Variable, Value)> {
        let plan = self.plan;
        let mut kept: Vec<(Variable, Value)> = Vec::new();
        for checksum in &plan.program.checksums {
            let FieldRef::Header(h, f) = checksum.field else { continue };
            let Some(vars) = self.fields[plan.shape.field(h, f)].clone() else { continue };
            for var in vars.limbs.iter().chain([&vars.dirty]) {
                kept.push((*var, self.b.use_var(*var)));
            }
        }
        kept
    }

    // Checksums.

    /// Works out checksums of what was written.
    pub(crate) fn checksums(&mut self) -> Result<(), Ended> {
        let plan = self.plan;
        for (checksum, may) in plan.program.checksums.iter().zip(&plan.flow.checksums) {
            if *may || checksum.mode == ChecksumMode::Always {
                self.checksum(checksum)?;
            }
        }
        Ok(())
    }

    fn checksum(&mut self, checksum: &Checksum) -> Result<(), Ended> {
        let plan = self.plan;
        let FieldRef::Header(h, f) = checksum.field else {
            return Err(self.bail("a checksum in a stack's last element"));
        };
        let valid = self.valid(h);
        if valid.known_truth() == Some(false) {
            return Ok(());
        }
        // What can have changed.
        let mut dirty = Val::bool(false);
        let mut moving = plan.shape.structural[h.index()];
        let mut meta = false;
        for e in &checksum.inputs {
            let mut fields: Vec<(HeaderId, FieldId)> = Vec::new();
            reads(plan.program, e, &mut |read| match read {
                Read::Meta(m) => meta |= plan.flow.assigned.has(m),
                Read::Header(h) => moving |= plan.shape.structural[h.index()],
                Read::Field(h, f) => {
                    moving |= plan.shape.structural[h.index()];
                    fields.push((h, f));
                }
            });
            for (h, f) in fields {
                let here = self.dirty(h, f);
                dirty = self.or(&dirty, &here);
            }
        }
        let moved = self.get(self.moved, 1);
        let mut may = dirty.clone();
        if moving {
            may = self.or(&may, &moved);
        }
        if meta || checksum.mode == ChecksumMode::Always {
            may = Val::bool(true);
        }
        let native = checksum.mode == ChecksumMode::Incremental
            && checksum.algorithm == ChecksumAlgorithm::Csum16
            && !checksum.payload
            && !meta
            && self.width(checksum.field) == 16;
        let moves = moving && moved.known_truth() != Some(false);
        let may = self.and(&may, &valid);
        if may.known_truth() == Some(false) {
            return Ok(());
        }
        if native && moving && moves {
            self.bail_if(&moved, "a checksum over headers that came or went")?;
        }
        let guard = if native { self.and(&dirty, &valid) } else { may };
        if guard.known_truth() == Some(false) {
            return Ok(());
        }
        let (yes, rest) = (self.b.create_block(), self.b.create_block());
        self.branch(&guard, yes, rest);
        self.enter(yes);
        let adjusted =
            if native { self.adjust(checksum, h, f) } else { self.renew(checksum, h, f) };
        if adjusted.is_ok() {
            self.b.ins().jump(rest, &[]);
        }
        self.enter(rest);
        Ok(())
    }

    /// One bit: the checksum is to be written, as far as its own field and condition say.
    fn wanted(&mut self, checksum: &Checksum, old: &Val) -> Result<Val, Ended> {
        let mut wanted = Val::bool(true);
        if let Some(condition) = &checksum.condition {
            wanted = self.value(condition, Env::default())?;
        }
        if checksum.zero_is_none {
            wanted = self.and(&wanted, old);
        }
        Ok(wanted)
    }

    fn renew(&mut self, checksum: &Checksum, h: HeaderId, f: FieldId) -> Result<(), Ended> {
        let old = self.value(&Expr::header(h, f), Env::default())?;
        let wanted = self.wanted(checksum, &old)?;
        self.bail_if(&wanted, "a checksum that is computed anew")
    }

    /// RFC 1624.
    fn adjust(&mut self, checksum: &Checksum, h: HeaderId, f: FieldId) -> Result<(), Ended> {
        let plan = self.plan;
        let old = self.value(&Expr::header(h, f), Env::default())?;
        let mut wanted = self.wanted(checksum, &old)?;
        let mut adjust = Adjust::new();
        let mut differs = Val::bool(false);
        let mut position = 0u64;
        for e in &checksum.inputs {
            let mut fields: Vec<(HeaderId, FieldId)> = Vec::new();
            reads(plan.program, e, &mut |read| {
                if let Read::Field(h, f) = read {
                    fields.push((h, f));
                }
            });
            let mut may = false;
            for (h, f) in fields {
                may |= self.dirty(h, f).known_truth() != Some(false);
            }
            let Some(width) = e.width(plan.program, &[]) else {
                return Err(self.bail("a checksum of unknown inputs"));
            };
            if may {
                let now = self.value(e, Env::default())?;
                let then = self.value(e, Env { then: true, ..Env::default() })?;
                // Nothing has been stored to the packet yet.
                let here = match now.is_step_from(&self.b, &then) {
                    true => Val::bool(true),
                    false => now.differs(&mut self.b, &then),
                };
                differs = self.or(&differs, &here);
                if !is_planted(Mutant::ChecksumDelta) {
                    adjust.change(&mut self.b, &then, &now, (position % 16) as u32);
                }
            }
            position += u64::from(width);
        }
        wanted = self.and(&wanted, &differs);
        let new = adjust.finish(&mut self.b, &old, position, checksum.zero_is_none);
        self.write(h, f, &new, &wanted)
    }

    // Stores.

    /// Stores written fields where their headers are, from this place in the deparser on.
    fn stores(&mut self, from: u32) {
        let plan = self.plan;
        for h in &plan.program.deparser {
            let order = plan.shape.headers[h.index()].order;
            if order.is_none_or(|order| order < from) {
                continue;
            }
            let base = self.base(*h);
            self.overlay(*h, base);
        }
    }

    /// A header's fields from byte boundary to byte boundary, with what they were written as; `None`
    /// if it is not known which were written.
    fn units(&mut self, h: HeaderId) -> Option<Units> {
        let plan = self.plan;
        let ty = plan.program.type_of(h);
        let mut units = Units::new();
        let mut fields: SmallVec<[FieldId; 8]> = SmallVec::new();
        let (mut start, mut end) = (0, 0);
        for (f, field) in ty.fields.iter().enumerate().filter(|(_, field)| !field.varbit) {
            fields.push(FieldId(f as u32));
            end += field.width;
            if !end.is_multiple_of(8) {
                continue;
            }
            let mut written = false;
            for f in &fields {
                written |= self.dirty(h, *f).known_truth()?;
            }
            let mut value = None;
            if written {
                for f in &fields {
                    let here = self.read_header(h, *f, false).ok()?;
                    value = Some(match value {
                        None => here,
                        Some(high) => Val::concat(&high, &mut self.b, &here).ok()?,
                    });
                }
            }
            let unit = Unit { at: (start / 8) as i32, bytes: (end - start) / 8, value };
            match units.last_mut() {
                Some(last) if last.value.is_none() && unit.value.is_none() => {
                    last.bytes += unit.bytes;
                }
                _ => units.push(unit),
            }
            fields.clear();
            start = end;
        }
        fields.is_empty().then_some(units)
    }

    /// Stores a header's written fields at an address.
    pub(crate) fn overlay(&mut self, h: HeaderId, base: Value) {
        let plan = self.plan;
        if let Some(units) = self.units(h) {
            let written = |unit: Unit| Some((unit.at, unit.bytes, unit.value?));
            let pieces: SmallVec<[_; 8]> = units.into_iter().filter_map(written).collect();
            store_pieces(&mut self.b, emit::bytes(base), &pieces);
            return;
        }
        let ty = plan.program.type_of(h);
        let header = &plan.shape.headers[h.index()];
        for (f, field) in ty.fields.iter().enumerate() {
            let Some(vars) = self.fields[header.first_field + f].clone() else { continue };
            let dirty = self.get(vars.dirty, 1);
            let rest = match dirty.known_truth() {
                Some(false) => continue,
                Some(true) => None,
                None => {
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.branch(&dirty, yes, no);
                    self.enter(yes);
                    Some(no)
                }
            };
            let value = self.get_wide(&vars.limbs, field.width);
            let offset = ty.offset(FieldId(f as u32));
            let bytes = (header.fixed / 8) as i32;
            store_be(
                &mut self.b,
                emit::bytes(base),
                (offset / 8) as i32,
                offset % 8,
                field.width,
                0..bytes,
                &value,
            );
            if let Some(rest) = rest {
                self.b.ins().jump(rest, &[]);
                self.enter(rest);
            }
        }
    }

    /// As [`relay`](Self::relay) where it is known which headers there are and which of their fields
    /// were written: all that moves is read into registers, then stored. `None` if it is not known.
    fn relay_known(&mut self) -> Option<Result<Moved, Ended>> {
        const MOST: u32 = 96;
        let plan = self.plan;
        let edge = self.b.use_var(self.edge);
        let edge = self.known(edge)?;
        let mut moving: SmallVec<[(HeaderId, Units, i32); 4]> = SmallVec::new();
        let mut bytes = 0;
        for h in &plan.program.deparser {
            let header = &plan.shape.headers[h.index()];
            if header.order.is_none_or(|order| order >= plan.shape.moving) {
                continue;
            }
            if !self.valid(*h).known_truth()? {
                continue;
            }
            if header.varbit.is_some() || !header.fixed.is_multiple_of(8) {
                return None;
            }
            let units = self.units(*h)?;
            moving.push((*h, units, bytes as i32));
            bytes += header.fixed / 8;
        }
        if bytes > MOST {
            return None;
        }
        let shift = edge as i64 - i64::from(bytes);
        let mut pieces: SmallVec<[(i32, u32, Val); 16]> = SmallVec::new();
        for (h, units, at) in &moving {
            let base = self.base(*h);
            let stays = self.know(base) == Know::Data((shift + i64::from(*at)) as u64);
            for unit in units {
                let to = at + unit.at;
                if let Some(value) = &unit.value {
                    pieces.push((to, unit.bytes, value.clone()));
                    continue;
                }
                if stays {
                    continue;
                }
                let (mut from, end) = (unit.at, unit.at + unit.bytes as i32);
                while from < end {
                    let size = [8, 4, 2, 1].into_iter().find(|size| *size <= end - from);
                    let size = size.unwrap_or(1);
                    let (to, width) = (to + from - unit.at, 8 * size as u32);
                    let value = match base == self.fresh {
                        true => Val::zero(width),
                        false => {
                            load_be(&mut self.b, emit::bytes(base), from, 0, width, unit.at..end)
                        }
                    };
                    pieces.push((to, size as u32, value));
                    from += size;
                }
            }
        }
        let flags = trusted();
        let to = if shift < 0 {
            let need = shift.unsigned_abs();
            let headroom = self.b.ins().uload32(flags, self.packet, offset::PACKET_HEADROOM);
            let need_value = self.constant(need);
            let short = match need > PUSH_MAX as u64 {
                true => Val::bool(true),
                false => self.compare(IntCC::UnsignedLessThan, headroom, need_value),
            };
            if let Err(ended) = self.bail_if(&short, "not enough room in front of the packet") {
                return Some(Err(ended));
            }
            self.b.ins().iadd_imm_s(self.data, shift)
        } else {
            self.place(shift as u64)
        };
        self.stores(plan.shape.moving);
        store_pieces(&mut self.b, emit::bytes(to), &pieces);
        if shift != 0 {
            let shift = self.b.ins().iconst(types::I32, shift);
            self.b.ins().store(flags, shift, self.packet, offset::PACKET_SHIFT);
        }
        Some(Ok(Moved::By(shift)))
    }

    /// Lays the headers that can move anew in front of the rest, and stores what was written behind
    /// them.
    fn relay(&mut self) -> Result<Moved, Ended> {
        if let Some(done) = self.relay_known() {
            return done;
        }
        let plan = self.plan;
        // Into the scratch area first: they may overlap.
        let bytes = self.lay_moving(self.scratch)?;
        let edge = self.b.use_var(self.edge);
        let shift = self.b.ins().isub(edge, bytes);
        let flags = trusted();
        let headroom = self.b.ins().uload32(flags, self.packet, offset::PACKET_HEADROOM);
        let most = self.b.ins().iconst(types::I64, PUSH_MAX as i64);
        let room = self.b.ins().umin(headroom, most);
        let after = self.b.ins().iadd(shift, room);
        let none = self.constant(0);
        let short = self.b.ins().icmp(IntCC::SignedLessThan, after, none);
        let short = Val::from_flag(&mut self.b, short);
        self.bail_if(&short, "not enough room in front of the packet")?;
        self.stores(plan.shape.moving);
        let to = self.b.ins().iadd(self.data, shift);
        self.copy_front(to, bytes, after);
        let low = self.b.ins().ireduce(types::I32, shift);
        self.b.ins().store(flags, low, self.packet, offset::PACKET_SHIFT);
        Ok(Moved::Somehow(shift))
    }

    /// Lays the headers that can move one behind the other; how many bytes they are.
    pub(crate) fn lay_moving(&mut self, area: Value) -> Result<Value, Ended> {
        let plan = self.plan;
        let at = self.b.declare_var(types::I64);
        let zero = self.constant(0);
        self.b.def_var(at, zero);
        for h in &plan.program.deparser {
            let header = &plan.shape.headers[h.index()];
            if header.order.is_none_or(|order| order >= plan.shape.moving) {
                continue;
            }
            let valid = self.valid(*h);
            if !header.fixed.is_multiple_of(8) {
                self.bail_if(&valid, "a header that is not whole bytes")?;
                continue;
            }
            let rest = match valid.known_truth() {
                Some(false) => continue,
                Some(true) => None,
                None => {
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.branch(&valid, yes, no);
                    self.enter(yes);
                    Some(no)
                }
            };
            let fixed = header.fixed / 8;
            let place = self.b.use_var(at);
            let to = self.sum(area, place);
            let from = self.base(*h);
            copy_bytes(&mut self.b, emit::bytes(from), 0, emit::bytes(to), 0, fixed);
            let mut end = self.plus(place, u64::from(fixed));
            if header.varbit.is_some()
                && let Some(vars) = self.headers[h.index()].clone()
            {
                let bytes = self.b.use_var(vars.varbit);
                let (from, to) =
                    (self.plus(from, u64::from(fixed)), self.plus(to, u64::from(fixed)));
                self.copy_run(from, to, bytes);
                end = self.sum(end, bytes);
            }
            self.overlay(*h, to);
            self.b.def_var(at, end);
            if let Some(rest) = rest {
                self.b.ins().jump(rest, &[]);
                self.enter(rest);
            }
        }
        Ok(self.b.use_var(at))
    }

    /// Copies the new headers from the scratch area to the packet's new start. With room in front of
    /// it, whole words from the end on: the first may start before the headers, where nothing counts.
    fn copy_front(&mut self, to: Value, bytes: Value, room: Value) {
        let eight = self.constant(8);
        let enough = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, room, eight);
        let (words, single, done) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().brif(enough, words, &[], single, &[]);
        self.enter(single);
        self.copy_run(self.scratch, to, bytes);
        self.b.ins().jump(done, &[]);
        self.enter(words);
        let left = self.b.declare_var(types::I64);
        self.b.def_var(left, bytes);
        let (head, body) = (self.b.create_block(), self.b.create_block());
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(head);
        let at = self.b.use_var(left);
        let zero = self.constant(0);
        let more = self.b.ins().icmp(IntCC::SignedGreaterThan, at, zero);
        self.b.ins().brif(more, body, &[], done, &[]);
        self.enter(body);
        let (source, target) = (self.b.ins().iadd(self.scratch, at), self.b.ins().iadd(to, at));
        // In front of the scratch area lies the area of new headers.
        let word = self.b.ins().load(types::I64, packet(), source, -8);
        self.b.ins().store(packet(), word, target, -8);
        let at = self.b.ins().iadd_imm_u(at, -8);
        self.b.def_var(left, at);
        self.b.ins().jump(head, &[]);
        self.b.seal_block(head);
        self.enter(done);
    }

    /// Copies a number of bytes that is known at run time only, between runs that do not overlap.
    pub(crate) fn copy_run(&mut self, from: Value, to: Value, bytes: Value) {
        // Whole words, then single bytes.
        let done = self.b.declare_var(types::I64);
        let zero = self.constant(0);
        self.b.def_var(done, zero);
        for size in [8u64, 1] {
            let (head, body, rest) =
                (self.b.create_block(), self.b.create_block(), self.b.create_block());
            self.b.ins().jump(head, &[]);
            self.b.switch_to_block(head);
            let at = self.b.use_var(done);
            let end = self.b.ins().iadd_imm_u(at, size as i64);
            let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, bytes);
            self.b.ins().brif(fits, body, &[], rest, &[]);
            self.enter(body);
            let (source, target) = (self.b.ins().iadd(from, at), self.b.ins().iadd(to, at));
            let ty = if size == 8 { types::I64 } else { types::I8 };
            let chunk = self.b.ins().load(ty, packet(), source, 0);
            self.b.ins().store(packet(), chunk, target, 0);
            self.b.def_var(done, end);
            self.b.ins().jump(head, &[]);
            self.b.seal_block(head);
            self.enter(rest);
        }
    }
}
const _: () = assert!(
    offset::PACKET_STATUS % 4 == 0
        && offset::PACKET_OUTPUTS_LEN == offset::PACKET_STATUS + 1
        && offset::PACKET_CHANGED == offset::PACKET_STATUS + 2
);
