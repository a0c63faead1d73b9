//! The rate that is found is what comes out, however deep the queue before it.

use crate::lab::Lab;
use crate::path::Bend;
use crate::shim::Lies;
use gauge::module::search::THROUGHPUT;
use openflow::Version;

/// What the path lets through.
const PER_SECOND: u32 = 1000;

/// A queue of this room before it. Trials are of 100 ms, and the queue takes as many as 500 frames of the highest rate.
fn found(room: usize) -> Vec<f64> {
    let slow = Bend::Slow { per_second: PER_SECOND, room };
    let mut lab = Lab::new(Version::V13, Lies { bends: Some(slow), ..Lies::default() });
    let runs = lab.ask(&THROUGHPUT);
    assert_eq!(runs.len(), 2, "two sizes");
    runs.iter()
        .map(|run| {
            assert_eq!(run.value("at_limit"), Some(0.0), "room for {room}: {}", run.label);
            run.value("no_loss_pps").expect("it is a figure")
        })
        .collect()
}

#[test]
fn a_deep_queue_is_not_taken_for_a_rate() {
    for room in [20, 1000, 60_000] {
        for rate in found(room) {
            // A rate that is too high by less than a tenth is not told from one that is forwarded. Nothing is said of how
            // low it may be: a machine that stands still for a while loses frames of a short queue.
            let most = f64::from(PER_SECOND) * 1.15;
            assert!(rate > 0.0 && rate < most, "room for {room}: {rate} a second");
        }
    }
}

/// The same path without a queue to speak of: frames are lost at once.
#[test]
fn a_short_queue_loses_what_is_too_much() {
    for rate in found(4) {
        assert!(rate < f64::from(PER_SECOND) * 1.15, "{rate} a second");
    }
}
