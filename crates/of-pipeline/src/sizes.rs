//! How long what controllers write is in messages, about: what the limits of the stores count.

use crate::flow::Flow;
use openflow::{Action, Bucket, Instruction};

/// Bytes of an action list in a message, at most.
fn actions_bytes(actions: &[Action]) -> usize {
    let bytes = |action: &Action| match action {
        Action::SetField(set) => 8 + 4 + usize::from(set.field.info().bytes) + 7,
        Action::Experimenter(e) => 16 + e.data.len(),
        Action::Note(bytes) => 24 + bytes.len(),
        Action::CopyField(_) => 24,
        // A note that holds its text.
        Action::Softflow(_) => 80,
        _ => 16,
    };
    actions.iter().map(bytes).sum()
}

/// Bytes of an entry's statistics in a message, at most, in either version.
pub(crate) fn flow_bytes(flow: &Flow) -> usize {
    let matching: usize =
        flow.matching.iter().map(|f| 4 + 2 * usize::from(f.id.info().bytes)).sum();
    96 + matching + instructions_bytes(&flow.instructions)
}

/// Bytes of buckets in a message, at most.
pub(crate) fn buckets_bytes(buckets: &[Bucket]) -> usize {
    buckets.iter().map(|b| 32 + actions_bytes(&b.actions)).sum()
}

/// Bytes of instructions in a message, at most.
pub(crate) fn instructions_bytes(instructions: &[Instruction]) -> usize {
    let instruction = |i: &Instruction| match i {
        Instruction::WriteActions(a) | Instruction::ApplyActions(a) => 8 + actions_bytes(a),
        Instruction::Experimenter(e) => 16 + e.data.len(),
        Instruction::StatTrigger(_) => 64,
        _ => 24,
    };
    instructions.iter().map(instruction).sum::<usize>()
}
