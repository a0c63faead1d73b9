//! Action profiles and selectors: members and groups that entries of tables refer to.
//!
//! A *member* is an action with its arguments, a *group* is a set of members. An entry with a member has
//! the member's action; an entry with a group has the table's group action ([`Selector`]), which finds
//! the place that the packet's hash falls on, and a second table has each member's action by group and
//! place. Members of a group stand in the order of their handles, as in bmv2. A member that changes
//! changes all entries and places that have it, in one transaction.
//!
//! Handles of members and groups count from 0 in each profile.

pub use super::indirect::{Member, Refers};

use super::indirect::{Profile, Profiles};
use super::{Control, METER_NONE, Written};
use crate::lower::names::{ProfileName, Selector, TableName, find};
use ir::{ActionCall, Bits, Entry, EntryId, KeyMatch, Pattern, TableId, Update};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Control {
    /// The profile with this name.
    pub fn profile(&self, name: &str) -> Result<&ProfileName, String> {
        find(&self.names.profiles, |p| &p.name, name).ok_or_else(|| {
            let known = self.names.profiles.iter().map(|p| p.name.as_str());
            format!("there is no action profile `{name}`{}", super::nearest(name, known))
        })
    }

    fn selector(&self, name: &str) -> Result<&ProfileName, String> {
        let p = self.profile(name)?;
        match p.selector {
            true => Ok(p),
            false => Err(format!("`{}` is an action profile, which has no groups", p.name)),
        }
    }

    fn state(&mut self, profile: &str) -> &mut Profile {
        self.profiles.by_name.entry(profile.to_string()).or_default()
    }

    fn known(&self, profile: &str) -> Profile {
        self.profiles.by_name.get(profile).cloned().unwrap_or_default()
    }

    /// The tables of a profile.
    fn tables_of(&self, p: &ProfileName) -> Vec<TableName> {
        self.names.tables.iter().filter(|t| p.tables.contains(&t.id)).cloned().collect()
    }

    /// The profile that a table's entries refer to.
    fn profile_of(&self, t: &TableName) -> Result<ProfileName, String> {
        let p = t.profile.and_then(|n| self.names.profiles.get(n));
        p.cloned().ok_or_else(|| {
            format!("the table `{}` has no action profile: its entries have actions", t.name)
        })
    }

    /// What an action of a table is called, and its arguments, as a member has them.
    fn member_from(
        &self,
        p: &ProfileName,
        action: &str,
        args: &[Written],
    ) -> Result<Member, String> {
        let tables = self.tables_of(p);
        let Some(t) = tables.first() else {
            return Err(format!("no table refers to `{}`", p.name));
        };
        let call = Self::call(t, action, args)?;
        let name = Self::action_of(t, call.action).map(|a| a.name.clone()).unwrap_or_default();
        Ok(Member { action: name, args: call.args.to_vec() })
    }

    /// A member's action as a table has it.
    fn member_call(t: &TableName, member: &Member) -> Result<ActionCall, String> {
        let a = t.actions.iter().find(|a| a.name == member.action);
        let a = a
            .filter(|a| a.params.len() == member.args.len())
            .ok_or_else(|| format!("the table `{}` has no action `{}`", t.name, member.action))?;
        Ok(ActionCall::with(a.id, member.args.iter().cloned()))
    }

    /// The action of an entry that refers to a member or group.
    fn indirect_call(&self, t: &TableName, refers: Refers) -> Result<ActionCall, String> {
        let p = self.profile_of(t)?;
        let profile = self.known(&p.name);
        match refers {
            Refers::Member(m) => {
                let member = profile.members.get(&m);
                let member = member.ok_or_else(|| format!("`{}` has no member {m}", p.name))?;
                Self::member_call(t, member)
            }
            Refers::Group(g) => {
                let members = profile.groups.get(&g);
                let members = members.ok_or_else(|| format!("`{}` has no group {g}", p.name))?;
                let selector = t.selector.as_ref().ok_or_else(|| {
                    format!("`{}` is an action profile, which has no groups", p.name)
                })?;
                let size = Bits::from_u128(members.len() as u128, 16);
                Ok(ActionCall::with(selector.action, [Bits::from_u128(g.into(), 32), size]))
            }
        }
    }

    /// What brings everything that refers to these members or groups up to date.
    fn refresh(
        &mut self,
        p: &ProfileName,
        changed: impl Fn(Refers) -> bool,
    ) -> Result<Vec<Update>, String> {
        let mut updates = Vec::new();
        for t in self.tables_of(p) {
            let uses: Vec<(Option<EntryId>, Refers)> = self
                .profiles
                .uses
                .iter()
                .filter(|((table, _), r)| *table == t.id && changed(**r))
                .map(|((_, entry), r)| (*entry, *r))
                .collect();
            for (entry, refers) in uses {
                let call = self.indirect_call(&t, refers)?;
                updates.push(match entry {
                    None => Update::SetDefault(t.id, self.with_meter(t.id, call, METER_NONE)),
                    Some(id) => {
                        let action = self.with_meter(t.id, call, super::meter_of(id));
                        let old = self.pipeline.entries(t.id).get(id).cloned();
                        let old = old.ok_or("the entry is gone")?;
                        Update::Modify(t.id, Arc::new(Entry { action, ..(*old).clone() }))
                    }
                });
            }
            let groups = self.known(&p.name).groups;
            if let Some(selector) = &t.selector {
                for (g, members) in groups {
                    if changed(Refers::Group(g)) {
                        self.place(&t, selector, p, g, &members, &mut updates)?;
                    }
                }
            }
        }
        Ok(updates)
    }

    /// The places of a group in a table of members.
    fn place(
        &mut self,
        t: &TableName,
        selector: &Selector,
        p: &ProfileName,
        group: u32,
        members: &BTreeSet<u32>,
        updates: &mut Vec<Update>,
    ) -> Result<(), String> {
        let table = selector.members;
        let profile = self.known(&p.name);
        for (place, m) in (0u16..).zip(members) {
            let member = profile.members.get(m).ok_or("the member is gone")?;
            let action = Self::member_call(t, member)?;
            let key = |key, value: u32, width| KeyMatch {
                key,
                pattern: Pattern::Exact(Bits::from_u128(value.into(), width)),
            };
            let matches = Box::from([key(0, group, 32), key(1, place.into(), 16)]);
            let known = self.profiles.places.get(&(table, group, place)).copied();
            let id = match known {
                Some(id) => id,
                None => EntryId((self.ids)()?),
            };
            let entry = Arc::new(Entry {
                id,
                priority: 0,
                matches,
                action,
                cookie: 0,
                idle_timeout_ns: 0,
                hard_timeout_ns: 0,
            });
            updates.push(match known {
                Some(_) => Update::Modify(table, entry),
                None => Update::Insert(table, entry),
            });
            self.profiles.places.insert((table, group, place), id);
        }
        let from = members.len() as u16;
        let past: Vec<(u16, EntryId)> = self
            .profiles
            .places
            .range((table, group, from)..=(table, group, u16::MAX))
            .map(|((_, _, place), id)| (*place, *id))
            .collect();
        for (place, id) in past {
            updates.push(Update::Delete(table, id));
            self.profiles.places.remove(&(table, group, place));
            self.retired.push(id.0);
        }
        Ok(())
    }

    /// Does what `f` does to members and groups, and what follows from it; nothing, if that is refused.
    fn change(
        &mut self,
        p: &ProfileName,
        f: impl FnOnce(&mut Profile),
        changed: impl Fn(Refers) -> bool,
    ) -> Result<Vec<Update>, String> {
        let (profiles, retired) = (self.profiles.clone(), self.retired.len());
        f(self.state(&p.name));
        let done = self.refresh(p, changed).and_then(|updates| self.commit(updates));
        if done.is_err() {
            let new = std::mem::replace(&mut self.profiles, profiles);
            self.retired.truncate(retired);
            let kept: BTreeSet<EntryId> = self.profiles.places.values().copied().collect();
            let ids = new.places.values().filter(|id| !kept.contains(id));
            self.retired.extend(ids.map(|id| id.0));
        }
        done
    }

    /// A new member; its handle.
    pub fn member_create(
        &mut self,
        profile: &str,
        action: &str,
        args: &[Written],
    ) -> Result<u32, String> {
        let p = self.profile(profile)?.clone();
        let member = self.member_from(&p, action, args)?;
        let state = self.state(&p.name);
        if state.members.len() >= p.size as usize {
            return Err(format!("`{}` is full: it has {} members", p.name, p.size));
        }
        let handle = state.next_member;
        state.next_member += 1;
        state.members.insert(handle, member);
        Ok(handle)
    }

    fn known_member(&self, p: &ProfileName, member: u32) -> Result<Member, String> {
        let known = self.profiles.by_name.get(&p.name).and_then(|s| s.members.get(&member));
        known.cloned().ok_or_else(|| {
            format!(
                "`{}` has no member {member}; act_prof_create_member tells one's handle",
                p.name
            )
        })
    }

    fn group_members(&self, p: &ProfileName, group: u32) -> Result<BTreeSet<u32>, String> {
        let known = self.profiles.by_name.get(&p.name).and_then(|s| s.groups.get(&group));
        known.cloned().ok_or_else(|| {
            format!("`{}` has no group {group}; act_prof_create_group tells one's handle", p.name)
        })
    }

    /// Gives a member another action.
    pub fn member_modify(
        &mut self,
        profile: &str,
        member: u32,
        action: &str,
        args: &[Written],
    ) -> Result<Vec<Update>, String> {
        let p = self.profile(profile)?.clone();
        self.known_member(&p, member)?;
        let new = self.member_from(&p, action, args)?;
        let groups = self.known(&p.name).groups;
        let within = move |r| match r {
            Refers::Member(m) => m == member,
            Refers::Group(g) => groups.get(&g).is_some_and(|members| members.contains(&member)),
        };
        self.change(&p, |s| drop(s.members.insert(member, new)), within)
    }

    /// Removes a member that nothing refers to.
    pub fn member_delete(&mut self, profile: &str, member: u32) -> Result<(), String> {
        let p = self.profile(profile)?.clone();
        self.known_member(&p, member)?;
        if let Some((g, _)) = self.known(&p.name).groups.iter().find(|g| g.1.contains(&member)) {
            return Err(format!("the group {g} has the member {member}"));
        }
        self.unused(&p, Refers::Member(member))?;
        self.state(&p.name).members.remove(&member);
        Ok(())
    }

    fn unused(&self, p: &ProfileName, refers: Refers) -> Result<(), String> {
        let used = |((t, _), r): &(&(TableId, Option<EntryId>), &Refers)| {
            **r == refers && p.tables.contains(t)
        };
        match self.profiles.uses.iter().find(used) {
            None => Ok(()),
            Some(((table, _), _)) => {
                let t = self.names.tables.iter().find(|t| t.id == *table);
                let name = t.map_or("a table", |t| &t.name);
                Err(format!("entries of `{name}` refer to it; take them away first"))
            }
        }
    }

    /// A new group without members; its handle.
    pub fn group_new(&mut self, profile: &str) -> Result<u32, String> {
        let p = self.selector(profile)?.clone();
        let state = self.state(&p.name);
        let handle = state.next_group;
        state.next_group += 1;
        state.groups.insert(handle, BTreeSet::new());
        Ok(handle)
    }

    /// Removes a group that no entry refers to.
    pub fn group_drop(&mut self, profile: &str, group: u32) -> Result<Vec<Update>, String> {
        let p = self.selector(profile)?.clone();
        self.group_members(&p, group)?;
        self.unused(&p, Refers::Group(group))?;
        // Its places first.
        let updates = self.change(
            &p,
            |s| drop(s.groups.insert(group, BTreeSet::new())),
            |r| r == Refers::Group(group),
        )?;
        self.state(&p.name).groups.remove(&group);
        Ok(updates)
    }

    /// Puts a member into a group, or takes it out.
    pub fn group_member(
        &mut self,
        profile: &str,
        member: u32,
        group: u32,
        into: bool,
    ) -> Result<Vec<Update>, String> {
        let p = self.selector(profile)?.clone();
        self.known_member(&p, member)?;
        let mut members = self.group_members(&p, group)?;
        match into {
            true if !members.insert(member) => {
                return Err(format!("the group {group} has the member {member} already"));
            }
            false if !members.remove(&member) => {
                return Err(format!("the group {group} has no member {member}"));
            }
            _ if members.len() > usize::from(u16::MAX) => {
                return Err(format!("a group has at most {} members", u16::MAX));
            }
            _ => {}
        }
        self.change(&p, |s| drop(s.groups.insert(group, members)), |r| r == Refers::Group(group))
    }

    /// Adds an entry that refers to a member or group; its id, too.
    pub fn add_indirect(
        &mut self,
        table: &str,
        keys: &[Written],
        priority: i32,
        refers: Refers,
    ) -> Result<(EntryId, Vec<Update>), String> {
        let t = self.writable(table)?.clone();
        Self::has_keys(&t)?;
        let matches = Self::matches(&t, keys)?;
        let call = self.indirect_call(&t, refers)?;
        let (id, updates) = self.insert(t.id, matches, priority, call)?;
        self.profiles.uses.insert((t.id, Some(id)), refers);
        Ok((id, updates))
    }

    /// Sets a table's default action to a member's or group's.
    pub fn set_default_indirect(
        &mut self,
        table: &str,
        refers: Refers,
    ) -> Result<Vec<Update>, String> {
        let t = self.table(table)?.clone();
        let call = self.indirect_call(&t, refers)?;
        let call = self.with_meter(t.id, call, METER_NONE);
        let updates = self.commit(vec![Update::SetDefault(t.id, call)])?;
        self.profiles.uses.insert((t.id, None), refers);
        Ok(updates)
    }

    /// What an entry, or a default action, refers to.
    pub fn refers(&self, table: TableId, entry: Option<EntryId>) -> Option<Refers> {
        self.profiles.uses.get(&(table, entry)).copied()
    }

    /// The members of a profile by handle.
    pub fn members(&self, profile: &str) -> Result<Vec<(u32, Member)>, String> {
        let name = &self.profile(profile)?.name;
        Ok(self.known(name).members.into_iter().collect())
    }

    /// The groups of a profile by handle, and the members of each.
    pub fn groups(&self, profile: &str) -> Result<Vec<(u32, Vec<u32>)>, String> {
        let name = &self.profile(profile)?.name;
        let groups = self.known(name).groups.into_iter();
        Ok(groups.map(|(g, members)| (g, members.into_iter().collect())).collect())
    }

    /// Members and groups for a new program: those of profiles that are the same, with members whose
    /// actions are there. Their places, as updates; and what is left behind.
    pub(super) fn carry_profiles(
        &mut self,
        old: &Profiles,
        old_names: &[ProfileName],
        left: &mut Vec<String>,
    ) -> Result<Vec<Update>, String> {
        let mut updates = Vec::new();
        for was in old_names {
            let Some(before) = old.by_name.get(&was.name) else { continue };
            let new =
                self.names.profiles.iter().find(|p| {
                    p.name == was.name && p.selector == was.selector && !p.tables.is_empty()
                });
            let Some(new) = new.cloned() else {
                if !before.members.is_empty() {
                    let n = before.members.len();
                    left.push(format!("{}: {n} members, as there is no such profile", was.name));
                }
                continue;
            };
            let tables = self.tables_of(&new);
            let mut kept = before.clone();
            kept.members.retain(|m, member| {
                let wrong = tables.iter().find_map(|t| Self::member_call(t, member).err());
                if let Some(e) = &wrong {
                    left.push(format!("{}: the member {m}: {e}", was.name));
                }
                wrong.is_none()
            });
            for members in kept.groups.values_mut() {
                members.retain(|m| kept.members.contains_key(m));
            }
            self.profiles.by_name.insert(new.name.clone(), kept);
            let more = self.refresh(&new, |r| matches!(r, Refers::Group(_)))?;
            updates.extend(self.commit(more)?);
        }
        Ok(updates)
    }

    /// The call of an entry of the program before, in a table of this one.
    pub(super) fn carried_call(
        &self,
        old: &Profiles,
        from: TableId,
        entry: Option<EntryId>,
        to: &TableName,
    ) -> Option<Result<(ActionCall, Refers), String>> {
        let refers = *old.uses.get(&(from, entry))?;
        Some(self.indirect_call(to, refers).map(|call| (call, refers)))
    }

    pub(super) fn note_carried(&mut self, table: TableId, entry: Option<EntryId>, refers: Refers) {
        self.profiles.uses.insert((table, entry), refers);
    }
}
