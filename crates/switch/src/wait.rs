//! Waits for workers.

use std::time::Duration;

/// Looks so often before it yields to who may be waited for.
const SPINS: u32 = 200;
/// From then on it sleeps, which takes five times as long as asked for: the kernel's timers are that coarse.
const YIELDS: u32 = SPINS + 100;

/// Waits for something that takes a worker a burst, or the time to wake up.
pub(crate) fn wait_until(done: impl Fn() -> bool) {
    let mut rounds = 0u32;
    while !done() {
        rounds = rounds.saturating_add(1);
        match rounds {
            0..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(10)),
        }
    }
}
