//! What code deals ([`abi::deal`]): places by port, and lent frames moved as their outcomes say.
#![allow(unsafe_code)]

#[path = "../../opt/tests/common/flows.rs"]
#[allow(dead_code)] // the rest serves other tests
mod flows;
#[allow(unreachable_pub)]
mod support;

use abi::deal::{FRAME_MIN, NOWHERE, Places, SINK};
use abi::{BURST_MAX, Dealt, Hit, Mbuf, Packet, Ways, status};
use flows::{Flows, frame};
use jit::{Cache, NoServices, Options, Scratch, Tables, compile};
use std::ptr::NonNull;
use support::{Native, Scan, unit};

/// Tags that come and go, drops, a port without a place, several ports, the control side.
const FLOWS: &str =
    "table=0,priority=10,in_port=1,vlan_tci=0x1000/0x1000 actions=pop_vlan,goto_table:1
    table=0,priority=9,in_port=1 actions=goto_table:1
    table=0,priority=9,in_port=2 actions=push_vlan:0x8100,set_field:4197->vlan_vid,goto_table:1
    table=1,udp,tp_dst=1 actions=output:2
    table=1,udp,tp_dst=2 actions=output:3
    table=1,udp,tp_dst=3 actions=output:70000
    table=1,udp,tp_dst=4 actions=output:4,output:2
    table=1,udp,tp_dst=5 actions=drop
    table=1,udp,tp_dst=6 actions=dec_ttl,output:3
    table=1,udp,tp_dst=7 actions=output:9";

struct Lent<'a>(Scan<'a>, Ways<'a>);

impl Tables for Lent<'_> {
    fn lookup(&self, node: usize, keys: &[u8], stride: usize, hits: &mut [Hit]) -> bool {
        self.0.lookup(node, keys, stride, hits)
    }
    fn records(&self, node: usize) -> &[u64] {
        self.0.records(node)
    }
    fn ways(&self) -> Ways<'_> {
        self.1
    }
}

/// A frame in a buffer: where it begins there, how long it is.
#[derive(Clone)]
struct Lies {
    buffer: Vec<u8>,
    start: usize,
    len: usize,
}

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn frames_are_dealt_and_moved_as_their_outcomes_say() {
    let flows = Flows::of(9, &[], FLOWS);
    let mut places: Places = [NOWHERE; 257];
    (places[2], places[3], places[4]) = (0, 1, 2);
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut seen = [0usize; 6];
    for direct in [false, true] {
        let unit = unit(&flows.pipeline, &opt::Options::default(), &|_| direct);
        let code = compile(&unit, &mut Cache::new(), &Options::default()).expect("it compiles");
        for _ in 0..60 {
            let in_port = 1 + (xorshift(&mut random) % 2) as u32;
            let n = 1 + (xorshift(&mut random) % BURST_MAX as u64) as usize;
            let frames: Vec<Lies> = (0..n)
                .map(|_| {
                    let mut any = |n: u64| (xorshift(&mut random) >> 20) % n;
                    let mut bytes = frame(&format!("udp,nw_dst=10.0.0.1,tp_dst={}", any(8)));
                    if in_port == 1 && any(2) == 0 {
                        bytes.splice(12..12, [0x81, 0, 0, 5]);
                    }
                    if any(3) > 0 {
                        bytes.resize([60, 61, 63, 64, 90][any(5) as usize], 0x55);
                    }
                    let (room, behind) = ([0, 3, 4, 128][any(4) as usize], any(9) as usize);
                    let len = bytes.len();
                    let buffer = [&vec![0xee; room][..], &bytes, &vec![0xdd; behind]].concat();
                    Lies { buffer, start: room, len }
                })
                .collect();
            let run = |frames: &mut [Lies], lent: bool| {
                let mut mbufs: Vec<Mbuf> = frames
                    .iter_mut()
                    .map(|lies| Mbuf {
                        buffer: lies.buffer.as_mut_ptr(),
                        start: lies.start as u16,
                        len: lies.len as u32,
                        len_here: lies.len as u16,
                        buffer_len: lies.buffer.len() as u16,
                        ..Mbuf::default()
                    })
                    .collect();
                let tokens: Vec<NonNull<()>> =
                    mbufs.iter_mut().map(|mbuf| NonNull::from(mbuf).cast()).collect();
                let mut packets: Vec<Packet<'_>> = frames
                    .iter_mut()
                    .map(|lies| Packet::new(&mut lies.buffer, lies.start, lies.len, in_port))
                    .collect();
                let ways = match lent {
                    // SAFETY: each mbuf says where its packet lies, and nobody else looks at them.
                    true => unsafe { Ways::lent(&places, &tokens, &packets) },
                    false => Ways::none(),
                };
                let tables = Lent(Scan::new(&unit, &flows.pipeline), ways);
                let native = Native::new(&unit, &flows.pipeline);
                let mut scratch = Scratch::new();
                let counters = native.counters();
                code.run(&tables, counters, &mut NoServices, &mut scratch, &mut packets, 0);
                let dealt: Dealt = *scratch.dealt().expect("code has run");
                let outcomes: Vec<_> = packets.iter().map(|packet| **packet).collect();
                drop(packets);
                let lie = |mbuf: &Mbuf| (mbuf.start, mbuf.len, mbuf.len_here);
                (outcomes, dealt, mbufs.iter().map(lie).collect::<Vec<_>>())
            };
            let (mut plain, mut moved) = (frames.clone(), frames.clone());
            let (outcomes, none, lie) = run(&mut plain, false);
            // Drops go nowhere, whoever sends.
            assert!(none.places.iter().all(|place| *place >= SINK) && none.moved == 0);
            assert!(lie.iter().zip(&frames).all(|(lie, frame)| usize::from(lie.0) == frame.start));
            let (same, dealt, lie) = run(&mut moved, true);
            for (at, (outcome, before)) in outcomes.iter().zip(&frames).enumerate() {
                let port = outcome.single().filter(|port| (2..5).contains(port));
                let place = match (port, outcome.status) {
                    (Some(port), _) => port as u8 - 2,
                    (_, status::DROP) => SINK,
                    _ => NOWHERE,
                };
                assert_eq!((same[at].status, same[at].shift), (outcome.status, outcome.shift));
                let by = outcome.shift;
                let len = (before.len as i32 - by) as u32;
                let pads = before.len as u32 >= FRAME_MIN && len < FRAME_MIN;
                let fits = before.start + before.len + 4 <= before.buffer.len();
                let is = (dealt.places[at], lie[at]);
                let stays = (before.start as u16, before.len as u32, before.len as u16);
                let (mut expected, mut bytes) = ((place, stays), plain[at].buffer.clone());
                // Where code was made for several ways, it does not know how many zeros it would take.
                let unknown = pads && is.0 == NOWHERE;
                if place < SINK && (pads && !fits || unknown) {
                    expected.0 = NOWHERE;
                } else if place < SINK && by != 0 {
                    let len = if pads { FRAME_MIN } else { len };
                    expected.1 = ((before.start as i32 + by) as u16, len, len as u16);
                    if pads {
                        bytes[before.start + before.len..][..4].fill(0);
                    }
                }
                assert_eq!(is, expected, "{outcome:?}");
                assert_eq!(moved[at].buffer, bytes, "{outcome:?}");
                let kind = match (is.0, by) {
                    (SINK, _) => 0,
                    (NOWHERE, _) => 1,
                    (_, 0) => 2,
                    (_, ..0) => 3,
                    _ if pads => 4,
                    _ => 5,
                };
                seen[kind] += 1;
            }
            for beyond in &dealt.places[n..] {
                assert_eq!(*beyond, NOWHERE);
            }
            let any = lie.iter().zip(&frames).any(|(lie, frame)| usize::from(lie.0) != frame.start);
            assert!(dealt.moved != 0 || !any);
        }
    }
    assert!(seen.iter().all(|n| *n > 20), "{seen:?}");
}
