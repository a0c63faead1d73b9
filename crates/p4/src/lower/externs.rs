//! What v1model's externs do, and core.p4's.

use super::expr::calls;
use super::fold::{binary, cast, not};
use super::names::Calculation;
use super::operand::V;
use super::state::Softflow;
use super::step::Step;
use super::{Lower, ObjectKind, Result};
use crate::ast::Direction;
use crate::hir::{self, Call, Const, Expr as H, ExprKind, Signature};
use crate::source::Span;
use crate::types::*;
use contract::softflow;
use ir::program::{ParserOp, intrinsic, parser_error};
use ir::{BinaryOp, Expr, FieldRef, HashAlgorithm, Op};

impl Lower<'_> {
    fn arg<'c>(&mut self, c: &'c Call, i: usize, span: Span) -> Result<&'c H> {
        match c.args.get(i) {
            Some(Some(e)) => Ok(e),
            _ => self.refuse(span, "an argument of this extern is missing"),
        }
    }

    fn arg_value(&mut self, c: &Call, i: usize, span: Span) -> Result<V> {
        let e = self.arg(c, i, span)?;
        self.expr(e)
    }

    fn arg_scalar(&mut self, c: &Call, i: usize, span: Span) -> Result<(Expr, u32)> {
        let v = self.arg_value(c, i, span)?;
        let ty = self.arg(c, i, span)?.ty;
        let v = self.known(v, ty);
        self.read(&v, span)
    }

    /// A field of the standard metadata.
    pub(super) fn sm_field(&mut self, name: &str, span: Span) -> Result<V> {
        let Some(V::S(items, ty)) = self.sm.clone() else {
            return self.refuse(span, "there is no standard metadata here");
        };
        let Ty::Struct(s, _) = self.p.ty(ty).clone() else {
            return self.refuse(span, "there is no standard metadata here");
        };
        match self.p.structs[s.index()].fields.iter().position(|f| &*f.name == name) {
            Some(i) => Ok(items[i].clone()),
            None => self.refuse(span, format!("standard metadata has no `{name}`")),
        }
    }

    pub(super) fn set_sm(&mut self, name: &str, value: Expr, span: Span) -> Result<()> {
        let place = self.sm_field(name, span)?;
        self.assign(&place, &V::E(value.clone(), self.index_width(&value)), span)
    }

    /// The hash function that a member of `HashAlgorithm` is.
    fn algorithm(&mut self, c: &Call, i: usize, span: Span) -> Result<(HashAlgorithm, u32)> {
        let e = self.arg(c, i, span)?;
        let name = match (&e.value, self.p.ty(e.ty)) {
            (Some(Const::Enum(n)), Ty::Enum(id)) => {
                self.p.enums[id.index()].members.get(*n as usize).map(|m| m.0.to_string())
            }
            _ => None,
        };
        Ok(match name.as_deref() {
            Some("crc32") => (HashAlgorithm::Crc32, 32),
            Some("crc16") => (HashAlgorithm::Crc16, 16),
            Some("crc32_custom") => (self.custom_crc(HashAlgorithm::Crc32, span), 32),
            Some("crc16_custom") => (self.custom_crc(HashAlgorithm::Crc16, span), 16),
            Some("csum16") => (HashAlgorithm::Csum16, 16),
            Some("xor16") => (HashAlgorithm::Xor16, 16),
            Some("identity") => (HashAlgorithm::Identity, 64),
            other => {
                let text = format!("the hash function `{}` is not supported", other.unwrap_or("?"));
                return self.refuse(span, text);
            }
        })
    }

    /// A CRC whose parameters may be changed; they begin as the plain one's. One place in the text is one
    /// function, however often it is written out.
    fn custom_crc(&mut self, plain: HashAlgorithm, span: Span) -> HashAlgorithm {
        let Some(crc) = plain.crc() else { return plain };
        let known = self.names.calculations.iter().find(|c| c.place == span.lo);
        if let Some(known) = known {
            return HashAlgorithm::Crc(known.crc);
        }
        let crc = ir::Crc { function: self.names.calculations.len() as u32, ..crc };
        let place = span.lo;
        self.names.calculations.push(Calculation { name: String::new(), crc, place });
        HashAlgorithm::Crc(crc)
    }

    /// The hash function of an action selector, by its place in `HashAlgorithm`.
    pub(super) fn selector_hash(&mut self, n: Option<u32>, span: Span) -> Result<HashAlgorithm> {
        match n {
            Some(0) => Ok(HashAlgorithm::Crc32),
            Some(1) => Ok(self.custom_crc(HashAlgorithm::Crc32, span)),
            Some(2) => Ok(HashAlgorithm::Crc16),
            Some(3) => Ok(self.custom_crc(HashAlgorithm::Crc16, span)),
            Some(5) => Ok(HashAlgorithm::Identity),
            Some(6) => Ok(HashAlgorithm::Csum16),
            Some(7) => Ok(HashAlgorithm::Xor16),
            _ => self.refuse(span, "an action selector by chance is not supported: name a hash"),
        }
    }

    fn inputs(&mut self, v: &V, span: Span) -> Result<Vec<Expr>> {
        let flat = self.flatten(v, span)?;
        Ok(flat.into_iter().map(|(e, _)| e).collect())
    }

    /// The call of an extern, with those arguments evaluated whose order matters, in the order in which they are
    /// written, and with the places kept that are written to (§6.8).
    fn settled(&mut self, params: &[hir::Param], c: &Call) -> Result<Call> {
        let order = c.written();
        let writes = |i: usize| {
            params.get(i).is_some_and(|p| matches!(p.direction, Direction::Out | Direction::InOut))
        };
        let last = order.iter().rposition(|i| c.args[*i].as_ref().is_some_and(calls));
        let several = order.iter().filter(|i| writes(**i)).count() > 1;
        let mut call = c.clone();
        for (n, i) in order.iter().copied().enumerate() {
            let Some(e) = &c.args[i] else { continue };
            let before = last.is_some_and(|last| n <= last);
            let known = e.value.is_some() || through_next(e);
            if known || !(before || several && writes(i)) {
                continue;
            }
            let v = match self.expr(e)? {
                V::O(_) | V::Void => continue,
                v if writes(i) => self.freeze(v),
                v => self.keep_value(&v, e.ty, e.span)?,
            };
            let var = VarId(self.p.vars.len() as u32);
            let (name, kind) = ("argument".into(), hir::VarKind::Local);
            self.p.vars.push(hir::Var { name, ty: e.ty, span: e.span, kind });
            self.frame.vars.insert(var, v);
            call.args[i] = Some(H { kind: ExprKind::Var(var), ..e.clone() });
        }
        Ok(call)
    }

    pub(super) fn extern_function(&mut self, s: &Signature, c: &Call, span: Span) -> Result<V> {
        let c = &self.settled(&s.params, c)?;
        match &*s.name {
            "verify" => {
                let (condition, _) = self.arg_scalar(c, 0, span)?;
                let code = self.arg_scalar(c, 1, span)?.0;
                let Expr::Const(code) = code else {
                    return self.refuse(span, "the error of `verify` is not known at compile time");
                };
                self.out.push(Step::Parse(ParserOp::Verify(condition, code.low_u32() as u8)));
                Ok(V::Void)
            }
            "static_assert" => Ok(V::E(Expr::bool(true), 1)),
            "mark_to_drop" => {
                self.set_sm("egress_spec", Expr::int(511, 9), span)?;
                self.set_sm("mcast_grp", Expr::int(0, 16), span)?;
                Ok(V::Void)
            }
            "random" => {
                let place = self.arg_value(c, 0, span)?;
                let (lo, w) = self.arg_scalar(c, 1, span)?;
                let (hi, hw) = self.arg_scalar(c, 2, span)?;
                if w == 0 {
                    return Ok(V::Void);
                }
                let (field, value) = self.temp("random", w);
                self.op(Op::Random { field, lo, hi: cast(hi, hw, w, false) });
                self.assign(&place, &value, span)?;
                Ok(V::Void)
            }
            "digest" => {
                let data = self.arg(c, 1, span)?;
                let v = self.expr(data)?;
                let flat = self.flatten(&v, span)?;
                let name = self.unique(&self.p.show(data.ty));
                let fields: Vec<(String, u32)> =
                    flat.iter().enumerate().map(|(i, (_, w))| (format!("f{i}"), *w)).collect();
                let list: Vec<(&str, u32)> = fields.iter().map(|(n, w)| (n.as_str(), *w)).collect();
                let digest = self.b.digest(&name, &list);
                self.op(Op::Digest {
                    digest,
                    args: flat.into_iter().map(|(e, _)| e).collect(),
                    once: None,
                });
                Ok(V::Void)
            }
            "hash" => {
                let place = self.arg_value(c, 0, span)?;
                let (algorithm, width) = self.algorithm(c, 1, span)?;
                let (base, bw) = self.arg_scalar(c, 2, span)?;
                let data = self.arg_value(c, 3, span)?;
                let (max, mw) = self.arg_scalar(c, 4, span)?;
                let inputs = self.inputs(&data, span)?;
                let place_ty = self.arg(c, 0, span)?.ty;
                let ow = self.width(place_ty).unwrap_or(width);
                // Wide enough for the hash, the base and the maximum.
                let w = width.max(bw).max(mw).max(ow);
                let hash = if inputs.is_empty() {
                    Expr::int(0, width)
                } else {
                    Expr::Hash { algorithm, width, inputs }
                };
                let hash = cast(hash, width, w, false);
                let max = cast(max, mw, w, false);
                let rest = match &max {
                    Expr::Const(m) if m.is_zero() => Expr::Const(ir::Bits::zero(w)),
                    _ => {
                        let zero =
                            binary(BinaryOp::Eq, max.clone(), Expr::Const(ir::Bits::zero(w)));
                        let (_, r) = self.divide(hash, max, w);
                        super::fold::mux(zero, Expr::Const(ir::Bits::zero(w)), r)
                    }
                };
                let sum = binary(BinaryOp::Add, cast(base, bw, w, false), rest);
                self.assign(&place, &V::E(cast(sum, w, ow, false), ow), span)?;
                Ok(V::Void)
            }
            "verify_checksum" => {
                let (condition, _) = self.arg_scalar(c, 0, span)?;
                let data = self.arg_value(c, 1, span)?;
                let (checksum, w) = self.arg_scalar(c, 2, span)?;
                let hash = self.checksum_of(c, &data, w, span)?;
                let wrong = binary(
                    BinaryOp::LogicalAnd,
                    condition,
                    not(binary(BinaryOp::Eq, hash, checksum)),
                );
                let then = self.steps(|l| l.set_sm("checksum_error", Expr::int(1, 1), span))?;
                self.out.push(Step::If(wrong, then, Vec::new()));
                Ok(V::Void)
            }
            "verify_checksum_with_payload" => {
                let (condition, _) = self.arg_scalar(c, 0, span)?;
                let data = self.arg_value(c, 1, span)?;
                let (checksum, w) = self.arg_scalar(c, 2, span)?;
                let steps = self.steps(|l| {
                    let hash = l.checksum_with_payload(c, &data, w, span)?;
                    let wrong = not(binary(BinaryOp::Eq, hash, checksum));
                    let then = l.steps(|l| l.set_sm("checksum_error", Expr::int(1, 1), span))?;
                    l.out.push(Step::If(wrong, then, Vec::new()));
                    Ok(())
                })?;
                self.out.push(Step::If(condition, steps, Vec::new()));
                Ok(V::Void)
            }
            "truncate" => {
                let (length, w) = self.arg_scalar(c, 0, span)?;
                self.op(Op::Truncate { length: cast(length, w, 32, false) });
                Ok(V::Void)
            }
            "update_checksum" => {
                let (condition, _) = self.arg_scalar(c, 0, span)?;
                let data = self.arg_value(c, 1, span)?;
                let place = self.arg_value(c, 2, span)?;
                let ty = self.arg(c, 2, span)?.ty;
                let w = self.width(ty).unwrap_or(16);
                let hash = self.checksum_of(c, &data, w, span)?;
                let then = self.steps(|l| l.write(&place, hash, span))?;
                self.out.push(Step::If(condition, then, Vec::new()));
                Ok(V::Void)
            }
            "update_checksum_with_payload" => {
                let (condition, _) = self.arg_scalar(c, 0, span)?;
                let data = self.arg_value(c, 1, span)?;
                let place = self.arg_value(c, 2, span)?;
                let ty = self.arg(c, 2, span)?.ty;
                let w = self.width(ty).unwrap_or(16);
                let then = self.steps(|l| {
                    let hash = l.checksum_with_payload(c, &data, w, span)?;
                    l.write(&place, hash, span)
                })?;
                self.out.push(Step::If(condition, then, Vec::new()));
                Ok(V::Void)
            }
            "clone" | "clone3" | "clone_preserving_field_list" => {
                let kind = self.arg(c, 0, span)?.value.clone();
                let egress = kind == Some(Const::Enum(1));
                let (session, w) = self.arg_scalar(c, 1, span)?;
                let list = match (&*s.name, c.args.get(2)) {
                    ("clone", _) | (_, None) => Expr::int(0, 8),
                    ("clone3", _) => {
                        let data = self.arg_value(c, 2, span)?;
                        self.list_of(&data)
                    }
                    _ => self.list_number(c, 2, span)?,
                };
                let m = if egress { self.v1.clone_egress } else { self.v1.clone_ingress };
                self.op(Op::Assign(m.flag, Expr::bool(true)));
                self.op(Op::Assign(m.session, cast(session, w, 32, false)));
                self.op(Op::Assign(m.list, list));
                if egress {
                    self.v1.uses_clone_egress = true;
                }
                Ok(V::Void)
            }
            "resubmit"
            | "resubmit_preserving_field_list"
            | "recirculate"
            | "recirculate_preserving_field_list" => {
                let list = if s.name.ends_with("list") {
                    self.list_number(c, 0, span)?
                } else {
                    let data = self.arg_value(c, 0, span)?;
                    self.list_of(&data)
                };
                let m = if s.name.starts_with("resubmit") {
                    self.v1.resubmit
                } else {
                    self.v1.recirculate
                };
                self.op(Op::Assign(m.flag, Expr::bool(true)));
                self.op(Op::Assign(m.list, list));
                Ok(V::Void)
            }
            "softflow" | "softflow_edit" => self.softflow(&s.name, c, span),
            // They change nothing of the packet.
            "assert" | "assume" | "log_msg" => Ok(V::Void),
            other => self.refuse(span, format!("the extern function `{other}` is not supported")),
        }
    }

    /// A call of a service by its name (SoftFlow §3, of which this is the part without a pass through the tables:
    /// where a program goes on, it says itself).
    fn softflow(&mut self, service: &str, c: &Call, span: Span) -> Result<V> {
        let Some(Const::Str(name)) = self.arg(c, 0, span)?.value.clone() else {
            return self.refuse(span, "the name of a service is not known at compile time");
        };
        if !softflow::is_name(&name) {
            return self.refuse(
                span,
                "a service's name has 1 to 32 letters, digits, `_`, `-` and `.`, and a letter first",
            );
        }
        let edits = service == softflow::EDIT_NAME;
        if edits && !self.v1.made.is_empty() {
            return self.refuse(
                span,
                "a service that may write packets, in a program whose parser makes headers valid without \
                 extracting them, is not supported",
            );
        }
        let (argument, width) = self.arg_scalar(c, 1, span)?;
        let register = self.arg_value(c, 2, span)?;
        let (told, told_width) = self.arg_scalar(c, 2, span)?;
        let coalesce = self.arg_value(c, 3, span)?;
        let id = match self.b.program().find_service(service) {
            Some(id) => id,
            None => self.b.service(service, &softflow::ARGS, &softflow::RESULTS, edits),
        };
        let Softflow { action, stage } = match self.v1.softflow {
            Some(carried) => carried,
            None => {
                let carried = Softflow {
                    action: FieldRef::Meta(self.b.meta("v1.softflow.action", 32)),
                    stage: FieldRef::Meta(self.b.meta("v1.softflow.stage", 8)),
                };
                *self.v1.softflow.insert(carried)
            }
        };
        let element = Expr::int(softflow::number(&name).into(), 32);
        let args = vec![
            element.clone(),
            cast(argument, width, 32, false),
            cast(told, told_width, 64, false),
            Expr::Field(action),
            Expr::Field(stage),
        ];
        let [said, kept] = softflow::RESULTS.map(|(name, width)| {
            let name = self.unique(&format!("tmp.softflow.{name}"));
            (self.b.meta(&name, width), width)
        });
        self.op(Op::Service { service: id, args, results: vec![said.0, kept.0] });
        self.op(Op::Assign(action, element));
        let one = Expr::int(1, 8);
        self.op(Op::Assign(stage, binary(BinaryOp::Add, Expr::Field(stage), one)));
        let value = |(meta, width): (ir::MetaId, u32)| V::F(FieldRef::Meta(meta), width);
        self.assign(&register, &value(said), span)?;
        self.assign(&coalesce, &value(kept), span)?;
        Ok(V::Void)
    }

    fn list_number(&mut self, c: &Call, i: usize, span: Span) -> Result<Expr> {
        let (e, w) = self.arg_scalar(c, i, span)?;
        match cast(e, w, 8, false) {
            // 0 is no list at all; lists count from 1 here.
            Expr::Const(b) => Ok(Expr::int(u128::from(b.low_u32() & 0xff) + 1, 8)),
            _ => self.refuse(span, "the number of a field list is known at compile time"),
        }
    }

    /// A field list out of the fields given.
    fn list_of(&mut self, v: &V) -> Expr {
        let mut metas = Vec::new();
        v.metas(&mut |m| metas.push(m));
        self.v1.own_lists += 1;
        let number = 255 - self.v1.own_lists;
        for m in metas {
            self.field_lists.push((number, m));
        }
        Expr::int(u128::from(number) + 1, 8)
    }

    fn checksum_of(&mut self, c: &Call, data: &V, w: u32, span: Span) -> Result<Expr> {
        let (algorithm, width) = self.algorithm(c, 3, span)?;
        let inputs = self.inputs(data, span)?;
        if inputs.is_empty() {
            return self.refuse(span, "a checksum of nothing");
        }
        Ok(cast(Expr::Hash { algorithm, width, inputs }, width, w, false))
    }

    /// A checksum of data and, behind them, of what the parser left of the packet.
    fn checksum_with_payload(&mut self, c: &Call, data: &V, w: u32, span: Span) -> Result<Expr> {
        let (algorithm, width) = self.algorithm(c, 3, span)?;
        let flat = self.flatten(data, span)?;
        let varbit = |e: &Expr| matches!(e, Expr::Field(f) if self.is_varbit(*f));
        let words = flat.iter().map(|(_, w)| w).sum::<u32>().is_multiple_of(16)
            && !flat.iter().any(|(e, _)| varbit(e));
        let mut inputs: Vec<Expr> = flat.into_iter().map(|(e, _)| e).collect();
        if algorithm == HashAlgorithm::Csum16 && words {
            // The sum of the payload's words is one word more of the data.
            let (field, payload) = self.temp("payload", 16);
            self.op(Op::PayloadSum { field });
            inputs.push(self.read(&payload, span)?.0);
            return Ok(cast(Expr::Hash { algorithm, width, inputs }, width, w, false));
        }
        let (field, _) = self.temp("payload", width);
        self.op(Op::PayloadHash { field, hash: Expr::Hash { algorithm, width, inputs } });
        Ok(cast(Expr::Field(field), width, w, false))
    }

    pub(super) fn method(
        &mut self,
        object: &H,
        e: ExternId,
        m: usize,
        c: &Call,
        ty: TyId,
        span: Span,
    ) -> Result<V> {
        let ext = self.p.externs[e.index()].clone();
        let method = ext.methods[m].clone();
        let v = match &object.kind {
            ExprKind::Var(_) => self.expr(object).unwrap_or(V::Void),
            _ => self.expr(object)?,
        };
        if let V::O(id) = v {
            let functions = self.objects[id].functions.clone();
            let own = functions
                .iter()
                .find(|f| self.p.functions[f.index()].signature.name == method.name)
                .copied();
            if let Some(f) = own {
                let call = Call { callee: hir::Callee::Function(f), ..c.clone() };
                return self.call(&call, ty, span);
            }
        }
        let c = &self.settled(&method.params, c)?;
        match (&*ext.name, &*method.name) {
            ("packet_in", "extract") => self.extract(c, span),
            ("packet_in", "lookahead") => {
                let Some(width) = self.total_bits(ty) else {
                    return self.refuse(span, "this cannot be looked at ahead");
                };
                if width > 0 {
                    let enough =
                        binary(BinaryOp::Ge, Expr::Remaining, Expr::int(u128::from(width), 32));
                    let code = parser_error::PACKET_TOO_SHORT;
                    self.out.push(Step::Parse(ParserOp::Verify(enough, code)));
                }
                let mut at = 0;
                self.ahead(ty, &mut at)
            }
            ("packet_in", "advance") => {
                let (e, w) = self.arg_scalar(c, 0, span)?;
                self.out.push(Step::Parse(ParserOp::Advance(cast(e, w, 32, false))));
                Ok(V::Void)
            }
            ("packet_in", "length") => Ok(V::E(Expr::meta(intrinsic::PACKET_LENGTH), 32)),
            ("packet_out", "emit") => {
                let v = self.arg_value(c, 0, span)?;
                self.emit(&v, span)?;
                Ok(V::Void)
            }
            ("counter", "count") => {
                let V::O(id) = v else { return self.refuse(span, "this counter is not known") };
                let ObjectKind::Counter(counter) = self.objects[id].kind else {
                    return self.refuse(span, "this counter is not known");
                };
                let (e, w) = self.arg_scalar(c, 0, span)?;
                self.op(Op::Count { counter, index: cast(e, w, 32, false) });
                Ok(V::Void)
            }
            ("direct_counter", "count") => Ok(V::Void),
            ("meter", "execute_meter") => {
                let V::O(id) = v else { return self.refuse(span, "this meter is not known") };
                let ObjectKind::Meter(first) = self.objects[id].kind else {
                    return self.refuse(span, "this meter is not known");
                };
                let (e, w) = self.arg_scalar(c, 0, span)?;
                let place = self.arg_value(c, 1, span)?;
                let (color, value) = self.temp("color", 8);
                let (level, _) = self.temp("level", 8);
                let meter =
                    binary(BinaryOp::Add, cast(e, w, 32, false), Expr::int(u128::from(first), 32));
                self.op(Op::Meter { meter, color, level });
                self.assign(&place, &value, span)?;
                Ok(V::Void)
            }
            ("direct_meter", "read") => {
                let V::O(id) = v else { return self.refuse(span, "this meter is not known") };
                let place = self.arg_value(c, 0, span)?;
                if !self.in_action {
                    return self.refuse(
                        span,
                        "a direct meter is read in an action of its table, by the entry that matched",
                    );
                }
                if self.v1.asked.is_some_and(|asked| asked != id) {
                    return self.refuse(span, "an action reads one direct meter");
                }
                // The entry's meter is the parameter after all others.
                if self.v1.asked.replace(id).is_none() {
                    self.v1.params.push(32);
                }
                let number = Expr::Param(self.v1.params.len() as u32 - 1);
                let (color, value) = self.temp("color", 8);
                let (level, _) = self.temp("level", 8);
                self.op(Op::Meter { meter: number, color, level });
                self.assign(&place, &value, span)?;
                Ok(V::Void)
            }
            ("register", "read") => {
                let V::O(id) = v else { return self.refuse(span, "this register is not known") };
                let ObjectKind::Register(register) = self.objects[id].kind else {
                    return self.refuse(span, "this register is not known");
                };
                let place = self.arg_value(c, 0, span)?;
                let (e, w) = self.arg_scalar(c, 1, span)?;
                let index = cast(e, w, 32, false);
                match &place {
                    V::F(field, _) => self.op(Op::RegisterRead { field: *field, register, index }),
                    _ => {
                        let width = self.b.program().registers[register.index()].width;
                        let (field, value) = self.temp("cell", width);
                        self.op(Op::RegisterRead { field, register, index });
                        self.unpack(&place, &value, span)?;
                    }
                }
                Ok(V::Void)
            }
            ("register", "write") => {
                let V::O(id) = v else { return self.refuse(span, "this register is not known") };
                let ObjectKind::Register(register) = self.objects[id].kind else {
                    return self.refuse(span, "this register is not known");
                };
                let (e, w) = self.arg_scalar(c, 0, span)?;
                let value = self.arg_value(c, 1, span)?;
                let cell = self.b.program().registers[register.index()].width;
                let mut whole: Option<(Expr, u32)> = None;
                for (x, xw) in self.flatten(&value, span)? {
                    whole = Some(match whole {
                        None => (x, xw),
                        Some((a, aw)) => (binary(BinaryOp::Concat, a, x), aw + xw),
                    });
                }
                let Some((value, vw)) = whole else {
                    return self.refuse(span, "nothing is written");
                };
                let value = cast(value, vw, cell, false);
                self.op(Op::RegisterWrite { register, index: cast(e, w, 32, false), value });
                Ok(V::Void)
            }
            ("Checksum16", "get") => {
                let data = self.arg_value(c, 0, span)?;
                let inputs = self.inputs(&data, span)?;
                Ok(V::E(Expr::Hash { algorithm: HashAlgorithm::Csum16, width: 16, inputs }, 16))
            }
            (a, b) => self.refuse(span, format!("`{a}.{b}` is not supported")),
        }
    }

    /// One bit string to the fields of a place, first one in the high bits.
    fn unpack(&mut self, place: &V, value: &V, span: Span) -> Result<()> {
        let (e, w) = self.read(value, span)?;
        let mut at = w;
        for leaf in super::operand::leaves(place) {
            let (_, lw) = self.read(&leaf, span)?;
            if lw == 0 {
                continue;
            }
            if lw > at {
                return self.refuse(span, "the register's cell is smaller than this");
            }
            self.write(&leaf, super::fold::slice(e.clone(), w, at - 1, at - lw), span)?;
            at -= lw;
        }
        Ok(())
    }

    /// Bits of a type whose every part has a width.
    fn total_bits(&mut self, ty: TyId) -> Option<u32> {
        let ty = self.ty(ty);
        match self.p.ty(ty).clone() {
            Ty::Struct(s, args) => {
                let types = self.p.field_types(s, &args);
                types.into_iter().try_fold(0u32, |sum, t| sum.checked_add(self.total_bits(t)?))
            }
            Ty::Tuple(types) => {
                types.iter().try_fold(0u32, |sum, t| sum.checked_add(self.total_bits(*t)?))
            }
            _ => self.width(ty),
        }
    }

    /// The bits ahead as a value of a type.
    fn ahead(&mut self, ty: TyId, at: &mut u32) -> Result<V> {
        let ty = self.ty(ty);
        let parts = match self.p.ty(ty).clone() {
            Ty::Struct(s, args) => Some(self.p.field_types(s, &args)),
            Ty::Tuple(types) => Some(types.to_vec()),
            _ => None,
        };
        if let Some(parts) = parts {
            let mut items = Vec::new();
            for t in parts {
                items.push(self.ahead(t, at)?);
            }
            return Ok(V::S(items.into(), ty));
        }
        let width = self.width(ty).unwrap_or(0);
        if width == 0 {
            return Ok(V::E(Expr::Const(ir::Bits::zero(0)), 0));
        }
        let skip = *at;
        *at += width;
        // What is ahead changes when the parser moves: the value is kept.
        let e = self.keep(Expr::Lookahead { skip, width }, width);
        Ok(V::E(e, width))
    }

    fn extract(&mut self, c: &Call, span: Span) -> Result<V> {
        let Some(Some(target)) = c.args.first() else {
            // `extract<T>(_)`: read over.
            let Some(ty) = c.type_args.first() else {
                return self.refuse(span, "nothing is extracted");
            };
            let V::H(header, _) = self.alloc(*ty, "tmp.skipped", span)? else {
                return self.refuse(span, "this cannot be extracted");
            };
            self.out.push(Step::Parse(ParserOp::Extract { header, varbit: None }));
            return Ok(V::Void);
        };
        let varbit = match c.args.get(1) {
            Some(Some(e)) => {
                let (e, w) = self.scalar(e)?;
                let bits = cast(e, w, 32, false);
                if let Some(i) = self.p.errors.iter().position(|e| &**e == "ParserInvalidArgument")
                {
                    // Headers are whole bytes (§12.8.2).
                    let whole = binary(
                        BinaryOp::Eq,
                        super::fold::slice(bits.clone(), 32, 2, 0),
                        Expr::int(0, 3),
                    );
                    let code = self.error_code(i as u32);
                    self.out.push(Step::Parse(ParserOp::Verify(whole, code)));
                }
                Some(bits)
            }
            _ => None,
        };
        if let ExprKind::Next(stack) = &target.kind
            && let V::K(items, Some(id), None) = self.expr(stack)?
        {
            let varbit = self.varbit_before(varbit, &items, span)?;
            self.out.push(Step::Parse(ParserOp::ExtractNext { stack: id, varbit }));
            self.v1.filled.insert(Expr::StackSize(id));
            return Ok(V::Void);
        }
        match self.expr(target)? {
            v @ V::H(header, _) => {
                let varbit = self.varbit_before(varbit, std::slice::from_ref(&v), span)?;
                self.out.push(Step::Parse(ParserOp::Extract { header, varbit }));
            }
            V::Dyn(items, index) => {
                let next = self.next_of(target)?;
                // The index is the one before the extraction.
                let (index, iw) = self.keep_index(&index);
                if next.is_none() {
                    let end = Expr::int(items.len() as u128, iw);
                    self.in_bounds(binary(BinaryOp::Lt, index.clone(), end));
                }
                let varbit = self.varbit_before(varbit, &items, span)?;
                let mut headers = Vec::new();
                for item in items.iter() {
                    let V::H(header, _) = item else {
                        return self.refuse(span, "this cannot be extracted");
                    };
                    headers.push(*header);
                }
                self.out.push(Step::ExtractAt { index, headers, varbit });
                if let Some(m) = next {
                    self.set_next(m, binary(BinaryOp::Add, Expr::meta(m), Expr::int(1, 8)));
                    self.v1.filled.insert(Expr::meta(m));
                }
            }
            V::Void => {}
            _ => return self.refuse(span, "this cannot be extracted"),
        }
        Ok(V::Void)
    }

    /// The width of a varbit field, 32 bits, as it is before one of these headers is extracted.
    fn varbit_before(
        &mut self,
        bits: Option<Expr>,
        headers: &[V],
        span: Span,
    ) -> Result<Option<Expr>> {
        let Some(bits) = bits else { return Ok(None) };
        let mut own = Vec::new();
        headers.iter().for_each(|v| v.headers(&mut |h| own.push(h)));
        let ty = own.first().map(|h| self.b.program().type_of(*h));
        if ty.is_some_and(|ty| !ty.fields.iter().any(|f| f.varbit)) {
            // A field of type `varbit<0>`.
            let none = binary(BinaryOp::Eq, bits, Expr::int(0, 32));
            let code = parser_error::HEADER_TOO_SHORT;
            self.out.push(Step::Parse(ParserOp::Verify(none, code)));
            return Ok(None);
        }
        if own.is_empty() {
            return self.refuse(span, "this cannot be extracted");
        }
        let mut changes = false;
        bits.visit(&mut |e| {
            changes |= match e {
                Expr::StackSize(_) | Expr::Field(FieldRef::Last(..)) => true,
                Expr::Valid(h) | Expr::Field(FieldRef::Header(h, _)) => own.contains(h),
                _ => false,
            }
        });
        Ok(Some(if changes { self.keep(bits, 32) } else { bits }))
    }

    /// The next index of the stack that an expression like `stack.next.x` is about.
    fn next_of(&mut self, e: &H) -> Result<Option<ir::MetaId>> {
        match &e.kind {
            ExprKind::Next(stack) => match self.expr(stack)? {
                V::K(_, _, next) => Ok(next),
                _ => Ok(None),
            },
            ExprKind::Field(a, _) => self.next_of(a),
            _ => Ok(None),
        }
    }

    fn emit(&mut self, v: &V, span: Span) -> Result<()> {
        match v {
            V::H(h, _) => self.out.push(Step::Emit(*h)),
            V::S(items, _) | V::K(items, ..) => {
                for i in items.iter() {
                    self.emit(i, span)?;
                }
            }
            V::Dyn(items, index) => {
                let iw = self.index_width(index);
                for (i, item) in items.iter().enumerate() {
                    let then = self.steps(|l| l.emit(item, span))?;
                    let is = binary(BinaryOp::Eq, (**index).clone(), Expr::int(i as u128, iw));
                    self.out.push(Step::If(is, then, Vec::new()));
                }
            }
            V::F(..) | V::E(..) | V::Invalid | V::C(_) | V::Void => {}
            _ => return self.refuse(span, "this cannot be emitted"),
        }
        Ok(())
    }
}

/// The next element of a stack, or a part of it: what is extracted into it counts.
fn through_next(e: &H) -> bool {
    match &e.kind {
        ExprKind::Next(_) => true,
        ExprKind::Field(a, _) => through_next(a),
        _ => false,
    }
}
