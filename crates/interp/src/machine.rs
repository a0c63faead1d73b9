//! The interpreter: passes, blocks and tables.
//!
//! A packet's *pass* goes from the parser through blocks to an end; resubmission and recirculation
//! start another pass, clones and buckets are copies with passes of their own. All of it is one
//! [`Run`], which borrows the [`Machine`]'s buffers.
//!
//! Bounds, so that every run ends: [`PASSES_MAX`], [`REPARSES_MAX`], [`COPIES_MAX`],
//! [`GROUP_DEPTH_MAX`], [`CLONE_DEPTH_MAX`], [`ROUNDS_MAX`](ir::op::ROUNDS_MAX),
//! [`CALLS_MAX`](ir::op::CALLS_MAX), [`CALL_DEPTH_MAX`](ir::op::CALL_DEPTH_MAX); but for calls, control
//! only moves to later blocks.
//!
//! Cost: proportional to the steps done. Once the buffers have grown nothing is allocated per packet,
//! except for values wider than 128 bits, hash expressions, and lookahead into re-emitted headers.
//! The payload is read only by checksums that cover it.

use crate::checksum::Scratch;
use crate::context::Context;
use crate::eval::Env;
use crate::externs::{Externs, NullExterns};
use crate::layout::Layout;
use crate::show;
use crate::sink::{Caller, Collect, Sink};
use crate::trace::{Kind, Trace};
use crate::view::View;
use ir::program::intrinsic;
use ir::{
    Action, Bits, BlockId, DropReason, Entry, FieldId, FieldRef, HeaderId, MetaId, Op, Preface,
    PuntReason, TableId, Terminator, Verdict,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// Resubmissions and recirculations of one received frame and all its copies.
pub const PASSES_MAX: u32 = 16;
/// Times that one received frame and its copies are parsed again in place.
pub const REPARSES_MAX: u32 = 256;
/// Copies (buckets and clones) made of one received frame.
pub const COPIES_MAX: u32 = 4096;
/// Groups that a bucket's copy may be inside of.
pub const GROUP_DEPTH_MAX: u32 = 16;
/// Clones that a clone may be inside of.
pub const CLONE_DEPTH_MAX: u32 = 16;

/// Where a packet starts.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Parser, then the first block: a received frame.
    Pipeline,
    /// Parser, then this action with these arguments, then the end: a packet that the control plane
    /// injects. If the action says `goto`, control goes on there.
    Action(&'a Action, &'a [Bits]),
}

/// A packet to run.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The port it came in by.
    pub in_port: u32,
    /// When it came in, in nanoseconds of the switch's clock.
    pub now_ns: u64,
    /// Where it starts.
    pub start: Start<'a>,
}

/// An interpreter: buffers that are used again from packet to packet, nothing of meaning.
#[derive(Debug, Default)]
pub struct Machine {
    layout: Option<Layout>,
    main: Context,
    /// Contexts of copies that have ended.
    spare: Vec<Context>,
    emitted: Vec<u8>,
    scratch: Scratch,
}

impl Machine {
    /// Without buffers yet.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// Runs one packet. Copies go to `sink` while it runs; the verdict sums them up: forward if
    /// anything was output, else punt for the first punt's reason, else drop for the reason that
    /// ended the packet itself.
    pub fn run(
        &mut self,
        view: &dyn View,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
        trace: Option<&mut Trace>,
    ) -> Verdict {
        let (mut run, context) = self.begin(view, input, externs, sink, trace);
        run.received(context, input.start)
    }

    /// Runs the parser only: the valid headers with their fields' values, in the order in which they
    /// lie in the packet, and the payload. `None` if the headers do not lie in the deparser's order,
    /// one right after the other, or the payload does not start at a byte.
    pub fn parse(&mut self, view: &dyn View, bytes: &[u8]) -> Option<Parsed> {
        let input = Input { bytes, in_port: 0, now_ns: 0, start: Start::Pipeline };
        let (externs, sink) = (&mut NullExterns, &mut Collect::default());
        let (mut run, context) = self.begin(view, input, externs, sink, None);
        let layout = run.layout;
        context.reset(layout, bytes.len(), 0);
        run.parse(context);
        if !context.in_order || !context.cursor.is_multiple_of(8) {
            return None;
        }
        let valid = layout.program.deparser.iter().filter(|h| context.store.valid(**h));
        let fields = |header: HeaderId| {
            let ids = (0..layout.type_of(header).fields.len() as u32).map(FieldId);
            ids.map(|id| context.store.read(layout, FieldRef::Header(header, id))).collect()
        };
        let headers = valid.map(|h| (*h, fields(*h))).collect();
        Some(Parsed { headers, payload: bytes.get(context.cursor / 8..)?.to_vec() })
    }

    fn begin<'a>(
        &'a mut self,
        view: &'a dyn View,
        input: Input<'a>,
        externs: &'a mut dyn Externs,
        sink: &'a mut dyn Sink,
        trace: Option<&'a mut Trace>,
    ) -> (Run<'a>, &'a mut Context) {
        let program = view.program();
        let layout = match self.layout.take() {
            Some(layout) if Arc::ptr_eq(&layout.program, program) => layout,
            _ => Layout::new(program),
        };
        let run = Run {
            view,
            layout: self.layout.insert(layout),
            input: input.bytes,
            in_port: input.in_port,
            now_ns: input.now_ns,
            externs,
            sink,
            trace,
            spare: &mut self.spare,
            emitted: &mut self.emitted,
            scratch: &mut self.scratch,
            passes: 0,
            reparses: 0,
            copies: 0,
            rounds: 0,
            calls: 0,
            call_depth: 0,
            callers: SmallVec::new(),
            output: false,
            punted: None,
            lost: None,
        };
        (run, &mut self.main)
    }
}

/// What the parser made of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Valid headers and their fields' values.
    pub headers: Vec<(HeaderId, Vec<Bits>)>,
    /// The rest.
    pub payload: Vec<u8>,
}

/// Why a pass ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'a> {
    /// Nothing more to do.
    Exit,
    /// Given up.
    Drop(DropReason),
    /// Another pass with the bytes as they came in; this metadata is kept.
    Resubmit(&'a [MetaId]),
    /// Another pass with the bytes as they are now; this metadata is kept.
    Recirculate(&'a [MetaId]),
}

/// One received frame, while it runs.
pub(crate) struct Run<'a> {
    pub(crate) view: &'a dyn View,
    pub(crate) layout: &'a Layout,
    pub(crate) input: &'a [u8],
    in_port: u32,
    now_ns: u64,
    pub(crate) externs: &'a mut dyn Externs,
    pub(crate) sink: &'a mut dyn Sink,
    pub(crate) trace: Option<&'a mut Trace>,
    spare: &'a mut Vec<Context>,
    /// What was emitted last.
    pub(crate) emitted: &'a mut Vec<u8>,
    pub(crate) scratch: &'a mut Scratch,
    /// Counted against the bounds.
    passes: u32,
    pub(crate) reparses: u32,
    copies: u32,
    pub(crate) rounds: u32,
    pub(crate) calls: u32,
    pub(crate) call_depth: u32,
    /// Who called what is being run.
    pub(crate) callers: SmallVec<[Caller; 4]>,
    /// Something went to a port.
    pub(crate) output: bool,
    /// Why something went to the control plane, the first time.
    pub(crate) punted: Option<PuntReason>,
    /// Why a copy was given up, the first time.
    pub(crate) lost: Option<DropReason>,
}

impl<'a> Run<'a> {
    fn received(&mut self, context: &mut Context, start: Start<'a>) -> Verdict {
        let preface = Preface::of(self.layout.program.preface, self.in_port);
        context.reset(self.layout, self.input.len(), preface);
        let pass = match start {
            Start::Pipeline => 0,
            Start::Action(..) => 4,
        };
        self.intrinsics(context, &[], pass);
        let end = match start {
            _ if !self.parse(context) => End::Drop(DropReason::ParserReject),
            Start::Pipeline => self.blocks(context, BlockId(0)),
            Start::Action(action, args) => {
                self.open(Kind::Table, || format!("inject: {}", show::call(action, args)));
                let end = self.ops(context, &action.body, args);
                self.close();
                match (end, context.goto.take()) {
                    (Some(end), _) => end,
                    (None, Some(block)) => self.blocks(context, block),
                    (None, None) => End::Exit,
                }
            }
        };
        let dropped = self.follow(context, end).or(self.lost);
        let verdict = match (self.output, self.punted, dropped) {
            (true, ..) => Verdict::Forward,
            (false, Some(reason), _) => Verdict::Punt(reason),
            (false, None, Some(reason)) => Verdict::Drop(reason),
            (false, None, None) if context.missed => Verdict::Drop(DropReason::TableMiss),
            (false, None, None) => Verdict::Drop(DropReason::NoOutput),
        };
        self.note(Kind::Verdict, || format!("verdict: {verdict}"));
        verdict
    }

    /// Goes on after the end of a pass, until there is no further one; the reason that the last one
    /// was given up for, if it was.
    fn follow(&mut self, context: &mut Context, mut end: End<'a>) -> Option<DropReason> {
        let mut opened = 0;
        let dropped = loop {
            let (keep, pass) = match end {
                End::Exit => break None,
                End::Drop(reason) => {
                    self.note(Kind::Drop, || format!("drop {reason}"));
                    break Some(reason);
                }
                End::Resubmit(keep) => (keep, 1),
                End::Recirculate(keep) => (keep, 2),
            };
            if self.passes == PASSES_MAX {
                end = End::Drop(DropReason::RecirculationLimit);
                continue;
            }
            self.passes += 1;
            self.open(Kind::Pass, || {
                if pass == 1 { "resubmit" } else { "recirculate" }.to_string()
            });
            opened += 1;
            if pass == 1 {
                context.source.copy_from(&context.origin);
            } else {
                self.emit_to_source(context);
                context.origin.copy_from(&context.source);
                let length = context.parts(self.input).len();
                context.length = u32::try_from(length).unwrap_or(u32::MAX);
            }
            context.begin_pass();
            context.keep_meta(self.layout, keep);
            self.intrinsics(context, keep, pass);
            end = if self.parse(context) {
                self.blocks(context, BlockId(0))
            } else {
                End::Drop(DropReason::ParserReject)
            };
        };
        (0..opened).for_each(|_| self.close());
        dropped
    }

    /// Fills in intrinsic metadata for a pass that begins, except what was kept. What started the
    /// pass and the packet's length are always those of this pass.
    fn intrinsics(&mut self, context: &mut Context, keep: &[MetaId], pass: u64) {
        let length = u64::from(context.length);
        let mut set = |id, value| context.store.set_meta(self.layout, id, value);
        if !keep.contains(&intrinsic::IN_PORT) {
            set(intrinsic::IN_PORT, u64::from(self.in_port));
        }
        if !keep.contains(&intrinsic::NOW) {
            set(intrinsic::NOW, self.now_ns);
        }
        set(intrinsic::PACKET_LENGTH, length);
        set(intrinsic::PASS, pass);
    }

    /// Makes the packet as it is now the source that is parsed next.
    pub(crate) fn emit_to_source(&mut self, context: &mut Context) {
        let emitted = self.emit(context);
        let source = &mut context.source;
        source.front.clear();
        source.tail = 0;
        if !emitted.same {
            source.front.extend_from_slice(self.emitted);
            source.tail = emitted.payload;
        }
    }

    /// Makes a copy, lets `f` use it up, and remembers why it was given up, if it was. False, with
    /// nothing done, if there were too many.
    pub(crate) fn copy(
        &mut self,
        context: &Context,
        f: impl FnOnce(&mut Self, &mut Context) -> End<'a>,
    ) -> bool {
        if self.copies == COPIES_MAX {
            return false;
        }
        self.copies += 1;
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.copy_from(context);
        copy.outside = self.callers.len();
        let end = f(self, &mut copy);
        if let Some(reason) = self.follow(&mut copy, end) {
            self.lost.get_or_insert(reason);
        }
        self.spare.push(copy);
        true
    }

    /// Runs blocks from this one on until the pass ends.
    pub(crate) fn blocks(&mut self, context: &mut Context, start: BlockId) -> End<'a> {
        self.blocks_until(context, start, None)
    }

    /// The same, or until control would come to a block.
    pub(crate) fn blocks_until(
        &mut self,
        context: &mut Context,
        start: BlockId,
        until: Option<BlockId>,
    ) -> End<'a> {
        let program = &self.layout.program;
        let mut at = start;
        while let Some(block) = program.blocks.get(at.index())
            && Some(at) != until
        {
            if let Some(end) = self.ops(context, &block.ops, &[]) {
                return end;
            }
            let next = match (context.goto.take(), &block.end) {
                (Some(block), _) => block,
                (None, Terminator::Jump(next)) => *next,
                (None, Terminator::If { condition, then, or_else }) => {
                    let holds = self.env(context, &[]).holds(condition);
                    if holds { *then } else { *or_else }
                }
                (None, Terminator::Apply { table, hit, miss, by_action }) => {
                    let applied = match self.apply(context, *table) {
                        Ok(applied) => applied,
                        Err(end) => return end,
                    };
                    let listed = || by_action.iter().find(|(a, _)| *a == applied.action);
                    let ended = if applied.hit { *hit } else { *miss };
                    let by_table = || listed().map_or(ended, |(_, block)| *block);
                    context.goto.take().unwrap_or_else(by_table)
                }
                (None, Terminator::Exit) => break,
            };
            // The verifier lets control move to later blocks only.
            if next <= at {
                break;
            }
            at = next;
        }
        End::Exit
    }

    /// Looks a table up and runs the action.
    fn apply(&mut self, context: &mut Context, id: TableId) -> Result<Applied, End<'a>> {
        let view = self.view;
        let table = &self.layout.program.tables[id.index()];
        let seen = context.guise.take_if(|seen| seen.tables.contains(&id));
        let real = seen.as_ref().map(|seen| {
            let real = context.store.meta_u32(self.layout, intrinsic::IN_PORT);
            context.store.set_meta(self.layout, intrinsic::IN_PORT, seen.in_port.into());
            real
        });
        let columns = seen.as_ref().map_or(&[][..], |seen| &seen.columns);
        let env = self.env(context, &[]);
        let mut key = |i: u16| {
            let key = &table.key[i as usize];
            if let Some((_, value)) = columns.iter().find(|(column, _)| *column == u32::from(i)) {
                return value.clone();
            }
            let value = env.eval(&key.expr).into_owned();
            if value.width() == key.width { value } else { value.cast(key.width) }
        };
        let entry: Option<&'a Entry> = view.lookup(id, &mut key);
        let call = entry.map_or_else(|| view.default_action(id), |e| &e.action);
        let action = view.action(call.action);
        if self.trace.is_some() {
            let keys = show::key(table, entry, &mut key);
            let line = show::lookup(table, entry, action, &call.args);
            self.open(Kind::Table, || line);
            if let (Some(trace), Some(entry)) = (&mut self.trace, entry) {
                trace.hit(id, entry.id);
            }
            self.note(Kind::Key, || keys);
        }
        if let Some(real) = real {
            context.store.set_meta(self.layout, intrinsic::IN_PORT, real.into());
            context.guise = seen;
        }
        self.externs.count_table(id, entry.is_some());
        if let Some(entry) = entry
            && table.counters
        {
            self.externs.count_entry(id, entry.id, context.length);
        }
        context.last = Some((id, entry.map(|e| e.id)));
        context.bucket = None;
        let body: &'a [Op] = action.map_or(&[], |a| &a.body);
        let end = self.ops(context, body, &call.args);
        context.missed = entry.is_none() && body.iter().all(|op| matches!(op, Op::Exit));
        self.close();
        match end {
            Some(end) => Err(end),
            None => Ok(Applied { hit: entry.is_some(), action: call.action }),
        }
    }

    /// What expressions may look at.
    pub(crate) fn env<'s>(&self, context: &'s Context, args: &'a [Bits]) -> Env<'a, 's>
    where
        'a: 's,
    {
        Env {
            layout: self.layout,
            store: &context.store,
            args,
            parts: context.parts(self.input),
            cursor: context.cursor,
        }
    }

    /// Adds a line to the trace, if there is one.
    pub(crate) fn note(&mut self, kind: Kind, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.add(kind, text());
        }
    }

    /// Begins a step of the trace, if there is one.
    pub(crate) fn open(&mut self, kind: Kind, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.open(kind, text());
        }
    }

    /// Ends the step begun last.
    pub(crate) fn close(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.close(None);
        }
    }

    /// Ends the step begun last, with another text.
    pub(crate) fn close_as(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.close(Some(text()));
        }
    }
}

/// What a lookup came to.
struct Applied {
    hit: bool,
    action: ir::ActionId,
}
