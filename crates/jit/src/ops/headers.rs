//! Writes to fields, and headers that come and go.

use crate::emit::{Ended, Gen};
use crate::shape::elements;
use crate::value::Val;
use ir::{DropReason, FieldRef, HeaderId, StackId};

impl<'f, 'p> Gen<'f, 'p> {
    pub(crate) fn assign(&mut self, field: FieldRef, value: &Val) -> Result<(), Ended> {
        match field {
            FieldRef::Meta(id) => {
                if self.plan.checksum_meta[id.index()] {
                    self.touch(&Val::bool(true))?;
                }
                self.set_meta(id, value);
                Ok(())
            }
            FieldRef::Header(h, f) => {
                let valid = self.valid(h);
                self.touch(&valid)?;
                self.write(h, f, value, &valid)
            }
            FieldRef::Last(stack, f) => {
                let all: Vec<HeaderId> = elements(self.plan.program, stack).collect();
                let mut behind = Val::bool(false);
                for h in all.into_iter().rev() {
                    let valid = self.valid(h);
                    let none_behind = self.not(&behind);
                    let last = self.and(&valid, &none_behind);
                    self.touch(&last)?;
                    self.write(h, f, value, &last)?;
                    behind = self.or(&behind, &valid);
                }
                Ok(())
            }
        }
    }

    /// Writes a field if the condition (its header is valid, at least) holds.
    pub(crate) fn write(
        &mut self,
        h: HeaderId,
        f: ir::FieldId,
        value: &Val,
        condition: &Val,
    ) -> Result<(), Ended> {
        if condition.known_truth() == Some(false) {
            return Ok(());
        }
        let field = &self.plan.program.type_of(h).fields[f.index()];
        if field.varbit {
            return self.bail_if(condition, "a varbit field is written");
        }
        let width = field.width;
        let Some(vars) = self.fields[self.plan.shape.field(h, f)].clone() else {
            // Not foreseen: leave it to the interpreter.
            return self.bail_if(condition, "a field is written unexpectedly");
        };
        let value = value.cast(&mut self.b, width);
        let dirty = self.get(vars.dirty, 1);
        let new = if condition.known_truth() == Some(true) || dirty.known_truth() == Some(false) {
            value
        } else {
            let old = self.get_wide(&vars.limbs, width);
            match Val::mux(&mut self.b, condition, &value, &old) {
                Ok(new) => new,
                Err(e) => return Err(self.bail(&e.to_string())),
            }
        };
        self.set_wide(&vars.limbs, &new);
        let dirty = self.or(&dirty, condition);
        self.set(vars.dirty, &dirty);
        Ok(())
    }

    pub(super) fn set_invalid(&mut self, h: HeaderId) {
        let Some(vars) = self.headers[h.index()].clone() else { return };
        self.set_known(vars.valid, 0);
        self.b.def_var(vars.base, self.zeros);
        self.set_known(vars.varbit, 0);
        self.set_dirty(h, 0);
    }

    pub(crate) fn set_dirty(&mut self, h: HeaderId, k: u64) {
        let first = self.plan.shape.headers[h.index()].first_field;
        for f in first..first + self.plan.program.type_of(h).fields.len() {
            if let Some(vars) = self.fields[f].clone() {
                self.set_known(vars.dirty, k);
            }
        }
    }

    /// Other members of a header's union become invalid if the condition holds.
    pub(crate) fn invalidate_union(&mut self, h: HeaderId, condition: &Val) {
        let program = self.plan.program;
        let Some(union) = program.headers[h.index()].union else { return };
        for member in program.unions[union.index()].members.clone() {
            if member == h {
                continue;
            }
            let Some(vars) = self.headers[member.index()].clone() else { continue };
            let zero = self.constant(0);
            for (var, none) in [(vars.valid, zero), (vars.base, self.zeros), (vars.varbit, zero)] {
                let old = self.b.use_var(var);
                let new = self.select(condition, none, old);
                self.b.def_var(var, new);
            }
            let first = self.plan.shape.headers[member.index()].first_field;
            for f in first..first + program.type_of(member).fields.len() {
                if let Some(vars) = self.fields[f].clone() {
                    let old = self.b.use_var(vars.dirty);
                    let new = self.select(condition, zero, old);
                    self.b.def_var(vars.dirty, new);
                }
            }
        }
    }

    pub(super) fn set_valid(&mut self, h: HeaderId) -> Result<(), Ended> {
        let Some(vars) = self.headers[h.index()].clone() else {
            return Err(self.bail("a header is made valid unexpectedly"));
        };
        let valid = self.valid(h);
        let not = self.not(&valid);
        self.touch(&not)?;
        let base = self.b.use_var(vars.base);
        let base = self.select(&valid, base, self.fresh);
        self.b.def_var(vars.base, base);
        self.set_known(vars.valid, 1);
        self.invalidate_union(h, &Val::bool(true));
        self.set_known(self.moved, 1);
        Ok(())
    }

    /// `to = from`.
    pub(super) fn copy_header(&mut self, to: HeaderId, from: HeaderId) -> Result<(), Ended> {
        if to == from {
            return Ok(());
        }
        let valid = self.valid(from);
        let Some(source) = self.headers[from.index()].clone() else {
            self.set_invalid(to);
            return Ok(());
        };
        let Some(target) = self.headers[to.index()].clone() else {
            // Never valid, so neither is what would be copied.
            return self.bail_if(&valid, "a header is copied unexpectedly");
        };
        self.invalidate_union(to, &valid);
        // A member of the union may have been the source itself; what it was is copied.
        let same_union = self.plan.program.headers[to.index()].union.is_some()
            && self.plan.program.headers[to.index()].union
                == self.plan.program.headers[from.index()].union;
        if same_union {
            return Err(self.bail("a header is copied within a union"));
        }
        for (to, from) in [
            (target.valid, source.valid),
            (target.base, source.base),
            (target.varbit, source.varbit),
        ] {
            let value = self.b.use_var(from);
            self.b.def_var(to, value);
        }
        let shape = &self.plan.shape;
        let (first_to, first_from) =
            (shape.headers[to.index()].first_field, shape.headers[from.index()].first_field);
        for f in 0..self.plan.program.type_of(to).fields.len() {
            let source = self.fields[first_from + f].clone();
            let Some(target) = self.fields[first_to + f].clone() else {
                if let Some(source) = source {
                    let dirty = self.get(source.dirty, 1);
                    self.bail_if(&dirty, "a written field is copied unexpectedly")?;
                }
                continue;
            };
            match source {
                None => self.set_known(target.dirty, 0),
                Some(source) => {
                    let pairs = target.limbs.iter().zip(&source.limbs);
                    for (to, from) in pairs.chain([(&target.dirty, &source.dirty)]) {
                        let value = self.b.use_var(*from);
                        self.b.def_var(*to, value);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn push_front(&mut self, stack: StackId, n: u32) -> Result<(), Ended> {
        self.touch(&Val::bool(true))?;
        let all: Vec<HeaderId> = elements(self.plan.program, stack).collect();
        let n = n as usize;
        if n > all.len() {
            return Err(self.end(Some(DropReason::HeaderStackOverflow)));
        }
        let mut full = Val::bool(false);
        for h in &all[all.len() - n..] {
            let valid = self.valid(*h);
            full = self.or(&full, &valid);
        }
        match full.known_truth() {
            Some(true) => return Err(self.end(Some(DropReason::HeaderStackOverflow))),
            Some(false) => {}
            None => {
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                self.branch(&full, yes, no);
                self.enter(yes);
                self.end(Some(DropReason::HeaderStackOverflow));
                self.enter(no);
            }
        }
        for i in (n..all.len()).rev() {
            self.copy_header(all[i], all[i - n])?;
        }
        for h in &all[..n] {
            self.set_invalid(*h);
            self.set_valid(*h)?;
        }
        self.set_known(self.moved, 1);
        Ok(())
    }
}
