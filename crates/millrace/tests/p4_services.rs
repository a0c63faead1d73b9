//! A P4 program that calls services (`examples/p4/services.p4`), on both engines.

use ::p4::control::Control;
use datapath::services::Services;
use datapath::services::elements::New;
use port::{Frame, memory};
use service::conntrack;
use service::craft;
use service::element::{Element, Instance, Passing, Writes};
use service::simple::{Counter, Firewall};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::{Config, EngineKind, Switch};
use wire::tcp::Flags;

type End = (IpAddr, u16);

struct Bed {
    switch: Switch,
    ends: Vec<memory::Handle>,
    _control: Control,
}

/// A switch of two ports with this program and its entries.
fn bed(engine: EngineKind, text: &str, entries: &[(&str, &str, &str, &str)]) -> Bed {
    let lowered = ::p4::with_stack(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4/test.p4");
        let options = ::p4::preprocess::Options::default();
        let mut c = ::p4::front(&::p4::preprocess::Disk, &options, &path, text);
        let lowered = ::p4::lower::lower(&c.program, &mut c.diagnostics);
        lowered.unwrap_or_else(|| panic!("{}", c.diagnostics.render(&c.map)))
    });
    let config = Config {
        program: Arc::new(lowered.program.clone()),
        workers: 1,
        cpus: Vec::new(),
        punt_rate: 1000,
        engine: engine.clone(),
        validate: None,
    };
    let mut services = Services::default();
    services.soft();
    let switch = Switch::start_with(config, services).unwrap();
    let mut control = Control::new(lowered).unwrap();
    switch.transact(&control.pipeline.contents()).unwrap();
    let mut ends = Vec::new();
    for number in 1..=2 {
        let name = format!("p4s{number}{engine:?}");
        let (port, end) = memory::port(&name, memory::Config::default()).unwrap();
        switch.add_port(Some(number), Box::new(port)).unwrap();
        ends.push(end);
    }
    for (table, key, action, argument) in entries {
        let key = [(None, (*key).to_string())];
        let arguments = argument.split_whitespace().map(|a| (None, a.to_string()));
        let arguments: Vec<_> = arguments.collect();
        let (_, updates) = control.add(table, &key, 0, action, &arguments).unwrap();
        switch.transact(&updates).unwrap();
    }
    switch.sync();
    Bed { switch, ends, _control: control }
}

impl Bed {
    fn add(&self, name: &str, element: impl Element + 'static) {
        let elements = self.switch.services().elements().unwrap();
        let number = datapath::services::elements::number(name);
        let (settings, element) = (Vec::new(), Box::new(element));
        let new = New { number, name, kind: "test", settings, group: None, element };
        elements.add(new, (0, 1)).unwrap();
    }

    /// What of these frames comes out at the other port.
    fn send(&self, port: usize, frame: &[u8]) -> Option<Vec<u8>> {
        let ended = || -> u64 {
            let counters = self.switch.port_counters().into_iter().map(|(_, counters, _)| counters);
            counters.map(|c| c.tx_packets + c.drops.iter().map(|(_, n)| n).sum::<u64>()).sum()
        };
        let before = ended();
        assert!(self.ends[port - 1].inject(Frame::copy_of(frame)).is_ok());
        let begun = Instant::now();
        while ended() == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "it was neither sent nor dropped");
            std::thread::sleep(Duration::from_millis(1));
        }
        let came = self.ends[2 - port].take();
        came.map(|frame| frame.data().to_vec())
    }

    fn counter(&self, name: &str, counter: &str) -> u64 {
        let named = self.switch.services().elements().unwrap();
        let named = named.get(datapath::services::elements::number(name)).unwrap();
        named.counters().iter().find(|(n, _)| *n == counter).unwrap().1
    }
}

const INSIDE: End = (IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 0, 1)), 1000);
const OUTSIDE: End = (IpAddr::V4(std::net::Ipv4Addr::new(10, 2, 0, 1)), 80);

#[test]
fn a_program_asks_the_tracker() {
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4/services.p4"),
    )
    .unwrap();
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let entries = [
            ("routes", "10.1.0.0/16", "route", "1"),
            ("routes", "10.2.0.0/16", "route", "2"),
            ("insiders", "1", "inside", ""),
        ];
        let bed = bed(engine, &text, &entries);
        let syn = craft::Frame::tcp(INSIDE, OUTSIDE, Flags::SYN, (1, 0), 0).bytes();
        assert!(bed.send(1, &syn).is_none(), "without the service nothing passes");
        bed.add("fw", Firewall::new(conntrack::Config::new(1000, 0)));
        bed.add("seen", Counter::default());
        let answer = craft::Frame::tcp(OUTSIDE, INSIDE, Flags::SYN | Flags::ACK, (7, 2), 0);
        assert!(bed.send(2, &answer.bytes()).is_none(), "nobody has asked");
        let routed = bed.send(1, &syn).expect("insiders may open connections");
        assert_eq!(routed[22], syn[22] - 1, "it was routed");
        assert!(bed.send(2, &answer.bytes()).is_some(), "the answer comes in");
        assert_eq!(bed.counter("seen", "calls"), 1);
        assert_eq!(bed.counter("fw", "calls"), 3);
    }
}

/// Writes its argument over the first octet behind the Ethernet header.
struct Stamp;

impl Element for Stamp {
    fn name(&self) -> &'static str {
        "stamp"
    }
    fn writes(&self) -> Writes {
        Writes::Payload
    }
    fn instance(&self, _: usize, _: u64, _: u64) -> Box<dyn Instance> {
        Box::new(Stamp)
    }
}

impl Instance for Stamp {
    fn ingress(&mut self, _now_ns: u64, burst: &mut [Passing<'_>]) {
        for passing in burst {
            let told = passing.metadata;
            passing.packet.frame[14] = told.argument as u8;
            passing.packet.frame[15] = told.stage;
            passing.metadata.register = told.register + u64::from(told.action != 0);
        }
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[test]
fn what_a_service_writes_is_parsed_again() {
    let program = |service: &str| {
        format!(
            r#"
#include <core.p4>
#include <v1model.p4>
#include <millrace.p4>
header h_t {{ bit<48> dst; bit<48> src; bit<16> kind; bit<8> a; bit<8> b; bit<8> c; }}
struct headers {{ h_t h; }}
struct meta {{ bit<64> register; bit<1> coalesce; }}
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control V(inout headers h, inout meta m) {{ apply {{ }} }}
control I(inout headers h, inout meta m, inout standard_metadata_t sm) {{
    apply {{
        m.register = 40;
        {service}("stamp", 9, m.register, m.coalesce);
        h.h.a = h.h.a + 1;
        {service}("stamp", (bit<32>)h.h.a, m.register, m.coalesce);
        h.h.c = (bit<8>)m.register;
        sm.egress_spec = 2;
    }}
}}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) {{ apply {{ }} }}
control U(inout headers h, inout meta m) {{ apply {{ }} }}
control D(packet_out p, in headers h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#
        )
    };
    let mut frame = vec![0u8; 64];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let looks = bed(engine.clone(), &program("softflow"), &[]);
        looks.add("stamp", Stamp);
        assert!(looks.send(1, &frame).is_none(), "it writes packets, and was not to");
        drop(looks);
        let edits = bed(engine, &program("softflow_edit"), &[]);
        edits.add("stamp", Stamp);
        let came = edits.send(1, &frame).unwrap();
        // The second call was told 10, and that it is the second; of a service before it only then.
        assert_eq!(came[14..17], [10, 1, 41]);
    }
}
