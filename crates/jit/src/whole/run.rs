//! The driver of whole programs: passes, blocks, tables, copies; and what it does for code.
//!
//! It follows the interpreter's bounds and order of effects step by step ([`interp::limits`]); what a step comes to
//! is code's. Code gets the packet's words, in which are the addresses of the packet and of the run, for when it
//! calls back.

#![allow(unsafe_code)]

mod groups;
pub(crate) mod helper;
mod served;
mod walk;

use super::bits;
use super::code::{ActionCode, Code, How, KeyCode};
use super::emit::Buffers;
use super::eval::Env;
use super::hash;
use super::layout::{Layout, at};
use super::paths::{Doing, Full, Paths, TOP, World};
use super::site::{Site, What, end};
use super::state::{Copy, Seen, Source, Values};
use crate::memory::Entry;
use interp::limits::{CLONE_DEPTH_MAX, COPIES_MAX, PASSES_MAX, REPARSES_MAX};
use interp::{Args, Caller, Externs, Input, KeyFields, Punt, Sink, Start, View};
use ir::op::{CALL_DEPTH_MAX, CALLS_MAX, Guise, ROUNDS_MAX};
use ir::program::{intrinsic, parser_error};
use ir::{
    Bits, BlockId, DropReason, Expr, FieldRef, GroupId, HashAlgorithm, MeterId, Op, Preface,
    PuntReason, TableId, Terminator, Verdict,
};
use smallvec::SmallVec;

/// Buckets looked at to find out whether one is live, at most.
const LIVENESS_STEPS_MAX: u32 = 4096;

/// Copies to be used again. They move between here and a run for each packet, so what moves is an address.
#[allow(clippy::vec_box)]
type Spare = Vec<Box<Copy>>;

/// What a worker keeps between packets: buffers, nothing of meaning.
#[derive(Debug, Default)]
pub struct Machine {
    main: Option<Box<Copy>>,
    spare: Spare,
    buffers: Buffers,
    /// Beside, since most workers never have any.
    paths: Box<Paths>,
}

impl Machine {
    /// Without buffers yet.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// Runs a packet, as [`interp::Machine::run`] does. None, with nothing done, if the packet begins with an action
    /// that is not code ([`Code::injects`]).
    ///
    /// `view` has no action that [`Code::lacks`].
    pub fn run(
        &mut self,
        code: &Code,
        view: &dyn View,
        input: Input<'_>,
        externs: &mut dyn Externs,
        sink: &mut dyn Sink,
    ) -> Option<Verdict> {
        let begins = match input.start {
            Start::Pipeline => None,
            Start::Action(action, args) => Some((code.injected(action)?, args)),
        };
        let mut main = self.main.take().unwrap_or_default();
        let world = World { view, code };
        let paths = view.version().map(|version| {
            self.paths.begin(world, version);
            &mut *self.paths
        });
        let mut run = Run {
            world,
            view,
            code,
            layout: &code.layout,
            input: input.bytes,
            in_port: input.in_port,
            now_ns: input.now_ns,
            externs,
            sink,
            spare: &mut self.spare,
            buffers: &mut self.buffers,
            paths,
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
        let verdict = run.received(&mut main, begins);
        self.main = Some(main);
        Some(verdict)
    }

    /// What its paths had no room for since the last call. Then tables are looked up that need not be.
    #[inline]
    pub fn take_full(&mut self) -> Full {
        self.paths.take_full()
    }
}

/// Why a pass ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Exit,
    Drop(DropReason),
    /// Another pass with the bytes as they came in.
    Resubmit,
    /// Another pass with the bytes as they are now.
    Recirculate,
}

impl End {
    /// From what code said, if it ended.
    fn of(code: u64) -> Option<End> {
        match code & 0xff {
            end::EXIT => Some(End::Exit),
            end::DROP => {
                let reason = DropReason::ALL.get((code >> 8) as usize).copied();
                Some(End::Drop(reason.unwrap_or(DropReason::NoOutput)))
            }
            end::RESUBMIT => Some(End::Resubmit),
            end::RECIRCULATE => Some(End::Recirculate),
            _ => None,
        }
    }

    fn code(self) -> u64 {
        match self {
            End::Exit => end::EXIT,
            End::Drop(reason) => end::DROP | (reason as u64) << 8,
            End::Resubmit => end::RESUBMIT,
            End::Recirculate => end::RECIRCULATE,
        }
    }
}

/// One received frame, while it runs.
pub(crate) struct Run<'a> {
    world: World<'a>,
    view: &'a dyn View,
    pub(crate) code: &'a Code,
    pub(crate) layout: &'a Layout,
    pub(crate) input: &'a [u8],
    in_port: u32,
    now_ns: u64,
    externs: &'a mut dyn Externs,
    sink: &'a mut dyn Sink,
    spare: &'a mut Spare,
    pub(crate) buffers: &'a mut Buffers,
    /// None if nobody says when tables change; and while an outcome is chosen.
    paths: Option<&'a mut Paths>,
    passes: u32,
    reparses: u32,
    copies: u32,
    rounds: u32,
    calls: u32,
    call_depth: u32,
    /// Who called what is being run.
    callers: SmallVec<[Caller; 4]>,
    output: bool,
    punted: Option<PuntReason>,
    lost: Option<DropReason>,
}

/// A packet's key fields at a table.
struct Keys<'k, 'r> {
    run: &'k mut Run<'r>,
    copy: &'k mut Copy,
    keys: &'k [KeyCode],
    /// Values that some fields have in place of their own.
    columns: &'k [(u32, Bits)],
}

impl Keys<'_, '_> {
    fn instead(&self, at: u16) -> Option<&Bits> {
        self.columns.iter().find(|(column, _)| *column == u32::from(at)).map(|(_, value)| value)
    }
}

impl KeyFields for Keys<'_, '_> {
    fn bytes(&mut self, at: u16, out: &mut [u8]) {
        let key = &self.keys[usize::from(at)];
        // Code writes so many, no more and no less.
        let out = &mut out[..key.bytes];
        if let Some(value) = self.instead(at) {
            return out.copy_from_slice(&value.to_be_bytes());
        }
        match key.how {
            How::Word(word, mask) => {
                let value = (self.copy.words[word] & mask).to_be_bytes();
                out.copy_from_slice(&value[8 - out.len()..]);
            }
            How::Code(ref entry) => {
                let to = out.as_mut_ptr().cast::<u64>().cast_const();
                self.run.enter(self.copy, entry, to);
            }
        }
    }

    #[inline]
    fn word(&mut self, at: u16) -> u64 {
        let key = &self.keys[usize::from(at)];
        match key.how {
            How::Word(word, mask) if self.columns.is_empty() => self.copy.words[word] & mask,
            _ => {
                let mut bytes = [0; 8];
                self.bytes(at, &mut bytes[..key.bytes]);
                u64::from_be_bytes(bytes) >> (64 - 8 * key.bytes)
            }
        }
    }
}

/// The words of arguments.
type Words = SmallVec<[u64; 8]>;

fn words_of(values: &[Bits]) -> Words {
    let mut words = Words::new();
    values.iter().for_each(|value| words.extend_from_slice(value.limbs()));
    words
}

impl<'a> Run<'a> {
    /// Runs code on a packet.
    pub(crate) fn enter(&mut self, copy: &mut Copy, entry: &Entry, args: *const u64) -> u64 {
        type Function = unsafe extern "C" fn(*mut u64, *const u64) -> u64;
        let address = entry.address();
        copy.words[at::RUN] = std::ptr::from_mut(self) as u64;
        copy.words[at::COPY] = std::ptr::from_mut(copy) as u64;
        let words = copy.words.as_mut_ptr();
        // SAFETY: the entry is a function of this signature, made for words of this layout, which `copy` has; `args` are the
        // words that its parameters take. While it runs, nobody but it and what it calls uses `self` and `copy`,
        // whose addresses it was given. The entry keeps its memory alive.
        unsafe {
            let function: Function = std::mem::transmute(address);
            function(words, args)
        }
    }

    /// Runs the packet; one of the control side's begins with an action.
    fn received(&mut self, copy: &mut Copy, begins: Option<(&'a ActionCode, &[Bits])>) -> Verdict {
        let preface = Preface::of(self.layout.program.preface, self.in_port);
        copy.reset(self.layout, self.input.len(), preface);
        self.intrinsics(copy, false, if begins.is_some() { 4 } else { 0 });
        let end = match (self.parse(copy), begins) {
            (false, _) => End::Drop(DropReason::ParserReject),
            (true, None) => {
                copy.at = self.paths.as_ref().map_or(TOP, |paths| paths.start());
                self.blocks(copy, BlockId(0), None)
            }
            (true, Some((action, args))) => {
                match (self.action(copy, action, args), take_goto(copy)) {
                    (Some(end), _) => end,
                    (None, Some(block)) => self.blocks(copy, block, None),
                    (None, None) => End::Exit,
                }
            }
        };
        let dropped = self.follow(copy, end).or(self.lost);
        match (self.output, self.punted, dropped) {
            (true, ..) => Verdict::Forward,
            (false, Some(reason), _) => Verdict::Punt(reason),
            (false, None, Some(reason)) => Verdict::Drop(reason),
            (false, None, None) if copy.words[at::MISSED] != 0 => {
                Verdict::Drop(DropReason::TableMiss)
            }
            (false, None, None) => Verdict::Drop(DropReason::NoOutput),
        }
    }

    /// Goes on after the end of a pass, until there is no further one; why the last one was given up, if it was.
    fn follow(&mut self, copy: &mut Copy, mut end: End) -> Option<DropReason> {
        loop {
            let again = match end {
                End::Exit => return None,
                End::Drop(reason) => return Some(reason),
                End::Resubmit => false,
                End::Recirculate => true,
            };
            if self.passes == PASSES_MAX {
                return Some(DropReason::RecirculationLimit);
            }
            self.passes += 1;
            if again {
                self.emit_to_source(copy);
                copy.origin.clone_from(&copy.source);
                let length = copy.source.bytes(self.input).len();
                copy.length = u32::try_from(length).unwrap_or(u32::MAX);
            } else {
                copy.source.clone_from(&copy.origin);
            }
            copy.begin_pass();
            let keep = std::mem::take(&mut copy.keep);
            copy.keep_meta(self.layout, &keep);
            copy.keep = keep;
            self.intrinsics(copy, true, 1 + u64::from(again));
            end = match self.parse(copy) {
                true => self.blocks(copy, BlockId(0), None),
                false => End::Drop(DropReason::ParserReject),
            };
        }
    }

    /// Fills in intrinsic metadata for a pass that begins, except what was kept.
    fn intrinsics(&mut self, copy: &mut Copy, kept: bool, pass: u64) {
        let layout = self.layout;
        let kept = |copy: &Copy, id| kept && copy.keep.contains(&id);
        if !kept(copy, intrinsic::IN_PORT) {
            copy.set_meta(layout, intrinsic::IN_PORT, u64::from(self.in_port));
        }
        if !kept(copy, intrinsic::NOW) {
            copy.set_meta(layout, intrinsic::NOW, self.now_ns);
        }
        let length = u64::from(copy.length);
        copy.set_meta(layout, intrinsic::PACKET_LENGTH, length);
        copy.set_meta(layout, intrinsic::PASS, pass);
    }

    /// Parses the source. False: rejected, and the program does not go on with rejected packets.
    fn parse(&mut self, copy: &mut Copy) -> bool {
        copy.begin_parsing(self.layout, self.input);
        copy.keep_read(self.layout);
        let code = match &self.code.parser {
            Some(parser) => self.enter(copy, parser, std::ptr::null()),
            None => 0,
        };
        // What the parser assigned to metadata is part of what was parsed.
        copy.words[at::CHANGED] = 0;
        let error = code.checked_sub(1).unwrap_or(u64::from(parser_error::NONE));
        copy.set_meta(self.layout, intrinsic::PARSER_ERROR, error);
        copy.keep_wrote(self.layout);
        code == 0 || self.layout.program.reject_continues
    }

    /// Makes the packet as it is now the source that is parsed next.
    fn emit_to_source(&mut self, copy: &mut Copy) {
        let emitted = self.emit(copy);
        copy.source = match emitted.same {
            true => Source::default(),
            false => Source::new(self.buffers.emitted.clone(), self.input, emitted.payload),
        };
    }

    /// Makes a copy, lets `f` use it up, and remembers why it was given up, if it was. False, with nothing done, if
    /// there were too many.
    fn copy(&mut self, of: &Copy, f: impl FnOnce(&mut Self, &mut Copy) -> End) -> bool {
        if self.copies == COPIES_MAX {
            return false;
        }
        self.copies += 1;
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.copy_from(self.layout, of);
        copy.outside = self.callers.len();
        let end = f(self, &mut copy);
        if let Some(reason) = self.follow(&mut copy, end) {
            self.lost.get_or_insert(reason);
        }
        self.spare.push(copy);
        true
    }

    /// Runs blocks until the pass ends, or control would come to a block.
    fn blocks(&mut self, copy: &mut Copy, start: BlockId, until: Option<BlockId>) -> End {
        let code = self.code;
        let mut at = start;
        while let Some(block) = code.blocks.get(at.index())
            && Some(at) != until
        {
            let said = match &block.entry {
                Some(entry) => {
                    let known = copy.at;
                    let said = self.enter(copy, entry, std::ptr::null());
                    self.ran_block(copy, known, at);
                    said
                }
                None => end::NONE,
            };
            if let Some(end) = End::of(said) {
                return end;
            }
            let next = match (take_goto(copy), &block.end) {
                (Some(block), _) => block,
                (None, Terminator::Jump(next)) => *next,
                (None, Terminator::If { .. }) => BlockId((said >> 8) as u32),
                (None, Terminator::Apply { table, hit, miss, by_action }) => 'next: {
                    match self.walk(copy, (at, *table), until) {
                        Some(Ok(next)) => break 'next next,
                        Some(Err(end)) => return end,
                        None => {}
                    }
                    let applied = match self.apply(copy, *table) {
                        Ok(applied) => applied,
                        Err(end) => return end,
                    };
                    let listed = || by_action.iter().find(|(a, _)| *a == applied.1);
                    let ended = if applied.0 { *hit } else { *miss };
                    let by_table = || listed().map_or(ended, |(_, block)| *block);
                    take_goto(copy).unwrap_or_else(by_table)
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

    /// Looks a table up and runs the action: whether something matched, and the action.
    fn apply(&mut self, copy: &mut Copy, id: TableId) -> Result<(bool, ir::ActionId), End> {
        (copy.at, copy.doing) = (TOP, None);
        let (view, layout, code) = (self.view, self.layout, self.code);
        let table = &layout.program.tables[id.index()];
        let seen = copy.guise.take_if(|seen| seen.tables.contains(&id));
        let real = seen.as_ref().map(|seen| {
            let real = copy.meta_u32(layout, intrinsic::IN_PORT);
            copy.set_meta(layout, intrinsic::IN_PORT, u64::from(seen.in_port));
            real
        });
        let columns = seen.as_ref().map_or(&[][..], |seen| &seen.columns);
        let keys = &code.keys[code.key_of[id.index()]];
        let found = view.find(id, &mut Keys { run: self, copy, keys, columns });
        if let Some(real) = real {
            copy.set_meta(layout, intrinsic::IN_PORT, real.into());
            copy.guise = seen;
        }
        let hit = found.entry.is_some();
        self.externs.count_table(id, hit);
        if let Some(entry) = found.entry
            && table.counters
        {
            self.externs.count_entry(id, entry, copy.length);
        }
        copy.last = Some((id, found.entry));
        copy.bucket = None;
        let action = code.actions.get(found.action);
        let end = action.and_then(|action| match found.args {
            Args::Values(args) => self.action(copy, action, args),
            Args::Words(words) => self.action_of(copy, action, words),
        });
        let idle = action.is_none_or(|action| action.idle);
        copy.words[at::MISSED] = u64::from(!hit && idle);
        match end {
            Some(end) => Err(end),
            None => Ok((hit, found.action)),
        }
    }

    /// Runs an action's code.
    fn action(&mut self, copy: &mut Copy, action: &ActionCode, args: &[Bits]) -> Option<End> {
        let entry = action.entry.as_ref()?;
        let args = words_of(args);
        End::of(self.enter(copy, entry, args.as_ptr()))
    }

    /// The same of arguments in words.
    fn action_of(&mut self, copy: &mut Copy, action: &ActionCode, args: &[u64]) -> Option<End> {
        let entry = action.entry.as_ref()?;
        // Code reads so many.
        assert!(args.len() >= action.words, "an action's record holds its arguments");
        End::of(self.enter(copy, entry, args.as_ptr()))
    }

    /// What expressions may look at.
    pub(crate) fn env<'s>(&'s self, copy: &'s Copy, args: &'s [Bits]) -> Env<'s> {
        let source = copy.source.bytes(self.input);
        Env { layout: self.layout, values: copy.now(), args, source, cursor: copy.cursor() }
    }

    /// Writes a field.
    fn assign(&mut self, copy: &mut Copy, field: FieldRef, value: &Bits) {
        if copy.touch_field(self.layout, field) {
            copy.write(self.layout, field, value);
        }
    }

    // What code asks for.

    /// Does what stands at a site; what it ended with, or what was asked.
    fn site(&mut self, copy: &mut Copy, site: &Site, words: *const u64, args: *const u64) -> u64 {
        match &site.what {
            What::Op(op) => self.told(copy, op, site, words, args).map_or(end::NONE, End::code),
            What::Write(field) => {
                let value = &values(site, words)[0];
                self.assign(copy, *field, value);
                0
            }
            What::Extract(header) => self.extract(copy, *header, site, words),
            What::ValueSet(id) => {
                let value = &values(site, words)[0];
                let mut members = self.view.value_set(*id).iter();
                u64::from(members.any(|member| is_member(member, value)))
            }
            What::Checksum(number) => {
                let checksum = &self.layout.program.checksums[*number];
                self.checksum(copy, *number, checksum);
                0
            }
            What::Eval(_) => 0,
        }
    }

    /// Reads a header, or, where a width is handed over, its varbit field: 0, or one more than the error.
    fn extract(&mut self, copy: &mut Copy, h: ir::HeaderId, site: &Site, words: *const u64) -> u64 {
        let (layout, ty) = (self.layout, self.layout.type_of(h));
        let mut bits = ty.fixed as usize;
        let width = values(site, words).first().map(|width| width.low_u64() as usize);
        let at = copy.cursor();
        if let Some(width) = width {
            let left = (copy.words[at::BITS] as usize).saturating_sub(at + bits);
            let error = if width > ty.varbit as usize {
                Some(parser_error::HEADER_TOO_SHORT)
            } else if width > left {
                Some(parser_error::PACKET_TOO_SHORT)
            } else {
                None
            };
            if let Some(error) = error {
                copy.set_invalid(h);
                copy.words[at::IN_ORDER] = 0;
                return u64::from(error) + 1;
            }
            bits += width;
        }
        let source = copy.source.clone();
        bits::copy(source.bytes(self.input), at, bits, copy.header_mut(layout, h));
        if let Some(width) = width {
            copy.set_varbit(layout, h, width as u32);
            copy.words[at::CURSOR] = (at + bits) as u64;
        }
        0
    }

    /// Does an operation that takes several values.
    fn told(
        &mut self,
        copy: &mut Copy,
        op: &Op,
        site: &Site,
        words: *const u64,
        args: *const u64,
    ) -> Option<End> {
        if let Op::Service { service, results, .. } = op {
            let doing = self.stop(copy, site);
            let args = words_at(site, words);
            let (end, changed) = self.service(copy, *service, args, results);
            copy.doing = if changed { doing.map(Doing::changed) } else { doing };
            return end;
        }
        let told = values(site, words);
        match op {
            Op::PayloadHash { field, hash } => {
                let Expr::Hash { algorithm, width, inputs } = hash else { return None };
                let args = args_of(site, args);
                let mut bytes = Vec::new();
                let bits = self.env(copy, &args).concat(inputs, &mut bytes, true);
                let value = self.payload_hash(copy, *algorithm, bytes, bits);
                self.assign(copy, *field, &value.cast(*width));
            }
            Op::Punt { reason, .. } => {
                let emitted = self.emit(copy);
                let packet = emitted.packet(&self.buffers.emitted, self.input);
                let table = copy.last.map(|(table, _)| table);
                let entry = copy.last.and_then(|(_, entry)| entry);
                let callers = self.callers.get(copy.outside..).unwrap_or_default();
                let (reason, bucket) = (*reason, copy.bucket);
                self.sink.punt(Punt { reason, table, entry, bucket, callers, args: &told, packet });
                self.punted.get_or_insert(reason);
            }
            Op::Digest { digest, .. } => self.sink.digest(*digest, &told),
            Op::Call { block, until, guise, site: number } => {
                let doing = self.stop(copy, site);
                let end = self.call(copy, (*block, *until), guise.as_ref(), *number, &told);
                copy.doing = doing;
                return end;
            }
            Op::RegisterWrite { register, .. } => {
                if let [index, value] = &told[..] {
                    self.externs.register_write(*register, index.low_u32(), value.clone());
                }
            }
            Op::Random { field, .. } => {
                if let [lo, hi] = &told[..] {
                    let value = self.externs.random(lo, hi);
                    self.assign(copy, *field, &value);
                }
            }
            _ => unreachable!("{op:?} takes a number or none"),
        }
        None
    }

    /// Does an operation that takes a number, or none.
    fn op(
        &mut self,
        copy: &mut Copy,
        op: &Op,
        site: &Site,
        number: u32,
        args: *const u64,
    ) -> Option<End> {
        let layout = self.layout;
        match op {
            Op::Output { .. } => {
                let queue = copy.meta_u32(layout, intrinsic::QUEUE);
                let emitted = self.emit_cut(copy);
                let packet = emitted.packet(&self.buffers.emitted, self.input);
                self.sink.output(number, queue, packet);
                self.output = true;
            }
            Op::Group { .. } => {
                let doing = self.stop(copy, site);
                self.group(copy, GroupId(number));
                copy.doing = doing;
            }
            Op::SetValid(h) => copy.set_valid(layout, *h),
            Op::CopyHeader { to, from } => {
                copy.touch(layout);
                copy.copy_header(layout, *to, *from);
            }
            Op::CopyVarbit { to, from } => {
                if copy.touch_field(layout, *to) {
                    copy.copy_varbit(layout, *to, *from);
                }
            }
            Op::PushFront(stack, count) => {
                copy.touch(layout);
                if !copy.push_front(layout, *stack, *count) {
                    return Some(End::Drop(DropReason::HeaderStackOverflow));
                }
            }
            Op::PopFront(stack, count) => {
                copy.touch(layout);
                copy.pop_front(layout, *stack, *count);
            }
            Op::PayloadSum { field } => {
                let sum = Bits::from_u128(self.payload_sum(copy).into(), 16);
                self.assign(copy, *field, &sum);
            }
            Op::Reparse => {
                if self.reparses == REPARSES_MAX {
                    return Some(End::Drop(DropReason::RecirculationLimit));
                }
                self.reparses += 1;
                self.emit_to_source(copy);
                if !self.parse(copy) {
                    return Some(End::Drop(DropReason::ParserReject));
                }
            }
            Op::Clone { block, copy: of } => {
                let doing = self.stop(copy, site);
                self.clone_to(copy, *block, *of);
                copy.doing = doing;
            }
            Op::OnCopy { .. } => {
                let doing = self.stop(copy, site);
                self.on_copy(copy, site, doing, args);
                copy.doing = doing;
            }
            Op::PortIs { field, what, .. } => {
                let holds = self.externs.port_is(*what, number);
                self.assign(copy, *field, &Bits::from_bool(holds));
            }
            Op::Resubmit { keep } => {
                copy.keep = SmallVec::from_slice(keep);
                return Some(End::Resubmit);
            }
            Op::Recirculate { keep } => {
                copy.keep = SmallVec::from_slice(keep);
                return Some(End::Recirculate);
            }
            Op::Meter { color, level, .. } => {
                let answer = self.externs.meter(MeterId(number), copy.length);
                self.assign(copy, *color, &Bits::from_u128(answer.color.into(), 8));
                self.assign(copy, *level, &Bits::from_u128(answer.level.into(), 8));
            }
            Op::Count { counter, .. } => {
                self.externs.count_indirect(*counter, number, copy.length);
            }
            Op::RegisterRead { field, register, .. } => {
                let width = layout.program.registers[register.index()].width;
                let value = self.externs.register_read(*register, number);
                let value = value.unwrap_or_else(|| Bits::zero(width));
                self.assign(copy, *field, &value);
            }
            _ => unreachable!("{op:?} is code, or takes several values"),
        }
        None
    }

    fn clone_to(&mut self, copy: &Copy, block: BlockId, of: ir::Copy) {
        let made = copy.clone_depth < CLONE_DEPTH_MAX
            && self.copy(copy, |run, clone| {
                clone.clone_depth += 1;
                clone.words[at::GOTO] = 0;
                clone.touch_field(run.layout, FieldRef::Meta(intrinsic::PASS));
                clone.set_meta(run.layout, intrinsic::PASS, 3);
                if of == ir::Copy::Ingress {
                    clone.source.clone_from(&clone.origin);
                    if !run.parse(clone) {
                        return End::Drop(DropReason::ParserReject);
                    }
                }
                run.blocks(clone, block, None)
            });
        if !made {
            self.lose(DropReason::RecirculationLimit);
        }
    }

    fn on_copy(&mut self, copy: &Copy, site: &Site, doing: Option<Doing>, args: *const u64) {
        let (body, known) = (site.entry.get(), copy.at);
        let made = copy.clone_depth < CLONE_DEPTH_MAX
            && self.copy(copy, |run, copy| {
                copy.clone_depth += 1;
                copy.words[at::GOTO] = 0;
                (copy.at, copy.doing) = (known, doing.map(Doing::inside));
                let said = body.map_or(end::NONE, |body| run.enter(copy, body, args));
                End::of(said).unwrap_or(End::Exit)
            });
        if !made {
            self.lose(DropReason::RecirculationLimit);
        }
    }

    /// Why the pass ends behind a call, if it does.
    fn call(
        &mut self,
        copy: &mut Copy,
        (block, until): (BlockId, BlockId),
        guise: Option<&Guise>,
        site: u16,
        told: &[Bits],
    ) -> Option<End> {
        if self.calls == CALLS_MAX || self.call_depth == CALL_DEPTH_MAX {
            return Some(End::Drop(DropReason::LoopLimit));
        }
        self.calls += 1;
        self.call_depth += 1;
        let seen = guise.zip(told.split_first()).map(|(guise, (in_port, values))| Seen {
            in_port: in_port.low_u32(),
            columns: guise.columns.iter().map(|(at, _)| *at).zip(values.iter().cloned()).collect(),
            tables: SmallVec::from_slice(&guise.tables),
        });
        let before = (copy.last, copy.bucket, copy.words[at::GOTO]);
        copy.words[at::GOTO] = 0;
        let outer = std::mem::replace(&mut copy.guise, seen);
        let table = copy.last.map(|(table, _)| table);
        let entry = copy.last.and_then(|(_, entry)| entry);
        self.callers.push(Caller { table, entry, bucket: copy.bucket, site });
        let end = self.blocks(copy, block, Some(until));
        self.callers.pop();
        (copy.last, copy.bucket, copy.words[at::GOTO]) = before;
        copy.guise = outer;
        // What it missed was looked up by the way.
        copy.words[at::MISSED] = 0;
        self.call_depth -= 1;
        match end {
            End::Exit => None,
            End::Drop(DropReason::LoopLimit) => Some(end),
            End::Drop(reason) => {
                self.lose(reason);
                None
            }
            End::Resubmit | End::Recirculate => Some(end),
        }
    }

    /// A copy was given up before it was made.
    fn lose(&mut self, reason: DropReason) {
        self.lost.get_or_insert(reason);
    }
}

/// Where an action wants control to go, if it does.
fn take_goto(copy: &mut Copy) -> Option<BlockId> {
    let goto = std::mem::take(&mut copy.words[at::GOTO]);
    goto.checked_sub(1).map(|block| BlockId(block as u32))
}

fn is_member(member: &ir::Select, value: &Bits) -> bool {
    match member {
        ir::Select::Any => true,
        ir::Select::Masked(v, mask) => value.and(mask).compare(&v.and(mask)).is_eq(),
        ir::Select::Range(lo, hi) => value.compare(lo).is_ge() && value.compare(hi).is_le(),
        // A value set holds patterns only, no other value sets.
        ir::Select::ValueSet(_) => false,
    }
}

/// Values of these widths, one behind the other.
fn read(widths: &[u32], mut words: *const u64) -> SmallVec<[Bits; 4]> {
    let mut value = |width: &u32| {
        let n = (*width as usize).div_ceil(64);
        if n == 0 {
            return Bits::zero(0);
        }
        // SAFETY: code hands over as many words as these widths take, and they stay while it waits.
        let limbs = unsafe { std::slice::from_raw_parts(words, n) };
        words = words.wrapping_add(n);
        Bits::from_words(limbs, *width)
    };
    widths.iter().map(&mut value).collect()
}

/// The words that code has handed over.
fn words_at<'w>(site: &Site, words: *const u64) -> &'w [u64] {
    let n = site.widths.iter().map(|width| (*width as usize).div_ceil(64)).sum();
    if n == 0 {
        return &[];
    }
    // SAFETY: code hands over as many words as these widths take, and they stay while it waits. Nobody keeps them longer.
    unsafe { std::slice::from_raw_parts(words, n) }
}

/// The values that code has handed over.
fn values(site: &Site, words: *const u64) -> SmallVec<[Bits; 4]> {
    read(&site.widths, words)
}

/// The action's arguments.
fn args_of(site: &Site, args: *const u64) -> SmallVec<[Bits; 4]> {
    read(&site.params, args)
}
