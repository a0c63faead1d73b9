//! Longest prefix match on one field of up to 128 bits, other fields exact under one mask.
//!
//! The exact part of the key is hashed to the root of a trie of prefixes; without an exact part
//! there is one root. The rules themselves stay in the store, where chains hold rules of equal
//! prefix; the trie knows the id at each chain's head. Where there is an exact part, rules that
//! match everything (an OpenFlow table-miss entry) stand beside it as the catch-all, asked when
//! the tries have no answer.
//!
//! Invariants: every mask but the catch-all's is a prefix on the field and the same elsewhere; no
//! ranges; every priority of a longer prefix exceeds every priority of a shorter one, so that the
//! longest match is the best (priority = prefix length satisfies this), and all exceed the
//! catch-all's.
//! Cost: lookup, a hash probe where there is an exact part, then a trie node per six bits matched;
//! update, the store's plus at most 22 nodes.
//! Checked by: [`linear`](crate::linear), in `tests/model.rs`.

use hashbrown::HashTable;

use crate::choose::{Declined, Kind};
use crate::group::Group;
use crate::mask::{self, Window};
use crate::rule::{Field, Layout, Rule};
use crate::rules::{Rules, assert_key};
use crate::shape::{Span, TableShape, prefix_len};
use crate::trie::{BITS_MAX, Trie};
use crate::{Explain, InsertError, Structure};

/// Tries of prefixes under a hash of the exact part.
#[derive(Debug)]
pub struct Lpm {
    rules: Rules,
    field: Field,
    /// The mask outside the field; set by the first rule.
    exact: Option<Exact>,
    /// The group of rules that match everything, where it is not the tries'.
    catch_all: Option<u32>,
    roots: HashTable<Root>,
    trie: Trie,
    /// Lowest and highest priority by prefix length.
    spans: Vec<Option<(u32, u32)>>,
}

/// The mask outside the prefix field.
#[derive(Debug)]
struct Exact {
    mask: Box<[u8]>,
    windows: Box<[Window]>,
}

impl Exact {
    fn of(mask: &[u8], field: Field) -> Exact {
        let mask = outside(mask, field);
        Exact { windows: mask::windows(&mask), mask }
    }
}

#[derive(Debug)]
struct Root {
    words: Box<[u64]>,
    trie: u32,
}

/// Whether a trie can hold such a table; the index of its prefix field if so.
///
/// The field is the one whose masks differ. Where none do, it is the last that is masked in part,
/// else the last of at most 128 bits.
pub fn fits(shape: &TableShape) -> Result<usize, Declined> {
    if shape.ranged > 0 {
        return Err(Declined::Ranges { entries: shape.ranged });
    }
    let as_it_is = fits_tries(shape);
    let Some(at) = shape.masks.iter().position(|m| is_zero(&m.mask)) else { return as_it_is };
    if as_it_is.is_ok() || shape.masks.len() == 1 {
        return as_it_is;
    }
    let mut rest = shape.clone();
    let catch_all = rest.masks.swap_remove(at);
    let field = fits_tries(&rest)?;
    let low = rest.masks.iter().map(|m| m.priority_min).min().unwrap_or(u32::MAX);
    if catch_all.priority_max < low {
        return Ok(field);
    }
    Err(Declined::CatchAll { priority: catch_all.priority_max, not_below: low })
}

/// Whether the tries alone can hold the table, its ranges left aside.
fn fits_tries(shape: &TableShape) -> Result<usize, Declined> {
    let Some(first) = shape.masks.first() else { return Err(Declined::Empty) };
    let spans = shape.spans();
    let ternary = spans.iter().filter(|&&s| s == Span::Ternary).count();
    if ternary > 0 {
        return Err(Declined::Ternary { fields: ternary });
    }
    let prefixes = spans.iter().filter(|&&s| s == Span::Prefix).count();
    if prefixes > 1 {
        return Err(Declined::Prefixes { fields: prefixes });
    }
    let fields = shape.layout.fields();
    let part = |f: &Field| &first.mask[f.offset..f.offset + f.len];
    let able = |f: &Field| f.len as u32 * 8 <= BITS_MAX && prefix_len(part(f)).is_some();
    let at = match spans.iter().position(|&s| s == Span::Prefix) {
        Some(at) => at,
        None => fields
            .iter()
            .rposition(|f| able(f) && part(f).iter().any(|&b| b != 0xff))
            .or_else(|| fields.iter().rposition(able))
            .ok_or(Declined::NoPrefix)?,
    };
    let field = &fields[at];
    let bits = field.len as u32 * 8;
    if bits > BITS_MAX {
        return Err(Declined::Wide { bits });
    }
    let mut by_len: Vec<(u32, u32, u32)> = shape
        .masks
        .iter()
        .map(|m| {
            let len = prefix_len(&m.mask[field.offset..field.offset + field.len]).unwrap_or(0);
            (len, m.priority_min, m.priority_max)
        })
        .collect();
    by_len.sort_unstable();
    match by_len.windows(2).find(|pair| pair[0].2 >= pair[1].1) {
        Some(pair) => Err(Declined::Priorities {
            shorter: pair[0].0,
            priority: pair[0].2,
            longer: pair[1].0,
            not_above: pair[1].1,
        }),
        None => Ok(at),
    }
}

impl Lpm {
    /// An empty one, with the index of its prefix field.
    ///
    /// Declines a field that the layout has not, or that is wider than 128 bits.
    pub fn new(layout: Layout, field: usize) -> Result<Lpm, Declined> {
        let Some(&field) = layout.fields().get(field) else { return Err(Declined::NoPrefix) };
        if field.len > BITS_MAX as usize / 8 {
            return Err(Declined::Wide { bits: field.len as u32 * 8 });
        }
        Ok(Self::empty(Rules::new(layout), field))
    }

    fn empty(rules: Rules, field: Field) -> Lpm {
        let spans = vec![None; field.len * 8 + 1];
        Lpm {
            rules,
            field,
            exact: None,
            catch_all: None,
            roots: HashTable::new(),
            trie: Trie::new(),
            spans,
        }
    }

    /// Takes over a store that [`fits`] with that field; costs a trie insert per prefix.
    pub(crate) fn from_rules(rules: Rules, field: usize) -> Lpm {
        let field = rules.layout().fields()[field];
        let mut lpm = Self::empty(rules, field);
        // A mask with bits is never the catch-all's, so it tells the exact part of them all.
        let telling = |g: &&[u8]| !is_zero(g);
        lpm.exact =
            lpm.rules.groups().map(|(_, g)| g.mask()).find(telling).map(|m| Exact::of(m, field));
        let mut heads = Vec::with_capacity(lpm.rules.len());
        for (at, group) in lpm.rules.groups() {
            let Some(span) = group.priorities() else { continue };
            if lpm.is_catch_all(group.mask()) {
                lpm.catch_all = Some(at);
                continue;
            }
            let len = lpm.prefix_of(group.mask()).unwrap_or(0);
            lpm.spans[len as usize] = Some(span);
            heads.extend(group.heads().map(|row| group.rule(row, lpm.rules.ranges())));
        }
        // In key order, so that equal stores give equal tries.
        heads.sort_unstable_by(|a, b| (&a.value, &a.mask).cmp(&(&b.value, &b.mask)));
        for rule in &heads {
            let len = lpm.prefix_of(&rule.mask).unwrap_or(0);
            lpm.set(rule, len, rule.id);
        }
        lpm
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn into_rules(self) -> Rules {
        self.rules
    }

    fn prefix_of(&self, mask: &[u8]) -> Option<u32> {
        prefix_len(&mask[self.field.offset..self.field.offset + self.field.len])
    }

    /// Whether a mask is that of rules beside the tries.
    fn is_catch_all(&self, mask: &[u8]) -> bool {
        self.exact.as_ref().is_some_and(|exact| !exact.windows.is_empty()) && is_zero(mask)
    }

    /// The group beside the tries.
    fn catch_all(&self) -> Option<&Group> {
        self.rules.group(self.catch_all?)
    }

    /// Whether a rule fits beside the tries that are there.
    fn fits_beside(&self, rule: &Rule) -> Result<(), Declined> {
        match self.spans.iter().flatten().map(|span| span.0).min() {
            Some(low) if rule.priority >= low => {
                Err(Declined::CatchAll { priority: rule.priority, not_below: low })
            }
            _ => Ok(()),
        }
    }

    /// The prefix length of a rule that fits beside those held.
    fn fits_in(&self, rule: &Rule) -> Result<u32, Declined> {
        if !rule.ranges.is_empty() {
            return Err(Declined::Ranges { entries: 1 });
        }
        let Some(len) = self.prefix_of(&rule.mask) else {
            return Err(Declined::Ternary { fields: 1 });
        };
        if let Some(exact) = &self.exact
            && *exact.mask != *outside(&rule.mask, self.field)
        {
            return Err(Declined::ExactPart);
        }
        if let Some((_, high)) = self.catch_all().and_then(Group::priorities)
            && rule.priority <= high
        {
            return Err(Declined::CatchAll { priority: high, not_below: rule.priority });
        }
        let at = len as usize;
        let refuse = |shorter, priority, longer, not_above| {
            Err(Declined::Priorities { shorter, priority, longer, not_above })
        };
        let below = (0..at).rev().find_map(|l| Some((l as u32, self.spans[l]?.1)));
        if let Some((shorter, high)) = below.filter(|b| b.1 >= rule.priority) {
            return refuse(shorter, high, len, rule.priority);
        }
        let above = (at + 1..self.spans.len()).find_map(|l| Some((l as u32, self.spans[l]?.0)));
        if let Some((longer, low)) = above.filter(|a| a.1 <= rule.priority) {
            return refuse(len, rule.priority, longer, low);
        }
        Ok(len)
    }

    /// Points the prefix of a rule at `id`.
    fn set(&mut self, rule: &Rule, len: u32, id: u32) {
        let exact = self.exact.get_or_insert_with(|| Exact::of(&rule.mask, self.field));
        let bits = bits_of(&rule.value, self.field);
        let seed = self.rules.layout().seed();
        let root = match root_of(&self.roots, exact, seed, &rule.value) {
            Some(root) => root.trie,
            None => {
                let words: Box<[u64]> =
                    exact.windows.iter().map(|w| mask::word(&rule.value, w)).collect();
                let root = Root { trie: self.trie.open(), words };
                let (hash, trie) = (mask::hash_words(seed, &root.words), root.trie);
                self.roots.insert_unique(hash, root, |r| mask::hash_words(seed, &r.words));
                trie
            }
        };
        self.trie.set(root, bits, len, id);
    }

    /// Forgets the prefix of a rule, and the trie of its exact part if it was the last.
    fn clear(&mut self, rule: &Rule, len: u32) {
        let seed = self.rules.layout().seed();
        let Some(exact) = &self.exact else { return };
        let Some(root) = root_of(&self.roots, exact, seed, &rule.value) else { return };
        let root = root.trie;
        if self.trie.clear(root, bits_of(&rule.value, self.field), len) {
            let hash = mask::hash_key(seed, &exact.windows, &rule.value);
            if let Ok(entry) = self.roots.find_entry(hash, |r| r.trie == root) {
                entry.remove();
            }
            self.trie.close(root);
        }
    }
}

fn is_zero(mask: &[u8]) -> bool {
    mask.iter().all(|&byte| byte == 0)
}

/// A mask with the field's bytes cleared.
fn outside(mask: &[u8], field: Field) -> Box<[u8]> {
    let mut mask: Box<[u8]> = mask.into();
    mask[field.offset..field.offset + field.len].fill(0);
    mask
}

/// The field's bytes as the leading bits of a number.
#[inline]
fn bits_of(key: &[u8], field: Field) -> u128 {
    let bytes = &key[field.offset..field.offset + field.len];
    if let Some(bytes) = bytes.first_chunk::<4>()
        && field.len == 4
    {
        return u128::from(u32::from_be_bytes(*bytes)) << 96;
    }
    if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
        return u128::from_be_bytes(bytes);
    }
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    u128::from_be_bytes(wide)
}

/// The trie for the exact part of a key.
#[inline]
fn root_of<'a>(
    roots: &'a HashTable<Root>,
    exact: &Exact,
    seed: u64,
    key: &[u8],
) -> Option<&'a Root> {
    let hash = mask::hash_key(seed, &exact.windows, key);
    roots.find(hash, |root| mask::equals(&exact.windows, &root.words, key))
}

impl Structure for Lpm {
    fn kind(&self) -> Kind {
        Kind::Lpm
    }

    fn layout(&self) -> &Layout {
        self.rules.layout()
    }

    fn insert(&mut self, rule: &Rule) -> Result<(), InsertError> {
        let rule = self.rules.admit(rule)?;
        if rule.ranges.is_empty() && self.is_catch_all(&rule.mask) {
            self.fits_beside(&rule).map_err(InsertError::Declined)?;
            self.catch_all = Some(self.rules.insert(&rule).group);
            return Ok(());
        }
        let len = self.fits_in(&rule).map_err(InsertError::Declined)?;
        let change = self.rules.insert(&rule);
        let span = self.spans[len as usize].get_or_insert((rule.priority, rule.priority));
        *span = (span.0.min(rule.priority), span.1.max(rule.priority));
        if change.chain.head_id == Some(rule.id) {
            self.set(&rule, len, rule.id);
        }
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Rule> {
        let (rule, change) = self.rules.remove(id)?;
        if self.is_catch_all(&rule.mask) {
            self.catch_all = self.catch_all.filter(|&at| self.rules.group(at).is_some());
            if self.rules.len() == 0 {
                self.exact = None;
            }
            return Some(rule);
        }
        let len = self.prefix_of(&rule.mask).unwrap_or(0);
        self.spans[len as usize] = self.rules.group(change.group).and_then(|g| g.priorities());
        match change.chain.head_id {
            Some(head) => self.set(&rule, len, head),
            None => self.clear(&rule, len),
        }
        if self.rules.len() == 0 {
            self.exact = None;
        }
        Some(rule)
    }

    fn lookup(&self, key: &[u8]) -> Option<u32> {
        assert_key(self.layout(), key);
        let exact = self.exact.as_ref()?;
        let found = root_of(&self.roots, exact, self.layout().seed(), key)
            .and_then(|root| self.trie.lookup(root.trie, bits_of(key, self.field)));
        found.or_else(|| self.rules.lookup_in(self.catch_all?, key).map(|hit| hit.id))
    }

    fn len(&self) -> usize {
        self.rules.len()
    }

    fn memory_bytes(&self) -> usize {
        let words = self.exact.as_ref().map_or(0, |e| e.windows.len() * 8);
        self.rules.memory_bytes()
            + self.trie.memory_bytes()
            + self.roots.allocation_size()
            + self.roots.len() * words
            + self.spans.capacity() * size_of::<Option<(u32, u32)>>()
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Rule> + '_> {
        Box::new(self.rules.iter())
    }

    fn explain(&self) -> Explain {
        let longest = self.spans.iter().rposition(Option::is_some);
        Explain {
            kind: Kind::Lpm,
            entries: self.len(),
            masks: self.rules.masks(),
            probes_max: longest.map_or(0, |len| len / 6 + 1),
            ranged: 0,
            memory_bytes: self.memory_bytes(),
        }
    }
}
