//! The flow monitors of one connection (1.4.1 §7.3.5.17; in 1.0 and 1.3 by extensions).
//!
//! Monitors live with the connection and end with it. What they tell is gathered for each connection
//! and queued as multipart replies. A peer that does not take its updates is told of a pause once
//! [`WAITING_MAX`] of them wait; from then on changes are not told, and when it has taken what waits
//! it is told all entries that it watches, as they are then, and that it goes on.

use of_pipeline::Agent;
use of_pipeline::monitor::{FlowChange, concerns, told};
use openflow::{
    ErrorCode, FlowMonitorRequest, FlowUpdate, Message, MonitorCommand, MonitorFlags,
    MultipartReply, MultipartReplyBody, Version,
};
use std::collections::BTreeMap;

/// Monitors of one connection, at most.
pub(crate) const MONITORS_MAX: usize = 1024;
/// Updates that wait for a connection, at most: then it pauses.
pub(crate) const WAITING_MAX: usize = 65_536;
/// Updates in one message's list; a message that grows too long is cut anyway.
const TOGETHER: usize = 256;

/// The monitors of one connection.
#[derive(Default)]
pub(crate) struct Monitors {
    watches: BTreeMap<u32, FlowMonitorRequest>,
    /// What has gathered since the last [`take`](Self::take).
    pending: Vec<FlowUpdate>,
    /// The peer does not keep up.
    pub(crate) paused: bool,
}

impl Monitors {
    /// Nothing is watched.
    pub(crate) fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Begins, changes or ends a monitor.
    pub(crate) fn request(
        &mut self,
        request: &FlowMonitorRequest,
    ) -> Result<(), (ErrorCode, String)> {
        let id = request.monitor_id;
        let there = self.watches.contains_key(&id);
        match request.command {
            //= openflow-1.4.1 §7.5.4.16: a monitor that is there already is
            //= OFPMOFC_MONITOR_EXISTS, one that is not OFPMOFC_UNKNOWN_MONITOR.
            MonitorCommand::Add if there => {
                let text = format!("monitor {id} exists; modify it or delete it first");
                Err((ErrorCode::MofcMonitorExists, text))
            }
            MonitorCommand::Modify | MonitorCommand::Delete if !there => {
                let text = format!("there is no monitor {id} on this connection");
                Err((ErrorCode::MofcUnknownMonitor, text))
            }
            MonitorCommand::Add if self.watches.len() >= MONITORS_MAX => {
                let text = format!("{MONITORS_MAX} monitors are the most of one connection");
                Err((ErrorCode::MofcUnknown, text))
            }
            MonitorCommand::Add | MonitorCommand::Modify => {
                self.watches.insert(id, request.clone());
                Ok(())
            }
            MonitorCommand::Delete => {
                self.watches.remove(&id);
                Ok(())
            }
        }
    }

    /// A change that may concern some of them.
    pub(crate) fn change(&mut self, change: &FlowChange, watcher: u64) {
        if self.paused {
            return;
        }
        let concerned = self.watches.values().filter(|m| concerns(m, change, watcher));
        let flags = concerned.map(|m| m.flags).reduce(|a, b| a | b);
        let Some(flags) = flags else { return };
        let update = told(flags, change, watcher);
        // One request, one abbreviation.
        if !matches!(update, FlowUpdate::Abbreviated(_)) || self.pending.last() != Some(&update) {
            self.pending.push(update);
        }
    }

    /// What has gathered, as messages.
    pub(crate) fn take(&mut self) -> Vec<Message> {
        messages(std::mem::take(&mut self.pending))
    }

    /// All that is watched now: what is told after a pause.
    pub(crate) fn all(&self, agent: &Agent, version: Version) -> Vec<FlowUpdate> {
        let all = |m: &FlowMonitorRequest| {
            let flags = m.flags | MonitorFlags::INITIAL;
            agent.monitored(version, &FlowMonitorRequest { flags, ..m.clone() })
        };
        // What was right when the monitor began still is.
        self.watches.values().flat_map(|m| all(m).unwrap_or_default()).collect()
    }
}

/// Updates as multipart replies.
pub(crate) fn messages(mut updates: Vec<FlowUpdate>) -> Vec<Message> {
    let mut list = Vec::new();
    while !updates.is_empty() {
        let rest = updates.split_off(updates.len().min(TOGETHER));
        let body = MultipartReplyBody::FlowMonitor(std::mem::replace(&mut updates, rest));
        list.push(Message::MultipartReply(MultipartReply { more: false, body }));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{
        FlowUpdateKind, FullUpdate, GroupId, Instructions, Match, PortNo, TableId, Xid,
    };

    fn watch(id: u32, command: MonitorCommand, flags: MonitorFlags) -> FlowMonitorRequest {
        FlowMonitorRequest {
            monitor_id: id,
            command,
            flags,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            table_id: TableId::ALL,
            matching: Match::new(),
        }
    }

    fn change(by: u64) -> FlowChange {
        FlowChange {
            update: FullUpdate {
                kind: FlowUpdateKind::Added,
                table_id: TableId(0),
                reason: 0,
                idle_timeout: 0,
                hard_timeout: 0,
                priority: 1,
                cookie: 0,
                matching: Match::new(),
                instructions: Instructions::new(),
            },
            before: None,
            by: Some((by, Xid(7))),
        }
    }

    #[test]
    fn monitors_come_change_and_go() {
        let mut m = Monitors::default();
        let ask = |m: &mut Monitors, id, command| {
            m.request(&watch(id, command, MonitorFlags::ADD)).map_err(|(code, _)| code)
        };
        assert_eq!(ask(&mut m, 1, MonitorCommand::Modify), Err(ErrorCode::MofcUnknownMonitor));
        assert_eq!(ask(&mut m, 1, MonitorCommand::Add), Ok(()));
        assert_eq!(ask(&mut m, 1, MonitorCommand::Add), Err(ErrorCode::MofcMonitorExists));
        assert_eq!(ask(&mut m, 1, MonitorCommand::Modify), Ok(()));
        assert_eq!(ask(&mut m, 1, MonitorCommand::Delete), Ok(()));
        assert_eq!(ask(&mut m, 1, MonitorCommand::Delete), Err(ErrorCode::MofcUnknownMonitor));
        for id in 0..MONITORS_MAX as u32 {
            assert_eq!(ask(&mut m, id, MonitorCommand::Add), Ok(()));
        }
        assert_eq!(ask(&mut m, u32::MAX, MonitorCommand::Add), Err(ErrorCode::MofcUnknown));
    }

    #[test]
    fn own_changes_are_abbreviated_once_and_a_pause_tells_nothing() {
        let mut m = Monitors::default();
        m.request(&watch(1, MonitorCommand::Add, MonitorFlags::ADD)).unwrap();
        m.change(&change(5), 5);
        m.change(&change(5), 5);
        m.change(&change(6), 5);
        let lists = m.take();
        let Message::MultipartReply(reply) = &lists[0] else { panic!("{lists:?}") };
        let MultipartReplyBody::FlowMonitor(list) = &reply.body else { panic!("{reply:?}") };
        assert!(matches!(list[..], [FlowUpdate::Abbreviated(Xid(7)), FlowUpdate::Full(_)]));
        m.paused = true;
        m.change(&change(6), 5);
        assert!(m.take().is_empty());
        // Its own alone, and in full.
        let flags = MonitorFlags::ADD | MonitorFlags::ONLY_OWN | MonitorFlags::NO_ABBREV;
        let mut m = Monitors::default();
        m.request(&watch(1, MonitorCommand::Add, flags)).unwrap();
        m.change(&change(6), 5);
        assert!(m.take().is_empty());
        m.change(&change(5), 5);
        assert_eq!(m.take().len(), 1);
    }
}
