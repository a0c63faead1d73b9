//! Time and memory of flow-mods, each decoded, executed and followed by a barrier, as a controller
//! sends them that waits for every single one. 100,000 flows of four fields (TCP, an IPv4 source, a
//! /24 of destinations, a port) with a set-field and an output, into one table; no socket.
//!
//! An argument that is a number asks for so many flows instead. Memory is that of the process.

use of_pipeline::lower::{self, ProgramConfig};
use of_pipeline::{Agent, AgentConfig};
use openflow::codec::{self, Frame};
use openflow::{Action, FieldId, FlowMod, Instruction, Match, Message, PortNo, Version, Xid};
use smallvec::smallvec;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::{Config, Switch};

fn flow_mod(n: u32) -> FlowMod {
    let matching = Match::new()
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::IpProto, 6)
        .with(FieldId::Ipv4Src, (0x0a00_0000 + n).into())
        .with_masked(FieldId::Ipv4Dst, (0xc0a8_0000 + ((n & 0xff) << 8)).into(), 0xffff_ff00)
        .with(FieldId::TcpDst, (n & 0xffff).into());
    let actions = vec![Action::set_field(FieldId::EthDst, 1), Action::output(PortNo(1 + n % 4))];
    let mut request = FlowMod::add(matching, smallvec![Instruction::ApplyActions(actions)]);
    request.priority = 1 + (n % 60_000) as u16;
    request
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

fn main() {
    let flows = std::env::args().find_map(|a| a.parse::<u32>().ok()).unwrap_or(100_000);
    let program = ProgramConfig { tables: 254, table_capacity: 1 << 20, normal_capacity: 1024 };
    let (ir, _) = lower::program(&program);
    let config = Config {
        program: Arc::new(ir),
        workers: 1,
        cpus: vec![],
        punt_rate: 1000,
        engine: Default::default(),
        validate: None,
    };
    let switch = Switch::start(config).expect("the program is valid");
    let config = AgentConfig { program, ..AgentConfig::default() };
    let mut agent = Agent::new(switch.clone(), config).expect("the switch runs our program");
    switch.sync();

    let mut stream = Vec::new();
    for n in 0..flows {
        codec::encode_into(&mut stream, Version::V13, Xid(n), &Message::FlowMod(flow_mod(n)))
            .expect("it can be said");
    }
    let before = resident();
    let start = Instant::now();
    let mut longest = Duration::ZERO;
    let mut rest = &stream[..];
    while let Frame::Message { length } = codec::frame(rest) {
        let (bytes, tail) = rest.split_at(length);
        rest = tail;
        let one = Instant::now();
        let (_, message) = codec::decode(Version::V13, bytes).expect("it was encoded");
        agent.handle(Version::V13, message).expect("it is allowed");
        switch.sync();
        longest = longest.max(one.elapsed());
    }
    let elapsed = start.elapsed();
    let memory = resident().saturating_sub(before);
    println!(
        "{flows} flow-mods, each with a barrier: {} ns each, the longest {} us; {} bytes each",
        elapsed.as_nanos() / u128::from(flows.max(1)),
        longest.as_micros(),
        memory / u64::from(flows.max(1))
    );
    for table in switch.explain() {
        println!(
            "{}: {} entries, {}: {} bytes each",
            table.table,
            table.entries,
            table.choice,
            table.memory_bytes / table.entries.max(1)
        );
    }
    assert_eq!(agent.flows().len(0), flows as usize);
    switch.stop();
}
