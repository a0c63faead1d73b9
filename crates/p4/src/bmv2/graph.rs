//! Jumps that become branches that nest.
//!
//! Nodes have successors, and `None` is the end. A branch goes on where all its ways meet again. Ways that only end do not
//! count for that: they return. Ways that meet where no branch nests are written twice, within bounds.

use std::collections::HashSet;

/// Nodes of one graph, at most.
const NODES_MAX: usize = 4096;

/// Who follows whom.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Successors in order, each once.
    pub(super) next: Vec<Vec<Option<usize>>>,
}

/// Nested nodes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A node, and then what stands behind it.
    Plain(usize),
    /// A node, and what follows for each of its successors.
    Branch(usize, Vec<Vec<Piece>>),
    /// The end of it all.
    Return,
}

/// Why a graph does not nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// From this node a way leads back to it.
    Loop(usize),
    /// There are more nodes than are taken.
    Many,
    /// Too much would be written twice.
    Tangled,
}

struct Work<'a> {
    next: &'a [Vec<usize>],
    end: usize,
    strict: Vec<usize>,
    relaxed: Vec<usize>,
    reach: Vec<Vec<u64>>,
    budget: usize,
}

impl Graph {
    /// The graph from a node on.
    pub(super) fn nested(&self, start: Option<usize>) -> Result<Vec<Piece>, Wrong> {
        let n = self.next.len();
        if n > NODES_MAX {
            return Err(Wrong::Many);
        }
        let end = n;
        let next: Vec<Vec<usize>> = self
            .next
            .iter()
            .map(|all| {
                let mut seen = HashSet::new();
                all.iter().map(|s| s.unwrap_or(end)).filter(|s| seen.insert(*s)).collect()
            })
            .collect();
        let start = start.unwrap_or(end);
        let order = backwards(&next, start)?;
        let without: Vec<Vec<usize>> = next
            .iter()
            .map(|all| match all.len() {
                0 | 1 => all.clone(),
                _ => all.iter().copied().filter(|s| *s != end).collect(),
            })
            .collect();
        let mut reach = vec![vec![0u64; n.div_ceil(64).max(1)]; n];
        for v in &order {
            let mut own = vec![0u64; n.div_ceil(64).max(1)];
            own[v / 64] |= 1 << (v % 64);
            for s in next[*v].iter().filter(|s| **s != end) {
                own.iter_mut().zip(&reach[*s]).for_each(|(a, b)| *a |= b);
            }
            reach[*v] = own;
        }
        let strict = meets(&next, &order, end);
        let relaxed = meets(&without, &order, end);
        let budget = 4 * n + 256;
        let mut work = Work { next: &next, end, strict, relaxed, reach, budget };
        let mut out = Vec::new();
        work.region(start, end, &mut out)?;
        Ok(out)
    }
}

/// Nodes from `start` on, successors first.
fn backwards(next: &[Vec<usize>], start: usize) -> Result<Vec<usize>, Wrong> {
    let end = next.len();
    let mut state = vec![0u8; end];
    let mut order = Vec::new();
    let mut stack = vec![(start, 0)];
    if start == end {
        return Ok(order);
    }
    state[start] = 1;
    while let Some((v, i)) = stack.pop() {
        match next[v].get(i) {
            None => {
                state[v] = 2;
                order.push(v);
            }
            Some(s) => {
                stack.push((v, i + 1));
                match if *s == end { 2 } else { state[*s] } {
                    0 => {
                        state[*s] = 1;
                        stack.push((*s, 0));
                    }
                    1 => return Err(Wrong::Loop(*s)),
                    _ => {}
                }
            }
        }
    }
    Ok(order)
}

/// For each node, the next one that all its ways pass.
fn meets(next: &[Vec<usize>], order: &[usize], end: usize) -> Vec<usize> {
    let mut meet = vec![end; end + 1];
    let mut depth = vec![0usize; end + 1];
    for v in order {
        let mut all = next[*v].iter().copied();
        let mut at = all.next().unwrap_or(end);
        for mut other in all {
            while at != other {
                if depth[at] >= depth[other] {
                    at = meet[at];
                } else {
                    other = meet[other];
                }
            }
        }
        meet[*v] = at;
        depth[*v] = depth[at] + 1;
    }
    meet
}

impl Work<'_> {
    /// No node follows two of the successors.
    fn apart(&self, v: usize) -> bool {
        let mut seen = vec![0u64; self.reach.first().map_or(0, Vec::len)];
        for s in self.next[v].iter().filter(|s| **s != self.end) {
            if seen.iter().zip(&self.reach[*s]).any(|(a, b)| a & b != 0) {
                return false;
            }
            seen.iter_mut().zip(&self.reach[*s]).for_each(|(a, b)| *a |= b);
        }
        true
    }

    fn region(&mut self, from: usize, stop: usize, out: &mut Vec<Piece>) -> Result<(), Wrong> {
        let mut v = from;
        while v != stop {
            self.budget = self.budget.checked_sub(1).ok_or(Wrong::Tangled)?;
            if v == self.end {
                out.push(Piece::Return);
                return Ok(());
            }
            match self.next[v].len() {
                0 => {
                    out.push(Piece::Plain(v));
                    return Ok(());
                }
                1 => {
                    out.push(Piece::Plain(v));
                    v = self.next[v][0];
                }
                _ => {
                    let strict = self.strict[v];
                    let nests = strict != self.end || stop == self.end && self.apart(v);
                    let join = if nests { strict } else { self.relaxed[v] };
                    let join = if join == self.end { stop } else { join };
                    let mut arms = Vec::new();
                    for s in self.next[v].clone() {
                        let mut arm = Vec::new();
                        self.region(s, join, &mut arm)?;
                        arms.push(arm);
                    }
                    out.push(Piece::Branch(v, arms));
                    v = join;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Piece::*;
    use super::*;

    fn nested(next: &[&[usize]]) -> Result<Vec<Piece>, Wrong> {
        let end = next.len();
        let one = |all: &&[usize]| all.iter().map(|s| (*s != end).then_some(*s)).collect();
        Graph { next: next.iter().map(one).collect() }.nested(Some(0))
    }

    #[test]
    fn branches_nest_and_meet_again() {
        // 0 → 1 or 2, both → 3.
        let diamond = nested(&[&[1, 2], &[3], &[3], &[4]]).unwrap();
        assert_eq!(diamond, [Branch(0, vec![vec![Plain(1)], vec![Plain(2)]]), Plain(3)]);
        // Nothing behind.
        let tail = nested(&[&[1, 2], &[2]]).unwrap();
        assert_eq!(tail, [Branch(0, vec![vec![Plain(1)], vec![]])]);
    }

    #[test]
    fn a_way_that_ends_returns() {
        // 0 → 1 or 2; 1 → 3 or the end; 2 → 3; 3 → the end.
        let early = nested(&[&[1, 2], &[3, 4], &[3], &[4]]).unwrap();
        let inner = Branch(1, vec![vec![], vec![Return]]);
        assert_eq!(early, [Branch(0, vec![vec![inner], vec![Plain(2)]]), Plain(3)]);
    }

    #[test]
    fn loops_and_tangles_are_refused() {
        assert_eq!(nested(&[&[1], &[0]]), Err(Wrong::Loop(0)));
        // Each pair of nodes leads to each of the next pair: written out it doubles.
        let pairs = 12;
        let mut next: Vec<Vec<usize>> = vec![vec![1, 2]];
        for level in 0..pairs {
            let after = 3 + 2 * level;
            let both = if level + 1 < pairs { vec![after, after + 1] } else { vec![1 + 2 * pairs] };
            next.extend([both.clone(), both]);
        }
        let next: Vec<&[usize]> = next.iter().map(Vec::as_slice).collect();
        assert_eq!(nested(&next), Err(Wrong::Tangled));
        let many = vec![[NODES_MAX + 1].as_slice(); NODES_MAX + 1];
        assert_eq!(nested(&many), Err(Wrong::Many));
    }
}
