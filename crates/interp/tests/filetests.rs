//! Every test file that names the interpreter, or no engine.

use interp::filetest::Interpreter;
use ir::text::filetest::{Document, run};
use std::path::{Path, PathBuf};

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "mill") {
            out.push(path);
        }
    }
}

#[test]
fn every_file_holds() {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests"), &mut paths);
    paths.sort();
    let mut failures = Vec::new();
    for path in &paths {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy();
        match Document::parse(&text) {
            Err(e) => failures.push(format!("{name}: {e}")),
            Ok(doc) => {
                let ours = doc.engines.is_empty() || doc.engines.iter().any(|e| e == "interp");
                if ours && doc.tests.iter().any(|t| t == "run") {
                    let report = run(&doc, &mut Interpreter::new());
                    failures.extend(report.failures.iter().map(|f| format!("{name}: {f}")));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A file of our own, so that runner and trace are tested wherever this is built.
#[test]
fn a_small_file_holds() {
    let text = "; The longest prefix wins, whatever the order of arrival.
test run
action forward(port: 32) { output port }
table route { key ipv4.dst lpm; actions forward drop }
entry route 10.1.0.0/16 => forward(2)
entry route 10.0.0.0/8 => forward(1)
packet in=7 eth/ipv4(dst=10.1.2.3)/udp
; expect out=2 same
; trace route: 10.1.0.0/16 -> forward(2)
; trace key: 10.1.2.3
; trace verdict: forward
; stats table route: lookups 1, hits 1
packet in=7 eth/ipv4(dst=10.2.2.3)/udp
; expect out=1 same
; trace route: 10.0.0.0/8 -> forward(1)
packet in=7 eth/ipv4(dst=11.2.2.3)/udp
; expect drop table_miss
";
    let doc = Document::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let report = run(&doc, &mut Interpreter::new());
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(report.checks >= 8);
}
