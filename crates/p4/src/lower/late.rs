//! Fields that an action reads of a header that it has made invalid.
//!
//! ```text
//! hdr.tunnel.setInvalid();                  counter.count(hdr.tunnel.id);
//! counter.count(hdr.tunnel.id);   becomes   hdr.tunnel.setInvalid();
//! ```
//!
//! The language leaves such a value open (specification §8.18). bmv2 gives the one that the header had, and programs rely on it.
//! Here a header becomes invalid behind the last plain operation of the action that reads it.

use ir::{Expr, FieldRef, HeaderId, Op};

/// Whether an operation reads a field of this header.
fn reads(op: &Op, header: HeaderId) -> bool {
    let mut found = false;
    op.exprs(&mut |e| {
        e.visit(&mut |e| found |= matches!(e, Expr::Field(FieldRef::Header(h, _)) if *h == header));
    });
    found
}

/// Whether an operation may pass from behind to in front of a header's end: it is plain, and asks or changes nothing of the
/// header but its fields' values.
fn passes(op: &Op, header: HeaderId) -> bool {
    let plain = match op {
        Op::Assign(field, _) | Op::AssignSlice(field, ..) | Op::RegisterRead { field, .. } => {
            matches!(field, FieldRef::Meta(_))
                || matches!(field, FieldRef::Header(h, _) if *h != header)
        }
        Op::Count { .. } | Op::RegisterWrite { .. } => true,
        _ => false,
    };
    let mut asks = false;
    op.exprs(&mut |e| {
        e.visit(&mut |e| asks |= matches!(e, Expr::Valid(h) if *h == header));
    });
    plain && !asks
}

/// Makes headers invalid as late as the operations allow that read them.
pub(super) fn invalid_late(ops: &mut [Op]) {
    for at in (0..ops.len()).rev() {
        let Op::SetInvalid(header) = ops[at] else { continue };
        let behind = ops[at + 1..].iter().take_while(|op| passes(op, header));
        let last = behind.enumerate().filter(|(_, op)| reads(op, header)).map(|(n, _)| n).last();
        if let Some(last) = last {
            ops[at..=at + 1 + last].rotate_left(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{FieldId, MetaId};

    fn count(header: u32) -> Op {
        let index = Expr::Field(FieldRef::Header(HeaderId(header), FieldId(0)));
        Op::Count { counter: 0, index }
    }

    #[test]
    fn a_header_ends_behind_the_last_that_reads_it() {
        let end = || Op::SetInvalid(HeaderId(1));
        let meta = || Op::Assign(FieldRef::Meta(MetaId(0)), Expr::int(1, 8));
        let late = |mut ops: Vec<Op>| {
            invalid_late(&mut ops);
            ops
        };
        assert_eq!(late(vec![end(), meta(), count(1), meta()]), [meta(), count(1), end(), meta()]);
        // Nothing reads it, or what reads it is behind something that is not plain.
        assert_eq!(late(vec![end(), count(2)]), [end(), count(2)]);
        let again = || Op::SetValid(HeaderId(1));
        assert_eq!(late(vec![end(), again(), count(1)]), [end(), again(), count(1)]);
        let asks = || Op::Assign(FieldRef::Meta(MetaId(0)), Expr::Valid(HeaderId(1)));
        assert_eq!(late(vec![end(), asks(), count(1)]), [end(), asks(), count(1)]);
        let own = || Op::Assign(FieldRef::Header(HeaderId(1), FieldId(0)), Expr::int(1, 8));
        assert_eq!(late(vec![end(), own(), count(1)]), [end(), own(), count(1)]);
    }
}
