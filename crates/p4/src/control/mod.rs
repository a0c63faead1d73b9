//! A lowered program under control: entries, groups and sessions by the names that a person uses.
//!
//! In: names, keys and values as text. Out: [`Update`]s, each checked by the pipeline before it is
//! handed on. It keeps the pipeline as it then is; engines follow the updates. STF files and the
//! text form of entries ([`commands`](crate::commands)) are both written in its terms.
//!
//! | module | holds |
//! |---|---|
//! | [`value`] | numbers, addresses and patterns as text |
//! | `calculations` | CRCs whose parameters change |
//! | `change`, `guard` | what is to be changed, and who is asked before |
//! | `multicast` | groups, nodes, mirroring sessions |
//! | [`profiles`] | action profiles and selectors: members and their groups |
//! | `swap` | another program in place of this one, with what was put in |
//! | `typed` | entries and defaults with values in place of texts |
//! | [`refused`] | why something is not done |
//!
//! Ids of entries come from whoever counts ([`Ids`]), as each is the index of a counter. *Handles*
//! are for people: entries of a table count from 0 in the order in which they came, as in bmv2.

mod calculations;
mod change;
mod guard;
mod indirect;
pub mod multicast;
pub mod profiles;
pub mod refused;
mod swap;
mod typed;
pub mod value;

pub use change::{Change, Guard};
pub use indirect::Does;
pub use refused::{Kind, Refused};
pub use swap::Carried;
pub use typed::{Kept, Note, normal};

use crate::lower::Lowered;
use crate::lower::names::{ActionName, Names, TableName, find};
use hashbrown::{HashMap, HashSet};
use indirect::{Multicast, Profiles};
use ir::program::MatchKind;
use ir::{
    ActionCall, Bits, CounterId, Entry, EntryId, IdMap, KeyMatch, MeterId, Pattern, Pipeline,
    TableId, Update,
};
use refused::no;
use std::collections::{BTreeMap, HashSet as StdHashSet};
use std::sync::Arc;
use value::{pattern, value};

/// Gives out ids of entries that are not in use; each is the index of a counter at zero.
pub type Ids = Box<dyn FnMut() -> Result<u32, String> + Send>;

/// A key or an argument as written, with its name if that is written.
pub type Written = (Option<String>, String);

/// Entries of a table by handle.
#[derive(Clone, Debug, Default)]
struct Handles {
    next: u32,
    by_handle: BTreeMap<u32, EntryId>,
    of_entry: IdMap<u32>,
}

impl Handles {
    fn insert(&mut self, entry: EntryId) {
        self.by_handle.insert(self.next, entry);
        self.of_entry.insert(entry.0, self.next);
        self.next += 1;
    }

    fn remove(&mut self, entry: EntryId) {
        if let Some(handle) = self.of_entry.remove(entry.0) {
            self.by_handle.remove(&handle);
        }
    }
}

/// A program with what is put into it.
pub struct Control {
    /// The program's names.
    pub names: Names,
    /// The pipeline as it is.
    pub pipeline: Pipeline,
    /// Ids that nothing in the pipeline has any more, for whoever gave them out.
    pub retired: Vec<u32>,
    ids: Ids,
    /// What all groups and buckets count with: nothing asks.
    group_counter: CounterId,
    handles: BTreeMap<TableId, Handles>,
    /// Entries that the program itself has.
    own: HashSet<EntryId>,
    multicast: Multicast,
    profiles: Profiles,
    /// Ports that are down.
    down: StdHashSet<u32>,
    /// What the control plane wants kept beside entries.
    notes: HashMap<EntryId, Note>,
    /// Places in `names.tables`, by the table's number.
    by_table: Vec<Option<usize>>,
    /// Ids given out since all was kept, while it is.
    issued: Option<Vec<u32>>,
    /// Who is asked before something changes, if anybody is.
    guard: Option<Box<dyn Guard<Control>>>,
}

/// The meter of what has none: it never gets rates, so it is green.
const METER_NONE: MeterId = MeterId(u32::MAX);

pub use crate::lower::names::default_meter_of;

/// The meter of an entry.
pub fn meter_of(entry: EntryId) -> MeterId {
    MeterId(0x8000_0000 | entry.0)
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Keys that a lookup needs priorities for.
pub fn prioritised(table: &TableName) -> bool {
    use MatchKind as M;
    table.keys.iter().any(|k| matches!(k.kind, M::Ternary | M::Range | M::Optional))
}

/// What is there in place of a name that is not: the nearest known one, or all if they are few. A name
/// may stand for what ends in it, so the last parts of names are compared, too.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = known.collect();
    let ends = all.iter().filter_map(|n| n.rsplit('.').next());
    let near = crate::diag::nearest(name, all.iter().copied())
        .or_else(|| crate::diag::nearest(name, ends));
    match near {
        Some(near) => format!("; the nearest is `{near}`"),
        None if all.is_empty() => "; the program has none".to_string(),
        None if all.len() <= 16 => format!("; there are {}", all.join(", ")),
        None => String::new(),
    }
}

impl Control {
    /// A program with its own entries. Ids count from 0.
    pub fn new(lowered: Lowered) -> Result<Control, Refused> {
        let mut next = 0;
        let ids = move || {
            let id = next;
            next += 1;
            Ok(id)
        };
        Control::with_ids(lowered, Box::new(ids))
    }

    /// A program with its own entries. What brings an engine there that has the program alone is
    /// [`Pipeline::contents`].
    pub fn with_ids(lowered: Lowered, mut ids: Ids) -> Result<Control, Refused> {
        let pipeline = Pipeline::new(Arc::new(lowered.program)).map_err(|e| no!(Invalid, "{e}"))?;
        let mut control = Control {
            names: lowered.names,
            pipeline,
            retired: Vec::new(),
            group_counter: CounterId(ids().map_err(|e| no!(Full, "{e}"))?),
            ids,
            handles: BTreeMap::new(),
            own: HashSet::new(),
            multicast: Multicast::default(),
            profiles: Profiles::default(),
            down: StdHashSet::new(),
            notes: HashMap::new(),
            by_table: Vec::new(),
            issued: None,
            guard: None,
        };
        control.index();
        control.own_entries(lowered.entries)?;
        Ok(control)
    }

    /// A fresh id.
    fn id(&mut self) -> Result<u32, Refused> {
        let id = (self.ids)().map_err(|e| no!(Full, "{e}"))?;
        self.issued.iter_mut().for_each(|all| all.push(id));
        Ok(id)
    }

    /// Notes where each table's names are.
    fn index(&mut self) {
        self.by_table = vec![None; self.pipeline.program().tables.len()];
        for (i, t) in self.names.tables.iter().enumerate() {
            if let Some(at) = self.by_table.get_mut(t.id.index()) {
                *at = Some(i);
            }
        }
    }

    /// The names of a table.
    pub fn named(&self, table: TableId) -> Option<&TableName> {
        self.by_table.get(table.index())?.and_then(|i| self.names.tables.get(i))
    }

    /// The program's own entries; what was done.
    fn own_entries(&mut self, entries: Vec<(TableId, Entry)>) -> Result<Vec<Update>, Refused> {
        let mut updates = Vec::new();
        for (table, mut entry) in entries {
            for m in &mut entry.matches {
                if let Some(t) = self.named(table)
                    && let Some(key) = t.keys.get(usize::from(m.key))
                {
                    m.pattern = normal(m.pattern.clone(), key.kind);
                }
            }
            let id = EntryId(self.id()?);
            // What stands for the entry's meter becomes its number.
            let t = self.named(table);
            let mut action = entry.action.clone();
            if let Some(arg) = t.and_then(|t| Self::meter_arg(t, action.action, meter_of(id))) {
                action.args.pop();
                action.args.push(arg);
            }
            let update = Update::Insert(table, Arc::new(Entry { id, action, ..entry }));
            // The first of two equal entries wins; the second is never reached.
            if self.pipeline.transact(std::slice::from_ref(&update)).is_ok() {
                self.own.insert(id);
                self.handles.entry(table).or_default().insert(id);
                updates.push(update);
            } else {
                self.retired.push(id.0);
            }
        }
        Ok(updates)
    }

    fn commit(&mut self, updates: Vec<Update>) -> Result<Vec<Update>, Refused> {
        if updates.is_empty() {
            return Ok(updates);
        }
        match self.pipeline.transact(&updates) {
            Ok(_) => Ok(updates),
            Err((_, e)) => Err(e.into()),
        }
    }

    /// The table with this name.
    pub fn table(&self, name: &str) -> Result<&TableName, Refused> {
        self.names.table(name).ok_or_else(|| {
            let known = self.names.tables.iter().map(|t| t.name.as_str());
            no!(NotFound, "there is no table `{name}`{}", nearest(name, known))
        })
    }

    /// The table with this name, whose entries the control plane may change.
    fn writable(&self, name: &str) -> Result<&TableName, Refused> {
        let t = self.table(name)?;
        Self::may_change(t).map(|()| t)
    }

    fn may_change(t: &TableName) -> Result<(), Refused> {
        match t.entries_const {
            true => Err(no!(
                Denied,
                "the table `{}` has const entries, which only the program changes; write `entries` in place of `const entries`",
                t.name
            )),
            false => Ok(()),
        }
    }

    fn with_meter(t: &TableName, mut call: ActionCall, meter: MeterId) -> ActionCall {
        call.args.extend(Self::meter_arg(t, call.action, meter));
        call
    }

    /// What a table's default action calls for this: it has the default's meter, and is counted.
    fn as_default(t: &TableName, call: ActionCall) -> ActionCall {
        let call = Self::with_meter(t, call, default_meter_of(t.id));
        ActionCall { action: t.as_default(call.action), ..call }
    }

    /// A table's default action, as whoever set it called it.
    pub fn default_of(&self, table: TableId) -> ActionCall {
        let call = self.pipeline.entries(table).default().clone();
        let action = self.named(table).map_or(call.action, |t| t.of_default(call.action));
        ActionCall { action, ..call }
    }

    /// The number of the entry's meter, if the action takes it after its parameters.
    fn meter_arg(t: &TableName, action: ir::ActionId, meter: MeterId) -> Option<Bits> {
        let a = Self::action_of(t, action).filter(|a| a.metered)?;
        let meter = if a.asks_own { meter } else { METER_NONE };
        Some(Bits::from_u128(meter.0.into(), 32))
    }

    fn action<'t>(table: &'t TableName, name: &str) -> Result<&'t ActionName, String> {
        table.action(name).ok_or_else(|| {
            let known: Vec<&str> = table.actions.iter().map(|a| a.name.as_str()).collect();
            format!(
                "the table `{}` has no action `{name}`; it has {}",
                table.name,
                known.join(", ")
            )
        })
    }

    fn call(table: &TableName, action: &str, args: &[Written]) -> Result<ActionCall, String> {
        let a = Self::action(table, action)?;
        if args.len() != a.params.len() {
            let params: Vec<String> =
                a.params.iter().map(|(p, w)| format!("{p} ({w} bits)")).collect();
            return Err(format!(
                "`{}` takes {} arguments, not {}: {}",
                a.name,
                a.params.len(),
                args.len(),
                if params.is_empty() { "it has no parameters".into() } else { params.join(", ") }
            ));
        }
        let mut values: Vec<Option<Bits>> = vec![None; a.params.len()];
        for (i, (name, text)) in args.iter().enumerate() {
            let at = match name {
                Some(n) => a
                    .params
                    .iter()
                    .position(|(p, _)| p == n)
                    .ok_or_else(|| format!("`{}` has no parameter `{n}`", a.name))?,
                None => i,
            };
            let (param, width) = &a.params[at];
            let v = value(text, *width)
                .map_err(|e| format!("`{}`, parameter `{param}`: {e}", a.name))?;
            values[at] = Some(v);
        }
        let values: Option<Vec<Bits>> = values.into_iter().collect();
        let values = values.ok_or_else(|| format!("`{}`: an argument is given twice", a.name))?;
        Ok(ActionCall::with(a.id, values))
    }

    /// What the keys of an entry must look like, from their texts.
    pub(crate) fn matches(t: &TableName, keys: &[Written]) -> Result<Box<[KeyMatch]>, String> {
        let mut patterns: Vec<Option<Option<Pattern>>> = vec![None; t.keys.len()];
        for (i, (name, text)) in keys.iter().enumerate() {
            let at = match name {
                Some(n) => Self::key(t, n, i)?,
                None if i < t.keys.len() => i,
                None => {
                    return Err(format!(
                        "the table `{}` has {} keys, not {}",
                        t.name,
                        t.keys.len(),
                        keys.len()
                    ));
                }
            };
            patterns[at] = Some(
                pattern(text, &t.keys[at]).map_err(|e| format!("the table `{}`: {e}", t.name))?,
            );
        }
        let mut matches = Vec::new();
        for (i, p) in patterns.into_iter().enumerate() {
            match p {
                Some(Some(pattern)) => {
                    let pattern = normal(pattern, t.keys[i].kind);
                    matches.push(KeyMatch { key: i as u16, pattern });
                }
                None if t.keys[i].kind == MatchKind::Exact => {
                    return Err(format!("the key `{}` is exact and needs a value", t.keys[i].name));
                }
                Some(None) | None => {}
            }
        }
        Ok(matches.into())
    }

    /// A table without keys has only its default action (§14.2.1.1).
    fn has_keys(t: &TableName) -> Result<(), Refused> {
        match t.keyless {
            true => Err(no!(
                Invalid,
                "the table `{}` has no keys, so it holds no entries; set its default action",
                t.name
            )),
            false => Ok(()),
        }
    }

    /// Adds an entry; its id, too. Higher priorities win.
    pub fn add(
        &mut self,
        table: &str,
        keys: &[Written],
        priority: i32,
        action: &str,
        args: &[Written],
    ) -> Result<(EntryId, Vec<Update>), Refused> {
        let t = self.writable(table)?;
        Self::has_keys(t)?;
        let (table, matches) = (t.id, Self::matches(t, keys)?);
        let action = Self::call(t, action, args)?;
        let mut updates = Vec::new();
        let does = Does::Action(action);
        let id = self.entry_insert(table, matches, priority, does, 0, &mut updates)?;
        Ok((id, updates))
    }

    /// Gives an entry another action.
    pub fn modify(
        &mut self,
        table: &str,
        entry: EntryId,
        action: &str,
        args: &[Written],
    ) -> Result<Vec<Update>, Refused> {
        let t = self.writable(table)?;
        let (id, action) = (t.id, Self::call(t, action, args)?);
        let idle_ns = self.held(id, entry)?.idle_timeout_ns;
        self.entry_set(id, entry, Does::Action(action), idle_ns)
    }

    /// The entry of a table.
    fn held(&self, table: TableId, entry: EntryId) -> Result<Arc<Entry>, Refused> {
        let held = self.pipeline.entries(table).get(entry).cloned();
        held.ok_or_else(|| {
            let name = self.named(table).map_or("", |t| &t.name);
            no!(NotFound, "the table `{name}` has no such entry")
        })
    }

    /// Lets an entry be told of when no packet has matched it for so long; 0 ends that.
    pub fn set_timeout(
        &mut self,
        table: &str,
        entry: EntryId,
        idle_ns: u64,
    ) -> Result<Vec<Update>, Refused> {
        let t = self.table(table)?;
        Self::may_time_out(t, idle_ns)?;
        let id = t.id;
        let old = self.held(id, entry)?;
        let new = Arc::new(Entry { idle_timeout_ns: idle_ns, ..(*old).clone() });
        self.commit(vec![Update::Modify(id, new)])
    }

    fn may_time_out(t: &TableName, idle_ns: u64) -> Result<(), Refused> {
        match idle_ns > 0 && !t.timeouts {
            true => Err(no!(
                Invalid,
                "entries of the table `{}` have no timeouts: it lacks `support_timeout = true`",
                t.name
            )),
            false => Ok(()),
        }
    }

    /// An entry that no packet has matched for as long as its timeout says: its table's full name and its
    /// handle, and the update that has it told of again after as long. Nothing if it is gone.
    pub fn idle(&self, table: TableId, entry: EntryId) -> Option<(&str, u32, Update)> {
        let t = self.names.tables.iter().find(|t| t.id == table)?;
        let same = self.pipeline.entries(table).get(entry)?.clone();
        Some((t.name.as_str(), self.handle(table, entry)?, Update::Modify(table, same)))
    }

    /// The entry with a handle.
    pub fn entry(&self, table: &str, handle: u32) -> Result<(TableId, EntryId), Refused> {
        let t = self.table(table)?;
        let handles = self.handles.get(&t.id);
        let entry = handles.and_then(|h| h.by_handle.get(&handle)).copied();
        entry.map(|e| (t.id, e)).ok_or_else(|| {
            let next = handles.map_or(0, |h| h.next);
            let why = if handle < next { "it was deleted" } else { "it was never given" };
            no!(NotFound, "the table `{}` has no entry with the handle {handle}: {why}", t.name)
        })
    }

    /// The handle of an entry.
    pub fn handle(&self, table: TableId, entry: EntryId) -> Option<u32> {
        self.handles.get(&table)?.of_entry.get(entry.0).copied()
    }

    /// The entries of a table in the order of their handles.
    pub fn handles(&self, table: TableId) -> impl Iterator<Item = (u32, EntryId)> + '_ {
        self.handles.get(&table).into_iter().flat_map(|h| h.by_handle.iter().map(|(n, e)| (*n, *e)))
    }

    /// What a table calls an action.
    pub fn action_of(table: &TableName, action: ir::ActionId) -> Option<&ActionName> {
        table.actions.iter().find(|a| a.id == action)
    }

    /// The key that a name means: itself, an end of it, or one that it ends with.
    fn key(t: &TableName, name: &str, position: usize) -> Result<usize, String> {
        let plain = {
            let mut out = String::new();
            let mut chars = name.chars().peekable();
            while let Some(c) = chars.next() {
                if c == '$' {
                    out.push('[');
                    while let Some(d) = chars.next_if(char::is_ascii_digit) {
                        out.push(d);
                    }
                    out.push(']');
                } else {
                    out.push(c);
                }
            }
            out
        };
        let names: Vec<(usize, &str)> =
            t.keys.iter().enumerate().map(|(i, k)| (i, k.name.as_str())).collect();
        if let Some((i, _)) = find(&names, |n| n.1, &plain) {
            return Ok(*i);
        }
        // P4-14's `valid(h)` is called as the header.
        let valid: Vec<(usize, &str)> =
            names.iter().filter_map(|(i, n)| Some((*i, n.strip_suffix(".isValid()")?))).collect();
        if let Some((i, _)) = find(&valid, |n| n.1, &plain) {
            return Ok(*i);
        }
        // Slices and validity as other tools spell them.
        let squeeze = |s: &str| s.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>();
        let same: Vec<usize> = names
            .iter()
            .filter(|(_, n)| {
                let (a, b) = (squeeze(n), squeeze(&plain));
                a.ends_with(&b) || b.ends_with(&a) || a.replace("isValid", "valid").ends_with(&b)
            })
            .map(|(i, _)| *i)
            .collect();
        match same.as_slice() {
            [one] => Ok(*one),
            _ if names.len() == 1 && position == 0 => Ok(0),
            _ => {
                let known: Vec<&str> = names.iter().map(|n| n.1).collect();
                Err(format!(
                    "the table `{}` has no key `{name}`; it has {}",
                    t.name,
                    known.join(", ")
                ))
            }
        }
    }

    /// Sets a table's default action.
    pub fn set_default(
        &mut self,
        table: &str,
        action: &str,
        args: &[Written],
    ) -> Result<Vec<Update>, Refused> {
        let t = self.table(table)?;
        let (id, call) = (t.id, Self::call(t, action, args)?);
        self.default_set(id, Does::Action(call))
    }

    /// Sets a table's default action to what the program says.
    pub fn reset_default(&mut self, table: &str) -> Result<Vec<Update>, Refused> {
        let id = self.table(table)?.id;
        self.default_reset(id)
    }

    /// What takes away an entry's meter, if it has rates.
    fn without_meter(&self, entry: EntryId) -> Option<Update> {
        let meter = meter_of(entry);
        self.pipeline.meter(meter).map(|_| Update::RemoveMeter(meter))
    }

    /// Removes an entry.
    pub fn remove(&mut self, table: TableId, entry: EntryId) -> Result<Vec<Update>, Refused> {
        if self.guard.is_some() {
            let change = Change::Remove { table, entry };
            return self.guarded(&change, |c| c.remove(table, entry));
        }
        if let Some(t) = self.named(table) {
            Self::may_change(t)?;
        }
        let meter = self.without_meter(entry);
        let updates = [Update::Delete(table, entry)].into_iter().chain(meter).collect();
        let mut updates = self.commit(updates)?;
        updates.extend(self.forget(table, entry)?);
        Ok(updates)
    }

    /// Removes all entries of a table.
    pub fn clear(&mut self, table: &str) -> Result<Vec<Update>, Refused> {
        let id = self.writable(table)?.id;
        if self.guard.is_some() {
            return self.guarded(&Change::Clear { table: id }, |c| c.clear(table));
        }
        let entries: Vec<EntryId> = self.pipeline.entries(id).iter().map(|e| e.id).collect();
        let meters = entries.iter().filter_map(|e| self.without_meter(*e));
        let updates = [Update::Clear(id)].into_iter().chain(meters).collect();
        let mut updates = self.commit(updates)?;
        for entry in entries {
            updates.extend(self.forget(id, entry)?);
        }
        Ok(updates)
    }

    fn forget(&mut self, table: TableId, entry: EntryId) -> Result<Vec<Update>, Refused> {
        if let Some(handles) = self.handles.get_mut(&table) {
            handles.remove(entry);
        }
        self.own.remove(&entry);
        self.notes.remove(&entry);
        self.retired.push(entry.0);
        self.forget_referred(table, Some(entry))
    }

    /// Sets the members of a value set.
    pub fn set_value_set(
        &mut self,
        set: ir::ValueSetId,
        members: Vec<ir::program::Select>,
    ) -> Result<Vec<Update>, Refused> {
        self.commit(vec![Update::SetValueSet(set, members)])
    }

    /// Sets a meter.
    pub fn set_meter(
        &mut self,
        meter: ir::MeterId,
        config: ir::Meter,
    ) -> Result<Vec<Update>, Refused> {
        self.commit(vec![Update::SetMeter(meter, Arc::new(config))])
    }

    /// Makes a meter green.
    pub fn remove_meter(&mut self, meter: ir::MeterId) -> Result<Vec<Update>, Refused> {
        self.commit(vec![Update::RemoveMeter(meter)])
    }
}
