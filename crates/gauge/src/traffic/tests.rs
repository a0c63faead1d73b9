use super::*;
use crate::arrivals::Arrivals;
use crate::error::Error;
use crate::expect::Makes;
use crate::interrupt::Interrupt;
use crate::probe::{self, Probe};
use ::port::fault::{FaultInjector, Faults};
use ::port::memory;
use std::time::Duration;

fn plan(probes: u32) -> Plan {
    Plan {
        stream: 3,
        probes,
        flows: 7,
        first_flow: 0,
        len: 60,
        rate_pps: 50_000.0,
        arrivals: Arrivals::Poisson,
        seed: 1,
        transmit: true,
        turns: Turns::Regular,
        frames: None,
        both: false,
        makes: Makes::Same,
        queue_max: None,
        drain_max: DRAIN_MAX,
        interrupt: Interrupt::default(),
        filter: None,
        record: None,
        drain: Duration::from_millis(300),
    }
}

fn over(faults: Faults) -> Capture {
    let (a, b) = memory::cable("a", "b", memory::Config::default()).unwrap();
    let a = Box::new(FaultInjector::new(Box::new(a), faults, 5));
    let mut a = DataPort::new("a", 1, a).unwrap();
    let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
    drive(&mut a, &mut b, &plan(5000), &Live::default()).unwrap()
}

#[test]
fn a_cable_loses_nothing_and_adds_up() {
    let capture = over(Faults::default());
    let clean = Odd { looked_at: 5000, ..Odd::default() };
    assert_eq!((capture.sent_count(), capture.received_count()), (5000, 5000));
    assert_eq!((&capture.odd, capture.reordered, capture.missed), (&clean, 0, 0));
    assert!(capture.due.is_sorted());
    for i in 0..5000 {
        assert!(capture.due[i] <= capture.sent[i] && capture.sent[i] <= capture.received[i]);
    }
    let seconds = (capture.due[4999] - capture.due[0]) as f64 / 1e9;
    assert!((0.09..0.11).contains(&seconds), "{seconds}");
}

#[test]
fn losses_copies_and_disorder_are_told_apart() {
    let capture = over(Faults { loss: 0.05, ..Faults::default() });
    assert!((100..500).contains(&(capture.sent_count() - capture.received_count())));
    assert_eq!((capture.odd.doubled, capture.reordered), (0, 0));
    let capture = over(Faults { duplication: 0.05, ..Faults::default() });
    assert!(capture.odd.doubled > 100 && capture.received_count() == 5000);
}

#[test]
fn flipped_bits_are_corruption_and_nothing_else() {
    let capture = over(Faults { corruption: 0.05, ..Faults::default() });
    let odd = &capture.odd;
    assert!((150..350).contains(&odd.corrupted), "{odd:?}");
    assert_eq!((capture.lost_count(), odd.doubled, capture.reordered, odd.changed), (0, 0, 0, 0));
    // Anywhere in the frame: the mark is 18 bytes of 60.
    assert!(odd.fields["payload"] * 2 < odd.corrupted && odd.fields.len() > 8, "{odd:?}");
    assert!(odd.bit.is_some_and(|(_, same)| !same));
    assert!(capture.latencies().all(|ns| ns < 60_000_000_000));
}

#[test]
fn what_others_send_and_what_comes_back_is_told() {
    let (a, far_a) = memory::port("a", memory::Config::default()).unwrap();
    let (b, far_b) = memory::port("b", memory::Config::default()).unwrap();
    let mut sent = [0, 0].into_iter().chain([0, 5300]);
    let counted = move || sent.nth(1).map(|n| [0, n]);
    let mut a = DataPort::new("a", 1, Box::new(a)).unwrap().counted_by(counted);
    let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
    let live = Live::default();
    let plan = Plan { probes: 5000, ..plan(5000) };
    let capture = std::thread::scope(|scope| {
        let run = scope.spawn(|| drive(&mut a, &mut b, &plan, &live));
        let mut stranger = probe::frame(60, 1, Probe { stream: 3, seq: 9, due: 9 });
        probe::estrange(&mut stranger, Probe { stream: 3, seq: 9, due: 9 });
        let stale = probe::frame(60, 1, Probe { stream: 2, seq: 9, due: 9 });
        let mut n = 0;
        while !run.is_finished() {
            let Some(frame) = far_a.take_within(Duration::from_millis(5)) else { continue };
            // A hub, and somebody else's frames.
            if n < 100 {
                far_a.inject_bytes(frame.data());
                far_b.inject_bytes(&stranger);
                far_b.inject_bytes(&[7; 60]);
                far_b.inject_bytes(&stale);
            }
            far_b.inject_bytes(frame.data());
            n += 1;
        }
        run.join().unwrap().unwrap()
    });
    let odd = &capture.odd;
    assert_eq!((capture.lost_count(), odd.doubled, capture.reordered), (0, 0, 0));
    assert_eq!((odd.returned, odd.others, odd.foreign, odd.earlier), (100, 100, 100, 100));
    assert_eq!((odd.sent_by_others, odd.looked_at), (300, 5000));
}

#[test]
fn an_interrupt_ends_a_run() {
    let (a, b) = memory::cable("a", "b", memory::Config::default()).unwrap();
    let mut a = DataPort::new("a", 1, Box::new(a)).unwrap();
    let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
    let plan = plan(1_000_000);
    plan.interrupt.raise();
    let ended = drive(&mut a, &mut b, &plan, &Live::default());
    assert!(matches!(ended, Err(Error::Interrupted)));
}

#[test]
fn stops_when_told() {
    let (a, b) = memory::cable("a", "b", memory::Config::default()).unwrap();
    let mut a = DataPort::new("a", 1, Box::new(a)).unwrap();
    let mut b = DataPort::new("b", 2, Box::new(b)).unwrap();
    let live = Live::default();
    let plan = plan(1_000_000);
    let capture = std::thread::scope(|scope| {
        let run = scope.spawn(|| drive(&mut a, &mut b, &plan, &live));
        while live.flows_seen() < 7 {
            std::thread::sleep(Duration::from_millis(1));
        }
        live.stop();
        run.join().unwrap().unwrap()
    });
    assert!(capture.due.len() < 1_000_000);
    assert_eq!(capture.sent_count(), capture.received_count());
}
