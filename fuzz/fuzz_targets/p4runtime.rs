//! Messages of P4Runtime, and writes into a program. The body is in the crate.
#![no_main]

use p4_runtime::config::{Built, compile};
use p4_runtime::device::Device;
use std::sync::{Arc, LazyLock};

/// Tables of every match kind, groups, registers, meters, value sets; action profiles and selectors.
static PROGRAMS: LazyLock<[Built; 2]> = LazyLock::new(|| {
    [
        include_str!("../../filetests/p4/everything.p4"),
        include_str!("../../filetests/p4/profiles.p4"),
    ]
    .map(|text| match compile(text, p4::limits::Limits::default()) {
        Ok(built) => built,
        Err(fault) => panic!("{}", fault.text),
    })
});

/// A running device of the first of them.
static DEVICE: LazyLock<Arc<Device>> = LazyLock::new(|| {
    let text = include_str!("../../filetests/p4/everything.p4");
    match compile(text, p4::limits::Limits::default()) {
        Ok(built) => p4_runtime::fuzz::device(text, built),
        Err(fault) => panic!("{}", fault.text),
    }
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((255, rest)) = data.split_first() {
        return p4_runtime::fuzz::requests(&DEVICE, rest);
    }
    for program in &*PROGRAMS {
        p4_runtime::fuzz::fuzz(&program.lowered, &program.info, data);
    }
});
