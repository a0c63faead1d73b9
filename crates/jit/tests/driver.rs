//! The driver, the cache and the edges of packets' buffers.

#[path = "../../opt/tests/common/flows.rs"]
#[allow(dead_code)] // the rest serves other tests
mod flows;
#[allow(unreachable_pub)]
mod support;

use abi::{Cells, Hit, Packet, TableCell, status};
use flows::{Flows, frame};
use ir::testing;
use jit::{Cache, Compiled, Error, Isa, NoServices, Options, Scratch, Tables, Unit, compile};
use support::{Both, Counted, Native, Scan, Tally, unit};

const GATEWAY: &str =
    "table=0,priority=10,in_port=1,vlan_tci=0x1000/0x1000 actions=pop_vlan,goto_table:1
    table=0,priority=9,in_port=2 actions=push_vlan:0x8100,set_field:4197->vlan_vid,goto_table:1
    table=1,in_port=1 actions=output:2
    table=1,in_port=2 actions=output:1";

fn compiled(unit: &Unit) -> Compiled {
    compile(unit, &mut Cache::new(), &Options::default()).expect("it compiles")
}

fn tagged() -> Vec<u8> {
    let mut bytes = frame("udp,nw_dst=10.0.0.1,tp_dst=9");
    bytes.splice(12..12, [0x81, 0, 0, 5]);
    bytes
}

/// Runs one packet with so much room in front of it: status, start, length, reason, buffer.
fn one(code: &Compiled, tables: &impl Tables, room: usize, port: u32, bytes: &[u8]) -> Ran {
    let mut buffer = [&vec![0xee; room][..], bytes, &[0xdd; 16]].concat();
    let mut packets = [Packet::new(&mut buffer, room, bytes.len(), port)];
    let native =
        Native { cells: Cells::new(0), tables: (0..256).map(|_| TableCell::default()).collect() };
    code.run(tables, native.counters(), &mut NoServices, &mut Scratch::new(), &mut packets, 0);
    let [packet] = &packets;
    let (status, shift, reason) = (packet.status, packet.shift, packet.reason);
    let start = (room as i32 + shift) as usize;
    let (end, guard) = buffer.split_at(room + bytes.len());
    assert!(guard.iter().all(|b| *b == 0xdd));
    Ran { status, reason, bytes: end[start..].to_vec() }
}

struct Ran {
    status: u8,
    reason: u32,
    bytes: Vec<u8>,
}

#[test]
fn tags_need_room_to_be_pushed_and_none_to_be_popped() {
    let flows = Flows::of(3, &[], GATEWAY);
    let with = tagged();
    let without = [&with[..12], &with[16..]].concat();
    for direct in [false, true] {
        let unit = unit(&flows.pipeline, &opt::Options::default(), &|_| direct);
        let (code, scan) = (compiled(&unit), Scan::new(&unit, &flows.pipeline));
        for room in 0..24 {
            let popped = one(&code, &scan, room, 1, &with);
            assert_eq!((popped.status, &popped.bytes), (status::FORWARD, &without));
            let pushed = one(&code, &scan, room, 2, &without);
            if room < 4 {
                assert_eq!((pushed.status, &pushed.bytes), (status::BAIL, &without));
                let reason = &code.bails()[pushed.reason as usize];
                assert!(reason.contains("room"), "{reason}");
                continue;
            }
            let expected = [&with[..14], &[0x00, 0x65], &with[16..]].concat();
            assert_eq!((pushed.status, &pushed.bytes), (status::FORWARD, &expected), "{room}");
        }
    }
}

#[test]
fn tables_that_refuse_or_answer_nonsense_bail_out() {
    struct Odd<'a>(Scan<'a>, Option<Hit>);
    impl Tables for Odd<'_> {
        fn lookup(&self, _: usize, _: &[u8], _: usize, hits: &mut [Hit]) -> bool {
            let Some(hit) = self.1 else { return false };
            hits.fill(hit);
            true
        }
        fn records(&self, node: usize) -> &[u64] {
            self.0.records(node)
        }
    }
    let flows = Flows::of(3, &[], GATEWAY);
    let unit = unit(&flows.pipeline, &opt::Options::default(), &|_| false);
    let code = compiled(&unit);
    let odd =
        [None, Some(Hit { entry: 1, action: 1 << 20 }), Some(Hit { entry: 0, action: u32::MAX })];
    for hit in odd {
        let tables = Odd(Scan::new(&unit, &flows.pipeline), hit);
        let ran = one(&code, &tables, 64, 1, &tagged());
        assert_eq!((ran.status, &ran.bytes), (status::BAIL, &tagged()));
        assert!(code.bails()[ran.reason as usize].contains("table has changed"));
    }
    // An action that the code does not know.
    struct Unknown<'a>(Scan<'a>, Vec<u64>);
    impl Tables for Unknown<'_> {
        fn lookup(&self, node: usize, keys: &[u8], stride: usize, hits: &mut [Hit]) -> bool {
            self.0.lookup(node, keys, stride, hits);
            hits.iter_mut().for_each(|hit| hit.action = 0);
            true
        }
        fn records(&self, _: usize) -> &[u64] {
            &self.1
        }
    }
    for variant in [0, 77, u64::MAX] {
        let records = vec![variant; 64];
        let tables = Unknown(Scan::new(&unit, &flows.pipeline), records);
        let ran = one(&code, &tables, 64, 1, &tagged());
        assert_eq!((ran.status, &ran.bytes), (status::BAIL, &tagged()));
        assert!(code.bails()[ran.reason as usize].contains("not compiled"));
    }
}

#[test]
fn an_empty_burst_and_an_empty_packet() {
    let flows = Flows::of(3, &[], GATEWAY);
    let unit = unit(&flows.pipeline, &opt::Options::default(), &|_| false);
    let (code, scan) = (compiled(&unit), Scan::new(&unit, &flows.pipeline));
    let native = Native::new(&unit, &flows.pipeline);
    code.run(&scan, native.counters(), &mut NoServices, &mut Scratch::new(), &mut [], 0);
    assert_eq!(native.take(&flows.pipeline), Counted::default());
    // Counters of too few tables.
    let few = Native { cells: Cells::new(0), tables: Vec::new() };
    let mut bytes = tagged();
    let len = bytes.len();
    let mut packets = [Packet::new(&mut bytes, 0, len, 1)];
    code.run(&scan, few.counters(), &mut NoServices, &mut Scratch::new(), &mut packets, 0);
    assert_eq!(packets[0].status, status::BAIL);
    let ran = one(&code, &scan, 0, 1, &[]);
    assert_eq!((ran.status, ran.reason), (status::DROP, ir::DropReason::FrameTooShort as u32));
}

#[test]
fn a_changed_table_recompiles_its_own_segments() {
    // Three tables in a row; the last one is code.
    let lines = |port: u32| {
        format!(
            "table=0,in_port=1 actions=goto_table:1
             table=0,in_port=2 actions=goto_table:1
             table=0,in_port=3 actions=goto_table:1
             table=1,dl_dst=02:00:00:00:00:01 actions=goto_table:2
             table=1,dl_dst=02:00:00:00:00:02 actions=goto_table:2
             table=1,dl_dst=02:00:00:00:00:03 actions=goto_table:2
             table=2,priority=1 actions=output:{port}
             table=2,priority=2,ip actions=output:9"
        )
    };
    let mut cache = Cache::new();
    let mut reused = Vec::new();
    for port in [1, 1, 2] {
        let flows = Flows::of(3, &[], &lines(port));
        let unit = unit(&flows.pipeline, &opt::Options::default(), &|n| n < 3);
        let code = compile(&unit, &mut cache, &Options::default()).unwrap();
        assert!(code.code_bytes() > 0);
        reused.push(code.reused());
    }
    // The segments behind table 1 alone have changed.
    let [(all, 0), same, (n, kept)] = reused[..] else { panic!("{reused:?}") };
    assert_eq!((same, n), ((all, all), all), "{reused:?}");
    assert!(all / 2 <= kept && kept < all, "{reused:?}");
    assert_eq!(cache.functions(), 2 * all - kept);
}

/// Customers by VLAN, in tables of their own: with VLANs, entries and tables in one step each, and
/// without.
#[test]
fn entries_that_differ_in_a_value_and_a_twin_are_taken_at_once() {
    for vlans in [[101u32, 102, 103, 104, 105], [7, 4000, 12, 1, 2048], [9, 10, 11, 13, 14]] {
        let mut lines = String::new();
        for (i, vlan) in vlans.iter().enumerate() {
            let (table, port) = (i + 1, i % 2 + 2);
            lines += &format!(
                "table=0,priority=9,in_port=1,dl_vlan={vlan} actions=pop_vlan,goto_table:{table}\n"
            );
            for user in 1..=3 {
                lines += &format!(
                    "table={table},ip,nw_src=10.0.{i}.{user} actions=set_field:192.0.{i}.{user}->ip_src,output:{port}\n"
                );
            }
        }
        lines += "table=0,priority=0 actions=output:3";
        let flows = Flows::of(7, &[], &lines);
        let unit = unit(&flows.pipeline, &opt::Options::default(), &|n| n == 6);
        let led = unit.nodes.iter().filter(|n| n.leader.is_some()).count();
        assert_eq!(led, 4, "five twins");
        let mut frames = Vec::new();
        for (i, vlan) in vlans.iter().chain(&[100, 106, 0, 4095]).enumerate() {
            for user in 0..4 {
                let mut bytes = frame(&format!("udp,nw_src=10.0.{i}.{user},tp_dst=9"));
                let tag = [0x81, 0, (vlan >> 8) as u8, *vlan as u8];
                bytes.splice(12..12, tag);
                frames.push((1, bytes.clone()));
                frames.push((2, bytes));
            }
        }
        let mut tally = Tally::default();
        let mut both = Both::new(&flows.pipeline, &unit, &mut Cache::new());
        for burst in frames.chunks(31) {
            both.burst(burst, 5, &mut tally, "customers");
        }
        tally.print("customers");
        assert_eq!((tally.bailed, tally.changed), (0, 15), "{vlans:?}");
    }
}

#[test]
fn other_machines_compile_but_do_not_run() {
    let flows = Flows::of(3, &[], GATEWAY);
    let unit = unit(&flows.pipeline, &opt::Options::default(), &|_| false);
    let scan = Scan::new(&unit, &flows.pipeline);
    let mut cache = Cache::new();
    for isa in [Isa::Aarch64, Isa::X86_64] {
        let options = Options { isa, keep_text: true, ..Options::default() };
        let code = compile(&unit, &mut cache, &options).unwrap();
        let text = code.texts(None).next().unwrap();
        assert!(text.clif.contains("function") && !text.disasm.is_empty());
        if isa == Isa::Aarch64 && !cfg!(target_arch = "aarch64") {
            assert_eq!(one(&code, &scan, 64, 1, &tagged()).status, status::BAIL);
        }
    }
    for seed in 0..12 {
        let pipeline = testing::pipeline(seed);
        let unit = support::unit(&pipeline, &opt::Options::none(), &|n| n % 2 == 0);
        let options = Options { isa: Isa::Aarch64, ..Options::quick() };
        compile(&unit, &mut cache, &options).unwrap();
    }
}

#[test]
fn units_that_contradict_themselves_are_refused() {
    let flows = Flows::of(3, &[], GATEWAY);
    let unit = unit(&flows.pipeline, &opt::Options::default(), &|_| false);
    let refused = |change: &dyn Fn(&mut Unit)| {
        let mut unit = unit.clone();
        change(&mut unit);
        let error = compile(&unit, &mut Cache::new(), &Options::default()).unwrap_err();
        assert!(matches!(error, Error::Unit { .. }), "{error}");
    };
    refused(&|unit| unit.nodes.reverse());
    refused(&|unit| unit.nodes[0].applied = ir::TableId(1));
    refused(&|unit| unit.nodes[0].columns = vec![1000]);
    refused(&|unit| unit.nodes[0].record_words = 0);
    refused(&|unit| unit.nodes[0].block = ir::BlockId(1 << 20));
}

/// An action with so many outputs, with changes between them if asked; how many of so many packets, in bursts of 64, are native.
fn outputs(outputs: usize, changes: bool, packets: usize) -> (u64, Tally) {
    let one = |n: usize| match changes {
        true => format!("output {n}; udp.dport = udp.dport + 1"),
        false => format!("output {n}"),
    };
    let body = (0..outputs).map(one).collect::<Vec<_>>().join("; ");
    let text = format!("use std\naction all {{ {body} }}\ntable t {{ default all }}\n");
    let pipeline = ir::text::pipeline(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let unit = unit(&pipeline, &opt::Options::default(), &|_| true);
    let mut both = Both::new(&pipeline, &unit, &mut Cache::new());
    let frames: Vec<(u32, Vec<u8>)> = (0..packets)
        .map(|n| (1, frame(&format!("udp,nw_dst=10.0.0.1,tp_dst={}", n + 1))))
        .collect();
    let mut tally = Tally::default();
    for burst in frames.chunks(64) {
        both.burst(burst, 5, &mut tally, &format!("{outputs} outputs"));
    }
    (tally.native, tally)
}

#[test]
fn outputs_and_copies_are_noted_up_to_bounds() {
    let most = abi::OUTPUTS_MAX + abi::MORE_MAX;
    for (n, native) in [(1, 70), (3, 70), (4, 70), (most, 70), (most + 1, 0)] {
        let (is, tally) = outputs(n, false, 70);
        assert_eq!((is, tally.laid), (native, 0), "{n} outputs: {:?}", tally.reasons);
    }
    // The change behind the last one is never seen, and left out.
    for (n, native) in [(1, 20), (4, 20), (abi::LAID_MAX + 1, 20), (abi::LAID_MAX + 2, 0)] {
        let (is, tally) = outputs(n, true, 20);
        let laid = native * (n as u64 - 1);
        assert_eq!((is, tally.laid), (native, laid), "{n} outputs: {:?}", tally.reasons);
    }
    // There is room for so many copies of so many packets, and no more.
    let each = 38;
    let room = (abi::IMAGES_BYTES / 48 / each) as u64;
    let (is, tally) = outputs(each + 1, true, 64);
    assert!((room - 1..=room).contains(&is), "{is} of {room}: {:?}", tally.reasons);
    assert!(tally.reasons.keys().all(|why| why == "more copies than there is room for"));
}

/// What would take very long to compile is left, so that a program's size bounds the time that its code takes.
#[test]
fn code_that_would_become_too_long_is_left() {
    let program = |steps: usize| {
        let step = |i: usize| format!("w = w + mac{}", i % 2);
        let body = (0..steps).map(step).collect::<Vec<_>>().join("; ");
        let text = format!(
            "use std\nmeta w: 1024\nmeta mac0: 1024\nmeta mac1: 1024\n\
             action long {{ mac0 = cast(1024, eth.src); mac1 = cast(1024, eth.dst); {body}; \
             eth.src = cast(48, w); output 1 }}\ntable t {{ default long }}\n"
        );
        ir::text::pipeline(&text).unwrap_or_else(|e| panic!("{e}"))
    };
    for (steps, long) in [(10, false), (2000, true)] {
        let pipeline = program(steps);
        let unit = unit(&pipeline, &opt::Options::none(), &|_| true);
        let code = compiled(&unit);
        let why: Vec<&str> = code.leaves().iter().map(|text| &**text).collect();
        let said = why.iter().any(|text| text.ends_with("the code would become too long"));
        assert_eq!(said, long, "{steps} steps: {why:?}");
        let (mut cache, options) = (Cache::new(), Options::default());
        let mut both = Both::with(&pipeline, &unit, &mut cache, &options);
        let mut tally = Tally::default();
        both.burst(&[(1, frame("udp,nw_dst=10.0.0.1"))], 5, &mut tally, "long");
        assert_eq!(tally.native, u64::from(!long));
    }
}

/// The pipeline of a filetest.
fn filetest(text: &str) -> ir::Pipeline {
    let program = text.split("\n\n").next().unwrap_or_default();
    let program: Vec<&str> = program.lines().filter(|l| !l.starts_with("test")).collect();
    ir::text::pipeline(&program.join("\n")).unwrap_or_else(|e| panic!("{e}"))
}

/// Code of one version and of several runs all of these frames, and does with them what the interpreter does.
fn all_are_native(pipeline: &ir::Pipeline, frames: &[&[u8]], what: &str) {
    for one_version in [false, true] {
        let unit = unit(pipeline, &opt::Options::default(), &|_| true);
        let options = Options { one_version, ..Options::default() };
        let (mut cache, mut tally) = (Cache::new(), Tally::default());
        let mut both = Both::with(pipeline, &unit, &mut cache, &options);
        let frames: Vec<_> = frames.iter().map(|bytes| (1, bytes.to_vec())).collect();
        both.burst(&frames, 5, &mut tally, what);
        let native = frames.len() as u64;
        assert_eq!(tally.native, native, "one version: {one_version}: {:?}", tally.reasons);
    }
}

/// Headers that leave in another order than they came in are no reason to leave a packet.
#[test]
fn headers_in_another_order_than_the_deparser_s_are_laid_anew() {
    let pipeline = filetest(include_str!("../../../filetests/jit/out_of_order.mill"));
    let frames: [&[u8]; 6] = [
        &[1, 0x10, 2, 0x20, 0x21, 9, 0x88],
        &[2, 0x20, 0x21, 1, 0x10, 9, 0x88],
        &[3, 0x55, 2, 0x20, 0x21, 9, 0x88],
        &[4, 0x10, 1, 0x20, 0x88],
        &[5, 0x77, 2, 0x20, 0x21, 9, 0x88],
        &[1, 0x10, 5, 0x77, 2, 0x20, 0x21, 0x88],
    ];
    all_are_native(&pipeline, &frames, "out of order");
}

/// Nor is a parser that writes to headers, where no checksum and no service asks for what was parsed.
#[test]
fn a_parser_s_writes_to_headers_are_writes_like_others() {
    let pipeline = filetest(include_str!("../../../filetests/jit/parser_writes.mill"));
    let frames: [&[u8]; 6] = [
        &[1, 0x10, 0x99],
        &[1, 0x10, 2, 0x20, 0x21, 0x88],
        &[2, 0x20, 0x21, 0x88],
        &[3, 0x10, 2, 0x20, 0x21, 0x88],
        &[3, 0x10, 0x88],
        &[7, 1, 2],
    ];
    all_are_native(&pipeline, &frames, "the parser writes");
}

/// Where a version of everything for each way through the parser becomes too long, there are fewer of them.
#[test]
fn long_programs_have_fewer_versions_and_leave_nothing() {
    let step = |i: usize| format!("w = w + mac{}", i % 2);
    let body = (0..30).map(step).collect::<Vec<_>>().join("; ");
    let blocks: Vec<String> = (0..12)
        .map(|n| {
            let next = if n == 11 { "end".to_owned() } else { format!("jump b{}", n + 1) };
            let output = if n == 11 { "ipv4.ttl = w[7:0]; output 1; " } else { "" };
            format!("block b{n} {{\n if valid(ipv4) {{ {body} }}\n {output}{next}\n}}\n")
        })
        .collect();
    let text =
        format!("use std\nmeta w: 1024\nmeta mac0: 1024\nmeta mac1: 1024\n{}", blocks.concat());
    let pipeline = ir::text::pipeline(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let unit = unit(&pipeline, &opt::Options::none(), &|_| true);
    let code = compiled(&unit);
    let long = |text: &&std::sync::Arc<str>| text.ends_with("the code would become too long");
    assert_eq!(code.leaves().iter().find(long), None);
    let (mut cache, mut tally) = (Cache::new(), Tally::default());
    let mut both = Both::with(&pipeline, &unit, &mut cache, &Options::default());
    let kinds = ["udp,nw_dst=10.0.0.1", "tcp,nw_dst=10.0.0.1,dl_vlan=7", "icmp,nw_dst=10.0.0.1"];
    both.burst(&kinds.map(|kind| (1, frame(kind))), 5, &mut tally, "many versions");
    assert_eq!(tally.native, 3, "{:?}", tally.reasons);
}
