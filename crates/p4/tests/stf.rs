//! The programs of `filetests/p4` and `examples/p4` with their packet tests, on the interpreter.

mod common;

use common::{control, files};
use std::path::Path;

#[test]
fn programs_forward_as_their_tests_say() {
    let all = [files("filetests/p4", "stf"), files("examples/p4", "stf")].concat();
    assert!(all.len() > 2);
    for stf in all {
        let mut control = control(&stf.with_extension("p4"));
        let printed = ir::text::print_pipeline(&control.pipeline);
        let again = ir::text::pipeline(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert_eq!(printed, ir::text::print_pipeline(&again));
        let test = std::fs::read_to_string(&stf).unwrap();
        let mut engine = interp::filetest::Interpreter::new();
        let (checks, failures) = p4::stf::run(&test, &mut control, &mut engine);
        assert!(checks > 0);
        assert!(failures.is_empty(), "{}: {failures:#?}", stf.display());
    }
}

#[test]
fn what_cannot_be_said_is_refused_with_its_place() {
    let text = "#include <core.p4>\npackage Other(); Other() main;";
    let told = p4::with_stack(|| {
        let options = p4::preprocess::Options::default();
        let mut c = p4::front(&p4::preprocess::NoFiles, &options, Path::new("x.p4"), text);
        assert!(p4::lower::lower(&c.program, &mut c.diagnostics).is_none());
        c.diagnostics.render(&c.map)
    });
    assert!(told.contains("the architecture of `Other` is not supported"), "{told}");
}

#[test]
fn any_text_is_run_to_its_end() {
    let names = ["profiles", "externs"];
    let programs = names.map(|name| {
        let path = files("filetests/p4", "stf")[0].with_file_name(format!("{name}.p4"));
        common::compile(&path, &std::fs::read_to_string(&path).unwrap())
    });
    let engine = || -> Box<dyn ir::text::filetest::Engine> {
        Box::new(interp::filetest::Interpreter::new())
    };
    let mut random = ir::testing::Rng::new(11);
    for (name, program) in names.iter().zip(&programs) {
        let path = files("filetests/p4", "stf")[0].with_file_name(format!("{name}.stf"));
        let text = std::fs::read_to_string(path).unwrap();
        p4::stf::fuzz(program, engine, text.as_bytes());
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        for _ in 0..200 {
            // Some lines in any order, some octets of them changed, doubled or left out.
            let n = random.below(12);
            let mut bytes: Vec<u8> =
                (0..n).flat_map(|_| [random.pick(&lines).as_bytes(), b"\n"].concat()).collect();
            for _ in 0..random.below(6) {
                if bytes.is_empty() {
                    break;
                }
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => drop(bytes.remove(at)),
                    2 => bytes.insert(at, random.pick(b" :0*-$(")),
                    _ => bytes.truncate(at),
                }
            }
            p4::stf::fuzz(program, engine, &bytes);
        }
    }
}
