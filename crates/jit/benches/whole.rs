//! One packet at a time: code of whole programs and the interpreter, in turns, nanoseconds a packet.
//!
//! `cargo bench -p jit --bench whole [CONSTRUCT]`. The outside costs nothing here: ports, counters, meters and tables
//! of one entry are plain.

#[path = "../../opt/tests/common/flows.rs"]
#[allow(dead_code)] // the rest serves tests
mod flows;

use flows::{Flows, frames};
use interp::{Externs, Input, NullExterns, Packet, Punt, Sink, Start, View};
use ir::{
    Action, ActionCall, ActionId, Bits, DigestId, Entry, Group, GroupId, Pipeline, Program, Select,
    TableId, ValueSetId,
};
use jit::isa::Settings;
use jit::whole::{Compiler, Parts};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Looks at what comes, and keeps nothing.
struct Looks(u64);

impl Sink for Looks {
    fn output(&mut self, port: u32, _: u32, packet: Packet<'_>) {
        self.0 = self.0.wrapping_add(u64::from(port) + packet.len() as u64);
    }
    fn punt(&mut self, punt: Punt<'_>) {
        self.0 = self.0.wrapping_add(punt.packet.len() as u64);
    }
    fn digest(&mut self, _: DigestId, args: &[Bits]) {
        self.0 = self.0.wrapping_add(args.len() as u64);
    }
}

const ALL: &[(&str, &[&str], &str)] = &[
    ("output", &[], "ip actions=output:2"),
    ("two outputs", &[], "ip actions=output:2,output:3"),
    ("change between", &[], "ip actions=output:2,set_field:3->ip_ttl,output:3"),
    ("flood", &[], "ip actions=flood"),
    ("push_vlan", &[], "ip actions=push_vlan:0x8100,set_field:4099->vlan_vid,output:2"),
    ("indirect", &["group_id=1,type=indirect,bucket=output:2"], "ip actions=group:1"),
    (
        "select",
        &["group_id=1,type=select,bucket=output:2,bucket=output:3,bucket=output:4"],
        "ip actions=group:1",
    ),
    ("clone", &[], "ip actions=clone(set_field:3->ip_ttl,output:3),output:2"),
    ("resubmit", &[], "ip actions=resubmit(,1),output:2\ntable=1,ip actions=set_field:1->reg1"),
    ("controller", &[], "ip actions=controller"),
    ("multipath", &[], "ip actions=multipath(symmetric_l4,50,modulo_n,4,0,NXM_NX_REG0[]),output:2"),
    ("learn", &[], "ip actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),output:2"),
];

/// The quickest of many rounds: what else the machine does makes the others longer.
fn ns(mut f: impl FnMut()) -> f64 {
    let (began, mut least) = (Instant::now(), f64::MAX);
    while began.elapsed() < Duration::from_millis(100) {
        let round = Instant::now();
        (0..100).for_each(|_| f());
        least = least.min(round.elapsed().as_nanos() as f64 / 100.0);
    }
    least
}

/// Tables whose first entry always matches; the key fields that it has are worked out.
struct First<'a>(&'a Pipeline);

impl View for First<'_> {
    fn program(&self) -> &Arc<Program> {
        self.0.program()
    }
    fn action(&self, id: ActionId) -> Option<&Action> {
        View::action(self.0, id)
    }
    fn lookup(&self, table: TableId, key: &mut dyn FnMut(u16) -> Bits) -> Option<&Entry> {
        let entry = self.0.entries(table).iter().next()?;
        entry.matches.iter().for_each(|m| drop(black_box(key(m.key))));
        Some(entry)
    }
    fn lookup_packed(&self, table: TableId, key: &mut dyn FnMut(u16, &mut [u8])) -> Option<&Entry> {
        let entry = self.0.entries(table).iter().next()?;
        entry.matches.iter().for_each(|m| key(m.key, black_box(&mut [0; 32])));
        Some(entry)
    }
    fn default_action(&self, table: TableId) -> &ActionCall {
        View::default_action(self.0, table)
    }
    fn group(&self, id: GroupId) -> Option<&Group> {
        View::group(self.0, id)
    }
    fn value_set(&self, id: ValueSetId) -> &[Select] {
        View::value_set(self.0, id)
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let frame = frames().into_iter().find(|f| f.get(12..14) == Some(&[8, 0]) && f.len() >= 60);
    let frame = frame.unwrap_or_default();
    let mut compiler =
        Compiler::new(Settings::default()).expect("this machine has a code generator");
    println!("{:16} {:>8} {:>8} {:>8}", "construct", "whole", "interp", "compiled");
    for (name, groups, lines) in ALL {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w.as_str())) {
            continue;
        }
        let flows = Flows::of(2, groups, lines);
        let pipeline = &flows.pipeline;
        let began = Instant::now();
        let code = compiler.program(pipeline.program()).expect("it can be compiled");
        let own = (0u32..).zip(&pipeline.program().actions).map(|(id, a)| (ActionId(id), a));
        let all = own.chain(pipeline.added_actions());
        let hashes: Vec<_> = pipeline.groups().map(|(_, group)| group.hash.clone()).collect();
        let code = compiler
            .actions(&code, all, Parts { hashes: &hashes, ..Parts::default() })
            .expect("it can be compiled");
        let took = began.elapsed();
        if name == &"output" {
            println!("{} words", code.words());
        }
        let input = Input { bytes: &frame, in_port: 1, now_ns: 5, start: Start::Pipeline };
        let (mut machine, mut whole) = (interp::Machine::new(), jit::whole::Machine::new());
        let (mut externs, mut sink) = (NullExterns, Looks(0));
        let externs: &mut dyn Externs = &mut externs;
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            times[0].push(ns(|| {
                black_box(whole.run(&code, &First(pipeline), black_box(input), externs, &mut sink));
            }));
            times[1].push(ns(|| {
                black_box(machine.run(
                    &First(pipeline),
                    black_box(input),
                    externs,
                    &mut sink,
                    None,
                ));
            }));
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        black_box(sink.0);
        let [whole, interp] = &mut times;
        println!("{name:16} {:8.1} {:8.1} {took:8.0?}", median(whole), median(interp));
    }
}
