//! References, and what entries have by them.

use crate::code::{Fault, fault};
use crate::proto::v1;
use crate::schema::Schema;
use crate::translation::Sdn;
use std::collections::{HashMap, HashSet};
use v1::field_match::FieldMatchType as F;
use v1::table_action::Type as A;

/// The annotation.
pub(super) const WORD: &str = "refers_to";
/// Multicast groups, as a table of their own; no table has this id.
pub(super) const MULTICAST: u32 = 0;

/// Fields that are referred to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(super) table: u32,
    /// Ids, ascending.
    pub(super) fields: Vec<u32>,
    /// In words.
    pub(super) told: String,
}

/// Fields or parameters that refer to a target's fields, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(super) from: Vec<u32>,
    pub(super) to: usize,
    /// In words.
    pub(super) told: String,
}

/// All references of a P4Info.
#[derive(Clone, Debug, Default)]
pub struct References {
    pub(super) targets: Vec<Target>,
    /// Targets by table.
    pub(super) of_table: HashMap<u32, Vec<usize>>,
    /// Of key fields, by table.
    pub(super) keys: HashMap<u32, Vec<Reference>>,
    /// Of parameters, by action.
    pub(super) params: HashMap<u32, Vec<Reference>>,
}

/// Values of a target's fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Point {
    target: usize,
    values: Vec<Vec<u8>>,
}

/// What something has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Had {
    /// By which it may be referred to.
    pub(super) has: Vec<Point>,
    /// To which it refers, and what of it does.
    pub(super) refers: Vec<(Point, String)>,
}

impl Had {
    /// Adds what another thing has.
    pub(super) fn extend(&mut self, other: Had) {
        self.has.extend(other.has);
        self.refers.extend(other.refers);
    }
}

/// A value as it is compared: numbers without zeros in front.
fn plain(sdn: &Sdn, bytes: &[u8]) -> Vec<u8> {
    if matches!(sdn, Sdn::Text(_)) {
        return bytes.to_vec();
    }
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    bytes[zeros.min(bytes.len().saturating_sub(1))..].to_vec()
}

impl References {
    /// There are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The table refers to something, or is referred to.
    pub(crate) fn concern(&self, schema: &Schema, table: u32) -> bool {
        let actions = || schema.tables.get(&table).map(|t| t.actions.keys());
        self.of_table.contains_key(&table)
            || self.keys.contains_key(&table)
            || actions().is_some_and(|mut all| all.any(|id| self.params.contains_key(id)))
    }

    /// What an entry has: what it may be referred to by, and what it refers to.
    pub(crate) fn had(&self, schema: &Schema, e: &v1::TableEntry) -> Had {
        let mut had = Had::default();
        let Some(t) = schema.tables.get(&e.table_id) else { return had };
        let value = |id: &u32| {
            let given = e.r#match.iter().find(|m| m.field_id == *id)?;
            let bytes = match &given.field_match_type {
                Some(F::Exact(m)) => &m.value,
                Some(F::Optional(m)) => &m.value,
                _ => return None,
            };
            let field = t.fields.iter().find(|f| f.id == *id)?;
            Some(plain(&field.sdn, bytes))
        };
        for target in self.of_table.get(&e.table_id).into_iter().flatten() {
            let values = self.targets[*target].fields.iter().map(value).collect();
            had.has.extend(Option::map(values, |values| Point { target: *target, values }));
        }
        for r in self.keys.get(&e.table_id).into_iter().flatten() {
            let values = r.from.iter().map(value).collect();
            let point = Option::map(values, |values| Point { target: r.to, values });
            had.refers.extend(point.map(|p| (p, r.told.clone())));
        }
        match e.action.as_ref().and_then(|a| a.r#type.as_ref()) {
            Some(A::Action(a)) => self.of_action(schema, a, &mut had),
            Some(A::ActionProfileActionSet(set)) => {
                let actions = set.action_profile_actions.iter().filter_map(|a| a.action.as_ref());
                let actions = actions.chain(&set.group_action);
                actions.for_each(|a| self.of_action(schema, a, &mut had));
            }
            _ => {}
        }
        had
    }

    /// What an action's arguments refer to.
    pub(crate) fn of_action(&self, schema: &Schema, a: &v1::Action, had: &mut Had) {
        for r in self.params.get(&a.action_id).into_iter().flatten() {
            let value = |id: &u32| {
                let given = a.params.iter().find(|p| p.param_id == *id)?;
                let action = schema.actions.get(&a.action_id)?;
                let param = action.params.iter().find(|p| p.id == *id)?;
                Some(plain(&param.sdn, &given.value))
            };
            let values = r.from.iter().map(value).collect();
            let point = Option::map(values, |values| Point { target: r.to, values });
            had.refers.extend(point.map(|p| (p, r.told.clone())));
        }
    }

    /// Actions refer to something.
    pub(crate) fn of_actions(&self) -> bool {
        !self.params.is_empty()
    }

    /// Multicast groups are referred to.
    pub(crate) fn to_groups(&self) -> bool {
        self.of_table.contains_key(&MULTICAST)
    }

    /// A multicast group as what may be referred to.
    pub(crate) fn of_group(&self, id: u32) -> Had {
        let targets = self.of_table.get(&MULTICAST).into_iter().flatten();
        let values = vec![plain(&Sdn::Plain, &id.to_be_bytes())];
        let has = targets.map(|target| Point { target: *target, values: values.clone() });
        Had { has: has.collect(), refers: Vec::new() }
    }

    /// A point in words.
    pub(super) fn told(&self, point: &Point) -> String {
        let target = &self.targets[point.target];
        let value = |bytes: &Vec<u8>| match std::str::from_utf8(bytes) {
            Ok(text) if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) => {
                format!("\"{text}\"")
            }
            _ => {
                let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                format!("0x{digits}")
            }
        };
        let values: Vec<String> = point.values.iter().map(value).collect();
        format!("{} = {}", target.told, values.join(", "))
    }
}

/// What the program's own entries refer to is among them.
pub(crate) fn own_refer(
    refs: &References,
    schema: &Schema,
    own: &[v1::TableEntry],
) -> Result<(), Fault> {
    let all: Vec<Had> = own.iter().map(|e| refs.had(schema, e)).collect();
    let there: HashSet<&Point> = all.iter().flat_map(|had| &had.has).collect();
    match all.iter().flat_map(|had| &had.refers).find(|(point, _)| !there.contains(point)) {
        None => Ok(()),
        Some((point, at)) => Err(fault!(
            InvalidArgument,
            "{at}: an entry of the program refers to {}, which is not there",
            refs.told(point)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_without_zeros_in_front() {
        let plain = |bytes: &[u8]| plain(&Sdn::Plain, bytes);
        assert_eq!(plain(&[0, 0, 7]), [7]);
        assert_eq!(plain(&[0, 0]), [0]);
        assert_eq!(plain(&[1, 0]), [1, 0]);
        assert!(plain(&[]).is_empty());
    }
}
