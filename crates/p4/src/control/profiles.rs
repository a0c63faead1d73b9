//! Action profiles and selectors: members and groups that entries of tables refer to.
//!
//! A *member* is an action with its arguments, a *group* is a set of members. An entry with a member has
//! the member's action; an entry with a group has the table's group action ([`Selector`]), which finds
//! the place that the packet's hash falls on, and a second table has each member's action by group and
//! place. Members of a group stand in the order of their handles, as in bmv2, each in as many places as
//! its weight says; one that watches a port that is down has none. A member that changes changes all
//! entries and places that have it, in one transaction.
//!
//! Handles of members and groups count from 0 in each profile, unless whoever makes them chooses. An entry
//! may have a group of its own ([`Control::own_group`]), which goes with it.
//!
//! Cost: an operation touches what refers to its member or group, and nothing else.

pub use super::indirect::{Form, GroupOf, Member, Refers, Share};

use super::indirect::{OWN, Profile, Profiles};
use super::refused::{Refused, no};
use super::{Change, Control, Does, Written};
use crate::lower::names::{ProfileName, Selector, TableName, find};
use ir::{ActionCall, Bits, Entry, EntryId, KeyMatch, Pattern, TableId, Update};
use std::sync::Arc;

/// Most places of a group.
const PLACES_MAX: u32 = u16::MAX as u32;

/// What places were before an operation, for one that is refused.
type Journal = Vec<((TableId, u32, u16), Option<EntryId>)>;

impl Control {
    /// The profile with this name.
    pub fn profile(&self, name: &str) -> Result<&ProfileName, Refused> {
        find(&self.names.profiles, |p| &p.name, name).ok_or_else(|| {
            let known = self.names.profiles.iter().map(|p| p.name.as_str());
            no!(NotFound, "there is no action profile `{name}`{}", super::nearest(name, known))
        })
    }

    fn selector(&self, name: &str) -> Result<&ProfileName, Refused> {
        let p = self.profile(name)?;
        match p.selector {
            true => Ok(p),
            false => Err(no!(Invalid, "`{}` is an action profile, which has no groups", p.name)),
        }
    }

    fn state(&mut self, profile: &str) -> &mut Profile {
        if !self.profiles.by_name.contains_key(profile) {
            self.profiles.by_name.insert(profile.to_string(), Profile::default());
        }
        self.profiles.by_name.get_mut(profile).expect("it was inserted if it was not there")
    }

    fn known(&self, profile: &str) -> Option<&Profile> {
        self.profiles.by_name.get(profile)
    }

    /// The tables of a profile.
    fn tables_of<'a>(&'a self, p: &'a ProfileName) -> impl Iterator<Item = &'a TableName> {
        p.tables.iter().filter_map(|t| self.named(*t))
    }

    /// The profile that a table's entries refer to.
    fn profile_of(&self, t: &TableName) -> Result<&ProfileName, Refused> {
        let p = t.profile.and_then(|n| self.names.profiles.get(n));
        p.ok_or_else(|| {
            no!(Invalid, "the table `{}` has no action profile: its entries have actions", t.name)
        })
    }

    /// What an action of a table is called, and its arguments, as a member has them.
    fn member_from(
        &self,
        p: &ProfileName,
        action: &str,
        args: &[Written],
    ) -> Result<Member, Refused> {
        let Some(t) = self.tables_of(p).next() else {
            return Err(no!(Precondition, "no table refers to `{}`", p.name));
        };
        let call = Self::call(t, action, args)?;
        let name = Self::action_of(t, call.action).map(|a| a.name.clone()).unwrap_or_default();
        Ok(Member { action: name, args: call.args.to_vec() })
    }

    /// A member's action as a table has it.
    fn member_call(t: &TableName, member: &Member) -> Result<ActionCall, Refused> {
        let a = t.actions.iter().find(|a| a.name == member.action);
        let a = a.filter(|a| a.params.len() == member.args.len()).ok_or_else(|| {
            no!(Invalid, "the table `{}` has no action `{}`", t.name, member.action)
        })?;
        Ok(ActionCall::with(a.id, member.args.iter().cloned()))
    }

    /// Members of a group and how many places each has now.
    fn placed_members<'a>(
        &'a self,
        group: &'a GroupOf,
    ) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        let up = |s: &Share| s.watch_port.is_none_or(|port| !self.down.contains(&port));
        group.members.iter().filter(move |(_, s)| up(s)).map(|(m, s)| (*m, s.weight))
    }

    /// The action of an entry that refers to a member or group.
    pub(super) fn indirect_call(
        &self,
        t: &TableName,
        refers: Refers,
    ) -> Result<ActionCall, Refused> {
        let p = self.profile_of(t)?;
        let profile = self.known(&p.name);
        match refers {
            Refers::Member(m) => {
                let member = profile.and_then(|s| s.members.get(&m));
                let member =
                    member.ok_or_else(|| no!(NotFound, "`{}` has no member {m}", p.name))?;
                Self::member_call(t, member)
            }
            Refers::Group(g) => {
                let group = profile.and_then(|s| s.groups.get(&g));
                let group = group.ok_or_else(|| no!(NotFound, "`{}` has no group {g}", p.name))?;
                let selector = t.selector.as_ref().ok_or_else(|| {
                    no!(Invalid, "`{}` is an action profile, which has no groups", p.name)
                })?;
                let places: u32 = self.placed_members(group).map(|(_, weight)| weight).sum();
                let of_group = [Bits::from_u128(g.into(), 32), Bits::from_u128(places.into(), 16)];
                let random = group.form.random;
                let Some(before) = &group.before else {
                    let action = if random { selector.random } else { selector.action };
                    return Ok(ActionCall::with(action, of_group));
                };
                let call = Self::member_call(t, before)?;
                let found = selector.before.iter().find(|b| b.of == call.action);
                let found = found.ok_or_else(|| {
                    no!(
                        Invalid,
                        "`{}` is not @groupaction in the table `{}`, so it is no action of a group",
                        before.action,
                        t.name
                    )
                })?;
                let action = if random { found.random } else { found.action };
                Ok(ActionCall::with(action, of_group.into_iter().chain(call.args)))
            }
        }
    }

    /// What brings everything that refers to these members or groups up to date.
    fn refresh(
        &mut self,
        p: &ProfileName,
        changed: &[Refers],
        journal: &mut Journal,
    ) -> Result<Vec<Update>, Refused> {
        let mut updates = Vec::new();
        let users: Vec<((TableId, Option<EntryId>), Refers)> = match self.known(&p.name) {
            Some(state) => changed
                .iter()
                .flat_map(|r| state.users.get(r).into_iter().flatten().map(|u| (*u, *r)))
                .collect(),
            None => Vec::new(),
        };
        for ((table, entry), refers) in users {
            let t = self.named(table).ok_or_else(|| no!(Internal, "the table is gone"))?;
            let call = self.indirect_call(t, refers)?;
            updates.push(match entry {
                None => Update::SetDefault(table, Self::as_default(t, call)),
                Some(id) => {
                    let action = Self::with_meter(t, call, super::meter_of(id));
                    let old = self.pipeline.entries(table).get(id).cloned();
                    let old = old.ok_or_else(|| no!(Internal, "the entry is gone"))?;
                    Update::Modify(table, Arc::new(Entry { action, ..(*old).clone() }))
                }
            });
        }
        for table in &p.tables {
            let Some(t) = self.named(*table) else { continue };
            let Some(selector) = t.selector.clone() else { continue };
            for refers in changed {
                if let Refers::Group(group) = refers {
                    self.place(*table, &selector, p, *group, &mut updates, journal)?;
                }
            }
        }
        Ok(updates)
    }

    /// The places of a group in a table of members.
    fn place(
        &mut self,
        table: TableId,
        selector: &Selector,
        p: &ProfileName,
        group: u32,
        updates: &mut Vec<Update>,
        journal: &mut Journal,
    ) -> Result<(), Refused> {
        let members = selector.members;
        let mut calls: Vec<ActionCall> = Vec::new();
        if let (Some(t), Some(state)) = (self.named(table), self.known(&p.name))
            && let Some(g) = state.groups.get(&group)
        {
            for (m, weight) in self.placed_members(g) {
                let member = state.members.get(&m);
                let member = member.ok_or_else(|| no!(Internal, "the member {m} is gone"))?;
                let call = Self::member_call(t, member)?;
                calls.extend(std::iter::repeat_n(call, weight as usize));
            }
        }
        let from = calls.len() as u16;
        for (place, action) in (0u16..).zip(calls) {
            let key = |key, value: u32, width| KeyMatch {
                key,
                pattern: Pattern::Exact(Bits::from_u128(value.into(), width)),
            };
            let matches = Box::from([key(0, group, 32), key(1, place.into(), 16)]);
            let at = (members, group, place);
            let known = self.profiles.places.get(&at).copied();
            let id = match known {
                Some(id) => id,
                None => EntryId(self.id()?),
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
                Some(_) => Update::Modify(members, entry),
                None => Update::Insert(members, entry),
            });
            if known.is_none() {
                journal.push((at, None));
                self.profiles.places.insert(at, id);
            }
        }
        let past: Vec<(u16, EntryId)> = self
            .profiles
            .places
            .range((members, group, from)..=(members, group, u16::MAX))
            .map(|((_, _, place), id)| (*place, *id))
            .collect();
        for (place, id) in past {
            let at = (members, group, place);
            updates.push(Update::Delete(members, id));
            journal.push((at, Some(id)));
            self.profiles.places.remove(&at);
            self.retired.push(id.0);
        }
        Ok(())
    }

    /// Brings up to date what refers to these; on a refusal `undo` is done, and places are what they were.
    fn settle(
        &mut self,
        p: &ProfileName,
        changed: &[Refers],
        undo: impl FnOnce(&mut Profile),
    ) -> Result<Vec<Update>, Refused> {
        let retired = self.retired.len();
        let mut journal = Journal::new();
        let done = self.refresh(p, changed, &mut journal).and_then(|updates| self.commit(updates));
        if done.is_err() {
            undo(self.state(&p.name));
            self.retired.truncate(retired);
            for (at, was) in journal.into_iter().rev() {
                match was {
                    Some(id) => drop(self.profiles.places.insert(at, id)),
                    None => {
                        let id = self.profiles.places.remove(&at);
                        self.retired.extend(id.map(|id| id.0));
                    }
                }
            }
        }
        done
    }

    /// A new member; its handle.
    pub fn member_create(
        &mut self,
        profile: &str,
        action: &str,
        args: &[Written],
    ) -> Result<u32, Refused> {
        let p = self.profile(profile)?;
        let (name, member) = (p.name.clone(), self.member_from(p, action, args)?);
        let state = self.state(&name);
        let mut handle = state.next_member;
        while state.members.contains_key(&handle) {
            handle += 1;
        }
        self.member_insert(&name, handle, member)?;
        self.state(&name).next_member = handle + 1;
        Ok(handle)
    }

    fn check_handle(handle: u32, what: &str) -> Result<(), Refused> {
        match handle >= OWN {
            true => Err(no!(OutOfRange, "{what} have numbers below {OWN:#x}, not {handle:#x}")),
            false => Ok(()),
        }
    }

    /// A new member of this number.
    pub fn member_insert(
        &mut self,
        profile: &str,
        handle: u32,
        member: Member,
    ) -> Result<(), Refused> {
        if self.guard.is_some() {
            let profile = &self.profile(profile)?.name.clone();
            let own = member.clone();
            let change = Change::Member { profile, member: handle, to: Some(&own) };
            return self.guarded(&change, |c| c.member_insert(profile, handle, member));
        }
        Self::check_handle(handle, "members")?;
        let p = self.profile(profile)?.clone();
        for t in self.tables_of(&p) {
            Self::member_call(t, &member)?;
        }
        let state = self.state(&p.name);
        if state.members.contains_key(&handle) {
            return Err(no!(Exists, "`{}` has a member {handle} already", p.name));
        }
        if state.shared_members() >= p.size as usize {
            return Err(no!(Full, "`{}` is full: it has {} members", p.name, p.size));
        }
        state.members.insert(handle, member);
        Ok(())
    }

    fn known_member(&self, p: &ProfileName, member: u32) -> Result<(), Refused> {
        let known = self.known(&p.name).is_some_and(|s| s.members.contains_key(&member));
        match known && member < OWN {
            true => Ok(()),
            false => Err(no!(
                NotFound,
                "`{}` has no member {member}; act_prof_create_member tells one's handle",
                p.name
            )),
        }
    }

    fn group_of(&self, p: &ProfileName, group: u32) -> Result<&GroupOf, Refused> {
        let known = self.known(&p.name).and_then(|s| s.groups.get(&group));
        known.filter(|_| group < OWN).ok_or_else(|| {
            no!(
                NotFound,
                "`{}` has no group {group}; act_prof_create_group tells one's handle",
                p.name
            )
        })
    }

    /// Gives a member another action.
    pub fn member_modify(
        &mut self,
        profile: &str,
        member: u32,
        action: &str,
        args: &[Written],
    ) -> Result<Vec<Update>, Refused> {
        let p = self.profile(profile)?;
        self.known_member(p, member)?;
        let new = self.member_from(p, action, args)?;
        self.member_set(profile, member, new)
    }

    /// The same, with values.
    pub fn member_set(
        &mut self,
        profile: &str,
        member: u32,
        new: Member,
    ) -> Result<Vec<Update>, Refused> {
        let p = self.profile(profile)?.clone();
        self.known_member(&p, member)?;
        if self.guard.is_some() {
            let own = new.clone();
            let change = Change::Member { profile: &p.name, member, to: Some(&own) };
            return self.guarded(&change, |c| c.member_set(profile, member, new));
        }
        let state = self.state(&p.name);
        let groups = state.groups_of.get(&member).into_iter().flatten();
        let mut changed: Vec<Refers> = groups.map(|g| Refers::Group(*g)).collect();
        changed.push(Refers::Member(member));
        let old = state.members.insert(member, new);
        self.settle(&p, &changed, |s| {
            if let Some(old) = old {
                s.members.insert(member, old);
            }
        })
    }

    /// Removes a member that nothing refers to.
    pub fn member_delete(&mut self, profile: &str, member: u32) -> Result<(), Refused> {
        let p = self.profile(profile)?.clone();
        self.known_member(&p, member)?;
        if self.guard.is_some() {
            let change = Change::Member { profile: &p.name, member, to: None };
            return self.guarded(&change, |c| c.member_delete(profile, member));
        }
        let groups = self.known(&p.name).and_then(|s| s.groups_of.get(&member));
        if let Some(g) = groups.and_then(|groups| groups.first()) {
            return Err(no!(Precondition, "the group {g} has the member {member}"));
        }
        self.unused(&p, Refers::Member(member))?;
        self.state(&p.name).members.remove(&member);
        Ok(())
    }

    fn unused(&self, p: &ProfileName, refers: Refers) -> Result<(), Refused> {
        let users = self.known(&p.name).and_then(|s| s.users.get(&refers));
        match users.and_then(|users| users.first()) {
            None => Ok(()),
            Some((table, _)) => {
                let name = self.named(*table).map_or("a table", |t| &t.name);
                Err(no!(Precondition, "entries of `{name}` refer to it; take them away first"))
            }
        }
    }

    /// A new group without members; its handle.
    pub fn group_new(&mut self, profile: &str) -> Result<u32, Refused> {
        let name = self.selector(profile)?.name.clone();
        let state = self.state(&name);
        let mut handle = state.next_group;
        while state.groups.contains_key(&handle) {
            handle += 1;
        }
        Self::check_handle(handle, "groups")?;
        state.next_group = handle + 1;
        state.set_group(handle, Some(GroupOf::default()));
        Ok(handle)
    }

    /// The largest size of a group.
    fn most_places(&self, p: &ProfileName) -> u32 {
        let declared = self.names.instances.iter().find(|i| i.name == p.name);
        let declared = declared.and_then(|i| i.max_group_size).filter(|n| *n > 0);
        declared.unwrap_or(PLACES_MAX).min(PLACES_MAX)
    }

    /// What a group may be: members that are there, and not too many places.
    fn check_group(&self, p: &ProfileName, group: &GroupOf) -> Result<(), Refused> {
        let mut places = 0u64;
        for (member, share) in &group.members {
            self.known_member(p, *member)?;
            if share.weight == 0 {
                return Err(no!(
                    Invalid,
                    "the member {member} has weight 0; leave it out, or give it 1 or more"
                ));
            }
            places += u64::from(share.weight);
        }
        let most = self.most_places(p);
        if group.max_size > most {
            return Err(no!(
                Invalid,
                "`{}`: max_size {} is above {most}, which the program allows",
                p.name,
                group.max_size
            ));
        }
        let most = if group.max_size > 0 { group.max_size } else { most };
        match places > u64::from(most) {
            true => Err(no!(
                Full,
                "`{}`: the weights of the group sum to {places}; {most} is the most",
                p.name
            )),
            false => Ok(()),
        }
    }

    /// A new group of this number.
    pub fn group_insert(
        &mut self,
        profile: &str,
        group: u32,
        to: GroupOf,
    ) -> Result<Vec<Update>, Refused> {
        Self::check_handle(group, "groups")?;
        let p = self.selector(profile)?.clone();
        self.check_group(&p, &to)?;
        let state = self.state(&p.name);
        if state.groups.contains_key(&group) {
            return Err(no!(Exists, "`{}` has a group {group} already", p.name));
        }
        state.set_group(group, Some(to));
        self.settle(&p, &[Refers::Group(group)], |s| drop(s.set_group(group, None)))
    }

    /// Gives a group other members.
    pub fn group_set(
        &mut self,
        profile: &str,
        group: u32,
        to: GroupOf,
    ) -> Result<Vec<Update>, Refused> {
        let p = self.selector(profile)?.clone();
        self.group_of(&p, group)?;
        self.check_group(&p, &to)?;
        let was = self.state(&p.name).set_group(group, Some(to));
        self.settle(&p, &[Refers::Group(group)], |s| drop(s.set_group(group, was)))
    }

    /// Removes a group that no entry refers to.
    pub fn group_drop(&mut self, profile: &str, group: u32) -> Result<Vec<Update>, Refused> {
        let p = self.selector(profile)?.clone();
        self.group_of(&p, group)?;
        self.unused(&p, Refers::Group(group))?;
        self.group_gone(&p, group)
    }

    fn group_gone(&mut self, p: &ProfileName, group: u32) -> Result<Vec<Update>, Refused> {
        let was = self.state(&p.name).set_group(group, None);
        self.settle(p, &[Refers::Group(group)], |s| drop(s.set_group(group, was)))
    }

    /// Puts a member into a group, or takes it out.
    pub fn group_member(
        &mut self,
        profile: &str,
        member: u32,
        group: u32,
        into: bool,
    ) -> Result<Vec<Update>, Refused> {
        let p = self.selector(profile)?.clone();
        self.known_member(&p, member)?;
        let mut to = self.group_of(&p, group)?.clone();
        match into {
            true if to.members.insert(member, Share::default()).is_some() => {
                return Err(no!(Exists, "the group {group} has the member {member} already"));
            }
            false if to.members.remove(&member).is_none() => {
                return Err(no!(NotFound, "the group {group} has no member {member}"));
            }
            _ => {}
        }
        self.group_set(profile, group, to)
    }

    /// An entry's own group is not too large.
    fn check_own(
        &self,
        p: &ProfileName,
        members: &[(Member, Share)],
        form: Form,
    ) -> Result<(), Refused> {
        let places: u64 = members.iter().map(|(_, share)| u64::from(share.weight)).sum();
        let most = self.most_places(p);
        // Each member takes as many places as its weight says, however its group is measured.
        if places > u64::from(PLACES_MAX) || (!form.by_members && places > u64::from(most)) {
            let most = if form.by_members { PLACES_MAX } else { most };
            return Err(no!(
                Full,
                "`{}`: the weights of the set sum to {places}; {most} is the most",
                p.name
            ));
        }
        match form.by_members && members.len() > most as usize {
            true => Err(no!(
                Full,
                "`{}`: the set has {} members; {most} is the most",
                p.name,
                members.len()
            )),
            false => Ok(()),
        }
    }

    /// A group for one entry of a table alone, with members of its own and perhaps an action before theirs; what the entry
    /// refers to.
    pub fn own_group(
        &mut self,
        table: TableId,
        members: Vec<(Member, Share)>,
        before: Option<Member>,
        form: Form,
    ) -> Result<(Refers, Vec<Update>), Refused> {
        let t = self.named(table).ok_or_else(|| no!(NotFound, "there is no {table}"))?;
        let p = self.profile_of(t)?.clone();
        self.selector(&p.name)?;
        for (member, _) in &members {
            for t in self.tables_of(&p) {
                Self::member_call(t, member)?;
            }
        }
        self.check_own(&p, &members, form)?;
        let state = self.state(&p.name);
        // After the last one, or in the first gap.
        let next = |last: Option<&u32>| last.map_or(Some(OWN), |last| last.checked_add(1));
        let after = next(state.groups.range(OWN..).next_back().map(|(g, _)| g));
        let group = after.or_else(|| (OWN..=u32::MAX).find(|g| !state.groups.contains_key(g)));
        let group = group.ok_or_else(|| no!(Full, "`{}` has no group left", p.name))?;
        let after = next(state.members.range(OWN..).next_back().map(|(m, _)| m));
        let after = after.filter(|m| (u32::MAX - m) as usize > members.len());
        let free = (after.unwrap_or(OWN)..=u32::MAX).filter(|m| !state.members.contains_key(m));
        let handles: Vec<u32> = free.take(members.len()).collect();
        let mut to = GroupOf { form, before, ..GroupOf::default() };
        for (handle, (member, share)) in handles.iter().zip(members) {
            state.members.insert(*handle, member);
            state.own_members += 1;
            to.members.insert(*handle, share);
        }
        let gone = |s: &mut Profile| {
            s.set_group(group, None);
            for handle in &handles {
                s.members.remove(handle);
                s.own_members -= 1;
            }
        };
        self.state(&p.name).set_group(group, Some(to));
        let updates = self.settle(&p, &[Refers::Group(group)], gone)?;
        Ok((Refers::Group(group), updates))
    }

    /// The members of an entry's own group, in order, and the group; none if it has no such group.
    pub fn own_members(
        &self,
        table: TableId,
        entry: Option<EntryId>,
    ) -> Option<(Vec<(&Member, Share)>, &GroupOf)> {
        let (profile, Refers::Group(group)) = self.profiles.uses.get(&(table, entry))? else {
            return None;
        };
        let state = self.known(profile).filter(|_| *group >= OWN)?;
        let group = state.groups.get(group)?;
        let shares = group.members.iter();
        let members = shares.filter_map(|(m, s)| Some((state.members.get(m)?, *s))).collect();
        Some((members, group))
    }

    /// Lets go of what an entry referred to; its own group goes.
    pub(super) fn forget_referred(
        &mut self,
        table: TableId,
        entry: Option<EntryId>,
    ) -> Result<Vec<Update>, Refused> {
        match self.profiles.forget(table, entry) {
            Some((profile, Refers::Group(group))) if group >= OWN => {
                self.own_group_gone(&profile, group)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Removes an own group that no entry has.
    pub fn own_group_gone(&mut self, profile: &str, group: u32) -> Result<Vec<Update>, Refused> {
        let p = self.profile(profile)?.clone();
        let members: Vec<u32> = self
            .known(&p.name)
            .and_then(|s| s.groups.get(&group))
            .map(|g| g.members.keys().copied().collect())
            .unwrap_or_default();
        let updates = self.group_gone(&p, group)?;
        let state = self.state(&p.name);
        for member in members {
            state.members.remove(&member);
            state.own_members -= 1;
        }
        Ok(updates)
    }

    /// Adds an entry that refers to a member or group; its id, too.
    pub fn add_indirect(
        &mut self,
        table: &str,
        keys: &[Written],
        priority: i32,
        refers: Refers,
    ) -> Result<(EntryId, Vec<Update>), Refused> {
        let t = self.writable(table)?;
        Self::has_keys(t)?;
        let (id, matches) = (t.id, Self::matches(t, keys)?);
        let mut updates = Vec::new();
        let does = Does::Refers(refers);
        let entry = self.entry_insert(id, matches, priority, does, 0, &mut updates)?;
        Ok((entry, updates))
    }

    /// Sets a table's default action to a member's or group's.
    pub fn set_default_indirect(
        &mut self,
        table: &str,
        refers: Refers,
    ) -> Result<Vec<Update>, Refused> {
        let id = self.table(table)?.id;
        self.default_set(id, Does::Refers(refers))
    }

    /// What an entry, or a default action, refers to.
    pub fn refers(&self, table: TableId, entry: Option<EntryId>) -> Option<Refers> {
        self.profiles.uses.get(&(table, entry)).map(|(_, r)| *r)
    }

    /// The members of a profile by handle.
    pub fn members(&self, profile: &str) -> Result<Vec<(u32, Member)>, Refused> {
        let state = self.known(&self.profile(profile)?.name);
        let members = state.into_iter().flat_map(|s| s.members.range(..OWN));
        Ok(members.map(|(m, member)| (*m, member.clone())).collect())
    }

    /// A member of a profile by its handle, if there is one.
    pub fn member(&self, profile: &str, member: u32) -> Option<&Member> {
        self.known(&self.profile(profile).ok()?.name)?.members.get(&member)
    }

    /// The groups of a profile by handle, and the members of each.
    pub fn groups(&self, profile: &str) -> Result<Vec<(u32, Vec<u32>)>, Refused> {
        let groups = self.groups_with_shares(profile)?;
        Ok(groups.map(|(g, of)| (g, of.members.keys().copied().collect())).collect())
    }

    /// The groups of a profile by handle.
    pub fn groups_with_shares(
        &self,
        profile: &str,
    ) -> Result<impl Iterator<Item = (u32, &GroupOf)>, Refused> {
        let state = self.known(&self.profile(profile)?.name);
        Ok(state.into_iter().flat_map(|s| s.groups.range(..OWN)).map(|(g, of)| (*g, of)))
    }

    /// Ports have gone down or come up: groups whose members watch them are placed anew.
    pub(super) fn select_anew(&mut self, ports: &[u32]) -> Result<Vec<Update>, Refused> {
        let watches = |g: &GroupOf| {
            g.members.values().any(|s| s.watch_port.is_some_and(|p| ports.contains(&p)))
        };
        let mut updates = Vec::new();
        for p in self.names.profiles.clone() {
            let groups = self.known(&p.name).into_iter().flat_map(|s| &s.groups);
            let groups = groups.filter(|(_, g)| watches(g)).map(|(g, _)| Refers::Group(*g));
            let changed: Vec<Refers> = groups.collect();
            if !changed.is_empty() {
                updates.extend(self.settle(&p, &changed, |_| ())?);
            }
        }
        Ok(updates)
    }

    /// Members and groups for a new program: those of profiles that are the same, with members whose
    /// actions are there. Their places, as updates; and what is left behind.
    pub(super) fn carry_profiles(
        &mut self,
        old: &Profiles,
        old_names: &[ProfileName],
        left: &mut Vec<String>,
    ) -> Result<Vec<Update>, Refused> {
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
            let mut kept = Profile {
                members: before.members.clone(),
                next_member: before.next_member,
                next_group: before.next_group,
                ..Profile::default()
            };
            kept.members.retain(|m, member| {
                let wrong = self.tables_of(&new).find_map(|t| Self::member_call(t, member).err());
                if let Some(e) = &wrong {
                    left.push(format!("{}: the member {m}: {e}", was.name));
                }
                wrong.is_none()
            });
            kept.own_members = kept.members.range(OWN..).count();
            for (group, of) in &before.groups {
                let mut of = of.clone();
                of.members.retain(|m, _| kept.members.contains_key(m));
                kept.set_group(*group, Some(of));
            }
            let changed: Vec<Refers> = kept.groups.keys().map(|g| Refers::Group(*g)).collect();
            self.profiles.by_name.insert(new.name.clone(), kept);
            let more = self.refresh(&new, &changed, &mut Journal::new())?;
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
    ) -> Option<Result<(ActionCall, Refers), Refused>> {
        let (_, refers) = old.uses.get(&(from, entry))?;
        Some(self.indirect_call(to, *refers).map(|call| (call, *refers)))
    }

    pub(super) fn note_carried(&mut self, table: TableId, entry: Option<EntryId>, refers: Refers) {
        let Some(t) = self.named(table) else { return };
        let Ok(name) = self.profile_of(t).map(|p| p.name.clone()) else { return };
        self.profiles.refer(table, entry, &name, refers);
    }

    /// The profile's name of a table, for what refers to it.
    pub(super) fn profile_name(&self, table: TableId) -> Result<String, Refused> {
        let t = self.named(table).ok_or_else(|| no!(NotFound, "there is no {table}"))?;
        self.profile_of(t).map(|p| p.name.clone())
    }
}
