//! A table rewritten as several smaller ones, each over some of its fields.
//!
//! Which tables, is planned elsewhere (crate `plan`); here is the form in which a plan comes
//! ([`Tree`]), and how keys go through it. A node with few rows is a chain of masked compares on
//! words of the key; any other is a [`Table`] of its own, which picks its own structure, over a
//! smaller key: the node's fields side by side. A row leads to a later node or to a rule. A burst
//! goes through the tree node by node, lowest number first, so that all keys that wait at a node,
//! by whatever way they came, are looked up together.
//!
//! A tree answers for the very rules it was made from. It takes no further rule
//! ([`Declined::Planned`]: the table moves to the general form), and after a removal the general
//! form serves in its place, since a rule that was hidden may now match. A new action for a rule is
//! one store, however many rows lead to it.
//!
//! Invariants: nodes lead to nodes of higher number, so every lookup ends; rows name rules that
//! exist. That the tree answers as its rules do is the planner's duty.
//! Cost: lookup, one small lookup per node on the way; removal, once, an index over all rules.
//! Checked by: the tests below; crate `plan`'s `tests/model.rs`, against the rules one by one.

use std::hint::select_unpredictable;

use hashbrown::HashMap;

use crate::declined::{Declined, InsertError};
use crate::hit::Hit;
use crate::kind::Kind;
use crate::mask::{load, windows};
use crate::probes::Probes;
use crate::rule::{Field, Layout, LayoutError, Range, Rule, RuleError};
use crate::rules::{assert_burst, assert_key};
use crate::structure::{Explain, Structure};
use crate::table::Table;
use crate::tuple_merge::TupleMerge;

/// Where a lookup goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Nowhere: nothing matches.
    Miss,
    /// To the rule of this id.
    Rule(u32),
    /// To the node of this number.
    Node(u32),
}

/// A row of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRow {
    /// The higher wins; of equals the first.
    pub rank: u32,
    /// What the masked node key must equal; the node's fields side by side.
    pub value: Box<[u8]>,
    /// Which bits matter.
    pub mask: Box<[u8]>,
    /// Comparisons that must hold besides, at offsets in the node key.
    pub ranges: Box<[Range]>,
    /// What follows.
    pub target: Target,
}

/// A table of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode {
    /// Which parts of the whole key its key is made of: fields, or parts of wide ones.
    pub fields: Box<[Field]>,
    /// Its rows.
    pub rows: Vec<TreeRow>,
    /// What follows where no row matches.
    pub otherwise: Target,
}

/// Tables in place of one. Lookups begin at the first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// The tables; each leads to later ones only.
    pub nodes: Vec<TreeNode>,
}

/// What is wrong with a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// There is no first node.
    #[error("the tree has no nodes")]
    Empty,
    /// More nodes or rules than can be numbered.
    #[error("the tree has {0} nodes and rules; {max} are supported", max = LEAF)]
    TooMany(usize),
    /// A node or rule that is not there, or a node that is not a later one.
    #[error("node {node} leads to {to:?}, which is no later node and no rule")]
    Target {
        /// From where.
        node: usize,
        /// Whereto.
        to: Target,
    },
    /// A field outside the key.
    #[error("node {node} reads {} bytes from byte {}; the key has {key_len}", field.len, field.offset)]
    Field {
        /// Which node.
        node: usize,
        /// What it reads.
        field: Field,
        /// How long the key is.
        key_len: usize,
    },
    /// A node's key would be too long.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A rule, or a row, is malformed.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// Two rules have one id.
    #[error("two rules have id {0}")]
    DuplicateId(u32),
}

/// Rows up to which a node is a chain of compares, if they look at one word of the key.
const SCAN_ROWS_MAX: usize = 16;
/// Words of the key up to which it is.
const SCAN_WORDS_MAX: usize = 4;
/// Prefixes up to which a node searches among ranges instead.
const RANGE_ROWS_MAX: usize = 512;
/// Keys that go through the tree together.
const PHASE: usize = 32;
/// Bytes of a node key up to which keys are gathered for a burst.
const GATHERED_MAX: usize = 64;
/// From here on a step is not a node but a rule's slot.
const LEAF: u32 = 1 << 31;
/// The step of a miss.
const MISS: u32 = u32::MAX;

/// Where the keys of a burst are.
type Steps = [u32; PHASE];

/// A decomposed table.
#[derive(Debug)]
pub struct Decomposed {
    layout: Layout,
    rules: Vec<Rule>,
    /// Rule slots by id.
    slots: HashMap<u32, u32>,
    /// What each slot answers.
    hits: Vec<Hit>,
    nodes: Vec<Node>,
    probes_max: usize,
    /// Serves instead, once a rule was removed.
    general: Option<Box<TupleMerge>>,
}

#[derive(Debug)]
struct Node {
    lookup: Lookup,
    /// The step of a key that no row matches.
    otherwise: u32,
}

#[derive(Debug)]
enum Lookup {
    Scan(Scan),
    Table { table: Box<Table>, copies: Box<[Copied]> },
}

/// Bytes of the whole key that are part of a node's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Copied {
    from: usize,
    to: usize,
    len: usize,
}

/// A chain of compares on words of the whole key.
#[derive(Debug)]
struct Scan {
    words: usize,
    /// Where they begin; what is not used looks at the first.
    offsets: [u32; SCAN_WORDS_MAX],
    /// Lowest rank first: the last match wins.
    rows: Box<[ScanRow]>,
}

#[derive(Debug, Clone, Copy)]
struct ScanRow {
    value: [u64; SCAN_WORDS_MAX],
    mask: [u64; SCAN_WORDS_MAX],
    step: u32,
}

impl Scan {
    #[inline]
    fn step(&self, key: &[u8], otherwise: u32) -> u32 {
        match self.words {
            0 | 1 => self.step_of::<1>(key, otherwise),
            2 => self.step_of::<2>(key, otherwise),
            _ => self.step_of::<SCAN_WORDS_MAX>(key, otherwise),
        }
    }

    /// No branch depends on the key: neighbours in a burst differ.
    #[inline(always)]
    fn step_of<const W: usize>(&self, key: &[u8], otherwise: u32) -> u32 {
        let mut words = [0; W];
        for (word, &offset) in words.iter_mut().zip(&self.offsets) {
            *word = load(key, offset as usize);
        }
        self.rows.iter().fold(otherwise, |step, row| {
            let differs = (0..W).fold(0, |d, w| d | (words[w] ^ row.value[w]) & row.mask[w]);
            select_unpredictable(differs == 0, row.step, step)
        })
    }

    /// The steps of those keys of a burst that wait here.
    fn burst(&self, keys: &[u8], stride: usize, waiting: &[u8], otherwise: u32, to: &mut Steps) {
        fn of<const W: usize>(
            scan: &Scan,
            keys: &[u8],
            stride: usize,
            waiting: &[u8],
            otherwise: u32,
            to: &mut Steps,
        ) {
            for &i in waiting {
                let i = usize::from(i) % PHASE;
                to[i] = scan.step_of::<W>(&keys[i * stride..][..stride], otherwise);
            }
        }
        match self.words {
            0 | 1 => of::<1>(self, keys, stride, waiting, otherwise, to),
            2 => of::<2>(self, keys, stride, waiting, otherwise, to),
            _ => of::<SCAN_WORDS_MAX>(self, keys, stride, waiting, otherwise, to),
        }
    }
}

impl Decomposed {
    /// A tree that answers for these rules.
    pub fn new(layout: Layout, rules: &[Rule], tree: &Tree) -> Result<Decomposed, TreeError> {
        if tree.nodes.is_empty() {
            return Err(TreeError::Empty);
        }
        let numbered = tree.nodes.len().max(rules.len());
        if numbered >= LEAF as usize {
            return Err(TreeError::TooMany(numbered));
        }
        let mut slots = HashMap::with_capacity(rules.len());
        let mut held = Vec::with_capacity(rules.len());
        for (rule, slot) in rules.iter().zip(0u32..) {
            rule.checked(&layout)?;
            if rule.id == Hit::MISS_ENTRY || slots.insert(rule.id, slot).is_some() {
                return Err(TreeError::DuplicateId(rule.id));
            }
            held.push(rule.normalised());
        }
        let mut nodes = Vec::with_capacity(tree.nodes.len());
        for (at, node) in tree.nodes.iter().enumerate() {
            nodes.push(Node::new(&layout, at, node, |to| match to {
                Target::Miss => Some(MISS),
                Target::Rule(id) => slots.get(&id).map(|slot| LEAF | slot),
                Target::Node(n) if n as usize > at && (n as usize) < tree.nodes.len() => Some(n),
                Target::Node(_) => None,
            })?);
        }
        let mut probes = vec![0usize; nodes.len()];
        for (at, node) in tree.nodes.iter().enumerate().rev() {
            let targets = node.rows.iter().map(|row| row.target).chain([node.otherwise]);
            let below =
                targets.map(|to| if let Target::Node(n) = to { probes[n as usize] } else { 0 });
            let own = match &nodes[at].lookup {
                Lookup::Scan(_) => 1,
                Lookup::Table { table, .. } => table.explain().probes_max,
            };
            probes[at] = own + below.max().unwrap_or(0);
        }
        let hits = held.iter().map(Rule::hit).collect();
        let probes_max = probes[0];
        Ok(Decomposed { layout, rules: held, slots, hits, nodes, probes_max, general: None })
    }

    /// Tables in the tree; none once the general form serves.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    fn hit(&self, step: u32) -> Hit {
        if step == MISS { Hit::MISS } else { self.hits[(step & !LEAF) as usize] }
    }
}

impl Node {
    fn new(
        layout: &Layout,
        at: usize,
        node: &TreeNode,
        step: impl Fn(Target) -> Option<u32>,
    ) -> Result<Node, TreeError> {
        let mut lens = Vec::with_capacity(node.fields.len());
        let mut copies: Vec<Copied> = Vec::new();
        let mut key_len = 0;
        for &field in &node.fields {
            let end = field.offset.checked_add(field.len);
            if end.is_none_or(|end| end > layout.key_len()) {
                return Err(TreeError::Field { node: at, field, key_len: layout.key_len() });
            }
            match copies.last_mut() {
                // Neighbours are copied at once.
                Some(last) if last.from + last.len == field.offset => last.len += field.len,
                _ => copies.push(Copied { from: field.offset, to: key_len, len: field.len }),
            }
            lens.push(field.len);
            key_len += field.len;
        }
        let own = Layout::new(&lens)?.with_seed(layout.seed());
        let leads = |to| step(to).ok_or(TreeError::Target { node: at, to });
        let mut rows = Vec::with_capacity(node.rows.len());
        for (row, n) in node.rows.iter().zip(0u32..) {
            let mut rule = Rule::new(n, row.rank, u64::from(n), &row.value, &row.mask);
            rule.ranges = row.ranges.clone();
            rule.action = leads(row.target)?;
            rule.checked(&own)?;
            rows.push(rule.normalised());
        }
        let otherwise = leads(node.otherwise)?;
        if let Some(scan) = Scan::new(layout, &copies, &rows) {
            return Ok(Node { lookup: Lookup::Scan(scan), otherwise });
        }
        let mut table = Table::with_layout(own);
        for rule in &rows {
            // Sound and of distinct ids, as was checked above.
            let _ = table.insert(rule);
        }
        table.reoptimise();
        // A search among few prefixes is quicker than the walk, whose structure has a size of its own.
        if table.kind() == Kind::Lpm
            && rows.len() <= RANGE_ROWS_MAX
            && let Ok(ranges) = table.rebuilt(Kind::Range)
        {
            table = ranges;
        }
        Ok(Node {
            lookup: Lookup::Table { table: Box::new(table), copies: copies.into() },
            otherwise,
        })
    }

    /// The step of one key.
    #[inline]
    fn step(&self, key: &[u8], buffer: &mut [u8]) -> u32 {
        match &self.lookup {
            Lookup::Scan(scan) => scan.step(key, self.otherwise),
            Lookup::Table { table, copies } => {
                let key_len = table.layout().key_len();
                let hit = match &**copies {
                    [only] => table.lookup(&key[only.from..][..only.len]),
                    _ if key_len <= buffer.len() => {
                        gather(copies, key, buffer);
                        table.lookup(&buffer[..key_len])
                    }
                    _ => {
                        let mut long = vec![0; key_len];
                        gather(copies, key, &mut long);
                        table.lookup(&long)
                    }
                };
                if hit.is_hit() { hit.action } else { self.otherwise }
            }
        }
    }
}

/// Writes the node's key. What lies behind it in `into` is written over, too.
#[inline]
fn gather(copies: &[Copied], key: &[u8], into: &mut [u8]) {
    for c in copies {
        // Fields are short: whole words, of which the next field takes back what is too much.
        match into.get_mut(c.to..).and_then(|rest| rest.first_chunk_mut::<8>()) {
            Some(word) if c.len <= 8 => *word = load(key, c.from).to_le_bytes(),
            _ => into[c.to..c.to + c.len].copy_from_slice(&key[c.from..c.from + c.len]),
        }
    }
}

impl Scan {
    /// The chain of a node's rows, if it is short.
    fn new(layout: &Layout, copies: &[Copied], rows: &[Rule]) -> Option<Scan> {
        if rows.len() > SCAN_ROWS_MAX || rows.iter().any(|row| !row.ranges.is_empty()) {
            return None;
        }
        let spread = |node_key: &[u8]| {
            let mut key = vec![0; layout.key_len()];
            for c in copies {
                key[c.from..c.from + c.len].copy_from_slice(&node_key[c.to..c.to + c.len]);
            }
            key
        };
        let mut all = vec![0; layout.key_len()];
        for row in rows {
            all.iter_mut().zip(spread(&row.mask)).for_each(|(all, mask)| *all |= mask);
        }
        let words = windows(&all);
        if words.len() > SCAN_WORDS_MAX || rows.len() * words.len() > 2 * SCAN_ROWS_MAX {
            return None;
        }
        let seen = |key: &[u8]| {
            let mut of = [0; SCAN_WORDS_MAX];
            of.iter_mut().zip(&words).for_each(|(word, w)| {
                *word = load(key, w.offset as usize) & w.mask;
            });
            of
        };
        let mut ordered: Vec<&Rule> = rows.iter().collect();
        ordered.sort_by(|a, b| b.precedence(a));
        let row = |rule: &&Rule| ScanRow {
            value: seen(&spread(&rule.value)),
            mask: seen(&spread(&rule.mask)),
            step: rule.action,
        };
        let mut offsets = [0; SCAN_WORDS_MAX];
        offsets.iter_mut().zip(&words).for_each(|(offset, w)| *offset = w.offset);
        Some(Scan { words: words.len(), offsets, rows: ordered.iter().map(row).collect() })
    }
}

impl Structure for Decomposed {
    fn kind(&self) -> Kind {
        self.general.as_ref().map_or(Kind::Decomposed, |general| general.kind())
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        if let Some(general) = &mut self.general {
            return general.insert(rule);
        }
        rule.checked(&self.layout)?;
        if self.slots.contains_key(&rule.id) {
            return Err(InsertError::DuplicateId(rule.id));
        }
        Err(InsertError::Declined(Declined::Planned))
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        if let Some(general) = &mut self.general {
            return general.remove(id);
        }
        let slot = self.slots.remove(&id)?;
        let mut general = Box::new(TupleMerge::new(self.layout.clone()));
        let mut removed = None;
        for (rule, at) in self.rules.drain(..).zip(0..) {
            if at == slot {
                removed = Some(rule);
            } else {
                // They were held already, so they are sound.
                let _ = general.insert(&rule);
            }
        }
        (self.nodes, self.hits, self.slots) = Default::default();
        self.general = Some(general);
        removed
    }

    fn set_action(&mut self, id: u32, action: u32) -> bool {
        if let Some(general) = &mut self.general {
            return general.set_action(id, action);
        }
        let Some(&slot) = self.slots.get(&id) else { return false };
        self.hits[slot as usize].action = action;
        self.rules[slot as usize].action = action;
        true
    }

    fn lookup(&self, key: &[u8]) -> Hit {
        if let Some(general) = &self.general {
            return general.lookup(key);
        }
        assert_key(&self.layout, key);
        let mut buffer = [0; GATHERED_MAX];
        let mut step = 0;
        while step < LEAF {
            step = self.nodes[step as usize].step(key, &mut buffer);
        }
        self.hit(step)
    }

    fn lookup_burst(&self, keys: &[u8], stride: usize, hits: &mut [Hit]) {
        if let Some(general) = &self.general {
            return general.lookup_burst(keys, stride, hits);
        }
        assert_burst(&self.layout, keys, stride, hits.len());
        let mut gathered = [0; PHASE * GATHERED_MAX];
        let mut found = [Hit::MISS; PHASE];
        let mut waiting = [0u8; PHASE];
        for (n, hits) in hits.chunks_mut(PHASE).enumerate() {
            let keys = &keys[n * PHASE * stride..];
            let key = |i: u8| &keys[usize::from(i) * stride..(usize::from(i) + 1) * stride];
            // The node each key waits at, or where it ended. Places beyond the last key are done.
            let mut steps: Steps = [MISS; PHASE];
            steps[..hits.len()].fill(0);
            loop {
                // Nodes lead to higher numbers, so all that will ever wait at the lowest do now.
                let at = steps.iter().fold(MISS, |low, &step| low.min(step));
                if at >= LEAF {
                    break;
                }
                let mut count = 0;
                for (i, &step) in (0u8..).zip(&steps) {
                    waiting[count % PHASE] = i;
                    count += usize::from(step == at);
                }
                let waiting = &waiting[..count];
                let node = &self.nodes[at as usize];
                let (table, copies) = match &node.lookup {
                    Lookup::Scan(scan) => {
                        scan.burst(keys, stride, waiting, node.otherwise, &mut steps);
                        continue;
                    }
                    Lookup::Table { table, copies } => (table, copies),
                };
                let (key_len, step_len) = (table.layout().key_len(), table.layout().stride());
                if step_len > GATHERED_MAX || count == 1 {
                    for &i in waiting {
                        steps[usize::from(i)] = node.step(key(i), &mut gathered);
                    }
                    continue;
                }
                for (into, &i) in gathered.chunks_exact_mut(step_len).zip(waiting) {
                    gather(copies, key(i), into);
                    into[key_len..].fill(0);
                }
                table.lookup_burst(&gathered[..count * step_len], step_len, &mut found[..count]);
                for (&i, hit) in waiting.iter().zip(&found[..count]) {
                    let step = select_unpredictable(hit.is_hit(), hit.action, node.otherwise);
                    steps[usize::from(i)] = step;
                }
            }
            for (hit, &step) in hits.iter_mut().zip(&steps) {
                *hit = self.hit(step);
            }
        }
    }

    fn len(&self) -> usize {
        self.general.as_ref().map_or(self.rules.len(), |general| general.len())
    }

    fn probes(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Probes> {
        self.general.as_ref()?.probes(keys)
    }

    fn memory_bytes(&self) -> usize {
        if let Some(general) = &self.general {
            return general.memory_bytes();
        }
        let rule = |r: &Rule| 2 * r.value.len() + r.ranges.len() * size_of::<Range>();
        let node = |node: &Node| match &node.lookup {
            Lookup::Scan(scan) => scan.rows.len() * size_of::<ScanRow>(),
            Lookup::Table { table, copies } => {
                table.memory_bytes() + copies.len() * size_of::<Copied>()
            }
        };
        self.rules.capacity() * size_of::<Rule>()
            + self.rules.iter().map(rule).sum::<usize>()
            + self.slots.capacity() * (size_of::<(u32, u32)>() + 1)
            + self.hits.capacity() * size_of::<Hit>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.nodes.iter().map(node).sum::<usize>()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        match &self.general {
            Some(general) => general.iter(),
            None => Box::new(self.rules.iter().cloned()),
        }
    }

    fn explain(&self) -> Explain {
        if let Some(general) = &self.general {
            return general.explain();
        }
        let masks: hashbrown::HashSet<&[u8]> = self.rules.iter().map(|rule| &*rule.mask).collect();
        Explain {
            kind: Kind::Decomposed,
            entries: self.rules.len(),
            masks: masks.len(),
            probes_max: self.probes_max,
            ranged: self.rules.iter().filter(|rule| !rule.ranges.is_empty()).count(),
            memory_bytes: self.memory_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: &[u8], mask: &[u8], target: Target) -> TreeRow {
        let rank = mask.iter().map(|m| m.count_ones()).sum();
        TreeRow { rank, value: value.into(), mask: mask.into(), ranges: [].into(), target }
    }

    /// Two fields of one and two bytes. The second node has as many rows as asked for.
    fn sample(rows: u32) -> (Layout, Vec<Rule>, Tree) {
        let layout = Layout::new(&[1, 2]).unwrap();
        let of = |id: u32, value: [u8; 3], mask: [u8; 3]| {
            Rule::new(id, 1000 - id, u64::from(id), &value, &mask).with_action(id + 1)
        };
        let mut rules: Vec<Rule> =
            (0..rows).map(|n| of(n, [7, 1, n as u8], [0xff, 0xff, 0xff])).collect();
        rules.push(of(rows, [7, 1, 0], [0xff, 0xff, 0]));
        rules.push(of(rows + 1, [8, 0, 0], [0xf8, 0, 0]));
        let mut second: Vec<TreeRow> =
            (0..rows).map(|n| row(&[1, n as u8], &[0xff, 0xff], Target::Rule(n))).collect();
        second.push(row(&[1, 0], &[0xff, 0], Target::Rule(rows)));
        let first =
            vec![row(&[7], &[0xff], Target::Node(1)), row(&[8], &[0xf8], Target::Rule(rows + 1))];
        let fields = layout.fields();
        let nodes = vec![
            TreeNode { fields: [fields[0]].into(), rows: first, otherwise: Target::Miss },
            TreeNode { fields: [fields[1]].into(), rows: second, otherwise: Target::Miss },
        ];
        (layout, rules, Tree { nodes })
    }

    fn check(subject: &dyn Structure, rules: &[Rule]) {
        let mut keys = Vec::new();
        let mut want = Vec::new();
        for a in [6, 7, 8, 15] {
            for b in [0, 1] {
                for c in [0u8, 1, 3, 9, 20, 255] {
                    let key = [a, b, c];
                    let best =
                        rules.iter().filter(|r| r.matches(&key)).min_by(|a, b| a.precedence(b));
                    want.push(best.map_or(Hit::MISS, Rule::hit));
                    assert_eq!(subject.lookup(&key), want[want.len() - 1], "{key:?}");
                    keys.extend([a, b, c, 0, 0, 0, 0, 0]);
                }
            }
        }
        let mut hits = vec![Hit::MISS; want.len()];
        subject.lookup_burst(&keys, 8, &mut hits);
        assert_eq!(hits, want);
    }

    #[test]
    fn keys_go_through_the_tree() {
        for rows in [1, 3, 40] {
            let (layout, mut rules, tree) = sample(rows);
            let mut subject = Decomposed::new(layout, &rules, &tree).unwrap();
            check(&subject, &rules);
            assert_eq!((subject.nodes(), subject.len()), (2, rules.len()));
            assert_eq!(subject.explain().kind, Kind::Decomposed);
            assert!(subject.memory_bytes() > 0);
            assert!(subject.iter().eq(rules.iter().cloned()));
            // A rule that several rows may lead to has one action.
            assert!(subject.set_action(rows, 99) && !subject.set_action(4711, 1));
            rules[rows as usize].action = 99;
            check(&subject, &rules);
        }
    }

    #[test]
    fn a_tree_takes_no_rule_and_gives_way_when_one_goes() {
        let (layout, mut rules, tree) = sample(20);
        let mut subject = Decomposed::new(layout, &rules, &tree).unwrap();
        let refused = |r| matches!(r, Err(InsertError::Declined(Declined::Planned)));
        let mut new = rules[0].clone();
        new.id = 500;
        assert!(refused(subject.insert(&new)));
        assert_eq!(subject.insert(&rules[0]), Err(InsertError::DuplicateId(0)));
        new.mask = [0; 2].into();
        assert!(matches!(subject.insert(&new), Err(InsertError::Rule(_))));
        assert_eq!(subject.remove(1000), None);
        assert_eq!(subject.kind(), Kind::Decomposed);
        assert_eq!(subject.remove(3), Some(rules.remove(3)));
        assert_eq!((subject.kind(), subject.len(), subject.nodes()), (Kind::TupleMerge, 21, 0));
        check(&subject, &rules);
        assert!(subject.set_action(20, 7));
        rules[19].action = 7;
        check(&subject, &rules);
        assert_eq!(subject.remove(3), None);
        new.mask = [0xff, 0, 0].into();
        assert_eq!(subject.insert(&new), Ok(()));
        rules.push(new.normalised());
        check(&subject, &rules);
    }

    #[test]
    fn a_table_moves_on_when_its_tree_cannot_take_a_rule() {
        let (layout, mut rules, tree) = sample(20);
        let tree = Decomposed::new(layout, &rules, &tree).unwrap();
        let mut table = Table::from_structure(Box::new(tree));
        assert_eq!(table.kind(), Kind::Decomposed);
        let new = Rule::new(500, 5000, 1, &[6, 0, 0], &[0xff, 0, 0]).with_action(3);
        table.insert(&new).unwrap();
        rules.push(new);
        assert_eq!((table.len(), table.kind()), (23, Kind::Scan));
        for key in [[6, 1, 1], [7, 1, 1], [7, 0, 1]] {
            let best = rules.iter().filter(|r| r.matches(&key)).min_by(|a, b| a.precedence(b));
            assert_eq!(table.lookup(&key), best.map_or(Hit::MISS, Rule::hit));
        }
    }

    #[test]
    fn unsound_trees_are_refused() {
        let (layout, rules, tree) = sample(2);
        let refuse = |change: &dyn Fn(&mut Tree)| {
            let mut tree = tree.clone();
            change(&mut tree);
            Decomposed::new(layout.clone(), &rules, &tree).unwrap_err()
        };
        assert_eq!(refuse(&|t| t.nodes.clear()), TreeError::Empty);
        let target = |node, to| TreeError::Target { node, to };
        assert_eq!(refuse(&|t| t.nodes[1].otherwise = Target::Node(1)), target(1, Target::Node(1)));
        assert_eq!(
            refuse(&|t| t.nodes[0].rows[0].target = Target::Node(2)),
            target(0, Target::Node(2))
        );
        assert_eq!(
            refuse(&|t| t.nodes[0].rows[0].target = Target::Rule(77)),
            target(0, Target::Rule(77))
        );
        assert_eq!(
            refuse(&|t| t.nodes[0].fields[0].offset = 3).to_string(),
            "node 0 reads 1 bytes from byte 3; the key has 3"
        );
        assert!(matches!(refuse(&|t| t.nodes[0].fields[0].len = 2), TreeError::Rule(_)));
        assert!(matches!(
            refuse(&|t| t.nodes[0].fields[0].len = usize::MAX),
            TreeError::Field { .. }
        ));
        let twice = [rules[0].clone(), rules[0].clone()];
        let refused = Decomposed::new(layout.clone(), &twice, &tree).unwrap_err();
        assert_eq!(refused, TreeError::DuplicateId(0));
    }

    #[test]
    fn wide_node_keys_and_ranges_are_looked_up_too() {
        let layout = Layout::new(&[2, 100, 3]).unwrap();
        let mut value = vec![0; 105];
        value[50] = 9;
        let mut mask = vec![0; 105];
        mask[50] = 0xff;
        mask[2] = 0x80;
        let wide = Rule::new(1, 5, 0, &value, &mask).with_action(1);
        let mut ranged = Rule::new(2, 4, 1, &[0; 105], &[0; 105]).with_action(2);
        ranged.ranges = Box::new([Range { offset: 0, len: 2, lo: 3, hi: 700 }]);
        let mut far = row(&value[2..], &mask[2..], Target::Rule(1));
        let mut near = row(&[0; 2], &[0; 2], Target::Rule(2));
        near.ranges = ranged.ranges.clone();
        far.ranges = Box::new([Range { offset: 100, len: 3, lo: 0, hi: 5 }]);
        let fields = layout.fields();
        let (wide_part, ranged_part) = ([fields[1], fields[2]].into(), [fields[0]].into());
        let tree = Tree {
            nodes: vec![
                TreeNode { fields: wide_part, rows: vec![far], otherwise: Target::Node(1) },
                TreeNode { fields: ranged_part, rows: vec![near], otherwise: Target::Miss },
            ],
        };
        let subject = Decomposed::new(layout, &[wide, ranged], &tree).unwrap();
        let mut keys = vec![0; 112 * 3];
        keys[50] = 9;
        keys[112 + 1] = 200;
        keys[224] = 200;
        let mut hits = [Hit::MISS; 3];
        subject.lookup_burst(&keys, 112, &mut hits);
        assert_eq!(hits.map(|hit| hit.entry), [1, 2, Hit::MISS_ENTRY]);
        for (n, hit) in hits.iter().enumerate() {
            assert_eq!(subject.lookup(&keys[n * 112..][..105]), *hit);
        }
    }
}
