//! A packet's state where code goes on elsewhere: at a node, in another block, at the end.
//!
//! What is known there picks the version of the code ([`crate::version`]). What is not known is
//! carried: by variables within a function, and from one function to the next in the packet's state
//! slots.

use crate::emit::{Gen, trusted};
use crate::flow::{Live, Point};
use crate::mutant::{Mutant, is_planted};
use crate::set::Set;
use crate::version::{Facts, Know};
use abi::offset;
use cranelift_codegen::ir::{InstBuilder, condcodes::IntCC, types};
use cranelift_frontend::Variable;
use ir::{HeaderId, MetaId};

/// Something that is kept for a packet that waits.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// A metadata field, and where its words go.
    Meta(usize, i32),
    /// Whether a header is valid. It follows from the base where it is not known.
    Valid(usize),
    /// A header's base.
    Base(usize, i32),
    /// Bytes of a header's varbit field.
    Varbit(usize, i32),
    /// Whether a field was written; its value follows.
    Field(usize, u32, i32),
    /// Bytes of the headers that can move.
    Edge(i32),
    /// Whether headers lie in order.
    InOrder(i32),
    /// Whether headers came, went or moved.
    Moved(bool),
    /// How many outputs there are, if there can be some.
    Outputs(bool),
    /// Whether no copy was laid for the last of them.
    Unlaid(i32),
    /// How many copies were laid.
    Laid,
    /// Bytes that outputs have at most.
    Cut(i32),
    /// Why a copy was given up.
    Lost(i32),
    /// What the control side is told.
    Told(i32),
    /// What was looked up last.
    Last(i32),
    /// Lookups that were counted.
    Lookups,
}

impl<'f, 'p> Gen<'f, 'p> {
    /// What a packet keeps at a node.
    fn kept(&self, point: &Point) -> Vec<Kept> {
        let plan = self.plan;
        let slots = &plan.slots;
        let mut kept = Vec::new();
        for m in 0..self.meta.len() {
            if let Some(at) = slots.meta[m]
                && point.may.meta.has(m)
                && point.live.meta.has(m)
            {
                kept.push(Kept::Meta(m, at));
            }
        }
        for h in 0..self.headers.len() {
            if !point.live.headers.has(h) {
                continue;
            }
            let header = &plan.shape.headers[h];
            if let (Some(at), true) = (slots.headers[h], self.headers[h].is_some())
                && point.may.valid.has(h)
            {
                kept.extend([Kept::Base(h, at), Kept::Valid(h)]);
                if header.varbit.is_some() {
                    kept.push(Kept::Varbit(h, at + 8));
                }
            }
            for (f, field) in plan.program.type_of(HeaderId(h as u32)).fields.iter().enumerate() {
                let f = header.first_field + f;
                if let (Some(at), true) = (slots.fields[f], self.fields[f].is_some())
                    && point.may.dirty.has(f)
                {
                    kept.push(Kept::Field(f, field.width, at));
                }
            }
        }
        kept.extend(slots.edge.map(Kept::Edge));
        kept.extend(slots.in_order.map(Kept::InOrder));
        kept.extend([Kept::Moved(point.may.moved), Kept::Outputs(point.may.output)]);
        if point.may.output {
            kept.extend(slots.unlaid.map(Kept::Unlaid));
            kept.push(Kept::Laid);
        }
        if point.may.cut {
            kept.extend(slots.cut.map(Kept::Cut));
        }
        if point.may.lost {
            kept.extend(slots.lost.map(Kept::Lost));
        }
        if point.may.told {
            kept.extend(slots.told.map(Kept::Told));
        }
        kept.extend(slots.last.map(Kept::Last));
        kept.push(Kept::Lookups);
        kept
    }

    fn know_kept(&mut self, kept: Kept) -> Know {
        let one = |know: Know| if matches!(know, Know::Const(_)) { know } else { Know::Unknown };
        match kept {
            // What operations assign may be anything; what the parser found follows from its way.
            Kept::Meta(m, _) if self.plan.flow.assigned.has(m) => Know::Unknown,
            Kept::Meta(m, _) => match self.meta[m].clone().as_deref() {
                Some([only]) => one(self.know_var(*only)),
                _ => Know::Unknown,
            },
            Kept::Valid(h) => self.headers[h].clone().map_or(Know::Const(0), |vars| {
                let know = self.know_var(vars.valid);
                one(know)
            }),
            Kept::Base(h, _) => {
                self.headers[h].clone().map_or(Know::Zeros, |vars| self.know_var(vars.base))
            }
            Kept::Varbit(h, _) => {
                self.headers[h].clone().map_or(Know::Const(0), |vars| self.know_var(vars.varbit))
            }
            Kept::Field(f, ..) => {
                self.fields[f].clone().map_or(Know::Const(0), |vars| self.know_var(vars.dirty))
            }
            Kept::Edge(_) => self.know_var(self.edge),
            Kept::InOrder(_) => self.know_var(self.in_order),
            Kept::Moved(_) => self.know_var(self.moved),
            Kept::Outputs(_) => self.know_var(self.outputs),
            Kept::Unlaid(_) => self.know_var(self.unlaid),
            Kept::Laid => self.know_var(self.laid),
            Kept::Cut(_) => self.know_var(self.cut),
            Kept::Lost(_) => self.know_var(self.lost),
            Kept::Told(_) => self.know_var(self.told),
            Kept::Last(_) => Know::Unknown,
            Kept::Lookups => self.know_var(self.lookups),
        }
    }

    /// What is known of a packet that is about to wait at a node (its twins' leader's, rather).
    pub(crate) fn facts_at(&mut self, point: &Point) -> Facts {
        self.kept(point).into_iter().map(|kept| self.know_kept(kept)).collect()
    }

    /// How many lookups were counted for each packet, where [`facts_at`](Self::facts_at) knows it.
    pub(crate) fn known_lookups(facts: &Facts) -> Option<u32> {
        // They come last.
        match facts.last() {
            Some(Know::Const(lookups)) => u32::try_from(*lookups).ok(),
            _ => None,
        }
    }

    /// Stores what the code behind a node needs and does not know.
    pub(crate) fn save(&mut self, point: &Point, facts: &Facts) {
        for (kept, know) in self.kept(point).into_iter().zip(facts) {
            let known = *know != Know::Unknown;
            match kept {
                Kept::Field(f, width, at) => {
                    let Some(vars) = self.fields[f].clone() else { continue };
                    let dirty = self.get(vars.dirty, 1);
                    if !known {
                        self.store_slot(at, &dirty);
                    }
                    if dirty.known_truth() != Some(false) {
                        let value = self.get_wide(&vars.limbs, width);
                        self.store_slot(at + 8, &value);
                    }
                }
                _ if known => {}
                Kept::Meta(m, at) => {
                    let value = self.read_meta(MetaId(m as u32));
                    self.store_slot(at, &value);
                }
                Kept::Base(h, at) => {
                    let base = self.base(HeaderId(h as u32));
                    let base = crate::value::Val::from_i64(&mut self.b, base, 64);
                    self.store_slot(at, &base);
                }
                Kept::Varbit(h, at) => {
                    if let Some(vars) = self.headers[h].clone() {
                        let bytes = self.get(vars.varbit, 64);
                        self.store_slot(at, &bytes);
                    }
                }
                Kept::Edge(at) => {
                    let edge = self.get(self.edge, 64);
                    self.store_slot(at, &edge);
                }
                Kept::InOrder(at) => {
                    let in_order = self.get(self.in_order, 1);
                    self.store_slot(at, &in_order);
                }
                Kept::Outputs(true) => self.store_outputs(),
                Kept::Unlaid(at) => {
                    let unlaid = self.get(self.unlaid, 1);
                    self.store_slot(at, &unlaid);
                }
                Kept::Laid => self.store_laid(),
                Kept::Cut(at) => {
                    let cut = self.get(self.cut, 64);
                    self.store_slot(at, &cut);
                }
                Kept::Lost(at) => {
                    let lost = self.get(self.lost, 64);
                    self.store_slot(at, &lost);
                }
                Kept::Told(at) => {
                    let told = self.get(self.told, 64);
                    self.store_slot(at, &told);
                }
                Kept::Last(at) => {
                    let last = self.get(self.last, 64);
                    self.store_slot(at, &last);
                }
                Kept::Lookups => {
                    let lookups = self.b.use_var(self.lookups);
                    let lookups = self.b.ins().ireduce(types::I32, lookups);
                    let at = offset::PACKET_LOOKUPS;
                    self.b.ins().store(trusted(), lookups, self.packet, at);
                }
                Kept::Outputs(false) | Kept::Valid(_) | Kept::Moved(_) => {}
            }
        }
    }

    /// Sets all variables to what [`save`](Self::save) stored and to what is known.
    pub(crate) fn restore(&mut self, point: &Point, facts: &Facts) {
        self.begin();
        for (kept, know) in self.kept(point).into_iter().zip(facts) {
            let known = self.recall(*know);
            match kept {
                Kept::Meta(m, at) => {
                    let width = self.plan.program.metadata[m].width;
                    match (known, self.meta[m].clone().as_deref()) {
                        (Some(value), Some([only])) => self.b.def_var(*only, value),
                        _ => {
                            let value = match at >= 8 && is_planted(Mutant::Slot) {
                                true => self.load_slot(at - 8, 64).cast(&mut self.b, width),
                                false => self.load_slot(at, width),
                            };
                            self.set_meta(MetaId(m as u32), &value);
                        }
                    }
                }
                Kept::Base(h, at) => {
                    let Some(vars) = self.headers[h].clone() else { continue };
                    let base = match known {
                        Some(base) => base,
                        None => self.load_slot(at, 64).to_i64_low(&mut self.b),
                    };
                    self.b.def_var(vars.base, base);
                }
                // After its base.
                Kept::Valid(h) => {
                    let Some(vars) = self.headers[h].clone() else { continue };
                    match known {
                        Some(valid) => self.b.def_var(vars.valid, valid),
                        None => {
                            let base = self.b.use_var(vars.base);
                            let valid = self.compare(IntCC::NotEqual, base, self.zeros);
                            self.set(vars.valid, &valid);
                        }
                    }
                }
                Kept::Varbit(h, at) => {
                    let Some(vars) = self.headers[h].clone() else { continue };
                    self.restore_var(vars.varbit, known, at, 64);
                }
                Kept::Field(f, width, at) => {
                    let Some(vars) = self.fields[f].clone() else { continue };
                    self.restore_var(vars.dirty, known, at, 1);
                    if *know != Know::Const(0) {
                        let value = self.load_slot(at + 8, width);
                        self.set_wide(&vars.limbs, &value);
                    }
                }
                Kept::Edge(at) => self.restore_var(self.edge, known, at, 64),
                Kept::InOrder(at) => self.restore_var(self.in_order, known, at, 1),
                Kept::Moved(may) => match known {
                    Some(moved) => self.b.def_var(self.moved, moved),
                    None => self.set_known(self.moved, u64::from(may)),
                },
                Kept::Outputs(may) => match known {
                    Some(outputs) => self.b.def_var(self.outputs, outputs),
                    None if may => {
                        let (flags, at) = (trusted(), offset::PACKET_OUTPUTS_LEN);
                        let outputs = self.b.ins().uload8(types::I64, flags, self.packet, at);
                        self.b.def_var(self.outputs, outputs);
                    }
                    None => {}
                },
                Kept::Unlaid(at) => self.restore_var(self.unlaid, known, at, 1),
                Kept::Laid => {
                    let laid = match known {
                        Some(laid) => laid,
                        None => {
                            let (flags, at) = (trusted(), offset::PACKET_LAID);
                            self.b.ins().uload8(types::I64, flags, self.packet, at)
                        }
                    };
                    self.b.def_var(self.laid, laid);
                }
                Kept::Cut(at) => self.restore_var(self.cut, known, at, 64),
                Kept::Lost(at) => self.restore_var(self.lost, known, at, 64),
                Kept::Told(at) => self.restore_var(self.told, known, at, 64),
                Kept::Last(at) => self.restore_var(self.last, known, at, 64),
                Kept::Lookups => {
                    let lookups = match known {
                        Some(lookups) => lookups,
                        None => {
                            let (flags, at) = (trusted(), offset::PACKET_LOOKUPS);
                            self.b.ins().uload32(flags, self.packet, at)
                        }
                    };
                    self.b.def_var(self.lookups, lookups);
                }
            }
        }
    }

    fn restore_var(
        &mut self,
        var: Variable,
        known: Option<cranelift_codegen::ir::Value>,
        at: i32,
        width: u32,
    ) {
        match known {
            Some(value) => self.b.def_var(var, value),
            None => {
                let value = self.load_slot(at, width);
                self.set(var, &value);
            }
        }
    }

    /// What is known of a packet here, as far as something later looks at it.
    pub(crate) fn facts(&mut self, live: &Live) -> Facts {
        let mut facts = Vec::new();
        for m in 0..self.meta.len() {
            if !live.meta.has(m) || self.plan.flow.assigned.has(m) {
                continue;
            }
            if let Some([only]) = self.meta[m].clone().as_deref() {
                facts.push(match self.know_var(*only) {
                    Know::Const(k) => Know::Const(k),
                    _ => Know::Unknown,
                });
            }
        }
        self.header_facts(&live.headers, &mut facts);
        for var in [self.moved, self.outputs, self.unlaid, self.laid, self.cut, self.lost] {
            facts.push(self.know_var(var));
        }
        facts.push(self.know_var(self.told));
        facts.push(self.know_var(self.missed));
        facts
    }

    /// What a copy takes along, so that the packet itself can go on with it.
    pub(crate) fn taken_along(&self) -> Vec<Variable> {
        let headers = self.headers.iter().flatten();
        let fields = self.fields.iter().flatten();
        let own =
            [self.cursor, self.edge, self.in_order, self.moved, self.cut, self.missed, self.goto];
        let mut all: Vec<Variable> = self.meta.iter().flatten().flatten().copied().collect();
        all.extend(headers.flat_map(|vars| [vars.valid, vars.base, vars.varbit]));
        all.extend(fields.flat_map(|vars| vars.limbs.iter().chain([&vars.dirty])));
        all.extend(own);
        all
    }

    /// What is known of headers.
    fn header_facts(&mut self, live: &Set, facts: &mut Facts) {
        for h in 0..self.headers.len() {
            if !live.has(h) {
                continue;
            }
            let Some(vars) = self.headers[h].clone() else { continue };
            for var in [vars.valid, vars.base, vars.varbit] {
                facts.push(self.know_var(var));
            }
            let first = self.plan.shape.headers[h].first_field;
            let fields = self.plan.program.type_of(HeaderId(h as u32)).fields.len();
            for f in first..first + fields {
                if let Some(vars) = self.fields[f].clone() {
                    facts.push(self.know_var(vars.dirty));
                }
            }
        }
        for var in [self.edge, self.in_order] {
            facts.push(self.know_var(var));
        }
    }

    /// What is known of a packet within the parser.
    pub(crate) fn facts_in_parser(&mut self) -> Facts {
        let mut facts = vec![self.know_var(self.cursor)];
        let live = self.by_parser;
        facts.extend(self.facts(live));
        facts
    }

    /// What is known of a packet that goes out.
    pub(crate) fn facts_at_end(&mut self) -> Facts {
        let live = self.plan.flow.last.clone();
        self.facts(&live)
    }
}
