//! Random programs, entries and packets that hit each other often.
//!
//! `ir::testing` draws from the whole language, so its entries seldom match its packets. Here
//! programs differ in their tables alone (number and kind of keys, odd and wide ones among them),
//! and all values come from small pools: few values, few masks, few priorities. What a packet met is
//! visible at its end: each matched entry changes a mark, which is written into the copies.

use ir::builder::Builder;
use ir::testing::Rng;
use ir::{
    Action, ActionCall, ActionId, Band, BinaryOp, Bits, Bucket, CounterId, Entry, EntryId, Expr,
    FieldRef, Group, GroupId, GroupKind, Key, KeyMatch, MatchKind, MetaId, Meter, MeterId, Op,
    ParserOp, Pattern, Pipeline, Program, PuntReason, Select, SelectCase, Table, TableId,
    Terminator, Transition, Update, ValueSetId,
};
use std::sync::Arc;

/// Widths of the fields of the two headers, in bits.
const WIDTHS: [&[u32]; 2] = [&[8, 16, 32], &[48, 128, 200]];
const PRIORITIES: [i32; 9] = [0, 0, 1, 1, 5, -1, i32::MAX, i32::MAX - 1, i32::MIN];
/// Groups and meters have numbers below this.
const NUMBERS: usize = 4;
/// Entry ids are below this, so that they are used again.
const IDS: usize = 700;
/// The first id of an action that is added while running.
const ADDED: u32 = 1000;

/// The generator.
pub struct Lookups {
    rng: Rng,
}

/// A mark that entries change.
const MARK: u32 = 16;

impl Lookups {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Lookups {
        Lookups { rng: Rng::new(seed) }
    }

    /// The numbers behind it, for choices of the test's own.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// A value: few low bits, few high bits.
    fn value(&mut self, width: u32) -> Bits {
        let low = Bits::from_u128(self.rng.below(4) as u128, width);
        let high = Bits::from_u128(self.rng.below(4) as u128, width).shl(width.saturating_sub(2));
        match self.rng.below(8) {
            0 => Bits::ones(width),
            1..=3 => low,
            4 | 5 => high,
            _ => low.or(&high),
        }
    }

    fn prefix_len(&mut self, width: u32) -> u32 {
        let choices = [0, 1, 2, width / 2, width.saturating_sub(1), width];
        self.rng.pick(&choices).min(width)
    }

    fn mask(&mut self, width: u32) -> Bits {
        match self.rng.below(6) {
            0 => Bits::from_u128(3, width),
            1 => Bits::from_u128(1, width),
            2 => Bits::ones(width),
            3 => Bits::zero(width),
            _ => {
                let len = self.prefix_len(width);
                Bits::prefix_mask(len, width)
            }
        }
    }

    /// A program of one to three tables, applied one after the other.
    pub fn program(&mut self) -> Arc<Program> {
        let mut b = Builder::new();
        let mark = b.meta("mark", MARK);
        let color = b.meta("color", 8);
        let level = b.meta("level", 8);
        let set = b.value_set("long", 8, 4);
        let mut exprs = vec![Expr::meta(mark), Expr::meta(MetaId(0)).slice(1, 0)];
        let mut headers = Vec::new();
        for (i, widths) in WIDTHS.iter().enumerate() {
            let names = ["x", "y", "z"];
            let fields: Vec<_> = names.into_iter().zip(widths.iter().copied()).collect();
            let ty = b.header_type(&format!("h{i}_t"), &fields);
            let header = b.header(&format!("h{i}"), ty);
            b.emit(header);
            exprs.extend(names.map(|n| Expr::header(header, b.field(header, n))));
            exprs.push(Expr::Valid(header));
            headers.push(header);
        }
        exprs.push(Expr::header(headers[0], b.field(headers[0], "z")).slice(31, 27));
        let states = ["start", "more"].map(|name| b.state(name));
        let extract = |i: usize| vec![ParserOp::Extract { header: headers[i], varbit: None }];
        let case = |pattern, next| SelectCase { patterns: vec![pattern], next };
        let long = case(Select::ValueSet(set), Transition::State(states[1]));
        let first = Expr::header(headers[0], b.field(headers[0], "x"));
        let cases = vec![long, case(Select::Any, Transition::Accept)];
        b.set_state(states[0], extract(0), Transition::Select { keys: vec![first], cases });
        b.set_state(states[1], extract(1), Transition::Accept);

        let tables = 1 + self.rng.below(3);
        let blocks: Vec<_> = (0..=tables).map(|i| b.block(&format!("b{i}"))).collect();
        let end = blocks[tables];
        let mark_ref = FieldRef::Meta(mark);
        let mix = |with| {
            let turned = Expr::binary(BinaryOp::Mul, Expr::meta(mark), Expr::int(31, MARK));
            Op::Assign(mark_ref, Expr::binary(BinaryOp::Add, turned, with))
        };
        let param = || Expr::Param(0);
        b.action("set", &[("v", MARK)], vec![mix(param())]);
        b.action("out", &[("port", 32)], vec![Op::Output { port: param() }]);
        b.action("skip", &[("v", MARK)], vec![mix(param()), Op::Goto(end)]);
        let punt = Op::Punt { reason: PuntReason::Action, args: vec![Expr::meta(mark)] };
        b.action("punt", &[], vec![punt]);
        b.action("group", &[("id", 32)], vec![Op::Group { group: param() }]);
        let (color, level_ref) = (FieldRef::Meta(color), FieldRef::Meta(level));
        let meter = Op::Meter { meter: param(), color, level: level_ref };
        b.action("meter", &[("id", 32)], vec![meter, mix(Expr::meta(level).cast(MARK))]);
        for t in 0..tables {
            let kinds = [
                MatchKind::Exact,
                MatchKind::Lpm,
                MatchKind::Ternary,
                MatchKind::Range,
                MatchKind::Optional,
            ];
            let only = self.rng.pick(&kinds);
            let mixed = self.rng.one_in(2);
            let key = |i: usize, rng: &mut Rng| {
                let expr = rng.pick(&exprs);
                let width = expr.width(b.program(), &[]).unwrap_or(1);
                let kind = if mixed { rng.pick(&kinds) } else { only };
                Key { name: format!("k{i}"), expr, kind, width }
            };
            let keys = self.rng.below(5);
            let key: Arc<[Key]> = (0..keys).map(|i| key(i, &mut self.rng)).collect();
            let table = b.table(Table {
                name: format!("t{t}"),
                key,
                actions: None,
                default: ActionCall::with(ActionId(0), [Bits::from_u128(7, MARK)]),
                default_const: false,
                capacity: 400,
                counters: self.rng.one_in(2),
            });
            let end = Terminator::Apply {
                table,
                hit: blocks[t + 1],
                miss: blocks[t + 1],
                by_action: vec![(ActionId(1), blocks[tables])],
            };
            b.set_block(blocks[t], vec![], end);
        }
        // What was met is seen in the bytes and at the port.
        let shown =
            Op::Assign(FieldRef::Header(headers[0], b.field(headers[0], "y")), Expr::meta(mark));
        let out = Op::Output { port: Expr::int(9, 32) };
        b.set_block(end, vec![shown, out], Terminator::Exit);
        Arc::new(b.finish())
    }

    fn call(&mut self, p: &Pipeline) -> ActionCall {
        let added: Vec<ActionId> = p.added_actions().map(|(id, _)| id).collect();
        if !added.is_empty() && self.rng.one_in(4) {
            return ActionCall::new(self.rng.pick(&added));
        }
        let action = self.rng.pick(&[0, 0, 0, 0, 1, 2, 3, 4, 5]);
        let arg = |width, value: usize| [Bits::from_u128(value as u128, width)];
        let id = ActionId(action);
        match action {
            0 | 2 => ActionCall::with(id, arg(MARK, self.rng.below(1 << 16))),
            1 => ActionCall::with(id, arg(32, 1 + self.rng.below(4))),
            3 => ActionCall::new(id),
            _ => ActionCall::with(id, arg(32, self.rng.below(NUMBERS))),
        }
    }

    fn pattern(&mut self, key: &Key) -> Option<Pattern> {
        let value = self.value(key.width);
        let (prefix, masked) = (self.prefix_len(key.width), self.mask(key.width));
        let prefix = || {
            let mask = Bits::prefix_mask(prefix, key.width);
            Some(Pattern::Prefix(value.and(&mask), prefix))
        };
        match (key.kind, self.rng.below(6)) {
            (MatchKind::Exact, _) => Some(Pattern::Exact(value)),
            (_, 0 | 1) => None,
            (_, 2) => Some(Pattern::Exact(value)),
            (MatchKind::Lpm, _) | (MatchKind::Ternary, 3) => prefix(),
            (MatchKind::Ternary, _) => Some(Pattern::Masked(value.and(&masked), masked)),
            (MatchKind::Range, _) => {
                let other = self.value(key.width);
                let up = value.compare(&other).is_le();
                Some(if up { Pattern::Range(value, other) } else { Pattern::Range(other, value) })
            }
            (MatchKind::Optional, _) => Some(Pattern::Exact(value)),
        }
    }

    fn entry(&mut self, p: &Pipeline, table: &Table) -> Entry {
        let matches = (0u16..)
            .zip(table.key.iter())
            .filter_map(|(at, key)| Some(KeyMatch { key: at, pattern: self.pattern(key)? }))
            .collect();
        let free = |id: &u32| {
            let tables = 0..p.program().tables.len() as u32;
            tables.into_iter().all(|t| p.entries(TableId(t)).get(EntryId(*id)).is_none())
        };
        let from = self.rng.below(IDS) as u32;
        let id = (from..).find(free).unwrap_or(from);
        let prefixes = table.key.iter().any(|k| k.kind == MatchKind::Lpm);
        let flat = prefixes && !self.rng.one_in(16);
        Entry {
            id: EntryId(id),
            priority: if flat { 0 } else { self.rng.pick(&PRIORITIES) },
            matches,
            action: self.call(p),
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        }
    }

    /// A random update, which the pipeline may refuse.
    pub fn update(&mut self, p: &Pipeline) -> Update {
        let program = p.program();
        let table = TableId(self.rng.below(program.tables.len()) as u32);
        let entries: Vec<_> = p.entries(table).iter().cloned().collect();
        let number = self.rng.below(NUMBERS) as u32;
        match self.rng.below(200) {
            0..=29 if !entries.is_empty() => Update::Delete(table, self.rng.pick(&entries).id),
            30..=44 if !entries.is_empty() => {
                let old = self.rng.pick(&entries);
                let action = self.call(p);
                Update::Modify(table, Arc::new(Entry { action, ..Entry::clone(&old) }))
            }
            45 => Update::Clear(table),
            46..=50 => Update::SetDefault(table, self.call(p)),
            51..=56 => {
                let body = vec![Op::Output { port: Expr::int(20 + u128::from(number), 32) }];
                let action = Action { name: format!("added{number}"), params: Vec::new(), body };
                Update::AddAction(ActionId(ADDED + number), Arc::new(action))
            }
            57 => Update::RemoveAction(ActionId(ADDED + number)),
            58..=64 => {
                let kinds =
                    [GroupKind::All, GroupKind::Select, GroupKind::FastFailover, GroupKind::Slots];
                let bucket = |i: usize, call: ActionCall| Bucket {
                    weight: i as u16,
                    watch_port: Some(i as u32),
                    watch_group: None,
                    action: call,
                    counter: CounterId(2000 + i as u32),
                };
                let out = |port: usize| {
                    ActionCall::with(ActionId(1), [Bits::from_u128(port as u128, 32)])
                };
                let buckets = (0..self.rng.below(4)).map(|i| bucket(i, out(30 + i))).collect();
                let kind = self.rng.pick(&kinds);
                let group = Group { kind, buckets, hash: [].into(), counter: CounterId(3000) };
                Update::SetGroup(GroupId(number), Arc::new(group))
            }
            65 | 66 => Update::RemoveGroup(GroupId(number)),
            67..=70 => {
                let band = Band { rate: 1, burst: 1, color: 2, level: 3 };
                Update::SetMeter(
                    MeterId(number),
                    Arc::new(Meter { packets: true, bands: vec![band] }),
                )
            }
            71 => Update::RemoveMeter(MeterId(number)),
            72..=76 => {
                let mut member = || match self.rng.below(3) {
                    0 => Select::Any,
                    1 => Select::Range(Bits::zero(8), Bits::from_u128(2, 8)),
                    _ => Select::Masked(self.value(8), Bits::ones(8)),
                };
                let members = (0..number).map(|_| member()).collect();
                Update::SetValueSet(ValueSetId(0), members)
            }
            77 if self.rng.one_in(4) => Update::SetProgram(self.program()),
            _ => {
                let entry = self.entry(p, &program.tables[table.index()]);
                Update::Insert(table, Arc::new(entry))
            }
        }
    }

    /// A packet, seldom cut short.
    pub fn packet(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for width in WIDTHS.into_iter().flatten() {
            bytes.extend(self.value(*width).to_be_bytes());
        }
        bytes.extend([0xaa; 20]);
        if self.rng.one_in(16) {
            bytes.truncate(self.rng.below(bytes.len()));
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_valid_and_most_updates_are_taken() {
        let mut taken = 0;
        for seed in 0..50 {
            let mut random = Lookups::new(seed);
            let mut p = Pipeline::new(random.program()).unwrap();
            for _ in 0..40 {
                let update = random.update(&p);
                taken += usize::from(p.transact(&[update]).is_ok());
            }
        }
        assert!(taken > 1200, "{taken} of 2000");
    }
}
