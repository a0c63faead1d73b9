//! `p4c-bm2-ss` and `p4c --target bmv2`: a program is checked, and written with its P4Info.
//!
//! What is written in place of bmv2's JSON is the program with its files ([`p4::packed`]). `SetForwardingPipelineConfig` and
//! `millrace run --p4` take it.

use crate::Refused;
use clap::Parser;
use p4::limits::Limits;
use p4::packed;
use p4::preprocess::Options as Preprocess;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Bytes of a program's own file, at most.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// What both programs take.
#[derive(clap::Args, Debug)]
struct Common {
    /// The program
    #[arg(value_name = "FILE.p4")]
    file: PathBuf,
    /// A folder to search for included files
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// A macro defined from the start
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// The version of the language: 16
    #[arg(long, visible_aliases = ["std", "p4-version"], value_name = "VERSION", default_value = "16")]
    p4v: String,
    /// Files for the P4Info, separated by commas; what ends in .bin, .binpb or .p4info.bin is written as bytes, the rest as text
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    p4runtime_files: Vec<PathBuf>,
    /// A file for the P4Info
    #[arg(long, value_name = "FILE")]
    p4runtime_file: Option<PathBuf>,
    /// How --p4runtime-file is written: text, binary
    #[arg(long, value_name = "FORM", default_value = "binary")]
    p4runtime_format: String,
    /// Without effect: externs are those of v1model
    #[arg(long)]
    emit_externs: bool,
    /// Without effect: diagnoses are always told
    #[arg(long = "Wdisable", value_name = "KIND", num_args = 0..=1, require_equals = true)]
    without_warnings: Vec<String>,
}

/// Compile a P4-16 program for v1model: check it, and write its P4Info and itself as JSON
#[derive(Parser, Debug)]
#[command(name = "p4c-bm2-ss", version)]
struct ForBmv2 {
    #[command(flatten)]
    common: Common,
    /// Where the JSON goes
    #[arg(short, long = "output", visible_alias = "toJSON", value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Compile a P4-16 program for v1model: check it, and write its P4Info and itself as JSON
#[derive(Parser, Debug)]
#[command(name = "p4c", version)]
struct Driver {
    #[command(flatten)]
    common: Common,
    /// The target: bmv2
    #[arg(short = 'b', long, value_name = "TARGET", default_value = "bmv2")]
    target: String,
    /// The architecture: v1model
    #[arg(short = 'a', long, value_name = "ARCH", default_value = "v1model")]
    arch: String,
    /// The folder for FILE.json
    #[arg(short, long = "output", value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// What is to be written, and what is to be told beside it.
struct Asked {
    common: Common,
    json: Option<PathBuf>,
}

/// A file to be written: the P4Info as bytes.
fn is_binary(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "bin" || end == "binpb")
}

fn of_bmv2(call: &[OsString]) -> Result<Asked, Refused> {
    let ForBmv2 { common, out } = ForBmv2::try_parse_from(call)?;
    Ok(Asked { common, json: out })
}

fn of_driver(call: &[OsString]) -> Result<Asked, Refused> {
    let Driver { common, target, arch, out } = Driver::try_parse_from(call)?;
    if target != "bmv2" {
        return Err(Refused::Usage(format!("--target {target}: bmv2 is the only target")));
    }
    if arch != "v1model" {
        return Err(Refused::Usage(format!("--arch {arch}: v1model is the only architecture")));
    }
    let stem = common.file.file_stem().unwrap_or_default();
    let json = out.join(stem).with_extension("json");
    Ok(Asked { common, json: Some(json) })
}

/// Does a call of `p4c-bm2-ss` (`driver`: of `p4c`); the text is for standard error.
pub fn run(call: &[OsString], driver: bool) -> Result<String, Refused> {
    let Asked { common, json } = if driver { of_driver(call)? } else { of_bmv2(call)? };
    if !matches!(&common.p4v[..], "16" | "p4-16" | "p4_16") {
        return Err(Refused::Usage(format!("--p4v {}: P4-16 is the only version", common.p4v)));
    }
    let as_text = match &common.p4runtime_format[..] {
        "text" => true,
        "binary" => false,
        other => {
            return Err(Refused::Usage(format!("--p4runtime-format {other}: text or binary")));
        }
    };
    let mut told = String::new();
    if common.emit_externs {
        told.push_str("--emit-externs has no effect: externs are those of v1model\n");
    }
    if !common.without_warnings.is_empty() {
        told.push_str("--Wdisable has no effect: warnings are always told\n");
    }
    let name = common.file.display();
    let text = p4::file::read_text(&common.file, TEXT_BYTES_MAX)
        .map_err(|e| Refused::Usage(format!("{name}: {e}")))?;
    let define = |text: &String| match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (text.clone(), "1".to_owned()),
    };
    let options = Preprocess {
        include: common.include.clone(),
        define: common.define.iter().map(define).collect(),
        limits: Limits::default(),
    };
    let (diagnoses, built) = p4::with_stack(|| {
        let (mut c, packed) = packed::pack(&options, &common.file, &text);
        let lowered = match c.diagnostics.errors() {
            0 => p4::lower::lower(&c.program, &mut c.diagnostics),
            _ => None,
        };
        let built = lowered.map(|lowered| {
            let text = p4::info::to_text(&c.program, &lowered);
            let bytes = p4::info::to_bytes(&c.program, &lowered);
            (packed.to_json(), text, bytes)
        });
        (c.diagnostics.render(&c.map), built)
    });
    told.push_str(&diagnoses);
    let Some((packed, text, bytes)) = built else {
        return Err(Refused::Bad(format!("{told}{name} was not compiled")));
    };
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::write(path, bytes).map_err(|e| Refused::Bad(format!("{}: {e}", path.display())))
    };
    if let Some(path) = &json {
        write(path, packed.as_bytes())?;
    }
    for path in &common.p4runtime_files {
        write(path, if is_binary(path) { &bytes } else { text.as_bytes() })?;
    }
    if let Some(path) = &common.p4runtime_file {
        write(path, if as_text { text.as_bytes() } else { &bytes })?;
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../filetests/p4/everything.p4");

    fn call(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    /// The call of the tutorials' makefile.
    #[test]
    fn a_program_is_written_with_its_p4info() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (json, text, bytes) = (at("a.json"), at("a.p4.p4info.txtpb"), at("a.bin"));
        let files = format!("{text},{bytes}");
        let words =
            call(&["p4c-bm2-ss", "--p4v", "16", "--p4runtime-files", &files, "-o", &json, PROGRAM]);
        run(&words, false).unwrap();
        let written = std::fs::read_to_string(&json).unwrap();
        assert!(packed::is_packed(&written));
        assert_eq!(packed::unpack(&written).unwrap().path(), Path::new(PROGRAM));
        assert!(std::fs::read_to_string(&text).unwrap().contains("\ntables {"));
        assert!(!std::fs::read(&bytes).unwrap().starts_with(b"#"));
    }

    #[test]
    fn the_driver_names_its_json_by_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().display().to_string();
        let words = call(&["p4c", "--target", "bmv2", "--arch", "v1model", "-o", &out, PROGRAM]);
        run(&words, true).unwrap();
        assert!(folder.path().join("everything.json").exists());
    }

    #[test]
    fn what_is_not_served_is_refused() {
        let text = |words: &[&str], driver| run(&call(words), driver).unwrap_err().to_string();
        let refused = text(&["p4c", "--target", "ebpf", PROGRAM], true);
        assert_eq!(refused, "--target ebpf: bmv2 is the only target");
        let refused = text(&["p4c", "--arch", "psa", PROGRAM], true);
        assert_eq!(refused, "--arch psa: v1model is the only architecture");
        let refused = text(&["p4c-bm2-ss", "--p4v", "14", PROGRAM], false);
        assert_eq!(refused, "--p4v 14: P4-16 is the only version");
        let refused = text(&["p4c-bm2-ss", "--p4runtime-format", "xml", PROGRAM], false);
        assert_eq!(refused, "--p4runtime-format xml: text or binary");
        assert!(text(&["p4c-bm2-ss", "--dump", "x", PROGRAM], false).contains("--dump"));
        assert!(text(&["p4c-bm2-ss", "/nowhere.p4"], false).starts_with("/nowhere.p4: "));
        let told = run(&call(&["p4c-bm2-ss", "--emit-externs", PROGRAM]), false).unwrap();
        assert!(told.starts_with("--emit-externs has no effect"), "{told}");
    }

    #[test]
    fn a_wrong_program_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("wrong.p4"), "parser").unwrap();
        let words = call(&["p4c-bm2-ss", "-o", &at("w.json"), &at("wrong.p4")]);
        let refused = run(&words, false).unwrap_err().to_string();
        assert!(
            refused.contains("wrong.p4:1") && refused.ends_with("was not compiled"),
            "{refused}"
        );
        assert!(!folder.path().join("w.json").exists());
    }
}
