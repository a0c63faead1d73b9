//! What the grammar accepts, and what is said of what it does not.

use super::*;
use crate::lex::lex;

fn run(text: &str) -> (Vec<String>, Vec<String>) {
    crate::with_stack(|| {
        let (decls, errors) = run_here(text);
        // Trees hold shared names and stay in their thread.
        let names = decls.iter().map(|d| d.name.name.to_string()).collect();
        drop(decls);
        (names, errors)
    })
}

fn run_here(text: &str) -> (Vec<Decl>, Vec<String>) {
    let mut d = Diagnostics::default();
    let mut tokens = lex(text, 1, &mut d);
    let end = Span { lo: text.len() as u32, hi: text.len() as u32 + 1 };
    tokens.push(Token { tok: Tok::Eof, span: end, first: true, spaced: true });
    let decls = parse(&tokens, &mut d);
    (decls, d.list().iter().map(|d| d.message.clone()).collect())
}

fn good(text: &str) -> Vec<Decl> {
    let (decls, errors) = run_here(text);
    assert!(errors.is_empty(), "{text}: {errors:?}");
    decls
}

fn value(text: &str) -> Expr {
    let mut decls = good(&format!("type bit<8> T; const T x = {text};"));
    match decls.pop().map(|d| d.kind) {
        Some(DeclKind::Const(_, e)) => e,
        other => panic!("{other:?}"),
    }
}

/// With every operation in parentheses.
fn shape(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Path(p) => p.ident.name.to_string(),
        ExprKind::Int(v, _) => v.to_string(),
        ExprKind::Binary(op, a, b) => format!("({} {} {})", shape(a), op.word(), shape(b)),
        ExprKind::Unary(op, a) => format!("({op:?} {})", shape(a)),
        ExprKind::Mux(c, a, b) => format!("({} ? {} : {})", shape(c), shape(a), shape(b)),
        ExprKind::Cast(_, a) => format!("(cast {})", shape(a)),
        ExprKind::Slice(a, h, l) => format!("{}[{}:{}]", shape(a), shape(h), shape(l)),
        ExprKind::Member(a, n) => format!("{}.{}", shape(a), n.name),
        ExprKind::Call(f, t, args) => format!("{}<{}>({})", shape(f), t.len(), args.len()),
        ExprKind::Type(_) => "type".to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn operators_bind_as_the_appendix_says() {
    for (text, want) in [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a | b ^ c & d == e", "((a | (b ^ (c & d))) == e)"),
        ("a << 1 >> 2", "((a << 1) >> 2)"),
        ("a > b", "(a > b)"),
        ("a >= b >> c", "(a >= (b >> c))"),
        ("a && b || c", "((a && b) || c)"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ++ b + c", "((a ++ b) + c)"),
        ("a |+| b |-| c", "((a |+| b) |-| c)"),
        ("-a.b[3:0]", "(Neg a.b[3:0])"),
        ("(T) a + b", "((cast a) + b)"),
        ("(T) -a", "(cast (Neg a))"),
        ("(a) - b", "(a - b)"),
        ("(T)(a)", "(cast a)"),
        ("(bit<8>) (a + b)", "(cast (a + b))"),
        ("f<bit<8>>(a)", "f<1>(1)"),
        ("f<tuple<bit<8>, T>>(a, b)", "f<1>(2)"),
        ("a < b", "(a < b)"),
        ("H<bit<8>>.size()", "type.size<0>(0)"),
        ("x.f<T>()", "x.f<1>(0)"),
        ("!a == b", "((LogicalNot a) == b)"),
    ] {
        assert_eq!(shape(&value(text)), want, "{text}");
    }
}

#[test]
fn everything_there_is() {
    good(
        "
        error { A, B }
        match_kind { m }
        typedef bit<(4 + 4)> byte;
        enum E { x, y, }
        enum bit<8> F { x = 1, y = 2 }
        header H<T> { T a; varbit<320> v; }
        header_union U { H<bit<8>> h; }
        struct S { @name(\"x\") bit a; int<4> b; tuple<bit<8>, bool> t; list<byte> l; H<byte>[4] s; }
        extern X<T> { X(bit<32> n); void f(in T a, @optional out bool b); abstract T g<D>(in D d = 3); }
        extern Opaque;
        extern void free<T>(in T t);
        extern bit<8> other();
        action top(in bit<8> a, bit<8> b) { exit; return; }
        bit<8> max(in bit<8> a, in bit<8> b) { return a > b ? a : b; }
        T id<T>(in T t) { return t; }
        parser P<H>(packet_in b, out H h);
        parser Q(packet_in b, out S s)(bit<8> n) {
            value_set<bit<8>>(4) vs;
            bit<8> local = 3;
            Sub(3) sub;
            state start {
                b.extract(s.x);
                bit<8> y;
                { y = 1; }
                transition select(s.a, b.lookahead<bit<8>>()) {
                    (1, 2): a;
                    (1 &&& 3, _): b;
                    (1 .. 3, default): reject;
                    vs: a;
                    default: accept;
                    _: accept;
                    (x): a;
                    (1 + 2) &&& 4: b;
                }
            }
            state a { transition accept; }
            state b { }
        }
        control C(inout S s) {
            X<bit<8>>(32w3) x = { bit<8> g(in bit<8> d) { return d; } };
            action act(bit<8> q) { s.a = q; }
            table t {
                key = { s.a : exact @name(\"a\"); s.b & 3 : ternary; }
                actions = { act; @defaultonly NoAction(); .top(s.a); }
                const default_action = NoAction();
                const entries = { (1, _) : act(3); const priority = 4 : (2, 1 &&& 3) : NoAction() @x; }
                @a size = 1024;
                implementation = action_profile(3);
            }
            apply {
                if (s.a == 1) { exit; } else if (t.apply().hit) x.f(s.a, _); else ;
                switch (t.apply().action_run) { act: { } NoAction: default: { return; } }
                switch (s.a) { 1: 2: { s.a += 1; s.a >>= 2; s.a |+|= 3; } }
                for (bit<8> i in 1 .. 10) { continue; }
                for (bit<8> i in { 1, 2 }) break;
                for (bit<8> i = 0, bit<8> j = 1; i < 10; i = i + 1, j += 2) { }
                S v = { a = 1, ... };
                s.h = {#};
                s = { 1, 2, ... };
                s[3:0] = 1;
                s[3+:4] = 1;
                s.st[3].setValid();
                f<bit<8>>(s.a, n = 3);
                .free(s);
                C() c;
                tuple<bit<8>> tt = { 3 };
                bool z = (bool) s.a;
                error e = error.A;
            }
        }
        @pkginfo(version=\"1\", a={b,(c)}) @structured[1, \"x\"] @kv[a=1, b=true] @e[]
        package Pkg<A>(P<A> p, @optional C c);
        const E e = E.x;
        Pkg<S>(Q(3), C()) main;
        ",
    );
}

#[test]
fn errors_are_told_where_they_are_and_the_rest_is_read() {
    let (decls, errors) = run("struct A { bit<8> a bit<8> b; }
         header H { bit<> x; bit<8> y; }
         control C() { apply { x = ; y == 3; foo(; } }
         parser P() { state start { transition selct; foo } }
         const int x = 3;
         contrl D() { apply {} }
         const int y = 4;");
    assert_eq!(
        errors,
        [
            "expected `;`, found the keyword `bit`",
            "expected a width: a number, or an expression in parentheses, found `>`",
            "expected an expression, found `;`",
            "expected `=` or `(`, found `==`",
            "expected an expression, found `;`",
            "nothing follows a state's transition",
            "expected a declaration, found `contrl`",
        ]
    );
    assert_eq!(decls, ["A", "H", "C", "P", "x", "y"]);
}

#[test]
fn any_nesting_ends_in_an_error() {
    for (open, n) in [("(", 5000), ("{", 5000), ("-", 5000), ("f(", 5000), ("a ? ", 5000)] {
        let (_, errors) = run(&format!("const int x = {}", open.repeat(n)));
        assert!(!errors.is_empty());
    }
    let (_, errors) = run(&format!("const int x = 1{};", " + 1".repeat(3000)));
    assert_eq!(errors, ["more than 2000 of these in a row"]);
    let (_, errors) = run(&format!("action a() {{ {} }}", "if (x) {".repeat(5000)));
    assert!(!errors.is_empty());
    let (_, errors) = run(&format!("const {} x = 1;", "tuple<".repeat(5000)));
    assert!(!errors.is_empty());
    let chain = "if (a) {} else ".repeat(1000);
    assert!(run(&format!("action a() {{ {chain} {{}} }}")).1.is_empty());
}
