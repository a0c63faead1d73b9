//! What code knows about a packet where it goes on, and so which code it goes on in.
//!
//! A packet's headers lie where its parser's way puts them. Code that is made for one such way has
//! constants for what else would be tests, selections and loads: which headers are valid, where they
//! are, what the ethertype is. So wherever ways meet (a parser state, a block, a node, the end) code
//! is made once for each different set of [`Facts`], up to a bound; packets with other facts share a
//! version that looks at everything when it runs. (Basic block versioning: Chevalier-Boisvert and
//! Feeley, *Simple and Effective Type Check Removal through Lazy Basic Block Versioning*, ECOOP
//! 2015; here ahead of time, about packets in place of types.)
//!
//! Holds true: facts are true of every packet in the code that was made for them; the versions of a
//! node are numbered in the order in which code first leads to them.

use std::collections::BTreeSet;

/// Which segment: the entry, or a version of the code behind a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The start of a burst.
    Entry,
    /// The start for packets that the entry does not parse.
    Rest,
    /// Behind a node or a stop.
    Behind {
        /// The node, or as many as there are nodes more than the stop.
        node: usize,
        /// Which of its versions.
        version: usize,
    },
}

/// What is known of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Know {
    /// Nothing.
    Unknown,
    /// It is this number.
    Const(u64),
    /// It is the address so many bytes behind the packet's first byte.
    Data(u64),
    /// It is the address of the zeros that invalid headers are read from.
    Zeros,
    /// It is the address of those that new headers are read from.
    Fresh,
}

/// What is known of variables, in an order that follows from the place.
pub(crate) type Facts = Vec<Know>;

/// Versions of a parser state, beside the one that knows nothing.
pub(crate) const STATE_VERSIONS: usize = 4;
/// Headers on a way through the parser that has code of its own, at most.
pub(crate) const DEPTH_MAX: u32 = 4;

/// How many versions there are, at most, beside the one that knows nothing. 0: that one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Of what comes behind the parser.
    pub(crate) accept: usize,
    /// Of a block in one function.
    pub(crate) block: usize,
    /// Of the code behind a node.
    pub(crate) node: usize,
    /// Of the end of packets in one function.
    pub(crate) commit: usize,
    /// Choices of an action behind which its rest is generated for each side.
    pub(crate) doubled: u32,
    /// An action of a table that is code is made for its first entry, and, if that has more values than this, once more for all
    /// others, which differ in what variables hold.
    pub(crate) shared_from: usize,
}

impl Bounds {
    /// What is tried, one after the other, until the code is not too long. The first is for a gateway's packets (with tags
    /// and without, TCP, UDP and others, whole and first fragments): with 8, 8 and 6 its common ways had no code of
    /// their own, and a packet cost a quarter more. P4 programs of a hundred blocks (fabric, UP4, PINS) need the last.
    pub(crate) const LADDER: [Bounds; 3] = [
        Bounds { accept: 256, block: 12, node: 12, commit: 12, doubled: 6, shared_from: 300 },
        Bounds { accept: 16, block: 2, node: 2, commit: 2, doubled: 1, shared_from: 100 },
        Bounds { accept: 0, block: 0, node: 0, commit: 0, doubled: 0, shared_from: 0 },
    ];
}

/// Picks a version: the one with these facts, or a new one, or, past the bound, the one that knows
/// nothing. Returns its place in the list.
pub(crate) fn pick<T>(
    versions: &mut Vec<(Facts, T)>,
    facts: Facts,
    bound: usize,
    new: impl FnOnce() -> T,
) -> usize {
    if let Some(at) = versions.iter().position(|(f, _)| *f == facts) {
        return at;
    }
    let facts = if versions.len() < bound { facts } else { nothing(&facts) };
    if let Some(at) = versions.iter().position(|(f, _)| *f == facts) {
        return at;
    }
    versions.push((facts, new()));
    versions.len() - 1
}

/// As many facts that say nothing.
pub(crate) fn nothing(facts: &Facts) -> Facts {
    vec![Know::Unknown; facts.len()]
}

/// The versions of the code behind each node.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    /// By node, and behind the nodes by stop: facts, and the number among all points.
    by_node: Vec<Vec<(Facts, u32)>>,
    /// Nodes and stops in an order in which code behind one leads to later ones only; and their places in it.
    order: Vec<usize>,
    places: Vec<usize>,
    /// Where packets wait that the entry does not parse.
    rest: Option<u32>,
    len: u32,
    /// Some code notes outputs or copies beside packets.
    pub(crate) notes: bool,
    /// The node or stop behind which code is being made; none for a start of the burst.
    pub(crate) here: Option<usize>,
    /// Where code asks for what depends on the packets before.
    pub(crate) asked: BTreeSet<Option<usize>>,
    /// How many versions there are, at most.
    pub(crate) bounds: Bounds,
}

impl Points {
    /// None yet, of nodes and stops in this order.
    pub(crate) fn new(order: Vec<usize>, bounds: Bounds) -> Points {
        let mut places = vec![0; order.len()];
        for (place, node) in order.iter().enumerate() {
            places[*node] = place;
        }
        Points {
            by_node: vec![Vec::new(); order.len()],
            order,
            places,
            rest: None,
            len: 0,
            notes: false,
            here: None,
            asked: BTreeSet::new(),
            bounds,
        }
    }

    /// How many there are in all.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The point of packets that the entry does not parse, from now on.
    pub(crate) fn rest(&mut self) -> u32 {
        *self.rest.get_or_insert_with(|| {
            self.len += 1;
            self.len - 1
        })
    }

    /// The facts of a node's version, and its number among all points.
    pub(crate) fn get(&self, node: usize, version: usize) -> Option<(&Facts, u32)> {
        self.by_node.get(node)?.get(version).map(|(facts, point)| (facts, *point))
    }

    /// The segment that comes after another one: the next version of its node, or the first one of
    /// a later node.
    pub(crate) fn after(&self, which: Which) -> Option<Which> {
        let (mut place, mut version) = match which {
            Which::Entry if self.rest.is_some() => return Some(Which::Rest),
            Which::Entry | Which::Rest => (0, 0),
            Which::Behind { node, version } => (self.places[node], version + 1),
        };
        while let Some(node) = self.order.get(place).copied() {
            if version < self.by_node[node].len() {
                return Some(Which::Behind { node, version });
            }
            (place, version) = (place + 1, 0);
        }
        None
    }

    /// The version of a node for these facts: what it knows, and its number among all points.
    pub(crate) fn version(&mut self, node: usize, facts: Facts) -> (&Facts, u32) {
        let len = &mut self.len;
        let versions = &mut self.by_node[node];
        let at = pick(versions, facts, self.bounds.node, || {
            *len += 1;
            *len - 1
        });
        (&versions[at].0, versions[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_the_bound_nothing_is_known() {
        let mut versions = Vec::new();
        let mut made = 0;
        let mut pick = |k| {
            pick(&mut versions, vec![Know::Const(k), Know::Unknown], 2, || {
                made += 1;
                made
            })
        };
        assert_eq!([pick(7), pick(8), pick(7)], [0, 1, 0]);
        assert_eq!([pick(9), pick(10), pick(8), pick(9)], [2, 2, 1, 2]);
        assert_eq!(versions.len(), 3);
        assert_eq!(versions[2], (vec![Know::Unknown; 2], 3));
    }

    #[test]
    fn points_are_numbered_over_all_nodes() {
        let mut points = Points::new(vec![0, 1, 2], Bounds::LADDER[0]);
        assert_eq!(points.version(2, vec![Know::Zeros]).1, 0);
        assert_eq!(points.version(0, vec![Know::Fresh]).1, 1);
        assert_eq!(points.version(2, vec![Know::Data(4)]).1, 2);
        assert_eq!(points.version(2, vec![Know::Zeros]).1, 0);
        assert_eq!((points.len(), points.get(2, 1).map(|p| p.1)), (3, Some(2)));
        assert!(points.get(2, 2).is_none() && points.get(1, 0).is_none());
        assert_eq!(points.after(Which::Entry), Some(Which::Behind { node: 0, version: 0 }));
        let rest = (points.rest(), points.rest());
        assert_eq!(rest, (3, 3));
        let all = std::iter::successors(Some(Which::Entry), |which| points.after(*which));
        let behind = |node, version| Which::Behind { node, version };
        assert_eq!(
            all.collect::<Vec<_>>(),
            [Which::Entry, Which::Rest, behind(0, 0), behind(2, 0), behind(2, 1)]
        );
        // In another order.
        points.order = vec![2, 1, 0];
        points.places = vec![2, 1, 0];
        let all = std::iter::successors(points.after(Which::Rest), |which| points.after(*which));
        assert_eq!(all.collect::<Vec<_>>(), [behind(2, 0), behind(2, 1), behind(0, 0)]);
    }
}
