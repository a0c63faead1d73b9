//! Diagnoses, whole: each program in `tests/golden` against the text beside it. `BLESS=1` rewrites the
//! texts; the difference is read.

use std::path::Path;

#[test]
fn diagnoses_are_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("BLESS").is_some_and(|v| v == "1");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().flatten().map(|e| e.path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "p4"));
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = Path::new(file.file_name().unwrap());
        let told = p4::with_stack(|| {
            let options = p4::preprocess::Options::default();
            let c = p4::front(&p4::preprocess::NoFiles, &options, name, &text);
            c.diagnostics.render(&c.map)
        });
        let beside = file.with_extension("txt");
        if bless {
            std::fs::write(&beside, &told).unwrap();
        } else if std::fs::read_to_string(&beside).unwrap_or_default() != told {
            wrong.push(format!("{}:\n{told}", name.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn json_holds_what_the_text_holds() {
    let text = "#include <core.p4>\nconst bit<8> x = 8w300;\nconst bool y = x;\n";
    let json = p4::with_stack(|| {
        let options = p4::preprocess::Options::default();
        let c = p4::front(&p4::preprocess::NoFiles, &options, Path::new("x.p4"), text);
        c.diagnostics.json(&c.map)
    });
    assert_eq!(json[0]["severity"], "warning");
    assert_eq!(json[1]["code"], "type-mismatch");
    assert_eq!(json[1]["place"]["line"], 3);
    assert_eq!(json[1]["place"]["column"], 16);
    assert_eq!(json[1]["help"], "compare it: `... != 0`");
}
