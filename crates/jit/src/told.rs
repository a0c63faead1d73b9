//! What is told the control side: punts and digests.
//!
//! Code only notes them. They are sent, if a limit lets them pass, once the packet is done with: one that bails out has told
//! nothing yet. A punt has the packet as it was at that moment, as an output has ([`crate::lay`]): unless the packet changes
//! later, nothing is copied.
//!
//! In: what [`abi::state::Tell`] was told of a burst. Out: [`Told`], packet by packet, in order.
//! Checked by: `tests/state.rs`, against the interpreter.

use crate::copies::Headers;
use crate::emit::{Ended, Env, Gen};
use crate::messages::{Repeatable, is_punt, number};
use crate::scratch::Scratch;
use crate::value::{Base, store_words};
use abi::state::ONCE;
use abi::{Outcome, offset, status};
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::{Bits, DigestId, DropReason, EntryId, Expr, PuntReason, TableId, Verdict};
use smallvec::SmallVec;

/// Of a table that was looked up, a node's number stands in its place.
const NODE: u64 = 1 << 31;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A copy of the packet.
    Punt {
        /// Why.
        reason: PuntReason,
        /// The table looked up last, if any.
        table: Option<TableId>,
        /// The entry that matched in it.
        entry: Option<EntryId>,
        /// What it is, cuts left out; if nothing, the packet as code has left it.
        headers: Option<Headers<'a>>,
    },
    /// Values.
    Digest(DigestId),
}

/// A message for the control side.
#[derive(Clone, Debug)]
pub struct Told<'a> {
    /// What it is.
    pub what: What<'a>,
    /// How many outputs there were before it.
    pub outputs: usize,
    /// The values, each behind its width.
    words: &'a [u64],
    /// As [`abi::state::Tell`] has it.
    number: u64,
}

impl<'a> Told<'a> {
    /// As what later ones are compared with it, if its repeats may be left out.
    pub fn repeatable(&self) -> Option<Repeatable<'a>> {
        Repeatable::of(self.number, self.words)
    }

    /// Values that it comes with.
    pub fn args(&self) -> SmallVec<[Bits; 4]> {
        let (mut args, mut words) = (SmallVec::new(), self.words);
        while let Some((width, rest)) = words.split_first() {
            let (value, rest) = rest.split_at((*width as usize).div_ceil(64));
            args.push(Bits::from_words(value, *width as u32));
            words = rest;
        }
        args
    }
}

/// Code has the number from a reason.
fn reason(what: u64) -> PuntReason {
    PuntReason::ALL[number(what) as usize]
}

impl Scratch {
    /// Some packet of the last burst has told something.
    #[inline]
    pub fn tells(&self) -> bool {
        !self.past.messages.records.is_empty()
    }

    /// What a packet of the last burst has told, in order.
    pub fn told<'a>(
        &'a self,
        packet: usize,
        outcome: &'a Outcome,
    ) -> impl Iterator<Item = Told<'a>> {
        let told = (outcome.status == status::TOLD).then(|| self.past.messages.records.of(packet));
        told.into_iter().flatten().filter_map(move |message| {
            let ([what, place, last], words) = message.split_first_chunk()?;
            let number_of = *what;
            let what = match is_punt(*what) {
                true => What::Punt {
                    reason: reason(*what),
                    table: self.table(last & 0xffff_ffff),
                    entry: ((last >> 32) as u32).checked_sub(1).map(EntryId),
                    headers: self.headers(packet, outcome, (place >> 32) as usize),
                },
                false => What::Digest(DigestId(number(*what))),
            };
            Some(Told { what, words, outputs: *place as u32 as usize, number: number_of })
        })
    }

    fn table(&self, last: u64) -> Option<TableId> {
        match last & NODE {
            0 => (last as u32).checked_sub(1).map(TableId),
            _ => self.tables.get((last & !NODE) as usize).copied(),
        }
    }

    /// What became of a packet of the last burst; nothing yet, if code has left it.
    pub fn verdict(&self, packet: usize, outcome: &Outcome) -> Option<Verdict> {
        let dropped = || {
            let reason = DropReason::ALL.get(outcome.reason as usize).copied();
            Verdict::Drop(reason.unwrap_or(DropReason::NoOutput))
        };
        match outcome.status {
            status::FORWARD | status::COPIES => Some(Verdict::Forward),
            status::DROP => Some(dropped()),
            status::TOLD if outcome.outputs_len > 0 => Some(Verdict::Forward),
            status::TOLD => {
                let mut told = self.past.messages.records.of(packet).filter_map(|m| m.first());
                let punt = told.find(|what| is_punt(**what));
                Some(punt.map_or_else(dropped, |what| Verdict::Punt(reason(*what))))
            }
            _ => None,
        }
    }
}

impl Gen<'_, '_> {
    pub(crate) fn punt(
        &mut self,
        reason: PuntReason,
        args: &[Expr],
        env: Env<'_>,
    ) -> Result<(), Ended> {
        if self.groups > 0 {
            // Which bucket it was is part of what is told.
            return Err(self.bail("a punt of a bucket"));
        }
        let in_order = self.get(self.in_order, 1);
        let disorder = self.not(&in_order);
        self.bail_if(&disorder, "the headers do not lie in the deparser's order")?;
        self.tell((reason as u64) << 8, args, env)?;
        // What changes from here on changes behind it.
        self.set_known(self.unlaid, 1);
        Ok(())
    }

    pub(crate) fn digest(
        &mut self,
        digest: DigestId,
        args: &[Expr],
        once: Option<u8>,
        env: Env<'_>,
    ) -> Result<(), Ended> {
        let about = once.map_or(0, |about| (1 + u64::from(about)) << ONCE);
        self.tell(about | u64::from(digest.0) << 8 | 1, args, env)
    }

    fn note_told(&mut self, bits: Value) {
        let told = self.b.use_var(self.told);
        let told = match self.known(told) {
            Some(0) => bits,
            _ => self.b.ins().bor(told, bits),
        };
        self.b.def_var(self.told, told);
    }

    /// Notes a message, or what is as if there were none: one that is left out.
    fn tell(&mut self, what: u64, args: &[Expr], env: Env<'_>) -> Result<(), Ended> {
        let mut values = Vec::new();
        for arg in args {
            values.push(self.value(arg, env)?);
        }
        let words = values.iter().map(|value| 1 + value.width.div_ceil(64)).sum::<u32>();
        let room = self.room(1 + words);
        let base = Base::new(room, crate::emit::trusted());
        let mut at = 0;
        let mut store = |g: &mut Self, value: u64| {
            let value = g.constant(value);
            g.b.ins().store(crate::emit::trusted(), value, room, at);
            at += 8;
        };
        store(self, words.into());
        let mut places = 8;
        for value in &values {
            let width = self.constant(value.width.into());
            self.b.ins().store(crate::emit::trusted(), width, room, places);
            store_words(&mut self.b, base, places + 8, value);
            places += 8 + 8 * value.width.div_ceil(64) as i32;
        }
        let (outputs, laid) = (self.b.use_var(self.outputs), self.b.use_var(self.laid));
        let place = match (self.known(outputs), self.known(laid)) {
            (Some(outputs), Some(laid)) => self.constant(outputs | laid << 32),
            _ => {
                let laid = self.b.ins().ishl_imm_u(laid, 32);
                self.b.ins().bor(outputs, laid)
            }
        };
        let (what, last) = (self.constant(what), self.b.use_var(self.last));
        let answer = self.call_state(offset::STATE_TELL, &[what, place, last, room], true);
        let Some(noted) = answer else { unreachable!("the function answers") };
        self.note_told(noted);
        Ok(())
    }

    /// A table was looked up, with this answer; `node` if its number tells which.
    pub(crate) fn looked_up(&mut self, table: TableId, node: Option<Value>, entry: Option<Value>) {
        if !self.plan.flow.end.told {
            return;
        }
        let table = match node {
            Some(node) => self.b.ins().bor_imm_u(node, NODE as i64),
            None => self.constant(u64::from(table.0) + 1),
        };
        let last = match entry {
            None => table,
            Some(entry) => match (self.known(entry), self.known(table)) {
                (Some(entry), Some(table)) => self.constant((entry + 1) << 32 | table),
                // One more than no entry's is nothing.
                _ => {
                    let entry = self.plus(entry, 1);
                    let entry = self.b.ins().ishl_imm_u(entry, 32);
                    self.b.ins().bor(entry, table)
                }
            },
        };
        self.b.def_var(self.last, last);
    }
}
