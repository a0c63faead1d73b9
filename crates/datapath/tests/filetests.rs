//! The compiling engine's test files, with every template; `millrace test` runs them as they say.

use datapath::compiled::{Options, Template};
use datapath::filetest::{Compiled, ENGINES, engine};
use ir::text::filetest::{Document, run};
use std::path::{Path, PathBuf};

#[test]
fn files_hold_in_every_way() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/jit");
    let mut ways = vec![
        Options::default(),
        Options { direct_max: 0, ..Options::default() },
        Options { passes: opt::Options::none(), ..Options::default() },
    ];
    for template in Template::all() {
        ways.push(Options { template: Some(template), ..Options::default() });
    }
    let mut failures = Vec::new();
    let mut checks = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let document = Document::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for options in &ways {
            let way = options.template.map_or("jit".to_string(), |t| t.to_string());
            let report = run(&document, &mut Compiled::new(options.clone()).unwrap());
            checks += report.checks;
            let named = |f| format!("{} on {way}: {f}", path.display());
            failures.extend(report.failures.iter().map(named));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(checks > 100);
}

/// The `.mill` files of a folder and of those in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let inside = folders.iter().flat_map(|folder| self::files(folder));
    let own = files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "mill"));
    own.chain(inside).collect()
}

/// As `millrace test` runs them; here for a build that has no command.
#[test]
fn all_files_hold_on_the_engines_that_they_name() {
    let (mut ran, mut failures) = (0, Vec::new());
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests")) {
        let document = Document::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let all = ENGINES.map(String::from).to_vec();
        let named = if document.engines.is_empty() { &all } else { &document.engines };
        for name in named {
            let Some(mut engine) = engine(name).unwrap() else { continue };
            let report = run(&document, &mut *engine);
            ran += 1;
            failures.extend(
                report.failures.iter().map(|f| format!("{} on {name}: {f}", path.display())),
            );
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(ran > 80, "{ran}");
}
