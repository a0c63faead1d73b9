//! Which piece, under which mask, parts the entries of a leaf best.

use super::candidate::Candidate;
use super::{DEPTH_MAX, DecisionTree, Inner, LEAF_MAX, LEAF_SPLIT, Leaf, Node, Useless};
use hashbrown::HashMap;

/// The longest leaf that comes of it is no longer than this share of the one that is divided.
const PARTED: (usize, usize) = (3, 4);

/// The best way, if one parts them well: piece and mask.
fn best(list: &[Candidate]) -> Option<(u8, u64)> {
    let mut ways: Vec<(u8, u64)> = Vec::new();
    for check in list.iter().flat_map(|candidate| &candidate.checks) {
        if !ways.contains(&(check.piece, check.mask)) {
            ways.push((check.piece, check.mask));
        }
    }
    let mut groups: HashMap<u64, usize> = HashMap::new();
    let judged = ways.into_iter().filter_map(|(piece, mask)| {
        groups.clear();
        let named = list.iter().filter_map(|c| c.under(piece, mask));
        named.for_each(|value| *groups.entry(value).or_default() += 1);
        let in_all = list.len() - groups.values().sum::<usize>();
        let longest = in_all + groups.values().max()?;
        // Entries that have to be looked at, over all children and the rest.
        let total = list.len() + in_all * groups.len();
        let parts = longest * PARTED.1 <= list.len() * PARTED.0 && total <= 3 * list.len();
        parts.then_some((longest, total, piece, mask))
    });
    judged.min().map(|(.., piece, mask)| (piece, mask))
}

impl DecisionTree {
    /// Divides a leaf that has grown long, if it can be.
    pub(super) fn divide(&mut self, at: u32, depth: usize) -> Result<(), Useless> {
        let Node::Leaf(leaf) = &mut self.nodes[at as usize] else { return Ok(()) };
        let length = leaf.list.len();
        if length <= LEAF_SPLIT.max(leaf.whole).min(LEAF_MAX) {
            return Ok(());
        }
        let way = if depth < DEPTH_MAX { best(&leaf.list) } else { None };
        let Some((piece, mask)) = way else {
            leaf.whole = 2 * length;
            return if length > LEAF_MAX { Err(Useless) } else { Ok(()) };
        };
        let list = std::mem::take(&mut leaf.list);
        self.listed -= list.len();
        let (in_all, named): (Vec<Candidate>, Vec<Candidate>) =
            list.into_iter().partition(|c| c.under(piece, mask).is_none());
        let mut groups: Vec<(u64, Vec<Candidate>)> = Vec::new();
        let mut places: HashMap<u64, usize> = HashMap::new();
        for candidate in named {
            let Some(value) = candidate.under(piece, mask) else { continue };
            let place = *places.entry(value).or_insert_with(|| {
                groups.push((value, in_all.clone()));
                groups.len() - 1
            });
            groups[place].1.push(candidate.without(piece, mask));
        }
        self.listed += in_all.len();
        let other = self.place(Node::Leaf(Leaf { list: in_all, whole: 0 }));
        let mut inner =
            Inner { piece, mask, values: Vec::new(), children: Vec::new(), hashed: None, other };
        let mut made = vec![other];
        for (value, mut list) in groups {
            // Those of all children came first.
            list.sort_by(|a, b| b.precedes(a).cmp(&a.precedes(b)));
            self.listed += list.len();
            let child = self.place(Node::Leaf(Leaf { list, whole: 0 }));
            inner.add(value, child);
            made.push(child);
        }
        self.nodes[at as usize] = Node::Inner(Box::new(inner));
        made.into_iter().try_for_each(|child| self.divide(child, depth + 1))
    }
}
