//! What a client pushes: a program in one of several forms, and its P4Info.

use crate::code::{Fault, fault};
use crate::proto::{info, tmp};
use p4::Checked;
use p4::bmv2::{Hints, KeyHint, TableHints};
use p4::limits::Limits;
use p4::lower::Lowered;
use p4::preprocess::{NoFiles, Options};
use prost::Message as _;
use std::collections::HashMap;
use std::path::Path;

/// A program that was compiled, and its own P4Info.
pub struct Built {
    /// The program.
    pub lowered: Lowered,
    /// What it says of itself.
    pub info: info::P4Info,
}

/// Bytes of diagnoses that an answer holds, at most.
const DIAGNOSES_MAX: usize = 3 << 10;

/// A program that drops every frame, for a switch that has none yet.
pub const EMPTY: &str = include_str!("empty.p4");

/// Compiles the text of a program that includes nothing but `core.p4` and `v1model.p4`.
pub fn compile(text: &str, limits: Limits) -> Result<Built, Fault> {
    let options = Options { limits, ..Options::default() };
    compile_checked(|| p4::front(&NoFiles, &options, Path::new("program.p4"), text))
}

/// Compiles what `front` reads and checks.
fn compile_checked(front: impl FnOnce() -> Checked + Send) -> Result<Built, Fault> {
    let (built, told) = p4::with_stack(|| {
        let mut c = front();
        let lowered = match c.diagnostics.errors() {
            0 => p4::lower::lower(&c.program, &mut c.diagnostics),
            _ => None,
        };
        let built = lowered.map(|lowered| {
            let info = p4::info::to_bytes(&c.program, &lowered);
            (lowered, info)
        });
        (built, c.diagnostics.render(&c.map))
    });
    let Some((lowered, bytes)) = built else {
        let mut told = told.trim_end().to_owned();
        if told.len() > DIAGNOSES_MAX {
            told.truncate(told.floor_char_boundary(DIAGNOSES_MAX));
            told.push_str("\n...");
        }
        return Err(fault!(InvalidArgument, "p4_device_config was not compiled\n{told}"));
    };
    let info = info::P4Info::decode(&bytes[..])
        .map_err(|e| fault!(Internal, "the program's P4Info is not read back: {e}"))?;
    Ok(Built { lowered, info })
}

/// A program that a device configuration holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program<'a> {
    /// The text of a P4 program.
    Text(&'a str),
    /// JSON, as p4c writes it for bmv2.
    Json(&'a str),
    /// A P4 program with its files, as JSON.
    Packed(&'a str),
    /// A pipeline with the program that it was made of, as `millrace p4 build` writes it.
    Built(&'a str),
}

/// The program that a device configuration holds.
pub fn program(config: &[u8]) -> Result<Program<'_>, Fault> {
    let text = std::str::from_utf8(config).ok();
    let text = text.filter(|t| t.trim_start().starts_with(|c: char| !c.is_control()));
    let Some(text) = text else {
        return Err(fault!(
            InvalidArgument,
            "p4_device_config is neither text nor a p4.tmp.P4DeviceConfig; send the P4 program's text or \
             bmv2's JSON"
        ));
    };
    let start = text.trim_start();
    if p4::packed::is_packed(start) {
        return Ok(Program::Packed(text));
    }
    if start.starts_with('{') {
        return Ok(Program::Json(text));
    }
    if p4::built::is_built(start) {
        return Ok(Program::Built(start));
    }
    Ok(Program::Text(text))
}

/// What the P4Info tells that bmv2's JSON leaves out.
fn hints(info: &info::P4Info) -> Hints {
    use info::action_ref::Scope;
    use info::match_field::{Match, MatchType};
    let name = |p: &Option<info::Preamble>| p.as_ref().map_or(String::new(), |p| p.name.clone());
    let actions: HashMap<u32, String> = info
        .actions
        .iter()
        .filter_map(|a| a.preamble.as_ref())
        .map(|p| (p.id, p.name.clone()))
        .collect();
    let table = |t: &info::Table| {
        let optional = |f: &info::MatchField| matches!(f.r#match, Some(Match::MatchType(m)) if m == MatchType::Optional as i32);
        let key = |f: &info::MatchField| KeyHint {
            width: u32::try_from(f.bitwidth).unwrap_or(0),
            optional: optional(f),
        };
        let scoped = |scope: Scope| {
            let own = t.action_refs.iter().filter(|a| a.scope() == scope);
            own.filter_map(|a| actions.get(&a.id).cloned()).collect()
        };
        let hints = TableHints {
            keys: t.match_fields.iter().map(|f| (f.name.clone(), key(f))).collect(),
            default_only: scoped(Scope::DefaultOnly),
            table_only: scoped(Scope::TableOnly),
            group_only: scoped(Scope::GroupAction),
        };
        (name(&t.preamble), hints)
    };
    let size = |v: &info::ValueSet| (name(&v.preamble), u32::try_from(v.size).unwrap_or(0).max(1));
    Hints {
        tables: Some(info.tables.iter().map(table).collect()),
        value_sets: info.value_sets.iter().map(size).collect(),
    }
}

/// Compiles a program that came with its files.
fn compile_packed(json: &str, limits: Limits) -> Result<Built, Fault> {
    let packed = p4::packed::unpack(json);
    let packed = packed.map_err(|e| fault!(InvalidArgument, "p4_device_config: {e}"))?;
    compile_checked(|| packed.front(limits))
}

/// Compiles the program behind a pipeline, which has to give that pipeline.
fn compile_built(text: &str, limits: Limits) -> Result<Built, Fault> {
    let bytes = p4::built::program_bytes(text);
    if bytes > limits.text_bytes {
        return Err(fault!(
            ResourceExhausted,
            "p4_device_config has {bytes} bytes of program; {} is the most",
            limits.text_bytes
        ));
    }
    let wrong = |e| fault!(InvalidArgument, "p4_device_config: {e}");
    let packed = p4::built::unpack(text).map_err(wrong)?;
    let built = compile_checked(|| packed.front(limits))?;
    p4::built::agrees(text, built.lowered.clone()).map_err(wrong)?;
    Ok(built)
}

/// Refuses JSON that is longer than a program may be.
fn fits(json: &str, limits: Limits) -> Result<(), Fault> {
    match json.len() <= limits.text_bytes {
        true => Ok(()),
        false => Err(fault!(
            ResourceExhausted,
            "p4_device_config has {} bytes of JSON; {} is the most",
            json.len(),
            limits.text_bytes
        )),
    }
}

/// Compiles a program of any form; `info` is what the client says of it.
pub fn build(program: Program<'_>, info: &info::P4Info, limits: Limits) -> Result<Built, Fault> {
    let json = match program {
        Program::Text(text) => return compile(text, limits),
        Program::Built(text) => return compile_built(text, limits),
        Program::Packed(json) => {
            fits(json, limits)?;
            return compile_packed(json, limits);
        }
        Program::Json(json) => json,
    };
    fits(json, limits)?;
    let hints = hints(info);
    let built =
        p4::with_stack(|| p4::bmv2::compile(json, &hints, limits).map(|c| (c.lowered, c.info)));
    let (lowered, bytes) =
        built.map_err(|e| fault!(InvalidArgument, "p4_device_config, bmv2's JSON, {e}"))?;
    let info = info::P4Info::decode(&bytes[..])
        .map_err(|e| fault!(Internal, "the program's P4Info is not read back: {e}"))?;
    Ok(Built { lowered, info })
}

/// What a `p4.tmp.P4DeviceConfig` holds, or the bytes themselves.
pub fn unwrapped(config: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    use std::borrow::Cow;
    // Its fields begin with control characters, and a text does not.
    if !matches!(config.first(), Some(0x08 | 0x12 | 0x1a)) {
        return Cow::Borrowed(config);
    }
    match tmp::P4DeviceConfig::decode(config) {
        Ok(inner) if !inner.device_data.is_empty() => Cow::Owned(inner.device_data),
        _ => Cow::Borrowed(config),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    #[test]
    fn forms_are_told_apart() {
        let text = Program::Text("\n#include <core.p4>");
        assert_eq!(program(b"\n#include <core.p4>").unwrap(), text);
        let json = program(b" {\"actions\": []}").unwrap();
        assert_eq!(json, Program::Json(" {\"actions\": []}"));
        let packed = program(b"{ \"millrace_p4\": 1}").unwrap();
        assert_eq!(packed, Program::Packed("{ \"millrace_p4\": 1}"));
        assert_eq!(program(b"\n; x").unwrap(), Program::Built("; x"));
        assert_eq!(program(&[0xff, 1]).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(program(b"").unwrap_err().code, Code::InvalidArgument);
        let inner =
            tmp::P4DeviceConfig { reassign: true, extras: None, device_data: b"parser".to_vec() };
        assert_eq!(&*unwrapped(&inner.encode_to_vec()), b"parser");
        assert_eq!(&*unwrapped(b"parser"), b"parser");
        assert_eq!(&*unwrapped(&[8, 1]), &[8, 1]);
    }

    #[test]
    fn the_empty_program_has_nothing_to_write() {
        let built = compile(EMPTY, Limits::default()).map_err(|e| e.text).unwrap();
        assert_eq!(built.info.tables, []);
    }

    #[test]
    fn a_packed_program_is_compiled() {
        let json = serde_json::json!({
            "millrace_p4": 1, "program": "a.p4",
            "files": {"a.p4": "#include \"b.p4\"\n", "b.p4": EMPTY},
        });
        let (json, limits) = (json.to_string(), Limits::default());
        let info = info::P4Info::default();
        let built = build(Program::Packed(&json), &info, limits).map_err(|e| e.text).unwrap();
        assert_eq!(built.info.tables, []);
        let wrong = json.replace("b.p4\":", "c.p4\":");
        let fault = build(Program::Packed(&wrong), &info, limits).err().unwrap();
        assert!(fault.text.contains("a.p4:1"), "{}", fault.text);
        let long = Limits { text_bytes: 10, ..limits };
        let fault = build(Program::Packed(&json), &info, long).err().unwrap();
        assert_eq!(fault.code, Code::ResourceExhausted);
        let none = build(Program::Packed("{\"millrace_p4\": 1}"), &info, limits).err().unwrap();
        assert!(none.text.starts_with("p4_device_config: a packed program"), "{}", none.text);
    }

    #[test]
    fn what_is_wrong_with_a_program_is_told() {
        let wrong = compile("#include <core.p4>\nparser", Limits::default()).err().unwrap();
        assert_eq!(wrong.code, Code::InvalidArgument);
        assert!(wrong.text.contains("program.p4:2"), "{}", wrong.text);
        let file = compile("#include \"/etc/passwd\"\n", Limits::default()).err().unwrap();
        assert!(!file.text.contains("root:"), "{}", file.text);
    }
}
