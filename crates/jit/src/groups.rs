//! Groups in code: which buckets run, and their actions, on copies.
//!
//! What groups there are is data ([`crate::buckets`]), and so is which ports are live. Code finds the group, counts it, chooses a
//! range of its buckets by its kind, and runs the action of each on a copy of the packet, as it would run an entry's. All
//! buckets of a range go through the same code, in a loop: a copy begins with what the packet is, so what is known of it
//! is known in every round.
//!
//! Of the buckets of a select group the one wins that draws the least number ([`interp`]'s `group`). Where weights are
//! equal that is the one with the greatest fraction; else logarithms decide, by a table, and where two are
//! too close for that, as exactly as the interpreter's. Of a group of slots, the hash is the place of one.
//!
//! Bails out: a group inside of too many others, or one that the data leaves; an action or a hash that is new.
//! Cost: a bucket, about thirty instructions beside its action; a hash, four for each byte; a draw, ten, by weights thirty.
//! Checked by: `tests/differential.rs`; `datapath`'s `tests/differential`.

use crate::emit::{CopyEnd, Ended, Env, Gen, fixed, trusted};
use crate::stops::Origin;
use crate::unit::{GROUP_DEPTH_MAX, NO_ACTION};
use crate::value::{Base, Val, load_words};
use abi::groups::{
    GROUP_HASH, HASHED_MAX, LIVE_PORTS, LOG_BITS, LOG_PLACES, NO_PORT, bucket, chunk, crc_of_zeros,
    crcs, draws, kind,
};
use abi::{COUNTED, COUNTED_MAX, offset};
use cranelift_codegen::ir::{Block, InstBuilder, JumpTableData, Value, condcodes::IntCC, types};
use cranelift_frontend::Variable;
use ir::{ActionId, DropReason, Expr, FieldRef, PortIs};
use smallvec::SmallVec;

/// Values of a function, at most, behind which groups inside of others are left: all of what buckets do is generated anew
/// in each that does something with a group.
const INNER_VALUES_MAX: usize = 10_000;
/// By so much more than its weight, with [`LOG_PLACES`] binary places, may a number that is drawn by the table
/// differ from what it is: interpolation, and that the interpreter rounds to 16 places.
const LOG_ERROR: i64 = 320;

/// A bucket that is being chosen.
struct Best {
    /// Its address; 0, none yet.
    at: Variable,
    /// Its fraction of 2^64.
    u: Variable,
    /// `-log2(u)`, about.
    log: Variable,
    weight: Variable,
}

impl Gen<'_, '_> {
    /// One bit: whether something holds of the port.
    pub(crate) fn port_is(
        &mut self,
        field: FieldRef,
        what: PortIs,
        port: &Val,
    ) -> Result<(), Ended> {
        let port = port.cast(&mut self.b, 32).to_i64_low(&mut self.b);
        let bit = match what {
            PortIs::Live => {
                let ports = self.constant(LIVE_PORTS as u64 - 2);
                let beyond = self.compare(IntCC::UnsignedGreaterThan, port, ports);
                self.bail_if(&beyond, "whether a port is live that has a number above 65,534")?;
                self.live_bit(port)
            }
            PortIs::Tunnel => {
                // No tunnel port has a higher number; the last place is always 0.
                let last = self.constant(NO_PORT.into());
                let port = self.b.ins().umin(port, last);
                let behind = self.constant(LIVE_PORTS as u64);
                let at = self.b.ins().iadd(port, behind);
                self.live_bit(at)
            }
        };
        let live = Val::from_i64(&mut self.b, bit, 1);
        self.assign(field, &live)
    }

    /// 0 or 1: whether a port below [`LIVE_PORTS`] is live; from there on, whether it is a tunnel port.
    fn live_bit(&mut self, port: Value) -> Value {
        let live = self.b.ins().load(types::I64, fixed(), self.context, offset::CONTEXT_LIVE);
        let word = self.b.ins().ushr_imm_u(port, 6);
        let word = self.b.ins().ishl_imm_u(word, 3);
        let at = self.b.ins().iadd(live, word);
        let word = self.b.ins().load(types::I64, trusted(), at, 0);
        let by = self.b.ins().band_imm_u(port, 63);
        let bits = self.b.ins().ushr(word, by);
        self.b.ins().band_imm_u(bits, 1)
    }

    /// Hands copies to the buckets that a group selects.
    pub(crate) fn group(&mut self, number: &Val) -> Result<(), Ended> {
        if !self.plan.few_copies {
            return Err(self.bail("a group, and many copies"));
        }
        if self.groups >= GROUP_DEPTH_MAX {
            return Err(self.bail("a group inside of several others"));
        }
        if self.groups > 0 && self.b.func.dfg.num_values() > INNER_VALUES_MAX {
            return Err(self.bail("a group inside of another, in code that is long"));
        }
        if !self.plan.unit.buckets.iter().any(|id| *id != NO_ACTION) {
            return Err(self.bail("a group, when there was none"));
        }
        let most = self.constant(u64::from(COUNTED) * u64::from(COUNTED_MAX));
        let counted = self.b.use_var(self.lookups);
        let many = self.compare(IntCC::UnsignedGreaterThan, counted, most);
        self.bail_if(&many, "very many groups and buckets")?;
        let kept = self.taken_along();
        let kept: Vec<_> = kept.into_iter().map(|var| (var, self.b.use_var(var))).collect();
        let rest = self.b.create_block();
        let lost = |g: &mut Self, block: Block, why: DropReason| {
            g.enter(block);
            g.lose(why);
            g.b.ins().jump(rest, &[]);
        };
        let (group, unknown) = self.find_group(number);
        lost(self, unknown, DropReason::GroupUnknown);
        self.enter(group.0);
        let group = group.1;
        let counter = self.b.ins().uload32(trusted(), group, chunk::COUNTER);
        self.count_one(counter);
        let buckets = self.b.ins().uload32(trusted(), group, chunk::BUCKETS);
        let stride = self.b.ins().uload32(trusted(), group, chunk::STRIDE);
        let kind = self.b.ins().load(types::I32, trusted(), group, chunk::KIND);
        let first = self.b.ins().iadd_imm_u(group, i64::from(chunk::FIRST));
        let bytes = self.b.ins().imul(buckets, stride);
        let end = self.b.ins().iadd(first, bytes);
        let (at, until) = (self.b.declare_var(types::I64), self.b.declare_var(types::I64));
        self.b.def_var(at, first);
        self.b.def_var(until, end);
        let (run, dead, left) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let hashes = self.plan.unit.hashes.len();
        let (failover, some) = (self.b.create_block(), self.b.create_block());
        let selects: Vec<Block> = (0..hashes).map(|_| self.b.create_block()).collect();
        let none = self.b.ins().icmp_imm_u(IntCC::Equal, buckets, 0);
        self.b.ins().brif(none, dead, &[], some, &[]);
        self.enter(some);
        let is_all = self.b.ins().icmp_imm_u(IntCC::Equal, kind, i64::from(kind::ALL));
        let other = self.b.create_block();
        self.b.ins().brif(is_all, run, &[], other, &[]);
        self.enter(other);
        const { assert!(kind::ALL == 0 && kind::FAST_FAILOVER == 1 && kind::SELECT == 2) };
        let call = |g: &mut Self, block: Block| g.b.func.dfg.block_call(block, &[]);
        let default = call(self, left);
        let mut cases = vec![default, call(self, failover)];
        selects.iter().for_each(|block| cases.push(call(self, *block)));
        let table = self.b.create_jump_table(JumpTableData::new(default, &cases));
        self.b.ins().br_table(kind, table);
        self.enter(left);
        self.bail("a group that is left, or that chooses by a hash that is not compiled");

        // One of them runs.
        let chosen = self.b.create_block();
        self.enter(failover);
        self.first_live(group, (first, end, stride), at, (chosen, dead));
        if !selects.is_empty() {
            self.by_hash(group, (first, end, stride), at, &selects, (chosen, dead));
        }
        self.enter(chosen);
        let one = self.b.use_var(at);
        let behind = self.b.ins().iadd(one, stride);
        self.b.def_var(until, behind);
        self.b.ins().jump(run, &[]);
        lost(self, dead, DropReason::GroupDead);

        // What comes back here is sealed behind the loop.
        self.b.switch_to_block(run);
        kept.iter().for_each(|(var, value)| self.b.def_var(*var, *value));
        let here = self.b.use_var(at);
        let next = self.b.create_block();
        if self.run_bucket(here, next) {
            self.enter(next);
            let here = self.b.use_var(at);
            let here = self.b.ins().iadd(here, stride);
            self.b.def_var(at, here);
            let until = self.b.use_var(until);
            let more = self.b.ins().icmp(IntCC::UnsignedLessThan, here, until);
            self.b.ins().brif(more, run, &[], rest, &[]);
        }
        self.b.seal_block(run);
        self.enter(rest);
        kept.into_iter().for_each(|(var, value)| self.b.def_var(var, value));
        Ok(())
    }

    /// Counts the packet for a group or bucket.
    fn count_one(&mut self, counter: Value) {
        self.count_entry(counter);
        let counted = self.b.use_var(self.lookups);
        let more = self.plus(counted, u64::from(COUNTED));
        self.b.def_var(self.lookups, more);
    }

    /// Looks for a group: the block where it is found, with its chunk, and the one where it is not. Neither is entered.
    fn find_group(&mut self, number: &Val) -> ((Block, Value), Block) {
        let flags = fixed();
        let slots = self.b.ins().load(types::I64, flags, self.context, offset::CONTEXT_GROUPS);
        let mask = self.b.ins().load(types::I64, flags, self.context, offset::CONTEXT_GROUPS_MASK);
        let number = number.cast(&mut self.b, 32).to_i64_low(&mut self.b);
        let factor = self.constant(GROUP_HASH);
        let hash = self.b.ins().imul(number, factor);
        let hash = self.b.ins().ushr_imm_u(hash, 32);
        let place = self.b.declare_var(types::I64);
        self.b.def_var(place, hash);
        let (head, there, found, unknown, next) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(head);
        let at = self.b.use_var(place);
        let at = self.b.ins().band(at, mask);
        let slot = self.b.ins().ishl_imm_u(at, 4);
        const { assert!(size_of::<abi::groups::GroupSlot>() == 16) };
        let slot = self.b.ins().iadd(slots, slot);
        let group = self.b.ins().load(types::I64, trusted(), slot, 8);
        self.b.ins().brif(group, there, &[], unknown, &[]);
        self.enter(there);
        let here = self.b.ins().load(types::I64, trusted(), slot, 0);
        let is = self.b.ins().icmp(IntCC::Equal, here, number);
        self.b.ins().brif(is, found, &[], next, &[]);
        self.enter(next);
        let more = self.b.ins().iadd_imm_u(at, 1);
        self.b.def_var(place, more);
        self.b.ins().jump(head, &[]);
        self.b.seal_block(head);
        ((found, group), unknown)
    }

    /// A copy is given up.
    pub(crate) fn lose(&mut self, reason: DropReason) {
        let lost = self.b.use_var(self.lost);
        let (none, here) = (self.constant(0), self.constant(reason as u64 + 1));
        let first = self.compare(IntCC::Equal, lost, none);
        let lost = self.select(&first, here, lost);
        self.b.def_var(self.lost, lost);
    }

    /// Goes to one block if a bucket is live, else to the other.
    fn if_live(&mut self, group: Value, here: Value, (yes, no): (Block, Block)) {
        let flags = trusted();
        let ports = self.b.ins().uload32(flags, here, bucket::WATCHES);
        let some = self.b.create_block();
        self.b.ins().brif(ports, some, &[], yes, &[]);
        self.enter(some);
        let first = self.b.ins().uload32(flags, here, bucket::WATCHED);
        let first = self.b.ins().iadd(group, first);
        let bytes = self.b.ins().ishl_imm_u(ports, 2);
        let end = self.b.ins().iadd(first, bytes);
        let at = self.b.declare_var(types::I64);
        self.b.def_var(at, first);
        let (head, next) = (self.b.create_block(), self.b.create_block());
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(head);
        let place = self.b.use_var(at);
        let port = self.b.ins().uload32(flags, place, 0);
        let live = self.live_bit(port);
        self.b.ins().brif(live, yes, &[], next, &[]);
        self.enter(next);
        let place = self.b.ins().iadd_imm_u(place, 4);
        self.b.def_var(at, place);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, place, end);
        self.b.ins().brif(more, head, &[], no, &[]);
        self.b.seal_block(head);
    }

    /// The first live bucket is chosen, or none.
    fn first_live(
        &mut self,
        group: Value,
        (first, end, stride): (Value, Value, Value),
        at: Variable,
        (chosen, dead): (Block, Block),
    ) {
        let (head, next) = (self.b.create_block(), self.b.create_block());
        self.b.def_var(at, first);
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(head);
        let here = self.b.use_var(at);
        self.if_live(group, here, (chosen, next));
        self.enter(next);
        let here = self.b.ins().iadd(here, stride);
        self.b.def_var(at, here);
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, here, end);
        self.b.ins().brif(more, head, &[], dead, &[]);
        self.b.seal_block(head);
    }

    /// A bucket is chosen by a hash, of which the block of each list of inputs begins.
    fn by_hash(
        &mut self,
        group: Value,
        (first, end, stride): (Value, Value, Value),
        at: Variable,
        selects: &[Block],
        (chosen, dead): (Block, Block),
    ) {
        let plan = self.plan;
        let hash = self.b.declare_var(types::I64);
        let mut hashed: Option<Block> = None;
        for (block, inputs) in selects.iter().zip(&plan.unit.hashes) {
            self.enter(*block);
            let Some(inputs) = inputs else {
                self.bail("a group that chooses by a hash that is not compiled");
                continue;
            };
            if let Ok(value) = self.group_hash(inputs) {
                self.b.def_var(hash, value);
                let hashed = *hashed.get_or_insert_with(|| self.b.create_block());
                self.b.ins().jump(hashed, &[]);
            }
        }
        let Some(hashed) = hashed else { return };
        self.enter(hashed);
        let hash = self.b.use_var(hash);
        let draws = self.b.ins().load(types::I32, trusted(), group, chunk::DRAWS);
        let slots = self.b.ins().icmp_imm_u(IntCC::Equal, draws, i64::from(draws::SLOTS));
        let (slot, drawn) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(slots, slot, &[], drawn, &[]);
        // A group without buckets was left before.
        self.enter(slot);
        let buckets = self.b.ins().uload32(trusted(), group, chunk::BUCKETS);
        let place = self.b.ins().urem(hash, buckets);
        let bytes = self.b.ins().imul(place, stride);
        let one = self.b.ins().iadd(first, bytes);
        self.b.def_var(at, one);
        self.b.ins().jump(chosen, &[]);
        self.enter(drawn);
        let hash = self.b.ins().ishl_imm_u(hash, 32);
        let mut var = |ty| self.b.declare_var(ty);
        let i64 = types::I64;
        let best = Best { at: var(i64), u: var(i64), log: var(i64), weight: var(i64) };
        for var in [best.at, best.u, best.log, best.weight] {
            self.set_known(var, 0);
        }
        self.b.def_var(at, first);
        let (equal, differ, done) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().brif(draws, differ, &[], equal, &[]);
        for (block, weighted) in [(equal, false), (differ, true)] {
            self.enter(block);
            let (head, live, next) =
                (self.b.create_block(), self.b.create_block(), self.b.create_block());
            self.b.ins().jump(head, &[]);
            self.b.switch_to_block(head);
            let here = self.b.use_var(at);
            self.if_live(group, here, (live, next));
            self.enter(live);
            let place = self.b.ins().uload32(trusted(), here, bucket::PLACE);
            let drawn = self.b.ins().bor(hash, place);
            let u = self.mix64(drawn);
            match weighted {
                true => self.draw(&best, here, u),
                false => {
                    let (none, before) = (self.b.use_var(best.at), self.b.use_var(best.u));
                    let first = self.b.ins().icmp_imm_u(IntCC::Equal, none, 0);
                    let more = self.b.ins().icmp(IntCC::UnsignedGreaterThan, u, before);
                    let better = self.b.ins().bor(first, more);
                    for (var, new, old) in [(best.at, here, none), (best.u, u, before)] {
                        let new = self.b.ins().select(better, new, old);
                        self.b.def_var(var, new);
                    }
                }
            }
            self.b.ins().jump(next, &[]);
            self.enter(next);
            let here = self.b.ins().iadd(here, stride);
            self.b.def_var(at, here);
            let more = self.b.ins().icmp(IntCC::UnsignedLessThan, here, end);
            self.b.ins().brif(more, head, &[], done, &[]);
            self.b.seal_block(head);
        }
        self.enter(done);
        let one = self.b.use_var(best.at);
        self.b.def_var(at, one);
        self.b.ins().brif(one, chosen, &[], dead, &[]);
    }

    /// A bucket draws by its weight: it is the best one if its number is the least.
    fn draw(&mut self, best: &Best, here: Value, u: Value) {
        let weight = self.b.ins().uload32(trusted(), here, bucket::WEIGHT);
        let log = self.minus_log2(u);
        let (take, behind, compared) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let none = self.b.use_var(best.at);
        self.b.ins().brif(none, compared, &[], take, &[]);
        self.enter(compared);
        let (other_log, other_weight) = (self.b.use_var(best.log), self.b.use_var(best.weight));
        let ours = self.b.ins().imul(log, other_weight);
        let theirs = self.b.ins().imul(other_log, weight);
        let less = self.b.ins().isub(theirs, ours);
        let both = self.b.ins().iadd(weight, other_weight);
        let error = self.b.ins().imul_imm_s(both, LOG_ERROR);
        let surely = self.b.ins().icmp(IntCC::SignedGreaterThan, less, error);
        let (unsure, close) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(surely, take, &[], unsure, &[]);
        self.enter(unsure);
        let sum = self.b.ins().iadd(less, error);
        let not = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, sum, 0);
        self.b.ins().brif(not, behind, &[], close, &[]);
        self.enter(close);
        self.b.set_cold_block(close);
        let other_u = self.b.use_var(best.u);
        let (exact, other_exact) = (self.exact_minus_log2(u), self.exact_minus_log2(other_u));
        let ours = self.b.ins().imul(exact, other_weight);
        let theirs = self.b.ins().imul(other_exact, weight);
        let less = self.b.ins().icmp(IntCC::UnsignedLessThan, ours, theirs);
        let equal = self.b.ins().icmp(IntCC::Equal, ours, theirs);
        let greater = self.b.ins().icmp(IntCC::UnsignedGreaterThan, u, other_u);
        let tie = self.b.ins().band(equal, greater);
        let better = self.b.ins().bor(less, tie);
        self.b.ins().brif(better, take, &[], behind, &[]);
        self.enter(take);
        for (var, value) in [(best.at, here), (best.u, u), (best.log, log), (best.weight, weight)] {
            self.b.def_var(var, value);
        }
        self.b.ins().jump(behind, &[]);
        self.enter(behind);
    }

    /// A number of 64 bits without its leading zeros, and which power of two it begins with; 0 counts as 1.
    fn scaled(&mut self, u: Value) -> (Value, Value) {
        let one = self.constant(1);
        let u = self.b.ins().umax(u, one);
        let zeros = self.b.ins().clz(u);
        let scaled = self.b.ins().ishl(u, zeros);
        let whole = self.constant(63);
        (scaled, self.b.ins().isub(whole, zeros))
    }

    /// `-log2(u / 2^64)`, with [`LOG_PLACES`] binary places, about.
    fn minus_log2(&mut self, u: Value) -> Value {
        let (scaled, whole) = self.scaled(u);
        let logs = self.b.ins().load(types::I64, fixed(), self.context, offset::CONTEXT_LOGS);
        // The highest bit is always set.
        let place = self.b.ins().ushr_imm_u(scaled, 63 - i64::from(LOG_BITS));
        let place = self.b.ins().band_imm_u(place, (1 << LOG_BITS) - 1);
        let at = self.b.ins().ishl_imm_u(place, 2);
        let at = self.b.ins().iadd(logs, at);
        let low = self.b.ins().uload32(trusted(), at, 0);
        let high = self.b.ins().uload32(trusted(), at, 4);
        let rest = self.b.ins().ushr_imm_u(scaled, 63 - i64::from(LOG_BITS) - 24);
        let rest = self.b.ins().band_imm_u(rest, (1 << 24) - 1);
        let step = self.b.ins().isub(high, low);
        let part = self.b.ins().imul(step, rest);
        let part = self.b.ins().ushr_imm_u(part, 24);
        let log = self.b.ins().iadd(low, part);
        let whole = self.b.ins().ishl_imm_u(whole, i64::from(LOG_PLACES));
        let log = self.b.ins().iadd(whole, log);
        let most = self.constant(64 << LOG_PLACES);
        self.b.ins().isub(most, log)
    }

    /// The same with 16 binary places, as the interpreter has it.
    fn exact_minus_log2(&mut self, u: Value) -> Value {
        let (scaled, whole) = self.scaled(u);
        let scaled = self.b.ins().ushr_imm_u(scaled, 32);
        let (left, log, rest) = (
            self.b.declare_var(types::I64),
            self.b.declare_var(types::I64),
            self.b.declare_var(types::I64),
        );
        self.set_known(left, 16);
        self.b.def_var(log, whole);
        self.b.def_var(rest, scaled);
        let (head, done) = (self.b.create_block(), self.b.create_block());
        self.b.ins().jump(head, &[]);
        self.b.switch_to_block(head);
        let scaled = self.b.use_var(rest);
        let square = self.b.ins().imul(scaled, scaled);
        let square = self.b.ins().ushr_imm_u(square, 31);
        let place = self.b.ins().ushr_imm_u(square, 32);
        let before = self.b.use_var(log);
        let before = self.b.ins().ishl_imm_u(before, 1);
        let new = self.b.ins().bor(before, place);
        self.b.def_var(log, new);
        let scaled = self.b.ins().ushr(square, place);
        self.b.def_var(rest, scaled);
        let more = self.b.use_var(left);
        let more = self.b.ins().iadd_imm_s(more, -1);
        self.b.def_var(left, more);
        self.b.ins().brif(more, head, &[], done, &[]);
        self.b.seal_block(head);
        self.enter(done);
        let most = self.constant(64 << 16);
        let log = self.b.use_var(log);
        self.b.ins().isub(most, log)
    }

    /// The finalizer of splitmix64.
    fn mix64(&mut self, x: Value) -> Value {
        let mut x = x;
        for (by, factor) in [(30, 0xbf58_476d_1ce4_e5b9u64), (27, 0x94d0_49bb_1331_11eb), (31, 0)] {
            let high = self.b.ins().ushr_imm_u(x, by);
            x = self.b.ins().bxor(x, high);
            if factor != 0 {
                let factor = self.constant(factor);
                x = self.b.ins().imul(x, factor);
            }
        }
        x
    }

    /// A group's hash.
    fn group_hash(&mut self, inputs: &[Expr]) -> Result<Value, Ended> {
        let mut values: SmallVec<[Val; 24]> = SmallVec::new();
        for e in inputs {
            values.push(self.value(e, Env::default())?);
        }
        match self.crc32c(&values) {
            Ok(hash) => Ok(hash),
            Err(why) => Err(self.bail(&why)),
        }
    }

    /// CRC-32C of values one behind the other, padded with zero bits to whole bytes; or why not.
    pub(crate) fn crc32c(&mut self, values: &[Val]) -> Result<Value, String> {
        let bits: u32 = values.iter().map(|value| value.width).sum();
        let bytes = bits.div_ceil(8) as usize;
        if bytes > HASHED_MAX {
            return Err(format!("a hash of {bits} bits"));
        }
        let tables = self.b.ins().load(types::I64, fixed(), self.context, offset::CONTEXT_CRCS);
        let mut known = crc_of_zeros(bytes);
        let mut sum: Option<Value> = None;
        let mut end = 0;
        // What a byte changes is the XOR of what its bits change: each value stands for itself, also where it shares a byte.
        for value in values.iter().filter(|value| value.width > 0) {
            let first = end / 8;
            end += value.width;
            let last = (end - 1) / 8;
            let (width, by) = (8 * (last - first + 1), 8 * (last + 1) - end);
            let value = value.cast(&mut self.b, width).shl(&mut self.b, by);
            let place = |byte: u32| bytes - 1 - (last - byte) as usize;
            if let Some(bits) = value.as_const() {
                for (byte, value) in (0..).zip(bits.to_be_bytes().iter().rev()) {
                    known ^= crcs()[place(byte)][usize::from(*value)];
                }
                continue;
            }
            let limbs = value.limbs(&mut self.b);
            for byte in 0..width / 8 {
                let limb = limbs[byte as usize / 8];
                // Entries have four bytes.
                let entry = match 8 * (byte % 8) {
                    0 => self.b.ins().ishl_imm_u(limb, 2),
                    low => self.b.ins().ushr_imm_u(limb, i64::from(low) - 2),
                };
                let entry = self.b.ins().band_imm_u(entry, 0x3fc);
                let entry = self.b.ins().iadd(tables, entry);
                let entry = self.b.ins().uload32(fixed(), entry, 1024 * place(byte) as i32);
                sum = Some(match sum {
                    Some(sum) => self.b.ins().bxor(sum, entry),
                    None => entry,
                });
            }
        }
        let known = self.constant(u64::from(known));
        Ok(match sum {
            Some(sum) => self.b.ins().bxor(sum, known),
            None => known,
        })
    }

    /// Runs a bucket's action on a copy, which goes on at `next`. False: no way leads there.
    fn run_bucket(&mut self, here: Value, next: Block) -> bool {
        let plan = self.plan;
        let counter = self.b.ins().uload32(trusted(), here, bucket::COUNTER);
        self.count_one(counter);
        let depth = self.copy.map_or(0, |copy| copy.depth + 1);
        let copy = CopyEnd { rest: next, ends: false, changes: false, depth };
        let outer = self.copy.replace(copy);
        self.groups += 1;
        let origin = std::mem::replace(&mut self.origin, Origin::Bucket);
        let site = self.site.clone();
        let variant = self.b.ins().load(types::I32, trusted(), here, bucket::VARIANT);
        let known: Vec<(u64, ActionId)> = (1..)
            .zip(&plan.unit.buckets)
            .map(|(v, id)| (v, *id))
            .filter(|(_, id)| *id != NO_ACTION)
            .collect();
        for (number, id) in known {
            let (is, not) = (self.b.create_block(), self.b.create_block());
            let equal = self.b.ins().icmp_imm_u(IntCC::Equal, variant, number as i64);
            self.b.ins().brif(equal, is, &[], not, &[]);
            self.enter(is);
            self.bucket_action(id, here);
            self.enter(not);
        }
        self.bail("a bucket's action that is not compiled");
        self.site = site;
        self.origin = origin;
        self.groups -= 1;
        std::mem::replace(&mut self.copy, outer).is_some_and(|copy| copy.ends)
    }

    fn bucket_action(&mut self, id: ActionId, here: Value) {
        let plan = self.plan;
        let Some(action) = plan.unit.program.actions.get(&id) else {
            self.bail("an action that does not exist");
            return;
        };
        self.site = format!("bucket {}", action.name);
        let used = crate::shape::params_used(action);
        let mut args: SmallVec<[Val; 4]> = SmallVec::new();
        let mut at = bucket::ARGS;
        for (i, param) in (0..).zip(&action.params) {
            let base = Base::new(here, trusted());
            args.push(match used.contains(&i) {
                true => load_words(&mut self.b, base, at, param.width),
                false => Val::zero(param.width),
            });
            at += 8 * param.width.div_ceil(64) as i32;
        }
        let changes = self.changes(&action.body);
        if let Some(copy) = &mut self.copy {
            copy.changes = changes;
        }
        self.copy_ops(&action.body, &args);
    }
}
