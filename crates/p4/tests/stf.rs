//! The programs of `filetests/p4` with their packet tests, on the interpreter.

use std::path::Path;

#[test]
fn programs_forward_as_their_tests_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/p4");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().flatten().map(|e| e.path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "stf"));
    files.sort();
    assert!(!files.is_empty());
    for stf in files {
        let program = stf.with_extension("p4");
        let text = std::fs::read_to_string(&program).unwrap();
        let lowered = p4::with_stack(|| {
            let options = p4::preprocess::Options::default();
            let mut c = p4::front(&p4::preprocess::NoFiles, &options, &program, &text);
            let lowered = p4::lower::lower(&c.program, &mut c.diagnostics);
            assert_eq!(c.diagnostics.errors(), 0, "{}", c.diagnostics.render(&c.map));
            lowered
        });
        let mut control = p4::control::Control::new(lowered.unwrap()).unwrap();
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
