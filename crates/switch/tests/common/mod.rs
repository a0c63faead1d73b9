//! What the tests share: a switch on memory ports with the station program.

#![allow(dead_code, unreachable_pub)]

use ir::{Action, Bits, Expr, Op, Param};
use port::memory;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::{Config, Injection, Switch};

/// A switch, and the far ends of its ports 1, 2, ...
pub struct Net {
    pub switch: Switch,
    pub far: Vec<memory::Handle>,
}

pub fn config(workers: usize) -> Config {
    Config {
        program: testkit::station::program(),
        workers,
        cpus: Vec::new(),
        punt_rate: datapath::punt::RATE_DEFAULT,
        engine: Default::default(),
        validate: None,
    }
}

impl Net {
    pub fn new(workers: usize, ports: u32) -> Net {
        Net::with(config(workers), ports)
    }

    pub fn with(config: Config, ports: u32) -> Net {
        let switch = Switch::start(config).unwrap();
        let far = (1..=ports).map(|n| add(&switch, n)).collect();
        switch.sync();
        Net { switch, far }
    }

    /// The far end of a port.
    pub fn far(&self, number: u32) -> &memory::Handle {
        &self.far[number as usize - 1]
    }

    /// What came out of a port, when all is quiet.
    pub fn taken(&self, number: u32) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        self.far(number).take_into(usize::MAX, |frame| frames.push(frame.data().to_vec()));
        frames
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.switch.stop();
    }
}

/// Adds a memory port under this number, with room for plenty.
pub fn add(switch: &Switch, number: u32) -> memory::Handle {
    let config = memory::Config { capacity: 1 << 16, ..memory::Config::default() };
    let (port, far) = memory::port(&format!("p{number}"), config).unwrap();
    assert_eq!(switch.add_port(Some(number), Box::new(port)).unwrap(), number);
    far
}

/// A packet from the control side that goes out of `port`.
pub fn injection(in_port: u32, bytes: Vec<u8>, port: u32) -> Injection {
    let body = vec![Op::Output { port: Expr::Param(0) }];
    let params = vec![Param { name: "port".to_string(), width: 32 }];
    let action = Arc::new(Action { name: "injected".to_string(), params, body });
    Injection { in_port, bytes, action, args: vec![Bits::from_u128(port.into(), 32)] }
}

/// Waits until something holds, for a minute at most.
#[track_caller]
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Received, ended: what the counters of the ports there are, and of what was injected, add up to.
pub fn balance(switch: &Switch) -> (u64, u64) {
    let ports = switch.port_counters().into_iter().map(|(_, c, _)| c);
    let all: Vec<_> = ports.chain([switch.injected()]).collect();
    let received = all.iter().map(|c| c.rx_packets).sum();
    let dropped = all.iter().flat_map(|c| &c.drops).map(|(_, n)| n).sum::<u64>();
    let ended = all.iter().map(|c| c.tx_packets + c.punted).sum::<u64>() + dropped;
    (received, ended)
}
