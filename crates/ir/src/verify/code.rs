//! The rules of expressions and operations.
//!
//! A [`Scope`] says what may be read where: parameters in actions, unparsed bits in the parser. It
//! gives the width of an expression while it checks it, so that each is walked once.

use super::rule::{DEPTH_MAX, Error, Result, Rule, ensure};
use crate::bits::{Bits, WIDTH_MAX};
use crate::expr::{BinaryOp, Expr, FieldRef, HashAlgorithm, UnaryOp};
use crate::id::{BlockId, HeaderId, MetaId, ServiceId, StackId};
use crate::op::Op;
use crate::program::{FIELD_WIDTH_MAX, Field, Param, Program, Select, Stack, VARBIT_WIDTH_MAX};

/// Where code stands, and so what it may do.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    program: &'a Program,
    /// Parameters; `None` outside of actions.
    params: Option<&'a [Param]>,
    /// In the parser.
    parser: bool,
    /// The block whose operations these are; `None` in an action.
    block: Option<BlockId>,
}

impl<'a> Scope<'a> {
    /// Conditions, keys, checksum inputs.
    pub(super) fn plain(program: &'a Program) -> Scope<'a> {
        Scope { program, params: None, parser: false, block: None }
    }

    pub(super) fn action(program: &'a Program, params: &'a [Param]) -> Scope<'a> {
        Scope { params: Some(params), ..Scope::plain(program) }
    }

    pub(super) fn parser(program: &'a Program) -> Scope<'a> {
        Scope { parser: true, ..Scope::plain(program) }
    }

    pub(super) fn block(program: &'a Program, block: BlockId) -> Scope<'a> {
        Scope { block: Some(block), ..Scope::plain(program) }
    }

    /// Checks an expression; its width.
    pub(super) fn expr(&self, e: &Expr) -> Result<u32> {
        self.expr_at(e, 0)
    }

    /// Checks an expression that must have this width.
    pub(super) fn expr_of(&self, what: &str, e: &Expr, width: u32) -> Result {
        let have = self.expr(e)?;
        ensure!(have == width, W3, "{what} is {have} bits wide, it must be {width}");
        Ok(())
    }

    /// Checks an expression that must be one bit.
    pub(super) fn condition(&self, e: &Expr) -> Result {
        let have = self.expr(e)?;
        ensure!(have == 1, W4, "the condition is {have} bits wide, it must be 1: compare it");
        Ok(())
    }

    fn expr_at(&self, e: &Expr, depth: u32) -> Result<u32> {
        ensure!(depth < DEPTH_MAX, W7, "expressions are nested more than {DEPTH_MAX} deep");
        let sub = |e: &Expr| self.expr_at(e, depth + 1);
        let width = match e {
            Expr::Const(v) => v.width(),
            Expr::Field(f) => self.field(*f)?.1,
            Expr::Param(i) => match self.params {
                None => {
                    let text = format!("parameter {i} is read outside of an action");
                    return Err(Error::new(Rule::X1, text));
                }
                Some(params) => match params.get(*i as usize) {
                    Some(p) => p.width,
                    None => {
                        let text = format!("there is no parameter {i}; there are {}", params.len());
                        return Err(Error::new(Rule::N4, text));
                    }
                },
            },
            Expr::Valid(h) => {
                self.header(*h)?;
                1
            }
            Expr::StackSize(s) => {
                self.stack(*s)?;
                8
            }
            Expr::Lookahead { skip, width } => {
                ensure!(self.parser, X2, "lookahead outside of the parser");
                ensure!(skip.checked_add(*width).is_some(), W6, "lookahead past 2^32 bits");
                *width
            }
            Expr::Remaining => {
                ensure!(self.parser, X2, "remaining outside of the parser");
                32
            }
            Expr::Slice(inner, hi, lo) => {
                if let Expr::Field(f) = &**inner {
                    self.not_varbit(*f, "sliced")?;
                }
                slice(sub(inner)?, *hi, *lo)?
            }
            Expr::Cast(inner, width) | Expr::SignCast(inner, width) => {
                sub(inner)?;
                *width
            }
            Expr::Unary(UnaryOp::LogicalNot, inner) => one_bit(sub(inner)?)?,
            Expr::Unary(_, inner) => sub(inner)?,
            Expr::Binary(op, a, b) => {
                let (a, b) = (sub(a)?, sub(b)?);
                match op {
                    BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Sar => a,
                    BinaryOp::Concat => a.saturating_add(b),
                    BinaryOp::LogicalAnd | BinaryOp::LogicalOr => {
                        one_bit(a)?;
                        one_bit(b)?
                    }
                    BinaryOp::Eq
                    | BinaryOp::Ne
                    | BinaryOp::Lt
                    | BinaryOp::Le
                    | BinaryOp::Gt
                    | BinaryOp::Ge
                    | BinaryOp::SLt
                    | BinaryOp::SLe => {
                        same(&format_args!("{op:?}"), a, b)?;
                        1
                    }
                    BinaryOp::Add
                    | BinaryOp::Sub
                    | BinaryOp::Mul
                    | BinaryOp::AddSat
                    | BinaryOp::SubSat
                    | BinaryOp::And
                    | BinaryOp::Or
                    | BinaryOp::Xor => {
                        same(&format_args!("{op:?}"), a, b)?;
                        a
                    }
                }
            }
            Expr::Mux(c, a, b) => {
                let c = sub(c)?;
                ensure!(c == 1, W4, "the condition is {c} bits wide, it must be 1: compare it");
                let (a, b) = (sub(a)?, sub(b)?);
                same(&"the choice", a, b)?;
                a
            }
            Expr::Hash { algorithm, width, inputs } => {
                if let HashAlgorithm::Crc(c) = algorithm {
                    let fits = |v: u32| c.width >= 32 || v >> c.width == 0;
                    ensure!(
                        (8..=32).contains(&c.width)
                            && [c.polynomial, c.init, c.xor_out].into_iter().all(fits),
                        W8,
                        "a CRC is 8 to 32 bits wide, and so are its parameters; this one is {} wide",
                        c.width
                    );
                }
                let (mut total, mut varbits) = (0u32, 0u32);
                for e in inputs {
                    let width = sub(e)?;
                    match self.is_varbit(e) {
                        true => varbits = varbits.saturating_add(width),
                        false => total = total.saturating_add(width),
                    }
                }
                ensure!(total <= WIDTH_MAX, W6, "hash inputs of {total} bits, at most {WIDTH_MAX}");
                ensure!(
                    varbits <= VARBIT_WIDTH_MAX,
                    W6,
                    "hash inputs of up to {varbits} bits of varbit fields, at most {VARBIT_WIDTH_MAX}"
                );
                *width
            }
        };
        ensure!(
            (1..=WIDTH_MAX).contains(&width) || self.is_varbit(e),
            W6,
            "an expression of {width} bits; 1 to {WIDTH_MAX} are allowed"
        );
        Ok(width)
    }

    /// A varbit field, as it is. It exists.
    fn is_varbit(&self, e: &Expr) -> bool {
        let Expr::Field(f) = e else { return false };
        self.field(*f).is_ok_and(|(field, _)| field.is_some_and(|field| field.varbit))
    }

    fn header(&self, id: HeaderId) -> Result {
        let n = self.program.headers.len();
        ensure!(id.index() < n, N4, "there is no {id}; there are {n} headers");
        Ok(())
    }

    fn stack(&self, id: StackId) -> Result<&'a Stack> {
        let n = self.program.stacks.len();
        let none = || Error::new(Rule::N4, format!("there is no {id}; there are {n} stacks"));
        self.program.stacks.get(id.index()).ok_or_else(none)
    }

    /// Declaration, if it is a header's, and width.
    fn field(&self, f: FieldRef) -> Result<(Option<&'a Field>, u32)> {
        let none = |text: String| Error::new(Rule::N4, text);
        let (header, field) = match f {
            FieldRef::Meta(id) => {
                let n = self.program.metadata.len();
                let meta = self.program.metadata.get(id.index());
                let meta = meta
                    .ok_or_else(|| none(format!("there is no {id}; there are {n} meta fields")))?;
                return Ok((None, meta.width));
            }
            FieldRef::Header(header, field) => (header, field),
            FieldRef::Last(stack, field) => (self.stack(stack)?.first, field),
        };
        self.header(header)?;
        let ty = self.program.type_of(header);
        let field = ty
            .fields
            .get(field.index())
            .ok_or_else(|| none(format!("header type {} has no {field}", ty.name)))?;
        Ok((Some(field), field.width))
    }

    fn not_varbit(&self, f: FieldRef, done: &str) -> Result {
        if let (Some(field), _) = self.field(f)? {
            ensure!(
                !field.varbit,
                H4,
                "the varbit field {} is {done}; it changes with its whole header",
                self.program.field_name(f)
            );
        }
        Ok(())
    }

    /// A field that is written; its width.
    pub(super) fn target(&self, f: FieldRef) -> Result<u32> {
        self.not_varbit(f, "assigned")?;
        Ok(self.field(f)?.1)
    }

    fn target_of(&self, what: &str, f: FieldRef, width: u32) -> Result {
        let have = self.target(f)?;
        ensure!(
            have == width,
            W3,
            "{what} goes to {}, which is {have} bits wide; it must be {width}",
            self.program.field_name(f)
        );
        Ok(())
    }

    /// Checks an assignment.
    pub(super) fn assign(&self, f: FieldRef, e: &Expr) -> Result {
        let width = self.target(f)?;
        let have = self.expr(e)?;
        ensure!(
            have == width,
            W3,
            "{} is {width} bits wide, the value has {have}: cast it",
            self.program.field_name(f)
        );
        Ok(())
    }

    /// Checks operations in order.
    pub(super) fn ops(&self, ops: &[Op]) -> Result {
        self.ops_at(ops, 0)
    }

    fn ops_at(&self, ops: &[Op], depth: u32) -> Result {
        ensure!(depth < DEPTH_MAX, W7, "`if`s and loops are nested more than {DEPTH_MAX} deep");
        for (i, op) in ops.iter().enumerate() {
            self.op(op, depth)
                .map_err(|e| e.within(format_args!("operation {} ({})", i + 1, word(op))))?;
        }
        Ok(())
    }

    fn block_exists(&self, block: BlockId) -> Result {
        let n = self.program.blocks.len();
        ensure!(block.index() < n, N4, "there is no {block}; there are {n} blocks");
        Ok(())
    }

    /// Rule A4.
    fn service(&self, service: ServiceId, args: &[Expr], results: &[MetaId]) -> Result {
        let n = self.program.services.len();
        let Some(s) = self.program.services.get(service.index()) else {
            return Err(Error::new(Rule::N4, format!("there is no {service}; there are {n}")));
        };
        let (have, want) = (args.len(), s.args.len());
        ensure!(have == want, A4, "service {} has {want} arguments, {have} given", s.name);
        for (e, a) in args.iter().zip(&s.args) {
            let (have, want) = (self.expr(e)?, a.width);
            let (service, arg) = (&s.name, &a.name);
            ensure!(have == want, A4, "service {service}, {arg}: {have} bits given, it has {want}");
        }
        let (have, most) = (results.len(), s.results.len());
        ensure!(have <= most, A4, "service {} has {most} results, not {have}", s.name);
        for (i, (meta, r)) in results.iter().zip(&s.results).enumerate() {
            self.target_of("a result", FieldRef::Meta(*meta), r.width)?;
            let again = results[..i].contains(meta);
            ensure!(!again, A4, "service {}: {} takes two results", s.name, r.name);
        }
        Ok(())
    }

    fn kept(&self, keep: &[MetaId]) -> Result {
        for (i, m) in keep.iter().enumerate() {
            let (_, _) = self.field(FieldRef::Meta(*m))?;
            let name = || &self.program.metadata[m.index()].name;
            ensure!(!keep[..i].contains(m), A3, "{} is named twice", name());
        }
        Ok(())
    }

    fn op(&self, op: &Op, depth: u32) -> Result {
        match op {
            Op::Assign(f, e) => self.assign(*f, e),
            Op::AssignSlice(f, hi, lo, e) => {
                let width = slice(self.target(*f)?, *hi, *lo)?;
                self.expr_of("the value", e, width)
            }
            Op::SetValid(h) | Op::SetInvalid(h) => self.header(*h),
            Op::CopyHeader { to, from } => {
                self.header(*to)?;
                self.header(*from)?;
                let (a, b) = (self.program.type_of(*to), self.program.type_of(*from));
                let header = |h: HeaderId| &self.program.headers[h.index()].name;
                ensure!(
                    a.name == b.name,
                    H5,
                    "{} is of type {}, {} of type {}; they must be of one type",
                    header(*to),
                    a.name,
                    header(*from),
                    b.name
                );
                Ok(())
            }
            Op::CopyVarbit { to, from } => {
                for f in [to, from] {
                    let varbit = self.field(*f)?.0.is_some_and(|f| f.varbit);
                    let name = || self.program.field_name(*f);
                    ensure!(varbit, H4, "{} is no varbit field: assign it", name());
                }
                let (a, b) = (self.field(*to)?.1, self.field(*from)?.1);
                let name = |f: FieldRef| self.program.field_name(f);
                ensure!(
                    a == b,
                    H4,
                    "{} has up to {a} bits, {} up to {b}; they must be the same",
                    name(*to),
                    name(*from)
                );
                Ok(())
            }
            Op::PayloadSum { field } => self.target_of("the sum", *field, 16),
            Op::PayloadHash { field, hash } => {
                let Expr::Hash { width, .. } = hash else {
                    let text = "what is written is no hash: write `hash(FUNCTION, WIDTH, ...)`";
                    return Err(Error::new(Rule::W3, text));
                };
                self.expr(hash)?;
                self.target_of("the hash", *field, *width)
            }
            Op::Truncate { length } => self.expr_of("the length", length, 32),
            Op::Loop { condition, body } => {
                self.condition(condition)?;
                for inner in body {
                    let mut odd = None;
                    inner.visit(&mut |op| {
                        if leaves_a_loop(op) {
                            odd.get_or_insert(word(op));
                        }
                    });
                    if let Some(odd) = odd {
                        let text = format!("`{odd}` in a loop; put it behind the loop");
                        return Err(Error::new(Rule::L1, text));
                    }
                }
                self.ops_at(body, depth + 1).map_err(|e| e.within("loop"))
            }
            Op::PushFront(s, n) | Op::PopFront(s, n) => {
                let stack = self.stack(*s)?;
                ensure!(
                    (1..=stack.size).contains(n),
                    H6,
                    "by {n}; stack {} allows 1 to {}",
                    stack.name,
                    stack.size
                );
                Ok(())
            }
            Op::Reparse | Op::Drop(_) | Op::Exit => Ok(()),
            Op::Output { port } => self.expr_of("the port", port, 32),
            Op::Group { group } => self.expr_of("the group", group, 32),
            Op::Clone { block, .. } => {
                self.block_exists(*block)?;
                if let Some(own) = self.block {
                    ensure!(*block > own, B3, "a copy starts at {block}; it must be a later block");
                }
                Ok(())
            }
            Op::OnCopy { body } => {
                for inner in body {
                    let mut goes = false;
                    inner.visit(&mut |op| goes |= matches!(op, Op::Goto(_)));
                    ensure!(!goes, L2, "a copy goes nowhere: `call` a block instead");
                }
                self.ops_at(body, depth + 1).map_err(|e| e.within("on_copy"))
            }
            Op::Call { block, until, guise, .. } => {
                self.block_exists(*block)?;
                self.block_exists(*until)?;
                let Some(guise) = guise else { return Ok(()) };
                self.expr_of("the port", &guise.in_port, 32)?;
                let n = self.program.tables.len();
                for table in &guise.tables {
                    ensure!(table.index() < n, N4, "there is no {table}; there are {n} tables");
                    let key = &self.program.tables[table.index()].key;
                    for (column, e) in &guise.columns {
                        let Some(key) = key.get(*column as usize) else {
                            let text = format!("{table} has no column {column}");
                            return Err(Error::new(Rule::N4, text));
                        };
                        self.expr_of("a column", e, key.width)?;
                    }
                }
                Ok(())
            }
            Op::PortIs { field, port, .. } => {
                self.expr_of("the port", port, 32)?;
                self.target_of("an answer", *field, 1)
            }
            Op::Resubmit { keep } | Op::Recirculate { keep } => self.kept(keep),
            Op::Punt { args, .. } => args.iter().try_for_each(|e| self.expr(e).map(drop)),
            Op::Digest { digest, args, once } => {
                let n = self.program.digests.len();
                let Some(d) = self.program.digests.get(digest.index()) else {
                    let text = format!("there is no {digest}; there are {n} digests");
                    return Err(Error::new(Rule::N4, text));
                };
                let (have, want) = (args.len(), d.fields.len());
                ensure!(have == want, A2, "digest {} has {want} fields, {have} given", d.name);
                if let Some(about) = once {
                    let fits = usize::from(*about) <= want;
                    ensure!(fits, A2, "digest {} has {want} fields, `once` names {about}", d.name);
                }
                for (e, f) in args.iter().zip(&d.fields) {
                    let have = self.expr(e)?;
                    ensure!(
                        have == f.width,
                        A2,
                        "digest {}, field {}: {have} bits given, it has {}",
                        d.name,
                        f.name,
                        f.width
                    );
                }
                Ok(())
            }
            Op::Service { service, args, results } => self.service(*service, args, results),
            Op::Meter { meter, color, level } => {
                self.expr_of("the meter", meter, 32)?;
                self.target_of("the colour", *color, 8)?;
                self.target_of("the level", *level, 8)
            }
            Op::Count { counter, index } => {
                let n = self.program.counters.len();
                ensure!(
                    (*counter as usize) < n,
                    N4,
                    "there is no counter array {counter}; there are {n}"
                );
                self.expr_of("the cell", index, 32)
            }
            Op::RegisterRead { field, register, index } => {
                let r = self.register(*register)?;
                self.expr_of("the cell", index, 32)?;
                self.target_of("a cell", *field, r)
            }
            Op::RegisterWrite { register, index, value } => {
                let r = self.register(*register)?;
                self.expr_of("the cell", index, 32)?;
                self.expr_of("the value", value, r)
            }
            Op::Random { field, lo, hi } => {
                let width = self.target(*field)?;
                self.expr_of("the least value", lo, width)?;
                self.expr_of("the greatest value", hi, width)
            }
            Op::If { condition, then, or_else } => {
                self.condition(condition)?;
                self.ops_at(then, depth + 1).map_err(|e| e.within("then"))?;
                self.ops_at(or_else, depth + 1).map_err(|e| e.within("else"))
            }
            Op::Goto(block) => {
                ensure!(
                    self.block.is_none(),
                    B2,
                    "a block says goto; it ends with a terminator instead"
                );
                self.block_exists(*block)
            }
        }
    }

    fn register(&self, id: crate::id::RegisterId) -> Result<u32> {
        let n = self.program.registers.len();
        match self.program.registers.get(id.index()) {
            Some(r) => Ok(r.width),
            None => {
                let text = format!("there is no {id}; there are {n} register arrays");
                Err(Error::new(Rule::N4, text))
            }
        }
    }
}

/// Rule P4, and the width.
pub(super) fn select_pattern(pattern: &Select, width: u32) -> Result {
    let wide = |v: &Bits| {
        ensure!(v.width() == width, P2, "{} bits given, the key has {width}", v.width());
        Ok(())
    };
    match pattern {
        Select::Any | Select::ValueSet(_) => Ok(()),
        Select::Masked(v, mask) => {
            wide(v)?;
            wide(mask)?;
            ensure!(
                v.and(mask) == *v,
                P4,
                "{v} &&& {mask} has bits set outside the mask; they must be zero"
            );
            Ok(())
        }
        Select::Range(lo, hi) => {
            wide(lo)?;
            wide(hi)?;
            ensure!(lo.compare(hi).is_le(), P4, "the range {lo}..{hi} ends before it begins");
            Ok(())
        }
    }
}

/// Rule W1.
pub(super) fn declared_width(what: &str, name: &str, width: u32) -> Result {
    ensure!(
        (1..=FIELD_WIDTH_MAX).contains(&width),
        W1,
        "{what} {name} is {width} bits wide; 1 to {FIELD_WIDTH_MAX} are allowed"
    );
    Ok(())
}

/// Rule W1, of a field of a header.
pub(super) fn declared_field(f: &Field) -> Result {
    if !f.varbit {
        return declared_width("field", &f.name, f.width);
    }
    ensure!(
        (1..=VARBIT_WIDTH_MAX).contains(&f.width),
        W1,
        "the varbit field {} is {} bits wide; 1 to {VARBIT_WIDTH_MAX} are allowed",
        f.name,
        f.width
    );
    Ok(())
}

fn one_bit(width: u32) -> Result<u32> {
    ensure!(width == 1, W4, "a logical operator on {width} bits; it takes 1: compare it");
    Ok(1)
}

fn same(what: &dyn std::fmt::Display, a: u32, b: u32) -> Result {
    ensure!(a == b, W2, "{what} has operands of {a} and {b} bits; cast one of them");
    Ok(())
}

fn slice(width: u32, hi: u32, lo: u32) -> Result<u32> {
    ensure!(lo <= hi && hi < width, W5, "bits {hi} to {lo} of a value of {width} bits");
    Ok(hi - lo + 1)
}

/// Rule L1.
pub(crate) fn leaves_a_loop(op: &Op) -> bool {
    matches!(
        op,
        Op::Goto(_)
            | Op::Group { .. }
            | Op::Clone { .. }
            | Op::OnCopy { .. }
            | Op::Call { .. }
            | Op::Output { .. }
            | Op::Punt { .. }
            | Op::Reparse
            | Op::Service { .. }
            | Op::Resubmit { .. }
            | Op::Recirculate { .. }
    )
}

/// What an operation is called in messages, and how it begins in the text form.
fn word(op: &Op) -> &'static str {
    match op {
        Op::Assign(..) | Op::AssignSlice(..) => "assignment",
        Op::SetValid(_) => "set_valid",
        Op::SetInvalid(_) => "set_invalid",
        Op::CopyHeader { .. } => "copy",
        Op::CopyVarbit { .. } => "copy_varbit",
        Op::PayloadSum { .. } => "payload_sum",
        Op::PayloadHash { .. } => "payload_hash",
        Op::Truncate { .. } => "truncate",
        Op::Loop { .. } => "loop",
        Op::PushFront(..) => "push",
        Op::PopFront(..) => "pop",
        Op::Reparse => "reparse",
        Op::Output { .. } => "output",
        Op::Group { .. } => "group",
        Op::Clone { .. } => "clone",
        Op::OnCopy { .. } => "on_copy",
        Op::Call { .. } => "call",
        Op::PortIs { what, .. } => what.word(),
        Op::Resubmit { .. } => "resubmit",
        Op::Recirculate { .. } => "recirculate",
        Op::Punt { .. } => "punt",
        Op::Digest { .. } => "digest",
        Op::Service { .. } => "service",
        Op::Meter { .. } => "meter",
        Op::Count { .. } => "count",
        Op::RegisterRead { .. } => "read",
        Op::RegisterWrite { .. } => "write",
        Op::Random { .. } => "random",
        Op::If { .. } => "if",
        Op::Goto(_) => "goto",
        Op::Drop(_) => "drop",
        Op::Exit => "exit",
    }
}
