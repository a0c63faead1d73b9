//! How many of p4c's v1model samples pass their STF tests on the interpreter.
//!
//!     cargo run --release -p p4 --example stf_samples -- P4C_CHECKOUT [NAME | --p4-14]
//!
//! With `--p4-14`, the tests of P4-14 programs on their translations. Prints what failed, and why. With a name, only samples whose name holds it.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;

fn one(p4_file: &Path, stf: &Path) -> Result<usize, String> {
    let text =
        String::from_utf8_lossy(&std::fs::read(p4_file).map_err(|e| e.to_string())?).into_owned();
    let test =
        String::from_utf8_lossy(&std::fs::read(stf).map_err(|e| e.to_string())?).into_owned();
    p4::with_stack(|| {
        std::panic::catch_unwind(AssertUnwindSafe(|| {
            let options = p4::preprocess::Options::default();
            let mut c = p4::front(&p4::preprocess::Disk, &options, p4_file, &text);
            if c.diagnostics.errors() > 0 {
                return Err(format!("check\n{}", c.diagnostics.render(&c.map)));
            }
            let Some(lowered) = p4::lower::lower(&c.program, &mut c.diagnostics) else {
                return Err(format!("lower\n{}", c.diagnostics.render(&c.map)));
            };
            let mut control =
                p4::control::Control::new(lowered).map_err(|e| format!("lower {e}"))?;
            let mut engine = interp::filetest::Interpreter::new();
            // One test was written for a switch whose counters count frame check sequences.
            let check_sequence = stf.file_stem().is_some_and(|s| s == "counter3");
            let options = p4::stf::Options { check_sequence };
            let (checks, failures) = p4::stf::run_with(&test, &mut control, &mut engine, options);
            match failures.first() {
                None => Ok(checks),
                Some(f) => {
                    Err(format!("run line {}: {} ({} failures)", f.line, f.text, failures.len()))
                }
            }
        }))
        .unwrap_or_else(|_| Err("panic".into()))
    })
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(root) = args.first().map(Path::new) else {
        eprintln!("usage: stf_samples P4C_CHECKOUT [NAME]");
        std::process::exit(2);
    };
    let old = args.iter().any(|a| a == "--p4-14");
    let folder = root.join(if old { "testdata/p4_14_samples" } else { "testdata/p4_16_samples" });
    let translated = root.join("testdata/p4_14_samples_outputs");
    let mut tests: Vec<_> = [folder.clone(), folder.join("parser-inline")]
        .iter()
        .flat_map(|f| std::fs::read_dir(f).into_iter().flatten().flatten().map(|e| e.path()))
        .collect();
    tests.retain(|p: &std::path::PathBuf| p.extension().is_some_and(|e| e == "stf"));
    tests.sort();
    let (mut passed, mut all) = (0, 0);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for stf in tests {
        // P4-14 programs lie translated in a folder of their own.
        let name = stf.with_extension("p4");
        let program = match name.file_name() {
            Some(name) if !stf.with_extension("p4").exists() || old => translated.join(name),
            _ => name.clone(),
        };
        let text =
            String::from_utf8_lossy(&std::fs::read(&program).unwrap_or_default()).into_owned();
        let name = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !text.contains("v1model.p4")
            || args.get(1).is_some_and(|n| !n.starts_with("--") && !name.contains(n.as_str()))
        {
            continue;
        }
        all += 1;
        match one(&program, &stf) {
            Ok(_) => passed += 1,
            Err(why) => {
                println!("{name}: {why}");
                let kind = why.split_whitespace().next().unwrap_or("").to_string();
                *kinds.entry(kind).or_default() += 1;
            }
        }
    }
    println!("{passed} of {all} pass; failures by stage: {kinds:?}");
}
