//! What the tests share: programs as they lie in the project.

#![allow(dead_code, unreachable_pub)]

use p4::control::Control;
use p4::lower::Lowered;
use std::path::{Path, PathBuf};

/// A folder of the project.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Files of a folder with this extension, in order.
pub fn files(name: &str, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder(name)).unwrap().flatten().map(|e| e.path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}

/// A program compiled; it has no errors.
pub fn compile(path: &Path, text: &str) -> Lowered {
    p4::with_stack(|| {
        let options = p4::preprocess::Options::default();
        let mut c = p4::front(&p4::preprocess::Disk, &options, path, text);
        assert_eq!(c.diagnostics.errors(), 0, "{}", c.diagnostics.render(&c.map));
        let lowered = p4::lower::lower(&c.program, &mut c.diagnostics);
        assert_eq!(c.diagnostics.errors(), 0, "{}", c.diagnostics.render(&c.map));
        lowered.unwrap()
    })
}

/// A program's file under control.
pub fn control(path: &Path) -> Control {
    Control::new(compile(path, &std::fs::read_to_string(path).unwrap())).unwrap()
}
