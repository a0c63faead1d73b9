//! Generated operations and memory accesses against `ir::Bits`, the plainest equivalent.
//!
//! Every case is a generated function with some runs of it: inputs, and what it must leave behind.
//! All are run on the host, unoptimised and optimised in turn, with the bytes that they may touch at the
//! start and at the end of a page between pages that trap; all are compiled, with the verifier, for
//! the other instruction set; and where an emulator for user programs of 64-bit Arm is installed, they
//! are run under it as one static program.

use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, Function, InstBuilder, Signature, UserExternalName,
    UserFuncName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use ir::{BinaryOp, Bits, UnaryOp};
use jit::isa::{self, Machine, OptLevel, Settings};
use jit::memory;
use jit::value::{self, Adjust, MULTIPLIED_MAX, Unsupported, Val};
use std::sync::{PoisonError, RwLock};

/// A sequence of numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }

    /// Mostly narrow; often about a limb's boundary.
    fn width(&mut self) -> u32 {
        match self.below(10) {
            0 => self.pick(&[1, 8, 16, 32, 48, 64, 128]),
            1 => self.pick(&[31, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193]),
            2 => self.below(2048) as u32 + 1,
            3 => self.below(4) as u32,
            4..=6 => self.below(64) as u32 + 1,
            _ => self.below(130) as u32 + 1,
        }
    }

    /// Random, or one of the values at which something wraps.
    fn bits(&mut self, width: u32) -> Bits {
        let one = Bits::from_u128(1, width);
        match self.below(8) {
            0 => Bits::zero(width),
            1 => Bits::ones(width),
            2 => one,
            3 => Bits::prefix_mask(1, width),
            4 => Bits::prefix_mask(1, width).sub(&one),
            5 => Bits::from_u128(u128::from(self.below(150)), width),
            _ => Bits::from_be_bytes(&self.bytes((width as usize).div_ceil(8)), width),
        }
    }
}

/// The limbs, as the generated code loads and stores them.
fn words(bits: &Bits) -> Vec<u8> {
    bits.limbs().iter().flat_map(|limb| limb.to_le_bytes()).collect()
}

/// A generated function of three addresses: input, a buffer to work on, output.
struct Case {
    function: Function,
    runs: Vec<Run>,
    /// What it is, for when it fails.
    what: String,
}

/// A call of it.
struct Run {
    input: Vec<u8>,
    buffer: Vec<u8>,
    /// The byte of the buffer that the address points to.
    base: usize,
    buffer_after: Vec<u8>,
    output: Vec<u8>,
}

/// Builds a function of input, buffer and output.
fn function(build: impl FnOnce(&mut FunctionBuilder<'_>, [Value; 3])) -> Function {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.extend([AbiParam::new(types::I64); 3]);
    let mut function = Function::with_name_signature(UserFuncName::user(0, 0), signature);
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    let params = [0, 1, 2].map(|i| b.block_params(block)[i]);
    build(&mut b, params);
    b.ins().return_(&[]);
    b.seal_all_blocks();
    let isa = isa::x86_64(Settings::default()).unwrap();
    b.finalize(isa.frontend_config());
    function
}

/// Calls of generated code, and memory between pages that trap.
mod machine {
    #![allow(unsafe_code)]

    use jit::memory::Entry;
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    const PAGE: usize = 1 << 16;

    /// Accessible memory with inaccessible memory before and behind it.
    pub(crate) struct Guarded(*mut u8);

    impl Guarded {
        pub(crate) fn new() -> Guarded {
            // SAFETY: a new mapping, of which the middle third becomes accessible.
            unsafe {
                let all = mmap_anonymous(
                    std::ptr::null_mut(),
                    3 * PAGE,
                    ProtFlags::empty(),
                    MapFlags::PRIVATE,
                )
                .unwrap();
                let middle = all.cast::<u8>().add(PAGE);
                mprotect(middle.cast(), PAGE, MprotectFlags::READ | MprotectFlags::WRITE).unwrap();
                Guarded(middle)
            }
        }

        /// Calls the code with a buffer at the start or at the end of the memory; the buffer then,
        /// and the output.
        pub(crate) fn call(
            &self,
            entry: &Entry,
            run: &super::Run,
            at_end: bool,
        ) -> (Vec<u8>, Vec<u8>) {
            let len = run.buffer.len();
            assert!(len <= PAGE);
            let mut output = vec![0xa5; run.output.len() + 16];
            let start = if at_end { PAGE - len } else { 0 };
            let after = {
                // SAFETY: the range lies in the middle third; the code was generated for these three
                // addresses and touches only what the test says, or the process ends.
                unsafe {
                    let buffer = self.0.add(start);
                    buffer.copy_from_nonoverlapping(run.buffer.as_ptr(), len);
                    let code: unsafe extern "C" fn(*const u8, *mut u8, *mut u8) =
                        std::mem::transmute(entry.address());
                    code(run.input.as_ptr(), buffer.add(run.base), output.as_mut_ptr());
                    std::slice::from_raw_parts(buffer, len).to_vec()
                }
            };
            assert!(output.drain(run.output.len()..).all(|byte| byte == 0xa5));
            (after, output)
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            // SAFETY: the whole mapping, no longer used.
            unsafe { munmap(self.0.sub(PAGE).cast(), 3 * PAGE) }.unwrap();
        }
    }
}

fn compile(isa: &dyn cranelift_codegen::isa::TargetIsa, case: &Case) -> Machine {
    match isa::compile_function(isa, case.function.clone(), false) {
        Ok(machine) => machine,
        Err(error) => panic!("{}: {error}\n{}", case.what, case.function),
    }
}

/// Held to read while code is mapped, so that one test can count exactly.
static MAPPED: RwLock<()> = RwLock::new(());

fn check(name: &str, cases: &[Case]) {
    let _mapped = MAPPED.read().unwrap_or_else(PoisonError::into_inner);
    let guarded = machine::Guarded::new();
    for (turn, opt_level) in [OptLevel::None, OptLevel::Speed].into_iter().enumerate() {
        let isa = isa::host(Settings { opt_level, verify: true }).unwrap();
        // Each way compiles every other case; with the same seeds, always the same ones.
        let cases: Vec<&Case> = cases.iter().skip(turn).step_by(2).collect();
        let machines: Vec<Machine> = cases.iter().map(|case| compile(&*isa, case)).collect();
        let entries = memory::publish_many(&machines).unwrap();
        for (case, entry) in cases.iter().zip(&entries) {
            for (i, run) in case.runs.iter().enumerate() {
                for at_end in [false, true] {
                    let got = guarded.call(entry, run, at_end);
                    case.compare(i, &format!("host, {opt_level:?}"), &got.0, &got.1);
                }
            }
        }
    }
    let settings = Settings { opt_level: OptLevel::Speed, verify: true };
    let isa = isa::x86_64(settings).unwrap();
    cases.iter().step_by(8).for_each(|case| drop(compile(&*isa, case)));
    let isa = isa::aarch64(settings).unwrap();
    let machines: Vec<Machine> = cases.iter().map(|case| compile(&*isa, case)).collect();
    arm::run(name, cases, &machines);
}

impl Case {
    fn compare(&self, run: usize, how: &str, buffer: &[u8], output: &[u8]) {
        let Run { buffer_after, output: expected, input, .. } = &self.runs[run];
        assert!(
            buffer == buffer_after && output == expected,
            "{} ({how}), input {input:02x?}:\nbuffer {buffer:02x?}\nnot    {buffer_after:02x?}\n\
             output {output:02x?}\nnot    {expected:02x?}\n{}",
            self.what,
            self.function,
        );
    }
}

/// One static program for 64-bit Arm that makes all calls and writes what they left behind.
mod arm {
    use super::{Case, Machine};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    const ADDRESS: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;

    pub(crate) fn run(name: &str, cases: &[Case], machines: &[Machine]) {
        let emulators = ["qemu-aarch64-static", "qemu-aarch64"];
        let emulator = emulators.into_iter().find(|emulator| {
            Command::new(emulator).arg("--version").output().is_ok_and(|o| o.status.success())
        });
        let Some(emulator) = emulator else {
            eprintln!("no emulator for 64-bit Arm: {name} was only compiled for it");
            return;
        };
        let (image, kept) = program(cases, machines);
        let path = std::env::temp_dir().join(format!("jit-{name}-{}", std::process::id()));
        std::fs::write(&path, image).unwrap();
        // The emulator runs what could be executed.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let output = Command::new(emulator).arg(&path).output().unwrap();
        std::fs::remove_file(&path).unwrap();

        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {:?} {stderr}", output.status);
        assert_eq!(output.stdout.len(), kept, "{name}");
        let mut rest = &output.stdout[..];
        for case in cases {
            for (i, run) in case.runs.iter().enumerate() {
                let (buffer, after) = rest.split_at(run.buffer.len());
                let (output, after) = after.split_at(run.output.len());
                rest = after;
                case.compare(i, "64-bit Arm", buffer, output);
            }
        }
    }

    /// The program as an ELF file, and how much it writes.
    fn program(cases: &[Case], machines: &[Machine]) -> (Vec<u8>, usize) {
        // x19 walks a table of calls: code, input, buffer, output; 0 ends it.
        let start: [u32; 18] = [
            0x5800_0000 | 18 << 5 | 19,      // ldr x19, table
            0xf840_8663,                     // next: ldr x3, [x19], #8
            0xb400_0000 | 6 << 5 | 3,        // cbz x3, done
            0xf840_8660,                     // ldr x0, [x19], #8
            0xf840_8661,                     // ldr x1, [x19], #8
            0xf840_8662,                     // ldr x2, [x19], #8
            0xd63f_0060,                     // blr x3
            0x1400_0000 | (0x0400_0000 - 6), // b next
            0xd280_0000 | 1 << 5,            // done: mov x0, #1
            0x5800_0000 | 11 << 5 | 1,       // ldr x1, kept
            0x5800_0000 | 12 << 5 | 2,       // ldr x2, length
            0xd280_0000 | 64 << 5 | 8,       // mov x8, #64 (write)
            0xd400_0001,                     // svc #0
            0x5800_0000 | 9 << 5 | 2,        // ldr x2, length
            0xcb02_0000,                     // sub x0, x0, x2
            0xd280_0000 | 93 << 5 | 8,       // mov x8, #93 (exit)
            0xd400_0001,                     // svc #0
            0xd503_201f,                     // nop; table, kept and length follow
        ];
        let mut image = vec![0; HEADERS as usize];
        start.iter().for_each(|i| image.extend(i.to_le_bytes()));
        let literals = image.len();
        image.extend([0; 24]);
        let mut table = Vec::new();
        let mut kept = Vec::new();
        let pad = |image: &mut Vec<u8>| {
            image.resize(image.len().next_multiple_of(64), 0);
            ADDRESS + image.len() as u64
        };
        for (case, machine) in cases.iter().zip(machines) {
            let code = pad(&mut image);
            image.extend(&machine.bytes);
            for run in &case.runs {
                let input = pad(&mut image);
                image.extend(&run.input);
                table.push([
                    code,
                    input,
                    kept.len() as u64,
                    run.base as u64,
                    run.buffer.len() as u64,
                ]);
                kept.extend(&run.buffer);
                kept.resize(kept.len() + run.output.len(), 0xa5);
            }
        }
        let kept_at = pad(&mut image);
        image.extend(&kept);
        let table_at = pad(&mut image);
        for [code, input, offset, base, len] in table {
            let buffer = kept_at + offset;
            for word in [code, input, buffer + base, buffer + len] {
                image.extend(word.to_le_bytes());
            }
        }
        image.extend([0; 8]);
        let values = [table_at, kept_at, kept.len() as u64];
        for (i, value) in values.into_iter().enumerate() {
            let at = literals + 8 * i;
            image[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let (size, entry) = (image.len() as u64, ADDRESS + HEADERS);
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(16, 0);
        header.extend([2, 0, 183, 0, 1, 0, 0, 0]);
        [entry, 64, 0].iter().for_each(|word| header.extend(word.to_le_bytes()));
        header.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        header.extend([1, 0, 0, 0, 7, 0, 0, 0]);
        let segment = [0, ADDRESS, ADDRESS, size, size, 1 << 16];
        segment.iter().for_each(|word: &u64| header.extend(word.to_le_bytes()));
        assert_eq!(header.len() as u64, HEADERS);
        image[..header.len()].copy_from_slice(&header);
        (image, kept.len())
    }
}

const BINARY: [BinaryOp; 22] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::AddSat,
    BinaryOp::SubSat,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Sar,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
    BinaryOp::SLt,
    BinaryOp::SLe,
    BinaryOp::LogicalAnd,
    BinaryOp::LogicalOr,
    BinaryOp::Concat,
];

/// What the interpreter's evaluation gives.
fn plain_binary(op: BinaryOp, a: &Bits, b: &Bits) -> Bits {
    let order = a.compare(b);
    match op {
        BinaryOp::Add => a.add(b),
        BinaryOp::Sub => a.sub(b),
        BinaryOp::Mul => a.mul(b),
        BinaryOp::AddSat => a.add_sat(b),
        BinaryOp::SubSat => a.sub_sat(b),
        BinaryOp::And => a.and(b),
        BinaryOp::Or => a.or(b),
        BinaryOp::Xor => a.xor(b),
        BinaryOp::Shl => a.shl(b.shift_amount()),
        BinaryOp::Shr => a.shr(b.shift_amount()),
        BinaryOp::Sar => a.sar(b.shift_amount()),
        BinaryOp::Eq => Bits::from_bool(order.is_eq()),
        BinaryOp::Ne => Bits::from_bool(order.is_ne()),
        BinaryOp::Lt => Bits::from_bool(order.is_lt()),
        BinaryOp::Le => Bits::from_bool(order.is_le()),
        BinaryOp::Gt => Bits::from_bool(order.is_gt()),
        BinaryOp::Ge => Bits::from_bool(order.is_ge()),
        BinaryOp::SLt => Bits::from_bool(a.compare_signed(b).is_lt()),
        BinaryOp::SLe => Bits::from_bool(a.compare_signed(b).is_le()),
        BinaryOp::LogicalAnd => Bits::from_bool(!a.is_zero() && !b.is_zero()),
        BinaryOp::LogicalOr => Bits::from_bool(!a.is_zero() || !b.is_zero()),
        BinaryOp::Concat => a.concat(b),
    }
}

/// One step of a program over the values so far.
#[derive(Clone, Debug)]
enum Step {
    /// The next value of the input.
    Input(u32),
    Constant(Bits),
    Unary(UnaryOp, usize),
    Binary(BinaryOp, usize, usize),
    Slice(usize, u32, u32),
    Cast(usize, u32),
    SignCast(usize, u32),
    Mux(usize, usize, usize),
    IsZero(usize),
    IsNonzero(usize),
    /// Through what other code sees of a value and back.
    Limbs(usize),
    Low(usize, u32),
    Low32(usize),
    Truth(usize),
}

impl Step {
    fn plain(&self, values: &[Bits], inputs: &mut impl Iterator<Item = Bits>) -> Bits {
        let v = |i: usize| &values[i];
        match self {
            Step::Input(_) => inputs.next().unwrap(),
            Step::Constant(bits) => bits.clone(),
            Step::Unary(UnaryOp::Not, a) => v(*a).not(),
            Step::Unary(UnaryOp::Neg, a) => v(*a).neg(),
            Step::Unary(UnaryOp::LogicalNot, a) | Step::IsZero(a) => {
                Bits::from_bool(v(*a).is_zero())
            }
            Step::Binary(op, a, b) => plain_binary(*op, v(*a), v(*b)),
            Step::Slice(a, hi, lo) => v(*a).slice(*hi, *lo),
            Step::Cast(a, width) => v(*a).cast(*width),
            Step::SignCast(a, width) => v(*a).sign_cast(*width),
            Step::Mux(c, a, b) => v(if v(*c).is_zero() { *b } else { *a }).clone(),
            Step::IsNonzero(a) | Step::Truth(a) => Bits::from_bool(!v(*a).is_zero()),
            Step::Limbs(a) => v(*a).clone(),
            Step::Low(a, width) => v(*a).cast(64).cast(*width),
            Step::Low32(a) => v(*a).cast(32),
        }
    }

    /// The value in generated code; `None` for an input.
    fn emit(&self, b: &mut FunctionBuilder<'_>, values: &[Val]) -> Result<Val, Unsupported> {
        let v = |i: &usize| &values[*i];
        Ok(match self {
            Step::Input(_) => unreachable!("inputs are loaded"),
            Step::Constant(bits) => Val::constant(b, bits),
            Step::Unary(op, a) => Val::unary(b, *op, v(a))?,
            Step::Binary(op, x, y) => Val::binary(b, *op, v(x), v(y))?,
            Step::Slice(a, hi, lo) => v(a).slice(b, *hi, *lo),
            Step::Cast(a, width) => v(a).cast(b, *width),
            Step::SignCast(a, width) => v(a).sign_cast(b, *width),
            Step::Mux(c, x, y) => Val::mux(b, v(c), v(x), v(y))?,
            Step::IsZero(a) => v(a).is_zero(b),
            Step::IsNonzero(a) => v(a).is_nonzero(b),
            Step::Limbs(a) => {
                let limbs = v(a).limbs(b);
                Val::from_limbs(v(a).width, &limbs)
            }
            Step::Low(a, width) => {
                let low = v(a).to_i64_low(b);
                Val::from_i64_masked(b, low, *width)
            }
            Step::Low32(a) => {
                let low = v(a).low_u32(b);
                let low = b.ins().uextend(types::I64, low);
                Val::from_i64(b, low, 32)
            }
            Step::Truth(a) => {
                let truth = v(a).truth(b);
                let zero = b.ins().iconst(types::I64, 0);
                let flag =
                    b.ins().icmp(cranelift_codegen::ir::condcodes::IntCC::NotEqual, truth, zero);
                Val::from_flag(b, flag)
            }
        })
    }
}

/// A case that computes all steps and stores every value. `refused` says which operations may be
/// unsupported; their steps become constants.
fn program(random: &mut Random, mut steps: Vec<Step>, runs: usize) -> (Case, Vec<Unsupported>) {
    let mut refused = Vec::new();
    let mut known = Vec::new();
    let what = format!("{steps:?}");
    let function = function(|b, [input, _, output]| {
        let mut values: Vec<Val> = Vec::new();
        let (mut from, mut to) = (0, 0);
        for step in &mut steps {
            let val = match step {
                Step::Input(width) => {
                    let val = value::load_words(b, input, from, *width);
                    from += 8 * width.div_ceil(64) as i32;
                    val
                }
                _ => match step.emit(b, &values) {
                    Ok(val) => val,
                    Err(reason) => {
                        refused.push(reason);
                        *step = Step::Constant(Bits::from_u128(7, 9));
                        Val::constant(b, &Bits::from_u128(7, 9))
                    }
                },
            };
            known.push(val.as_const());
            value::store_words(b, output, to, &val);
            to += 8 * val.width.div_ceil(64) as i32;
            values.push(val);
        }
    });
    let runs = (0..runs).map(|_| {
        let inputs: Vec<Bits> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Input(width) => Some(random.bits(*width)),
                _ => None,
            })
            .collect();
        let mut values: Vec<Bits> = Vec::new();
        let mut next = inputs.iter().cloned();
        for (step, known) in steps.iter().zip(&known) {
            values.push(step.plain(&values, &mut next));
            if let Some(known) = known {
                assert_eq!(Some(known), values.last(), "{what}");
            }
        }
        Run {
            input: inputs.iter().flat_map(words).collect(),
            buffer: Vec::new(),
            base: 0,
            buffer_after: Vec::new(),
            output: values.iter().flat_map(words).collect(),
        }
    });
    let runs = runs.collect();
    (Case { function, runs, what }, refused)
}

/// Steps that give an operand: an input, a constant, or an input of which something is known.
fn operand(random: &mut Random, steps: &mut Vec<Step>, width: u32) -> usize {
    match random.below(6) {
        0 => {
            let bits = random.bits(width);
            steps.push(Step::Constant(bits));
        }
        1 => {
            // Upper bits known to be zero, or bits cut off.
            let from = random.width();
            steps.push(Step::Input(from));
            steps.push(Step::Cast(steps.len() - 1, width));
        }
        2 => {
            let mask = random.bits(width);
            steps.push(Step::Input(width));
            steps.push(Step::Constant(mask));
            let op = random.pick(&[BinaryOp::And, BinaryOp::Or]);
            steps.push(Step::Binary(op, steps.len() - 2, steps.len() - 1));
        }
        _ => steps.push(Step::Input(width)),
    }
    steps.len() - 1
}

#[test]
fn every_operator_at_many_widths() {
    let mut random = Random(1);
    let mut cases = Vec::new();
    for op in BINARY {
        for _ in 0..24 {
            let width = random.width();
            let same = random.below(4) != 0;
            let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Sar);
            let mut steps = Vec::new();
            let a = operand(&mut random, &mut steps, width);
            let right = match () {
                () if shift => random.pick(&[3, 6, 7, 8, 16, 32, 64, 65, 128]),
                () if same => width,
                () => random.width(),
            };
            let b = match random.below(12) {
                0 => a,
                _ => operand(&mut random, &mut steps, right),
            };
            steps.push(Step::Binary(op, a, b));
            let (case, refused) = program(&mut random, steps, 8);
            let wide_product = op == BinaryOp::Mul && width > MULTIPLIED_MAX;
            let expected = wide_product.then_some(Unsupported::Multiplication(width));
            assert_eq!(refused, expected.as_slice());
            cases.push(case);
        }
    }
    check("operators", &cases);
}

#[test]
fn all_values_of_narrow_operands() {
    // Widths 0 to 3 wholly, eight pairs a run.
    let mut cases = Vec::new();
    for (v, w) in (0..=3).flat_map(|v| (0..=3).map(move |w| (v, w))) {
        for op in BINARY {
            let steps = vec![Step::Input(v), Step::Input(w), Step::Binary(op, 0, 1)];
            let (mut case, refused) = program(&mut Random(0), steps, 0);
            assert_eq!(refused, []);
            for (x, y) in (0..1u128 << v).flat_map(|x| (0..1u128 << w).map(move |y| (x, y))) {
                let (x, y) = (Bits::from_u128(x, v), Bits::from_u128(y, w));
                let z = plain_binary(op, &x, &y);
                case.runs.push(Run {
                    input: [&x, &y].into_iter().flat_map(words).collect(),
                    buffer: Vec::new(),
                    base: 0,
                    buffer_after: Vec::new(),
                    output: [&x, &y, &z].into_iter().flat_map(words).collect(),
                });
            }
            cases.push(case);
        }
    }
    check("narrow", &cases);
}

#[test]
fn random_programs() {
    let mut random = Random(2);
    let mut cases = Vec::new();
    let mut refusals = 0;
    for _ in 0..250 {
        let mut steps = Vec::new();
        let common = random.width();
        let mut pool: Vec<(usize, u32)> = Vec::new();
        for _ in 0..3 {
            let width = if random.below(2) == 0 { common } else { random.width() };
            pool.push((operand(&mut random, &mut steps, width), width));
        }
        for _ in 0..6 {
            let ((a, v), (b, w)) = (random.pick(&pool), random.pick(&pool));
            let (step, width) = match random.below(14) {
                0 => (Step::Unary(UnaryOp::Not, a), v),
                1 => (Step::Unary(UnaryOp::Neg, a), v),
                2 => (Step::Unary(UnaryOp::LogicalNot, a), 1),
                3 => {
                    let lo = random.below(u64::from(v) + 3) as u32;
                    let hi = lo + random.below(u64::from(v) + 3) as u32;
                    (Step::Slice(a, hi, lo), hi - lo + 1)
                }
                4 => {
                    let width = random.width();
                    (Step::Cast(a, width), width)
                }
                5 => {
                    let width = random.width();
                    (Step::SignCast(a, width), width)
                }
                6 => (Step::Mux(random.pick(&pool).0, a, b), if v == w { v } else { 9 }),
                7 => match random.below(6) {
                    0 => (Step::IsZero(a), 1),
                    1 => (Step::IsNonzero(a), 1),
                    2 => (Step::Limbs(a), v),
                    3 => (Step::Low(a, v.min(17)), v.min(17)),
                    4 => (Step::Low32(a), 32),
                    _ => (Step::Truth(a), 1),
                },
                _ => {
                    let op = random.pick(&BINARY);
                    let width = plain_binary(op, &Bits::zero(v), &Bits::zero(w)).width();
                    (Step::Binary(op, a, b), width)
                }
            };
            steps.push(step);
            pool.push((steps.len() - 1, width));
        }
        // A refused step becomes a value of another width, which every operation must bear.
        let (case, refused) = program(&mut random, steps, 6);
        refusals += refused.len();
        cases.push(case);
    }
    assert!(refusals < 250, "{refusals} operations were refused");
    check("programs", &cases);
}

/// A case of one load or several, with 64 bytes' room for the results' limbs each.
fn loads(random: &mut Random, len: usize, fields: &[(u32, u32)], base: usize) -> Case {
    let readable = -(base as i32)..(len - base) as i32;
    let function = function(|b, [_, buffer, output]| {
        let mut to = 0;
        for (start, width) in fields {
            // The same bit, said in several ways.
            let bytes = (*start / 8).min(start % 3);
            let at = bytes as i32 - base as i32;
            let first = start - 8 * bytes;
            let val = value::load_be(b, buffer, at, first, *width, readable.clone());
            assert_eq!(val.width, *width);
            value::store_words(b, output, to, &val);
            to += 8 * width.div_ceil(64) as i32;
        }
    });
    let runs = (0..3).map(|_| {
        let buffer = random.bytes(len);
        let output = fields.iter().flat_map(|(start, width)| {
            let bits = Bits::extract(&buffer, *start as usize, *width);
            words(&bits)
        });
        let output = output.collect();
        Run { input: Vec::new(), buffer_after: buffer.clone(), buffer, base, output }
    });
    let runs = runs.collect();
    Case { function, runs, what: format!("loads of {fields:?} from {len} bytes at {base}") }
}

#[test]
fn loads_read_what_extract_reads() {
    let mut random = Random(3);
    let mut cases = Vec::new();
    // Every field of short headers.
    for len in 1..=9 {
        for width in 0..=8 * len as u32 {
            let fields: Vec<_> = (0..=8 * len as u32 - width).map(|start| (start, width)).collect();
            let base = random.below(len as u64 + 1) as usize;
            cases.push(loads(&mut random, len, &fields, base));
        }
    }
    // Some fields of longer ones, and some past the end, where zeros are read.
    for _ in 0..150 {
        let len = random.below(300) as usize + 1;
        let base = random.below(len as u64 + 1) as usize;
        let fields: Vec<_> = (0..8)
            .map(|_| {
                let start = random.below(8 * len as u64) as u32;
                let rest = 8 * len as u32 - start;
                match random.below(8) {
                    0 => (start, random.width()),
                    1 => (start, rest),
                    _ => (start & !7, random.width().min(rest)),
                }
            })
            .collect();
        cases.push(loads(&mut random, len, &fields, base));
    }
    check("loads", &cases);
}

#[test]
fn loaded_values_are_compared_and_moved() {
    let mut random = Random(8);
    let mut cases = Vec::new();
    for i in 0..400 {
        let len = random.below(40) + 1;
        let start = random.below(8 * len) as u32 & if i % 4 == 0 { !0 } else { !7 };
        let width = random.below(8 * len - u64::from(start)) as u32 + 1;
        let width = if i % 4 == 0 { width } else { width.next_multiple_of(8) };
        let wanted = random.bits(width);
        // Stored wider, narrower, within bytes.
        let place = (random.below(20) as u32, random.below(2 * u64::from(width) + 1) as u32);
        let place = if i % 3 == 0 { place } else { (place.0 & !7, place.1.next_multiple_of(8)) };
        let size = (place.0 + place.1).div_ceil(8) as i32;
        // Its last bits, equal to all of it if the first ones are zero.
        let low = (width / 2).next_multiple_of(8).min(width);
        let function = function(|b, [input, buffer, output]| {
            let val = value::load_be(b, buffer, 0, start, width, 0..len as i32);
            let same = value::load_be(b, input, 0, start, width, 0..len as i32);
            let wanted = Val::constant(b, &wanted);
            value::store_be(b, output, 0, place.0, place.1, 0..size, &val);
            let end = value::load_be(b, buffer, 0, start + width - low, low, 0..len as i32);
            for (i, other) in [wanted, same, end].iter().enumerate() {
                for (j, op) in [BinaryOp::Eq, BinaryOp::Ne].into_iter().enumerate() {
                    let at = size + (16 * i + 4 * j) as i32;
                    let flag = Val::binary(b, op, &val, other).unwrap();
                    value::store_be(b, output, at, 0, 8, at..at + 1, &flag);
                    let flag = Val::binary(b, op, other, &val).unwrap();
                    value::store_be(b, output, at + 1, 0, 8, at + 1..at + 2, &flag);
                }
            }
        });
        let runs = (0..6).map(|_| {
            let mut buffer = random.bytes(len as usize);
            if random.below(3) != 0 {
                wanted.deposit(&mut buffer, start as usize);
            }
            let mut input = random.bytes(len as usize);
            let there = Bits::extract(&buffer, start as usize, width);
            if random.below(3) != 0 {
                there.deposit(&mut input, start as usize);
            }
            for bytes in [&mut input, &mut buffer] {
                if random.below(3) == 0 {
                    let at = start + random.below(u64::from(width)) as u32;
                    bytes[at as usize / 8] ^= 0x80 >> (at % 8);
                }
            }
            let there = Bits::extract(&buffer, start as usize, width);
            let mut output = vec![0xa5; size as usize + 38];
            there.cast(place.1).deposit(&mut output[..size as usize], place.0 as usize);
            let same = Bits::extract(&input, start as usize, width);
            let end = there.cast(low).cast(width);
            for (i, other) in [&wanted, &same, &end].into_iter().enumerate() {
                let flags = [there == *other, there != *other];
                for (j, flag) in flags.into_iter().enumerate() {
                    let at = size as usize + 16 * i + 4 * j;
                    output[at..at + 2].fill(u8::from(flag));
                }
            }
            Run { input, buffer_after: buffer.clone(), buffer, base: 0, output }
        });
        let runs = runs.collect();
        let what = format!("{width} bits at {start} of {len} bytes, to {place:?}");
        cases.push(Case { function, runs, what });
    }
    check("loaded", &cases);
}

/// What a store is done with.
#[derive(Clone, Debug)]
enum Stored {
    Input,
    Constant(Bits),
    /// Of this width, zero-extended or cut off by the store.
    Other(u32),
}

/// A case of stores one after the other, with a copy of the buffer made after each.
fn stores(random: &mut Random, len: usize, fields: &[(u32, u32)], base: usize) -> Case {
    let readable = -(base as i32)..(len - base) as i32;
    let stored: Vec<Stored> = fields
        .iter()
        .map(|(_, width)| match random.below(6) {
            0 => Stored::Constant(random.bits(*width)),
            1 => Stored::Other(random.width()),
            _ => Stored::Input,
        })
        .collect();
    let width_of = |(field, stored): (&(u32, u32), &Stored)| match stored {
        Stored::Other(width) => *width,
        _ => field.1,
    };
    let function = function(|b, [input, buffer, output]| {
        let (mut from, mut to) = (0, 0);
        for (field, stored) in fields.iter().zip(&stored) {
            let val = match stored {
                Stored::Constant(bits) => Val::constant(b, bits),
                _ => {
                    let width = width_of((field, stored));
                    let val = value::load_words(b, input, from, width);
                    from += 8 * width.div_ceil(64) as i32;
                    val
                }
            };
            let (start, width) = *field;
            let bytes = (start / 8).min(start % 3);
            let at = bytes as i32 - base as i32;
            let first = start - 8 * bytes;
            if start % 8 == 0 && width % 8 == 0 && (start + width) as usize <= 8 * len {
                let offset = (start / 8) as i32 - base as i32;
                let all = offset..offset + width as i32 / 8;
                value::store_be(b, buffer, offset, 0, width, all, &val);
            } else {
                value::store_be(b, buffer, at, first, width, readable.clone(), &val);
            }
            value::copy_bytes(b, buffer, -(base as i32), output, to, len as u32);
            to += len as i32;
        }
    });
    let runs = (0..3).map(|_| {
        let buffer = random.bytes(len);
        let mut buffer_after = buffer.clone();
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for (field, stored) in fields.iter().zip(&stored) {
            let bits = match stored {
                Stored::Constant(bits) => bits.clone(),
                _ => {
                    let bits = random.bits(width_of((field, stored)));
                    input.extend(words(&bits));
                    bits
                }
            };
            bits.cast(field.1).deposit(&mut buffer_after, field.0 as usize);
            output.extend(&buffer_after);
        }
        Run { input, buffer, base, buffer_after, output }
    });
    let runs = runs.collect();
    Case { function, runs, what: format!("stores {stored:?} to {fields:?} of {len} at {base}") }
}

#[test]
fn stores_write_what_deposit_writes() {
    let mut random = Random(4);
    let mut cases = Vec::new();
    for len in 1..=9 {
        for width in 0..=8 * len as u32 {
            let fields: Vec<_> = (0..=8 * len as u32 - width).map(|start| (start, width)).collect();
            let base = random.below(len as u64 + 1) as usize;
            cases.push(stores(&mut random, len, &fields, base));
        }
    }
    for _ in 0..150 {
        let len = random.below(300) as usize + 1;
        let base = random.below(len as u64 + 1) as usize;
        let fields: Vec<_> = (0..8)
            .map(|_| {
                let start = random.below(8 * len as u64) as u32;
                let rest = 8 * len as u32 - start;
                match random.below(8) {
                    0 => (start, random.width()),
                    1 => (start, rest),
                    _ => (start & !7, random.width().min(rest)),
                }
            })
            .collect();
        cases.push(stores(&mut random, len, &fields, base));
    }
    check("stores", &cases);
}

#[test]
fn copies_touch_exactly_their_bytes() {
    let mut random = Random(5);
    let mut cases = Vec::new();
    for len in 0..=70 {
        // From the buffer to the output, and from the input to the whole buffer.
        let function = function(|b, [input, buffer, output]| {
            value::copy_bytes(b, buffer, 0, output, 0, len);
            value::copy_bytes(b, input, 0, buffer, 0, len);
        });
        let (buffer, input) = (random.bytes(len as usize), random.bytes(len as usize));
        let (output, buffer_after) = (buffer.clone(), input.clone());
        let runs = vec![Run { input, buffer, base: 0, buffer_after, output }];
        cases.push(Case { function, runs, what: format!("copies of {len} bytes") });
    }
    check("copies", &cases);
}

/// The ones' complement sum of 16-bit words, folded.
fn plain_sum(words: impl IntoIterator<Item = u16>) -> u16 {
    let sum: u64 = words.into_iter().map(u64::from).sum();
    plain_fold(sum)
}

fn plain_fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn be_words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.as_chunks::<2>().0.iter().map(|word| u16::from_be_bytes(*word))
}

/// Where a key's column comes from.
#[derive(Clone, Debug)]
enum Column {
    Constant(Bits),
    /// These bits of the input's first 64 bytes.
    Loaded(u32, u32),
    /// A number of this width that was not loaded as bytes.
    Number(u32),
}

impl Column {
    /// Makes its bits in an input: those there, or others, which are put behind what is there as limbs.
    fn bits(&self, input: &mut Vec<u8>, random: &mut Random) -> Bits {
        match self {
            Column::Constant(bits) => bits.clone(),
            Column::Loaded(at, width) => Bits::extract(input, *at as usize, *width),
            Column::Number(width) => {
                let bits = random.bits(*width);
                input.extend(words(&bits));
                bits
            }
        }
    }

    /// The same in generated code: an input begins with so many bytes, the next limbs are at `from`.
    fn value(&self, b: &mut FunctionBuilder<'_>, input: Value, bytes: u32, from: &mut i32) -> Val {
        match self {
            Column::Constant(bits) => Val::constant(b, bits),
            Column::Loaded(at, width) => value::load_be(b, input, 0, *at, *width, 0..bytes as i32),
            Column::Number(width) => {
                let at = *from;
                *from += 8 * width.div_ceil(64) as i32;
                value::load_words(b, input, at, *width)
            }
        }
    }
}

#[test]
fn keys_are_their_columns() {
    const BYTES: u32 = 64;
    let mut random = Random(8);
    let mut cases = Vec::new();
    for _ in 0..400 {
        let mut columns = Vec::new();
        // Often a column lies behind the one before in the packet, too.
        let mut next = 8 * random.below(8) as u32;
        for _ in 0..random.below(8) {
            let width = match random.below(4) {
                0 => random.width().min(130),
                _ => 8 * random.pick(&[1, 2, 2, 4, 4, 6, 8, 16]),
            };
            columns.push(match random.below(6) {
                0 => Column::Constant(random.bits(width)),
                1 => Column::Number(width),
                _ => {
                    if random.below(3) == 0 || next + width > 8 * BYTES {
                        next = random.below(u64::from(8 * BYTES - width)) as u32;
                        next &= if random.below(2) == 0 { !7 } else { !0 };
                    }
                    next += width;
                    Column::Loaded(next - width, width)
                }
            });
        }
        let bytes = |column: &Column| match column {
            Column::Constant(bits) => bits.width().div_ceil(8),
            Column::Loaded(_, width) | Column::Number(width) => width.div_ceil(8),
        };
        let len = columns.iter().map(bytes).sum::<u32>() as usize;
        let stride = random.pick(&[len, len.next_multiple_of(8), len + 13, (len + 1).max(8)]);
        let function = function(|b, [input, buffer, _]| {
            let mut from = BYTES as i32;
            let values: Vec<Val> =
                columns.iter().map(|c| c.value(b, input, BYTES, &mut from)).collect();
            value::store_columns(b, buffer, &values, len, stride);
        });
        let runs = (0..4).map(|_| {
            let mut input = random.bytes(BYTES as usize);
            let mut buffer_after = Vec::new();
            for column in &columns {
                let bits = column.bits(&mut input, &mut random);
                let mut column = vec![0; bits.width().div_ceil(8) as usize];
                bits.cast(8 * column.len() as u32).deposit(&mut column, 0);
                buffer_after.extend(column);
            }
            buffer_after.resize(stride, 0);
            let buffer = random.bytes(stride);
            Run { input, buffer, base: 0, buffer_after, output: Vec::new() }
        });
        let runs = runs.collect();
        let what = format!("key of {columns:?} every {stride}");
        cases.push(Case { function, runs, what });
    }
    check("keys", &cases);
}

#[test]
fn pieces_are_written_at_their_places() {
    const BYTES: u32 = 32;
    let mut random = Random(11);
    let mut cases = Vec::new();
    for _ in 0..400 {
        // Values of whole bytes with gaps between some, often of six bytes one behind the other.
        let mut pieces: Vec<(u32, Column)> = Vec::new();
        let mut end = random.below(3) as u32;
        for _ in 0..=random.below(6) {
            let width = 8 * random.pick(&[1, 2, 3, 4, 5, 6, 6, 6, 7, 8, 16]);
            let column = match random.below(4) {
                0 => Column::Constant(random.bits(width)),
                1 => Column::Loaded(8 * random.below(u64::from(BYTES - width / 8)) as u32, width),
                _ => Column::Number(width),
            };
            pieces.push((end, column));
            end += width / 8 + random.pick(&[0, 0, 0, 1]);
        }
        let function = function(|b, [input, buffer, _]| {
            let mut from = BYTES as i32;
            let mut values = Vec::new();
            for (at, column) in &pieces {
                let value = column.value(b, input, BYTES, &mut from);
                values.push((*at as i32, value.width / 8, value));
            }
            value::store_pieces(b, buffer, &values);
        });
        let runs = (0..4).map(|_| {
            let mut input = random.bytes(BYTES as usize);
            // Nothing in front of them or behind may be touched.
            let buffer = random.bytes(end as usize + 8);
            let mut buffer_after = buffer.clone();
            for (at, column) in &pieces {
                let bits = column.bits(&mut input, &mut random);
                bits.deposit(&mut buffer_after, 8 * *at as usize);
            }
            Run { input, buffer, base: 0, buffer_after, output: Vec::new() }
        });
        let runs = runs.collect();
        cases.push(Case { function, runs, what: format!("pieces {pieces:?}") });
    }
    check("pieces", &cases);
}

/// How the values of a field that changes come into the code.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Comes {
    /// It does not change.
    Stays,
    /// As limbs.
    Words,
    /// What it was is loaded from a packet's bytes; whole bytes at a byte's boundary.
    WasLoaded,
    /// What it is, too.
    BothLoaded,
}

#[test]
fn adjustments_are_those_of_all_words() {
    let mut random = Random(7);
    let mut cases = Vec::new();
    for _ in 0..300 {
        // Inputs, and which of them change.
        let count = random.below(5) + 1;
        let bytes = random.below(2) == 0;
        let fields: Vec<(u32, Comes)> = (0..count)
            .map(|_| match bytes {
                true => {
                    let width = random.pick(&[8, 16, 16, 24, 32, 48, 64, 72, 128]);
                    let comes = [Comes::Stays, Comes::Words, Comes::WasLoaded, Comes::BothLoaded];
                    (width, random.pick(&comes))
                }
                false => {
                    let width = if random.below(2) == 0 { 16 } else { random.width().min(200) };
                    (width, random.pick(&[Comes::Stays, Comes::Words, Comes::Words]))
                }
            })
            .collect();
        let total: u32 = fields.iter().map(|field| field.0).sum();
        // The checksum lies in a packet, or it does not.
        let (loaded, zero_is_none) = (random.below(2) == 0, random.below(2) == 0);
        let function = function(|b, [input, _, output]| {
            let bytes = |b: &mut _, at, width| value::load_be(b, input, at, 0, width, at..at + 16);
            let old = match loaded {
                true => bytes(b, 0, 16),
                false => value::load_words(b, input, 8, 16),
            };
            let mut adjust = Adjust::new();
            let (mut from, mut position) = (16, 0);
            for (width, comes) in &fields {
                if *comes != Comes::Stays {
                    let size = 16 + 8 * width.div_ceil(64) as i32;
                    let [before, after] = [from, from + size].map(|at| match comes {
                        Comes::Words => value::load_words(b, input, at + 16, *width),
                        Comes::WasLoaded if at > from => {
                            value::load_words(b, input, at + 16, *width)
                        }
                        _ => bytes(b, at, *width),
                    });
                    adjust.change(b, &before, &after, position % 16);
                    from += 2 * size;
                }
                position += width;
            }
            let new = adjust.finish(b, &old, u64::from(total), zero_is_none);
            // As a number, and as it goes into a packet.
            value::store_words(b, output, 0, &new);
            value::store_be(b, output, 8, 0, 16, 8..10, &new);
        });
        // As 16 bytes of a packet, which the widest of them fills, and as limbs.
        let both = |bits: &Bits| {
            let mut bytes = vec![0; 16.max(bits.width().div_ceil(8) as usize)];
            bits.deposit(&mut bytes, 0);
            bytes.truncate(16);
            bytes.extend(words(bits));
            bytes
        };
        let runs = (0..16).map(|_| {
            let size = (total as usize).div_ceil(16) * 2;
            let (mut before, mut after) = (vec![0; size], vec![0; size]);
            let any = random.next() as u16;
            let old = random.pick(&[0, 1, 0xffff, 0xfffe, 0x8000, 0xff00, any]);
            let mut input = old.to_be_bytes().to_vec();
            input.resize(8, 0xaa);
            input.extend(u64::from(old).to_le_bytes());
            let (extreme, mut position) = (random.below(3) == 0, 0);
            for (width, comes) in &fields {
                let (was, is) = match extreme {
                    true => (Bits::ones(*width), Bits::zero(*width)),
                    false => (random.bits(*width), random.bits(*width)),
                };
                let is = if *comes == Comes::Stays { was.clone() } else { is };
                was.deposit(&mut before, position);
                is.deposit(&mut after, position);
                if *comes != Comes::Stays {
                    input.extend(both(&was));
                    input.extend(both(&is));
                }
                position += *width as usize;
            }
            // RFC 1624, equation 3, over all inputs: !(!old + sum of !before + sum of after).
            let gone = be_words(&before).map(|word| !word);
            let mut new = !plain_sum(gone.chain(be_words(&after)).chain([!old]));
            if zero_is_none && new == 0 {
                new = 0xffff;
            }
            let mut output = u64::from(new).to_le_bytes().to_vec();
            output.extend(new.to_be_bytes());
            Run { input, buffer: Vec::new(), base: 0, buffer_after: Vec::new(), output }
        });
        let runs = runs.collect();
        cases.push(Case { function, runs, what: format!("adjustment of {fields:?}") });
    }
    // RFC 1624 §4: 0x5555 becomes 0x3285, 0xdd2f 0x0000.
    let function = function(|b, [_, _, output]| {
        let [old, was, is] =
            [0xdd2f, 0x5555, 0x3285].map(|word| Val::constant(b, &Bits::from_u128(word, 16)));
        let mut adjust = Adjust::new();
        adjust.change(b, &was, &is, 0);
        let new = adjust.finish(b, &old, 32, false);
        value::store_words(b, output, 0, &new);
    });
    let runs = vec![Run {
        input: Vec::new(),
        buffer: Vec::new(),
        base: 0,
        buffer_after: Vec::new(),
        output: vec![0; 8],
    }];
    cases.push(Case { function, runs, what: "RFC 1624 §4".to_owned() });
    check("adjustments", &cases);
}

/// A CRC bit by bit, as Williams describes it.
fn plain_crc(crc: ir::Crc, bytes: &[u8]) -> u32 {
    let bits = bytes.iter().flat_map(|byte| {
        (0..8).map(move |i| byte >> if crc.reflect_in { i } else { 7 - i } & 1 == 1)
    });
    let mut register = crc.init;
    for bit in bits {
        let top = register >> (crc.width - 1) & 1 == 1;
        register = (u64::from(register) << 1 & ((1 << crc.width) - 1)) as u32;
        if top != bit {
            register ^= crc.polynomial;
        }
    }
    if crc.reflect_out {
        register = register.reverse_bits() >> (32 - crc.width);
    }
    register ^ crc.xor_out
}

#[test]
fn hashes_are_those_of_the_bytes() {
    use ir::HashAlgorithm as H;
    let mut random = Random(12);
    let mut cases = Vec::new();
    for n in 0..160 {
        let width = random.pick(&[8, 12, 16, 24, 31, 32]);
        let mut part = || (random.next() >> 32 >> (32 - width)) as u32;
        let (polynomial, init, xor_out) = (part(), part(), part());
        let (reflect_in, reflect_out) = (n & 1 == 0, n & 2 == 0);
        let crc =
            ir::Crc { width, polynomial, init, xor_out, reflect_in, reflect_out, function: n };
        let own = H::Crc(crc);
        let algorithm = match n {
            0..100 => own,
            _ => random.pick(&[H::Crc16, H::Crc32, H::Crc32c, H::Xor16, H::Identity]),
        };
        let count = random.below(5);
        let fields: Vec<u32> = (0..count).map(|_| random.width().min(100)).collect();
        let total: u32 = fields.iter().sum();
        let out = match algorithm {
            H::Identity => total,
            H::Xor16 => 16,
            crc => crc.crc().unwrap().width,
        };
        // The last field is a constant now and then.
        let fixed = (n % 3 == 0).then(|| fields.last().map(|w| random.bits(*w))).flatten();
        let function = function(|b, [input, _, output]| {
            let (mut from, mut values) = (0, Vec::new());
            for (i, width) in fields.iter().enumerate() {
                values.push(match &fixed {
                    Some(bits) if i + 1 == fields.len() => Val::constant(b, bits),
                    _ => value::load_words(b, input, from, *width),
                });
                from += 8 * width.div_ceil(64) as i32;
            }
            let hash = value::hash(b, algorithm, &values).unwrap();
            assert_eq!(hash.width, out);
            let hash = hash.cast(b, 64);
            value::store_words(b, output, 0, &hash);
        });
        let runs = (0..8).map(|_| {
            let (mut all, mut position) = (vec![0; total.div_ceil(8) as usize], 0);
            let mut input = Vec::new();
            for (i, width) in fields.iter().enumerate() {
                let field = match &fixed {
                    Some(bits) if i + 1 == fields.len() => bits.clone(),
                    _ => random.bits(*width),
                };
                field.deposit(&mut all, position);
                position += *width as usize;
                input.extend(words(&field));
            }
            let hash = match algorithm {
                H::Identity => Bits::extract(&all, 0, total).cast(64).limbs().first().copied(),
                H::Xor16 => {
                    let mut even = all.clone();
                    even.resize(all.len().next_multiple_of(2), 0);
                    Some(u64::from(be_words(&even).fold(0, |xor, word| xor ^ word)))
                }
                crc => Some(u64::from(plain_crc(crc.crc().unwrap(), &all))),
            };
            let output = hash.unwrap_or(0).to_le_bytes().to_vec();
            Run { input, buffer: Vec::new(), base: 0, buffer_after: Vec::new(), output }
        });
        let runs = runs.collect();
        cases.push(Case { function, runs, what: format!("{algorithm:?} of {fields:?}") });
    }
    check("hashes", &cases);
}

#[test]
fn sums_made_anew_are_those_of_all_words() {
    let mut random = Random(11);
    let mut cases = Vec::new();
    for _ in 0..200 {
        // Fields as limbs, or whole bytes as they lie in a packet.
        let count = random.below(8) + 1;
        let bytes = random.below(2) == 0;
        let fields: Vec<(u32, bool)> = (0..count)
            .map(|_| match bytes {
                true => (random.pick(&[8, 16, 16, 24, 32, 48, 64]), random.below(2) == 0),
                false => (random.width().min(200), false),
            })
            .collect();
        let function = function(|b, [input, _, output]| {
            let mut sum = Adjust::new();
            let (mut from, mut position) = (0, 0);
            for (width, loaded) in &fields {
                let field = match loaded {
                    true => value::load_be(b, input, from, 0, *width, from..from + 16),
                    false => value::load_words(b, input, from + 16, *width),
                };
                sum.include(b, &field, position % 16);
                from += 16 + 8 * width.div_ceil(64) as i32;
                position += width;
            }
            let new = sum.anew(b);
            value::store_words(b, output, 0, &new);
            value::store_be(b, output, 8, 0, 16, 8..10, &new);
        });
        let total: u32 = fields.iter().map(|field| field.0).sum();
        let runs = (0..16).map(|_| {
            let (mut all, mut position) = (vec![0; (total as usize).div_ceil(16) * 2], 0);
            let (mut input, extreme) = (Vec::new(), random.below(4));
            for (width, _) in &fields {
                let field = match extreme {
                    0 => Bits::zero(*width),
                    1 => Bits::ones(*width),
                    _ => random.bits(*width),
                };
                field.deposit(&mut all, position);
                position += *width as usize;
                let mut bytes = vec![0; 16.max(width.div_ceil(8) as usize)];
                field.deposit(&mut bytes, 0);
                bytes.truncate(16);
                input.extend(bytes);
                input.extend(words(&field));
            }
            let new = !plain_sum(be_words(&all));
            let mut output = u64::from(new).to_le_bytes().to_vec();
            output.extend(new.to_be_bytes());
            Run { input, buffer: Vec::new(), base: 0, buffer_after: Vec::new(), output }
        });
        let runs = runs.collect();
        cases.push(Case { function, runs, what: format!("sum of {fields:?}") });
    }
    check("sums", &cases);
}

#[test]
fn what_is_not_worth_it_is_refused_with_a_reason() {
    function(|b, _| {
        let wide = Val::zero(value::WIDTH_MAX);
        let bit = Val::bool(true);
        let refused = wide.concat(b, &bit).unwrap_err();
        assert_eq!(refused, Unsupported::Width(4097));
        assert_eq!(refused.to_string(), "value of 4097 bits; generated code handles up to 4096");
        let wider = Val::zero(value::WIDTH_MAX + 1);
        assert!(Val::binary(b, BinaryOp::Add, &bit, &wider).is_err());
        assert!(Val::unary(b, UnaryOp::Not, &wider).is_err());
        let flag = b.ins().iconst(types::I64, 1);
        let flag = Val::from_i64(b, flag, 1);
        assert_eq!(Val::mux(b, &flag, &bit, &wide).unwrap_err(), Unsupported::Choice(1, 4096));
        assert_eq!(Val::mux(b, &bit, &bit, &wide).unwrap().width, 1);
    });
}

#[test]
fn what_is_known_emits_nothing() {
    let function = function(|b, [input, _, _]| {
        let seven = Val::constant(b, &Bits::from_u128(7, 300));
        let byte = value::load_be(b, input, 0, 0, 8, 0..1);
        let instructions = b.func.dfg.num_insts();
        let known = |val: Val, expected: u128| {
            assert_eq!(val.as_const(), Some(Bits::from_u128(expected, val.width)));
        };
        let mut binary = |op, x: &Val, y: &Val| Val::binary(b, op, x, y).unwrap();
        for op in BINARY.into_iter().filter(|op| *op != BinaryOp::Mul) {
            assert!(binary(op, &seven, &seven).as_const().is_some(), "{op:?}");
        }
        let zero = Val::zero(8);
        let high = Val::zero(64);
        known(binary(BinaryOp::And, &byte, &zero), 0);
        known(binary(BinaryOp::Xor, &byte, &byte), 0);
        known(binary(BinaryOp::Sub, &byte, &byte), 0);
        known(binary(BinaryOp::Eq, &byte, &byte), 1);
        known(binary(BinaryOp::Le, &byte, &byte), 1);
        known(binary(BinaryOp::Ge, &byte, &zero), 1);
        known(binary(BinaryOp::Lt, &byte, &zero), 0);
        let wide = binary(BinaryOp::Concat, &high, &byte);
        let large = binary(BinaryOp::Concat, &seven, &high);
        known(binary(BinaryOp::Eq, &wide, &large), 0);
        known(binary(BinaryOp::Lt, &wide, &large), 1);
        // No mask for bits that are zero anyway.
        assert_eq!(wide.cast(b, 8).limbs(b), byte.limbs(b));
        assert_eq!(wide.slice(b, 7, 0).limbs(b), byte.limbs(b));
        assert!(b.func.dfg.num_insts() <= instructions + 4, "{}", b.func);
    });
    assert!(function.dfg.num_insts() < 16);
}

#[test]
fn code_that_refers_to_something_is_refused() {
    let isa = isa::host(Settings::default()).unwrap();
    let calls = function(|b, _| {
        let signature = b.import_signature(Signature::new(CallConv::SystemV));
        let name = b.func.declare_imported_user_function(UserExternalName::new(0, 1));
        let name = ExternalName::user(name);
        let callee =
            b.import_function(ExtFuncData { name, signature, colocated: false, patchable: false });
        b.ins().call(callee, &[]);
    });
    let error = isa::compile_function(&*isa, calls, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "function u0:0 needs 1 relocations; generated code must need none"
    );
    // And what is no program at all is an error of the verifier.
    let wrong = function(|b, [input, ..]| {
        let narrow = b.ins().iconst(types::I32, 1);
        b.ins().iadd(input, narrow);
    });
    let error = isa::compile_function(&*isa, wrong, false).unwrap_err();
    assert!(matches!(&error, isa::Error::Compile { .. }), "{error}");
}

#[test]
fn code_is_freed_with_its_last_user() {
    let _alone = MAPPED.write().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(memory::live_bytes(), 0);
    let isa = isa::host(Settings::default()).unwrap();
    let one =
        function(|b, [_, buffer, _]| value::store_be(b, buffer, 0, 0, 16, 0..2, &Val::bool(true)));
    let two =
        function(|b, [_, buffer, _]| value::store_be(b, buffer, 0, 0, 16, 0..2, &Val::zero(1)));
    let machines: Vec<Machine> = [&one, &two]
        .into_iter()
        .map(|f| isa::compile_function(&*isa, f.clone(), true).unwrap())
        .collect();
    assert!(machines[0].disasm.as_ref().is_some_and(|text| text.contains("ret")));
    let mut entries = memory::publish_many(&machines).unwrap();
    for (entry, machine) in entries.iter().zip(&machines) {
        assert_eq!(entry.bytes(), machine.bytes);
        assert_eq!(entry.address() as usize % machine.align as usize, 0);
    }
    // Both lie in one mapping, executable and not writable, as long as either is used.
    let permissions = |address: usize| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let [start, end] = [start, end].map(|s| usize::from_str_radix(s, 16).unwrap());
            (start..end).contains(&address).then(|| rest[..4].to_owned())
        })
    };
    let [first, second] = [0, 1].map(|i: usize| entries[i].address() as usize);
    assert_eq!(first / 4096, second / 4096);
    assert_eq!(permissions(first).as_deref(), Some("r-xp"));
    assert_eq!(memory::live_bytes(), 4096);
    let last = entries.pop().unwrap();
    drop(entries);
    let run = Run {
        input: Vec::new(),
        buffer: vec![9; 4],
        base: 1,
        buffer_after: Vec::new(),
        output: Vec::new(),
    };
    assert_eq!(machine::Guarded::new().call(&last, &run, true).0, [9, 0, 0, 9]);
    assert_eq!(memory::live_bytes(), 4096);
    drop(last.clone());
    assert_eq!(memory::live_bytes(), 4096);
    drop(last);
    assert_eq!(memory::live_bytes(), 0);
    assert!(memory::publish_many(&[]).unwrap().is_empty());
    assert_eq!(memory::live_bytes(), 0);
}
