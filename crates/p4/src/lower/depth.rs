//! How many frames wait at a port (`enq_qdepth`, `deq_qdepth`): a register that who hosts the program keeps up to date, with a
//! cell for each port. Only a program that asks has it.

use super::step::Step;
use super::{Lower, Result};
use crate::source::Span;
use ir::{Expr, FieldRef, Op};

/// Bits of a depth, as the architecture has them.
const WIDTH: u32 = 19;
/// Ports of v1model.
const PORTS: u32 = 512;

/// Whether an expression reads one of these fields.
fn in_expr(e: &Expr, fields: &[FieldRef]) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= matches!(e, Expr::Field(f) if fields.contains(f)));
    found
}

fn in_op(op: &Op, fields: &[FieldRef]) -> bool {
    let mut found = false;
    op.visit(&mut |op| op.exprs(&mut |e| found |= in_expr(e, fields)));
    found
}

fn in_steps(steps: &[Step], fields: &[FieldRef]) -> bool {
    steps.iter().any(|step| match step {
        Step::Op(op) => in_op(op, fields),
        Step::If(e, one, other) => {
            in_expr(e, fields) || in_steps(one, fields) || in_steps(other, fields)
        }
        Step::Apply { hit, miss, by_action, .. } => {
            in_steps(hit, fields)
                || in_steps(miss, fields)
                || by_action.iter().any(|(_, steps)| in_steps(steps, fields))
        }
        Step::Scope(_, steps) => in_steps(steps, fields),
        Step::Parse(_)
        | Step::ExtractAt { .. }
        | Step::Parser { .. }
        | Step::Emit(_)
        | Step::Break(_) => false,
    })
}

impl Lower<'_> {
    /// Steps that fill in the depths for a packet that enters egress, if these steps, an action or a key ask for one.
    pub(super) fn depth_steps(&mut self, egress: &[Step], span: Span) -> Result<Vec<Step>> {
        let mut fields = Vec::new();
        for name in ["enq_qdepth", "deq_qdepth"] {
            let field = self.sm_field(name, span)?;
            let (field, _) = self.read(&field, span)?;
            field.visit(&mut |e| {
                if let Expr::Field(field) = e {
                    fields.push(*field);
                }
            });
        }
        let program = self.b.program();
        let asked = in_steps(egress, &fields)
            || program.actions.iter().flat_map(|a| a.body.iter()).any(|op| in_op(op, &fields))
            || program.tables.iter().flat_map(|t| t.key.iter()).any(|k| in_expr(&k.expr, &fields));
        if !asked {
            return Ok(Vec::new());
        }
        let register = self.b.register("v1.queue_depth", WIDTH, PORTS);
        self.names.queue_depth = Some(register);
        let depth = self.b.meta("v1.queue_depth", WIDTH);
        let port = self.sm_field("egress_port", span)?;
        let (port, width) = self.read(&port, span)?;
        self.steps(|l| {
            let index = super::fold::cast(port, width, 32, false);
            l.op(Op::RegisterRead { field: FieldRef::Meta(depth), register, index });
            l.set_sm("enq_qdepth", Expr::meta(depth), span)?;
            l.set_sm("deq_qdepth", Expr::meta(depth), span)
        })
    }
}
