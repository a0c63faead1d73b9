//! The body of the fuzz target `packet`: frames through a pipeline that uses all there is.

use super::flows::{FLOWS, GROUPS, METERS};
use crate::bed::{PORTS, Small};
use interp::sink::{Collect, Sink};
use interp::{Input, Machine, MemoryExterns, Packet, Punt, Start, Trace};
use ir::{Bits, DigestId, Pipeline, Verdict};
use of_lower::{Context, Layout, lower_actions};
use openflow::syntax::{self, parse_flow, parse_group, parse_meter};
use openflow::{Action, Instruction, Message, Version};
use std::sync::{Arc, OnceLock};
use switch::Switch;

/// Frames of one input, at most.
const FRAMES_MAX: usize = 16;
/// Frames that came out and are sent in again, at most.
const AGAIN_MAX: usize = 4;

/// Action lists of packet-outs.
const PACKET_OUTS: &[&str] = &[
    "output:2",
    "table",
    "push_vlan:0x8100,set_field:4099->vlan_vid,push_mpls:0x8847,output:2,pop_mpls:0x0800,table",
    "group:5,flood,controller",
];

/// What frames run through.
struct Fixture {
    pipeline: Pipeline,
    layout: Layout,
    packet_outs: Vec<(ir::Action, Vec<Bits>)>,
}

/// One line of [`FLOWS`] as the syntax has it.
fn spelled(line: &str) -> String {
    match line.strip_prefix('@').and_then(|rest| rest.split_at_checked(2)) {
        Some((byte, rest)) => {
            format!("priority=9,dl_dst=0:0:0:0:0:{byte}/0:0:0:0:0:ff{}", rest.replacen(' ', ",", 1))
        }
        None => line.replacen(" actions", ",actions", 1),
    }
}

impl Fixture {
    /// Everything is asked for as a controller does, so that it is what controllers may have.
    fn new() -> Fixture {
        let (mut agent, _far) = Small::default().agent(Switch::start);
        let cx = syntax::Context::new(Version::V13);
        let mut wrong = Vec::new();
        let mut ask = |line: &str, message: Result<Message, syntax::SyntaxError>| {
            let done = match message {
                Ok(message) => agent.handle(Version::V13, message).map_err(|e| e.to_string()),
                Err(error) => Err(error.to_string()),
            };
            wrong.extend(done.err().map(|error| format!("{line}: {error}")));
        };
        for line in METERS {
            ask(line, parse_meter(line, &cx).map(Message::MeterMod));
        }
        for line in GROUPS {
            ask(line, parse_group(line, &cx).map(Message::GroupMod));
        }
        for line in FLOWS {
            ask(line, parse_flow(&spelled(line), &cx).map(Message::FlowMod));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let (_, layout) = of_lower::program(&agent.config().program);
        let packet_outs = PACKET_OUTS.iter().map(|line| {
            let list = syntax::parse_actions(line, &cx);
            let list = list.unwrap_or_else(|error| panic!("{line}: {error}"));
            let actions = list.iter().flat_map(|instruction| match instruction {
                Instruction::ApplyActions(actions) => actions.clone(),
                other => panic!("{line}: {other:?}"),
            });
            let actions: Vec<Action> = actions.collect();
            let call = lower_actions(Context::PacketOut, &actions);
            let call = call.unwrap_or_else(|error| panic!("{line}: {error}"));
            let (action, args) = call.build(&layout);
            (action, args.to_vec())
        });
        let packet_outs = packet_outs.collect();
        let pipeline = agent.switch().with_pipeline(Pipeline::clone);
        agent.switch().stop();
        Fixture { pipeline, layout, packet_outs }
    }

    fn externs(&self) -> MemoryExterns {
        let mut externs = MemoryExterns::new(self.pipeline.program());
        for (id, meter) in self.pipeline.meters() {
            externs.set_meter(id, Some(meter));
        }
        externs
    }
}

/// A sink that checks what it is given, and keeps it.
struct Checked<'a> {
    input: &'a [u8],
    kept: Collect,
}

impl Checked<'_> {
    fn check(&self, packet: &Packet<'_>) {
        let Packet { headers, payload, unchanged } = packet;
        assert!(payload.len() <= self.input.len(), "the payload is part of the input");
        let tail = &self.input[self.input.len() - payload.len()..];
        assert!(
            payload.is_empty() || std::ptr::eq(tail, *payload),
            "the payload is the input's tail itself, no copy"
        );
        if *unchanged {
            assert_eq!([headers, *payload].concat(), self.input, "unchanged is the same bytes");
        }
    }
}

impl Sink for Checked<'_> {
    fn output(&mut self, port: u32, queue: u32, packet: Packet<'_>) {
        self.check(&packet);
        self.kept.output(port, queue, packet);
    }

    fn punt(&mut self, punt: Punt<'_>) {
        self.check(&punt.packet);
        self.kept.punt(punt);
    }

    fn digest(&mut self, digest: DigestId, args: &[Bits]) {
        self.kept.digest(digest, args);
    }
}

/// A machine and what it counts.
struct Lane {
    machine: Machine,
    externs: MemoryExterns,
    traced: bool,
}

impl Lane {
    fn run(&mut self, view: &Pipeline, input: Input<'_>) -> (Verdict, Collect) {
        self.externs.now_ns = input.now_ns;
        let mut sink = Checked { input: input.bytes, kept: Collect::default() };
        let mut trace = self.traced.then(Trace::new);
        let verdict = self.machine.run(view, input, &mut self.externs, &mut sink, trace.as_mut());
        if let Some(trace) = trace {
            let last = trace.lines().pop();
            assert!(last.is_some_and(|line| line.starts_with("verdict")), "{trace}");
        }
        (verdict, sink.kept)
    }
}

/// Frames through flow entries, groups and meters of all kinds, with a trace and without.
///
/// `data` is a run of records: a byte that says how (bits 0 and 1 the port, bit 2 as a packet-out,
/// bits 3 and 4 which one, bit 5 port 3 is down, bits 6 and 7 how much later), two bytes of length,
/// the frame. A length beyond the end means all the rest.
///
/// Nothing may panic; a trace changes nothing; the verdict is what the copies say; the payload of a
/// copy is the input's tail, and a copy that is called unchanged is; what came out can come in.
///
/// # Panics
/// When it does not; that is the finding.
pub fn packet(data: &[u8]) {
    static FIXTURE: OnceLock<Arc<Fixture>> = OnceLock::new();
    let fixture = FIXTURE.get_or_init(|| Arc::new(Fixture::new()));
    let lane = |traced| Lane { machine: Machine::new(), externs: fixture.externs(), traced };
    let (mut plain, mut traced) = (lane(false), lane(true));
    let mut now_ns = 0;
    let mut rest = data;
    for _ in 0..FRAMES_MAX {
        let [how, hi, lo, tail @ ..] = rest else { break };
        let length = usize::from(u16::from_be_bytes([*hi, *lo])).min(tail.len());
        let (bytes, next) = tail.split_at(length);
        rest = next;
        now_ns += [0, 1_000_000, 300_000_000, 5_000_000_000][usize::from(how >> 6)];
        for lane in [&mut plain, &mut traced] {
            lane.externs.dead_ports.clear();
            lane.externs.dead_ports.extend((how & 0x20 != 0).then_some(PORTS));
        }
        let start = match (how & 4, &fixture.packet_outs[usize::from(how >> 3 & 3)]) {
            (0, _) => Start::Pipeline,
            (_, (action, args)) => Start::Action(action, args),
        };
        let in_port = u32::from(how & 3);
        let out = both(fixture, &mut plain, &mut traced, Input { bytes, in_port, now_ns, start });
        for output in out.outputs.iter().take(AGAIN_MAX) {
            let (bytes, in_port) = (&output.bytes[..], output.port);
            let input = Input { bytes, in_port, now_ns, start: Start::Pipeline };
            both(fixture, &mut plain, &mut traced, input);
        }
    }
    assert_eq!(plain.externs.tables, traced.externs.tables);
    assert_eq!(plain.externs.entries, traced.externs.entries);
    assert_eq!(plain.externs.counters, traced.externs.counters);
}

fn both(fixture: &Fixture, plain: &mut Lane, traced: &mut Lane, input: Input<'_>) -> Collect {
    let (verdict, out) = plain.run(&fixture.pipeline, input);
    let with_trace = traced.run(&fixture.pipeline, input);
    assert_eq!((verdict, &out), (with_trace.0, &with_trace.1), "a trace changes nothing");
    match verdict {
        Verdict::Forward => assert!(!out.outputs.is_empty(), "{out:?}"),
        Verdict::Punt(reason) => {
            assert!(out.outputs.is_empty(), "{out:?}");
            assert_eq!(out.punts.first().map(|punt| punt.reason), Some(reason));
        }
        Verdict::Drop(_) => assert!(out.outputs.is_empty() && out.punts.is_empty(), "{out:?}"),
    }
    for (digest, _) in &out.digests {
        assert_eq!(*digest, fixture.layout.learn, "the program sends one digest");
    }
    if let Some(parsed) = plain.machine.parse(&fixture.pipeline, input.bytes) {
        assert!(input.bytes.ends_with(&parsed.payload));
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn holds_on_seeds_and_random_bytes() {
        super::super::run_on("packet", 3000, super::packet);
    }
}
