//! `millrace test`: runs filetests (`.mill`) on the engines of this build.
//!
//! In: files, and folders that are searched for `*.mill` in the order of their names. Out: a line a
//! file, what went otherwise than expected with file and line, and a summary alone on its line:
//! `N passed, N failed, N skipped`. A file runs on every engine of this build, or on those that it
//! names: `interp`, `jit`, `jit(template=hash)`, `jit(no-decompose)`, `jit(template=decomposed,
//! one-column)`. One that names only engines
//! which this build lacks is skipped, and says so. With `--bless`, or `BLESS=1` in the environment, a failed file is rewritten
//! to what happened, and passes; read the difference.
//!
//! What a file may say is described at [`ir::text::filetest`].

use crate::cli::TestOptions;
use control::failure::Failure;
use datapath::filetest::{ENGINES, engine};
use ir::text::filetest::{Document, bless, run as run_document};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Folders within folders, at most: symbolic links can make a circle.
const DEPTH_MAX: usize = 32;

/// What became of a file.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// So many checks held.
    Passed { checks: usize },
    /// These did not: line in the file, and text.
    Failed(Vec<(u32, String)>),
    /// Rewritten to what happened; so many checks had failed.
    Blessed { rewritten: usize },
    /// Not run, and why.
    Skipped(String),
}

/// `millrace test`.
pub(crate) fn run(options: TestOptions) -> Result<(), Failure> {
    let rewrite = options.bless || std::env::var_os("BLESS").is_some_and(|v| v == "1");
    let mut files = Vec::new();
    for path in &options.files {
        collect(path, 0, &mut files)?;
    }
    if files.is_empty() {
        return Err(Failure::Bad("there is no .mill file in these folders".to_string()));
    }
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut rows = Vec::new();
    for path in files {
        let outcome = one(&path, rewrite)?;
        match &outcome {
            Outcome::Passed { .. } | Outcome::Blessed { .. } => passed += 1,
            Outcome::Failed(_) => failed += 1,
            Outcome::Skipped(_) => skipped += 1,
        }
        if options.json {
            rows.push(value(&path, &outcome));
        } else {
            print!("{}", text(&path, &outcome));
        }
    }
    if options.json {
        println!(
            "{}",
            json!({"passed": passed, "failed": failed, "skipped": skipped, "files": rows})
        );
    } else {
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
    if failed > 0 {
        let files = if failed == 1 { "file" } else { "files" };
        return Err(Failure::Bad(format!("{failed} {files} failed")));
    }
    Ok(())
}

/// Adds a file, or the `.mill` files of a folder and the folders in it.
fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| Failure::Bad(format!("cannot read {}: {e}", path.display()));
    if !std::fs::metadata(path).map_err(cannot)?.is_dir() {
        if depth == 0 || path.extension().is_some_and(|e| e == "mill") {
            files.push(path.to_path_buf());
        }
        return Ok(());
    }
    if depth == DEPTH_MAX {
        return Err(Failure::Bad(format!("{}: folders go too deep", path.display())));
    }
    let entries = std::fs::read_dir(path).map_err(cannot)?;
    let mut inside =
        entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(cannot)?;
    inside.sort();
    inside.iter().try_for_each(|p| collect(p, depth + 1, files))
}

fn one(path: &Path, rewrite: bool) -> Result<Outcome, Failure> {
    let source = std::fs::read_to_string(path)
        .map_err(|e| Failure::Bad(format!("cannot read {}: {e}", path.display())))?;
    let document = match Document::parse(&source) {
        Ok(document) => document,
        Err(error) => return Ok(Outcome::Failed(vec![(error.line, error.to_string())])),
    };
    if let Some(reason) = unfit(&document) {
        return Ok(Outcome::Skipped(reason));
    }
    let all = ENGINES.map(String::from).to_vec();
    let named = if document.engines.is_empty() { &all } else { &document.engines };
    let mut checks = 0;
    for name in named {
        let report = match engine(name) {
            Ok(Some(mut engine)) => run_document(&document, &mut *engine),
            Ok(None) => continue,
            Err(why) => return Ok(Outcome::Failed(vec![(0, format!("{name}: {why}"))])),
        };
        checks += report.checks;
        if report.failures.is_empty() {
            continue;
        }
        if rewrite {
            std::fs::write(path, bless(&source, &report))
                .map_err(|e| Failure::Bad(format!("cannot write {}: {e}", path.display())))?;
            return Ok(Outcome::Blessed { rewritten: report.failures.len() });
        }
        let failures = report.failures.into_iter();
        let on = |text: String| if name == "interp" { text } else { format!("{name}: {text}") };
        return Ok(Outcome::Failed(failures.map(|f| (f.line, on(f.text))).collect()));
    }
    Ok(Outcome::Passed { checks })
}

/// Why no engine of this build can run a file, if none can.
fn unfit(document: &Document) -> Option<String> {
    // `jit(template=lpm)` is the engine `jit`, told how.
    let word = |engine: &String| engine.split('(').next().unwrap_or(engine).trim().to_string();
    let named: Vec<String> = document.engines.iter().map(word).collect();
    if !named.is_empty() && !named.iter().any(|e| ENGINES.contains(&e.as_str())) {
        let wanted = document.engines.join(", ");
        return Some(format!("wants {wanted}; this build has {}", ENGINES.join(", ")));
    }
    if !document.tests.is_empty() && !document.tests.iter().any(|t| t == "run" || t == "plan") {
        let wanted = document.tests.join(", ");
        return Some(format!("tests {wanted}; this build tests run and plan"));
    }
    None
}

fn text(path: &Path, outcome: &Outcome) -> String {
    let path = path.display();
    match outcome {
        Outcome::Passed { checks } => format!("{path}: ok, {checks} checks\n"),
        Outcome::Blessed { rewritten } => {
            format!("{path}: rewritten, {rewritten} checks had failed\n")
        }
        Outcome::Skipped(reason) => format!("{path}: skipped: {reason}\n"),
        Outcome::Failed(failures) => {
            let mut out = format!("{path}: FAILED\n");
            for (line, text) in failures.iter().take(1) {
                out.push_str(&format!("  {path}:{line}: {text}\n"));
            }
            if failures.len() > 1 {
                out.push_str(&format!("  and {} more\n", failures.len() - 1));
            }
            out
        }
    }
}

fn value(path: &Path, outcome: &Outcome) -> Value {
    let file = path.display().to_string();
    match outcome {
        Outcome::Passed { checks } => json!({"file": file, "outcome": "passed", "checks": checks}),
        Outcome::Blessed { rewritten } => {
            json!({"file": file, "outcome": "blessed", "rewritten": rewritten})
        }
        Outcome::Skipped(reason) => json!({"file": file, "outcome": "skipped", "reason": reason}),
        Outcome::Failed(failures) => {
            let failures: Vec<Value> =
                failures.iter().map(|(line, text)| json!({"line": line, "text": text})).collect();
            json!({"file": file, "outcome": "failed", "failures": failures})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.mill");
        std::fs::write(&path, text).unwrap();
        one(&path, false).unwrap()
    }

    #[test]
    fn a_file_for_other_engines_is_skipped() {
        let Outcome::Skipped(reason) = outcome("test run\nengines asic(template=lpm)\n") else {
            panic!("it was not skipped");
        };
        assert_eq!(reason, "wants asic(template=lpm); this build has interp, jit");
    }

    #[test]
    fn a_file_that_is_none_fails_with_its_line() {
        let Outcome::Failed(failures) = outcome("test run\n\nnonsense here\n") else {
            panic!("it did not fail");
        };
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].0, 3);
    }

    #[test]
    fn a_folder_is_searched_for_mill_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        for name in ["b.mill", "a.mill", "sub/c.mill", "readme.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let mut files = Vec::new();
        collect(dir.path(), 0, &mut files).unwrap();
        let names: Vec<_> = files
            .iter()
            .map(|f| f.strip_prefix(dir.path()).unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["a.mill", "b.mill", "sub/c.mill"]);
        assert!(collect(&dir.path().join("none"), 0, &mut files).is_err());
    }
}
