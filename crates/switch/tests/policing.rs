//! Ingress policing: what is beyond a port's rates is dropped under a reason, before the pipeline, by both engines.

mod common;

use common::{Net, balance, until};
use datapath::policer::Policing;
use std::time::Duration;
use switch::{CaptureFilter, Config, EngineKind};
use testkit::station::{FIRST, call, frame, insert};

const FRAMES: u64 = 400;

fn net(engine: EngineKind) -> Net {
    let net = Net::with(Config { engine, ..common::config(1) }, 2);
    assert_eq!(net.switch.allocate_counter(), Ok(0));
    assert_eq!(net.switch.allocate_counter(), Ok(1));
    net.switch.transact(&[insert(FIRST, 1, 5, call("out", &[2]))]).unwrap();
    net.switch.sync();
    net
}

/// Frames that were policed and that went on, once all have come to an end.
fn sent(net: &Net) -> (u64, u64) {
    let before = balance(&net.switch).0;
    for _ in 0..FRAMES {
        assert!(net.far(1).inject_bytes(&frame(5, 0)));
    }
    until("all frames have come to an end", || {
        let (received, ended) = balance(&net.switch);
        received == before + FRAMES && ended == received
    });
    let counters = net.switch.port_counters();
    let of = |number: u32| &counters.iter().find(|(view, ..)| view.number == number).unwrap().1;
    let policed = of(1).drops.iter().find(|(word, _)| *word == "policed").map_or(0, |(_, n)| *n);
    assert_eq!(of(1).rx_dropped, policed);
    (policed, of(2).tx_packets)
}

#[test]
fn what_is_beyond_the_rates_is_dropped_and_counted() {
    for engine in [EngineKind::default(), EngineKind::Interp] {
        let net = net(engine);
        assert_eq!(sent(&net), (0, FRAMES));
        // One packet a second: any machine sends faster than that.
        let slow = Policing { bits: None, packets: Some((1, 7)) };
        net.switch.set_policing(1, slow).unwrap();
        let tap = CaptureFilter {
            ingress: false,
            egress: false,
            port: None,
            table: None,
            any_entry: false,
            dropped: true,
            hits: false,
            rate: None,
            snap_len: 64,
        };
        let captured = net.switch.capture(tap);
        let (policed, passed) = sent(&net);
        assert_eq!(policed + passed, 2 * FRAMES);
        assert!(policed > 0 && passed > FRAMES, "{policed} policed, {passed} passed in all");
        let first = captured.next(Duration::from_secs(60)).expect("it is captured");
        assert!(first.comment().contains("policed"), "{}", first.comment());
        drop(captured);
        net.switch.set_policing(1, Policing::default()).unwrap();
        assert_eq!(sent(&net), (policed, passed + FRAMES));
        assert!(net.switch.set_policing(9, slow).is_err());
    }
}
