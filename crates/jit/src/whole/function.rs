//! Expressions and fields in code of whole programs: all values are in memory, at places that are constants.

use super::layout::{Layout, VALID, at};
use super::run;
use super::site::{Site, What, end};
use crate::value::{Adjust, Base, Val, load_be, load_words, store_be, store_words};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, Function, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind,
    UserFuncName, Value, types,
};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use ir::{BinaryOp, Expr, FieldId, FieldRef, HashAlgorithm, HeaderId, Op, StackId};
use std::sync::{Arc, OnceLock};

/// Where the control flow of a list has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// What follows is next.
    On,
    /// Nothing follows.
    Ended,
}

/// Bytes that are hashed at once, at most.
const HASHED_BYTES_MAX: u32 = 1024;

pub(crate) fn flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// A list of operations that becomes a function of its own.
pub(crate) struct Body {
    pub(crate) ops: Vec<Op>,
    pub(crate) params: Vec<u32>,
    pub(crate) number: usize,
}

/// A function while it is generated. It gets the packet's words, and the words of the action's arguments.
pub(crate) struct Gen<'g> {
    pub(crate) b: FunctionBuilder<'g>,
    pub(crate) layout: &'g Layout,
    pub(crate) words: Value,
    pub(crate) args: Value,
    call_conv: CallConv,
    params: Vec<u32>,
    pub(crate) parser: bool,
    pub(crate) sites: &'g mut Vec<Arc<Site>>,
    pub(crate) bodies: &'g mut Vec<Body>,
    /// Functions made so far; bodies get the numbers that follow.
    pub(crate) functions: &'g mut usize,
    /// What cannot be code.
    pub(crate) failed: &'g mut Option<String>,
}

/// What functions of a program share while they are generated.
pub(crate) struct Making<'m> {
    pub(crate) layout: &'m Layout,
    pub(crate) isa: &'m dyn TargetIsa,
    pub(crate) frontend: &'m mut FunctionBuilderContext,
    pub(crate) sites: Vec<Arc<Site>>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) made: Vec<Function>,
    pub(crate) functions: usize,
    pub(crate) failed: Option<String>,
}

impl<'m> Making<'m> {
    /// Generates a function: its number.
    pub(crate) fn function(&mut self, params: &[u32], f: impl FnOnce(&mut Gen<'_>)) -> usize {
        let number = self.functions;
        self.functions += 1;
        self.generate(number, params, f);
        // Lists within it, and lists within these.
        while let Some(body) = self.bodies.pop() {
            let Body { ops, params, number } = body;
            self.generate(number, &params, |g| {
                g.clear_missed(&ops);
                if g.ops(&ops) == Flow::On {
                    g.ret(end::NONE);
                }
            });
        }
        number
    }

    fn generate(&mut self, number: usize, params: &[u32], f: impl FnOnce(&mut Gen<'_>)) {
        let call_conv = self.isa.default_call_conv();
        let mut signature = Signature::new(call_conv);
        signature.params.extend([AbiParam::new(types::I64); 2]);
        signature.returns.push(AbiParam::new(types::I64));
        let name = UserFuncName::user(1, number as u32);
        let mut function = Function::with_name_signature(name, signature);
        let mut b = FunctionBuilder::new(&mut function, self.frontend);
        let start = b.create_block();
        b.append_block_params_for_function_params(start);
        b.switch_to_block(start);
        let (words, args) = (b.block_params(start)[0], b.block_params(start)[1]);
        let mut g = Gen {
            b,
            layout: self.layout,
            words,
            args,
            call_conv,
            params: params.to_vec(),
            parser: false,
            sites: &mut self.sites,
            bodies: &mut self.bodies,
            functions: &mut self.functions,
            failed: &mut self.failed,
        };
        f(&mut g);
        let mut b = g.b;
        b.seal_all_blocks();
        b.finalize(self.isa.frontend_config());
        if self.made.len() <= number {
            self.made.resize_with(number + 1, Function::new);
        }
        self.made[number] = function;
    }
}

impl Gen<'_> {
    // Control.

    /// Widths of the action's parameters.
    pub(crate) fn params(&self) -> &[u32] {
        &self.params
    }

    pub(crate) fn constant(&mut self, value: u64) -> Value {
        self.b.ins().iconst(types::I64, value as i64)
    }

    /// Returns this.
    pub(crate) fn ret(&mut self, value: u64) {
        let value = self.constant(value);
        self.b.ins().return_(&[value]);
    }

    pub(crate) fn block(&mut self) -> Block {
        self.b.create_block()
    }

    pub(crate) fn enter(&mut self, block: Block) {
        self.b.switch_to_block(block);
    }

    pub(crate) fn jump(&mut self, block: Block) {
        self.b.ins().jump(block, &[]);
    }

    pub(crate) fn branch(&mut self, condition: &Val, yes: Block, no: Block) {
        let condition = condition.truth(&mut self.b);
        self.b.ins().brif(condition, yes, &[], no, &[]);
    }

    /// Calls Rust.
    pub(crate) fn call(&mut self, address: usize, args: &[Value]) -> Value {
        let mut signature = Signature::new(self.call_conv);
        signature.params.extend(args.iter().map(|_| AbiParam::new(types::I64)));
        signature.returns.push(AbiParam::new(types::I64));
        let signature = self.b.import_signature(signature);
        let address = self.constant(address as u64);
        let call = self.b.ins().call_indirect(signature, address, args);
        self.b.inst_results(call)[0]
    }

    /// Has Rust do something: the values that it needs are handed over.
    pub(crate) fn site(&mut self, what: What, values: &[Val], body: Option<usize>) -> Value {
        let words: usize = values.iter().map(|v| (v.width as usize).div_ceil(64)).sum();
        let handed = match words {
            0 => self.constant(0),
            words => {
                let room = self.room(words);
                let mut at = 0;
                for value in values {
                    store_words(&mut self.b, Base::new(room, flags()), at, value);
                    at += 8 * (value.width as usize).div_ceil(64) as i32;
                }
                room
            }
        };
        let widths = values.iter().map(|v| v.width).collect();
        let site = self.new_site(what, widths, body);
        self.call(run::helper::SITE(), &[self.words, site, handed, self.args])
    }

    /// Has Rust do an operation that takes one number, or none.
    pub(crate) fn site_of(&mut self, op: &Op, number: Option<&Val>, body: Option<usize>) -> Value {
        let number = match number {
            Some(value) => value.cast(&mut self.b, 64).to_i64_low(&mut self.b),
            None => self.constant(0),
        };
        let site = self.new_site(What::Op(op.clone()), Vec::new(), body);
        self.call(run::helper::NUMBER(), &[self.words, site, number, self.args])
    }

    fn new_site(&mut self, what: What, widths: Vec<u32>, body: Option<usize>) -> Value {
        let site = Arc::new(Site {
            what,
            widths,
            params: self.params.clone(),
            body,
            entry: OnceLock::new(),
        });
        let address = std::ptr::from_ref::<Site>(&site) as u64;
        self.sites.push(site);
        self.constant(address)
    }

    /// Words on the stack.
    fn room(&mut self, words: usize) -> Value {
        let bytes = 8 * words as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    // Words that are shared.

    pub(crate) fn word(&mut self, at: usize) -> Value {
        self.b.ins().load(types::I64, flags(), self.words, 8 * at as i32)
    }

    pub(crate) fn set_word(&mut self, at: usize, value: Value) {
        self.b.ins().store(flags(), value, self.words, 8 * at as i32);
    }

    pub(crate) fn set_word_to(&mut self, at: usize, value: u64) {
        let value = self.constant(value);
        self.set_word(at, value);
    }

    /// Something that the emitted bytes depend on is about to change.
    pub(crate) fn touch(&mut self) {
        if self.parser {
            return;
        }
        let changed = self.word(at::CHANGED);
        let (first, rest) = (self.block(), self.block());
        self.b.ins().brif(changed, rest, &[], first, &[]);
        self.enter(first);
        if self.layout.program.checksums.is_empty() {
            self.set_word_to(at::CHANGED, 1);
        } else {
            self.call(run::helper::TOUCH(), &[self.words]);
        }
        self.jump(rest);
        self.enter(rest);
    }

    // Fields.

    fn valid_at(&mut self, base: Value, h: HeaderId) -> Val {
        let valid = self.b.ins().uload8(types::I64, flags(), base, (VALID + h.index()) as i32);
        Val::from_i64(&mut self.b, valid, 1)
    }

    pub(crate) fn valid(&mut self, h: HeaderId) -> Val {
        self.valid_at(self.words, h)
    }

    pub(crate) fn set_valid_byte(&mut self, h: HeaderId, valid: bool) {
        let valid = self.b.ins().iconst(types::I8, i64::from(valid));
        self.b.ins().store(flags(), valid, self.words, (VALID + h.index()) as i32);
    }

    /// How many bits a header's varbit field has.
    pub(crate) fn varbit_at(&mut self, base: Value, h: HeaderId) -> Val {
        let at = self.layout.varbit + 4 * h.index();
        let bits = self.b.ins().uload32(flags(), base, at as i32);
        Val::from_i64(&mut self.b, bits, 32)
    }

    pub(crate) fn set_varbit(&mut self, h: HeaderId, bits: u32) {
        let bits = self.b.ins().iconst(types::I32, i64::from(bits));
        let at = self.layout.varbit + 4 * h.index();
        self.b.ins().store(flags(), bits, self.words, at as i32);
    }

    /// The header becomes valid, and the other members of its union invalid.
    pub(crate) fn mark_valid(&mut self, h: HeaderId) {
        let layout = self.layout;
        if let Some(union) = layout.program.headers[h.index()].union {
            for member in &layout.program.unions[union.index()].members {
                self.set_valid_byte(*member, false);
            }
        }
        self.set_valid_byte(h, true);
    }

    fn header_base(&self, base: Value, h: HeaderId) -> Base {
        Base::new(base, flags()).at(self.layout.headers[h.index()].at as i32)
    }

    /// A field of a header that is valid; none if it is a varbit one.
    fn field_at(&mut self, base: Value, h: HeaderId, f: FieldId) -> Option<Val> {
        let place = self.layout.type_of(h).fields[f.index()];
        if place.varbit {
            return None;
        }
        let bytes = self.layout.headers[h.index()].bytes as i32;
        let from = self.header_base(base, h);
        let (byte, bit) = ((place.offset / 8) as i32, place.offset % 8);
        Some(load_be(&mut self.b, from, byte, bit, place.width, 0..bytes))
    }

    fn read(&mut self, field: FieldRef, base: Value) -> Option<Val> {
        match field {
            FieldRef::Meta(id) => {
                let (at, width) = self.layout.meta[id.index()];
                Some(load_words(&mut self.b, Base::new(base, flags()), at as i32, width))
            }
            FieldRef::Header(h, f) => {
                let value = self.field_at(base, h, f)?;
                let valid = self.valid_at(base, h);
                let none = Val::zero(value.width);
                Val::mux(&mut self.b, &valid, &value, &none).ok()
            }
            FieldRef::Last(stack, f) => {
                let mut value = Val::zero(self.layout.width(field));
                for i in self.layout.stack(stack) {
                    let h = HeaderId(i as u32);
                    let here = self.field_at(base, h, f)?;
                    let valid = self.valid_at(base, h);
                    value = Val::mux(&mut self.b, &valid, &here, &value).ok()?;
                }
                Some(value)
            }
        }
    }

    /// Assigns a value, cast to the field's width; nothing, if its header is not valid.
    pub(crate) fn assign(&mut self, field: FieldRef, value: &Val) {
        match field {
            FieldRef::Meta(id) => {
                if self.layout.checksum_meta[id.index()] {
                    self.touch();
                }
                let (at, width) = self.layout.meta[id.index()];
                let value = value.cast(&mut self.b, width);
                store_words(&mut self.b, Base::new(self.words, flags()), at as i32, &value);
            }
            FieldRef::Header(..) if self.layout.is_varbit(field) => {
                self.assign_varbit(field, value)
            }
            FieldRef::Last(..) if self.layout.is_varbit(field) => self.assign_varbit(field, value),
            FieldRef::Header(h, f) => {
                let rest = self.block();
                self.assign_if_valid(h, f, value, rest);
                self.jump(rest);
                self.enter(rest);
            }
            FieldRef::Last(stack, f) => {
                let rest = self.block();
                for i in self.layout.stack(stack).rev() {
                    self.assign_if_valid(HeaderId(i as u32), f, value, rest);
                }
                self.jump(rest);
                self.enter(rest);
            }
        }
    }

    fn assign_varbit(&mut self, field: FieldRef, value: &Val) {
        self.site(What::Write(field), std::slice::from_ref(value), None);
    }

    /// Writes the field and goes to `rest` if its header is valid; else goes on here.
    fn assign_if_valid(&mut self, h: HeaderId, f: FieldId, value: &Val, rest: Block) {
        let valid = self.valid(h);
        let (yes, no) = (self.block(), self.block());
        self.branch(&valid, yes, no);
        self.enter(yes);
        self.touch();
        let place = self.layout.type_of(h).fields[f.index()];
        let bytes = self.layout.headers[h.index()].bytes as i32;
        let to = self.header_base(self.words, h);
        let (byte, bit) = ((place.offset / 8) as i32, place.offset % 8);
        store_be(&mut self.b, to, byte, bit, place.width, 0..bytes, value);
        self.jump(rest);
        self.enter(no);
    }

    // Expressions.

    /// The value of an expression.
    pub(crate) fn value(&mut self, e: &Expr) -> Val {
        self.value_at(e, self.words)
    }

    /// The value of an expression over values at an address.
    pub(crate) fn value_at(&mut self, e: &Expr, base: Value) -> Val {
        match self.eval(e, base) {
            Some(value) => value,
            None => self.by_rust(e, base),
        }
    }

    /// Its value worked out by Rust.
    fn by_rust(&mut self, e: &Expr, base: Value) -> Val {
        let width = e.width(&self.layout.program, &self.params).unwrap_or(0);
        if width > crate::value::WIDTH_MAX {
            self.failed.get_or_insert_with(|| format!("a value of {width} bits"));
            return Val::zero(width.min(64));
        }
        let out = self.room((width as usize).div_ceil(64).max(1));
        let site = self.new_site(What::Eval(e.clone()), Vec::new(), None);
        self.call(run::helper::EVAL(), &[self.words, base, site, self.args, out]);
        load_words(&mut self.b, Base::new(out, flags()), 0, width)
    }

    pub(crate) fn stack_size(&mut self, stack: StackId, base: Value) -> Val {
        let mut size = Val::zero(8);
        for i in self.layout.stack(stack) {
            let valid = self.valid_at(base, HeaderId(i as u32));
            size = size.add(&mut self.b, &valid);
        }
        size
    }

    /// Its value by code, if that can be had.
    fn eval(&mut self, e: &Expr, base: Value) -> Option<Val> {
        Some(match e {
            Expr::Const(bits) => Val::constant(&mut self.b, bits),
            Expr::Param(i) => {
                let i = *i as usize;
                let width = self.params.get(i).copied().unwrap_or(0);
                let words: usize =
                    self.params.iter().take(i).map(|w| (*w as usize).div_ceil(64)).sum();
                load_words(&mut self.b, Base::new(self.args, flags()), 8 * words as i32, width)
            }
            Expr::Field(field) => self.read(*field, base)?,
            Expr::Valid(h) => self.valid_at(base, *h),
            Expr::StackSize(stack) => self.stack_size(*stack, base),
            Expr::Lookahead { skip, width } if *width <= 64 => {
                let (skip, bits) =
                    (self.constant(u64::from(*skip)), self.constant(u64::from(*width)));
                let value = self.call(run::helper::PEEK(), &[self.words, skip, bits]);
                Val::from_i64(&mut self.b, value, *width)
            }
            Expr::Lookahead { .. } => return None,
            Expr::Remaining => {
                let (bits, cursor) = (self.word(at::BITS), self.word(at::CURSOR));
                let left = self.b.ins().isub(bits, cursor);
                Val::from_i64_masked(&mut self.b, left, 32)
            }
            Expr::Slice(e, hi, lo) => self.eval(e, base)?.slice(&mut self.b, *hi, *lo),
            Expr::Cast(e, width) => {
                let value = self.eval(e, base)?;
                if *width > crate::value::WIDTH_MAX {
                    return None;
                }
                value.cast(&mut self.b, *width)
            }
            Expr::SignCast(e, width) => {
                let value = self.eval(e, base)?;
                if *width > crate::value::WIDTH_MAX {
                    return None;
                }
                value.sign_cast(&mut self.b, *width)
            }
            Expr::Unary(op, e) => {
                let value = self.eval(e, base)?;
                Val::unary(&mut self.b, *op, &value).ok()?
            }
            Expr::Binary(op, x, y) => {
                let x = self.eval(x, base)?;
                match (op, x.known_truth()) {
                    (BinaryOp::LogicalAnd, Some(false)) => return Some(Val::bool(false)),
                    (BinaryOp::LogicalOr, Some(true)) => return Some(Val::bool(true)),
                    _ => {}
                }
                let y = self.eval(y, base)?;
                Val::binary(&mut self.b, *op, &x, &y).ok()?
            }
            Expr::Mux(condition, x, y) => {
                let condition = self.eval(condition, base)?;
                let (x, y) = (self.eval(x, base)?, self.eval(y, base)?);
                Val::mux(&mut self.b, &condition, &x, &y).ok()?
            }
            Expr::Hash { inputs, .. } if inputs.iter().any(|e| self.has_varbit(e)) => return None,
            Expr::Hash { algorithm: HashAlgorithm::Csum16, width, inputs } => {
                let (mut sum, mut position) = (Adjust::new(), 0);
                for e in inputs {
                    let value = self.eval(e, base)?;
                    sum.include(&mut self.b, &value, position % 16);
                    position += value.width;
                }
                sum.anew(&mut self.b).cast(&mut self.b, *width)
            }
            Expr::Hash { algorithm, width, inputs } => {
                let values: Option<Vec<Val>> = inputs.iter().map(|e| self.eval(e, base)).collect();
                self.hash(*algorithm, *width, &values?)?
            }
        })
    }

    /// A hash of values. Of more than a few bytes a CRC is quicker by tables, which Rust has.
    fn hash(&mut self, algorithm: HashAlgorithm, width: u32, values: &[Val]) -> Option<Val> {
        let bits: u32 = values.iter().map(|v| v.width).sum();
        let named = [HashAlgorithm::Crc16, HashAlgorithm::Crc32, HashAlgorithm::Crc32c];
        if bits <= 64 || bits <= crate::value::HASHED_MAX && !named.contains(&algorithm) {
            let hash = crate::value::hash(&mut self.b, algorithm, values).ok()?;
            return Some(hash.cast(&mut self.b, width));
        }
        if !named.contains(&algorithm) || bits > 8 * HASHED_BYTES_MAX {
            return None;
        }
        let room = self.room((bits as usize).div_ceil(64));
        self.string(room, values);
        let number = self.constant(match algorithm {
            HashAlgorithm::Crc16 => 0,
            HashAlgorithm::Crc32 => 1,
            _ => 2,
        });
        let bytes = self.constant(u64::from(bits.div_ceil(8)));
        let hash = self.call(run::helper::CRC(), &[number, room, bytes]);
        Some(Val::from_i64(&mut self.b, hash, 32).cast(&mut self.b, width))
    }

    /// Writes values one after the other, padded with zero bits to whole bytes; how many bits they are.
    pub(crate) fn string(&mut self, to: Value, values: &[Val]) -> u32 {
        let bits: u32 = values.iter().map(|v| v.width).sum();
        let bytes = bits.div_ceil(8) as i32;
        let to = Base::new(to, flags());
        if !bits.is_multiple_of(8) {
            let zero = Val::zero(8);
            store_be(&mut self.b, to, bytes - 1, 0, 8, 0..bytes, &zero);
        }
        let mut at = 0;
        for value in values {
            store_be(&mut self.b, to, (at / 8) as i32, at % 8, value.width, 0..bytes, value);
            at += value.width;
        }
        bits
    }

    /// It is a varbit field, which has as many bits as it has.
    pub(crate) fn has_varbit(&self, e: &Expr) -> bool {
        matches!(e, Expr::Field(field) if self.layout.is_varbit(*field))
    }

    /// A number of bits or a shift: what is above 32 bits counts as all of them.
    pub(crate) fn amount(&mut self, value: &Val) -> Value {
        let low = value.slice(&mut self.b, 31, 0);
        let high = match value.width {
            0..=32 => Val::bool(false),
            width => value.slice(&mut self.b, width - 1, 32).is_nonzero(&mut self.b),
        };
        let low = low.cast(&mut self.b, 64).to_i64_low(&mut self.b);
        let all = self.constant(u64::from(u32::MAX));
        let high = high.truth(&mut self.b);
        self.b.ins().select(high, all, low)
    }

    /// An unsigned comparison of words, as a condition.
    pub(crate) fn compare(&mut self, how: IntCC, x: Value, y: Value) -> Val {
        let flag = self.b.ins().icmp(how, x, y);
        Val::from_flag(&mut self.b, flag)
    }
}
