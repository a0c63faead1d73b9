//! What a client pushes: a program in one of several forms, and its P4Info.

use crate::code::{Fault, fault};
use crate::proto::{info, tmp};
use p4::limits::Limits;
use p4::lower::Lowered;
use p4::preprocess::{NoFiles, Options};
use prost::Message as _;
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
    let (built, told) = p4::with_stack(|| {
        let mut c = p4::front(&NoFiles, &options, Path::new("program.p4"), text);
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

/// The text of a program that a device configuration holds.
pub fn program(config: &[u8]) -> Result<&str, Fault> {
    let text = std::str::from_utf8(config).ok();
    let text = text.filter(|t| t.trim_start().starts_with(|c: char| !c.is_control()));
    let Some(text) = text else {
        return Err(fault!(
            InvalidArgument,
            "p4_device_config is neither text nor a p4.tmp.P4DeviceConfig; send the P4 program's text"
        ));
    };
    let start = text.trim_start();
    if start.starts_with('{') {
        return Err(fault!(
            Unimplemented,
            "p4_device_config is JSON, as p4c writes it for bmv2; this switch compiles P4 itself: send the \
             program's text after preprocessing (p4c-bm2-ss --pp FILE)"
        ));
    }
    if start.starts_with("program ") || start.starts_with("; ") {
        return Err(fault!(
            Unimplemented,
            "p4_device_config is a pipeline as `millrace p4 build` writes it, which has no names for a \
             control plane; send the P4 program's text"
        ));
    }
    Ok(text)
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
        assert_eq!(program(b"\n#include <core.p4>").unwrap(), "\n#include <core.p4>");
        let json = program(b" {\"actions\": []}").unwrap_err();
        assert_eq!(json.code, Code::Unimplemented);
        assert!(json.text.contains("send the program's text"), "{}", json.text);
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
    fn what_is_wrong_with_a_program_is_told() {
        let wrong = compile("#include <core.p4>\nparser", Limits::default()).err().unwrap();
        assert_eq!(wrong.code, Code::InvalidArgument);
        assert!(wrong.text.contains("program.p4:2"), "{}", wrong.text);
        let file = compile("#include \"/etc/passwd\"\n", Limits::default()).err().unwrap();
        assert!(!file.text.contains("root:"), "{}", file.text);
    }
}
