//! Operations on state that outlives the packet: counter arrays, meters, registers, chance.
//!
//! Code calls a function of the burst's ([`abi::state`]). What it did is noted there ([`crate::journal`]), so that a packet
//! may bail out behind it.
//!
//! What such an operation answers depends on those of the packets before it, but for counts, which only add up. So they
//! take turns ([`Turn`]): where all such operations stand in one place, behind which no packet waits any more, the packets
//! come there in the order of their arrival; otherwise each is taken through all segments before the next one, unless few of
//! them ask ([`Pace`]). Behind a packet that has bailed out, those that come to such an operation do so, too.

use crate::emit::{Ended, Env, Gen, fixed, trusted};
use crate::value::{Base, Val, load_words, store_words};
use abi::offset;
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, Signature, StackSlotData, StackSlotKind, Value, condcodes::IntCC, types,
};
use ir::{Expr, FieldRef, RegisterId};
use std::collections::BTreeSet;

/// How packets of a burst take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// They need not: code asks for nothing that depends on others, or at the start of the burst alone, which takes them in
    /// order.
    Free,
    /// At this node, which is the last one.
    At(usize),
    /// One is taken through all segments before the next one is.
    Alone,
}

impl Turn {
    /// Of code that asks behind these nodes, or at the start of the burst, where packets wait at these.
    pub(crate) fn of(asked: &BTreeSet<Option<usize>>, waited: &[u32], nodes: usize) -> Turn {
        let mut asked = asked.iter();
        match (asked.next(), asked.next(), waited.last()) {
            (None, ..) => Turn::Free,
            // What is new in a later table may ask, too.
            (Some(None), None, None) => Turn::Free,
            (Some(Some(node)), None, Some(last)) if *last as usize == *node && *node < nodes => {
                Turn::At(*node)
            }
            _ => Turn::Alone,
        }
    }
}

/// Where packets have to be taken alone ([`Turn::Alone`]): whether that is worth it. A packet that asks then stays in code, but
/// all others of its burst take longer. Where few ask, the burst is taken at once, and these bail out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) alone: bool,
    /// Bursts that are still taken at once, whatever is found.
    rest: u32,
}

/// Bursts that are taken at once before packets are taken alone again.
const REST: u32 = 64;

impl Default for Pace {
    fn default() -> Pace {
        Pace { alone: true, rest: 0 }
    }
}

impl Pace {
    /// Of a burst whose packets were taken alone, so many have asked.
    pub(crate) fn asked(&mut self, asked: usize, of: usize) {
        if 8 * asked < of {
            *self = Pace { alone: false, rest: REST };
        }
    }

    /// Of a burst that was taken at once, so many have bailed out.
    pub(crate) fn left(&mut self, left: usize, of: usize) {
        self.rest = self.rest.saturating_sub(1);
        self.alone = self.rest == 0 && 4 * left > of;
    }
}

impl Gen<'_, '_> {
    /// Calls one of the functions that [`abi::state::State`] lists; what it returns, if that is something.
    pub(crate) fn call_state(
        &mut self,
        function: i32,
        args: &[Value],
        answers: bool,
    ) -> Option<Value> {
        let table = self.b.ins().load(types::I64, fixed(), self.context, offset::CONTEXT_STATE);
        let function = self.b.ins().load(types::I64, fixed(), table, function);
        let mut signature = Signature::new(self.b.func.signature.call_conv);
        signature.params.resize(args.len() + 2, AbiParam::new(types::I64));
        if answers {
            signature.returns.push(AbiParam::new(types::I64));
        }
        let signature = self.b.import_signature(signature);
        let mut all = vec![table, self.packet];
        all.extend_from_slice(args);
        let call = self.b.ins().call_indirect(signature, function, &all);
        self.b.inst_results(call).first().copied()
    }

    /// Those before the packet have done what they do.
    fn in_turn(&mut self) -> Result<(), Ended> {
        self.points.asked.insert(self.points.here);
        let left = self.b.ins().uload32(trusted(), self.context, offset::CONTEXT_LEFT);
        let zero = self.constant(0);
        let left = self.compare(IntCC::NotEqual, left, zero);
        self.bail_if(&left, "a packet before it is not run by code")
    }

    /// Room for so many words on the stack: its address.
    pub(crate) fn room(&mut self, words: u32) -> Value {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * words, 3);
        let slot = self.b.create_sized_stack_slot(data);
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// A number of 32 bits as one of 64.
    fn number(&mut self, e: &Expr, env: Env<'_>) -> Result<Value, Ended> {
        let value = self.value(e, env)?.cast(&mut self.b, 32);
        Ok(value.to_i64_low(&mut self.b))
    }

    pub(crate) fn count_in(&mut self, array: u32, cell: &Expr, env: Env<'_>) -> Result<(), Ended> {
        let cell = self.number(cell, env)?;
        let array = self.constant(array.into());
        self.call_state(offset::STATE_COUNT, &[array, cell], false);
        Ok(())
    }

    pub(crate) fn meter(
        &mut self,
        meter: &Expr,
        color: FieldRef,
        level: FieldRef,
        env: Env<'_>,
    ) -> Result<(), Ended> {
        self.in_turn()?;
        let meter = self.number(meter, env)?;
        let Some(answer) = self.call_state(offset::STATE_METER, &[meter], true) else {
            return Err(self.bail("a meter that answers nothing"));
        };
        let above = self.b.ins().ushr_imm_u(answer, 8);
        for (field, value) in [(color, answer), (level, above)] {
            let value = Val::from_i64_masked(&mut self.b, value, 8);
            self.assign(field, &value)?;
        }
        Ok(())
    }

    /// Bits of a register of the program.
    fn register_width(&mut self, register: RegisterId) -> Result<u32, Ended> {
        match self.plan.program.registers.get(register.index()) {
            Some(register) => Ok(register.width),
            None => Err(self.bail("a register that does not exist")),
        }
    }

    pub(crate) fn read_register(
        &mut self,
        field: FieldRef,
        register: RegisterId,
        cell: &Expr,
        env: Env<'_>,
    ) -> Result<(), Ended> {
        self.in_turn()?;
        let width = self.register_width(register)?;
        let cell = self.number(cell, env)?;
        let id = self.constant(register.0.into());
        let room = match width > 64 {
            true => self.room(width.div_ceil(64)),
            false => self.constant(0),
        };
        let Some(low) = self.call_state(offset::STATE_READ, &[id, cell, room], true) else {
            return Err(self.bail("a register that answers nothing"));
        };
        let value = match width > 64 {
            true => load_words(&mut self.b, Base::new(room, trusted()), 0, width),
            false => Val::from_i64(&mut self.b, low, width),
        };
        self.assign(field, &value)
    }

    pub(crate) fn write_register(
        &mut self,
        register: RegisterId,
        cell: &Expr,
        value: &Expr,
        env: Env<'_>,
    ) -> Result<(), Ended> {
        self.in_turn()?;
        let width = self.register_width(register)?;
        let cell = self.number(cell, env)?;
        let value = self.value(value, env)?.cast(&mut self.b, width);
        let id = self.constant(register.0.into());
        let low = value.to_i64_low(&mut self.b);
        let mut words = self.constant(0);
        if width > 64 {
            words = self.room(width.div_ceil(64));
            store_words(&mut self.b, Base::new(words, trusted()), 0, &value);
        }
        self.call_state(offset::STATE_WRITE, &[id, cell, low, words], false);
        Ok(())
    }

    pub(crate) fn random(
        &mut self,
        field: FieldRef,
        lo: &Expr,
        hi: &Expr,
        env: Env<'_>,
    ) -> Result<(), Ended> {
        self.in_turn()?;
        let lo = self.value(lo, env)?;
        let (width, hi) = (lo.width, self.value(hi, env)?);
        let hi = hi.cast(&mut self.b, width);
        let limbs = width.div_ceil(64);
        let words = self.room(2 * limbs);
        let base = Base::new(words, trusted());
        store_words(&mut self.b, base, 0, &lo);
        store_words(&mut self.b, base, 8 * limbs as i32, &hi);
        let bits = self.constant(width.into());
        self.call_state(offset::STATE_RANDOM, &[bits, words], false);
        let value = load_words(&mut self.b, base, 0, width);
        self.assign(field, &value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_take_turns_where_all_ask_in_one_place_behind_which_none_waits() {
        let of = |asked: &[Option<usize>], waited: &[u32]| {
            Turn::of(&asked.iter().copied().collect(), waited, 3)
        };
        assert_eq!(of(&[], &[0, 2]), Turn::Free);
        assert_eq!(of(&[None], &[]), Turn::Free);
        assert_eq!(of(&[None], &[1]), Turn::Alone);
        assert_eq!(of(&[Some(2)], &[0, 2]), Turn::At(2));
        assert_eq!(of(&[Some(0)], &[0, 2]), Turn::Alone);
        assert_eq!(of(&[Some(0), Some(2)], &[0, 2]), Turn::Alone);
        assert_eq!(of(&[None, Some(2)], &[0, 2]), Turn::Alone);
        // A stop.
        assert_eq!(of(&[Some(3)], &[0, 3]), Turn::Alone);
    }

    #[test]
    fn packets_are_taken_alone_where_enough_of_them_ask() {
        let mut pace = Pace::default();
        pace.asked(8, 64);
        assert!(pace.alone);
        pace.asked(7, 64);
        assert!(!pace.alone);
        for _ in 1..REST {
            pace.left(64, 64);
            assert!(!pace.alone);
        }
        pace.left(16, 64);
        assert!(!pace.alone);
        pace.left(17, 64);
        assert!(pace.alone);
    }
}
