//! Each packet is counted once, by what ran it and why.

mod common;

use common::{Net, balance, config, injection, until};
use switch::{Config, EngineKind, Ran};
use testkit::station::{FIRST, call, frame, insert};

fn net(engine: EngineKind) -> Net {
    let net = Net::with(Config { engine, ..config(1) }, 2);
    let meter = ir::Meter { packets: true, bands: Vec::new() };
    let updates = [
        ir::Update::SetMeter(ir::MeterId(1), std::sync::Arc::new(meter)),
        insert(FIRST, 1, 5, call("out", &[2])),
        insert(FIRST, 2, 6, call("punt", &[])),
        insert(FIRST, 3, 7, call("meter", &[1, 2])),
    ];
    net.switch.transact(&updates).unwrap();
    net.switch.sync();
    until("there is code for it", || net.switch.is_settled());
    net.switch.sync();
    net
}

fn send(net: &Net) -> u64 {
    let mut sent = 0;
    for number in 0..90 {
        sent += u64::from(net.far(1).inject_bytes(&frame(5 + number % 3, number)));
    }
    until("all have ended", || balance(&net.switch) == (sent, sent));
    sent
}

#[test]
fn what_code_leaves_is_counted_under_its_reason_and_the_rest_as_code() {
    let net = net(EngineKind::default());
    let before = net.switch.ran();
    assert_eq!(before.packets(), 0);
    let sent = send(&net);
    let ran = net.switch.ran();
    assert_eq!(ran.packets(), sent);
    assert!(ran.code >= sent / 3, "{ran:?}");
    for engine in [Ran::Whole, Ran::Interpreter] {
        let (packets, reasons) = ran.of(engine);
        assert_eq!(packets, reasons.iter().map(|(_, n)| n).sum::<u64>());
        for (text, _) in reasons {
            assert!(net.switch.leaves().iter().any(|leaf| *leaf == **text), "{text}: {ran:?}");
        }
    }
}

#[test]
fn the_reference_engine_says_so() {
    let net = net(EngineKind::Interp);
    let sent = send(&net);
    net.switch.inject(injection(1, frame(9, 1), 2));
    net.switch.sync();
    let ran = net.switch.ran();
    assert_eq!((ran.code, ran.whole.packets), (0, 0));
    let reasons: Vec<(&str, u64)> =
        ran.interpreter.reasons.iter().map(|(text, n)| (&**text, *n)).collect();
    let expected = [("the engine is the interpreter", sent), ("a packet of the control side's", 1)];
    assert_eq!(reasons, expected);
    assert_eq!(net.switch.leaves(), ["everything: the engine is interp"]);
}
