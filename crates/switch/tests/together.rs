//! Everything at once, from several threads: nothing waits for ever, nothing is counted twice.

mod common;

use common::{Net, add, balance, injection, until};
use ir::testing::Rng;
use ir::{Band, EntryId, Meter, MeterId, Update};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use switch::{PortConfig, Switch};
use testkit::station::{FIRST, SECOND, call, frame, insert};

/// One client's random doings, on entries and a port of its own. Returns what it injected.
fn client(switch: &Switch, me: u32) -> u64 {
    let mut random = Rng::new(u64::from(me));
    let mut entries: Vec<u32> = Vec::new();
    let mut injected = 0;
    for round in 0..300u32 {
        match random.below(14) {
            0..=3 => {
                let id = switch.allocate_counter().unwrap();
                let station = 1000 * me + round;
                let action = random.pick(&[
                    call("out", &[1]),
                    call("drop", &[]),
                    call("punt", &[]),
                    call("meter", &[me, 2]),
                ]);
                switch.transact(&[insert(SECOND, id, station, action)]).unwrap();
                entries.push(id);
            }
            4 if !entries.is_empty() => {
                let id = entries.swap_remove(random.below(entries.len()));
                switch.transact(&[Update::Delete(SECOND, EntryId(id))]).unwrap();
                switch.retire_counter(id);
            }
            5 => assert!(switch.sync() <= switch.version()),
            6 => {
                let bands = vec![Band { rate: 1000, burst: 10, color: 2, level: 0 }];
                let meter = Arc::new(Meter { packets: true, bands });
                switch.transact(&[Update::SetMeter(MeterId(me), meter)]).unwrap();
                assert!(switch.meter_stats(MeterId(me)).is_some());
            }
            7 => {
                switch.trace(1, &frame(1000 * me, round));
            }
            8 => {
                let far = add(switch, 10 + me);
                switch.inject(injection(1, frame(0, round), 10 + me));
                injected += 1;
                let config = PortConfig { down: random.one_in(2), ..PortConfig::default() };
                switch.configure_port(10 + me, config).unwrap();
                switch.remove_port(10 + me).unwrap();
                far.take_into(usize::MAX, drop);
            }
            9 => {
                assert_eq!(switch.expired(), []);
                while switch.try_message().is_some() {}
            }
            10 => {
                let reader = switch.counters();
                entries.iter().for_each(|id| assert!(reader.read(*id).is_some()));
            }
            11 => {
                switch.inject(injection(1, frame(0, round), 2));
                injected += 1;
            }
            12 => {
                switch.explain();
                switch.table_stats(SECOND);
                switch.port_counters();
            }
            _ => assert!(switch.with_pipeline(|p| p.entries(SECOND).len()) >= entries.len()),
        }
    }
    injected
}

#[test]
fn many_clients_under_traffic() {
    let net = Net::new(3, 3);
    net.switch.transact(&[insert(FIRST, 1 << 20, 5, call("out", &[2]))]).unwrap();
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let traffic = {
        let (stop, sent, far) = (stop.clone(), sent.clone(), net.far.clone());
        std::thread::spawn(move || {
            let mut random = Rng::new(0);
            while !stop.load(Ordering::Relaxed) {
                for far in &far {
                    let station = if random.one_in(2) { 5 } else { random.below(4300) as u32 };
                    let put = far.inject_bytes(&frame(station, 0));
                    sent.fetch_add(u64::from(put), Ordering::Relaxed);
                    far.take_into(usize::MAX, drop);
                }
            }
        })
    };
    let clients: Vec<_> = (1..=4)
        .map(|me| {
            let switch = net.switch.clone();
            std::thread::spawn(move || client(&switch, me))
        })
        .collect();
    let injected: u64 = clients.into_iter().map(|c| c.join().unwrap()).sum();
    stop.store(true, Ordering::Relaxed);
    traffic.join().unwrap();
    let sent = sent.load(Ordering::Relaxed) + injected;
    println!("{sent} frames, of them {injected} injected");
    let gone = net.switch.departed();
    let gone = gone.tx_packets + gone.drops.iter().map(|d| d.1).sum::<u64>();
    until("all frames have ended", || {
        let (received, ended) = balance(&net.switch);
        (received, ended + gone) == (sent, sent)
    });
}
