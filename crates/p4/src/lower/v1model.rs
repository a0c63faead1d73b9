//! The v1model architecture: which part of a program runs when, and what is between them.
//!
//! ```text
//! parser -> verify -> ingress -> I -> egress -> E -> update -> deparser -> out
//! I, in this order: a clone by session; resubmission; copies to a multicast group; drop; one port
//! E, in this order: after the deparser, the port; a clone by session; drop; recirculation
//! ```
//! A mirroring session is an entry of a table whose action clones the packet. A clone of ingress
//! starts from the bytes as they came in, with the metadata of its field list and nothing else; a clone
//! of egress is emitted, parsed again and goes to egress. A multicast group is a group, each of whose
//! buckets sends a copy to egress with port and replica number.

use super::fold::{binary, cast};
use super::names::{EGRESS_REPLICAS_MAX, KeyName};
use super::operand::V;
use super::state::Request;
use super::step::{Label, Step};
use super::tree::Assembler;
use super::{Lower, Object, ObjectKind, Part, Refused, Result};
use crate::hir;
use crate::source::Span;
use crate::types::*;
use ir::program::{Key, MatchKind, Table, Transition, intrinsic};
use ir::{BinaryOp, Bits, BlockId, Copy, DropReason, Expr, FieldRef, MetaId, Op, Param};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Blocks that actions go to, known when all blocks are.
pub(super) const EXIT_INGRESS: BlockId = BlockId(0xffff_fff0);
pub(super) const EXIT_EGRESS: BlockId = BlockId(0xffff_fff1);
const CLONE_PREPARE: BlockId = BlockId(0xffff_fff2);
const MULTICAST: BlockId = BlockId(0xffff_fff3);
const CLONE_EGRESS: BlockId = BlockId(0xffff_fff4);
const CLONE_ENTRY: BlockId = BlockId(0xffff_fff5);

impl Lower<'_> {
    /// The whole program, from its package on.
    pub(super) fn package(&mut self) -> Result<()> {
        let Some(main) = self.p.main else {
            return self.refuse(
                Span::default(),
                "the program has no package `main`; end it with `V1Switch(...) main;`",
            );
        };
        let main = self.p.instances[main.index()].clone();
        let span = main.span;
        let name = match self.p.ty(main.construct.ty) {
            Ty::Package(p, _) => self.p.packages[p.index()].name.to_string(),
            _ => return Err(Refused),
        };
        if name != "V1Switch" {
            let text = format!(
                "the architecture of `{name}` is not supported; `V1Switch` of v1model.p4 is"
            );
            return self.refuse(span, text);
        }
        let mut parts: Vec<Object> = Vec::new();
        let mut ids = Vec::new();
        for a in &main.construct.args {
            let Some(e) = a else { return self.refuse(span, "a part of the package is missing") };
            let V::O(id) = self.static_value(e, "part")? else {
                return self.refuse(e.span, "this is no parser or control");
            };
            ids.push(id);
            parts.push(self.objects[id].clone());
        }
        if parts.len() != 6 {
            return self.refuse(span, "V1Switch has six parts");
        }
        self.pipeline(&ids, span)
    }

    fn part_def(&mut self, id: usize) -> Result<hir::Applicable> {
        match self.objects[id].kind {
            ObjectKind::Inside(a) => Ok(self.p.applicables[a.index()].clone()),
            _ => Err(Refused),
        }
    }

    fn pipeline(&mut self, ids: &[usize], span: Span) -> Result<()> {
        let parser = self.part_def(ids[0])?;
        let targs: Vec<(TypeVarId, TyId)> = self.objects[ids[0]].frame.types.clone();
        let (vars, args): (Vec<TypeVarId>, Vec<TyId>) = targs.into_iter().unzip();
        let types: Vec<TyId> =
            parser.params.iter().map(|p| self.p.types.substitute(p.ty, &vars, &args)).collect();
        let headers = self.alloc(types[1], "", parser.params[1].span)?;
        let meta = self.alloc(types[2], "meta", parser.params[2].span)?;
        let sm = self.alloc(types[3], "standard_metadata", parser.params[3].span)?;
        self.sm = Some(sm.clone());

        // The parser: first of all, what the packet brings with it.
        let first_name = self.unique("arrive");
        let first = self.b.state(&first_name);
        self.part = Part::Parser;
        let pass = |n: u128| binary(BinaryOp::Eq, Expr::meta(intrinsic::PASS), Expr::int(n, 8));
        let kind = super::fold::mux(
            pass(1),
            Expr::int(6, 32),
            super::fold::mux(pass(2), Expr::int(4, 32), Expr::int(0, 32)),
        );
        let arrive = self.steps(|l| {
            l.set_sm("ingress_port", Expr::meta(intrinsic::IN_PORT).cast(9), span)?;
            l.set_sm("packet_length", Expr::meta(intrinsic::PACKET_LENGTH), span)?;
            l.set_sm("instance_type", kind, span)?;
            let now = binary(BinaryOp::Shr, Expr::meta(intrinsic::NOW), Expr::int(10, 8));
            l.set_sm("ingress_global_timestamp", now.cast(48), span)
        })?;
        let entry_name = self.unique("parse");
        let entry = self.b.state(&entry_name);
        self.states(arrive, first, Transition::State(entry), "arrive", span)?;
        let mut frame = self.objects[ids[0]].frame.clone();
        for (p, v) in parser.params.iter().skip(1).zip([&headers, &meta, &sm]) {
            frame.vars.insert(p.var, v.clone());
        }
        frame.vars.insert(parser.params[0].var, V::Void);
        let Some(body) = parser.body.clone() else { return Err(Refused) };
        let path = self.objects[ids[0]].path.clone();
        let outer = std::mem::replace(&mut self.frame, frame);
        let parsed = self.parser_states(&body, entry, Transition::Accept, &path);
        self.frame = outer;
        if parsed.is_ok() {
            self.forget_made();
            self.made_stacks()?;
        }

        // The controls; each is told what is wrong with it.
        let mut asm = Assembler::new();
        let exit_ingress = self.label();
        let exit_egress = self.label();
        let egress_label = self.label();
        let places = [&headers, &meta, &sm];
        let verify = self.control_part(ids[1], Part::Verify, &places, None);
        let ingress = self.control_part(ids[2], Part::Ingress, &places, Some(exit_ingress));
        let egress = self.control_part(ids[3], Part::Egress, &places, Some(exit_egress));
        let update = self.control_part(ids[4], Part::Checksum, &places, None);
        let deparser = self.control_part(ids[5], Part::Deparser, &places, None);
        parsed?;
        let (verify, ingress, egress, update, deparser) =
            (verify?, ingress?, egress?, update?, deparser?);

        // All fields that a pass starts without, for clones.
        let mut metas: Vec<MetaId> = Vec::new();
        meta.metas(&mut |m| metas.push(m));
        sm.metas(&mut |m| metas.push(m));

        let again = self.label();
        let start =
            self.steps(|l| l.set_sm("parser_error", Expr::meta(intrinsic::PARSER_ERROR), span))?;
        asm.steps(start);
        let made = self.made_steps();
        asm.steps(made.clone());
        let is_again = Expr::meta(self.v1.again);
        asm.steps(vec![Step::If(is_again, vec![Step::Break(again)], Vec::new())]);
        asm.steps(verify);
        asm.steps(vec![Step::Scope(exit_ingress, ingress)]);

        // Between ingress and egress.
        let after = self.after_ingress(egress_label, span)?;
        asm.steps(after);
        asm.exit();
        let prepare = self.label();
        asm.begin(prepare);
        let clear = self.field_list_steps(self.v1.clone_ingress.list, &metas);
        asm.steps(clear);
        asm.steps(vec![Step::Op(Op::Clone { block: CLONE_ENTRY, copy: Copy::Ingress })]);
        asm.exit();
        let clone_entry = self.label();
        asm.begin(clone_entry);
        let steps = self.steps(|l| {
            let (port, rid) = (Expr::meta(l.v1.mirror_port), Expr::meta(l.v1.copy_rid));
            l.set_sm("egress_port", port, span)?;
            l.set_sm("egress_rid", rid, span)?;
            l.set_sm("instance_type", Expr::int(1, 32), span)?;
            l.set_sm("parser_error", Expr::meta(intrinsic::PARSER_ERROR), span)
        })?;
        asm.steps(made);
        asm.steps(steps);
        asm.steps(self.session_steps());
        asm.steps(vec![Step::Break(egress_label)]);
        let multicast = self.label();
        asm.begin(multicast);
        let steps = self.steps(|l| {
            let (port, rid) = (Expr::meta(l.v1.copy_port), Expr::meta(l.v1.copy_rid));
            l.set_sm("egress_port", port, span)?;
            l.set_sm("egress_rid", rid, span)?;
            l.set_sm("instance_type", Expr::int(5, 32), span)
        })?;
        asm.steps(steps);
        asm.steps(vec![Step::Break(egress_label)]);
        asm.begin(again);
        let steps = self.steps(|l| {
            l.op(Op::Assign(FieldRef::Meta(l.v1.again), Expr::bool(false)));
            let (port, rid) = (Expr::meta(l.v1.mirror_port), Expr::meta(l.v1.copy_rid));
            l.set_sm("egress_port", port, span)?;
            l.set_sm("egress_rid", rid, span)?;
            l.set_sm("instance_type", Expr::int(2, 32), span)
        })?;
        asm.steps(steps);
        asm.steps(self.session_steps());
        asm.begin(egress_label);
        let steps = self.steps(|l| {
            l.set_sm("egress_spec", Expr::int(0, 9), span)?;
            // As ingress_global_timestamp: packets do not wait between the two.
            let now = binary(BinaryOp::Shr, Expr::meta(intrinsic::NOW), Expr::int(10, 8));
            l.set_sm("egress_global_timestamp", now.clone().cast(48), span)?;
            l.set_sm("enq_timestamp", now.cast(32), span)?;
            for r in [l.v1.clone_ingress.flag, l.v1.clone_egress.flag, l.v1.recirculate.flag] {
                l.op(Op::Assign(r, Expr::bool(false)));
            }
            Ok(())
        })?;
        asm.steps(steps);
        let depths = self.depth_steps(&egress, span)?;
        asm.steps(depths);
        asm.steps(vec![Step::Scope(exit_egress, egress)]);

        // After egress.
        let mirror = self.mirror_steps(true, span)?;
        let dropped = self.drop_step(span)?;
        let emitted = self.deparser_steps(deparser);
        let recirculate = self.again_steps(self.v1.recirculate, true);
        let port = self.sm_field("egress_port", span)?;
        let (port, w) = self.read(&port, span)?;
        let output = Step::Op(Op::Output { port: cast(port, w, 32, false) });
        if mirror.is_empty() {
            asm.steps(vec![dropped]);
            asm.steps(update);
            asm.steps(emitted);
            asm.steps(vec![recirculate, output]);
        } else {
            // A clone leaves after the packet itself, even of one that is dropped.
            let (gone, _) = self.temp("gone", 1);
            asm.steps(vec![Step::Op(Op::Assign(gone, self.dropped(span)?))]);
            let stays = Expr::Field(self.v1.recirculate.flag);
            let mut leave = update;
            leave.extend(emitted);
            leave.push(Step::If(super::fold::not(stays), vec![output], Vec::new()));
            asm.steps(vec![Step::If(super::fold::not(Expr::Field(gone)), leave, Vec::new())]);
            asm.steps(mirror);
            asm.steps(vec![dropped, recirculate]);
        }
        asm.exit();
        let clone_egress = self.label();
        asm.begin(clone_egress);
        let mut out = vec![Step::Op(Op::Assign(FieldRef::Meta(self.v1.again), Expr::bool(true)))];
        // As emitted now; a program that emits nothing loses its headers here.
        let lists = self.lists();
        let (length, queue) = (self.v1.mirror_length, self.v1.mirror_queue);
        let own = [self.v1.again, self.v1.mirror_port, self.v1.copy_rid, length, queue];
        let mut rest = vec![Step::Op(Op::Recirculate { keep: own.to_vec() })];
        for (n, fields) in lists {
            let keep: Vec<MetaId> = own.into_iter().chain(fields).collect();
            let is = binary(
                BinaryOp::Eq,
                Expr::Field(self.v1.clone_egress.list),
                Expr::int(u128::from(n) + 1, 8),
            );
            rest = vec![Step::If(is, vec![Step::Op(Op::Recirculate { keep })], rest)];
        }
        out.extend(rest);
        asm.steps(out);
        asm.exit();

        let (blocks, labels) = asm.finish();
        let at = |l: Label| labels.get(&l).copied().unwrap_or(BlockId(0));
        self.v1.places = HashMap::from([
            (EXIT_INGRESS, at(exit_ingress)),
            (EXIT_EGRESS, at(exit_egress)),
            (CLONE_PREPARE, at(prepare)),
            (CLONE_ENTRY, at(clone_entry)),
            (MULTICAST, at(multicast)),
            (CLONE_EGRESS, at(clone_egress)),
        ]);
        self.v1.blocks = blocks;
        Ok(())
    }

    fn control_part(
        &mut self,
        id: usize,
        part: Part,
        places: &[&V; 3],
        exit: Option<Label>,
    ) -> Result<Vec<Step>> {
        self.part = part;
        let def = self.part_def(id)?;
        let Some(body) = def.body else { return Err(Refused) };
        let mut frame = self.objects[id].frame.clone();
        let values: Vec<V> = match part {
            Part::Deparser => vec![V::Void, places[0].clone()],
            _ => places.iter().map(|v| (*v).clone()).collect(),
        };
        for (p, v) in def.params.iter().zip(values) {
            frame.vars.insert(p.var, v);
        }
        let own = self.label();
        self.on_exit = Some(exit.unwrap_or(own));
        self.on_return = Some((own, None));
        let outer = std::mem::replace(&mut self.frame, frame);
        let steps = self.steps(|l| {
            l.stmts(&body.locals)?;
            l.stmts(&body.apply)
        });
        self.frame = outer;
        self.on_return = None;
        self.on_exit = None;
        Ok(vec![Step::Scope(own, steps?)])
    }

    /// Field lists by number, and the fields in each.
    fn lists(&self) -> Vec<(u8, Vec<MetaId>)> {
        let mut lists: Vec<(u8, Vec<MetaId>)> = Vec::new();
        for (n, m) in &self.field_lists {
            match lists.iter_mut().find(|(k, _)| k == n) {
                Some((_, fields)) => {
                    if !fields.contains(m) {
                        fields.push(*m);
                    }
                }
                None => lists.push((*n, vec![*m])),
            }
        }
        lists
    }

    /// Makes all fields zero but those of the list with this number.
    fn field_list_steps(&mut self, list: FieldRef, metas: &[MetaId]) -> Vec<Step> {
        let clear = |l: &Self, keep: &[MetaId]| -> Vec<Step> {
            metas
                .iter()
                .filter(|m| !keep.contains(m))
                .map(|m| {
                    let w = l.b.program().metadata[m.index()].width;
                    Step::Op(Op::Assign(FieldRef::Meta(*m), Expr::Const(Bits::zero(w))))
                })
                .collect()
        };
        let mut steps = clear(self, &[]);
        for (n, fields) in self.lists() {
            let is = binary(BinaryOp::Eq, Expr::Field(list), Expr::int(u128::from(n) + 1, 8));
            steps = vec![Step::If(is, clear(self, &fields), steps)];
        }
        steps
    }

    /// Resubmission or recirculation, if it was asked for.
    fn again_steps(&mut self, r: Request, recirculate: bool) -> Step {
        let make = |keep: Vec<MetaId>| {
            Step::Op(if recirculate { Op::Recirculate { keep } } else { Op::Resubmit { keep } })
        };
        let mut rest = vec![make(Vec::new())];
        for (n, fields) in self.lists() {
            let is = binary(BinaryOp::Eq, Expr::Field(r.list), Expr::int(u128::from(n) + 1, 8));
            rest = vec![Step::If(is, vec![make(fields)], rest)];
        }
        Step::If(Expr::Field(r.flag), rest, Vec::new())
    }

    /// One bit: the packet is to be dropped.
    fn dropped(&mut self, span: Span) -> Result<Expr> {
        let spec = self.sm_field("egress_spec", span)?;
        let (spec, _) = self.read(&spec, span)?;
        Ok(binary(BinaryOp::Eq, spec, Expr::int(511, 9)))
    }

    fn drop_step(&mut self, span: Span) -> Result<Step> {
        let is = self.dropped(span)?;
        Ok(Step::If(is, vec![Step::Op(Op::Drop(DropReason::Action))], Vec::new()))
    }

    /// What a clone's session asks for besides a port: a length, and a queue.
    fn session_steps(&self) -> Vec<Step> {
        let length = Expr::meta(self.v1.mirror_length);
        let some = binary(BinaryOp::Ne, length.clone(), Expr::int(0, 32));
        let queue = Op::Assign(FieldRef::Meta(intrinsic::QUEUE), Expr::meta(self.v1.mirror_queue));
        let cut = Step::If(some, vec![Step::Op(Op::Truncate { length })], Vec::new());
        vec![Step::Op(queue), cut]
    }

    /// A clone by mirroring session, if it was asked for.
    fn mirror_steps(&mut self, egress: bool, span: Span) -> Result<Vec<Step>> {
        let _ = span;
        if egress && !self.v1.uses_clone_egress {
            return Ok(Vec::new());
        }
        let (word, request, block) = if egress {
            ("mirror_e2e", self.v1.clone_egress, CLONE_EGRESS)
        } else {
            ("mirror_i2e", self.v1.clone_ingress, CLONE_PREPARE)
        };
        let params = [("port", 9), ("rid", 16), ("length", 32), ("queue", 32)];
        let v1 = &self.v1;
        let to = [v1.mirror_port, v1.copy_rid, v1.mirror_length, v1.mirror_queue];
        let mut clone: Vec<Op> =
            (0..).zip(to).map(|(n, to)| Op::Assign(FieldRef::Meta(to), Expr::Param(n))).collect();
        clone.push(Op::Clone { block, copy: Copy::Current });
        let action = self.b.action(&format!("v1.{word}"), &params, clone);
        let nothing = self.no_action();
        let name = |n: &str, id, params: &[(&str, u32)]| super::names::ActionName {
            name: n.into(),
            id,
            source: None,
            params: params.iter().map(|(p, w)| ((*p).to_owned(), *w)).collect(),
            default_only: false,
            group_only: false,
            metered: false,
            asks_own: false,
        };
        let mut actions = vec![name("port", action, &params)];
        if egress {
            // A clone of egress starts over, so a group of such clones would have no end.
            let params = several_params();
            let params: Vec<(&str, u32)> = params.iter().map(|(n, w)| (n.as_str(), *w)).collect();
            let all = (0..EGRESS_REPLICAS_MAX).map(|n| clone_to(n, to, block)).collect();
            let several = self.b.action(&format!("v1.{word}_several"), &params, all);
            actions.push(name("several", several, &params));
        } else {
            let group = Op::Group { group: Expr::Param(0) };
            let to_group =
                self.b.action(&format!("v1.{word}_group"), &[("group", 32)], vec![group]);
            actions.push(name("group", to_group, &[("group", 32)]));
        }
        let allowed = actions.iter().map(|a| a.id).chain([nothing]).collect();
        let table = self.b.table(Table {
            name: format!("v1.{word}_session"),
            key: Arc::from([Key {
                name: "session".into(),
                expr: Expr::Field(request.session),
                kind: MatchKind::Exact,
                width: 32,
            }]),
            actions: Some(allowed),
            default: ir::ActionCall::new(nothing),
            default_const: true,
            capacity: 65_536,
            counters: false,
        });
        self.names.tables.push(super::names::TableName {
            name: format!("v1.{word}_session"),
            id: table,
            source: None,
            size: 65_536,
            keys: vec![KeyName {
                name: "session".into(),
                width: 32,
                kind: MatchKind::Exact,
                source: 0,
            }],
            actions,
            counter: None,
            default_counter: None,
            meter: None,
            profile: None,
            selector: None,
            keyless: false,
            entries_const: false,
            timeouts: false,
        });
        if egress {
            self.names.mirror_egress = Some(action);
        } else {
            self.names.mirror_ingress = Some(action);
        }
        let apply = Step::Apply { table, hit: Vec::new(), miss: Vec::new(), by_action: Vec::new() };
        Ok(vec![Step::If(Expr::Field(request.flag), vec![apply], Vec::new())])
    }

    fn after_ingress(&mut self, egress: Label, span: Span) -> Result<Vec<Step>> {
        let mut out = self.mirror_steps(false, span)?;
        out.push(self.again_steps(self.v1.resubmit, false));
        let port = FieldRef::Meta(self.v1.copy_port);
        let rid = FieldRef::Meta(self.v1.copy_rid);
        let copy = vec![
            Op::Assign(port, Expr::Param(0)),
            Op::Assign(rid, Expr::Param(1)),
            Op::Clone { block: MULTICAST, copy: Copy::Current },
        ];
        self.names.multicast =
            Some(self.b.action("v1.multicast", &[("port", 9), ("rid", 16)], copy));
        let group = self.sm_field("mcast_grp", span)?;
        let (group, w) = self.read(&group, span)?;
        let some = binary(BinaryOp::Ne, group.clone(), Expr::int(0, w));
        out.push(Step::If(
            some,
            vec![Step::Op(Op::Group { group: cast(group, w, 32, false) }), Step::Op(Op::Exit)],
            Vec::new(),
        ));
        out.push(self.drop_step(span)?);
        let spec = self.sm_field("egress_spec", span)?;
        let (spec, _) = self.read(&spec, span)?;
        let more = self.steps(|l| {
            l.set_sm("egress_port", spec, span)?;
            l.set_sm("egress_rid", Expr::int(0, 16), span)
        })?;
        out.extend(more);
        out.push(Step::Break(egress));
        Ok(out)
    }

    /// The deparser: if it does nothing but emit each header at most once, the pipeline's list of
    /// headers; else each `emit` copies to a header of its own, and those are the list.
    fn deparser_steps(&mut self, steps: Vec<Step>) -> Vec<Step> {
        let mut order = Vec::new();
        if emits_only(&steps, &mut order) {
            let distinct: HashSet<ir::HeaderId> = order.iter().copied().collect();
            if distinct.len() == order.len() {
                self.v1.deparser = order;
                return Vec::new();
            }
        }
        self.emit_slots(steps)
    }

    fn emit_slots(&mut self, steps: Vec<Step>) -> Vec<Step> {
        let mut out = Vec::new();
        for s in steps {
            out.push(match s {
                Step::Emit(h) => {
                    let t = self.b.program().headers[h.index()].header_type;
                    let name =
                        self.b.program().headers[h.index()].name.replace(['[', ']', '.'], "_");
                    let name = self.unique(&format!("emit_{name}"));
                    let slot = self.b.header(&name, t);
                    self.v1.deparser.push(slot);
                    Step::Op(Op::CopyHeader { to: slot, from: h })
                }
                Step::If(c, a, b) => {
                    let (a, b) = (self.emit_slots(a), self.emit_slots(b));
                    Step::If(c, a, b)
                }
                Step::Scope(l, a) => Step::Scope(l, self.emit_slots(a)),
                Step::Apply { table, hit, miss, by_action } => Step::Apply {
                    table,
                    hit: self.emit_slots(hit),
                    miss: self.emit_slots(miss),
                    by_action: by_action
                        .into_iter()
                        .map(|(a, s)| (a, self.emit_slots(s)))
                        .collect(),
                },
                other => other,
            });
        }
        out
    }

    /// The program and its names, with every block where it is.
    pub(super) fn finish(self) -> (ir::Program, super::Names, Vec<(ir::TableId, ir::Entry)>) {
        let mut program = self.b.finish();
        super::made::apply(&mut program, &self.v1.made, &self.v1.nexts);
        let places = &self.v1.places;
        for (i, (mut ops, end)) in self.v1.blocks.into_iter().enumerate() {
            patch(&mut ops, places);
            program.blocks.push(ir::Block { name: format!("b{i}"), ops, end });
        }
        for action in &mut program.actions {
            let mut body = action.body.clone();
            patch(&mut body, places);
            super::late::invalid_late(&mut body);
            let params: Vec<Param> = action.params.clone();
            *action = Arc::new(ir::Action { name: action.name.clone(), params, body });
        }
        program.deparser = self.v1.deparser;
        program.reject_continues = true;
        (program, self.names, self.entries)
    }
}

/// What the action of an egress session of several replicas takes: how many there are, what clones are like, and a port and
/// a number for each that there may be.
fn several_params() -> Vec<(String, u32)> {
    let each = 0..EGRESS_REPLICAS_MAX;
    let each = each.flat_map(|n| [(format!("port{n}"), 9), (format!("rid{n}"), 16)]);
    let all = [("count", 8), ("length", 32), ("queue", 32)].map(|(n, w)| (n.to_owned(), w));
    all.into_iter().chain(each).collect()
}

/// A clone to the replica in this place, if there is one.
fn clone_to(place: u32, [port, rid, length, queue]: [MetaId; 4], block: BlockId) -> Op {
    let at = 3 + 2 * place;
    let of = [(port, at), (rid, at + 1), (length, 1), (queue, 2)];
    let set = of.map(|(to, param)| Op::Assign(FieldRef::Meta(to), Expr::Param(param)));
    let clone = Op::Clone { block, copy: Copy::Current };
    Op::If {
        condition: binary(BinaryOp::Gt, Expr::Param(0), Expr::int(place.into(), 8)),
        then: set.into_iter().chain([clone]).collect(),
        or_else: Vec::new(),
    }
}

fn emits_only(steps: &[Step], out: &mut Vec<ir::HeaderId>) -> bool {
    steps.iter().all(|s| match s {
        Step::Emit(h) => {
            out.push(*h);
            true
        }
        Step::Scope(_, inner) => emits_only(inner, out),
        _ => false,
    })
}

fn patch(ops: &mut [Op], places: &HashMap<BlockId, BlockId>) {
    for op in ops {
        match op {
            Op::Goto(b) | Op::Clone { block: b, .. } => {
                if let Some(to) = places.get(b) {
                    *b = *to;
                }
            }
            Op::If { then, or_else, .. } => {
                patch(then, places);
                patch(or_else, places);
            }
            _ => {}
        }
    }
}
