//! Flow entries as their controllers wrote them, and which of them a request is about.

use crate::alike::SharedInstructions;
use ir::ActionId;
use openflow::{
    Action, Age, FinTimeout, FlowMod, FlowModFlags, FlowStats, GroupId, Instruction, Instructions,
    Match, PortNo, TableId, Uncounted,
};

/// Nanoseconds of a timeout in seconds.
pub(crate) fn timeout_ns(seconds: u16) -> u64 {
    u64::from(seconds) * 1_000_000_000
}

/// Where an entry is: its table, and its id in the switch. Unique, and ordered by table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Its table.
    pub table: u8,
    /// Its id, which is also its counter.
    pub id: u32,
}

/// One flow entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Higher wins.
    pub priority: u16,
    /// As its controller set them.
    pub flags: FlowModFlags,
    /// It reflects an entry of another table ([`crate::reflection`]).
    pub synchronised: bool,
    /// Entries of less importance are evicted first.
    pub importance: u16,
    /// Seconds without a packet until it goes; 0 for never.
    pub idle_timeout: u16,
    /// Seconds until it goes; 0 for never.
    pub hard_timeout: u16,
    /// Its controller's.
    pub cookie: u64,
    /// When it was added, in nanoseconds of the switch's clock.
    pub created_ns: u64,
    /// How long it had been there in the process that this one took over from.
    pub before_ns: u64,
    /// The action that it became.
    pub action: ActionId,
    /// What 1.0 said and is told back.
    pub uncounted: Uncounted,
    /// What it matches.
    pub matching: Match,
    /// What it does.
    pub instructions: SharedInstructions,
}

impl Flow {
    /// The entry that a request to add one asks for, added now. Its action is yet to be lowered.
    pub(crate) fn asked_for(request: FlowMod, now_ns: u64) -> Flow {
        let mut flow = Flow {
            priority: request.priority,
            flags: request.flags,
            synchronised: false,
            importance: request.importance,
            idle_timeout: request.idle_timeout,
            hard_timeout: request.hard_timeout,
            cookie: request.cookie,
            created_ns: now_ns,
            before_ns: 0,
            action: ActionId(0),
            uncounted: request.uncounted,
            matching: request.matching,
            instructions: tight(request.instructions).into(),
        };
        flow.matching.shrink_to_fit();
        flow
    }

    /// How long it has been there, in this process and the one before.
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.created_ns).saturating_add(self.before_ns)
    }

    /// As statistics show it, without its age and counters.
    pub fn stats(&self, table_id: TableId) -> FlowStats {
        FlowStats {
            table_id,
            age: Age::default(),
            priority: self.priority,
            idle_timeout: self.idle_timeout,
            hard_timeout: self.hard_timeout,
            flags: self.flags,
            importance: self.importance,
            cookie: self.cookie,
            packet_count: 0,
            byte_count: 0,
            uncounted: self.uncounted,
            matching: self.matching.clone(),
            instructions: self.instructions.to_owned(),
        }
    }

    /// A table-miss entry: priority 0, matches everything (1.3.5 §5.4).
    pub fn is_table_miss(&self) -> bool {
        self.priority == 0 && self.matching.is_empty()
    }
}

/// A list without the room that building it left.
pub(crate) fn tight(mut instructions: Instructions) -> Instructions {
    instructions.shrink_to_fit();
    for instruction in &mut instructions {
        if let Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) = instruction
        {
            actions.shrink_to_fit();
        }
    }
    instructions
}

/// The lists of an entry, those applied and those written alike.
pub(crate) fn lists(instructions: &[Instruction]) -> impl Iterator<Item = &[Action]> {
    instructions.iter().filter_map(|i| match i {
        Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
            Some(actions.as_slice())
        }
        _ => None,
    })
}

/// The actions of these lists, and those of their clones.
pub(crate) fn actions(instructions: &[Instruction]) -> impl Iterator<Item = &Action> {
    lists(instructions).flat_map(|list| Action::flat(list))
}

/// The `fin_timeout` of an entry, if it has one.
pub(crate) fn fin_timeout(instructions: &[Instruction]) -> Option<FinTimeout> {
    actions(instructions).find_map(|action| match action {
        Action::FinTimeout(fin) => Some(*fin),
        _ => None,
    })
}

/// Whether instructions output to a port.
pub(crate) fn outputs_to(instructions: &[Instruction], to: PortNo) -> bool {
    actions(instructions).any(
        |a| matches!(a, Action::Output { port, .. } | Action::Enqueue { port, .. } if *port == to),
    )
}

/// Whether instructions use a group.
pub(crate) fn uses_group(instructions: &[Instruction], group: GroupId) -> bool {
    actions(instructions).any(|a| *a == Action::Group(group))
}

/// Which entries a request is about.
#[derive(Clone, Debug)]
pub struct Filter<'a> {
    /// Those of this table; none for all tables.
    pub table: Option<u8>,
    /// Those that this covers.
    pub matching: &'a Match,
    /// Those with this cookie under `cookie_mask`.
    pub cookie: u64,
    /// 0 for all cookies.
    pub cookie_mask: u64,
    /// Those that output here; [`PortNo::ANY`] for all.
    pub out_port: PortNo,
    /// Those that use this group; [`GroupId::ANY`] for all.
    pub out_group: GroupId,
}

impl Filter<'_> {
    /// Whether the filter lets an entry pass, its match aside.
    pub(crate) fn passes(&self, flow: &Flow) -> bool {
        (flow.cookie ^ self.cookie) & self.cookie_mask == 0
            && (self.out_port == PortNo::ANY || outputs_to(&flow.instructions, self.out_port))
            && (self.out_group == GroupId::ANY || uses_group(&flow.instructions, self.out_group))
    }

    /// Whether the request is about an entry of its tables (1.3.5 §6.4, non-strict).
    pub fn admits(&self, flow: &Flow) -> bool {
        self.passes(flow) && self.matching.covers(&flow.matching)
    }
}
