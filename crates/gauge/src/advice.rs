//! What a calibration says of this machine, and what to do about it.
//!
//! In: a [`Calibration`], how many processors there are and how busy they are. Out: sentences, the first one a judgement. A
//! quiet machine gets one that says how small a difference can be told.
//!
//! Checked by: the tests below.

use crate::calibrate::Calibration;

/// A spread of the data loop from which on small differences cannot be told, in nanoseconds.
const WIDE_NS: u64 = 100_000;

/// What is known of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Processors that this process may use.
    pub cpus: usize,
    /// Processes that run or want to, over the last minute; none if that cannot be told.
    pub load: Option<f64>,
}

impl Machine {
    /// This one, now.
    pub fn now() -> Machine {
        let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
            load: text.split(' ').next().and_then(|word| word.parse().ok()),
        }
    }
}

/// What to know before the first module, and what to do.
pub fn advice(calibration: &Calibration, machine: Machine) -> Vec<String> {
    let spread = calibration.data.spread_ns();
    let us = |ns: u64| format!("{:.0} us", ns as f64 / 1000.0);
    let mut all = Vec::new();
    let lost = calibration.data_lost > 0;
    let busy = !calibration.disturbed.is_empty();
    if !busy && spread < WIDE_NS {
        all.push(format!(
            "this machine is quiet enough: differences of latency above {} can be told",
            us(spread)
        ));
        return all;
    }
    if busy {
        all.push(format!(
            "this machine is too busy to measure ({}): runs will be marked DISTURBED, and accuse nobody",
            calibration.disturbed.join("; ")
        ));
    } else {
        all.push(format!("differences of latency below {} cannot be told here", us(spread)));
    }
    if let Some(load) = machine.load.filter(|load| *load > machine.cpus as f64 * 0.5) {
        all.push(format!(
            "stop other work: {load:.1} processes want {} processors (top shows which)",
            machine.cpus
        ));
    }
    if lost {
        all.push("lower --rate: the loop without a switch loses probes at this one".to_owned());
    }
    all.push("put gauge before other processes: chrt -f 1 millrace gauge run ...".to_owned());
    if machine.cpus < 4 {
        all.push(format!(
            "use a machine with four processors or more, the switch on others than gauge (taskset): here are {}",
            machine.cpus
        ));
    }
    if calibration.data_stamps == "process" {
        all.push("use af_packet ports: the kernel's stamps leave this process out".to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::tests::summary;

    fn calibration(disturbed: &[&str], lost: u64) -> Calibration {
        Calibration {
            data: summary(3),
            data_lost: lost,
            data_stamps: "kernel",
            disturbed: disturbed.iter().map(|text| (*text).to_owned()).collect(),
            ..Calibration::default()
        }
    }

    #[test]
    fn a_quiet_machine_is_told_what_it_can_tell() {
        let machine = Machine { cpus: 2, load: Some(9.0) };
        let all = advice(&calibration(&[], 0), machine);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].starts_with("this machine is quiet enough: differences of latency above "));
    }

    #[test]
    fn a_busy_one_is_told_what_to_do() {
        let calm = Machine { cpus: 8, load: Some(0.2) };
        let all = advice(&calibration(&["9 of 10 probes missed their slot"], 0), calm);
        assert!(all[0].contains("too busy to measure (9 of 10 probes missed their slot)"));
        assert!(all[1].contains("chrt -f 1"), "{all:?}");
        assert_eq!(all.len(), 2);
        let small = Machine { cpus: 2, load: Some(4.5) };
        let text = advice(&calibration(&["x"], 3), small).join("\n");
        for part in ["4.5 processes want 2 processors", "lower --rate", "four processors or more"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_wide_floor_is_said_to_hide_small_differences() {
        let mut wide = crate::latency::Latency::default();
        (0..2000).for_each(|i| wide.record(1000 + (i % 100) * 20_000));
        let calibration = Calibration { data: wide.summary(), ..calibration(&[], 0) };
        let all = advice(&calibration, Machine { cpus: 8, load: None });
        assert!(all[0].contains("cannot be told here"), "{all:?}");
    }
}
