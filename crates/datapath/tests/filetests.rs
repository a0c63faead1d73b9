//! The compiling engine's test files, with every template; `millrace test` runs them as they say.

use datapath::compiled::{Options, Template};
use datapath::filetest::Compiled;
use ir::text::filetest::{Document, run};
use std::path::Path;

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
