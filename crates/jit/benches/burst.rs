//! Time per packet of generated code and driver, lookups left out: every one of them is answered
//! with the entry that the packets are made for. Frames are copied anew for each burst; the time of
//! that is measured alone and taken off.
//!
//! With the argument `text`, prints the machine code too.

#[path = "../../opt/tests/common/flows.rs"]
#[allow(dead_code)] // the rest serves tests
mod flows;
#[path = "../tests/support/mod.rs"]
#[allow(unreachable_pub)]
mod support;

use abi::{Hit, Packet, status};
use flows::{Flows, frame};
use jit::{Cache, NoServices, Options, Scratch, Tables, compile};
use std::hint::black_box;
use std::time::Instant;
use support::{HEADROOM, Native, Scan, unit};

/// The same hits for every burst.
struct Fixed<'a> {
    hits: Vec<Vec<Hit>>,
    scan: Scan<'a>,
}

impl Tables for Fixed<'_> {
    fn lookup(&self, node: usize, _: &[u8], _: usize, hits: &mut [Hit]) -> bool {
        let n = hits.len();
        hits.copy_from_slice(&self.hits[node][..n]);
        true
    }

    fn records(&self, node: usize) -> &[u64] {
        self.scan.records(node)
    }
}

/// Remembers the hits of a first burst.
struct Learn<'a> {
    scan: Scan<'a>,
    hits: std::cell::RefCell<Vec<Vec<Hit>>>,
}

impl Tables for Learn<'_> {
    fn lookup(&self, node: usize, keys: &[u8], stride: usize, hits: &mut [Hit]) -> bool {
        let answered = self.scan.lookup(node, keys, stride, hits);
        self.hits.borrow_mut()[node] = hits.to_vec();
        answered
    }

    fn records(&self, node: usize) -> &[u64] {
        self.scan.records(node)
    }
}

fn case(name: &str, lines: &str, frames: &[Vec<u8>], direct: &dyn Fn(usize) -> bool) {
    let flows = Flows::of(8, &[], lines);
    let unit = unit(&flows.pipeline, &opt::Options::default(), direct);
    let text = std::env::args().any(|a| a == "text");
    let mut cache = Cache::new();
    let options = Options { keep_text: text, ..Options::default() };
    let code = compile(&unit, &mut cache, &options).expect("it compiles");
    let again = compile(&unit, &mut cache, &options).expect("it compiles");
    let templates: Vec<Vec<u8>> = frames
        .iter()
        .map(|f| {
            let mut buffer = vec![0; HEADROOM];
            buffer.extend(f);
            buffer.resize(256, 0);
            buffer
        })
        .collect();
    let n = 32;
    let mut buffers: Vec<Vec<u8>> = (0..n).map(|i| templates[i % frames.len()].clone()).collect();
    let mut scratch = Scratch::new();
    let learn = Learn {
        scan: Scan::new(&unit, &flows.pipeline),
        hits: vec![Vec::new(); unit.nodes.len()].into(),
    };
    let native = Native::new(&unit, &flows.pipeline);
    let mut forwarded = 0;
    {
        let mut packets: Vec<Packet<'_>> = buffers
            .iter_mut()
            .enumerate()
            .map(|(i, b)| Packet::new(b, HEADROOM, frames[i % frames.len()].len(), 1))
            .collect();
        code.run(&learn, native.counters(), &mut NoServices, &mut scratch, &mut packets, 0);
        for packet in &packets {
            assert_ne!(packet.status, status::BAIL, "{}", code.bails()[packet.reason as usize]);
            forwarded += usize::from(packet.status == status::FORWARD);
        }
    }
    let fixed = Fixed { hits: learn.hits.into_inner(), scan: learn.scan };
    let mut best = [f64::MAX; 2];
    for _ in 0..40 {
        for (which, best) in best.iter_mut().enumerate() {
            let rounds = 500;
            let begun = Instant::now();
            for _ in 0..rounds {
                for (i, buffer) in buffers.iter_mut().enumerate() {
                    let from = &templates[i % templates.len()];
                    buffer[HEADROOM..HEADROOM + 64].copy_from_slice(&from[HEADROOM..HEADROOM + 64]);
                }
                let mut packets: arrayish::Packets<'_> = arrayish::Packets::new();
                for (i, buffer) in buffers.iter_mut().enumerate() {
                    let len = frames[i % frames.len()].len();
                    packets.push(Packet::new(buffer, HEADROOM, len, 1));
                }
                if which == 1 {
                    code.run(
                        &fixed,
                        native.counters(),
                        &mut NoServices,
                        &mut scratch,
                        packets.slice(),
                        0,
                    );
                }
                black_box(packets.slice());
            }
            *best = best.min(begun.elapsed().as_nanos() as f64 / f64::from(rounds) / n as f64);
        }
    }
    println!(
        "{name}: {:.2} ns a packet ({forwarded} of {n} forwarded), {} bytes of code, compiled in {} us, again in {} us",
        best[1] - best[0],
        code.code_bytes(),
        code.compile_time().as_micros(),
        again.compile_time().as_micros(),
    );
    if text {
        for node in [None].into_iter().chain((0..unit.nodes.len()).map(Some)) {
            for text in code.texts(node) {
                println!("--- {node:?}\n{}\n{}", text.clif, text.disasm);
            }
        }
    }
}

/// A vector that keeps its memory between bursts of other lifetimes.
mod arrayish {
    use abi::Packet;

    pub(crate) struct Packets<'a>(Vec<Packet<'a>>);

    impl<'a> Packets<'a> {
        pub(crate) fn new() -> Packets<'a> {
            Packets(Vec::with_capacity(32))
        }
        pub(crate) fn push(&mut self, packet: Packet<'a>) {
            self.0.push(packet);
        }
        pub(crate) fn slice(&mut self) -> &mut [Packet<'a>] {
            &mut self.0
        }
    }
}

fn main() {
    let mac = |last: u8| frame(&format!("dl_dst=02:00:00:00:00:{last:02x},dl_type=0x88b5"));
    let bridge: String = (2..20)
        .map(|n| format!("table=0,dl_dst=02:00:00:00:00:{n:02x} actions=output:{n}\n"))
        .collect();
    let macs: Vec<Vec<u8>> = (2..18).map(mac).collect();
    case("bridge, phased", &bridge, &macs, &|_| false);
    case("bridge, 18 entries as code", &bridge, &macs, &|_| true);

    let router = "table=0,priority=10,ip,dl_dst=02:00:00:00:00:ff actions=goto_table:1
        table=1,priority=8,ip,nw_dst=10.0.0.0/8 actions=dec_ttl,set_field:02:00:00:00:00:ff->eth_src,set_field:02:00:00:00:01:02->eth_dst,output:2
        table=1,priority=16,ip,nw_dst=10.1.0.0/16 actions=dec_ttl,set_field:02:00:00:00:00:ff->eth_src,set_field:02:00:00:00:01:03->eth_dst,output:3
        table=1,priority=17,ip,nw_dst=10.2.0.0/16 actions=dec_ttl,set_field:02:00:00:00:00:ff->eth_src,set_field:02:00:00:00:01:03->eth_dst,output:3";
    let udp = |dst: u8| {
        frame(&format!(
            "udp,dl_dst=02:00:00:00:00:ff,nw_src=192.0.2.1,nw_dst=10.{dst}.2.3,nw_ttl=64,tp_src=7,tp_dst=8"
        ))
    };
    let udps: Vec<Vec<u8>> = (0..4).map(udp).collect();
    case("router, phased", router, &udps, &|_| false);
    case("router, first table as code", router, &udps, &|n| n < 2);

    let gateway = "table=0,priority=10,in_port=1,vlan_tci=0x1000/0x1000 actions=goto_table:1
        table=0,priority=10,in_port=2,ip actions=goto_table:3
        table=1,priority=10,ip,dl_vlan=101,nw_src=10.0.0.101 actions=pop_vlan,set_field:203.0.113.1->ip_src,write_metadata:0x65,goto_table:2
        table=1,priority=10,ip,dl_vlan=102,nw_src=10.0.0.102 actions=pop_vlan,set_field:203.0.113.2->ip_src,write_metadata:0x66,goto_table:2
        table=2,priority=20,ip,metadata=0x66,nw_dst=198.51.100.0/24 actions=drop
        table=2,priority=10,ip actions=dec_ttl,output:2
        table=3,priority=10,ip,nw_dst=203.0.113.1 actions=set_field:10.0.0.101->ip_dst,push_vlan:0x8100,set_field:4197->vlan_vid,dec_ttl,output:1";
    let up = |n: u8| {
        let text = format!("udp,nw_src=10.0.0.{n},nw_dst=192.0.2.9,nw_ttl=64,tp_src=9,tp_dst=9");
        let mut bytes = frame(&text);
        bytes.splice(12..12, [0x81, 0, 0, n]);
        bytes
    };
    let ups: Vec<Vec<u8>> = (101..103).map(up).collect();
    case("gateway up, phased", gateway, &ups, &|_| false);
    case("gateway up, first table as code", gateway, &ups, &|n| n < 3);
    let down = "table=0,priority=10,ip actions=goto_table:3
        table=3,priority=10,ip,nw_dst=203.0.113.1 actions=set_field:10.0.0.101->ip_dst,push_vlan:0x8100,set_field:4197->vlan_vid,dec_ttl,output:2";
    let downs = [frame("udp,nw_src=192.0.2.9,nw_dst=203.0.113.1,nw_ttl=64,tp_src=9,tp_dst=9")];
    case("gateway down, phased", down, &downs, &|_| false);
}
