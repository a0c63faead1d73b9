//! What no code is made for, and how long code is kept.

use super::operators::BINARY;
use super::*;

#[test]
fn what_is_not_worth_it_is_refused_with_a_reason() {
    function(|b, _| {
        let wide = Val::zero(value::WIDTH_MAX);
        let bit = Val::bool(true);
        let refused = wide.concat(b, &bit).unwrap_err();
        assert_eq!(refused, Unsupported::Width(4097));
        assert_eq!(refused.to_string(), "value of 4097 bits; generated code handles up to 4096");
        let wider = Val::zero(value::WIDTH_MAX + 1);
        assert!(Val::binary(b, BinaryOp::Add, &bit, &wider).is_err());
        assert!(Val::unary(b, UnaryOp::Not, &wider).is_err());
        let flag = b.ins().iconst(types::I64, 1);
        let flag = Val::from_i64(b, flag, 1);
        assert_eq!(Val::mux(b, &flag, &bit, &wide).unwrap_err(), Unsupported::Choice(1, 4096));
        assert_eq!(Val::mux(b, &bit, &bit, &wide).unwrap().width, 1);
    });
}

#[test]
fn what_is_known_emits_nothing() {
    let function = function(|b, [input, _, _]| {
        let seven = Val::constant(b, &Bits::from_u128(7, 300));
        let byte = value::load_be(b, input, 0, 0, 8, 0..1);
        let instructions = b.func.dfg.num_insts();
        let known = |val: Val, expected: u128| {
            assert_eq!(val.as_const(), Some(Bits::from_u128(expected, val.width)));
        };
        let mut binary = |op, x: &Val, y: &Val| Val::binary(b, op, x, y).unwrap();
        for op in BINARY.into_iter().filter(|op| *op != BinaryOp::Mul) {
            assert!(binary(op, &seven, &seven).as_const().is_some(), "{op:?}");
        }
        let zero = Val::zero(8);
        let high = Val::zero(64);
        known(binary(BinaryOp::And, &byte, &zero), 0);
        known(binary(BinaryOp::Xor, &byte, &byte), 0);
        known(binary(BinaryOp::Sub, &byte, &byte), 0);
        known(binary(BinaryOp::Eq, &byte, &byte), 1);
        known(binary(BinaryOp::Le, &byte, &byte), 1);
        known(binary(BinaryOp::Ge, &byte, &zero), 1);
        known(binary(BinaryOp::Lt, &byte, &zero), 0);
        let wide = binary(BinaryOp::Concat, &high, &byte);
        let large = binary(BinaryOp::Concat, &seven, &high);
        known(binary(BinaryOp::Eq, &wide, &large), 0);
        known(binary(BinaryOp::Lt, &wide, &large), 1);
        // No mask for bits that are zero anyway.
        assert_eq!(wide.cast(b, 8).limbs(b), byte.limbs(b));
        assert_eq!(wide.slice(b, 7, 0).limbs(b), byte.limbs(b));
        assert!(b.func.dfg.num_insts() <= instructions + 4, "{}", b.func);
    });
    assert!(function.dfg.num_insts() < 16);
}

#[test]
fn code_that_refers_to_something_is_refused() {
    let isa = isa::host(Settings::default()).unwrap();
    let calls = function(|b, _| {
        let signature = b.import_signature(Signature::new(CallConv::SystemV));
        let name = b.func.declare_imported_user_function(UserExternalName::new(0, 1));
        let name = ExternalName::user(name);
        let callee =
            b.import_function(ExtFuncData { name, signature, colocated: false, patchable: false });
        b.ins().call(callee, &[]);
    });
    let error = isa::compile_function(&*isa, calls, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "function u0:0 needs 1 relocations; generated code must need none"
    );
    // And what is no program at all is an error of the verifier, where that runs.
    if !cfg!(debug_assertions) {
        return;
    }
    let wrong = function(|b, [input, ..]| {
        let narrow = b.ins().iconst(types::I32, 1);
        b.ins().iadd(input, narrow);
    });
    let error = isa::compile_function(&*isa, wrong, false).unwrap_err();
    assert!(matches!(&error, isa::Error::Compile { .. }), "{error}");
}

#[test]
fn code_is_freed_with_its_last_user() {
    let _alone = MAPPED.write().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(memory::live_bytes(), 0);
    let isa = isa::host(Settings::default()).unwrap();
    let one =
        function(|b, [_, buffer, _]| value::store_be(b, buffer, 0, 0, 16, 0..2, &Val::bool(true)));
    let two =
        function(|b, [_, buffer, _]| value::store_be(b, buffer, 0, 0, 16, 0..2, &Val::zero(1)));
    let machines: Vec<Machine> = [&one, &two]
        .into_iter()
        .map(|f| isa::compile_function(&*isa, f.clone(), true).unwrap())
        .collect();
    assert!(machines[0].disasm.as_ref().is_some_and(|text| text.contains("ret")));
    let mut entries = memory::publish_many(&machines).unwrap();
    for (entry, machine) in entries.iter().zip(&machines) {
        assert_eq!(entry.bytes(), machine.bytes);
        assert_eq!(entry.address() as usize % machine.align as usize, 0);
    }
    // Both lie in one mapping, executable and not writable, as long as either is used.
    let permissions = |address: usize| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let [start, end] = [start, end].map(|s| usize::from_str_radix(s, 16).unwrap());
            (start..end).contains(&address).then(|| rest[..4].to_owned())
        })
    };
    let [first, second] = [0, 1].map(|i: usize| entries[i].address() as usize);
    assert_eq!(first / 4096, second / 4096);
    assert_eq!(permissions(first).as_deref(), Some("r-xp"));
    assert_eq!(memory::live_bytes(), 4096);
    let last = entries.pop().unwrap();
    drop(entries);
    let run = Run {
        input: Vec::new(),
        buffer: vec![9; 4],
        base: 1,
        buffer_after: Vec::new(),
        output: Vec::new(),
    };
    assert_eq!(machine::Guarded::new().call(&last, &run, true).0, [9, 0, 0, 9]);
    assert_eq!(memory::live_bytes(), 4096);
    drop(last.clone());
    assert_eq!(memory::live_bytes(), 4096);
    drop(last);
    assert_eq!(memory::live_bytes(), 0);
    assert!(memory::publish_many(&[]).unwrap().is_empty());
    assert_eq!(memory::live_bytes(), 0);
}
