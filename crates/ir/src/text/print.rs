//! The printer: programs, pipelines and their parts as text that reads back to the same.
//!
//! It never fails: an id that refers to nothing (of a program that was never verified) is printed as
//! the id itself, which does not read back.

use super::value::{field_name, mask_value, name, pattern, value};
use crate::bits::Bits;
use crate::expr::{BinaryOp, Expr, FieldRef, HashAlgorithm, UnaryOp};
use crate::id::{ActionId, BlockId, GroupId, HeaderId, MeterId, StackId, TableId, ValueSetId};
use crate::op::{Copy, Op};
use crate::pipeline::{ActionCall, Entry, Group, GroupKind, Meter, Pipeline};
use crate::program::{
    Action, Block, Checksum, ChecksumAlgorithm, ChecksumMode, MatchKind, Param, ParserOp,
    ParserState, Program, Select, Table, Terminator, Transition, intrinsic,
};
use crate::verdict::DropReason;
use std::fmt::Write as _;

/// The capacity of a table that does not say.
pub(super) const CAPACITY: u32 = 1024;

/// A program.
pub fn program(p: &Program) -> String {
    let mut out = Printer::new(p, &[]);
    out.program();
    out.out
}

/// A pipeline: its program, then what controllers put into it.
pub fn pipeline(p: &Pipeline) -> String {
    let mut out = Printer::new(p.program(), &[]);
    out.program();
    out.contents(p);
    out.out
}

/// An expression, parameters by their names.
pub fn expr(p: &Program, params: &[Param], e: &Expr) -> String {
    Printer::new(p, params).expr(e, None)
}

/// An operation, on one line.
pub fn op(p: &Program, params: &[Param], op: &Op) -> String {
    let mut out = Printer::new(p, params);
    out.op(op);
    let lines: Vec<&str> = out.out.lines().map(str::trim).collect();
    let mut text = String::new();
    for (i, line) in lines.iter().enumerate() {
        let joined = i > 0 && !lines[i - 1].ends_with('{') && !line.starts_with('}');
        text.push_str(if i == 0 {
            ""
        } else if joined {
            "; "
        } else {
            " "
        });
        text.push_str(line);
    }
    text
}

/// A call: the action's name and its arguments.
pub fn call(p: &Pipeline, c: &ActionCall) -> String {
    let Some(action) = p.action(c.action) else { return format!("#{}", c.action.0) };
    let known = p.find_action(&action.name) == Some(c.action);
    call_text(known.then_some(action.name.as_str()), Some(action), c)
}

fn call_text(known: Option<&str>, action: Option<&Action>, c: &ActionCall) -> String {
    let mut out = match known {
        Some(n) => name(n),
        None => format!("#{}", c.action.0),
    };
    if !c.args.is_empty() {
        let arg = |(i, v): (usize, &Bits)| {
            let param = action.and_then(|a| a.params.get(i));
            value(param.map_or("", |p| &p.name), v)
        };
        let args: Vec<String> = c.args.iter().enumerate().map(arg).collect();
        let _ = write!(out, "({})", args.join(", "));
    }
    out
}

/// An entry's patterns: by position where all keys are present and few, else by name.
pub fn matches(table: &Table, e: &Entry) -> String {
    let key = |m: &crate::pipeline::KeyMatch| table.key.get(m.key as usize);
    let all = e.matches.len() == table.key.len() && table.key.len() <= 2;
    let one = |m: &crate::pipeline::KeyMatch| {
        let key_name = key(m).map_or("", |k| &k.name);
        let p = pattern(key_name, &m.pattern);
        if all { p } else { format!("{}={p}", field_name(key_name)) }
    };
    e.matches.iter().map(one).collect::<Vec<_>>().join(" ")
}

struct Printer<'a> {
    p: &'a Program,
    params: &'a [Param],
    out: String,
    indent: usize,
}

macro_rules! line {
    ($self:ident, $($text:tt)*) => {{
        let text = format!($($text)*);
        $self.line(&text);
    }};
}

impl<'a> Printer<'a> {
    fn new(p: &'a Program, params: &'a [Param]) -> Printer<'a> {
        Printer { p, params, out: String::new(), indent: 0 }
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.indent * 2);
    }

    fn open(&mut self, text: &str) {
        self.line(&format!("{text} {{"));
        self.indent += 1;
    }

    fn close(&mut self, text: &str) {
        self.indent -= 1;
        self.line(&format!("}}{text}"));
    }

    // Names.

    fn field(&self, f: FieldRef) -> String {
        if self.p.field_width(f).is_none() {
            return format!("{f:?}");
        }
        let n = self.p.field_name(f);
        let hidden = self.params.iter().any(|p| p.name == n);
        if hidden { format!("field({})", name(&n)) } else { field_name(&n) }
    }

    fn header(&self, h: HeaderId) -> String {
        self.p.headers.get(h.index()).map_or_else(|| h.to_string(), |x| name(&x.name))
    }

    fn stack(&self, s: StackId) -> String {
        self.p.stacks.get(s.index()).map_or_else(|| s.to_string(), |x| name(&x.name))
    }

    fn block_name(&self, b: BlockId) -> String {
        self.p.blocks.get(b.index()).map_or_else(|| b.to_string(), |x| name(&x.name))
    }

    fn action_name(&self, a: ActionId) -> String {
        self.p.actions.get(a.index()).map_or_else(|| format!("#{}", a.0), |x| name(&x.name))
    }

    fn call(&self, c: &ActionCall) -> String {
        let action = self.p.actions.get(c.action.index());
        call_text(action.map(|a| a.name.as_str()), action.map(|a| &**a), c)
    }

    fn params(params: &[Param]) -> String {
        let one = |p: &Param| format!("{}: {}", name(&p.name), p.width);
        params.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    // Expressions. `want` is the width that the reader of the text will expect at this place, so
    // that a constant of that width needs no width of its own.

    fn width(&self, e: &Expr) -> Option<u32> {
        let params: Vec<u32> = self.params.iter().map(|p| p.width).collect();
        e.width(self.p, &params)
    }

    fn constant(v: &Bits, want: Option<u32>) -> String {
        let text = if v.width() <= 64 { format!("{v:#}") } else { v.to_string() };
        if want == Some(v.width()) { text } else { format!("{}w{text}", v.width()) }
    }

    /// As an operand: in parentheses if it has operands of its own.
    fn operand(&self, e: &Expr, want: Option<u32>) -> String {
        let text = self.expr(e, want);
        match e {
            Expr::Binary(op, ..) if !matches!(op, BinaryOp::SLt | BinaryOp::SLe) => {
                format!("({text})")
            }
            Expr::Mux(..) | Expr::Unary(..) => format!("({text})"),
            _ => text,
        }
    }

    fn exprs<'e>(&self, list: impl IntoIterator<Item = &'e Expr>) -> String {
        list.into_iter().map(|e| self.expr(e, None)).collect::<Vec<_>>().join(", ")
    }

    fn expr(&self, e: &Expr, want: Option<u32>) -> String {
        match e {
            Expr::Const(v) => Self::constant(v, want),
            Expr::Field(f) => self.field(*f),
            Expr::Param(i) => match self.params.get(*i as usize) {
                Some(p) => field_name(&p.name),
                None => format!("param{i}"),
            },
            Expr::Valid(h) => format!("valid({})", self.header(*h)),
            Expr::StackSize(s) => format!("size({})", self.stack(*s)),
            Expr::Lookahead { skip: 0, width } => format!("lookahead({width})"),
            Expr::Lookahead { skip, width } => format!("lookahead({skip}, {width})"),
            Expr::Remaining => "remaining".to_string(),
            Expr::Slice(e, hi, lo) => format!("{}[{hi}:{lo}]", self.operand(e, None)),
            Expr::Cast(e, w) => format!("cast({w}, {})", self.expr(e, None)),
            Expr::SignCast(e, w) => format!("sign_cast({w}, {})", self.expr(e, None)),
            Expr::Unary(op, e) => {
                let sign = match op {
                    UnaryOp::Not => "~",
                    UnaryOp::Neg => "-",
                    UnaryOp::LogicalNot => "!",
                };
                let want = if *op == UnaryOp::LogicalNot { Some(1) } else { want };
                format!("{sign}{}", self.operand(e, want))
            }
            Expr::Binary(op, a, b) => self.binary(*op, a, b, want),
            Expr::Mux(c, a, b) => format!(
                "{} ? {} : {}",
                self.operand(c, Some(1)),
                self.operand(a, want),
                self.operand(b, want.or_else(|| self.width(a)))
            ),
            Expr::Hash { algorithm, width, inputs } => {
                let sep = if inputs.is_empty() { "" } else { ", " };
                let word = hash_word(*algorithm);
                let of = match algorithm {
                    HashAlgorithm::Crc(c) => format!(
                        "({}, {:#x}, {:#x}, {:#x}, {}, {}, {})",
                        c.width,
                        c.polynomial,
                        c.init,
                        c.xor_out,
                        u32::from(c.reflect_in),
                        u32::from(c.reflect_out),
                        c.function
                    ),
                    _ => String::new(),
                };
                format!("hash({word}{of}, {width}{sep}{})", self.exprs(inputs))
            }
        }
    }

    fn binary(&self, op: BinaryOp, a: &Expr, b: &Expr, want: Option<u32>) -> String {
        let sign = binary_sign(op);
        match op {
            BinaryOp::SLt | BinaryOp::SLe => {
                let (a, b) = (self.expr(a, None), self.expr(b, self.width(a)));
                format!("{sign}({a}, {b})")
            }
            BinaryOp::Concat => {
                format!("{} {sign} {}", self.operand(a, None), self.operand(b, None))
            }
            BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Sar => {
                let amount = matches!(b, Expr::Const(_)).then_some(32);
                format!("{} {sign} {}", self.operand(a, want), self.operand(b, amount))
            }
            BinaryOp::LogicalAnd | BinaryOp::LogicalOr => {
                format!("{} {sign} {}", self.operand(a, Some(1)), self.operand(b, Some(1)))
            }
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => {
                format!("{} {sign} {}", self.operand(a, None), self.operand(b, self.width(a)))
            }
            _ => {
                let second = want.or_else(|| self.width(a));
                format!("{} {sign} {}", self.operand(a, want), self.operand(b, second))
            }
        }
    }

    // Operations.

    fn body(&mut self, head: &str, ops: &[Op]) {
        self.open(head);
        ops.iter().for_each(|op| self.op(op));
        self.close("");
    }

    fn op(&mut self, op: &Op) {
        let w = |f: FieldRef| self.p.field_width(f);
        let names = |word: &str, keep: &[crate::id::MetaId]| {
            let mut out = word.to_string();
            for m in keep {
                let _ = write!(out, " {}", self.field(FieldRef::Meta(*m)));
            }
            out
        };
        let text = match op {
            Op::Assign(f, e) => format!("{} = {}", self.field(*f), self.expr(e, w(*f))),
            Op::AssignSlice(f, hi, lo, e) => {
                let want = hi.checked_sub(*lo).and_then(|w| w.checked_add(1));
                format!("{}[{hi}:{lo}] = {}", self.field(*f), self.expr(e, want))
            }
            Op::SetValid(h) => format!("set_valid {}", self.header(*h)),
            Op::SetInvalid(h) => format!("set_invalid {}", self.header(*h)),
            Op::CopyHeader { to, from } => {
                format!("copy {} from {}", self.header(*to), self.header(*from))
            }
            Op::CopyVarbit { to, from } => {
                format!("copy_varbit {} from {}", self.field(*to), self.field(*from))
            }
            Op::PayloadSum { field } => format!("payload_sum {}", self.field(*field)),
            Op::PayloadHash { field, hash } => {
                format!("payload_hash {} {}", self.field(*field), self.expr(hash, w(*field)))
            }
            Op::Truncate { length } => format!("truncate {}", self.expr(length, Some(32))),
            Op::PushFront(s, n) => format!("push {} {n}", self.stack(*s)),
            Op::PopFront(s, n) => format!("pop {} {n}", self.stack(*s)),
            Op::Reparse => "reparse".to_string(),
            Op::Output { port } => format!("output {}", self.expr(port, Some(32))),
            Op::Group { group } => format!("group {}", self.expr(group, Some(32))),
            Op::Clone { block, copy: Copy::Current } => {
                format!("clone {}", self.block_name(*block))
            }
            Op::Clone { block, copy: Copy::Ingress } => {
                format!("clone {} ingress", self.block_name(*block))
            }
            Op::Call { block, until, guise, site } => {
                let mut out =
                    format!("call {} until {}", self.block_name(*block), self.block_name(*until));
                if *site != 0 {
                    let _ = write!(out, " site {site}");
                }
                if let Some(guise) = guise {
                    let _ = write!(out, " in_port {}", self.expr(&guise.in_port, Some(32)));
                    for (column, e) in &guise.columns {
                        let _ = write!(out, " column {column} {}", self.expr(e, None));
                    }
                    out.push_str(" at");
                    for table in &guise.tables {
                        let t = self.p.tables.get(table.index());
                        let t = t.map_or_else(|| table.to_string(), |t| name(&t.name));
                        let _ = write!(out, " {t}");
                    }
                }
                out
            }
            Op::PortIs { field, what, port } => {
                let (field, port) = (self.field(*field), self.expr(port, Some(32)));
                format!("{field} = {}({port})", what.word())
            }
            Op::Resubmit { keep } => names("resubmit", keep),
            Op::Recirculate { keep } => names("recirculate", keep),
            Op::Punt { reason, args } if args.is_empty() => format!("punt {}", reason.word()),
            Op::Punt { reason, args } => {
                format!("punt {}({})", reason.word(), self.exprs(args))
            }
            Op::Digest { digest, args, once } => {
                let d = self.p.digests.get(digest.index());
                let fields = d.map_or(&[][..], |d| &d.fields);
                let args: Vec<String> = args
                    .iter()
                    .enumerate()
                    .map(|(i, e)| self.expr(e, fields.get(i).map(|f| f.width)))
                    .collect();
                let d = d.map_or_else(|| digest.to_string(), |d| name(&d.name));
                let once = once.map(|about| format!(" once {about}")).unwrap_or_default();
                format!("digest {d}({}){once}", args.join(", "))
            }
            Op::Service { service, args, results } => {
                let s = self.p.services.get(service.index());
                let declared = s.map_or(&[][..], |s| &s.args);
                let args: Vec<String> = args
                    .iter()
                    .enumerate()
                    .map(|(i, e)| self.expr(e, declared.get(i).map(|f| f.width)))
                    .collect();
                let s = s.map_or_else(|| service.to_string(), |s| name(&s.name));
                let results: Vec<String> =
                    results.iter().map(|m| self.field(FieldRef::Meta(*m))).collect();
                let to = if results.is_empty() { "" } else { " -> " };
                format!("service {s}({}){to}{}", args.join(", "), results.join(", "))
            }
            Op::Meter { meter, color, level } => format!(
                "meter {} -> {}, {}",
                self.expr(meter, Some(32)),
                self.field(*color),
                self.field(*level)
            ),
            Op::Count { counter, index } => {
                let c = self.p.counters.get(*counter as usize);
                let c = c.map_or_else(|| format!("counter{counter}"), |c| name(&c.name));
                format!("count {c}({})", self.expr(index, Some(32)))
            }
            Op::RegisterRead { field, register, index } => format!(
                "{} = read {}({})",
                self.field(*field),
                self.register(*register),
                self.expr(index, Some(32))
            ),
            Op::RegisterWrite { register, index, value } => format!(
                "write {}({}) = {}",
                self.register(*register),
                self.expr(index, Some(32)),
                self.expr(value, self.p.registers.get(register.index()).map(|r| r.width))
            ),
            Op::Random { field, lo, hi } => format!(
                "{} = random({}, {})",
                self.field(*field),
                self.expr(lo, w(*field)),
                self.expr(hi, w(*field))
            ),
            Op::Goto(b) => format!("goto {}", self.block_name(*b)),
            Op::Drop(DropReason::Action) => "drop".to_string(),
            Op::Drop(reason) => format!("drop {}", reason.word()),
            Op::Exit => "exit".to_string(),
            Op::Loop { condition, body } => {
                self.open(&format!("loop {}", self.expr(condition, Some(1))));
                body.iter().for_each(|op| self.op(op));
                self.close("");
                return;
            }
            Op::OnCopy { body } => {
                self.open("on_copy");
                body.iter().for_each(|op| self.op(op));
                self.close("");
                return;
            }
            Op::If { condition, then, or_else } => {
                let head = format!("if {}", self.expr(condition, Some(1)));
                self.open(&head);
                then.iter().for_each(|op| self.op(op));
                if !or_else.is_empty() {
                    self.indent -= 1;
                    self.open("} else");
                    or_else.iter().for_each(|op| self.op(op));
                }
                self.close("");
                return;
            }
        };
        self.line(&text);
    }

    fn register(&self, r: crate::id::RegisterId) -> String {
        self.p.registers.get(r.index()).map_or_else(|| r.to_string(), |r| name(&r.name))
    }

    // Declarations.

    fn program(&mut self) {
        let p = self.p;
        for t in &p.header_types {
            self.open(&format!("type {}", name(&t.name)));
            for f in &t.fields {
                let varbit = if f.varbit { " varbit" } else { "" };
                line!(self, "{}: {}{varbit}", name(&f.name), f.width);
            }
            self.close("");
        }
        for h in &p.headers {
            let ty = p.header_types.get(h.header_type.index()).map_or("", |t| &t.name);
            match h.stack {
                None => line!(self, "header {}: {}", name(&h.name), name(ty)),
                Some((s, 0)) => {
                    let size = p.stacks.get(s.index()).map_or(0, |s| s.size);
                    line!(self, "stack {}: {}, {size}", self.stack(s), name(ty));
                }
                Some(_) => {}
            }
        }
        for u in &p.unions {
            let mut text = format!("union {}:", name(&u.name));
            for m in &u.members {
                let _ = write!(text, " {}", self.header(*m));
            }
            self.line(&text);
        }
        for m in p.metadata.iter().skip(intrinsic::FIELDS.len()) {
            line!(self, "meta {}: {}", name(&m.name), m.width);
        }
        for s in &p.value_sets {
            line!(self, "value_set {}: {}, {}", name(&s.name), s.width, s.capacity);
        }
        for r in &p.registers {
            line!(self, "register {}: {}, {}", name(&r.name), r.width, r.size);
        }
        for c in &p.counters {
            line!(self, "counter {}: {}", name(&c.name), c.size);
        }
        for d in &p.digests {
            line!(self, "digest {}({})", name(&d.name), Self::params(&d.fields));
        }
        for s in &p.services {
            let (args, results) = (Self::params(&s.args), Self::params(&s.results));
            let to = if s.results.is_empty() { String::new() } else { format!(" -> ({results})") };
            let edits = if s.edits { " edits" } else { "" };
            line!(self, "service {}({args}){to}{edits}", name(&s.name));
        }
        if p.reject_continues {
            self.line("reject continues");
        }
        if let Some(preface) = p.preface {
            line!(self, "preface {:#06x} {}", preface.ports, preface.bytes);
        }
        p.parser.iter().for_each(|s| self.state(s));
        self.deparser();
        p.checksums.iter().for_each(|c| self.checksum(c));
        for a in &p.actions {
            self.action(a, None);
        }
        for i in 0..p.tables.len() {
            self.table(i);
        }
        if p.blocks.is_empty() && !p.tables.is_empty() {
            self.line("blocks none");
        }
        p.blocks.iter().for_each(|b| self.block(b));
    }

    fn state(&mut self, s: &ParserState) {
        self.open(&format!("state {}", name(&s.name)));
        for op in &s.ops {
            let varbit = |e: &Option<Expr>| match e {
                Some(e) => format!(", {}", self.expr(e, None)),
                None => String::new(),
            };
            let text = match op {
                ParserOp::Extract { header, varbit: v } => {
                    format!("extract {}{}", self.header(*header), varbit(v))
                }
                ParserOp::ExtractNext { stack, varbit: v } => {
                    format!("extract next {}{}", self.stack(*stack), varbit(v))
                }
                ParserOp::Advance(e) => format!("advance {}", self.expr(e, None)),
                ParserOp::Assign(f, e) => {
                    format!("{} = {}", self.field(*f), self.expr(e, self.p.field_width(*f)))
                }
                ParserOp::Verify(e, code) => format!("verify {}, {code}", self.expr(e, Some(1))),
            };
            self.line(&text);
        }
        match &s.next {
            Transition::State(_) => {
                let next = self.next(&s.next);
                line!(self, "goto {next}");
            }
            next => self.transition("", next),
        }
        self.close("");
    }

    fn next(&self, t: &Transition) -> String {
        match t {
            Transition::Accept => "accept".into(),
            Transition::Reject => "reject".into(),
            Transition::State(s) => {
                self.p.parser.get(s.index()).map_or_else(|| s.to_string(), |s| name(&s.name))
            }
            Transition::Select { keys, .. } => format!("select {}", self.exprs(keys)),
        }
    }

    fn transition(&mut self, prefix: &str, t: &Transition) {
        let next = self.next(t);
        let Transition::Select { keys, cases } = t else {
            line!(self, "{prefix}{next}");
            return;
        };
        let keys: Vec<String> = keys.iter().map(field_like).collect();
        self.open(&format!("{prefix}{next}"));
        for case in cases {
            let patterns: Vec<String> = case
                .patterns
                .iter()
                .enumerate()
                .map(|(i, p)| select(self.p, keys.get(i).map_or("", |k| k), p))
                .collect();
            self.transition(&format!("{} => ", patterns.join(", ")), &case.next);
        }
        self.close("");
    }

    fn deparser(&mut self) {
        let p = self.p;
        if p.deparser.is_empty() {
            return;
        }
        let mut text = "deparser".to_string();
        let mut at = 0;
        while at < p.deparser.len() {
            let h = p.deparser[at];
            let whole = p.stacks.iter().position(|s| {
                s.first == h
                    && (0..s.size as usize)
                        .all(|i| p.deparser.get(at + i) == Some(&HeaderId(h.0 + i as u32)))
            });
            match whole {
                Some(s) => {
                    let _ = write!(text, " {}", self.stack(StackId(s as u32)));
                    at += (p.stacks[s].size as usize).max(1);
                }
                None => {
                    let _ = write!(text, " {}", self.header(h));
                    at += 1;
                }
            }
        }
        self.line(&text);
    }

    fn checksum(&mut self, c: &Checksum) {
        let algorithm = match c.algorithm {
            ChecksumAlgorithm::Csum16 => "csum16",
            ChecksumAlgorithm::Crc32c => "crc32c",
        };
        let mode = match c.mode {
            ChecksumMode::Incremental => "incremental",
            ChecksumMode::IfChanged => "if_changed",
            ChecksumMode::Always => "always",
        };
        self.open(&format!("checksum {} {algorithm} {mode}", self.field(c.field)));
        if !c.inputs.is_empty() {
            line!(self, "inputs {}", self.exprs(&c.inputs));
        }
        if c.payload {
            self.line("payload");
        }
        if let Some(e) = &c.condition {
            line!(self, "if {}", self.expr(e, Some(1)));
        }
        if c.zero_is_none {
            self.line("zero_is_none");
        }
        self.close("");
    }

    fn action(&mut self, a: &Action, id: Option<ActionId>) {
        let mut head = format!("action {}", name(&a.name));
        if !a.params.is_empty() {
            let _ = write!(head, "({})", Self::params(&a.params));
        }
        if let Some(id) = id {
            let _ = write!(head, " id={}", id.0);
        }
        let mut inner = Printer {
            p: self.p,
            params: &a.params,
            out: std::mem::take(&mut self.out),
            indent: self.indent,
        };
        inner.body(&head, &a.body);
        self.out = inner.out;
    }

    fn table(&mut self, index: usize) {
        let p = self.p;
        let t = &p.tables[index];
        self.open(&format!("table {}", name(&t.name)));
        let same = |o: &&Table| std::sync::Arc::ptr_eq(&o.key, &t.key);
        match p.tables[..index].iter().find(same) {
            Some(other) if !t.key.is_empty() => line!(self, "key like {}", name(&other.name)),
            _ => {
                for k in t.key.iter() {
                    let e = self.expr(&k.expr, None);
                    let own = matches!(&k.expr, Expr::Field(f)
                        if p.field_width(*f).is_some() && p.field_name(*f) == k.name);
                    let head = if own { e } else { format!("{} = {e}", field_name(&k.name)) };
                    line!(self, "key {head} {}", kind_word(k.kind));
                }
            }
        }
        if let Some(actions) = &t.actions {
            let mut text = "actions".to_string();
            for a in actions {
                let _ = write!(text, " {}", self.action_name(*a));
            }
            self.line(&text);
        }
        let constant = if t.default_const { "const " } else { "" };
        line!(self, "{constant}default {}", self.call(&t.default));
        if t.capacity != CAPACITY {
            line!(self, "capacity {}", t.capacity);
        }
        if t.counters {
            self.line("counters");
        }
        self.close("");
    }

    fn block(&mut self, b: &Block) {
        self.open(&format!("block {}", name(&b.name)));
        b.ops.iter().for_each(|op| self.op(op));
        let text = match &b.end {
            Terminator::Jump(to) => format!("jump {}", self.block_name(*to)),
            Terminator::If { condition, then, or_else } => format!(
                "branch {} then {} else {}",
                self.expr(condition, Some(1)),
                self.block_name(*then),
                self.block_name(*or_else)
            ),
            Terminator::Apply { table, hit, miss, by_action } => {
                let t = self.p.tables.get(table.index());
                let t = t.map_or_else(|| table.to_string(), |t| name(&t.name));
                let mut text = format!(
                    "apply {t} hit {} miss {}",
                    self.block_name(*hit),
                    self.block_name(*miss)
                );
                for (a, to) in by_action {
                    let _ = write!(text, " on {} {}", self.action_name(*a), self.block_name(*to));
                }
                text
            }
            Terminator::Exit => "end".to_string(),
        };
        self.line(&text);
        self.close("");
    }

    // What controllers put in.

    fn contents(&mut self, p: &Pipeline) {
        for (id, a) in p.added_actions() {
            self.action(a, Some(id));
        }
        for (i, s) in self.p.value_sets.iter().enumerate() {
            let members = p.value_set(ValueSetId(i as u32));
            if !members.is_empty() {
                let members: Vec<String> =
                    members.iter().map(|m| select(self.p, &s.name, m)).collect();
                line!(self, "members {} = {}", name(&s.name), members.join(", "));
            }
        }
        for (id, m) in p.meters() {
            self.meter(id, m);
        }
        for (id, g) in p.groups() {
            self.group(p, id, g);
        }
        let mut next = 1;
        for (i, t) in self.p.tables.iter().enumerate() {
            let entries = p.entries(TableId(i as u32));
            if *entries.default() != t.default {
                line!(self, "default {} => {}", name(&t.name), call(p, entries.default()));
            }
            for e in entries.iter() {
                let text = entry(p, TableId(i as u32), e, Some(next));
                self.line(&text);
                next = e.id.0.wrapping_add(1);
            }
        }
    }

    fn meter(&mut self, id: MeterId, m: &Meter) {
        let unit = if m.packets { "packets" } else { "bits" };
        self.open(&format!("meter {} {unit}", id.0));
        for b in &m.bands {
            let mut text = format!("band rate={}", b.rate);
            for (word, v) in
                [("burst", b.burst), ("color", b.color.into()), ("level", b.level.into())]
            {
                if v != 0 {
                    let _ = write!(text, " {word}={v}");
                }
            }
            self.line(&text);
        }
        self.close("");
    }

    fn group(&mut self, p: &Pipeline, id: GroupId, g: &Group) {
        let mut head = format!("group {} {}", id.0, group_word(g.kind));
        if g.counter.0 != 0 {
            let _ = write!(head, " counter={}", g.counter.0);
        }
        if !g.hash.is_empty() {
            let _ = write!(head, " hash({})", self.exprs(&*g.hash));
        }
        self.open(&head);
        for b in &g.buckets {
            let mut text = "bucket".to_string();
            if b.weight != 1 {
                let _ = write!(text, " weight={}", b.weight);
            }
            for (word, v) in [
                ("watch_port", b.watch_port),
                ("watch_group", b.watch_group.map(|g| g.0)),
                ("counter", Some(b.counter.0).filter(|c| *c != 0)),
            ] {
                if let Some(v) = v {
                    let _ = write!(text, " {word}={v}");
                }
            }
            line!(self, "{text} => {}", call(p, &b.action));
        }
        self.close("");
    }
}

/// An entry on one line. `next` is the id that a reader of the text would give it; it is printed if
/// the entry has another one. With `None` it never is.
pub fn entry(p: &Pipeline, table: TableId, e: &Entry, next: Option<u32>) -> String {
    let Some(t) = p.program().tables.get(table.index()) else { return table.to_string() };
    let mut text = format!("entry {}", name(&t.name));
    let m = matches(t, e);
    if !m.is_empty() {
        let _ = write!(text, " {m}");
    }
    if e.priority != 0 {
        let _ = write!(text, " priority={}", e.priority);
    }
    if next.is_some_and(|n| n != e.id.0) {
        let _ = write!(text, " id={}", e.id.0);
    }
    if e.cookie != 0 {
        let _ = write!(text, " cookie={:#x}", e.cookie);
    }
    if e.idle_timeout_ns != 0 {
        let _ = write!(text, " idle_ns={}", e.idle_timeout_ns);
    }
    if e.hard_timeout_ns != 0 {
        let _ = write!(text, " hard_ns={}", e.hard_timeout_ns);
    }
    let _ = write!(text, " => {}", call(p, &e.action));
    text
}

/// The word for a key's kind.
fn kind_word(kind: MatchKind) -> &'static str {
    kind.word()
}

/// A name that tells how values of this expression are best spelled.
fn field_like(_: &Expr) -> String {
    "type".to_string()
}

fn select(p: &Program, field: &str, s: &Select) -> String {
    match s {
        Select::Any => "_".into(),
        Select::Masked(v, mask) if mask.is_ones() => value(field, v),
        Select::Masked(v, mask) => format!("{} &&& {}", value(field, v), mask_value(field, mask)),
        Select::Range(lo, hi) => format!("{}..{}", value(field, lo), value(field, hi)),
        Select::ValueSet(id) => match p.value_sets.get(id.index()) {
            Some(s) => format!("in {}", name(&s.name)),
            None => format!("in {id}"),
        },
    }
}

pub(super) fn group_word(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::All => "all",
        GroupKind::Select => "select",
        GroupKind::Indirect => "indirect",
        GroupKind::FastFailover => "fast_failover",
        GroupKind::Slots => "slots",
    }
}

pub(super) fn hash_word(algorithm: HashAlgorithm) -> &'static str {
    match algorithm {
        HashAlgorithm::Crc(_) => "crc",
        HashAlgorithm::Identity => "identity",
        HashAlgorithm::Crc16 => "crc16",
        HashAlgorithm::Crc32 => "crc32",
        HashAlgorithm::Crc32c => "crc32c",
        HashAlgorithm::Csum16 => "csum16",
        HashAlgorithm::Xor16 => "xor16",
    }
}

pub(super) fn binary_sign(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::AddSat => "|+|",
        BinaryOp::SubSat => "|-|",
        BinaryOp::And => "&",
        BinaryOp::Or => "|",
        BinaryOp::Xor => "^",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::Sar => ">>>",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::SLt => "slt",
        BinaryOp::SLe => "sle",
        BinaryOp::LogicalAnd => "&&",
        BinaryOp::LogicalOr => "||",
        BinaryOp::Concat => "++",
    }
}
