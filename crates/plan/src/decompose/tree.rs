//! What a table is decomposed into: tables, and which goes to which.

use super::cell::{Cell, prefix_len};
use super::flows::{COLUMN_BYTES_MAX, Column, Place};
use classify::{Range, decomposed as packed};
use std::fmt;

/// Where a lookup goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Nowhere: no row matches, or no packet comes here.
    Miss,
    /// To this entry.
    Entry {
        /// Its id.
        id: u32,
        /// Its action.
        action: u32,
    },
    /// To this table.
    Node(u32),
}

/// A row of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// The higher wins; rows of the same rank do not overlap.
    pub rank: u32,
    /// One pattern per column of the node.
    pub cells: Box<[Cell]>,
    /// What follows.
    pub target: Target,
}

/// A table of a decomposition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Positions of its columns in the whole table, ascending.
    pub columns: Vec<usize>,
    /// Its rows. None matches everything.
    pub rows: Vec<NodeRow>,
    /// What follows where none matches.
    pub otherwise: Target,
}

/// A decomposed table.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// The columns of the whole table.
    pub columns: Vec<Column>,
    /// Its tables; the first is where lookups begin, and each leads to later ones only.
    pub nodes: Vec<Node>,
    /// What a lookup costs if every entry is as likely as the others, in nanoseconds.
    pub ns: f64,
}

/// Spells patterns and entries in reports.
pub trait Spell {
    /// A pattern.
    fn cell(&self, column: &Column, cell: &Cell) -> String;
    /// What an entry does.
    fn entry(&self, id: u32, action: u32) -> String;
}

/// Numbers, for those who know no better.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Spell for Plain {
    fn cell(&self, column: &Column, cell: &Cell) -> String {
        let number = |n: u128| if column.bits <= 16 { format!("{n}") } else { format!("{n:#x}") };
        match *cell {
            Cell::Any => "*".into(),
            Cell::Bits { value, mask } => match prefix_len(mask, column.bits) {
                Some(len) if len == column.bits => number(value),
                Some(len) => format!("{}/{len}", number(value)),
                None => format!("{}/{mask:#x}", number(value)),
            },
            Cell::Range { lo, hi } => format!("{}..{}", number(lo), number(hi)),
        }
    }

    fn entry(&self, id: u32, action: u32) -> String {
        format!("entry {id} action {action}")
    }
}

impl Tree {
    /// The id of the entry that a key finds; the plainest walk, for tests and reports.
    pub fn lookup(&self, key: &[u128]) -> Option<u32> {
        let mut target = Target::Node(0);
        loop {
            let node = match target {
                Target::Miss => return None,
                Target::Entry { id, .. } => return Some(id),
                Target::Node(n) => &self.nodes[n as usize],
            };
            let hit = |row: &&NodeRow| {
                node.columns.iter().zip(&row.cells).all(|(&c, cell)| cell.contains(key[c]))
            };
            let best = node.rows.iter().filter(hit).max_by_key(|row| row.rank);
            target = best.map_or(node.otherwise, |row| row.target);
        }
    }

    /// The form in which [`Decomposed`](classify::decomposed::Decomposed) takes it.
    pub fn packed(&self, places: &[Place]) -> packed::Tree {
        let target = |target: Target| match target {
            Target::Miss => packed::Target::Miss,
            Target::Entry { id, .. } => packed::Target::Rule(id),
            Target::Node(n) => packed::Target::Node(n),
        };
        let nodes = self.nodes.iter().map(|node| {
            let fields: Box<[Place]> = node.columns.iter().map(|&c| places[c]).collect();
            let rows = node.rows.iter().map(|row| {
                let (mut value, mut mask) = (Vec::new(), Vec::new());
                let mut ranges = Vec::new();
                for (cell, place) in row.cells.iter().zip(&fields) {
                    let (v, m) = match *cell {
                        Cell::Any => (0, 0),
                        Cell::Bits { value, mask } => (value, mask),
                        Cell::Range { lo, hi } => {
                            let (offset, len) = (value.len() as u32, place.len as u8);
                            ranges.push(Range { offset, len, lo, hi });
                            (0, 0)
                        }
                    };
                    value.extend_from_slice(&v.to_be_bytes()[COLUMN_BYTES_MAX - place.len..]);
                    mask.extend_from_slice(&m.to_be_bytes()[COLUMN_BYTES_MAX - place.len..]);
                }
                packed::TreeRow {
                    rank: row.rank,
                    value: value.into(),
                    mask: mask.into(),
                    ranges: ranges.into(),
                    target: target(row.target),
                }
            });
            packed::TreeNode {
                rows: rows.collect(),
                otherwise: target(node.otherwise),
                fields: fields.clone(),
            }
        });
        packed::Tree { nodes: nodes.collect() }
    }

    /// Rows in all tables.
    pub fn rows(&self) -> usize {
        self.nodes.iter().map(|node| node.rows.len()).sum()
    }

    /// Tables on the longest way through.
    pub fn depth(&self) -> usize {
        let mut below = vec![1usize; self.nodes.len()];
        for (n, node) in self.nodes.iter().enumerate().rev() {
            let targets = node.rows.iter().map(|row| row.target).chain([node.otherwise]);
            let deepest =
                targets.map(|t| if let Target::Node(to) = t { below[to as usize] } else { 0 });
            below[n] = 1 + deepest.max().unwrap_or(0);
        }
        below.first().copied().unwrap_or(0)
    }

    /// Tables on a way through it, if every row of a table is as likely as the others.
    pub fn mean_depth(&self) -> f64 {
        let mut below = vec![1.0f64; self.nodes.len()];
        for (n, node) in self.nodes.iter().enumerate().rev() {
            let otherwise = (node.otherwise != Target::Miss).then_some(node.otherwise);
            let targets = node.rows.iter().map(|row| row.target).chain(otherwise);
            let each =
                targets.map(|t| if let Target::Node(to) = t { below[to as usize] } else { 0.0 });
            let (sum, count) = each.fold((0.0, 0u32), |(sum, count), of| (sum + of, count + 1));
            below[n] = 1.0 + sum / f64::from(count.max(1));
        }
        below.first().copied().unwrap_or(0.0)
    }

    /// The tables, row by row, with patterns and entries spelt by `spell`.
    pub fn spelt<'a>(&'a self, spell: &'a dyn Spell) -> impl fmt::Display + 'a {
        Spelt { tree: self, spell }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spelt(&Plain).fmt(f)
    }
}

pub(super) struct Spelt<'a> {
    pub(super) tree: &'a Tree,
    pub(super) spell: &'a dyn Spell,
}

impl fmt::Display for Spelt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, node) in self.tree.nodes.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            let columns: Vec<&Column> =
                node.columns.iter().map(|&c| &self.tree.columns[c]).collect();
            let target = |t: Target| match t {
                Target::Miss => "miss".to_string(),
                Target::Entry { id, action } => self.spell.entry(id, action),
                Target::Node(to) => format!("table {to}"),
            };
            let mut lines: Vec<(Vec<String>, String)> = Vec::new();
            lines.push((columns.iter().map(|c| c.name.clone()).collect(), String::new()));
            for row in &node.rows {
                let cells =
                    columns.iter().zip(&row.cells).map(|(c, cell)| self.spell.cell(c, cell));
                lines.push((cells.collect(), target(row.target)));
            }
            if node.otherwise != Target::Miss {
                lines.push((vec!["*".into(); columns.len()], target(node.otherwise)));
            }
            let width =
                |at: usize| lines.iter().map(|(cells, _)| cells[at].len()).max().unwrap_or(0);
            let widths: Vec<usize> = (0..columns.len()).map(width).collect();
            write!(f, "table {n}")?;
            for (cells, target) in &lines {
                let mut line = String::from("\n ");
                for (cell, &width) in cells.iter().zip(&widths) {
                    line.push_str(&format!(" {cell:<width$}"));
                }
                if !target.is_empty() {
                    line.push_str(&format!("  -> {target}"));
                }
                f.write_str(line.trim_end_matches(' '))?;
            }
        }
        Ok(())
    }
}
