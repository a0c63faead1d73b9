//! P4 programs with their packet tests, compiled; and what such tests cannot say, on both engines: random
//! numbers and digests.

use datapath::compiled::Options;
use datapath::filetest::Compiled;
use ir::Bits;
use ir::text::filetest::{Engine, Event, Injected, Outcome};
use p4::control::Control;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn project(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)
}

fn control(path: &Path) -> Control {
    let text = std::fs::read_to_string(path).unwrap();
    let lowered = p4::with_stack(|| {
        let mut c = p4::front(&p4::preprocess::Disk, &Default::default(), path, &text);
        p4::lower::lower(&c.program, &mut c.diagnostics)
    });
    Control::new(lowered.unwrap()).unwrap()
}

#[test]
fn packet_tests_hold_compiled() {
    let mut tests = 0;
    for folder in ["filetests/p4", "examples/p4"] {
        for file in std::fs::read_dir(project(folder)).unwrap() {
            let stf = file.unwrap().path();
            if stf.extension().is_none_or(|e| e != "stf") {
                continue;
            }
            let mut control = control(&stf.with_extension("p4"));
            let test = std::fs::read_to_string(&stf).unwrap();
            let mut engine = Compiled::new(Options::default()).unwrap();
            let (checks, failures) = p4::stf::run(&test, &mut control, &mut engine);
            assert!(failures.is_empty(), "{}: {failures:#?}", stf.display());
            assert!(checks > 0);
            tests += 1;
        }
    }
    assert!(tests > 10);
}

fn engines() -> [Box<dyn Engine>; 2] {
    let compiled = Compiled::new(Options::default()).unwrap();
    [Box::new(interp::filetest::Interpreter::new()), Box::new(compiled)]
}

/// What becomes of a packet of `externs.p4`.
fn send(engine: &mut dyn Engine, bytes: [u8; 8]) -> Outcome {
    engine.packet(&Injected { bytes: &bytes, in_port: 0, now_ns: 1 })
}

#[test]
fn random_numbers_fill_their_range_and_stay_in_it() {
    for mut engine in engines() {
        let control = control(&project("filetests/p4/externs.p4"));
        engine.load(&control.pipeline);
        let mut seen = BTreeSet::new();
        for _ in 0..400 {
            let outcome = send(&mut *engine, [3, 0, 0, 0, 0, 0, 0, 0]);
            let [Event::Out { port: 1, bytes, .. }] = &outcome.events[..] else {
                panic!("{outcome:?}")
            };
            seen.insert(u32::from_be_bytes(bytes[4..8].try_into().unwrap()));
        }
        assert_eq!(seen, BTreeSet::from([10, 11, 12, 13]));
    }
}

#[test]
fn a_digest_goes_to_the_control_plane_and_the_packet_its_way() {
    for mut engine in engines() {
        let control = control(&project("filetests/p4/externs.p4"));
        engine.load(&control.pipeline);
        let outcome = send(&mut *engine, [4, 0x21, 0x43, 0x65, 0, 0, 0, 0]);
        let digests: Vec<&[Bits]> = outcome
            .events
            .iter()
            .filter_map(|e| match e {
                Event::Digest { args, .. } => Some(&args[..]),
                _ => None,
            })
            .collect();
        assert_eq!(digests, [&[Bits::from_u128(0x21, 8), Bits::from_u128(0x4365, 16)][..]]);
        let left = |e: &Event| matches!(e, Event::Out { port: 1, bytes, .. } if bytes[0] == 4);
        assert!(outcome.events.iter().any(left), "{outcome:?}");
    }
}
