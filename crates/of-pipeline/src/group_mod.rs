//! Group-mods (1.3.5 §6.5).
//!
//! Deleting a group takes along the flow entries that use it, in one transaction. A group that another
//! one leads to is only deleted together with that one (`OFPG_ALL`).

use crate::group_table::GroupEntry;
use crate::refusal::Refusal;
use crate::sizes::buckets_bytes;
use crate::stage::Batch;
use crate::transaction::Transaction;
use crate::validate::Rules;
use ir::{GroupKind, Update};
use of_lower::{Call, lower_bucket};
use openflow::{
    Bucket, BucketId, FlowRemovedReason, GroupId, GroupMod, GroupModCommand, GroupType, PortNo,
};
use std::collections::BTreeSet;
use std::sync::Arc;

fn kind(group_type: GroupType) -> GroupKind {
    match group_type {
        GroupType::All => GroupKind::All,
        GroupType::Select => GroupKind::Select,
        GroupType::Indirect => GroupKind::Indirect,
        GroupType::FastFailover => GroupKind::FastFailover,
    }
}

impl Transaction<'_> {
    /// Executes a group-mod.
    pub(crate) fn group_mod(&mut self, request: GroupMod) -> Result<(), Refusal> {
        let GroupId(group) = request.group_id;
        if request.command == GroupModCommand::Delete {
            return self.delete_groups(request.group_id);
        }
        if request.group_id > GroupId::MAX {
            return Err(Refusal::GroupNumber { group });
        }
        let exists = self.stores.groups.contains(group);
        match request.command {
            //= openflow-1.3.5 §6.5: adding a group that is there is OFPGMFC_GROUP_EXISTS.
            GroupModCommand::Add if exists => return Err(Refusal::GroupExists { group }),
            //= openflow-1.3.5 §6.5: modifying one that is not there is OFPGMFC_UNKNOWN_GROUP.
            GroupModCommand::Modify
            | GroupModCommand::InsertBucket
            | GroupModCommand::RemoveBucket
                if !exists =>
            {
                return Err(Refusal::UnknownGroup { group });
            }
            GroupModCommand::Add | GroupModCommand::AddOrModify
                if !exists && self.stores.groups.len() >= self.env.config.groups_max as usize =>
            {
                return Err(Refusal::OutOfGroups { max: self.env.config.groups_max });
            }
            _ => {}
        }
        let request = self.whole_group(request)?;
        self.stores.groups.check(&request)?;
        let rules = self.stores.rules(self.env);
        for bucket in &request.buckets {
            let bad_watch = |watch: String| Refusal::BadWatch { group, watch };
            if bucket.watch_port != PortNo::ANY && !rules.is_port(bucket.watch_port) {
                return Err(bad_watch(format!("port {}", bucket.watch_port)));
            }
            let GroupId(watched) = bucket.watch_group;
            let to_itself = watched == group;
            if bucket.watch_group != GroupId::ANY
                && !to_itself
                && !self.stores.groups.contains(watched)
            {
                return Err(bad_watch(format!("group {watched}")));
            }
        }
        self.stores.groups.check_chain(group, &request.buckets)?;
        rules_for_buckets(&rules, &request)?;
        let old = self.stores.groups.get(group).map_or(0, |old| buckets_bytes(&old.buckets));
        let max = self.env.config.content();
        if self.stores.groups.bytes() + buckets_bytes(&request.buckets)
            - old.min(self.stores.groups.bytes())
            > max
        {
            return Err(Refusal::GroupsFull { max });
        }
        self.set_group(request)
    }

    //= openflow-1.5.1 §7.3.4.3: inserting and removing buckets leaves the others as they are; the
    //= group is then what a modify with all of them would make it, but that counters of buckets stay.
    /// A request about some buckets of a group as one about all of them.
    fn whole_group(&self, request: GroupMod) -> Result<GroupMod, Refusal> {
        let GroupId(group) = request.group_id;
        let (Some(old), id) = (self.stores.groups.get(group), request.command_bucket) else {
            return Ok(request);
        };
        let place = |id: BucketId| {
            let place = old.buckets.iter().position(|b| b.id == id);
            place.ok_or(Refusal::UnknownBucket { group, bucket: id.0 })
        };
        let mut buckets = old.buckets.clone();
        match request.command {
            GroupModCommand::InsertBucket => {
                let at = match id {
                    BucketId::FIRST => 0,
                    BucketId::LAST => buckets.len(),
                    BucketId::ALL => return Err(Refusal::BucketCommand { group }),
                    id => place(id)? + 1,
                };
                buckets.splice(at..at, request.buckets);
            }
            GroupModCommand::RemoveBucket => {
                if !request.buckets.is_empty() {
                    return Err(Refusal::BucketCommand { group });
                }
                match id {
                    BucketId::ALL => buckets.clear(),
                    // Without any bucket there is nothing to remove.
                    BucketId::FIRST | BucketId::LAST if buckets.is_empty() => {}
                    BucketId::FIRST => drop(buckets.remove(0)),
                    BucketId::LAST => drop(buckets.pop()),
                    id => drop(buckets.remove(place(id)?)),
                }
            }
            _ => return Ok(request),
        }
        let (group_type, selection) = (old.group_type, old.selection.clone());
        Ok(GroupMod { group_type, selection, buckets, ..request })
    }

    /// Puts a group that was checked into the place of the one of its number, if any.
    fn set_group(&mut self, request: GroupMod) -> Result<(), Refusal> {
        let GroupId(group) = request.group_id;
        let now_ns = self.env.switch.now_ns();
        let mut tx = Batch::new(&self.env.switch, self.stage);
        let old = self.stores.groups.get(group);
        //= openflow-1.3.5 §6.5: a modify replaces type and buckets; what counts the group goes on,
        //= what counts its buckets begins anew.
        let counter = match old {
            Some(old) => old.counter,
            None => tx.take_group_counter()?,
        };
        let keeps = |bucket: &Bucket| {
            let partly = request.command != GroupModCommand::Modify;
            let old = old.filter(|_| partly)?;
            let place = old.buckets.iter().position(|b| b.id == bucket.id)?;
            old.bucket_counters.get(place).copied()
        };
        if let Some(old) = old {
            let kept: BTreeSet<_> = request.buckets.iter().filter_map(keeps).collect();
            let gone = old.bucket_counters.iter().filter(|id| !kept.contains(id));
            gone.for_each(|id| tx.spend(id.0));
            old.actions.iter().for_each(|id| tx.release(*id));
        }
        let places = places(old, &request);
        let mut actions = Vec::with_capacity(request.buckets.len());
        let mut bucket_counters = Vec::with_capacity(request.buckets.len());
        let mut buckets = Vec::with_capacity(request.buckets.len());
        for bucket in &request.buckets {
            let call: Call = lower_bucket(&self.env.layout, &bucket.actions)?;
            let action = tx.intern(call);
            let counter = match keeps(bucket) {
                Some(counter) => counter,
                None => tx.take_group_counter()?,
            };
            actions.push(action.action);
            bucket_counters.push(counter);
            let watch_group = Some(bucket.watch_group).filter(|g| *g != GroupId::ANY);
            buckets.push(ir::Bucket {
                weight: bucket.weight,
                watch_port: Some(bucket.watch_port).filter(|p| *p != PortNo::ANY).map(|p| p.0),
                watch_group: watch_group.map(|g| ir::GroupId(g.0)),
                action,
                counter,
            });
        }
        let hash = match request.group_type {
            GroupType::Select => {
                let inputs = self.env.layout.selection_hash(request.selection.as_ref());
                self.stores.groups.shared_hash(inputs)
            }
            _ => Arc::default(),
        };
        let buckets = spread(&places, buckets);
        let lowered = ir::Group { kind: kind(request.group_type), buckets, hash, counter };
        tx.push(Update::SetGroup(ir::GroupId(group), Arc::new(lowered)));
        let spent = tx.commit()?;
        spent.retire(&self.env.switch);
        let since = |old: &GroupEntry| (old.created_ns, old.before_ns);
        let (created_ns, before_ns) = self.stores.groups.get(group).map_or((now_ns, 0), since);
        let entry = GroupEntry {
            group_type: request.group_type,
            buckets: request.buckets,
            selection: request.selection,
            counter,
            bucket_counters,
            created_ns,
            before_ns,
            actions,
            places,
        };
        self.stores.groups.put(group, Some(entry));
        Ok(())
    }

    //= openflow-1.3.5 §6.5: deleting a group that is not there is no error; flow entries that use a
    //= deleted group are removed with it; OFPG_ALL deletes all groups.
    fn delete_groups(&mut self, id: GroupId) -> Result<(), Refusal> {
        let gone: Vec<u32> = if id == GroupId::ALL {
            self.stores.groups.iter().map(|(id, _)| id).collect()
        } else if self.stores.groups.contains(id.0) {
            //= openflow-1.3.5 §6.5: a group that another group leads to may be refused with
            //= OFPGMFC_CHAINED_GROUP.
            if let Some(by) = self.stores.groups.leading_to(id.0).next() {
                return Err(Refusal::ChainedGroup { group: id.0, by });
            }
            vec![id.0]
        } else if id > GroupId::MAX {
            return Err(Refusal::GroupNumber { group: id.0 });
        } else {
            Vec::new()
        };
        if gone.is_empty() {
            return Ok(());
        }
        let users: BTreeSet<_> =
            gone.iter().flat_map(|group| self.stores.flows.users_of_group(*group)).collect();
        let users = self.stores.with_reflections(users.into_iter().collect());
        let mut tx = Batch::new(&self.env.switch, self.stage);
        let keys = users.iter().copied();
        self.stores.take_out(&mut tx, &self.env.layout, keys)?;
        for group in &gone {
            tx.push(Update::RemoveGroup(ir::GroupId(*group)));
            if let Some(entry) = self.stores.groups.get(*group) {
                tx.spend(entry.counter.0);
                entry.bucket_counters.iter().for_each(|id| tx.spend(id.0));
                entry.actions.iter().for_each(|id| tx.release(*id));
            }
        }
        let spent = tx.commit()?;
        gone.iter().for_each(|group| self.stores.groups.put(*group, None));
        let gone = users.into_iter().map(|key| (key, FlowRemovedReason::GroupDelete));
        self.forget_flows(gone, spent);
        Ok(())
    }
}

/// Where the buckets of a select group are: those that were there stay, new ones take what is free. Of other
/// groups, in their order.
fn places(old: Option<&GroupEntry>, request: &GroupMod) -> Vec<usize> {
    if request.group_type != GroupType::Select {
        return (0..request.buckets.len()).collect();
    }
    let kept = |bucket: &Bucket| {
        let old = old.filter(|old| old.group_type == GroupType::Select)?;
        let at = old.buckets.iter().position(|b| b.id == bucket.id)?;
        old.places.get(at).copied()
    };
    let taken: BTreeSet<usize> = request.buckets.iter().filter_map(kept).collect();
    let mut free = (0..).filter(|place| !taken.contains(place));
    let place = |bucket| kept(bucket).or_else(|| free.next()).unwrap_or(0);
    request.buckets.iter().map(place).collect()
}

/// The buckets at their places; what is between has no weight, so that it is never chosen.
fn spread(places: &[usize], buckets: Vec<ir::Bucket>) -> Vec<ir::Bucket> {
    let Some(any) = buckets.first().cloned() else { return buckets };
    // It watches a port that is none, so it is not live either.
    let none = ir::Bucket { weight: 0, watch_port: Some(0), watch_group: None, ..any };
    let room = places.iter().max().map_or(0, |last| last + 1);
    let mut all = vec![none; room];
    for (place, bucket) in places.iter().zip(buckets) {
        all[*place] = bucket;
    }
    all
}

fn rules_for_buckets(rules: &Rules<'_>, request: &GroupMod) -> Result<(), Refusal> {
    request.buckets.iter().try_for_each(|bucket| rules.bucket(&bucket.actions))
}
