//! Short texts that would become large programs: each is refused, with its size, before it is built.
//! What is near the bounds and below them is compiled.

use p4::limits::Limits;
use std::fmt::Write as _;
use std::path::Path;

/// A program whose ingress has these declarations and statements.
fn program(top: &str, locals: &str, apply: &str) -> String {
    format!(
        "#include <core.p4>\n#include <v1model.p4>\n{top}\nheader b_t {{ bit<8> i; }}
        struct H {{ b_t[200] s; }} struct M {{ bit<32> x; int<32> y; }}
        parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {{
            state start {{ transition accept; }} }}
        control V(inout H h, inout M m) {{ apply {{}} }}
        control I(inout H h, inout M m, inout standard_metadata_t s) {{ {locals} apply {{ {apply} }} }}
        control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}
        control C(inout H h, inout M m) {{ apply {{}} }}
        control D(packet_out b, in H h) {{ apply {{}} }}
        V1Switch(P(), V(), I(), E(), C(), D()) main;"
    )
}

/// The codes and the first message of what is wrong with a program within these limits.
fn told(text: &str, limits: Limits) -> (Vec<&'static str>, String) {
    p4::with_stack(|| {
        let options = p4::preprocess::Options { limits, ..Default::default() };
        let mut c = p4::front(&p4::preprocess::NoFiles, &options, Path::new("x.p4"), text);
        if c.diagnostics.errors() == 0 {
            let _ = p4::lower::lower(&c.program, &mut c.diagnostics);
        }
        let errors: Vec<_> = c
            .diagnostics
            .list()
            .iter()
            .filter(|d| d.severity == p4::diag::Severity::Error)
            .collect();
        let first = errors.first().map(|d| d.message.clone()).unwrap_or_default();
        (errors.iter().map(|d| d.code).collect(), first)
    })
}

fn refused(text: &str, says: &str) {
    let (codes, message) = told(text, Limits::running(1));
    let code = codes.first().copied().unwrap_or("nothing");
    assert!(matches!(code, "too-large" | "too-deep"), "{code}: {message}");
    assert!(message.contains(says), "{message}");
}

#[test]
fn arrays_are_refused_with_their_size() {
    let wide = program("", "register<bit<2048>>(4294967295) r;", "");
    refused(&wide, "`I.r` of 4294967295 cells takes 1023.9 GiB");
    refused(&program("", "counter(4294967295, CounterType.packets) c;", ""), "the counter `I.c`");
    refused(
        &program("", "meter(4294967295, MeterType.bytes) m1; meter(9, MeterType.bytes) n;", ""),
        "the meter",
    );
    let many: String = (0..40).fold(String::new(), |mut all, i| {
        let _ = write!(all, "register<bit<64>>(2097152) r{i}; ");
        all
    });
    refused(&program("", &many, ""), "512 MiB in all");
    assert_eq!(
        told(&program("", "register<bit<32>>(1048576) r;", ""), Limits::running(16)).0.len(),
        0
    );
}

#[test]
fn instances_and_calls_that_double_are_refused() {
    let mut controls = String::from("control c0(inout bit<32> x) { apply { x = x + 1; } }\n");
    let mut functions = String::from("bit<32> f0(in bit<32> x) { return x; }\n");
    let mut sums = functions.clone();
    let mut structs = String::from("struct s0 { bit<32> a; }\n");
    let mut tuples = String::from("typedef tuple<bit<1>> t0;\n");
    for i in 1..40 {
        let n = i - 1;
        let _ = writeln!(
            controls,
            "control c{i}(inout bit<32> x) {{ c{n}() a; c{n}() b; apply {{ a.apply(x); b.apply(x); }} }}"
        );
        let _ =
            writeln!(functions, "bit<32> f{i}(in bit<32> x) {{ return f{n}(x) + f{n}(x + 1); }}");
        let _ = writeln!(sums, "bit<32> f{i}(in bit<32> x) {{ return f{n}(x + x); }}");
        let _ = writeln!(structs, "struct s{i} {{ s{n} a; s{n} b; }}");
        let _ = writeln!(tuples, "typedef tuple<t{n}, t{n}> t{i};");
    }
    refused(&program(&controls, "c39() c;", "c.apply(m.x);"), "1000000 steps");
    refused(&program(&functions, "", "m.x = f39(m.x);"), "written out in place");
    refused(&program(&structs, "s39 q;", ""), "single values");
    refused(&program(&tuples, "t39 q;", ""), "single values");
    // An argument that doubles with each call is one value all the way.
    assert_eq!(told(&program(&sums, "", "m.x = f39(m.x);"), Limits::running(1)).0.len(), 0);
}

#[test]
fn nesting_is_refused_before_the_stack_ends() {
    let (mut chain, mut structs) = (
        String::from("bit<32> f0(in bit<32> x) { return x; }\n"),
        String::from("struct s0 { bit<8> a; }\n"),
    );
    for i in 1..3000 {
        let n = i - 1;
        let _ = writeln!(chain, "bit<32> f{i}(in bit<32> x) {{ return f{n}(x); }}");
        let _ = writeln!(structs, "struct s{i} {{ s{n} a; }}");
    }
    refused(&program(&chain, "", "m.x = f2999(m.x);"), "nested more than 128 deep");
    refused(&program(&structs, "s2999 q;", ""), "types deep");
}

#[test]
fn loops_and_stacks_and_saturation_are_refused() {
    let loops =
        "for (bit<32> i = 0; i < 1000; i = i + 1) { for (bit<32> j = 0; j < 1000; j = j + 1) {
        for (bit<32> k = 0; k < 1000; k = k + 1) { m.x = k; } } }";
    refused(&program("", "", loops), "steps");
    let index = "h.s[h.s[h.s[h.s[m.x].i].i].i].i = 1;";
    refused(&program("", "", index), "steps");
    let sum = format!("m.y = {};", vec!["m.y"; 40].join(" |+| "));
    refused(&program("", "", &sum), "steps");
    // Each default stands behind a hit and behind a miss.
    let mut switches = String::from("m.x = 1;");
    for _ in 0..60 {
        switches = format!(
            "switch (t.apply().action_run) {{ NoAction: {{ }} default: {{ {switches} }} }}"
        );
    }
    let table = "table t { key = { m.x: exact; } actions = { NoAction; } }";
    refused(&program("", table, &switches), "steps");
}

/// A field list is named by a number, a constant, or a member of an enum, and by nothing else.
#[test]
fn field_lists_are_named_by_what_there_is() {
    let of = |list: &str| {
        let text = program("const int KEPT = 3; const bool NO = true;", "", "");
        let meta = format!("struct M {{ @field_list({list}) bit<32> x; int<32> y; }}");
        text.replace("struct M { bit<32> x; int<32> y; }", &meta)
    };
    for good in ["1", "KEPT", "1, KEPT, 2"] {
        let (codes, message) = told(&of(good), Limits::running(1));
        assert!(codes.is_empty(), "{good}: {message}");
    }
    for (bad, named) in [("NONE", "NONE"), ("NO", "NO"), ("1, 256", "256"), ("Lists.a", "Lists.a")]
    {
        let (_, message) = told(&of(bad), Limits::running(1));
        assert!(
            message.starts_with(&format!("@field_list({named}): a number")),
            "{bad}: {message}"
        );
    }
}
