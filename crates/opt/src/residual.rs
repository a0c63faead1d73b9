//! What is left of a table where something is known of the key: partial evaluation of a lookup.
//!
//! Entries that surely do not match go, patterns that surely do go from the others, and behind one of which
//! all do, nothing comes any more. Where a copy of the pipeline knows the stage and the service that a packet
//! comes from ([`crate::unroll`]), what is left of a table of many entries is often a handful ([`Residual`]).
//! Of a table of which more are left, the actions go that only entries have that are not ([`Thinned`]): without
//! that, a packet in its first pass might come from any service that entries of later stages call. If what is left looks at
//! fewer fields than the table, it can be looked up by those alone ([`View`]).
//!
//! Checked by: the tests below, which compare with looking at all entries, for all values of a small key; the
//! differential tests of `datapath`, in which packets come back from services.

use crate::contents::{Contents, TableContents};
use crate::known::{Known, mask};
use crate::unroll;
use ir::{ActionCall, ActionId, Entry, EntryId, KeyMatch, Pattern, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Entries that are left, at most; a table of which more are left is looked up whole.
pub const LEFT_MAX: usize = 16;

/// An entry that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Which.
    pub entry: EntryId,
    /// What must still match.
    pub matches: Box<[KeyMatch]>,
    /// What then happens, as the pipeline has it.
    pub call: ActionCall,
}

/// What is left of a table where a copy of the pipeline applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residual {
    /// What the copy calls it. It is applied once.
    pub applied: TableId,
    /// The pipeline's table.
    pub table: TableId,
    /// Best first.
    pub left: Vec<Left>,
    /// What is known of the key.
    known: Vec<Known>,
}

/// What of a table's entries matters where this is known of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Positions of the key fields that entries which may match look at, where that is not decided; ascending.
    pub columns: Vec<u16>,
    /// What is known of the key.
    known: Vec<Known>,
}

impl View {
    /// What of an entry's patterns must still be looked at; none if one of them surely does not match.
    pub fn rest(&self, matches: &[KeyMatch]) -> Option<Box<[KeyMatch]>> {
        rest(&self.known, matches).map(|rest| rest.into_iter().cloned().collect())
    }

    /// Entries that may match look at no other fields when the table holds these.
    pub fn holds(&self, entries: &[Arc<Entry>]) -> bool {
        columns(&self.known, entries).is_subset(&self.columns.iter().copied().collect())
    }
}

/// A table of which more is left where it is applied than can be part of the code, though not all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thinned {
    /// What the copy calls it. It is applied once.
    pub applied: TableId,
    /// The pipeline's table.
    pub table: TableId,
    /// Actions of entries that may match, as the pipeline has them, ascending; and of a miss, if entries have it.
    pub actions: Vec<ActionId>,
    /// The table has others.
    fewer_actions: bool,
    /// What of those entries matters.
    pub view: View,
}

impl Thinned {
    /// No other action of those that the table had can run when it holds these entries, best first.
    pub fn holds(&self, entries: &[Arc<Entry>]) -> bool {
        !self.fewer_actions
            || possible(&self.view.known, entries)
                .is_subset(&self.actions.iter().copied().collect())
    }
}

/// What there is of a table where it is applied.
pub(crate) enum Part {
    /// Little.
    Left(Residual),
    /// Not all that its entries do, or look at.
    Thinned(Thinned),
}

impl Part {
    /// A copy of the pipeline does there what another does not.
    pub(crate) fn tells_apart(&self) -> bool {
        match self {
            Part::Left(_) => true,
            Part::Thinned(thinned) => thinned.fewer_actions,
        }
    }
}

/// What there is of a table where this is known of the key. `first`: in the first copy, which is the pipeline as it
/// was; what is left of a table there becomes code if all of the table would.
pub(crate) fn part(
    applied: TableId,
    table: TableId,
    known: Vec<Known>,
    entries: &[Arc<Entry>],
    whole: &TableContents,
) -> Option<Part> {
    let first = applied == table;
    if (!first || entries.len() <= LEFT_MAX)
        && let Some(left) = left(&known, entries)
    {
        return Some(Part::Left(Residual { applied, table, left, known }));
    }
    // What a miss does stays: that it comes from misses alone is part of the code.
    let original = |id: ActionId| unroll::original_action(id);
    let default = original(whole.default.action);
    let possible = possible(&known, entries);
    let all = whole.actions.iter().map(|id| original(*id));
    let actions: Vec<ActionId> = all.filter(|id| *id == default || possible.contains(id)).collect();
    let mut columns: Vec<u16> = columns(&known, entries).into_iter().collect();
    if columns.is_empty() {
        // Nothing is left to look at, which is no lookup.
        columns.clone_from(&whole.columns);
    }
    let fewer_actions = actions.len() < whole.actions.len();
    let thinner = fewer_actions || columns.len() < whole.columns.len();
    let view = View { columns, known };
    thinner.then_some(Part::Thinned(Thinned { applied, table, actions, fewer_actions, view }))
}

/// What there is of a table's contents then.
pub(crate) fn contents_of(whole: &TableContents, part: &Part) -> TableContents {
    match part {
        Part::Left(residual) => contents(whole, residual),
        Part::Thinned(thinned) => {
            let copy = |id: &ActionId| unroll::beside(*id, whole.default.action);
            let actions = thinned.actions.iter().map(copy).collect();
            let columns = thinned.view.columns.clone();
            TableContents { actions, columns, ..whole.clone() }
        }
    }
}

impl Residual {
    /// What is left is the same when the table holds these entries, best first.
    pub fn holds(&self, entries: &[Arc<Entry>]) -> bool {
        left(&self.known, entries).is_some_and(|left| left == self.left)
    }
}

/// A copy's contents where only this is left of its table.
fn contents(whole: &TableContents, residual: &Residual) -> TableContents {
    // They are those of the copy, as the default is.
    let copy = |id: ActionId| unroll::beside(id, whole.default.action);
    let mut columns: Vec<u16> =
        residual.left.iter().flat_map(|l| l.matches.iter().map(|m| m.key)).collect();
    let mut actions: Vec<ActionId> = residual.left.iter().map(|l| copy(l.call.action)).collect();
    columns.sort_unstable();
    columns.dedup();
    actions.sort_unstable();
    actions.dedup();
    let first = residual.left.first().map(|l| &l.call);
    let only = first.filter(|call| residual.left.iter().all(|l| l.call == **call));
    let only = only.map(|call| ActionCall { action: copy(call.action), args: call.args.clone() });
    let (entries, default) = (residual.left.len(), whole.default.clone());
    TableContents { entries, columns, actions, only, default }
}

/// Contents of which only this is there of some tables.
pub(crate) fn narrowed(mut held: Contents, parts: &[Part]) -> Contents {
    for part in parts {
        let (Part::Left(Residual { applied, .. }) | Part::Thinned(Thinned { applied, .. })) = part;
        let table = &mut held.tables[applied.index()];
        *table = contents_of(table, part);
    }
    held
}

/// Patterns that are not decided; none if one of all surely does not match.
fn rest<'m>(known: &[Known], matches: &'m [KeyMatch]) -> Option<Vec<&'m KeyMatch>> {
    let mut rest = Vec::new();
    for m in matches {
        match known.get(usize::from(m.key)).and_then(|known| surely(&m.pattern, known)) {
            Some(true) => {}
            Some(false) => return None,
            None => rest.push(m),
        }
    }
    Some(rest)
}

/// Actions of the entries that may match.
fn possible(known: &[Known], entries: &[Arc<Entry>]) -> BTreeSet<ActionId> {
    let mut actions = BTreeSet::new();
    for entry in entries {
        let Some(rest) = rest(known, &entry.matches) else { continue };
        actions.insert(entry.action.action);
        if rest.is_empty() {
            break;
        }
    }
    actions
}

/// Fields that entries look at which may match, also behind one that surely does: it may be removed.
fn columns(known: &[Known], entries: &[Arc<Entry>]) -> BTreeSet<u16> {
    let left = entries.iter().filter_map(|entry| rest(known, &entry.matches));
    left.flatten().map(|m| m.key).collect()
}

/// The entries that are left, if they are few, by what is known of each field of the key.
fn left(known: &[Known], entries: &[Arc<Entry>]) -> Option<Vec<Left>> {
    let mut all = Vec::new();
    for entry in entries {
        let Some(rest) = rest(known, &entry.matches) else { continue };
        if all.len() == LEFT_MAX {
            return None;
        }
        let last = rest.is_empty();
        let matches = rest.into_iter().cloned().collect();
        all.push(Left { entry: entry.id, matches, call: entry.action.clone() });
        if last {
            break;
        }
    }
    Some(all)
}

/// Whether values of which this is known surely match, or surely do not.
pub fn surely(pattern: &Pattern, known: &Known) -> Option<bool> {
    if let Some(value) = known.constant() {
        return Some(pattern.matches(&value));
    }
    let under = |value: u128, mask: u128| {
        let wrong = known.zeros & value | known.ones & !value;
        match mask & wrong {
            0 => (mask & !(known.zeros | known.ones) == 0).then_some(true),
            _ => Some(false),
        }
    };
    let all = mask(known.width);
    match pattern {
        _ if all == 0 => None,
        Pattern::Exact(value) => under(value.low_u128(), all),
        Pattern::Masked(value, mask) => under(value.low_u128(), mask.low_u128()),
        Pattern::Prefix(value, length) => {
            let low = mask(known.width - (*length).min(known.width));
            under(value.low_u128(), all & !low)
        }
        Pattern::Range(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::testing::Rng;
    use ir::{ActionId, Bits};

    const WIDTH: u32 = 3;

    fn bits(value: u64) -> Bits {
        Bits::from_u128(value.into(), WIDTH)
    }

    fn pattern(rng: &mut Rng) -> Pattern {
        let value = rng.below(8) as u64;
        match rng.below(4) {
            0 => Pattern::Exact(bits(value)),
            1 => {
                let length = rng.below(4) as u32;
                let low = (1 << (WIDTH - length)) - 1;
                Pattern::Prefix(bits(value & !low), length)
            }
            2 => {
                let mask = rng.below(8) as u64;
                Pattern::Masked(bits(value & mask), bits(mask))
            }
            _ => Pattern::Range(bits(value.min(3)), bits(value.max(3))),
        }
    }

    #[test]
    fn what_is_left_answers_as_all_entries_do() {
        let mut rng = Rng::new(7);
        for _ in 0..2000 {
            let entries: Vec<Arc<Entry>> = (0..12)
                .map(|id| {
                    let matches = (0..2).filter(|_| !rng.one_in(4)).collect::<Vec<u16>>();
                    let matches =
                        matches.into_iter().map(|key| KeyMatch { key, pattern: pattern(&mut rng) });
                    Arc::new(Entry {
                        id: EntryId(id),
                        priority: -(id as i32),
                        matches: matches.collect(),
                        action: ActionCall::new(ActionId(id % 5)),
                        cookie: 0,
                        idle_timeout_ns: 0,
                        hard_timeout_ns: 0,
                    })
                })
                .collect();
            let mut fact = || {
                let (value, known) = (rng.below(8) as u128, rng.below(8) as u128);
                Known { width: WIDTH, zeros: !value & known, ones: value & known }
            };
            let facts = vec![fact(), fact()];
            let Some(left) = left(&facts, &entries) else { panic!("12 entries are few") };
            let possible = possible(&facts, &entries);
            let some = left.iter().map(|l| l.call.action).collect();
            assert_eq!(possible, some, "no more than what is left does");
            let columns = columns(&facts, &entries).into_iter().collect();
            let view = View { columns, known: facts.clone() };
            assert!(view.holds(&entries));
            for packet in 0..64u64 {
                let key = [bits(packet & 7), bits(packet >> 3)];
                let fits = |(value, known): (&Bits, &Known)| {
                    let value = value.low_u128();
                    value & known.zeros == 0 && value & known.ones == known.ones
                };
                if !key.iter().zip(&facts).all(fits) {
                    continue;
                }
                let whole = entries.iter().find(|e| e.matches(&key)).map(|e| e.id);
                let matches = |m: &KeyMatch| m.pattern.matches(&key[usize::from(m.key)]);
                let rest = left.iter().find(|l| l.matches.iter().all(matches)).map(|l| l.entry);
                assert_eq!(rest, whole, "{facts:?} {key:?}");
                let happens = whole.is_none_or(|id| possible.contains(&ActionId(id.0 % 5)));
                assert!(happens, "{facts:?} {key:?}");
                // The same by the fields of the view alone.
                let seen = entries.iter().find(|e| {
                    let rest = view.rest(&e.matches);
                    rest.is_some_and(|rest| {
                        rest.iter().all(|m| view.columns.contains(&m.key) && matches(m))
                    })
                });
                assert_eq!(seen.map(|e| e.id), whole, "{facts:?} {key:?}");
            }
        }
    }

    #[test]
    fn many_entries_are_not_narrowed() {
        let entry = |id: u32| Entry {
            id: EntryId(id),
            priority: 0,
            matches: [KeyMatch { key: 0, pattern: Pattern::Exact(bits(u64::from(id % 8))) }].into(),
            action: ActionCall::new(ActionId(0)),
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        };
        let entries: Vec<Arc<Entry>> = (0..17).map(|id| Arc::new(entry(id))).collect();
        assert!(left(&[Known::nothing(WIDTH)], &entries).is_none());
        let one = left(&[Known::value(5, WIDTH)], &entries).unwrap();
        assert_eq!(one.len(), 1, "the first one that surely matches ends the list");
    }
}
