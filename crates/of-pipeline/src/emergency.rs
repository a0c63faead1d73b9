//! 1.0's emergency entries (1.0.2 §4.3, §5.3.3): what the switch does without controllers.
//!
//! They lie beside the tables, and no packet is looked up among them. When the last controller is lost
//! ([`Agent::lost_controllers`](crate::Agent::lost_controllers)) and there are some, all entries of all tables go, and these are added to the first
//! table, in one version of the pipeline. There they stay when a controller is back, entries like others; and they
//! stay here for the next time. Without any, the switch goes on by its fail mode alone.
//!
//! A flow-mod with OFPFF_EMERG is about these entries, one without it is not. They have no timeouts, and tell nothing
//! when they go. Statistics list them as table 0xfe.

use crate::env::Env;
use crate::flow::{Filter, Flow};
use crate::refusal::Refusal;
use crate::validate::Rules;
use of_lower::{Context, lower_instructions};
use openflow::{
    FlowMod, FlowModCommand, FlowModFlags, FlowStatsRequest, GroupId, Message, TableId, Version,
};

/// How many there are, at most.
pub const EMERGENCY_MAX: usize = 1024;

/// The emergency entries of a switch, as they came.
#[derive(Debug, Default)]
pub(crate) struct Emergency {
    flows: Vec<Flow>,
}

impl Emergency {
    /// Executes a flow-mod with OFPFF_EMERG.
    //= openflow-1.0.2 §5.3.3: an emergency entry is used only while there is no controller; it has no timeouts.
    pub(crate) fn change(
        &mut self,
        env: &Env,
        rules: &Rules<'_>,
        request: FlowMod,
    ) -> Result<(), Refusal> {
        if request.idle_timeout != 0 || request.hard_timeout != 0 {
            return Err(Refusal::EmergencyTimeout);
        }
        request.matching.check()?;
        let strict =
            matches!(request.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
        let filter = Filter {
            table: None,
            matching: &request.matching,
            cookie: 0,
            cookie_mask: 0,
            out_port: match request.command {
                FlowModCommand::Delete | FlowModCommand::DeleteStrict => request.out_port,
                _ => openflow::PortNo::ANY,
            },
            out_group: GroupId::ANY,
        };
        let same =
            |flow: &Flow| flow.priority == request.priority && flow.matching == request.matching;
        let is_meant = |flow: &Flow| filter.admits(flow) && (!strict || same(flow));
        match request.command {
            //= openflow-1.0.2 §4.6: entries of the emergency table that are deleted tell nothing.
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
                self.flows.retain(|flow| !is_meant(flow));
                return Ok(());
            }
            FlowModCommand::Add | FlowModCommand::Modify | FlowModCommand::ModifyStrict => {}
        }
        if let Some(buffer) = request.buffer_id {
            return Err(Refusal::BufferUnknown { buffer: buffer.0 });
        }
        let flows = &self.flows;
        let changes = request.command != FlowModCommand::Add && flows.iter().any(is_meant);
        let matching = if changes { None } else { Some(&request.matching) };
        let instructions = &request.instructions;
        rules.instructions(Version::V10, 0, matching, instructions)?;
        // What cannot be done is to be known now.
        lower_instructions(&env.layout, &env.elements(), 0, Context::Entry, instructions)?;
        if changes {
            for flow in self.flows.iter_mut().filter(|flow| is_meant(flow)) {
                flow.instructions = instructions.clone().into();
                flow.cookie = request.cookie;
            }
            return Ok(());
        }
        let overlaps = |flow: &Flow| {
            flow.priority == request.priority && flow.matching.overlaps(&request.matching)
        };
        if request.flags.contains(FlowModFlags::CHECK_OVERLAP) && flows.iter().any(overlaps) {
            return Err(Refusal::Overlap {
                table: TableId::EMERGENCY.0,
                priority: request.priority,
            });
        }
        let old = flows.iter().position(same);
        // The first table is to hold them.
        let max = EMERGENCY_MAX.min(rules.configs.capacity(0) as usize);
        if old.is_none() && flows.len() >= max {
            return Err(Refusal::EmergencyFull { max });
        }
        let flags = request.flags - (FlowModFlags::EMERG | FlowModFlags::SEND_FLOW_REM);
        // They do not time out, and are evicted by nothing.
        let lasting = FlowMod { flags, importance: 0, idle_timeout: 0, hard_timeout: 0, ..request };
        let flow = Flow::asked_for(lasting, env.switch.now_ns());
        match old {
            Some(at) => self.flows[at] = flow,
            None => self.flows.push(flow),
        }
        Ok(())
    }

    /// What takes their place of all others: requests of one bundle. None if there are none.
    pub(crate) fn takes_over(&self) -> Option<Vec<Message>> {
        if self.flows.is_empty() {
            return None;
        }
        //= openflow-1.0.2 §4.3: all normal entries go in emergency mode, and the emergency entries decide.
        let all = FlowMod {
            command: FlowModCommand::Delete,
            table_id: TableId::ALL,
            ..FlowMod::add(Default::default(), Default::default())
        };
        let add = |flow: &Flow| FlowMod {
            dialect: Version::V10,
            cookie: flow.cookie,
            table_id: TableId::ALL,
            priority: flow.priority,
            // Those that overlap have been told apart when they came.
            flags: flow.flags - FlowModFlags::CHECK_OVERLAP,
            uncounted: flow.uncounted,
            ..FlowMod::add(flow.matching.clone(), flow.instructions.to_owned())
        };
        let entries = self.flows.iter().map(add);
        Some(std::iter::once(all).chain(entries).map(Message::FlowMod).collect())
    }

    /// Those that a request for statistics is about.
    pub(crate) fn select<'a>(&'a self, filter: &'a Filter<'a>) -> impl Iterator<Item = &'a Flow> {
        self.flows.iter().filter(|flow| filter.admits(flow))
    }
}

/// Whether a request for statistics is about these entries.
pub(crate) fn is_asked(version: Version, request: &FlowStatsRequest) -> bool {
    version == Version::V10 && !request.extended && request.table_id == TableId::EMERGENCY
}
