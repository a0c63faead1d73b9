//! Packet tests of a P4 program. The body is in the crate.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

/// Tables of every match kind, groups, registers, meters, digests; action profiles and selectors.
static PROGRAMS: LazyLock<[p4::lower::Lowered; 2]> = LazyLock::new(|| {
    [
        include_str!("../../filetests/p4/externs.p4"),
        include_str!("../../filetests/p4/profiles.p4"),
    ]
    .map(|text| {
        p4::with_stack(|| {
            let options = p4::preprocess::Options::default();
            let path = Path::new("program.p4");
            let mut c = p4::front(&p4::preprocess::NoFiles, &options, path, text);
            p4::lower::lower(&c.program, &mut c.diagnostics).expect("the program is good")
        })
    })
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for program in &*PROGRAMS {
        p4::stf::fuzz(program, || Box::new(interp::filetest::Interpreter::new()), data);
    }
});
