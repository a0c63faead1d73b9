//! Plain entries inserted as they come: match fields, a priority and an action, and nothing else to be looked at.
//!
//! What an entry must keep to is what [`table`](super::table) says, by the same functions. Whatever asks for more than that, or
//! is refused, is left to [`table`](super::table), which begins anew and says why. So a refusal costs twice, and order and words
//! of errors are its own.
//!
//! Invariants: an entry that is left alone has changed nothing but which ids are in use.
//! Cost: an insert into the program's control; tables and actions are looked up when they change.
//! Checked by: `tests/model`; `tests/entities`.

use super::shared::Writing;
use super::table;
use super::values::{args, key};
use crate::schema::{Action, Schema, Table};
use crate::wire::Plain;
use ir::{ActionCall, ActionId};
use p4::control::{Does, Note};
use v1::update::Type;

use crate::proto::v1;

/// An action that entries of a table may have.
type Used<'s> = Option<(ActionId, &'s Action)>;

/// What the last entry was looked up in.
#[derive(Default)]
pub(crate) struct Known<'s> {
    /// The table with this id, if plain entries may be inserted there.
    table: Option<(u32, Option<&'s Table>)>,
    /// The action with this id, as entries of the table may have it.
    action: Option<(u32, u32, Used<'s>)>,
}

impl<'s> Known<'s> {
    fn table(&mut self, w: &Writing<'s>, id: u32) -> Option<&'s Table> {
        if let Some((of, table)) = self.table
            && of == id
        {
            return table;
        }
        let table = table::table_of(w.schema, id).ok().filter(|t| {
            let simple = !t.is_const && !t.fields.is_empty() && t.restriction.is_none();
            // With these there is more to be looked at, even of an entry that says nothing about it.
            let more = t.meter.is_some() || t.profile.is_some();
            simple && !more && w.schema.allows(w.role, id) && w.rights.allow(id)
        });
        self.table = Some((id, table));
        table
    }

    fn action(&mut self, schema: &'s Schema, t: &Table, id: u32) -> Used<'s> {
        if let Some((table, of, action)) = self.action
            && (table, of) == (t.id, id)
        {
            return action;
        }
        let used = t.actions.get(&id).filter(|used| used.in_entries);
        let action = used.and_then(|used| Some((used.action, schema.actions.get(&id)?)));
        self.action = Some((t.id, id, action));
        action
    }
}

/// Inserts an entry; false if that is not done here.
pub(crate) fn insert<'s>(w: &mut Writing<'s>, known: &mut Known<'s>, e: &Plain<'_>) -> bool {
    // What refers to others is looked at before and after.
    if e.kind != Type::Insert as i32 || w.references.is_some() {
        return false;
    }
    try_insert(w, known, e).is_some()
}

fn try_insert<'s>(w: &mut Writing<'s>, known: &mut Known<'s>, e: &Plain<'_>) -> Option<()> {
    let t = known.table(w, e.table_id)?;
    let matches = key(t, e.matches.iter().copied(), e.priority).ok()?;
    let (id, action) = known.action(w.schema, t, e.action_id)?;
    let args = args(format_args!(""), action, e.params.iter().copied()).ok()?;
    let does = Does::Action(ActionCall { action: id, args });
    let done = w.control.entry_insert(t.table, matches, e.priority, does, 0, &mut w.updates);
    let id = done.ok()?;
    if t.timeouts {
        w.control.set_note(id, Note { since_ns: w.now_ns.max(1), ..Note::default() });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compile;
    use crate::role::Rights;
    use crate::wire::Match;
    use p4::control::Control;
    use p4::limits::Limits;
    use std::collections::BTreeMap;

    /// What is done here, and what is left alone with nothing changed.
    #[test]
    fn plain_entries_are_inserted_and_all_else_is_left_alone() {
        let built = compile(include_str!("../../tests/model/program.p4"), Limits::default());
        let built = built.map_err(|e| e.text).unwrap();
        let mut control = Control::new(built.lowered).unwrap();
        let schema = Schema::bind(&built.info, &control.names, control.pipeline.program()).unwrap();
        let table = |name: &str| schema.tables.values().find(|t| t.name == name).unwrap();
        let action = |name: &str| *schema.actions.iter().find(|(_, a)| a.name == name).unwrap().0;
        let (go, drop) = (action("I.go"), action("I.drop"));
        let rights = Rights::default();
        let mut w = Writing {
            schema: &schema,
            control: &mut control,
            digests: &mut BTreeMap::new(),
            references: None,
            role: "",
            rights: &rights,
            now_ns: 7,
            updates: Vec::new(),
            effects: Vec::new(),
        };
        let mut known = Known::default();
        let one: &[(u32, &[u8])] = &[(1, &[5])];
        let exact = |a: &'static [u8]| [(1, Match::Exact(a)), (2, Match::Exact(&[1]))];
        let longest = [(1, Match::Lpm(&[10, 0, 0, 0], 8))];
        let many = [(1, Match::Ternary(&[4], &[4])), (3, Match::Optional(&[0]))];
        let small = [(1, Match::Exact(&[9]))];
        let kind = Type::Insert as i32;
        for (name, matches, priority, action_id, params, kind, done) in [
            ("I.exactly", &exact(&[1])[..], 0, go, one, kind, true),
            // It is there.
            ("I.exactly", &exact(&[1]), 0, drop, &[], kind, false),
            ("I.exactly", &exact(&[2]), 0, drop, &[], kind, true),
            ("I.exactly", &exact(&[3]), 0, drop, one, kind, false),
            ("I.exactly", &exact(&[3]), 0, go, one, Type::Modify as i32, false),
            ("I.exactly", &exact(&[3]), 4, go, one, kind, false),
            ("I.exactly", &exact(&[3])[..1], 0, go, one, kind, false),
            ("I.exactly", &exact(&[1, 0, 0, 0, 0]), 0, go, one, kind, false),
            ("I.longest", &longest, 0, go, one, kind, true),
            // It is for the default action only.
            ("I.longest", &[], 0, drop, &[], kind, false),
            ("I.many", &many, 3, drop, &[], kind, true),
            ("I.many", &many, 0, drop, &[], kind, false),
            // A meter, a profile, constant entries.
            ("I.slow", &small, 0, drop, &[], kind, false),
            ("I.spread", &small, 0, drop, &[], kind, false),
            ("I.fixed", &small, 0, go, one, kind, false),
        ] {
            let table_id = table(name).id;
            let before = w.updates.len();
            let held = w.control.pipeline.entries(table(name).table).len();
            let e = Plain { kind, table_id, matches, priority, action_id, params };
            assert_eq!(insert(&mut w, &mut known, &e), done, "{e:?}");
            let after = (w.updates.len(), w.control.pipeline.entries(table(name).table).len());
            assert_eq!(after, (before + usize::from(done), held + usize::from(done)), "{e:?}");
        }
        // Another role's table.
        w.role = "other";
        let rights = Rights::new(None, [table("I.longest").id].into());
        w.rights = &rights;
        let id = table("I.longest").id;
        let matches = &[(1, Match::Lpm(&[11, 0, 0, 0], 8))];
        let priority = 0;
        let e = Plain { kind, table_id: id, matches, priority, action_id: go, params: one };
        assert!(!insert(&mut w, &mut Known::default(), &e));
    }
}
