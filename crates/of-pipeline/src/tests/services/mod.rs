//! Services as flow entries use them, by both engines: translations, balancers, fragments that come too early.

mod balancers;
mod fragments;
mod translations;

use super::bed::*;
use datapath::services::elements::New;
use openflow::syntax::{Context, parse_flow};
use openflow::{ElementName, FlowMod};
use service::catalogue;
use service::craft::Frame;
use std::net::IpAddr;
use switch::EngineKind;

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V13));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// The same by both engines, with these services: each a line `NAME KIND [KEY=VALUE...]`.
fn each(services: &[&str], flows: &[&str], test: impl Fn(&mut Bed)) {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let mut bed = Bed::by(engine, program(), 6);
        services.iter().for_each(|line| add(&bed, line));
        flows.iter().for_each(|line| drop(bed.ok(flow(line))));
        test(&mut bed);
    }
}

fn add(bed: &Bed, line: &str) {
    let mut words = line.split_whitespace();
    let (name, kind) = (words.next().unwrap(), words.next().unwrap());
    let settings = catalogue::parse(words).unwrap();
    let (groups, settings): (Vec<_>, Vec<_>) =
        settings.into_iter().partition(|(key, _)| key == "group");
    let group = groups.first().map(|(_, group)| group.as_str());
    let element = catalogue::element(kind, &settings).unwrap();
    let elements = bed.agent.switch().services().elements().unwrap();
    let number = number(name);
    elements.add(New { number, name, kind, settings, group, element }, (0, 1)).unwrap();
}

fn number(name: &str) -> u32 {
    ElementName::new(name).unwrap().number()
}

fn v4(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

/// A datagram's fragments, of 16 octets each.
fn fragments(ident: u16, from: (IpAddr, u16), to: (IpAddr, u16)) -> Vec<Vec<u8>> {
    let whole = Frame::udp(from, to, 32);
    let parts = whole.body.chunks(16).enumerate().map(|(n, part)| {
        let more = if n < 2 { 0x2000 } else { 0 };
        let fragment = (ident, (n as u16 * 2) | more);
        Frame { body: part.to_vec(), fragment, ..whole.clone() }.bytes()
    });
    parts.collect()
}

/// The source of an IPv4 frame: its last octet and its port.
fn source(frame: &[u8]) -> (u8, u16) {
    (frame[29], u16::from_be_bytes([frame[34], frame[35]]))
}
