//! Frames that a match takes, one by one, without a switch.
//!
//! A filter of frames (`millrace observe 'tcp,tp_dst=80'`) means what an entry with the same match means. So it is
//! one: a program of one table with one entry, run by the interpreter.

use crate::{
    Context, Interner, ProgramConfig, lower_instructions, lower_match, no_elements, program,
};
use interp::sink::Collect;
use interp::{Input, Machine, MemoryExterns, Start};
use ir::{Entry, EntryId, Pipeline, TableId, Update};
use openflow::{FieldId, Match};
use std::fmt;
use std::sync::Arc;

/// The entry.
const ONE: EntryId = EntryId(1);

/// What a match takes.
pub struct FrameFilter {
    pipeline: Pipeline,
    externs: MemoryExterns,
    machine: Machine,
}

impl fmt::Debug for FrameFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameFilter").finish_non_exhaustive()
    }
}

/// It is state that the pipeline gives a frame: a register, a connection, what a tunnel had around it.
fn is_of_no_frame(field: FieldId) -> bool {
    let name = field.info().ofctl[0];
    const STATE: [&str; 10] = [
        "reg", "xreg", "xxreg", "ct_", "tun_", "pkt_mark", "metadata", "conj_id", "in_phy",
        "actset",
    ];
    STATE.iter().any(|state| name.starts_with(state))
}

impl FrameFilter {
    /// What a match takes; an error if it asks for something that no frame has when it comes in.
    pub fn new(matching: &Match) -> Result<FrameFilter, String> {
        if let Some(field) = matching.iter().find(|field| is_of_no_frame(field.id)) {
            let name = field.id.info().ofctl[0];
            return Err(format!(
                "{name} is no part of a frame as it comes in: choose by headers and in_port"
            ));
        }
        let config = ProgramConfig { tables: 1, table_capacity: 1, normal_capacity: 1 };
        let (program, layout) = program(&config);
        let program = Arc::new(program);
        let externs = MemoryExterns::new(&program);
        let mut pipeline = Pipeline::new(program).map_err(|e| e.to_string())?;
        let layout = Arc::new(layout);
        let mut interner = Interner::new(layout.clone());
        let call = lower_instructions(&layout, &no_elements, 0, Context::Entry, &[]);
        let call = call.map_err(|e| e.to_string())?;
        let entry = Entry {
            id: ONE,
            priority: 1,
            matches: lower_match(matching),
            action: call.intern(&mut interner),
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        };
        let mut updates: Vec<Update> = interner.adds().collect();
        updates.push(Update::Insert(TableId(0), Arc::new(entry)));
        pipeline.transact(&updates).map_err(|(_, e)| e.to_string())?;
        Ok(FrameFilter { pipeline, externs, machine: Machine::new() })
    }

    /// It takes this frame, which came in by that port.
    pub fn takes(&mut self, in_port: u32, bytes: &[u8]) -> bool {
        self.externs.entries.clear();
        self.externs.tables.clear();
        let input = Input { bytes, in_port, now_ns: 0, start: Start::Pipeline };
        self.machine.run(&self.pipeline, input, &mut self.externs, &mut Collect::default(), None);
        self.externs.entries.contains_key(&ONE)
    }
}
