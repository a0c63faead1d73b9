//! Generated operations and memory accesses against `ir::Bits`, the plainest equivalent.
//!
//! Every case is a generated function with some runs of it: inputs, and what it must leave behind.
//! All are run on the host, unoptimised and optimised in turn, with the bytes that they may touch at the
//! start and at the end of a page between pages that trap; all are compiled, with the verifier, for
//! the other instruction set; and where an emulator for user programs of 64-bit Arm is installed, they
//! are run under it as one static program.

mod accesses;
mod keys;
mod operators;
mod refused;
mod sums;

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
