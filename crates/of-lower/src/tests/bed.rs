//! A pipeline with flows, and packets through it by the interpreter.

use crate::normal::config::Extras;
use crate::{
    Context, Interner, Layout, ProgramConfig, PuntArgs, lower_actions, lower_bucket,
    lower_instructions, lower_match, no_elements, program_of,
};
use interp::sink::{Collect, Output, Punted};
use interp::{Input, Machine, MemoryExterns, Start};
use ir::{
    Bucket, CounterId, DropReason, Entry, EntryId, Group, GroupId, GroupKind, Pipeline, Update,
    Verdict,
};
use openflow::{Action, Instruction, Match, PortNo, TableId};
use std::sync::Arc;

pub(super) struct Bed {
    pub(super) layout: Arc<Layout>,
    pub(super) pipeline: Pipeline,
    pub(super) interner: Interner,
    pub(super) externs: MemoryExterns,
    machine: Machine,
    entries: u32,
}

/// What became of a packet.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) verdict: Verdict,
    pub(super) all: Collect,
}

impl Sent {
    /// The only copy that went anywhere, which went to a port.
    #[track_caller]
    pub(super) fn one(&self) -> &Output {
        assert!(self.all.punts.is_empty(), "{self:?}");
        assert_eq!(self.all.outputs.len(), 1, "{self:?}");
        &self.all.outputs[0]
    }

    pub(super) fn ports(&self) -> Vec<u32> {
        self.all.outputs.iter().map(|o| o.port).collect()
    }

    #[track_caller]
    pub(super) fn punt(&self) -> (&Punted, PuntArgs) {
        assert_eq!(self.all.punts.len(), 1, "{self:?}");
        (&self.all.punts[0], PuntArgs::read(&self.all.punts[0].args))
    }

    #[track_caller]
    pub(super) fn dropped(&self, reason: DropReason) {
        assert!(self.all.outputs.is_empty() && self.all.punts.is_empty(), "{self:?}");
        assert_eq!(self.verdict, Verdict::Drop(reason));
    }
}

pub(super) fn out(port: u32) -> Action {
    Action::output(PortNo(port))
}

pub(super) fn apply(actions: &[Action]) -> Instruction {
    Instruction::ApplyActions(actions.to_vec())
}

pub(super) fn write(actions: &[Action]) -> Instruction {
    Instruction::WriteActions(actions.to_vec())
}

pub(super) fn goto(table: u8) -> Instruction {
    Instruction::GotoTable(TableId(table))
}

impl Bed {
    pub(super) fn new() -> Bed {
        Bed::of(&Extras::default())
    }

    pub(super) fn of(extras: &Extras) -> Bed {
        let config = ProgramConfig { tables: 8, ..ProgramConfig::default() };
        let (program, layout) = program_of(&config, extras);
        let layout = Arc::new(layout);
        let program = Arc::new(program);
        let mut bed = Bed {
            interner: Interner::new(layout.clone()),
            externs: MemoryExterns::new(&program),
            pipeline: Pipeline::new(program).unwrap(),
            layout,
            machine: Machine::new(),
            entries: 0,
        };
        bed.ports(&[1, 2, 3]);
        bed
    }

    /// Sets the internal groups.
    fn ports(&mut self, ports: &[u32]) {
        for id in [crate::layout::GROUP_ALL, crate::layout::GROUP_FLOOD] {
            let buckets = ports.iter().map(|p| bucket(self.layout.output_call(*p))).collect();
            self.set_group(id, GroupKind::All, buckets);
        }
    }

    fn set_group(&mut self, id: GroupId, kind: GroupKind, buckets: Vec<Bucket>) {
        let hash = if kind == GroupKind::Select { self.layout.select_hash() } else { Vec::new() };
        let group = Group { kind, buckets, hash: hash.into(), counter: CounterId(0) };
        let adds: Vec<Update> = self.interner.adds().collect();
        self.pipeline.transact(&adds).unwrap();
        self.pipeline.transact(&[Update::SetGroup(id, Arc::new(group))]).unwrap();
        self.interner.commit();
    }

    pub(super) fn group(&mut self, id: u32, kind: GroupKind, buckets: &[&[Action]]) {
        let mut out = Vec::new();
        for actions in buckets {
            let call = lower_bucket(&self.layout, actions).unwrap();
            out.push(bucket(call.intern(&mut self.interner)));
        }
        self.set_group(GroupId(id), kind, out);
    }

    pub(super) fn flow(
        &mut self,
        table: u8,
        priority: i32,
        matching: Match,
        instructions: &[Instruction],
    ) -> EntryId {
        matching.check().unwrap();
        let context =
            if priority == 0 && matching.is_empty() { Context::TableMiss } else { Context::Entry };
        let call =
            lower_instructions(&self.layout, &no_elements, table, context, instructions).unwrap();
        self.entries += 1;
        let entry = Entry {
            id: EntryId(self.entries),
            priority,
            matches: lower_match(&matching),
            action: call.intern(&mut self.interner),
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        };
        let mut updates: Vec<Update> = self.interner.adds().collect();
        updates.push(Update::Insert(ir::TableId(table.into()), Arc::new(entry)));
        self.pipeline.transact(&updates).unwrap();
        self.interner.commit();
        EntryId(self.entries)
    }

    pub(super) fn send(&mut self, in_port: u32, bytes: &[u8]) -> Sent {
        self.run(in_port, bytes, Start::Pipeline)
    }

    fn run(&mut self, in_port: u32, bytes: &[u8], start: Start<'_>) -> Sent {
        let mut all = Collect::default();
        let input = Input { bytes, in_port, now_ns: 0, start };
        let verdict = self.machine.run(&self.pipeline, input, &mut self.externs, &mut all, None);
        Sent { verdict, all }
    }

    pub(super) fn packet_out(&mut self, in_port: PortNo, actions: &[Action], bytes: &[u8]) -> Sent {
        let call = lower_actions(Context::PacketOut, actions).unwrap();
        let (action, args) = call.build(&self.layout);
        let args = args.to_vec();
        self.run(in_port.0, bytes, Start::Action(&action, &args))
    }
}

fn bucket(action: ir::ActionCall) -> Bucket {
    Bucket { weight: 1, watch_port: None, watch_group: None, action, counter: CounterId(0) }
}

/// Runs a packet through one flow that does these actions and outputs, and returns what came out.
#[track_caller]
pub(super) fn through(actions: &[Action], bytes: &[u8]) -> Vec<u8> {
    let mut bed = Bed::new();
    let mut list = actions.to_vec();
    list.push(out(2));
    bed.flow(0, 1, Match::new(), &[apply(&list)]);
    let sent = bed.send(1, bytes);
    assert_eq!(sent.one().port, 2);
    let applied = sent.one().bytes.clone();
    // The same actions as an action set, if a set can hold them and keeps their order.
    let set = crate::action_set::as_set(&list);
    let masked = |a: &Action| matches!(a, Action::SetField(f) if f.mask.is_some());
    let in_set = |a: &Action| crate::action_set::set_key(a).is_some() && !masked(a);
    let holds = list.iter().all(in_set);
    if holds && set.iter().copied().eq(&list) {
        let mut bed = Bed::new();
        bed.flow(0, 1, Match::new(), &[write(&list)]);
        assert_eq!(bed.send(1, bytes).one().bytes, applied, "as an action set: {actions:?}");
        let mut bed = Bed::new();
        bed.group(7, GroupKind::Indirect, &[&list]);
        bed.flow(0, 1, Match::new(), &[apply(&[Action::Group(openflow::GroupId(7))])]);
        assert_eq!(bed.send(1, bytes).one().bytes, applied, "as a bucket: {actions:?}");
    }
    applied
}

/// As [`through`], and what comes out must be this.
#[track_caller]
pub(super) fn becomes(actions: &[Action], before: &[u8], after: &[u8]) {
    let got = through(actions, before);
    assert_eq!(hex(&got), hex(after), "{actions:?}");
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(2)
        .map(|c| c.iter().map(|b| format!("{b:02x}")).collect::<String>() + " ")
        .collect()
}
