//! Instruction sets, and the last step: a function becomes machine code.
//!
//! Generated code refers to nothing but its arguments and, in whole programs, to addresses that it holds as numbers. So
//! it needs no relocations and runs wherever it is put; a function that would need one is refused. Code for the host uses
//! all its extensions; the two baselines exist so that tests compile for both on either.
//!
//! Cost: compiling takes most of the time between a change and its code; `docs/performance.md` has
//! what was measured.
//! Checked by: `tests/value.rs`, which compiles, runs and emulates thousands of functions.

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{Builder, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, isa};
use target_lexicon::triple;

/// How hard to try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OptLevel {
    /// Quick compilation.
    None,
    /// Fast code.
    #[default]
    Speed,
}

/// How to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// How hard to try.
    pub opt_level: OptLevel,
    /// Check Cranelift's IR before it is compiled.
    pub verify: bool,
}

/// Fast code, checked in debug builds.
impl Default for Settings {
    fn default() -> Settings {
        Settings { opt_level: OptLevel::Speed, verify: cfg!(debug_assertions) }
    }
}

/// Why there is no machine code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no code generator for this machine.
    #[error("no code generator for this machine: {0}")]
    Host(String),
    /// The code generator does not know a setting.
    #[error("code generator setting: {0}")]
    Setting(String),
    /// Cranelift refused the function.
    #[error("function {name}: {message}")]
    Compile {
        /// The function's name.
        name: String,
        /// What Cranelift said.
        message: String,
    },
    /// The code refers to something outside it.
    #[error("function {name} needs {relocations} relocations; generated code must need none")]
    Relocations {
        /// The function's name.
        name: String,
        /// How many.
        relocations: usize,
    },
}

/// A function's machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The code; its first byte is the entry.
    pub bytes: Vec<u8>,
    /// Where it may start: multiples of this, a power of two.
    pub align: u32,
    /// The instructions as text, if wanted.
    pub disasm: Option<String>,
}

/// The machine that this runs on, with its extensions.
pub fn host(settings: Settings) -> Result<OwnedTargetIsa, Error> {
    let builder = cranelift_native::builder().map_err(|e| Error::Host(e.to_owned()))?;
    finish(builder, settings)
}

/// Baseline 64-bit Arm.
pub fn aarch64(settings: Settings) -> Result<OwnedTargetIsa, Error> {
    finish(lookup(triple!("aarch64-unknown-linux"))?, settings)
}

/// Baseline 64-bit x86.
pub fn x86_64(settings: Settings) -> Result<OwnedTargetIsa, Error> {
    finish(lookup(triple!("x86_64-unknown-linux"))?, settings)
}

fn lookup(triple: target_lexicon::Triple) -> Result<Builder, Error> {
    isa::lookup(triple).map_err(|e| Error::Host(e.to_string()))
}

fn finish(builder: Builder, wanted: Settings) -> Result<OwnedTargetIsa, Error> {
    let opt_level = match wanted.opt_level {
        OptLevel::None => "none",
        OptLevel::Speed => "speed",
    };
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", opt_level),
        ("enable_verifier", if wanted.verify { "true" } else { "false" }),
        // Nothing unwinds through generated code: it does not trap, and a panic in what it calls ends the process.
        ("unwind_info", "false"),
        ("preserve_frame_pointers", "false"),
        ("enable_probestack", "false"),
        // Code and what it reads are of one trust.
        ("enable_table_access_spectre_mitigation", "false"),
        ("enable_heap_access_spectre_mitigation", "false"),
    ] {
        flags.set(name, value).map_err(|e| Error::Setting(format!("{name}: {e}")))?;
    }
    builder.finish(settings::Flags::new(flags)).map_err(|e| Error::Setting(e.to_string()))
}

/// Compiles a function.
pub fn compile_function(
    isa: &dyn TargetIsa,
    func: Function,
    want_disasm: bool,
) -> Result<Machine, Error> {
    let name = func.name.to_string();
    let mut context = Context::for_function(func);
    context.set_disasm(want_disasm);
    if let Err(error) = context.compile(isa, &mut ControlPlane::default()) {
        let message = match &error.inner {
            cranelift_codegen::CodegenError::Verifier(errors) => errors.to_string(),
            other => other.to_string(),
        };
        return Err(Error::Compile { name, message });
    }
    let Some(code) = context.take_compiled_code() else {
        return Err(Error::Compile { name, message: "no code".to_owned() });
    };
    let relocations = code.buffer.relocs().len();
    if relocations > 0 {
        return Err(Error::Relocations { name, relocations });
    }
    Ok(Machine {
        bytes: code.code_buffer().to_vec(),
        align: code.buffer.alignment.max(isa.function_alignment().preferred),
        disasm: code.vcode,
    })
}
