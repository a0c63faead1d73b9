//! A decision tree that reads of a key only what it asks for.
//!
//! For whoever looks keys up one at a time and has their fields elsewhere: in a table of forty match fields most entries
//! name two or three, and most packets are decided by as many. Example: an OVN table of 30 entries. The root looks at
//! `metadata` (which logical switch) and leads to a leaf of five entries, which differ in `reg15` and `ct_state`. The other
//! fields of the key are never read.
//!
//! An inner node reads up to eight octets of a field under a mask, and has a child for each value that entries name. An
//! entry that does not name them is in every child. A leaf lists entries, the best first, each with the comparisons that are
//! left.
//!
//! The tree follows updates in place. A leaf that grows is divided ([`split`]). A table that it does not divide is
//! declined: long leaves ([`LEAF_MAX`]), or entries that are in too many children ([`COPIES_MAX`]). Other structures serve
//! that better.
//!
//! Invariants: answers are those of [`Linear`](crate::linear::Linear). A lookup reads a field once at most, allocates
//! nothing, and ends after [`DEPTH_MAX`] nodes and a leaf.
//! Cost: insert and removal, the nodes on the way and a leaf, times the children that the entry is in.
//! Checked by: the tests below, random operations beside `linear`.

mod candidate;
mod read;
mod split;
#[cfg(test)]
mod tests;

use crate::hit::Hit;
use crate::rule::{Layout, Rule};
use candidate::Candidate;
use hashbrown::HashMap;
pub use read::Fields;
use read::{Pieces, Read};

/// Entries that a leaf has at most.
pub const LEAF_MAX: usize = 32;
/// Places that entries and nodes take, at most, for each entry; and some for a small tree.
pub const COPIES_MAX: usize = 6;
const COPIES_FREE: usize = 256;
/// Inner nodes on the way to a leaf, at most.
pub const DEPTH_MAX: usize = 16;
/// A leaf of more entries is divided, if that parts them.
const LEAF_SPLIT: usize = 4;
/// An inner node of more children finds them by a hash.
const LISTED_MAX: usize = 12;

/// The tree has no use for an entry, and is of no use from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Useless;

/// The tree.
#[derive(Clone, Debug)]
pub struct DecisionTree {
    pieces: Pieces,
    nodes: Vec<Node>,
    free: Vec<u32>,
    rules: usize,
    /// Entries in leaves: one that is in several counts as often.
    listed: usize,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Leaf),
    Inner(Box<Inner>),
}

#[derive(Clone, Debug, Default)]
struct Leaf {
    /// The best first.
    list: Vec<Candidate>,
    /// So many entries were not to be divided.
    whole: usize,
}

/// An inner node.
#[derive(Clone, Debug)]
struct Inner {
    piece: u8,
    mask: u64,
    /// Values under the mask, each with its child, while there are few.
    values: Vec<u64>,
    children: Vec<u32>,
    /// All of them, once there are many.
    hashed: Option<HashMap<u64, u32>>,
    /// Where every other value leads.
    other: u32,
}

impl Inner {
    #[inline]
    fn child(&self, value: u64) -> Option<u32> {
        match &self.hashed {
            None => self.values.iter().position(|v| *v == value).map(|at| self.children[at]),
            Some(hashed) => hashed.get(&value).copied(),
        }
    }

    fn add(&mut self, value: u64, child: u32) {
        self.values.push(value);
        self.children.push(child);
        if let Some(hashed) = &mut self.hashed {
            hashed.insert(value, child);
        } else if self.values.len() > LISTED_MAX {
            let pairs = self.values.iter().copied().zip(self.children.iter().copied());
            self.hashed = Some(pairs.collect());
        }
    }

    fn remove(&mut self, value: u64) {
        let at = match &mut self.hashed {
            None => self.values.iter().position(|v| *v == value),
            Some(hashed) => {
                let child = hashed.remove(&value);
                child.and_then(|child| self.children.iter().position(|c| *c == child))
            }
        };
        if let Some(at) = at {
            self.values.swap_remove(at);
            self.children.swap_remove(at);
        }
    }
}

const ROOT: u32 = 0;

impl DecisionTree {
    /// An empty tree over keys of this layout; none if a key is too long for it.
    pub fn new(layout: &Layout) -> Option<DecisionTree> {
        let pieces = Pieces::of(layout)?;
        let nodes = vec![Node::Leaf(Leaf::default())];
        Some(DecisionTree { pieces, nodes, free: Vec::new(), rules: 0, listed: 0 })
    }

    /// A tree of these rules, if it is of use for them.
    pub fn of<'r>(
        layout: &Layout,
        rules: impl IntoIterator<Item = &'r Rule>,
    ) -> Option<DecisionTree> {
        let mut tree = DecisionTree::new(layout)?;
        rules.into_iter().try_for_each(|rule| tree.insert(rule)).ok()?;
        Some(tree)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.rules
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// Bytes, about.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.listed * size_of::<Candidate>()
            + self.nodes.iter().map(Node::own_bytes).sum::<usize>()
    }

    /// Adds a rule of an id that is not there.
    ///
    /// # Errors
    /// [`Useless`]: the tree is to be thrown away.
    pub fn insert(&mut self, rule: &Rule) -> Result<(), Useless> {
        let candidate = Candidate::of(&self.pieces, rule).ok_or(Useless)?;
        self.rules += 1;
        self.put(ROOT, 0, candidate)?;
        let places = self.listed + self.nodes.len();
        match places > COPIES_MAX * self.rules + COPIES_FREE {
            true => Err(Useless),
            false => Ok(()),
        }
    }

    /// Takes a rule out that was put in as it is.
    pub fn remove(&mut self, rule: &Rule) {
        if let Some(candidate) = Candidate::of(&self.pieces, rule) {
            self.rules = self.rules.saturating_sub(1);
            self.take(ROOT, candidate);
        }
    }

    /// Gives a rule that is there another action.
    pub fn set_action(&mut self, rule: &Rule, action: u32) {
        let Some(candidate) = Candidate::of(&self.pieces, rule) else { return };
        let mut to_visit = vec![(ROOT, candidate)];
        while let Some((at, candidate)) = to_visit.pop() {
            match &mut self.nodes[at as usize] {
                Node::Leaf(leaf) => {
                    let own = leaf.list.iter_mut().filter(|c| c.id == candidate.id);
                    own.for_each(|c| c.action = action);
                }
                Node::Inner(inner) => match candidate.under(inner.piece, inner.mask) {
                    Some(value) => {
                        let rest = candidate.without(inner.piece, inner.mask);
                        to_visit.extend(inner.child(value).map(|child| (child, rest)));
                    }
                    None => {
                        let all = inner.children.iter().chain([&inner.other]);
                        to_visit.extend(all.map(|child| (*child, candidate.clone())));
                    }
                },
            }
        }
    }

    /// The best rule that matches.
    #[inline]
    pub fn find(&self, key: &mut dyn Fields) -> Hit {
        let mut read = Read::new(&self.pieces, key);
        let mut at = ROOT;
        loop {
            match &self.nodes[at as usize] {
                Node::Inner(inner) => {
                    let value = read.piece(inner.piece) & inner.mask;
                    at = inner.child(value).unwrap_or(inner.other);
                }
                Node::Leaf(leaf) => {
                    let best = leaf.list.iter().find(|candidate| candidate.matches(&mut read));
                    return best.map_or(Hit::MISS, |c| Hit { entry: c.id, action: c.action });
                }
            }
        }
    }

    fn put(&mut self, at: u32, depth: usize, candidate: Candidate) -> Result<(), Useless> {
        match &mut self.nodes[at as usize] {
            Node::Leaf(leaf) => {
                let place = leaf.list.partition_point(|c| c.precedes(&candidate));
                leaf.list.insert(place, candidate);
                self.listed += 1;
                self.divide(at, depth)
            }
            Node::Inner(inner) => {
                let (piece, mask, other) = (inner.piece, inner.mask, inner.other);
                let Some(value) = candidate.under(piece, mask) else {
                    for child in [&inner.children[..], &[other]].concat() {
                        self.put(child, depth + 1, candidate.clone())?;
                    }
                    return Ok(());
                };
                let child = match inner.child(value) {
                    Some(child) => child,
                    None => {
                        let child = self.copy(other);
                        if let Node::Inner(inner) = &mut self.nodes[at as usize] {
                            inner.add(value, child);
                        }
                        child
                    }
                };
                self.put(child, depth + 1, candidate.without(piece, mask))
            }
        }
    }

    fn take(&mut self, at: u32, candidate: Candidate) {
        match &mut self.nodes[at as usize] {
            Node::Leaf(leaf) => {
                let before = leaf.list.len();
                leaf.list.retain(|c| c.id != candidate.id);
                self.listed -= before - leaf.list.len();
            }
            Node::Inner(inner) => {
                let (piece, mask, other) = (inner.piece, inner.mask, inner.other);
                let Some(value) = candidate.under(piece, mask) else {
                    for child in [&inner.children[..], &[other]].concat() {
                        self.take(child, candidate.clone());
                    }
                    return;
                };
                let Some(child) = inner.child(value) else { return };
                self.take(child, candidate.without(piece, mask));
                // What all children have is left: the value is one of many again.
                if let (Node::Leaf(own), Node::Leaf(all)) =
                    (&self.nodes[child as usize], &self.nodes[other as usize])
                    && own.list.len() == all.list.len()
                {
                    self.listed -= own.list.len();
                    self.nodes[child as usize] = Node::Leaf(Leaf::default());
                    self.free.push(child);
                    if let Node::Inner(inner) = &mut self.nodes[at as usize] {
                        inner.remove(value);
                    }
                }
            }
        }
    }

    /// A place for a node.
    fn place(&mut self, node: Node) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// A copy of what is at and below a node.
    fn copy(&mut self, at: u32) -> u32 {
        let node = match self.nodes[at as usize].clone() {
            Node::Leaf(leaf) => {
                self.listed += leaf.list.len();
                Node::Leaf(leaf)
            }
            Node::Inner(mut inner) => {
                let children: Vec<u32> = inner.children.iter().map(|c| self.copy(*c)).collect();
                if let Some(hashed) = &mut inner.hashed {
                    *hashed = inner.values.iter().copied().zip(children.iter().copied()).collect();
                }
                inner.children = children;
                inner.other = self.copy(inner.other);
                Node::Inner(inner)
            }
        };
        self.place(node)
    }
}

impl Node {
    fn own_bytes(&self) -> usize {
        match self {
            Node::Leaf(_) => 0,
            Node::Inner(inner) => size_of::<Inner>() + inner.values.capacity() * 24,
        }
    }
}
