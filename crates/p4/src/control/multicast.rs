//! Multicast groups, their nodes, and mirroring sessions.
//!
//! A *node* is a replica number and ports; a group is the nodes associated with it, each of whose
//! ports gets a copy, and copies that it was given itself. A *session* is an entry of the tables that the
//! architecture looks clones up in: it names a port, a group for clones of ingress, or several ports for clones of egress.
//!
//! A copy with backups goes to the first of its ports that is up.

pub use super::indirect::{Copies, Cut, Replica, Session};

use super::indirect::Node;
use super::refused::{Refused, no};
use super::{Change, Control, Does};
use crate::lower::names::EGRESS_REPLICAS_MAX;
use ir::{
    ActionCall, Bits, Bucket, EntryId, Group, GroupId, GroupKind, KeyMatch, Pattern, TableId,
    Update,
};
use std::sync::Arc;

/// Number of the group that clones of ingress by a mirroring session go to, for multicast group `n`.
const MIRROR_GROUP: u32 = 0x8000_0000;
/// Number of the multicast group that stands for a session of several copies, for session 0.
const SESSION_GROUP: u32 = 0x1_0000;
/// Sessions are numbers below this.
const SESSIONS_MAX: u32 = 0x8000;
/// Tables of sessions, for clones of ingress and of egress.
const SESSIONS: [&str; 2] = ["v1.mirror_i2e_session", "v1.mirror_e2e_session"];

/// What the action of a session takes.
fn session_args(port: u32, rid: u16, cut: Cut) -> [Bits; 4] {
    let number = |n: u32, width| Bits::from_u128(n.into(), width);
    [number(port, 9), number(rid.into(), 16), number(cut.length, 32), number(cut.queue, 32)]
}

impl Control {
    fn known_group(&self, group: u32) -> Result<(), Refused> {
        match self.multicast.groups.contains_key(&group) {
            true => Ok(()),
            false => Err(no!(
                NotFound,
                "there is no multicast group {group}; make it with mc_mgrp_create {group}"
            )),
        }
    }

    fn known_node(&self, node: usize) -> Result<(), Refused> {
        match self.multicast.nodes.contains_key(&node) {
            true => Ok(()),
            false => Err(no!(
                NotFound,
                "there is no multicast node {node}; mc_node_create tells the handle of one"
            )),
        }
    }

    fn new_group(&self, group: u32) -> Result<(), Refused> {
        if group == 0 || group >= SESSION_GROUP {
            return Err(no!(Invalid, "{group}: multicast groups have numbers from 1 to 65535"));
        }
        match self.multicast.groups.contains_key(&group) {
            true => Err(no!(Exists, "the multicast group {group} is there already")),
            false => Ok(()),
        }
    }

    /// A multicast group without members.
    pub fn group_create(&mut self, group: u32) -> Result<Vec<Update>, Refused> {
        if self.guard.is_some() {
            let change = Change::Group { group, there: true };
            return self.guarded(&change, |c| c.group_create(group));
        }
        self.new_group(group)?;
        self.multicast.groups.insert(group, Vec::new());
        self.group_updates(group)
    }

    /// A multicast group of these copies.
    pub fn multicast_insert(&mut self, group: u32, to: Copies) -> Result<Vec<Update>, Refused> {
        self.new_group(group)?;
        self.multicast.groups.insert(group, Vec::new());
        self.multicast.copies.insert(group, to);
        self.group_updates(group)
    }

    /// Gives a multicast group other copies; nodes are no more associated with it.
    pub fn multicast_set(&mut self, group: u32, to: Copies) -> Result<Vec<Update>, Refused> {
        self.known_group(group)?;
        self.multicast.groups.insert(group, Vec::new());
        self.multicast.copies.insert(group, to);
        self.group_updates(group)
    }

    /// A multicast group of these numbers and ports, in place of what it was.
    pub fn multicast_put(&mut self, group: u32, to: &[(u16, u32)]) -> Result<Vec<Update>, Refused> {
        let mut updates = match self.multicast.groups.contains_key(&group) {
            true => Vec::new(),
            false => self.group_create(group)?,
        };
        let replica = |(instance, port): &(u16, u32)| Replica {
            port: *port,
            instance: *instance,
            numbered: false,
            backups: Vec::new(),
        };
        let metadata = self.multicast.copies.get(&group).map(|c| c.metadata.clone());
        let to = Copies {
            replicas: to.iter().map(replica).collect(),
            metadata: metadata.unwrap_or_default(),
        };
        updates.extend(self.multicast_set(group, to)?);
        Ok(updates)
    }

    /// There is such a multicast group.
    pub fn has_multicast_group(&self, group: u32) -> bool {
        group < SESSION_GROUP && self.multicast.groups.contains_key(&group)
    }

    /// All multicast groups with their copies, those of nodes among them.
    pub fn multicast_groups(&self) -> impl Iterator<Item = (u32, Copies)> + '_ {
        let groups = self.multicast.groups.keys().filter(|g| **g < SESSION_GROUP);
        groups.map(|g| {
            let metadata = self.multicast.copies.get(g).map(|c| c.metadata.clone());
            let metadata = metadata.unwrap_or_default();
            (*g, Copies { replicas: self.replicas(*g), metadata })
        })
    }

    /// Removes a multicast group.
    pub fn group_destroy(&mut self, group: u32) -> Result<Vec<Update>, Refused> {
        self.known_group(group)?;
        if self.guard.is_some() {
            let change = Change::Group { group, there: false };
            return self.guarded(&change, |c| c.group_destroy(group));
        }
        if self.multicast.mirrored.contains(&group) {
            return Err(no!(
                Precondition,
                "a mirroring session sends to the multicast group {group}"
            ));
        }
        self.multicast.groups.remove(&group);
        self.multicast.copies.remove(&group);
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
    pub fn node_update(&mut self, node: usize, ports: Vec<u16>) -> Result<Vec<Update>, Refused> {
        self.known_node(node)?;
        if let Some(n) = self.multicast.nodes.get_mut(&node) {
            n.ports = ports;
        }
        self.groups_of(node)
    }

    /// Removes a multicast node.
    pub fn node_destroy(&mut self, node: usize) -> Result<Vec<Update>, Refused> {
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

    fn groups_of(&mut self, node: usize) -> Result<Vec<Update>, Refused> {
        let of = |(g, nodes): (&u32, &Vec<usize>)| nodes.contains(&node).then_some(*g);
        let groups: Vec<u32> = self.multicast.groups.iter().filter_map(of).collect();
        let mut updates = Vec::new();
        for group in groups {
            updates.extend(self.group_updates(group)?);
        }
        Ok(updates)
    }

    /// Puts a node into a group.
    pub fn node_associate(&mut self, group: u32, node: usize) -> Result<Vec<Update>, Refused> {
        self.known_node(node)?;
        self.known_group(group)?;
        let nodes = self.multicast.groups.entry(group).or_default();
        if nodes.contains(&node) {
            return Err(no!(Exists, "the node {node} is in the multicast group {group} already"));
        }
        nodes.push(node);
        self.group_updates(group)
    }

    /// Takes a node out of a group.
    pub fn node_dissociate(&mut self, group: u32, node: usize) -> Result<Vec<Update>, Refused> {
        self.known_group(group)?;
        let nodes = self.multicast.groups.entry(group).or_default();
        let Some(at) = nodes.iter().position(|n| *n == node) else {
            return Err(no!(NotFound, "the node {node} is not in the multicast group {group}"));
        };
        nodes.remove(at);
        self.group_updates(group)
    }

    fn group_updates(&mut self, group: u32) -> Result<Vec<Update>, Refused> {
        let updates = self.group_sets(group);
        self.commit(updates)
    }

    /// All copies of a group.
    fn replicas(&self, group: u32) -> Vec<Replica> {
        let m = &self.multicast;
        let nodes = m.groups.get(&group).into_iter().flatten().filter_map(|n| m.nodes.get(n));
        let of_nodes = nodes.flat_map(|n| {
            let replica = |p: &u16| Replica {
                port: (*p).into(),
                instance: n.rid,
                numbered: false,
                backups: Vec::new(),
            };
            n.ports.iter().map(replica)
        });
        let own = m.copies.get(&group).map(|c| c.replicas.clone()).unwrap_or_default();
        of_nodes.chain(own).collect()
    }

    /// Where a copy goes: to its port, or the first backup that is up.
    fn placed(&self, r: &Replica) -> (u32, u16) {
        let all = std::iter::once((r.port, r.instance)).chain(r.backups.iter().copied());
        let mut up = all.filter(|(port, _)| !self.down.contains(port));
        up.next().unwrap_or((r.port, r.instance))
    }

    /// What makes a group of the pipeline of a multicast group.
    fn group_sets(&self, group: u32) -> Vec<Update> {
        let copies: Vec<(u32, u16)> = self.replicas(group).iter().map(|r| self.placed(r)).collect();
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
            let call = |(port, rid): &(u32, u16)| {
                let args = [Bits::from_u128((*port).into(), 9), Bits::from_u128((*rid).into(), 16)];
                bucket(ActionCall::with(action, args))
            };
            updates.push(set(group, copies.iter().map(call).collect()));
        }
        if self.multicast.mirrored.contains(&group)
            && let Some(action) = self.names.mirror_ingress
        {
            let cut = self.multicast.cuts.get(&group).copied().unwrap_or_default();
            let call = |(port, rid): &(u32, u16)| {
                bucket(ActionCall::with(action, session_args(*port, *rid, cut)))
            };
            updates.push(set(MIRROR_GROUP | group, copies.iter().map(call).collect()));
        }
        updates
    }

    /// Everything of groups, for a program that has none of it yet.
    pub(super) fn all_groups(&self) -> Vec<Update> {
        self.multicast.groups.keys().flat_map(|g| self.group_sets(*g)).collect()
    }

    /// Ports have gone down or come up: copies with backups that are concerned go elsewhere.
    pub(super) fn replicate_anew(&mut self, ports: &[u32]) -> Result<Vec<Update>, Refused> {
        let concerned = |r: &Replica| {
            !r.backups.is_empty()
                && (ports.contains(&r.port) || r.backups.iter().any(|(p, _)| ports.contains(p)))
        };
        let groups = self.multicast.copies.iter();
        let groups = groups.filter(|(_, c)| c.replicas.iter().any(concerned));
        let groups: Vec<u32> = groups.map(|(g, _)| *g).collect();
        let mut updates = Vec::new();
        for group in groups {
            updates.extend(self.group_updates(group)?);
        }
        let sessions = self.multicast.sessions.iter();
        let sessions = sessions.filter(|(_, of)| of.replicas.iter().any(concerned));
        let sessions: Vec<(u32, Session)> = sessions.map(|(n, of)| (*n, of.clone())).collect();
        for (session, of) in sessions {
            updates.extend(self.egress_session(session, &of)?);
        }
        Ok(updates)
    }

    fn session_table(&self, name: &str) -> bool {
        self.names.table(name).is_some_and(|t| t.name == name)
    }

    fn session_key(session: u32, width: u32) -> Box<[KeyMatch]> {
        let pattern = Pattern::Exact(Bits::from_u128(session.into(), width));
        Box::from([KeyMatch { key: 0, pattern }])
    }

    fn session(
        &mut self,
        table: &str,
        session: u32,
        action: &str,
        args: impl IntoIterator<Item = Bits>,
    ) -> Result<Vec<Update>, Refused> {
        let t = self.table(table)?;
        let width = t.keys.first().map_or(32, |k| k.width);
        if width < 32 && session >> width != 0 {
            return Err(no!(OutOfRange, "{session}: sessions have numbers of {width} bits"));
        }
        let a = Self::action(t, action)?;
        let (id, call) = (t.id, ActionCall::with(a.id, args));
        let mut updates = match self.find_session(table, session) {
            Some((t, old)) => self.remove(t, old)?,
            None => Vec::new(),
        };
        let key = Self::session_key(session, width);
        self.entry_insert(id, key, 0, Does::Action(call), 0, &mut updates)?;
        Ok(updates)
    }

    fn find_session(&self, table: &str, session: u32) -> Option<(TableId, EntryId)> {
        let t = self.names.table(table).filter(|t| t.name == table)?;
        let keys = Self::session_key(session, t.keys.first()?.width);
        Some((t.id, self.pipeline.entries(t.id).find_strict(0, &keys)?.id))
    }

    /// A mirroring session that sends to a port; in place of what the session was.
    pub fn mirror(&mut self, session: u32, port: u16) -> Result<Vec<Update>, Refused> {
        let cut = Cut::default();
        let before = self.session_of(session).and_then(|(_, group)| group);
        let mut all = self.mirror_as(session, port, 0, cut)?;
        all.extend(self.not_mirrored(before)?);
        let replica =
            Replica { port: port.into(), instance: 0, numbered: false, backups: Vec::new() };
        self.multicast.sessions.insert(session, Session { replicas: vec![replica], cut });
        Ok(all)
    }

    /// Clones of a session go to a port, with this number of copy.
    fn mirror_as(
        &mut self,
        session: u32,
        port: u16,
        rid: u16,
        cut: Cut,
    ) -> Result<Vec<Update>, Refused> {
        let mut all = Vec::new();
        for table in SESSIONS {
            if self.session_table(table) {
                let args = session_args(port.into(), rid, cut);
                all.extend(self.session(table, session, "port", args)?);
            }
        }
        Ok(all)
    }

    /// No more session sends to a multicast group, unless another one does.
    fn not_mirrored(&mut self, group: Option<u32>) -> Result<Vec<Update>, Refused> {
        let Some(group) = group else { return Ok(Vec::new()) };
        let mut sessions = self.multicast.sessions.keys();
        let sends = |n: &u32| self.session_of(*n).is_some_and(|(_, to)| to == Some(group));
        if sessions.any(sends) || !self.multicast.mirrored.remove(&group) {
            return Ok(Vec::new());
        }
        let id = GroupId(MIRROR_GROUP | group);
        match self.pipeline.group(id) {
            Some(_) => self.commit(vec![Update::RemoveGroup(id)]),
            None => Ok(Vec::new()),
        }
    }

    /// A mirroring session that sends to a multicast group; in place of what the session was.
    pub fn mirror_group(&mut self, session: u32, group: u32) -> Result<Vec<Update>, Refused> {
        let before = self.session_of(session).and_then(|(_, group)| group);
        self.multicast.mirrored.insert(group);
        self.multicast.groups.entry(group).or_default();
        let mut all = self.group_updates(group)?;
        if self.session_table(SESSIONS[0]) {
            let group = Bits::from_u128((MIRROR_GROUP | group).into(), 32);
            all.extend(self.session(SESSIONS[0], session, "group", [group])?);
        }
        let cut = self.multicast.cuts.get(&group).copied().unwrap_or_default();
        let replicas = self.replicas(group);
        self.multicast.sessions.insert(session, Session { replicas, cut });
        if before != Some(group) {
            all.extend(self.not_mirrored(before)?);
        }
        Ok(all)
    }

    /// What a session of several copies is for clones of egress.
    fn egress_session(&mut self, session: u32, of: &Session) -> Result<Vec<Update>, Refused> {
        if !self.session_table(SESSIONS[1]) {
            return Ok(Vec::new());
        }
        let number = |n: u32, width| Bits::from_u128(n.into(), width);
        let Cut { length, queue } = of.cut;
        let mut args =
            vec![number(of.replicas.len() as u32, 8), number(length, 32), number(queue, 32)];
        for place in 0..EGRESS_REPLICAS_MAX as usize {
            let (port, rid) = of.replicas.get(place).map_or((0, 0), |r| self.placed(r));
            args.extend([number(port, 9), number(rid.into(), 16)]);
        }
        self.session(SESSIONS[1], session, "several", args)
    }

    /// A session of these copies, in place of what it was.
    fn session_put(&mut self, session: u32, to: Session) -> Result<Vec<Update>, Refused> {
        if session == 0 || session >= SESSIONS_MAX {
            return Err(no!(
                OutOfRange,
                "{session}: clone sessions have numbers from 1 to {}",
                SESSIONS_MAX - 1
            ));
        }
        if let Some(port) = to.replicas.iter().map(|r| r.port).find(|port| *port > 511) {
            return Err(no!(OutOfRange, "{port} is no port of clones: 0 to 511 are"));
        }
        let updates = match to.replicas.as_slice() {
            [one] if one.backups.is_empty() => {
                self.mirror_as(session, one.port as u16, one.instance, to.cut)?
            }
            several
                if self.session_table(SESSIONS[1])
                    && several.len() > EGRESS_REPLICAS_MAX as usize =>
            {
                return Err(no!(
                    Unsupported,
                    "clone session {session} has {} replicas, and the program clones in egress, where \
                     {EGRESS_REPLICAS_MAX} is the most",
                    several.len()
                ));
            }
            _ => {
                let group = SESSION_GROUP + session;
                let copies = Copies { replicas: to.replicas.clone(), metadata: Vec::new() };
                self.multicast.copies.insert(group, copies);
                self.multicast.cuts.insert(group, to.cut);
                let mut updates = self.mirror_group(session, group)?;
                updates.extend(self.egress_session(session, &to)?);
                updates
            }
        };
        self.multicast.sessions.insert(session, to);
        Ok(updates)
    }

    /// A new session of these copies.
    pub fn session_insert(&mut self, session: u32, to: Session) -> Result<Vec<Update>, Refused> {
        match self.multicast.sessions.contains_key(&session) {
            true => Err(no!(Exists, "the clone session {session} is there already")),
            false => self.session_put(session, to),
        }
    }

    /// Gives a session other copies.
    pub fn session_set(&mut self, session: u32, to: Session) -> Result<Vec<Update>, Refused> {
        match self.multicast.sessions.contains_key(&session) {
            true => self.session_put(session, to),
            false => Err(no!(NotFound, "there is no clone session {session}")),
        }
    }

    /// All sessions with their copies.
    pub fn sessions(&self) -> impl Iterator<Item = (u32, &Session)> {
        self.multicast.sessions.iter().map(|(s, of)| (*s, of))
    }

    /// A session, and the multicast group that its clones go to, if it was made for one.
    pub fn session_of(&self, session: u32) -> Option<(&Session, Option<u32>)> {
        let of = self.multicast.sessions.get(&session)?;
        let found = self.find_session(SESSIONS[0], session);
        let group = found.and_then(|(table, entry)| {
            let call = &self.pipeline.entries(table).get(entry)?.action;
            let [group] = &call.args[..] else { return None };
            Some(group.low_u32() & !MIRROR_GROUP).filter(|group| *group < SESSION_GROUP)
        });
        Some((of, group))
    }

    /// Removes a mirroring session.
    pub fn mirror_delete(&mut self, session: u32) -> Result<Vec<Update>, Refused> {
        let group = self.session_of(session).and_then(|(_, group)| group);
        if self.multicast.sessions.remove(&session).is_none() {
            return Err(no!(NotFound, "there is no mirroring session {session}"));
        }
        let mut all = Vec::new();
        for table in SESSIONS {
            if let Some((t, entry)) = self.find_session(table, session) {
                all.extend(self.remove(t, entry)?);
            }
        }
        let own = SESSION_GROUP + session;
        if session < SESSIONS_MAX && self.multicast.copies.remove(&own).is_some() {
            self.multicast.groups.remove(&own);
            self.multicast.mirrored.remove(&own);
            self.multicast.cuts.remove(&own);
            let ids = [own, MIRROR_GROUP | own].map(GroupId);
            let gone = ids.into_iter().filter(|id| self.pipeline.group(*id).is_some());
            let gone = gone.map(Update::RemoveGroup).collect();
            all.extend(self.commit(gone)?);
        }
        all.extend(self.not_mirrored(group)?);
        Ok(all)
    }
}
