//! A small program of two tables, whose entries say where each station's frames go.
//!
//! Table `first` looks at the destination address and sets a mark; table `second` looks at it too,
//! and what its action does may depend on the mark. So a test can change both in one transaction and
//! see whether a packet ever meets the one's old and the other's new entry.
//!
//! | action | does |
//! |---|---|
//! | `pass` | nothing |
//! | `mark(m)` | sets the mark |
//! | `out(port)` | sends |
//! | `punt` | sends a copy to the control side |
//! | `drop` | drops as `action_drop` |
//! | `same(m, port)` | sends if the mark is `m`, else drops as `checksum_bad` (nothing else does) |
//! | `tag(vid, port)` | inserts an 802.1Q tag, then sends |
//! | `meter(id, port)` | asks a meter; red is dropped as `meter_drop`, else sends |

use ir::builder::Builder;
use ir::{
    ActionCall, ActionId, Bits, DropReason, Entry, EntryId, Expr, FieldRef, Key, KeyMatch,
    MatchKind, Op, ParserOp, Pattern, Program, PuntReason, Table, TableId, Terminator, Transition,
    Update,
};
use std::sync::Arc;

/// The first table.
pub const FIRST: TableId = TableId(0);
/// The second table.
pub const SECOND: TableId = TableId(1);

/// Actions, in the order of their ids.
const ACTIONS: [&str; 9] = ["pass", "mark", "out", "punt", "drop", "same", "tag", "meter", "bare"];

fn bits(value: u64, width: u32) -> Bits {
    Bits::from_u128(value.into(), width)
}

/// The program. Both defaults are `drop` and `pass`: what nothing matches is dropped as
/// `no_output` or `table_miss`.
pub fn program() -> Arc<Program> {
    let mut b = Builder::new();
    let tag_type = b.header_type("tag_t", &[("tpid", 16), ("tci", 16)]);
    let addresses_type = b.header_type("addresses_t", &[("dst", 48), ("src", 48)]);
    let eth = b.header("eth", addresses_type);
    let tag = b.header("tag", tag_type);
    let mark = b.meta("mark", 16);
    let color = b.meta("color", 8);
    let level = b.meta("level", 8);
    let start = b.state("start");
    b.set_state(start, vec![ParserOp::Extract { header: eth, varbit: None }], Transition::Accept);
    b.emit(eth);
    b.emit(tag);
    let out = |param| Op::Output { port: Expr::Param(param) };
    let mark_ref = FieldRef::Meta(mark);
    let is_marked = Expr::meta(mark).eq(Expr::Param(0));
    let is_red = Expr::meta(color).eq(Expr::int(2, 8));
    let either = |condition, then, or_else| vec![Op::If { condition, then, or_else }];
    let bad = vec![Op::Drop(DropReason::ChecksumBad)];
    let red = vec![Op::Drop(DropReason::Meter)];
    let tag_field = |b: &Builder, name| FieldRef::Header(tag, b.field(tag, name));
    let (tpid, tci) = (tag_field(&b, "tpid"), tag_field(&b, "tci"));
    b.action("pass", &[], vec![]);
    b.action("mark", &[("m", 16)], vec![Op::Assign(mark_ref, Expr::Param(0))]);
    b.action("out", &[("port", 32)], vec![out(0)]);
    b.action("punt", &[], vec![Op::Punt { reason: PuntReason::Action, args: vec![] }]);
    b.action("drop", &[], vec![Op::Drop(DropReason::Action)]);
    b.action("same", &[("m", 16), ("port", 32)], either(is_marked, vec![out(1)], bad));
    let insert = vec![
        Op::SetValid(tag),
        Op::Assign(tpid, Expr::int(0x8100, 16)),
        Op::Assign(tci, Expr::Param(0)),
        out(1),
    ];
    b.action("tag", &[("vid", 16), ("port", 32)], insert);
    let (color, level) = (FieldRef::Meta(color), FieldRef::Meta(level));
    let mut metered = vec![Op::Meter { meter: Expr::Param(0), color, level }];
    metered.extend(either(is_red, red, vec![out(1)]));
    b.action("meter", &[("id", 32), ("port", 32)], metered);
    b.action("bare", &[("port", 32)], vec![Op::SetInvalid(eth), out(0)]);
    let key: Arc<[Key]> = Arc::new([Key {
        name: "dst".to_string(),
        expr: Expr::header(eth, b.field(eth, "dst")),
        kind: MatchKind::Ternary,
        width: 48,
    }]);
    let table = |name: &str| Table {
        name: name.to_string(),
        key: key.clone(),
        actions: None,
        default: ActionCall::new(ActionId(0)),
        default_const: false,
        capacity: 1 << 20,
        counters: true,
    };
    let tables = ["first", "second"].map(|name| b.table(table(name)));
    let blocks = ["one", "two", "end"].map(|name| b.block(name));
    for (table, i) in tables.into_iter().zip(0..) {
        let next = blocks[i + 1];
        let by_action = Vec::new();
        b.set_block(
            blocks[i],
            vec![],
            Terminator::Apply { table, hit: next, miss: next, by_action },
        );
    }
    Arc::new(b.finish())
}

/// A call of the action with this name.
///
/// # Panics
/// If there is none.
pub fn call(action: &str, args: &[u32]) -> ActionCall {
    let at = ACTIONS.iter().position(|name| *name == action).expect("one of the program's actions");
    let widths: &[u32] = match action {
        "mark" => &[16],
        "out" | "bare" => &[32],
        "same" | "tag" => &[16, 32],
        "meter" => &[32, 32],
        _ => &[],
    };
    assert_eq!(args.len(), widths.len(), "arguments of {action}");
    let args = args.iter().zip(widths).map(|(value, width)| bits(u64::from(*value), *width));
    ActionCall::with(ActionId(at as u32), args)
}

/// The address of a station, as its frames carry it.
pub fn mac(station: u32) -> [u8; 6] {
    let [a, b, c, d] = station.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// An entry for a station's address; its id is `id`, its priority 1.
pub fn entry(id: u32, station: u32, action: ActionCall) -> Entry {
    let mut address = [0; 8];
    address[2..].copy_from_slice(&mac(station));
    let pattern = Pattern::Exact(bits(u64::from_be_bytes(address), 48));
    Entry {
        id: EntryId(id),
        priority: 1,
        matches: [KeyMatch { key: 0, pattern }].into_iter().collect(),
        action,
        cookie: 0,
        idle_timeout_ns: 0,
        hard_timeout_ns: 0,
    }
}

/// Inserts [`entry`] into a table.
pub fn insert(table: TableId, id: u32, station: u32, action: ActionCall) -> Update {
    Update::Insert(table, Arc::new(entry(id, station, action)))
}

/// Replaces the action of an entry that [`insert`] made.
pub fn modify(table: TableId, id: u32, station: u32, action: ActionCall) -> Update {
    Update::Modify(table, Arc::new(entry(id, station, action)))
}

/// A frame to a station, 64 bytes, with a number in its payload.
pub fn frame(station: u32, number: u32) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[..6].copy_from_slice(&mac(station));
    frame[6..12].copy_from_slice(&[2, 1, 0, 0, 0, 0]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_obeys_the_verifier() {
        let program = program();
        for (action, name) in program.actions.iter().zip(ACTIONS) {
            assert_eq!(action.name, name);
        }
        let mut pipeline = ir::Pipeline::new(program).unwrap();
        let updates = [
            insert(FIRST, 1, 7, call("mark", &[3])),
            insert(SECOND, 2, 7, call("same", &[3, 1])),
            modify(SECOND, 2, 7, call("tag", &[3, 1])),
            insert(SECOND, 3, 8, call("meter", &[3, 1])),
        ];
        pipeline.transact(&updates).unwrap();
        assert_eq!(frame(7, 9)[..6], mac(7));
    }
}
