//! Rewrites one table as several, each of which fits a faster template.
//!
//! After ESWITCH (Molnár et al., 2016), section 3.2 and fig. 6, whose routine takes keys that are
//! exact or absent. A table is split along its column of least diversity: a table over that column
//! alone comes first, and leads for each key to a table of the rules that such packets can still
//! match, without the column. Here keys may also be prefixes, masks and ranges:
//!
//! - The first table is looked up by the most specific key. The table behind a key holds, in rank
//!   order, every rule whose pattern contains the whole key (set pruning), and rules without a demand
//!   on the column go behind every key and behind "nothing matched".
//! - That is right if the column's keys are closed under intersection, as exact keys and prefixes
//!   are. Masks and ranges that overlap in part are closed first, within a bound; a column that
//!   cannot be is not split.
//! - Behind a key, a rule is left out if an earlier one takes all its packets.
//! - Tables with the same rules are one table: the result is a graph without cycles, not a tree.
//!
//! A table is left whole when one column is left, when one hash over several columns serves it
//! ([`Goal::FastTemplate`]), or when the cost model says that splitting does not pay.
//!
//! Invariants: the tree's answer is that of the first row that matches; a node's number is lower than
//! those of the nodes it leads to; no way through it is longer than there are columns.
//! Cost: bounded by [`Limits`], whatever the rules.
//! Checked by: the figures of the paper, below; `tests/model.rs`, row by row on random tables.

mod cell;
mod declined;
mod flows;
mod tree;

pub use cell::Cell;
pub use declined::Declined;
pub use flows::{Column, Flows, Place, Row};
pub use tree::{Node, NodeRow, Plain, Spell, Target, Tree};

use std::rc::Rc;

use hashbrown::{HashMap, HashSet};

use crate::cost::{LookupShape, Model};
use cell::{Meet, below_highest, prefix_len, top};
use declined::COLUMNS_MAX;

/// When a table is simple enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Goal {
    /// When one template serves it and the cost model finds that cheapest.
    #[default]
    FastTemplate,
    /// When it has one column, as the paper's simplified routine has it. For showing and testing.
    OneColumn,
}

/// Bounds of a decomposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Tables that may be made.
    pub tables_max: usize,
    /// Rows that may be made in all, copies included.
    pub rows_max: usize,
    /// Keys that may be added to a column to close it under intersection.
    pub refined_max: usize,
    /// Sub-tables with the same rows are one table; off only to see what that is worth.
    pub share: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { tables_max: 512, rows_max: 16 * 1024, refined_max: 64, share: true }
    }
}

/// Splits a table, or says why not. Parts of it are left whole where splitting them does not pay;
/// whether splitting the whole does is left to the caller, who compares [`Tree::ns`].
pub fn decompose(
    flows: &Flows,
    goal: Goal,
    limits: &Limits,
    model: &Model,
) -> Result<Tree, Declined> {
    decompose_first(flows, None, goal, limits, model)
}

/// As [`decompose`], beginning with a given column, whatever its diversity.
pub fn decompose_first(
    flows: &Flows,
    first: Option<usize>,
    goal: Goal,
    limits: &Limits,
    model: &Model,
) -> Result<Tree, Declined> {
    let columns = flows.columns.len();
    if columns > COLUMNS_MAX {
        return Err(Declined::Columns { columns });
    }
    let canonical = |row: &Row| -> Row {
        let cells = row.cells.iter().zip(&flows.columns);
        Row { cells: cells.map(|(cell, column)| cell.canonical(column.bits)).collect(), ..*row }
    };
    let hollow = |cell: &Cell| matches!(cell, Cell::Range { lo, hi } if lo > hi);
    let rows: Vec<Row> = flows.rows.iter().map(canonical).collect();
    let mut work = Work {
        columns: &flows.columns,
        rows: &rows,
        goal,
        limits,
        model,
        nodes: Vec::new(),
        memo: HashMap::new(),
        log: Vec::new(),
        rows_made: 0,
    };
    let all = (0..rows.len() as u32).filter(|&r| !rows[r as usize].cells.iter().any(hollow));
    let part = work.pruned(all.collect(), u128::MAX);
    if part.live.count_ones() < 2 {
        return Err(Declined::OneColumn);
    }
    if goal == Goal::FastTemplate && first.is_none() && work.is_compound(&part) {
        return Err(Declined::Simple);
    }
    match work.split(&part, first, 1.0)? {
        (Target::Node(root), ns) => Ok(ordered(&work.nodes, root, &flows.columns, ns)),
        _ => Err(Declined::OneColumn),
    }
}

/// Some rows, in rank order, and the columns on which they still depend, one bit each. Rows make no
/// demand on other columns any more, so two parts that are equal match alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Part {
    rows: Vec<u32>,
    live: u128,
}

/// How a part would be split along a column.
struct Split {
    column: usize,
    /// Most specific first, where that matters.
    keys: Vec<Cell>,
    /// Whether all keys have the same mask.
    apart: bool,
    /// Whether of any two keys one holds the other or they have nothing in common.
    laminar: bool,
    /// Whether every packet finds a key.
    covers: bool,
}

struct Work<'a> {
    columns: &'a [Column],
    rows: &'a [Row],
    goal: Goal,
    limits: &'a Limits,
    model: &'a Model,
    /// Children before parents.
    nodes: Vec<Node>,
    memo: HashMap<Rc<Part>, (Target, f64)>,
    /// What `memo` holds, in order of arrival.
    log: Vec<Rc<Part>>,
    rows_made: usize,
}

/// Rows up to which every pair is compared to find rows that never match.
const PAIRS_ROWS_MAX: usize = 128;
/// Pairs of a key and a row that are compared for one split.
const PAIRS_MAX: usize = 1 << 20;
/// Keys up to which a key that leads where a wider one leads is looked for.
const WIDER_KEYS_MAX: usize = 512;

impl Work<'_> {
    fn cell(&self, row: u32, column: usize) -> Cell {
        self.rows[row as usize].cells[column]
    }

    fn cells(&self, row: u32, live: u128) -> impl Iterator<Item = (usize, Cell)> {
        bits_of(live).map(move |c| (c, self.cell(row, c)))
    }

    /// Leaves out rows that earlier ones hide, and columns on which none of the rest depends.
    fn pruned(&self, rows: Vec<u32>, live: u128) -> Part {
        let live = live & top(self.columns.len() as u32);
        let pairs = rows.len() <= PAIRS_ROWS_MAX;
        let mut seen = HashSet::new();
        let mut kept: Vec<u32> = Vec::with_capacity(rows.len());
        let mut demanded = 0;
        for row in rows {
            let hides = |&earlier: &u32| {
                bits_of(live)
                    .all(|c| self.cell(earlier, c).covers(&self.cell(row, c), self.columns[c].bits))
            };
            let hidden = if pairs {
                kept.iter().any(hides)
            } else {
                !seen.insert(self.cells(row, live).map(|(_, cell)| cell).collect::<Box<[Cell]>>())
            };
            if hidden {
                continue;
            }
            kept.push(row);
            let demands = self.cells(row, live).filter(|(_, cell)| *cell != Cell::Any);
            let demands = demands.fold(0, |all, (c, _)| all | 1u128 << c);
            demanded |= demands;
            if demands == 0 {
                break;
            }
        }
        Part { rows: kept, live: demanded }
    }

    /// The row that takes what the others leave, if that is the last one.
    fn catch_all(&self, part: &Part) -> Option<u32> {
        let &last = part.rows.last()?;
        self.cells(last, part.live).all(|(_, cell)| cell == Cell::Any).then_some(last)
    }

    /// Whether one hash serves: all rows but a catch-all have one mask and no ranges.
    fn is_compound(&self, part: &Part) -> bool {
        let shape = self.shape(part);
        shape.masks <= 1 && shape.ranged == 0
    }

    /// What a structure over the whole part looks like, the catch-all left out.
    fn shape(&self, part: &Part) -> LookupShape {
        let mut masks = HashSet::new();
        let mut ranged = 0;
        let entries = part.rows.len() - usize::from(self.catch_all(part).is_some());
        for &row in &part.rows[..entries] {
            let mut has_range = false;
            let mask = self.cells(row, part.live).map(|(_, cell)| match cell {
                Cell::Any => 0,
                Cell::Bits { mask, .. } => mask,
                Cell::Range { lo, hi } => {
                    has_range = true;
                    !below_highest(lo ^ hi)
                }
            });
            masks.insert(mask.collect::<Box<[u128]>>());
            ranged += usize::from(has_range);
        }
        LookupShape {
            entries,
            masks: masks.len(),
            ranged,
            key_bytes: bits_of(part.live).map(|c| self.columns[c].bits.div_ceil(8) as usize).sum(),
            prefix: false,
            convex: false,
        }
    }

    /// The cheaper of the part left whole and the part split. A part that is come to by several ways
    /// has the price of the first.
    fn build(&mut self, part: Part, share: f64) -> Result<(Target, f64), Declined> {
        let Some(&first) = part.rows.first() else { return Ok((Target::Miss, 0.0)) };
        if part.live == 0 {
            let Row { id, action, .. } = self.rows[first as usize];
            return Ok((Target::Entry { id, action }, 0.0));
        }
        let part = Rc::new(part);
        if self.limits.share
            && let Some(&known) = self.memo.get(&part)
        {
            return Ok(known);
        }
        let (nodes, logged) = (self.nodes.len(), self.log.len());
        let split = match self.goal {
            Goal::OneColumn => Some(self.split(&part, None, share)?),
            Goal::FastTemplate if part.live.count_ones() > 1 && self.is_compound(&part) => None,
            Goal::FastTemplate => self.split(&part, None, share).ok(),
        };
        let whole = self.model.node(&self.shape(&part), share).1;
        let one_column = part.live.count_ones() == 1;
        let built = match split {
            Some((target, ns)) if one_column || self.goal == Goal::OneColumn || ns < whole => {
                (target, ns)
            }
            _ => {
                self.nodes.truncate(nodes);
                for dropped in self.log.drain(logged..) {
                    self.memo.remove(&dropped);
                }
                (self.leave_whole(&part)?, whole)
            }
        };
        if self.memo.insert(part.clone(), built).is_none() {
            self.log.push(part);
        }
        Ok(built)
    }

    fn push(&mut self, node: Node) -> Result<Target, Declined> {
        if self.nodes.len() >= self.limits.tables_max {
            return Err(Declined::Tables { max: self.limits.tables_max });
        }
        self.nodes.push(node);
        Ok(Target::Node(self.nodes.len() as u32 - 1))
    }

    fn leave_whole(&mut self, part: &Part) -> Result<Target, Declined> {
        let last = self.catch_all(part);
        let entry = |row: u32| {
            let Row { id, action, .. } = self.rows[row as usize];
            Target::Entry { id, action }
        };
        // Rows of one mask do not overlap, since none hides another.
        let compound = self.is_compound(part);
        let count = part.rows.len() as u32;
        let rows = part.rows.iter().zip(0u32..).filter(|&(&row, _)| Some(row) != last);
        let rows = rows.map(|(&row, at)| NodeRow {
            rank: if compound { 0 } else { count - at },
            cells: self.cells(row, part.live).map(|(_, cell)| cell).collect(),
            target: entry(row),
        });
        let node = Node {
            columns: bits_of(part.live).collect(),
            rows: rows.collect(),
            otherwise: last.map_or(Target::Miss, entry),
        };
        self.push(node)
    }

    /// Splits a part along the given column, or along the one of least diversity: that of which the
    /// rows make the fewest distinct demands, "none" among them; then that which copies fewest rows;
    /// then the first.
    fn split(
        &mut self,
        part: &Part,
        column: Option<usize>,
        share: f64,
    ) -> Result<(Target, f64), Declined> {
        let candidates = bits_of(part.live).filter(|&c| column.is_none_or(|only| only == c));
        let mut ranked: Vec<(usize, usize)> =
            candidates.map(|c| (self.distinct(part, c), c)).collect();
        ranked.sort_unstable();
        let mut best: Option<(usize, usize, Split)> = None;
        for (diversity, c) in ranked {
            if best.as_ref().is_some_and(|&(least, ..)| diversity > least) {
                break;
            }
            if let Some(split) = self.keys(part, c) {
                let copies = self.copies(part, &split);
                if best.as_ref().is_none_or(|&(_, fewest, _)| copies < fewest) {
                    best = Some((diversity, copies, split));
                }
            }
        }
        let (_, copies, split) = best.ok_or(Declined::Overlap)?;
        self.rows_made = self.rows_made.saturating_add(copies);
        if self.rows_made > self.limits.rows_max {
            return Err(Declined::Rows { max: self.limits.rows_max });
        }
        self.split_by(part, split, share)
    }

    fn distinct(&self, part: &Part, column: usize) -> usize {
        part.rows.iter().map(|&row| self.cell(row, column)).collect::<HashSet<Cell>>().len()
    }

    /// Rows in the parts that a split makes, before any is pruned; an upper bound.
    fn copies(&self, part: &Part, split: &Split) -> usize {
        let any = part.rows.iter().filter(|&&r| self.cell(r, split.column) == Cell::Any).count();
        if split.apart {
            return any * split.keys.len() + part.rows.len();
        }
        let bits = self.columns[split.column].bits;
        let held = split.keys.iter().map(|key| {
            part.rows.iter().filter(|&&r| self.cell(r, split.column).covers(key, bits)).count()
        });
        any + held.sum::<usize>()
    }

    /// The keys of a column, closed under intersection; `None` if they cannot be.
    fn keys(&self, part: &Part, column: usize) -> Option<Split> {
        let bits = self.columns[column].bits;
        let mut seen = HashSet::new();
        let mut keys: Vec<Cell> = Vec::new();
        for &row in &part.rows {
            let cell = self.cell(row, column);
            if cell != Cell::Any && seen.insert(cell) {
                keys.push(cell);
            }
        }
        let mask =
            |cell: &Cell| if let Cell::Bits { mask, .. } = *cell { Some(mask) } else { None };
        let first = mask(keys.first()?);
        let apart = first.is_some() && keys.iter().all(|key| mask(key) == first);
        if !apart && keys.len().saturating_mul(part.rows.len()) > PAIRS_MAX {
            return None;
        }
        let nested = apart
            || keys.iter().all(|key| mask(key).is_some_and(|m| prefix_len(m, bits).is_some()));
        let mut laminar = true;
        if !nested {
            // Whatever two keys have in common becomes a key, and is met with the others in turn.
            let bound = keys.len().saturating_add(self.limits.refined_max);
            let mut at = 1;
            while at < keys.len() {
                for earlier in 0..at {
                    match keys[earlier].meet(&keys[at], bits) {
                        Meet::Nothing => {}
                        Meet::Odd => return None,
                        Meet::Cell(common) => {
                            laminar &= common == keys[earlier] || common == keys[at];
                            if seen.insert(common) {
                                keys.push(common);
                            }
                        }
                    }
                }
                if keys.len() > bound || keys.len().saturating_mul(keys.len()) > PAIRS_MAX {
                    return None;
                }
                at += 1;
            }
        }
        if !apart {
            // Most specific first; a stable sort, so that equals stay in order of appearance.
            keys.sort_by_key(|key| key.size_less_one(bits));
        }
        // A key within another is smaller, and comes before it.
        let is_widest =
            |at: usize| apart || !keys[at + 1..].iter().any(|k| k.covers(&keys[at], bits));
        let widest: Vec<&Cell> =
            (0..keys.len()).filter(|&k| is_widest(k)).map(|k| &keys[k]).collect();
        let others = widest.len().saturating_sub(1) as u128;
        let held = widest.iter().try_fold(others, |n, key| n.checked_add(key.size_less_one(bits)));
        let covers = laminar && held == Some(top(bits));
        Some(Split { column, keys, apart, laminar, covers })
    }

    fn split_by(
        &mut self,
        part: &Part,
        split: Split,
        share: f64,
    ) -> Result<(Target, f64), Declined> {
        let Split { column, keys, apart, laminar, covers } = split;
        let bits = self.columns[column].bits;
        let live = part.live & !(1 << column);
        let behind: Vec<Vec<u32>> = if apart {
            let places: HashMap<Cell, usize> = keys.iter().copied().zip(0..).collect();
            let mut behind = vec![Vec::new(); keys.len()];
            for &row in &part.rows {
                match places.get(&self.cell(row, column)) {
                    Some(&at) => behind[at].push(row),
                    None => behind.iter_mut().for_each(|rows: &mut Vec<u32>| rows.push(row)),
                }
            }
            behind
        } else {
            let holds = |key: &Cell| {
                part.rows
                    .iter()
                    .copied()
                    .filter(|&r| self.cell(r, column).covers(key, bits))
                    .collect()
            };
            keys.iter().map(holds).collect()
        };
        let weights = self.weights(part, column, &keys, covers);
        let mut reached = Vec::with_capacity(keys.len());
        for (rows, weight) in behind.into_iter().zip(&weights) {
            let sub = self.pruned(rows, live);
            reached.push(self.build(sub, share * weight)?);
        }
        let otherwise = if covers {
            None
        } else {
            let rows = part.rows.iter().copied().filter(|&r| self.cell(r, column) == Cell::Any);
            let sub = self.pruned(rows.collect(), live);
            Some(self.build(sub, share * weights[keys.len()])?)
        };
        // A key that leads where the next wider one leads is not needed; but one that two keys have in
        // common decides between them.
        let mut needed = vec![true; keys.len()];
        for at in 0..keys.len() {
            let wider = if apart {
                None
            } else if keys.len() > WIDER_KEYS_MAX || !laminar {
                continue;
            } else {
                (at + 1..keys.len()).find(|&wider| keys[wider].covers(&keys[at], bits))
            };
            let fallback = wider.map_or(otherwise, |wider| Some(reached[wider]));
            needed[at] = fallback.is_none_or(|(target, _)| target != reached[at].0);
        }
        let sizes: Vec<u128> = keys.iter().map(|key| key.size_less_one(bits)).collect();
        let mut steps = sizes.clone();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        steps.dedup();
        let rows: Vec<NodeRow> = (0..keys.len())
            .filter(|&at| needed[at])
            .map(|at| NodeRow {
                rank: steps.partition_point(|&size| size > sizes[at]) as u32,
                cells: [keys[at]].into(),
                target: reached[at].0,
            })
            .collect();
        let (otherwise, fallback_ns) = otherwise.unzip();
        if rows.is_empty() {
            return Ok((otherwise.unwrap_or(Target::Miss), fallback_ns.unwrap_or(0.0)));
        }
        let shape = self.key_shape(&rows, bits);
        let behind = reached.iter().map(|&(_, ns)| ns).chain(fallback_ns);
        let behind: f64 = behind.zip(&weights).map(|(ns, weight)| ns * weight).sum();
        let ns = self.model.node(&shape, share).1 + behind;
        let node =
            Node { columns: vec![column], rows, otherwise: otherwise.unwrap_or(Target::Miss) };
        Ok((self.push(node)?, ns))
    }

    /// How likely each key is, and last that none is found, if every row is as likely: a row without
    /// a demand on the column is met by all ways alike.
    fn weights(&self, part: &Part, column: usize, keys: &[Cell], covers: bool) -> Vec<f64> {
        let places: HashMap<Cell, usize> = keys.iter().copied().zip(0..).collect();
        let ways = keys.len() + usize::from(!covers);
        let mut own = vec![0u32; keys.len() + 1];
        let mut any = 0u32;
        for &row in &part.rows {
            match places.get(&self.cell(row, column)) {
                Some(&at) => own[at] += 1,
                None => any += 1,
            }
        }
        let spread = f64::from(any) / ways.max(1) as f64;
        let of = |at: usize| if at < ways { f64::from(own[at]) + spread } else { 0.0 };
        let total = part.rows.len().max(1) as f64;
        (0..=keys.len()).map(|at| of(at) / total).collect()
    }

    /// What a structure over one column's keys looks like.
    fn key_shape(&self, rows: &[NodeRow], bits: u32) -> LookupShape {
        let mut masks = HashSet::new();
        let (mut ranged, mut prefix) = (0, true);
        let convex = bits <= 64 && rows.iter().all(|row| row.cells[0].is_convex(bits));
        for row in rows {
            match row.cells[0] {
                Cell::Any => {}
                Cell::Bits { mask, .. } => {
                    masks.insert(mask);
                    prefix &= prefix_len(mask, bits).is_some();
                }
                Cell::Range { lo, hi } => {
                    masks.insert(!below_highest(lo ^ hi));
                    ranged += 1;
                    prefix = false;
                }
            }
        }
        let key_bytes = bits.div_ceil(8) as usize;
        LookupShape { entries: rows.len(), masks: masks.len(), ranged, key_bytes, prefix, convex }
    }
}

/// The positions of the bits that are set, ascending.
fn bits_of(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (at < 128).then_some(at as usize)
    })
}

/// The nodes that can be reached, each before those it leads to, in the order of its rows.
fn ordered(nodes: &[Node], root: u32, columns: &[Column], ns: f64) -> Tree {
    fn visit(nodes: &[Node], at: u32, place: &mut [Option<u32>], done: &mut Vec<u32>) {
        if place[at as usize].is_some() {
            return;
        }
        place[at as usize] = Some(0);
        let node = &nodes[at as usize];
        let targets = node.rows.iter().map(|row| row.target).chain([node.otherwise]);
        for target in targets.collect::<Vec<_>>().into_iter().rev() {
            if let Target::Node(to) = target {
                visit(nodes, to, place, done);
            }
        }
        done.push(at);
    }
    let mut place = vec![None; nodes.len()];
    let mut done = Vec::new();
    visit(nodes, root, &mut place, &mut done);
    done.reverse();
    for (&at, n) in done.iter().zip(0..) {
        place[at as usize] = Some(n);
    }
    let moved = |target: Target| match target {
        Target::Node(to) => place[to as usize].map_or(Target::Miss, Target::Node),
        other => other,
    };
    let node = |&at: &u32| {
        let mut node = nodes[at as usize].clone();
        node.rows.iter_mut().for_each(|row| row.target = moved(row.target));
        node.otherwise = moved(node.otherwise);
        node
    };
    Tree { columns: columns.to_vec(), nodes: done.iter().map(node).collect(), ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spells tables as the paper does.
    struct Paper<'a>(&'a [&'a str]);

    impl Spell for Paper<'_> {
        fn cell(&self, column: &Column, cell: &Cell) -> String {
            match (column.name.as_str(), *cell) {
                ("in_port", Cell::Bits { value: 1, .. }) => "internal".into(),
                ("in_port", Cell::Bits { value: 2, .. }) => "external".into(),
                ("ip_src" | "ip_dst", Cell::Bits { value, mask }) => {
                    let address = std::net::Ipv4Addr::from(value as u32);
                    match mask.count_ones() {
                        32 => format!("{address}"),
                        len => format!("{address}/{len}"),
                    }
                }
                _ => Plain.cell(column, cell),
            }
        }

        fn entry(&self, id: u32, _: u32) -> String {
            self.0[id as usize].into()
        }
    }

    fn columns(of: &[(&str, u32)]) -> Vec<Column> {
        of.iter().map(|&(name, bits)| Column { name: name.into(), bits }).collect()
    }

    fn rows(of: &[&[Cell]]) -> Vec<Row> {
        let row = |(id, cells): (u32, &&[Cell])| Row { id, action: id, cells: (*cells).into() };
        (0..).zip(of).map(row).collect()
    }

    fn port(n: u128) -> Cell {
        Cell::exact(n, 32)
    }
    fn tcp(n: u128) -> Cell {
        Cell::exact(n, 16)
    }
    fn ip(a: [u8; 4], len: u32) -> Cell {
        Cell::prefix(u32::from_be_bytes(a).into(), len, 32)
    }

    fn split(flows: &Flows, goal: Goal) -> Tree {
        decompose(flows, goal, &Limits::default(), &Model::builtin()).expect("it can be split")
    }

    const ANY: Cell = Cell::Any;

    /// A table with the properties that section 3.2 states of fig. 5a: three keys and the wildcard in
    /// `ip_dst`, two in `tcp_dst`; nine tables if `ip_dst` comes first, four if `tcp_dst` does.
    fn figure_5() -> (Flows, [&'static str; 9]) {
        let a = |n| ip([192, 0, 2, n], 32);
        let x = |n| ip([198, 51, 100, n], 32);
        let columns = columns(&[("ip_src", 32), ("ip_dst", 32), ("tcp_dst", 16)]);
        let rows = rows(&[
            &[ANY, a(1), tcp(80)],
            &[ANY, a(2), tcp(80)],
            &[x(1), ANY, tcp(22)],
            &[x(2), ANY, tcp(22)],
            &[x(3), ANY, tcp(22)],
            &[ANY, ANY, tcp(22)],
            &[ANY, a(3), ANY],
            &[ANY, ANY, ANY],
        ]);
        let does = [
            "output:1", "output:2", "output:3", "output:4", "output:5", "drop", "output:6", "drop",
            "",
        ];
        (Flows { columns, rows }, does)
    }

    #[test]
    fn figure_5_becomes_four_tables_with_tcp_dst_first() {
        let (flows, does) = figure_5();
        let tree = split(&flows, Goal::OneColumn);
        assert_eq!(
            tree.spelt(&Paper(&does)).to_string(),
            "table 0\n  \
               tcp_dst\n  \
               80       -> table 1\n  \
               22       -> table 2\n  \
               *        -> table 3\n\
             table 1\n  \
               ip_dst\n  \
               192.0.2.1  -> output:1\n  \
               192.0.2.2  -> output:2\n  \
               192.0.2.3  -> output:6\n  \
               *          -> drop\n\
             table 2\n  \
               ip_src\n  \
               198.51.100.1  -> output:3\n  \
               198.51.100.2  -> output:4\n  \
               198.51.100.3  -> output:5\n  \
               *             -> drop\n\
             table 3\n  \
               ip_dst\n  \
               192.0.2.3  -> output:6\n  \
               *          -> drop"
        );
        assert_eq!(tree.depth(), 2);
        // The other order is as bad as the paper says, and better with shared tables.
        let by_ip_dst = |share| {
            let limits = Limits { share, ..Limits::default() };
            let model = Model::builtin();
            decompose_first(&flows, Some(1), Goal::OneColumn, &limits, &model).unwrap().nodes.len()
        };
        assert_eq!((by_ip_dst(false), by_ip_dst(true)), (9, 6));
    }

    /// Fig. 7a, with as many web services as asked for.
    fn load_balancer(services: u8) -> (Flows, Vec<String>) {
        let columns = columns(&[("in_port", 32), ("ip_src", 32), ("ip_dst", 32), ("tcp_dst", 16)]);
        let mut all = Vec::new();
        let mut does = Vec::new();
        for n in 1..=services {
            for half in [0, 128] {
                all.push([port(2), ip([half, 0, 0, 0], 1), ip([192, 0, 2, n], 32), tcp(80)]);
                does.push(format!("output:server{}", does.len() + 1));
            }
        }
        all.push([port(2), ANY, ANY, ANY]);
        all.push([port(1), ANY, ANY, ANY]);
        does.extend(["drop".into(), "output:external".into()]);
        let cells: Vec<&[Cell]> = all.iter().map(|cells| &cells[..]).collect();
        (Flows { columns, rows: rows(&cells) }, does)
    }

    #[test]
    fn figure_7a_becomes_7b() {
        let (flows, does) = load_balancer(2);
        let does: Vec<&str> = does.iter().map(String::as_str).collect();
        let tree = split(&flows, Goal::OneColumn);
        assert_eq!(
            tree.spelt(&Paper(&does)).to_string(),
            "table 0\n  \
               in_port\n  \
               external  -> table 1\n  \
               internal  -> output:external\n\
             table 1\n  \
               tcp_dst\n  \
               80       -> table 2\n  \
               *        -> drop\n\
             table 2\n  \
               ip_src\n  \
               0.0.0.0/1    -> table 3\n  \
               128.0.0.0/1  -> table 4\n\
             table 3\n  \
               ip_dst\n  \
               192.0.2.1  -> output:server1\n  \
               192.0.2.2  -> output:server3\n  \
               *          -> drop\n\
             table 4\n  \
               ip_dst\n  \
               192.0.2.1  -> output:server2\n  \
               192.0.2.2  -> output:server4\n  \
               *          -> drop"
        );
        let (flows, _) = load_balancer(100);
        let tree = split(&flows, Goal::OneColumn);
        assert_eq!((tree.nodes.len(), tree.depth(), tree.rows()), (5, 4, 205));
        // One hash over three columns is cheaper than three tables.
        let tree = split(&flows, Goal::FastTemplate);
        assert_eq!((tree.nodes.len(), tree.nodes[1].columns.len()), (2, 3));
    }

    #[test]
    fn figure_1a_becomes_1b() {
        let columns = columns(&[
            ("in_port", 32),
            ("ip_src", 32),
            ("ip_dst", 32),
            ("tcp_src", 16),
            ("tcp_dst", 16),
        ]);
        let rows = rows(&[
            &[port(1), ANY, ANY, ANY, ANY],
            &[port(2), ANY, ip([192, 0, 2, 1], 32), ANY, tcp(80)],
            &[port(2), ANY, ANY, ANY, ANY],
        ]);
        let tree = split(&Flows { columns, rows }, Goal::FastTemplate);
        assert_eq!(
            tree.spelt(&Paper(&["output:external", "output:internal", "drop"])).to_string(),
            "table 0\n  \
               in_port\n  \
               internal  -> output:external\n  \
               external  -> table 1\n\
             table 1\n  \
               ip_dst    tcp_dst\n  \
               192.0.2.1 80       -> output:internal\n  \
               *         *        -> drop"
        );
    }

    #[test]
    fn what_cannot_be_split_says_why() {
        let two = columns(&[("a", 8), ("b", 8)]);
        let declined = |rows: Vec<Row>, limits: &Limits| {
            let flows = Flows { columns: two.clone(), rows };
            decompose(&flows, Goal::FastTemplate, limits, &Model::builtin())
                .unwrap_err()
                .to_string()
        };
        let of = |value, mask| Cell::Bits { value, mask };
        let limits = Limits::default();
        assert_eq!(declined(vec![], &limits), "one column");
        assert_eq!(declined(rows(&[&[of(1, 255), ANY], &[ANY, ANY]]), &limits), "one column");
        assert_eq!(
            declined(
                rows(&[&[of(1, 255), of(2, 3)], &[of(2, 255), of(2, 3)], &[ANY, ANY]]),
                &limits
            ),
            "one mask serves all entries"
        );
        let odd = [of(1, 0x55), Cell::Range { lo: 3, hi: 77 }];
        assert_eq!(
            declined(rows(&[&[odd[0], odd[0]], &[odd[1], odd[1]]]), &limits),
            "patterns overlap in part in every column"
        );
        let wide: Vec<[Cell; 2]> =
            (0..40).flat_map(|n| [[Cell::exact(n, 8), ANY], [ANY, Cell::exact(n, 8)]]).collect();
        let wide: Vec<&[Cell]> = wide.iter().map(|cells| &cells[..]).collect();
        let few = Limits { rows_max: 1000, ..limits };
        assert_eq!(declined(rows(&wide), &few), "more than 1000 rows in its tables");
        let few = Limits { tables_max: 10, ..limits };
        assert_eq!(declined(rows(&wide), &few), "more than 10 tables");
        let flows = Flows { columns: columns(&[("c", 1); 129]), rows: vec![] };
        let refused = decompose(&flows, Goal::OneColumn, &limits, &Model::builtin()).unwrap_err();
        assert_eq!(refused.to_string(), "129 columns, 128 at most");
    }

    #[test]
    fn patterns_are_compared_as_sets() {
        // All patterns of three bits, as sets of their values.
        let mut cells = vec![ANY];
        for mask in 1..8 {
            cells.extend((0..8).map(|value| Cell::Bits { value, mask }));
        }
        for lo in 0..8 {
            cells.extend((lo..8).map(|hi| Cell::Range { lo, hi }));
        }
        let set = |cell: &Cell| (0..8u128).fold(0u8, |s, v| s | u8::from(cell.contains(v)) << v);
        for cell in &cells {
            let a = cell.canonical(3);
            assert_eq!(set(cell), set(&a));
            assert_eq!(a.size_less_one(3) + 1, u128::from(set(&a).count_ones()), "{a:?}");
            for other in &cells {
                let b = other.canonical(3);
                assert_eq!(a.covers(&b, 3), set(&b) & !set(&a) == 0, "{a:?} {b:?}");
                match a.meet(&b, 3) {
                    Meet::Nothing => assert_eq!(set(&a) & set(&b), 0),
                    Meet::Cell(c) => assert_eq!(set(&a) & set(&b), set(&c), "{a:?} {b:?} {c:?}"),
                    Meet::Odd => assert!(!(a.is_convex(3) && b.is_convex(3))),
                }
            }
        }
        assert_eq!(Cell::prefix(u128::MAX, 128, 128), Cell::exact(u128::MAX, 128));
        assert_eq!(Cell::Range { lo: 0, hi: u128::MAX }.canonical(128), ANY);
    }
}
