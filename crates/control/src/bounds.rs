//! Numbers that `run` takes, by option or by key of its file, and what makes sense of each.

use crate::failure::Failure;

/// A number with its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// The option's name without its dashes, which is the file's key, too.
    pub(crate) name: &'static str,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

const fn bound(name: &'static str, min: u64, max: u64) -> Bound {
    Bound { name, min, max }
}

/// A day.
const DAY: u64 = 86_400;

pub(crate) const WORKERS: Bound = bound("workers", 1, 256);
pub(crate) const CONNECTIONS: Bound = bound("connections", 1, 1 << 30);
pub(crate) const MBUFS: Bound = bound("mbufs", 4096, 1 << 24);
pub(crate) const PUNT_RATE: Bound = bound("punt-rate", 0, 1_000_000_000);
pub(crate) const CONTROLLER_RATE: Bound = bound("controller-rate", 1, 1_000_000_000);
pub(crate) const CONTROLLER_BURST: Bound = bound("controller-burst", 1, 1_000_000_000);
pub(crate) const AUXILIARY: Bound = bound("auxiliary", 0, 255);
pub(crate) const MAX_BACKOFF: Bound = bound("max-backoff", 1, DAY);
pub(crate) const INACTIVITY_PROBE: Bound = bound("inactivity-probe", 1, DAY);
pub(crate) const STATE_INTERVAL: Bound = bound("state-interval", 0, 7 * DAY);
pub(crate) const FLOWS_MAX: Bound =
    bound("flows-max", 1, crate::program::tables::FLOWS_MOST as u64);
pub(crate) const CPU_PORT: Bound = bound("cpu-port", 1, 511);
pub(crate) const DEVICE_ID: Bound = bound("device-id", 1, 1 << 62);
/// What of a switch's work is slow: up to a minute.
pub(crate) const OTLP_SLOW_MS: Bound = bound("otlp-slow", 1, 60_000);
/// Entries with series of their own; each is some 200 octets of every answer.
pub(crate) const METRICS_ENTRIES: Bound = bound("metrics-entries", 0, 10_000);
pub(crate) const WATCHDOG: Bound = bound("watchdog", 0, DAY);

/// All of them, for tests and for who documents them.
#[cfg(test)]
pub(crate) const ALL: [Bound; 16] = [
    WORKERS,
    CONNECTIONS,
    MBUFS,
    PUNT_RATE,
    CONTROLLER_RATE,
    CONTROLLER_BURST,
    AUXILIARY,
    MAX_BACKOFF,
    INACTIVITY_PROBE,
    STATE_INTERVAL,
    WATCHDOG,
    FLOWS_MAX,
    CPU_PORT,
    DEVICE_ID,
    METRICS_ENTRIES,
    OTLP_SLOW_MS,
];

impl Bound {
    fn wanted(self) -> String {
        format!("a number from {} to {} was expected", self.min, self.max)
    }

    /// An option's value, for the command line's parser.
    pub(crate) fn parse(self, text: &str) -> Result<u64, String> {
        let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        let number = text.parse().ok().filter(|n| digits && (self.min..=self.max).contains(n));
        number.ok_or_else(|| self.wanted())
    }

    /// The option's number or, without it, the file's.
    pub(crate) fn pick(
        self,
        option: Option<u64>,
        file: Option<i64>,
    ) -> Result<Option<u64>, Failure> {
        let Bound { name, min, max } = self;
        let fits = |number: i128| (i128::from(min)..=i128::from(max)).contains(&number);
        // A file's number is wrong also where an option overrides it.
        if let Some(number) = file.filter(|number| !fits((*number).into())) {
            return Err(Failure::Usage(format!("{name} = {number}: {}", self.wanted())));
        }
        if let Some(number) = option.filter(|number| !fits((*number).into())) {
            return Err(Failure::Usage(format!("--{name} {number}: {}", self.wanted())));
        }
        Ok(option.or(file.map(i64::cast_unsigned)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_within_bounds_and_refused_beside_them() {
        for bound in ALL {
            for good in [bound.min, bound.max] {
                assert_eq!(bound.parse(&good.to_string()), Ok(good));
                assert_eq!(bound.pick(Some(good), None).unwrap(), Some(good));
                assert_eq!(bound.pick(None, Some(good as i64)).unwrap(), Some(good));
            }
            let range = format!("from {} to {}", bound.min, bound.max);
            let over = (bound.max + 1).to_string();
            for bad in [&over[..], "-1", "+1", "", "1.5", "0x10", "x", "18446744073709551616"] {
                assert!(bound.parse(bad).unwrap_err().contains(&range), "{} {bad}", bound.name);
            }
            for bad in [-1, i64::MIN, bound.max as i64 + 1, i64::MAX] {
                let Err(Failure::Usage(text)) = bound.pick(None, Some(bad)) else {
                    panic!("{bad}")
                };
                assert!(text.starts_with(bound.name) && text.contains(&range), "{text}");
                assert!(bound.pick(Some(bound.min), Some(bad)).is_err());
            }
            assert!(bound.pick(Some(u64::MAX), None).is_err());
            assert_eq!(bound.pick(None, None).unwrap(), None);
        }
    }
}
