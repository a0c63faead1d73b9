//! The parser of expressions and operations.
//!
//! A number has the width of its place. An expression is read into a small tree first, whose numbers
//! have no width yet, and then given widths from the outside in: the place says how wide (`want`),
//! or the other operand does.

use super::cursor::{Cursor, Parsed, fit, nearest};
use super::lex::{Kind, Literal};
use super::print::{binary_sign, hash_word};
use crate::expr::{BinaryOp, Crc, Expr, FieldRef, HashAlgorithm, UnaryOp};
use crate::id::{BlockId, HeaderId, MetaId, RegisterId, StackId};
use crate::op::{Copy, Guise, Op, PortIs};
use crate::program::{Param, Program};
use crate::verdict::{DropReason, PuntReason};
use crate::verify::DEPTH_MAX;

/// What names mean: the program so far, and the parameters of the action being read.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) program: &'a Program,
    pub(super) params: &'a [Param],
}

/// An expression whose numbers have no width.
enum Tree {
    Known(Expr),
    Number(Literal, (u32, u32)),
    Slice(Box<Tree>, u32, u32),
    Cast(bool, u32, Box<Tree>),
    Unary(UnaryOp, Box<Tree>),
    Binary(BinaryOp, Box<Tree>, Box<Tree>),
    Mux(Box<Tree>, Box<Tree>, Box<Tree>),
    Hash(HashAlgorithm, u32, Vec<Tree>),
}

/// A tree, how deep it is, and where it begins.
struct Node {
    tree: Tree,
    depth: u32,
    place: (u32, u32),
}

const HASHES: [HashAlgorithm; 6] = [
    HashAlgorithm::Identity,
    HashAlgorithm::Crc16,
    HashAlgorithm::Crc32,
    HashAlgorithm::Crc32c,
    HashAlgorithm::Csum16,
    HashAlgorithm::Xor16,
];

/// The parameters of a CRC: width, polynomial, start, last XOR, bytes reflected, result reflected, number.
fn crc(c: &mut Cursor<'_>) -> Parsed<Crc> {
    c.want("(")?;
    let width = c.u32("the CRC's width")?;
    let mut next = |what| {
        c.want(",")?;
        c.u32(what)
    };
    let (polynomial, init) = (next("a polynomial")?, next("a start")?);
    let xor_out = next("what the result is XORed with")?;
    let reflect_in = next("0 or 1: bytes come in lowest bit first")? != 0;
    let reflect_out = next("0 or 1: the result is reflected")? != 0;
    let function = next("which of the program's functions it is")?;
    c.want(")")?;
    Ok(Crc { width, polynomial, init, xor_out, reflect_in, reflect_out, function })
}

/// Binary operators by how tightly they bind, loosest first.
const LEVELS: &[&[BinaryOp]] = &[
    &[BinaryOp::LogicalOr],
    &[BinaryOp::LogicalAnd],
    &[BinaryOp::Eq, BinaryOp::Ne],
    &[BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge],
    &[BinaryOp::Or],
    &[BinaryOp::Xor],
    &[BinaryOp::And],
    &[BinaryOp::Shl, BinaryOp::Shr, BinaryOp::Sar],
    &[BinaryOp::Concat],
    &[BinaryOp::Add, BinaryOp::Sub, BinaryOp::AddSat, BinaryOp::SubSat],
    &[BinaryOp::Mul],
];

impl<'a> Names<'a> {
    pub(super) fn new(program: &'a Program, params: &'a [Param]) -> Names<'a> {
        Names { program, params }
    }

    fn widths(&self) -> Vec<u32> {
        self.params.iter().map(|p| p.width).collect()
    }

    /// Width of an expression that was read.
    pub(super) fn width(&self, e: &Expr) -> Option<u32> {
        e.width(self.program, &self.widths())
    }

    /// An expression; its numbers are `want` bits wide where nothing else says.
    pub(super) fn expr(&self, c: &mut Cursor<'_>, want: Option<u32>) -> Parsed<Expr> {
        let at = c.clone();
        let node = self.choice(c, 0)?;
        if node.depth > DEPTH_MAX {
            return at.error(format!("the expression is nested more than {DEPTH_MAX} deep"));
        }
        self.elaborate(node.tree, want)
    }

    // Reading.

    fn choice(&self, c: &mut Cursor<'_>, depth: u32) -> Parsed<Node> {
        if depth > DEPTH_MAX {
            return c.error(format!("the expression is nested more than {DEPTH_MAX} deep"));
        }
        let condition = self.level(c, 0, depth)?;
        if !c.eat("?") {
            return Ok(condition);
        }
        let a = self.choice(c, depth + 1)?;
        c.want(":")?;
        let b = self.choice(c, depth + 1)?;
        let deepest = condition.depth.max(a.depth).max(b.depth) + 1;
        let tree = Tree::Mux(Box::new(condition.tree), Box::new(a.tree), Box::new(b.tree));
        Ok(Node { tree, depth: deepest, place: condition.place })
    }

    /// Operators of this level and tighter ones, by precedence climbing.
    fn level(&self, c: &mut Cursor<'_>, least: usize, depth: u32) -> Parsed<Node> {
        let mut left = self.unary(c, depth)?;
        loop {
            let found = LEVELS.iter().enumerate().skip(least).find_map(|(level, ops)| {
                ops.iter().find(|op| c.is(binary_sign(**op))).map(|op| (level, *op))
            });
            let Some((level, op)) = found else { return Ok(left) };
            c.next();
            let right = self.level(c, level + 1, depth)?;
            let deepest = left.depth.max(right.depth) + 1;
            if deepest > DEPTH_MAX {
                let text = format!("the expression is nested more than {DEPTH_MAX} deep");
                return c.error(text);
            }
            let tree = Tree::Binary(op, Box::new(left.tree), Box::new(right.tree));
            left = Node { tree, depth: deepest, place: left.place };
        }
    }

    fn unary(&self, c: &mut Cursor<'_>, depth: u32) -> Parsed<Node> {
        if depth > DEPTH_MAX {
            return c.error(format!("the expression is nested more than {DEPTH_MAX} deep"));
        }
        let place = c.place();
        for (sign, op) in [("~", UnaryOp::Not), ("-", UnaryOp::Neg), ("!", UnaryOp::LogicalNot)] {
            if c.eat(sign) {
                let inner = self.unary(c, depth + 1)?;
                let tree = Tree::Unary(op, Box::new(inner.tree));
                return Ok(Node { tree, depth: inner.depth + 1, place });
            }
        }
        let mut node = self.primary(c, depth)?;
        while c.eat("[") {
            let hi = c.u32("the highest bit")?;
            c.want(":")?;
            let lo = c.u32("the lowest bit")?;
            c.want("]")?;
            node.depth += 1;
            if node.depth > DEPTH_MAX {
                return c.error(format!("the expression is nested more than {DEPTH_MAX} deep"));
            }
            node.tree = Tree::Slice(Box::new(node.tree), hi, lo);
        }
        Ok(node)
    }

    fn primary(&self, c: &mut Cursor<'_>, depth: u32) -> Parsed<Node> {
        let place = c.place();
        let leaf = |tree| Ok(Node { tree, depth: 1, place });
        if c.eat("(") {
            let inner = self.choice(c, depth + 1)?;
            c.want(")")?;
            return Ok(inner);
        }
        if let Kind::Literal(l) = c.peek() {
            c.next();
            return leaf(Tree::Number(l.clone(), place));
        }
        let call = matches!(c.peek_at(1), Kind::Punct("("));
        let Kind::Word(w) = c.peek() else {
            let f = self.place(c)?;
            return leaf(Tree::Known(f));
        };
        if w == "remaining" {
            c.next();
            return leaf(Tree::Known(Expr::Remaining));
        }
        if !call {
            let f = self.place(c)?;
            return leaf(Tree::Known(f));
        }
        let at = c.clone();
        c.next();
        c.next();
        let node = match w.as_str() {
            "valid" => leaf(Tree::Known(Expr::Valid(self.header(c)?))),
            "size" => leaf(Tree::Known(Expr::StackSize(self.stack(c)?))),
            "field" => leaf(Tree::Known(Expr::Field(self.field(c)?))),
            "lookahead" => {
                let first = c.u32("bits")?;
                let (skip, width) = if c.eat(",") { (first, c.u32("bits")?) } else { (0, first) };
                leaf(Tree::Known(Expr::Lookahead { skip, width }))
            }
            "cast" | "sign_cast" => {
                let width = c.u32("a width")?;
                c.want(",")?;
                let inner = self.choice(c, depth + 1)?;
                let tree = Tree::Cast(w == "sign_cast", width, Box::new(inner.tree));
                Ok(Node { tree, depth: inner.depth + 1, place })
            }
            "slt" | "sle" => {
                let a = self.choice(c, depth + 1)?;
                c.want(",")?;
                let b = self.choice(c, depth + 1)?;
                let op = if w == "slt" { BinaryOp::SLt } else { BinaryOp::SLe };
                let depth = a.depth.max(b.depth) + 1;
                let tree = Tree::Binary(op, Box::new(a.tree), Box::new(b.tree));
                Ok(Node { tree, depth, place })
            }
            "hash" => {
                let at = c.clone();
                let word = c.name("a hash function")?;
                let algorithm = match HASHES.into_iter().find(|h| hash_word(*h) == word) {
                    Some(algorithm) => algorithm,
                    None if word == "crc" => HashAlgorithm::Crc(crc(c)?),
                    None => {
                        let near = nearest(&word, HASHES.map(hash_word).into_iter().chain(["crc"]));
                        return at.error(format!("`{word}` is no hash function{near}"));
                    }
                };
                c.want(",")?;
                let width = c.u32("a width")?;
                let mut inputs = Vec::new();
                let mut deepest = 0;
                while c.eat(",") {
                    let e = self.choice(c, depth + 1)?;
                    deepest = deepest.max(e.depth);
                    inputs.push(e.tree);
                }
                Ok(Node { tree: Tree::Hash(algorithm, width, inputs), depth: deepest + 1, place })
            }
            other => {
                let known = [
                    "valid",
                    "size",
                    "field",
                    "lookahead",
                    "cast",
                    "sign_cast",
                    "slt",
                    "sle",
                    "hash",
                ];
                let near = nearest(other, known);
                return at.error(format!("`{other}` is no function{near}"));
            }
        }?;
        c.want(")")?;
        Ok(node)
    }

    // Widths.

    fn elaborate(&self, tree: Tree, want: Option<u32>) -> Parsed<Expr> {
        Ok(match tree {
            Tree::Known(e) => e,
            Tree::Number(l, (line, column)) => {
                let fail = |text| super::Error { line, column, text };
                let Some(width) = want.filter(|_| l.width.is_none()).or(l.width) else {
                    return Err(fail(format!(
                        "nothing here says how wide {} is; write 16w{} for 16 bits",
                        l.value, l.value
                    )));
                };
                Expr::Const(fit(&l, width).map_err(fail)?)
            }
            Tree::Slice(e, hi, lo) => Expr::Slice(Box::new(self.elaborate(*e, None)?), hi, lo),
            Tree::Cast(signed, width, e) => {
                let e = Box::new(self.elaborate(*e, None)?);
                if signed { Expr::SignCast(e, width) } else { Expr::Cast(e, width) }
            }
            Tree::Unary(op, e) => {
                let want = if op == UnaryOp::LogicalNot { Some(1) } else { want };
                Expr::Unary(op, Box::new(self.elaborate(*e, want)?))
            }
            Tree::Binary(op, a, b) => {
                let (a, b) = match op {
                    BinaryOp::Concat => (self.elaborate(*a, None)?, self.elaborate(*b, None)?),
                    BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Sar => {
                        // An amount may have any width; 32 bits if nothing says.
                        let amount = matches!(&*b, Tree::Number(l, _) if l.width.is_none());
                        let b = self.elaborate(*b, amount.then_some(32))?;
                        (self.elaborate(*a, want)?, b)
                    }
                    BinaryOp::LogicalAnd | BinaryOp::LogicalOr => {
                        (self.elaborate(*a, Some(1))?, self.elaborate(*b, Some(1))?)
                    }
                    BinaryOp::Eq
                    | BinaryOp::Ne
                    | BinaryOp::Lt
                    | BinaryOp::Le
                    | BinaryOp::Gt
                    | BinaryOp::Ge
                    | BinaryOp::SLt
                    | BinaryOp::SLe => self.pair(*a, *b, None)?,
                    _ => self.pair(*a, *b, want)?,
                };
                Expr::binary(op, a, b)
            }
            Tree::Mux(condition, a, b) => {
                let condition = self.elaborate(*condition, Some(1))?;
                let (a, b) = self.pair(*a, *b, want)?;
                Expr::Mux(Box::new(condition), Box::new(a), Box::new(b))
            }
            Tree::Hash(algorithm, width, inputs) => {
                let inputs = inputs
                    .into_iter()
                    .map(|e| self.elaborate(e, None))
                    .collect::<Parsed<Vec<Expr>>>()?;
                Expr::Hash { algorithm, width, inputs }
            }
        })
    }

    /// Two operands of the same width: what the place wants, else what one of them has.
    fn pair(&self, a: Tree, b: Tree, want: Option<u32>) -> Parsed<(Expr, Expr)> {
        if want.is_none() && needs_width(&a) && !needs_width(&b) {
            let b = self.elaborate(b, None)?;
            let a = self.elaborate(a, self.width(&b))?;
            return Ok((a, b));
        }
        let a = self.elaborate(a, want)?;
        let b = self.elaborate(b, want.or_else(|| self.width(&a)))?;
        Ok((a, b))
    }

    // Names.

    /// A parameter or a field.
    fn place(&self, c: &mut Cursor<'_>) -> Parsed<Expr> {
        if let Kind::Word(w) | Kind::Quoted(w) = c.peek()
            && let Some(i) = self.params.iter().position(|p| p.name == *w)
        {
            c.next();
            return Ok(Expr::Param(i as u32));
        }
        Ok(Expr::Field(self.field(c)?))
    }

    /// A field; `field(name)` where a parameter of that name hides it.
    pub(super) fn field(&self, c: &mut Cursor<'_>) -> Parsed<FieldRef> {
        if c.is_word("field") && matches!(c.peek_at(1), Kind::Punct("(")) {
            c.next();
            c.next();
            let f = self.plain_field(c)?;
            c.want(")")?;
            return Ok(f);
        }
        self.plain_field(c)
    }

    fn plain_field(&self, c: &mut Cursor<'_>) -> Parsed<FieldRef> {
        let at = c.clone();
        let n = c.name("a field")?;
        if let Some(f) = self.program.find_field(&n) {
            return Ok(f);
        }
        let p = self.program;
        if let Some((head, field)) = n.rsplit_once('.')
            && let Some(h) = p.find_header(head)
        {
            let ty = p.type_of(h);
            let near = nearest(field, ty.fields.iter().map(|f| f.name.as_str()));
            return at.error(format!("header {head} has no field `{field}`{near}"));
        }
        let mut known: Vec<String> = p.metadata.iter().map(|m| m.name.clone()).collect();
        known.extend(self.params.iter().map(|p| p.name.clone()));
        for h in &p.headers {
            if let Some(ty) = p.header_types.get(h.header_type.index()) {
                known.extend(ty.fields.iter().map(|f| format!("{}.{}", h.name, f.name)));
            }
        }
        let near = nearest(&n, known.iter().map(String::as_str));
        at.error(format!("there is no field `{n}`{near}"))
    }

    pub(super) fn header(&self, c: &mut Cursor<'_>) -> Parsed<HeaderId> {
        let list = &self.program.headers;
        lookup(c, "header", |n| self.program.find_header(n), list.iter().map(|h| &*h.name))
    }

    pub(super) fn stack(&self, c: &mut Cursor<'_>) -> Parsed<StackId> {
        let list = &self.program.stacks;
        lookup(c, "stack", |n| self.program.find_stack(n), list.iter().map(|h| &*h.name))
    }

    pub(super) fn block(&self, c: &mut Cursor<'_>) -> Parsed<BlockId> {
        let list = &self.program.blocks;
        lookup(c, "block", |n| self.program.find_block(n), list.iter().map(|h| &*h.name))
    }

    fn register(&self, c: &mut Cursor<'_>) -> Parsed<RegisterId> {
        let list = &self.program.registers;
        lookup(c, "register", |n| self.program.find_register(n), list.iter().map(|h| &*h.name))
    }

    fn meta_list(&self, c: &mut Cursor<'_>) -> Parsed<Vec<MetaId>> {
        let mut keep = Vec::new();
        while !c.at_end() {
            let at = c.clone();
            match self.field(c)? {
                FieldRef::Meta(m) => keep.push(m),
                _ => return at.error("only metadata fields are kept; this one is a header's"),
            }
        }
        Ok(keep)
    }

    // Operations.

    /// `{ op ... }`.
    pub(super) fn body(&self, c: &mut Cursor<'_>, depth: u32) -> Parsed<Vec<Op>> {
        if depth > DEPTH_MAX {
            return c.error(format!("`if`s are nested more than {DEPTH_MAX} deep"));
        }
        let mut ops = Vec::new();
        c.statements(|c| {
            ops.push(self.op(c, depth)?);
            Ok(())
        })?;
        Ok(ops)
    }

    pub(super) fn op(&self, c: &mut Cursor<'_>, depth: u32) -> Parsed<Op> {
        let at = c.clone();
        let assigned = matches!(c.peek_at(1), Kind::Punct("=" | "["))
            || c.is_word("field") && matches!(c.peek_at(1), Kind::Punct("("));
        let keyword = match c.peek() {
            Kind::Word(w) if !assigned => w,
            _ => return self.assignment(c),
        };
        c.next();
        Ok(match keyword.as_str() {
            "set_valid" => Op::SetValid(self.header(c)?),
            "set_invalid" => Op::SetInvalid(self.header(c)?),
            "copy" => {
                let to = self.header(c)?;
                c.want_word("from")?;
                Op::CopyHeader { to, from: self.header(c)? }
            }
            "copy_varbit" => {
                let to = self.assigned_field(c)?;
                c.want_word("from")?;
                Op::CopyVarbit { to, from: self.field(c)? }
            }
            "payload_sum" => Op::PayloadSum { field: self.assigned_field(c)? },
            "payload_hash" => {
                let field = self.assigned_field(c)?;
                let width = self.program.field_width(field);
                Op::PayloadHash { field, hash: self.expr(c, width)? }
            }
            "truncate" => Op::Truncate { length: self.expr(c, Some(32))? },
            "push" => Op::PushFront(self.stack(c)?, c.u32("a count")?),
            "pop" => Op::PopFront(self.stack(c)?, c.u32("a count")?),
            "reparse" => Op::Reparse,
            "output" => Op::Output { port: self.expr(c, Some(32))? },
            "group" => Op::Group { group: self.expr(c, Some(32))? },
            "clone" => {
                let block = self.block(c)?;
                let copy = if c.eat_word("ingress") { Copy::Ingress } else { Copy::Current };
                Op::Clone { block, copy }
            }
            "on_copy" => Op::OnCopy { body: self.body(c, depth + 1)? },
            "call" => {
                let block = self.block(c)?;
                c.want_word("until")?;
                let until = self.block(c)?;
                let site = if c.eat_word("site") { c.number("a number", 16)? as u16 } else { 0 };
                let guise = if c.eat_word("in_port") { Some(self.guise(c)?) } else { None };
                Op::Call { block, until, guise, site }
            }
            "resubmit" => Op::Resubmit { keep: self.meta_list(c)? },
            "recirculate" => Op::Recirculate { keep: self.meta_list(c)? },
            "punt" => {
                let at = c.clone();
                let word = c.name("a punt reason")?;
                let Some(reason) = PuntReason::from_word(&word) else {
                    let near = nearest(&word, PuntReason::ALL.iter().map(|r| r.word()));
                    return at.error(format!("`{word}` is no punt reason{near}"));
                };
                let args = if c.is("(") { self.args(c, &[])? } else { Vec::new() };
                Op::Punt { reason, args }
            }
            "digest" => {
                let list = &self.program.digests;
                let find = |n: &str| self.program.find_digest(n);
                let digest = lookup(c, "digest", find, list.iter().map(|h| &*h.name))?;
                let widths: Vec<u32> =
                    list[digest.index()].fields.iter().map(|f| f.width).collect();
                let args = self.args(c, &widths)?;
                let once = match c.eat_word("once") {
                    true => Some(c.number("how many values say what it is about", 8)? as u8),
                    false => None,
                };
                Op::Digest { digest, args, once }
            }
            "service" => {
                let list = &self.program.services;
                let find = |n: &str| self.program.find_service(n);
                let service = lookup(c, "service", find, list.iter().map(|h| &*h.name))?;
                let widths: Vec<u32> = list[service.index()].args.iter().map(|f| f.width).collect();
                let args = self.args(c, &widths)?;
                let mut results = Vec::new();
                if c.eat("->") {
                    loop {
                        let at = c.clone();
                        match self.field(c)? {
                            FieldRef::Meta(m) => results.push(m),
                            _ => return at.error("a service's results go to metadata fields"),
                        }
                        if !c.eat(",") {
                            break;
                        }
                    }
                }
                Op::Service { service, args, results }
            }
            "meter" => {
                let meter = self.expr(c, Some(32))?;
                c.want("->")?;
                let color = self.field(c)?;
                c.want(",")?;
                Op::Meter { meter, color, level: self.field(c)? }
            }
            "count" => {
                let list = &self.program.counters;
                let find = |n: &str| list.iter().position(|x| x.name == n);
                let counter = lookup(c, "counter", find, list.iter().map(|h| &*h.name))? as u32;
                c.want("(")?;
                let index = self.expr(c, Some(32))?;
                c.want(")")?;
                Op::Count { counter, index }
            }
            "write" => {
                let register = self.register(c)?;
                c.want("(")?;
                let index = self.expr(c, Some(32))?;
                c.want(")")?;
                c.want("=")?;
                let width = self.program.registers[register.index()].width;
                Op::RegisterWrite { register, index, value: self.expr(c, Some(width))? }
            }
            "loop" => {
                let condition = self.expr(c, Some(1))?;
                Op::Loop { condition, body: self.body(c, depth + 1)? }
            }
            "if" => {
                let condition = self.expr(c, Some(1))?;
                let then = self.body(c, depth + 1)?;
                let or_else = if !c.eat_word("else") {
                    Vec::new()
                } else if c.is_word("if") {
                    if depth >= DEPTH_MAX {
                        return c.error(format!("`if`s are nested more than {DEPTH_MAX} deep"));
                    }
                    vec![self.op(c, depth + 1)?]
                } else {
                    self.body(c, depth + 1)?
                };
                Op::If { condition, then, or_else }
            }
            "goto" => Op::Goto(self.block(c)?),
            "drop" if c.at_end() => Op::Drop(DropReason::Action),
            "drop" => {
                let at = c.clone();
                let word = c.name("a drop reason")?;
                let Some(reason) = DropReason::from_word(&word) else {
                    let near = nearest(&word, DropReason::ALL.iter().map(|r| r.word()));
                    return at.error(format!("`{word}` is no drop reason{near}"));
                };
                Op::Drop(reason)
            }
            "exit" => Op::Exit,
            other => {
                let near = nearest(other, OPS.iter().copied());
                return at.error(format!(
                    "`{other}` is no operation{near}; an assignment is `field = value`"
                ));
            }
        })
    }

    fn args(&self, c: &mut Cursor<'_>, widths: &[u32]) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        c.want("(")?;
        while !c.eat(")") {
            if !args.is_empty() {
                c.want(",")?;
            }
            args.push(self.expr(c, widths.get(args.len()).copied())?);
        }
        Ok(args)
    }

    /// `field = ...` or `field[hi:lo] = ...`.
    fn assignment(&self, c: &mut Cursor<'_>) -> Parsed<Op> {
        let field = self.assigned_field(c)?;
        let width = self.program.field_width(field);
        if c.eat("[") {
            let hi = c.u32("the highest bit")?;
            c.want(":")?;
            let lo = c.u32("the lowest bit")?;
            c.want("]")?;
            c.want("=")?;
            let want = hi.checked_sub(lo).and_then(|w| w.checked_add(1));
            return Ok(Op::AssignSlice(field, hi, lo, self.expr(c, want)?));
        }
        c.want("=")?;
        let unless_field = |c: &Cursor<'_>, word: &str| {
            c.is_word(word) && !matches!(c.peek_at(1), Kind::Separator | Kind::End)
        };
        if unless_field(c, "read") && matches!(c.peek_at(1), Kind::Word(_) | Kind::Quoted(_)) {
            c.next();
            let register = self.register(c)?;
            c.want("(")?;
            let index = self.expr(c, Some(32))?;
            c.want(")")?;
            return Ok(Op::RegisterRead { field, register, index });
        }
        if unless_field(c, "random") && matches!(c.peek_at(1), Kind::Punct("(")) {
            c.next();
            c.next();
            let lo = self.expr(c, width)?;
            c.want(",")?;
            let hi = self.expr(c, width)?;
            c.want(")")?;
            return Ok(Op::Random { field, lo, hi });
        }
        let asked = PortIs::ALL.into_iter().find(|what| unless_field(c, what.word()));
        if let Some(what) = asked.filter(|_| matches!(c.peek_at(1), Kind::Punct("("))) {
            c.next();
            c.next();
            let port = self.expr(c, Some(32))?;
            c.want(")")?;
            return Ok(Op::PortIs { field, what, port });
        }
        Ok(Op::Assign(field, self.expr(c, width)?))
    }

    /// What follows `in_port`.
    fn guise(&self, c: &mut Cursor<'_>) -> Parsed<Guise> {
        let in_port = self.expr(c, Some(32))?;
        let mut columns = Vec::new();
        while c.eat_word("column") {
            columns.push((c.number("a column", 32)? as u32, self.expr(c, None)?));
        }
        c.want_word("at")?;
        let list = &self.program.tables;
        let mut tables = Vec::new();
        while !c.at_end() {
            let find = |n: &str| self.program.find_table(n);
            tables.push(lookup(c, "table", find, list.iter().map(|t| &*t.name))?);
        }
        Ok(Guise { in_port, columns, tables })
    }

    pub(super) fn assigned_field(&self, c: &mut Cursor<'_>) -> Parsed<FieldRef> {
        if let Kind::Word(w) | Kind::Quoted(w) = c.peek()
            && self.params.iter().any(|p| p.name == *w)
        {
            return c.error(format!("`{w}` is a parameter; only fields are assigned"));
        }
        self.field(c)
    }
}

const OPS: &[&str] = &[
    "set_valid",
    "set_invalid",
    "copy",
    "copy_varbit",
    "payload_sum",
    "payload_hash",
    "truncate",
    "loop",
    "push",
    "pop",
    "reparse",
    "output",
    "group",
    "clone",
    "resubmit",
    "recirculate",
    "punt",
    "digest",
    "service",
    "meter",
    "count",
    "write",
    "if",
    "goto",
    "drop",
    "exit",
];

/// A name that must be known.
pub(super) fn lookup<'a, T>(
    c: &mut Cursor<'_>,
    kind: &str,
    find: impl Fn(&str) -> Option<T>,
    known: impl IntoIterator<Item = &'a str>,
) -> Parsed<T> {
    let at = c.clone();
    let n = c.name(&format!("a {kind}"))?;
    match find(&n) {
        Some(id) => Ok(id),
        None => at.error(format!("there is no {kind} `{n}`{}", nearest(&n, known))),
    }
}

fn needs_width(tree: &Tree) -> bool {
    match tree {
        Tree::Number(l, _) => l.width.is_none(),
        Tree::Unary(op, e) => *op != UnaryOp::LogicalNot && needs_width(e),
        Tree::Binary(op, a, b) => match op {
            BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Sar => needs_width(a),
            BinaryOp::Concat
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge
            | BinaryOp::SLt
            | BinaryOp::SLe
            | BinaryOp::LogicalAnd
            | BinaryOp::LogicalOr => false,
            _ => needs_width(a) && needs_width(b),
        },
        Tree::Mux(_, a, b) => needs_width(a) && needs_width(b),
        Tree::Known(_) | Tree::Slice(..) | Tree::Cast(..) | Tree::Hash(..) => false,
    }
}
