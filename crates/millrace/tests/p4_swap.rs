//! A P4 program swapped for another one while packets flow: none is lost, none is treated half by each,
//! none overtakes another, and entries and their counters come along.

use ::p4::control::Control;
use ::p4::lower::Lowered;
use port::{Frame, memory};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use switch::{Config, EngineKind, Switch};

/// Packets on their way at once, at most.
const WAITING_MAX: u64 = 1 << 14;
/// Packets that come together and are looked at together, so that three threads fit two cores.
const TOGETHER: u64 = 64;

/// Stamps each packet in ingress, in an action of a table, in egress and in the deparser's checksum part:
/// four places that must be of one program.
/// A register is not what compiled code does by itself, so only the other test has one.
fn program(stamp: u8, register: bool) -> Lowered {
    let count = match register {
        true => "seen.read(h.h.count, 0); h.h.count = h.h.count + 1; seen.write(0, h.h.count);",
        false => "",
    };
    let text = format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<48> dst; bit<48> src; bit<16> kind; bit<64> n; bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<32> count; }}
struct headers {{ h_t h; }}
struct meta {{ }}
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t sm) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control V(inout headers h, inout meta m) {{ apply {{ }} }}
control I(inout headers h, inout meta m, inout standard_metadata_t sm) {{
    direct_counter(CounterType.packets) used;
    register<bit<32>>(1) seen;
    action go(bit<9> port) {{ sm.egress_spec = port; h.h.b = {stamp}; }}
    table where {{ key = {{ h.h.dst: exact; }} actions = {{ go; }} counters = used; }}
    apply {{
        h.h.a = {stamp};
        {count}
        where.apply();
    }}
}}
control E(inout headers h, inout meta m, inout standard_metadata_t sm) {{ apply {{ h.h.c = {stamp}; }} }}
control U(inout headers h, inout meta m) {{ apply {{ h.h.d = {stamp}; }} }}
control D(packet_out p, in headers h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#
    );
    ::p4::with_stack(|| {
        let options = ::p4::preprocess::Options::default();
        let mut c = ::p4::front(&::p4::preprocess::NoFiles, &options, Path::new("s.p4"), &text);
        let lowered = ::p4::lower::lower(&c.program, &mut c.diagnostics);
        lowered.unwrap_or_else(|| panic!("{}", c.diagnostics.render(&c.map)))
    })
}

/// What was seen of swaps under traffic; that nothing was lost, mixed or overtaken is checked.
struct Seen {
    packets: u64,
    /// Packets of a second.
    rate: f64,
    /// From a compiled program at hand to all workers forwarding by it.
    slowest: Duration,
}

/// Swaps so often while packets come, so many a second or as fast as they are taken.
fn swaps(engine: EngineKind, register: bool, swaps: u8, rate: Option<f64>) -> Seen {
    let first = program(0, register);
    let config = Config {
        program: Arc::new(first.program.clone()),
        workers: 1,
        cpus: Vec::new(),
        punt_rate: 1000,
        engine,
        validate: None,
    };
    let switch = Switch::start(config).unwrap();
    let ids = switch.clone();
    let ids = move || ids.allocate_counter().map_err(|e| e.to_string());
    let mut control = Control::with_ids(first, Box::new(ids)).unwrap();
    switch.transact(&control.pipeline.contents()).unwrap();
    let mut far = Vec::new();
    for number in 1..=2 {
        let config = memory::Config { capacity: WAITING_MAX as usize, ..memory::Config::default() };
        let (port, end) = memory::port(&format!("swap{number}"), config).unwrap();
        switch.add_port(Some(number), Box::new(port)).unwrap();
        far.push(end);
    }
    let key = [(None, "02:00:00:00:00:01".to_string())];
    let (entry, updates) = control.add("where", &key, 0, "go", &[(None, "2".into())]).unwrap();
    switch.transact(&updates).unwrap();
    switch.sync();

    // What was sent and what came back; never more on the way than the rings hold.
    let (stop, back) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    // How many it will have been in the end.
    let all = Arc::new(AtomicU64::new(u64::MAX));
    let since = Instant::now();
    let sending = {
        let (stop, back, near) = (stop.clone(), back.clone(), far[0].clone());
        std::thread::spawn(move || {
            let mut sent = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let due = rate.map_or(u64::MAX, |r| (r * since.elapsed().as_secs_f64()) as u64);
                let waiting = sent - back.load(Ordering::Relaxed);
                if sent + TOGETHER > due || waiting + TOGETHER > WAITING_MAX {
                    std::thread::yield_now();
                    continue;
                }
                for _ in 0..TOGETHER {
                    let mut bytes = [0; 64];
                    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x12, 0x34]);
                    bytes[14..22].copy_from_slice(&sent.to_be_bytes());
                    bytes[22..26].copy_from_slice(&[0xff; 4]);
                    assert!(near.inject(Frame::copy_of(&bytes)).is_ok(), "there is room");
                    sent += 1;
                }
            }
            sent
        })
    };
    let looking = {
        let (all, back, end) = (all.clone(), back.clone(), far[1].clone());
        std::thread::spawn(move || {
            let (mut next, mut last, mut stamps) = (0u64, 0u8, Vec::new());
            let mut quiet = Instant::now();
            while next < all.load(Ordering::Relaxed) && quiet.elapsed() < Duration::from_secs(60) {
                let Some(first) = end.take_within(Duration::from_millis(10)) else { continue };
                quiet = Instant::now();
                let mut frames = vec![first];
                end.take_into(TOGETHER as usize, |frame| frames.push(frame));
                for frame in frames {
                    let bytes = frame.data();
                    let n = u64::from_be_bytes(bytes[14..22].try_into().unwrap());
                    assert_eq!(n, next, "in order, none lost, none twice");
                    let stamp = bytes[22];
                    assert_eq!(bytes[22..26], [stamp; 4], "packet {n} is of one program");
                    assert!(stamp >= last, "packet {n}: {stamp} after {last}");
                    let count = u32::from_be_bytes(bytes[26..30].try_into().unwrap());
                    let counted = if register { n + 1 } else { 0 };
                    assert_eq!(u64::from(count), counted, "the register goes on");
                    if stamps.last() != Some(&stamp) {
                        stamps.push(stamp);
                    }
                    (next, last) = (n + 1, stamp);
                }
                back.store(next, Ordering::Relaxed);
            }
            (next, stamps)
        })
    };
    let mut slowest = Duration::ZERO;
    for stamp in 1..=swaps {
        std::thread::sleep(Duration::from_millis(20));
        let lowered = program(stamp, register);
        let version = switch.version();
        let began = Instant::now();
        let (updates, carried) = control.swap(lowered).unwrap();
        assert_eq!((carried.entries, carried.left.len()), (1, 0));
        switch.transact(&updates).unwrap();
        assert_eq!(switch.sync(), version + 1, "one version step");
        slowest = slowest.max(began.elapsed());
        // From here on every packet is the new program's: let some through before the next one comes.
        let passed = back.load(Ordering::Relaxed);
        while back.load(Ordering::Relaxed) < passed + 3000 && !looking.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    stop.store(true, Ordering::Relaxed);
    let sent = sending.join().unwrap();
    all.store(sent, Ordering::Relaxed);
    let seconds = since.elapsed().as_secs_f64();
    let (received, stamps) = looking.join().unwrap();
    assert!(far[1].take_within(Duration::from_millis(100)).is_none(), "none twice");
    assert_eq!(sent, received, "0 lost");
    assert_eq!(stamps, (0..=swaps).collect::<Vec<u8>>(), "every program had its packets");
    assert_eq!(switch.counter(entry.0).packets, sent, "the entry's counter goes on");
    switch.stop();
    let seen = Seen { packets: sent, rate: sent as f64 / seconds, slowest };
    println!(
        "{sent} packets, {:.2} million a second, {swaps} swaps, the slowest in force after {slowest:?}: 0 lost, 0 mixed",
        seen.rate / 1e6
    );
    seen
}

#[test]
fn compiled_programs_swap_under_traffic() {
    assert!(swaps(EngineKind::default(), false, 20, None).packets >= 20 * 3000);
}

/// A bench: `cargo test --release -p millrace --test p4_swap -- --ignored --nocapture`.
#[test]
#[ignore = "needs two cores nearly for itself, and the release profile"]
fn a_million_packets_a_second_and_swaps() {
    let seen = swaps(EngineKind::default(), false, 50, Some(1e6));
    assert!(seen.rate > 0.95e6, "{} packets a second", seen.rate);
    assert!(seen.slowest < Duration::from_millis(50), "in force after {:?}", seen.slowest);
}

#[test]
fn interpreted_programs_swap_under_traffic() {
    assert!(swaps(EngineKind::Interp, true, 20, None).packets >= 20 * 3000);
}
