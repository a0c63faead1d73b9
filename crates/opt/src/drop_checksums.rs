//! Drops checksums that are never written.
//!
//! ```text
//! checksum tcp.csum incremental (ipv4.src, ipv4.dst, tcp.src, ...)     becomes nothing
//! ```
//!
//! where no live operation writes to one of the inputs: only a difference to what was parsed has such
//! a checksum written. One of mode `Always` goes only if its header is never valid. A checksum that
//! stays writes its field, which may be an input of another.
//!
//! Inputs of headers that are never valid become zero in those that stay.
//!
//! Requires: live operations may run. Ensures: what is left may be written.

use crate::simplify::Facts;
use crate::state::{State, elements};
use crate::uses::Uses;
use crate::work::Work;
use ir::{Checksum, ChecksumMode, FieldRef, HeaderId, ParserOp};

/// See the module.
pub(crate) fn drop_checksums(work: &mut Work<'_>) {
    let program = &work.program;
    if program.checksums.is_empty() {
        return;
    }
    let mut uses = Uses::of(work);
    let mut state = State::anything(program);
    state.may = uses.made.clone();
    for op in program.parser.iter().flat_map(|s| &s.ops) {
        match op {
            ParserOp::Extract { header, .. } => state.may.insert(header.index()),
            ParserOp::ExtractNext { stack, .. } => {
                elements(program, *stack).for_each(|i| state.may.insert(i));
            }
            _ => {}
        }
    }
    let facts = Facts { program, state: &state, args: &[] };
    let never = |c: &Checksum| {
        let condition = c.condition.as_ref().map(|e| facts.simplify(e).0.only());
        condition == Some(Some(0)) || !state.writable(program, c.field)
    };
    let mut written: Vec<bool> = vec![false; program.checksums.len()];
    loop {
        let mut grown = false;
        for (c, written) in program.checksums.iter().zip(&mut written) {
            if *written || never(c) {
                continue;
            }
            let changes = c.inputs.iter().any(|e| uses.may_change(program, e));
            let appears = match c.field {
                FieldRef::Header(header, _) => uses.restructured.contains(header.index()),
                FieldRef::Last(stack, _) => {
                    elements(program, stack).any(|i| uses.restructured.contains(i))
                }
                FieldRef::Meta(_) => true,
            };
            *written = match c.mode {
                ChecksumMode::Always => true,
                ChecksumMode::IfChanged => changes || appears,
                ChecksumMode::Incremental => changes,
            };
            if *written {
                grown = true;
                match c.field {
                    FieldRef::Header(header, field) => drop(uses.written.insert((header, field))),
                    FieldRef::Last(stack, field) => {
                        let all = elements(program, stack).map(|i| (HeaderId(i as u32), field));
                        uses.written.extend(all);
                    }
                    FieldRef::Meta(_) => {}
                }
            }
        }
        if !grown {
            break;
        }
    }
    let mut kept = Vec::new();
    for (c, written) in program.checksums.iter().zip(&written) {
        if *written {
            let better = |e: &ir::Expr| facts.simplified(e).1;
            let condition = c.condition.as_ref().map(better);
            let holds = |e: &ir::Expr| facts.simplify(e).0.only() == Some(1);
            kept.push(Checksum {
                inputs: c.inputs.iter().map(better).collect(),
                condition: condition.filter(|e| !holds(e)),
                ..c.clone()
            });
        }
    }
    let dropped = program.checksums.len() - kept.len();
    work.program.checksums = kept;
    if dropped > 0 {
        work.note("drop_checksums", format!("{dropped} are never written"));
    }
}
