//! What passes that copy parts of a program share: numbers of copied actions, and what operations write.

use ir::{ActionId, FieldRef, MetaId, Op};

/// A copy's actions have numbers from here on, times the copy's.
pub(crate) const ACTIONS: u32 = 1 << 24;

/// An action of the pipeline, in a copy.
pub(crate) fn beside_copy(action: ActionId, copy: usize) -> ActionId {
    ActionId(action.0 + copy as u32 * ACTIONS)
}

/// Metadata that an operation itself writes to.
pub(crate) fn writes(op: &Op, f: &mut dyn FnMut(MetaId)) {
    let mut field = |field: &FieldRef| {
        if let FieldRef::Meta(meta) = field {
            f(*meta);
        }
    };
    match op {
        Op::Assign(to, _) | Op::AssignSlice(to, ..) | Op::CopyVarbit { to, .. } => field(to),
        Op::PortIs { field: to, .. }
        | Op::RegisterRead { field: to, .. }
        | Op::Random { field: to, .. }
        | Op::PayloadSum { field: to }
        | Op::PayloadHash { field: to, .. } => field(to),
        Op::Meter { color, level, .. } => [color, level].into_iter().for_each(field),
        Op::Service { results, .. } => results.iter().for_each(|meta| f(*meta)),
        _ => {}
    }
}
