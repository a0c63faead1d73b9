//! For tests: bridges on memory and patch ports, frames through them.

use super::{Bridges, Defaults, PortConfig};
use crate::program::tables;
use crate::protocol::Reply;
use crate::verb::{At, Verb};
use port::kind::Environment;
use port::memory::{self, Handle};
use std::time::{Duration, Instant};
use switch::{EngineKind, Workers};

pub(crate) fn bridges(workers: usize, engine: EngineKind) -> Bridges {
    let workers = Workers::start(workers, &[]).unwrap();
    let defaults = Defaults {
        engine,
        punt_rate: 10_000,
        validate: None,
        tracking: tables::Tracking::of(1024),
        flows_max: Some(1 << 16),
        persist: None,
        environment: Environment::default(),
        watchdog: None,
    };
    Bridges::new(workers, defaults)
}

pub(crate) fn engines() -> [EngineKind; 2] {
    [EngineKind::Interp, EngineKind::default()]
}

pub(crate) fn port(name: &str, spec: &str) -> PortConfig {
    let spec = crate::port_kinds::parse(&format!("{name}={spec}")).unwrap();
    PortConfig::of_spec(&spec)
}

/// Adds a memory port, and returns its far end.
pub(crate) fn memory(bridges: &Bridges, bridge: &str, name: &str) -> Handle {
    let far = memory::attach(name).unwrap();
    bridges.add_port(bridge, port(name, &format!("memory:{name}"))).unwrap();
    far
}

pub(crate) fn patch(bridges: &Bridges, bridge: &str, name: &str, peer: &str) -> u32 {
    bridges.add_port(bridge, port(name, &format!("patch:{peer}"))).unwrap()
}

pub(crate) fn flow(bridges: &Bridges, bridge: &str, text: &str) {
    let bridge = bridges.bridge(bridge).unwrap();
    let openflow = bridge.openflow().unwrap();
    tables::tell(&mut openflow.agent(), tables::Told::Flow, text, &|_| None).unwrap();
    bridge.switch().sync();
}

/// What a verb answers that is asked of the first bridge.
pub(crate) fn ask<V: Verb>(bridges: &Bridges, question: V) -> Result<V::Answer, String> {
    let first = bridges.first();
    match question.answer(&At::of(bridges, first.as_ref(), false, None))? {
        Reply::Answer(answer) => Ok(answer),
        Reply::Stream(..) => Err("what was asked for is a stream".to_owned()),
    }
}

/// A frame from one station to another.
pub(crate) fn frame(to: u8, from: u8, n: u16) -> Vec<u8> {
    let mut bytes = vec![0x02, 0, 0, 0, 0, to, 0x02, 0, 0, 0, 0, from, 0x88, 0xb5];
    bytes.extend_from_slice(&n.to_be_bytes());
    bytes.resize(60, 0);
    bytes
}

pub(crate) fn number(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[14], bytes[15]])
}

pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
