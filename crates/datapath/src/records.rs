//! Action records: what compiled code reads of an entry's action.
//!
//! Entries of one table that do the same share one record. A record is a few words: the *variant*
//! (which of the actions that the code knows), then the arguments, each in whole 64-bit words,
//! least significant first. All records of a table are equally long. Record 0 is the default action.
//!
//! Invariants: a variant's number stays an action's for as long as the action exists, so code and
//! records agree without being made together; an action that is removed leaves its number unused
//! for good (its id may come back with another body). Both replicas of a table see the same calls
//! in the same order, so their numbers agree, too.
//! Cost: acquiring, a hash of the call.
//! Checked by: the tests below; `tests/differential`.

use hashbrown::{DefaultHashBuilder, HashTable};
use ir::{ActionCall, ActionId};
use std::hash::BuildHasher;

/// In place of an action: the number is not used any more.
pub const RETIRED: ActionId = ActionId(u32::MAX);

/// Records of one table.
pub struct Records {
    words: Vec<u64>,
    /// Words of a record.
    stride: usize,
    /// Records of calls by the call's hash, which lies beside, so that growing looks at no call.
    by_call: HashTable<(u64, u32)>,
    hasher: DefaultHashBuilder,
    calls: Vec<Slot>,
    free: Vec<u32>,
    variants: Vec<Variant>,
}

struct Slot {
    call: ActionCall,
    users: u32,
    /// Position among the variants.
    variant: usize,
}

struct Variant {
    action: ActionId,
    /// Records in use that are of this variant.
    records: u32,
}

fn words_of(call: &ActionCall) -> usize {
    1 + call.args.iter().map(|arg| (arg.width() as usize).div_ceil(64)).sum::<usize>()
}

impl Records {
    /// The default action alone.
    pub fn new(default: &ActionCall) -> Records {
        let mut records = Records {
            words: Vec::new(),
            stride: 0,
            by_call: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            calls: vec![Slot { call: default.clone(), users: 1, variant: 0 }],
            free: Vec::new(),
            variants: Vec::new(),
        };
        records.fill(0);
        records
    }

    /// The words of all records.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Words of one record.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Actions by variant number, from variant 1 on.
    pub fn variants(&self) -> impl ExactSizeIterator<Item = ActionId> + '_ {
        self.variants.iter().map(|v| v.action)
    }

    /// Actions of entries and default in use, with their variant numbers.
    pub fn in_use(&self) -> impl Iterator<Item = (ActionId, u32)> + '_ {
        let numbered = self.variants.iter().zip(1u32..);
        numbered.filter(|(v, _)| v.records > 0).map(|(v, number)| (v.action, number))
    }

    /// Actions of entries, each once, in no order.
    pub fn of_entries(&self) -> impl Iterator<Item = ActionId> + '_ {
        let default = self.calls[0].variant;
        let numbered = self.variants.iter().enumerate();
        let own = numbered.filter(move |(at, v)| v.records > u32::from(*at == default));
        own.map(|(_, v)| v.action)
    }

    /// The call that a record stands for.
    pub fn call(&self, record: u32) -> &ActionCall {
        &self.calls[record as usize].call
    }

    /// The action that a record stands for, and its arguments' words.
    #[inline]
    pub fn what(&self, record: u32) -> (ActionId, &[u64]) {
        let at = record as usize * self.stride;
        (self.calls[record as usize].call.action, &self.words[at + 1..at + self.stride])
    }

    /// The record of a call, with one more user.
    pub fn acquire(&mut self, call: &ActionCall) -> u32 {
        let hash = self.hasher.hash_one(call);
        let same = |(other, record): &(u64, u32)| {
            *other == hash && self.calls[*record as usize].call == *call
        };
        if let Some((_, record)) = self.by_call.find(hash, same).copied() {
            self.calls[record as usize].users += 1;
            return record;
        }
        let slot = Slot { call: call.clone(), users: 1, variant: 0 };
        let record = match self.free.pop() {
            Some(record) => {
                self.calls[record as usize] = slot;
                record
            }
            None => {
                self.calls.push(slot);
                // Entries are numbered by 32 bits, and each brings one record at most.
                self.calls.len() as u32 - 1
            }
        };
        self.by_call.insert_unique(hash, (hash, record), |(hash, _)| *hash);
        self.fill(record);
        record
    }

    /// One user less.
    pub fn release(&mut self, record: u32) {
        let slot = &mut self.calls[record as usize];
        slot.users -= 1;
        if slot.users == 0 {
            let hash = self.hasher.hash_one(&slot.call);
            if let Ok(held) = self.by_call.find_entry(hash, |(_, other)| *other == record) {
                held.remove();
            }
            self.variants[slot.variant].records -= 1;
            self.free.push(record);
        }
    }

    /// Changes the default action.
    pub fn set_default(&mut self, call: &ActionCall) {
        let slot = &mut self.calls[0];
        slot.call = call.clone();
        self.variants[slot.variant].records -= 1;
        self.fill(0);
    }

    /// The action is removed; nothing uses it any more.
    pub fn retire(&mut self, action: ActionId) {
        for variant in self.variants.iter_mut().filter(|v| v.action == action) {
            variant.action = RETIRED;
        }
    }

    /// Writes a record's words, all records' if they must be longer.
    fn fill(&mut self, record: u32) {
        let call = &self.calls[record as usize].call;
        let (action, needed) = (call.action, words_of(call));
        let known = self.variants.iter().position(|v| v.action == action);
        let variant = known.unwrap_or_else(|| {
            self.variants.push(Variant { action, records: 0 });
            self.variants.len() - 1
        });
        self.variants[variant].records += 1;
        self.calls[record as usize].variant = variant;
        if needed > self.stride {
            let stride = needed.next_power_of_two();
            let mut words = vec![0; self.calls.len() * stride];
            if self.stride > 0 {
                let old = self.words.chunks_exact(self.stride);
                words.chunks_exact_mut(stride).zip(old).for_each(|(new, old)| {
                    new[..old.len()].copy_from_slice(old);
                });
            }
            (self.words, self.stride) = (words, stride);
        }
        self.words.resize(self.calls.len() * self.stride, 0);
        let at = record as usize * self.stride;
        let words = &mut self.words[at..at + self.stride];
        words.fill(0);
        words[0] = variant as u64 + 1;
        let args = self.calls[record as usize].call.args.iter().flat_map(|arg| {
            let limbs = (arg.width() as usize).div_ceil(64);
            arg.limbs().iter().copied().take(limbs)
        });
        words[1..].iter_mut().zip(args).for_each(|(word, limb)| *word = limb);
    }

    /// Bytes on the heap, about.
    pub fn memory_bytes(&self) -> usize {
        8 * self.words.capacity()
            + self.calls.capacity() * size_of::<Slot>()
            + self.by_call.capacity() * size_of::<(u64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Bits;

    fn call(action: u32, args: &[(u128, u32)]) -> ActionCall {
        ActionCall::with(ActionId(action), args.iter().map(|(v, w)| Bits::from_u128(*v, *w)))
    }

    #[test]
    fn equal_calls_share_a_record_until_the_last_user_goes() {
        let mut records = Records::new(&call(0, &[]));
        let a = records.acquire(&call(1, &[(7, 32)]));
        let b = records.acquire(&call(1, &[(8, 32)]));
        assert_eq!(records.acquire(&call(1, &[(7, 32)])), a);
        assert_eq!(records.stride(), 2);
        assert_eq!(records.words(), [1, 0, 2, 7, 2, 8]);
        records.release(a);
        assert_eq!(records.words()[2..4], [2, 7]);
        records.release(a);
        // Its place is taken by the next one, of another action.
        let c = records.acquire(&call(9, &[(0xff, 8)]));
        assert_eq!((c, &records.words()[2..4]), (a, &[3, 0xff][..]));
        assert_eq!(records.call(b), &call(1, &[(8, 32)]));
        assert_eq!(records.variants().collect::<Vec<_>>(), [0, 1, 9].map(ActionId));
        records.release(b);
        assert_eq!(records.in_use().collect::<Vec<_>>(), [(ActionId(0), 1), (ActionId(9), 3)]);
    }

    #[test]
    fn longer_arguments_lengthen_every_record() {
        let mut records = Records::new(&call(0, &[(5, 9)]));
        let short = records.acquire(&call(1, &[(7, 32)]));
        let long = records.acquire(&call(2, &[(1, 1), ((3 << 64) | 2, 128), (4, 64)]));
        assert_eq!(records.stride(), 8);
        let of = |records: &Records, r: u32| records.words()[8 * r as usize..][..5].to_vec();
        assert_eq!(of(&records, 0), [1, 5, 0, 0, 0]);
        assert_eq!(of(&records, short), [2, 7, 0, 0, 0]);
        assert_eq!(of(&records, long), [3, 1, 2, 3, 4]);
        records.set_default(&call(2, &[(0, 1), (9, 128), (8, 64)]));
        assert_eq!(of(&records, 0), [3, 0, 9, 0, 8]);
    }

    #[test]
    fn a_retired_action_s_number_is_not_used_again() {
        let mut records = Records::new(&call(0, &[]));
        let a = records.acquire(&call(5, &[]));
        records.release(a);
        records.retire(ActionId(5));
        let b = records.acquire(&call(5, &[]));
        assert_eq!(records.words()[b as usize], 3);
        assert_eq!(records.variants().collect::<Vec<_>>(), [ActionId(0), RETIRED, ActionId(5)]);
    }
}
