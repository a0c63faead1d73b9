//! Multicast groups, their nodes, and mirroring sessions.
//!
//! A *node* is a replica number and ports; a group is the nodes associated with it, each of whose
//! ports gets a copy. A *session* is an entry of the tables that the architecture looks clones up in:
//! it names a port, or a group for clones of ingress.

use super::indirect::Node;
use super::{Control, Written};
use ir::{ActionCall, Bits, Bucket, EntryId, Group, GroupId, GroupKind, TableId, Update};
use std::sync::Arc;

/// Number of the group that clones of ingress by a mirroring session go to, for multicast group `n`.
const MIRROR_GROUP: u32 = 0x8000_0000;
/// Tables of sessions, for clones of ingress and of egress.
const SESSIONS: [&str; 2] = ["v1.mirror_i2e_session", "v1.mirror_e2e_session"];

impl Control {
    fn known_group(&self, group: u32) -> Result<(), String> {
        match self.multicast.groups.contains_key(&group) {
            true => Ok(()),
            false => Err(format!(
                "there is no multicast group {group}; make it with mc_mgrp_create {group}"
            )),
        }
    }

    fn known_node(&self, node: usize) -> Result<(), String> {
        match self.multicast.nodes.contains_key(&node) {
            true => Ok(()),
            false => Err(format!(
                "there is no multicast node {node}; mc_node_create tells the handle of one"
            )),
        }
    }

    /// A multicast group without members.
    pub fn group_create(&mut self, group: u32) -> Result<Vec<Update>, String> {
        if group == 0 || group >= MIRROR_GROUP {
            return Err(format!("{group}: multicast groups have numbers from 1 to 65535"));
        }
        if self.multicast.groups.contains_key(&group) {
            return Err(format!("the multicast group {group} is there already"));
        }
        self.multicast.groups.insert(group, Vec::new());
        self.group_updates(group)
    }

    /// Removes a multicast group.
    pub fn group_destroy(&mut self, group: u32) -> Result<Vec<Update>, String> {
        self.known_group(group)?;
        if self.multicast.mirrored.contains(&group) {
            return Err(format!("a mirroring session sends to the multicast group {group}"));
        }
        self.multicast.groups.remove(&group);
        match self.pipeline.group(GroupId(group)) {
            Some(_) => self.commit(vec![Update::RemoveGroup(GroupId(group))]),
            None => Ok(Vec::new()),
        }
    }

    /// A multicast node; its handle.
    pub fn node_create(&mut self, rid: u16, ports: Vec<u16>) -> usize {
        let handle = self.multicast.next_node;
        self.multicast.next_node += 1;
        self.multicast.nodes.insert(handle, Node { rid, ports });
        handle
    }

    /// Gives a multicast node other ports.
    pub fn node_update(&mut self, node: usize, ports: Vec<u16>) -> Result<Vec<Update>, String> {
        self.known_node(node)?;
        if let Some(n) = self.multicast.nodes.get_mut(&node) {
            n.ports = ports;
        }
        self.groups_of(node)
    }

    /// Removes a multicast node.
    pub fn node_destroy(&mut self, node: usize) -> Result<Vec<Update>, String> {
        self.known_node(node)?;
        let mut updates = Vec::new();
        let groups: Vec<u32> = self.multicast.groups.keys().copied().collect();
        for group in groups {
            if self.multicast.groups[&group].contains(&node) {
                updates.extend(self.node_dissociate(group, node)?);
            }
        }
        self.multicast.nodes.remove(&node);
        Ok(updates)
    }

    fn groups_of(&mut self, node: usize) -> Result<Vec<Update>, String> {
        let of = |(g, nodes): (&u32, &Vec<usize>)| nodes.contains(&node).then_some(*g);
        let groups: Vec<u32> = self.multicast.groups.iter().filter_map(of).collect();
        let mut updates = Vec::new();
        for group in groups {
            updates.extend(self.group_updates(group)?);
        }
        Ok(updates)
    }

    /// Puts a node into a group.
    pub fn node_associate(&mut self, group: u32, node: usize) -> Result<Vec<Update>, String> {
        self.known_node(node)?;
        self.known_group(group)?;
        let nodes = self.multicast.groups.entry(group).or_default();
        if nodes.contains(&node) {
            return Err(format!("the node {node} is in the multicast group {group} already"));
        }
        nodes.push(node);
        self.group_updates(group)
    }

    /// Takes a node out of a group.
    pub fn node_dissociate(&mut self, group: u32, node: usize) -> Result<Vec<Update>, String> {
        self.known_group(group)?;
        let nodes = self.multicast.groups.entry(group).or_default();
        let Some(at) = nodes.iter().position(|n| *n == node) else {
            return Err(format!("the node {node} is not in the multicast group {group}"));
        };
        nodes.remove(at);
        self.group_updates(group)
    }

    fn group_updates(&mut self, group: u32) -> Result<Vec<Update>, String> {
        let updates = self.group_sets(group);
        self.commit(updates)
    }

    /// What makes a group of the pipeline of a multicast group.
    fn group_sets(&self, group: u32) -> Vec<Update> {
        let m = &self.multicast;
        let nodes = m.groups.get(&group).into_iter().flatten().filter_map(|n| m.nodes.get(n));
        let copies: Vec<(u16, u16)> =
            nodes.flat_map(|n| n.ports.iter().map(|p| (*p, n.rid))).collect();
        let counter = self.group_counter;
        let bucket = |action: ActionCall| Bucket {
            weight: 1,
            watch_port: None,
            watch_group: None,
            action,
            counter,
        };
        let set = |id: u32, buckets: Vec<Bucket>| {
            let group = Group { kind: GroupKind::All, buckets, hash: [].into(), counter };
            Update::SetGroup(GroupId(id), Arc::new(group))
        };
        let mut updates = Vec::new();
        if let Some(action) = self.names.multicast {
            let call = |(port, rid): &(u16, u16)| {
                let args = [Bits::from_u128((*port).into(), 9), Bits::from_u128((*rid).into(), 16)];
                bucket(ActionCall::with(action, args))
            };
            updates.push(set(group, copies.iter().map(call).collect()));
        }
        if m.mirrored.contains(&group)
            && let Some(action) = self.names.mirror_ingress
        {
            let call = |(port, _): &(u16, u16)| {
                bucket(ActionCall::with(action, [Bits::from_u128((*port).into(), 9)]))
            };
            updates.push(set(MIRROR_GROUP | group, copies.iter().map(call).collect()));
        }
        updates
    }

    /// Everything of groups, for a program that has none of it yet.
    pub(super) fn all_groups(&self) -> Vec<Update> {
        self.multicast.groups.keys().flat_map(|g| self.group_sets(*g)).collect()
    }

    fn session_table(&self, name: &str) -> bool {
        self.names.table(name).is_some_and(|t| t.name == name)
    }

    fn session(
        &mut self,
        table: &str,
        session: u32,
        action: &str,
        arg: u32,
    ) -> Result<Vec<Update>, String> {
        let keys: [Written; 1] = [(None, session.to_string())];
        let args: [Written; 1] = [(None, arg.to_string())];
        let mut updates = match self.find_session(table, session) {
            Some((t, old)) => self.remove(t, old)?,
            None => Vec::new(),
        };
        updates.extend(self.add(table, &keys, 0, action, &args)?.1);
        Ok(updates)
    }

    fn find_session(&self, table: &str, session: u32) -> Option<(TableId, EntryId)> {
        let t = self.names.table(table).filter(|t| t.name == table)?;
        let keys = Self::matches(t, &[(None, session.to_string())]).ok()?;
        Some((t.id, self.pipeline.entries(t.id).find_strict(0, &keys)?.id))
    }

    /// A mirroring session that sends to a port; in place of what the session was.
    pub fn mirror(&mut self, session: u32, port: u16) -> Result<Vec<Update>, String> {
        let mut all = Vec::new();
        for table in SESSIONS {
            if self.session_table(table) {
                all.extend(self.session(table, session, "port", port.into())?);
            }
        }
        Ok(all)
    }

    /// A mirroring session that sends to a multicast group; in place of what the session was.
    pub fn mirror_group(&mut self, session: u32, group: u32) -> Result<Vec<Update>, String> {
        self.multicast.mirrored.insert(group);
        self.multicast.groups.entry(group).or_default();
        let mut all = self.group_updates(group)?;
        if self.session_table(SESSIONS[0]) {
            all.extend(self.session(SESSIONS[0], session, "group", MIRROR_GROUP | group)?);
        }
        Ok(all)
    }

    /// Removes a mirroring session.
    pub fn mirror_delete(&mut self, session: u32) -> Result<Vec<Update>, String> {
        let mut all = Vec::new();
        for table in SESSIONS {
            if let Some((t, entry)) = self.find_session(table, session) {
                all.extend(self.remove(t, entry)?);
            }
        }
        match all.is_empty() {
            false => Ok(all),
            true => Err(format!("there is no mirroring session {session}")),
        }
    }
}
