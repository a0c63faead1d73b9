//! No packet is lost without being counted under a reason: what went in is, to the packet, what came
//! out plus what the counters say was dropped, while links, port configurations, entries and ports
//! themselves come and go.
//!
//! `ACCOUNTED_PACKETS=100000000 cargo test --release -p switch --test accounting` for a long run.

mod common;

use common::{add, config};
use ir::testing::Rng;
use ir::{EntryId, Update};
use port::{Frame, memory};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use switch::{PortConfig, Switch};
use testkit::station::{FIRST, SECOND, call, frame, insert};

/// Ports that stay; one more comes and goes.
const PORTS: u32 = 4;
/// Its number.
const GUEST: u32 = 5;
/// Stations that frames are for.
const STATIONS: u32 = 64;

/// What outsiders have seen.
#[derive(Default)]
struct Seen {
    put: AtomicU64,
    taken: AtomicU64,
}

impl Seen {
    fn take(&self, far: &memory::Handle) -> usize {
        let n = far.take_into(usize::MAX, drop);
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        n
    }
}

/// Where each station's frames go: to a port there is, to one that comes and goes, to none, nowhere.
fn program(switch: &Switch) {
    for station in 0..STATIONS {
        let id = switch.allocate_counter().unwrap();
        let action = match station % 16 {
            0 => call("drop", &[]),
            1 => call("out", &[77]),
            2 | 3 => call("out", &[GUEST]),
            4 => continue,
            _ => call("out", &[1 + station % PORTS]),
        };
        switch.transact(&[insert(FIRST, id, station, action)]).unwrap();
    }
}

/// Ports up and down, receiving and forwarding forbidden, cables pulled, entries changed, a port
/// removed and added.
fn unrest(switch: &Switch, far: &[memory::Handle], seen: &Seen, stop: &AtomicBool) -> u64 {
    let mut random = Rng::new(11);
    let (mut changes, mut guest) = (0, None::<memory::Handle>);
    while !stop.load(Ordering::Relaxed) {
        let number = 1 + random.below(PORTS as usize) as u32;
        match random.below(6) {
            0 => far[number as usize - 1].set_carrier(random.one_in(2)),
            1..=3 => {
                let config = PortConfig {
                    down: random.one_in(3),
                    no_receive: random.one_in(3),
                    no_forward: random.one_in(3),
                };
                switch.configure_port(number, config).unwrap();
            }
            4 => {
                let id = switch.allocate_counter().unwrap();
                let station = 1000 + random.below(50) as u32;
                let added = insert(SECOND, id, station, call("out", &[number]));
                switch.transact(&[added]).unwrap();
                switch.transact(&[Update::Delete(SECOND, EntryId(id))]).unwrap();
                switch.retire_counter(id);
            }
            _ => match guest.take() {
                None => guest = Some(add(switch, GUEST)),
                Some(far) => {
                    switch.remove_port(GUEST).unwrap();
                    // All that was sent by it lies at its far end.
                    seen.take(&far);
                }
            },
        }
        if let Some(guest) = &guest {
            seen.take(guest);
        }
        changes += 1;
        std::thread::sleep(Duration::from_micros(300));
    }
    for number in 1..=PORTS {
        far[number as usize - 1].set_carrier(true);
        switch.configure_port(number, PortConfig::default()).unwrap();
    }
    if let Some(far) = guest {
        switch.remove_port(GUEST).unwrap();
        seen.take(&far);
    }
    changes
}

#[test]
fn what_went_in_came_out_or_was_counted() {
    let wanted: u64 = std::env::var("ACCOUNTED_PACKETS")
        .map_or(300_000, |n| n.replace('_', "").parse().expect("ACCOUNTED_PACKETS is a number"));
    let switch = Switch::start(config(2)).unwrap();
    let far: Vec<memory::Handle> = (1..=PORTS).map(|n| add(&switch, n)).collect();
    program(&switch);
    switch.sync();
    let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
    let restless = {
        let (switch, far) = (switch.clone(), far.clone());
        let (seen, stop) = (seen.clone(), stop.clone());
        std::thread::spawn(move || unrest(&switch, &far, &seen, &stop))
    };
    let frames: Vec<Vec<u8>> = (0..STATIONS).map(|station| frame(station, 0)).collect();
    let begin = Instant::now();
    let (mut n, mut refused) = (0u64, 0u64);
    while seen.put.load(Ordering::Relaxed) < wanted {
        for far in &far {
            for _ in 0..32 {
                n += 1;
                let bytes = &frames[(n.wrapping_mul(0x9e37_79b9) >> 7) as usize % frames.len()];
                match far.inject(Frame::copy_of(bytes)) {
                    Ok(()) => drop(seen.put.fetch_add(1, Ordering::Relaxed)),
                    // Not in the switch's hands: the ring was full, which the port counts.
                    Err(_) => refused += 1,
                }
            }
            // A slow reader at times, so that rings run full on the way out as well.
            if n % 7 < 3 {
                seen.take(far);
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    let changes = restless.join().unwrap();

    // Until nothing moves any more.
    let count = |switch: &Switch| {
        let ports = switch.port_counters();
        let missed: u64 = ports.iter().map(|(_, _, kernel)| kernel.rx_dropped).sum();
        let all = ports.into_iter().map(|(_, c, _)| c).chain([switch.departed()]);
        let (mut received, mut sent, mut drops) = (0, 0, BTreeMap::new());
        for c in all {
            received += c.rx_packets;
            sent += c.tx_packets + c.punted;
            c.drops.into_iter().for_each(|(word, n)| *drops.entry(word).or_insert(0) += n);
        }
        (received, sent, drops, missed)
    };
    loop {
        let before = count(&switch);
        std::thread::sleep(Duration::from_millis(20));
        let moved = far.iter().map(|far| seen.take(far)).sum::<usize>();
        if moved == 0 && count(&switch) == before {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(7200), "it does not come to rest");
    }
    let (received, sent, drops, missed) = count(&switch);
    let (put, taken) = (seen.put.load(Ordering::Relaxed), seen.taken.load(Ordering::Relaxed));
    let dropped: u64 = drops.values().sum();
    println!(
        "{put} packets in, {taken} out, {dropped} dropped: {drops:?}; {changes} changes meanwhile, \
         {refused} refused at full rings, {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    assert_eq!(received, put, "all that was put in was received");
    assert_eq!(sent, taken, "all that was sent arrived");
    assert_eq!(put, taken + dropped, "{drops:?}");
    assert_eq!(missed, refused);
    for word in ["action_drop", "port_down", "port_no_recv", "port_no_fwd", "port_unknown"] {
        assert!(drops.get(word).is_some_and(|n| *n > 0), "{word} was never seen: {drops:?}");
    }
    switch.stop();
}
