//! Queues as users write them: `PORT[:ID][,OPTION=VALUE]...`.
//!
//! | option | means |
//! |---|---|
//! | `min=RATE` | guaranteed; of a queue |
//! | `max=RATE` | not exceeded; of a queue, or of the port where no ID is given |
//! | `priority=N` | the least goes first; of a queue |
//! | `weight=N` | share among queues of one priority, from 1 on; of a queue |
//! | `burst=BYTES` | what may leave at once after a silence |
//! | `limit=N` | frames that wait per worker, from 1 on; of a queue |
//!
//! What a setting leaves out stays as it is, or is the default of a queue that is new; `min`, `max` and `burst` are taken
//! away by `none`.
//!
//! RATE is in bits per second, with `k`, `M` or `G` for thousands, millions and thousands of
//! millions: `max=250M`. PORT is a port's name or number.

use super::{QueueConfig, QueuesConfig};
use std::fmt;

/// A port by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRef {
    /// By number.
    Number(u32),
    /// By name.
    Name(String),
}

impl From<&str> for PortRef {
    fn from(text: &str) -> PortRef {
        match text.parse() {
            Ok(number) => PortRef::Number(number),
            Err(_) => PortRef::Name(text.into()),
        }
    }
}

impl fmt::Display for PortRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortRef::Number(number) => write!(f, "{number}"),
            PortRef::Name(name) => f.write_str(name),
        }
    }
}

/// One setting: a queue of a port, or the port's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Which port.
    pub port: PortRef,
    /// What is set.
    pub of: Of,
}

/// What a setting is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// The port: its rate and its burst.
    Port(Change),
    /// The queue of this number.
    Queue(u32, Change),
}

/// What changes of a queue, or of a port's own rate; none of it stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// See [`QueueConfig::min_bps`].
    pub min_bps: Option<Option<u64>>,
    /// See [`QueueConfig::max_bps`].
    pub max_bps: Option<Option<u64>>,
    /// See [`QueueConfig::priority`].
    pub priority: Option<u32>,
    /// See [`QueueConfig::weight`].
    pub weight: Option<u32>,
    /// See [`QueueConfig::burst_bytes`].
    pub burst_bytes: Option<Option<u64>>,
    /// See [`QueueConfig::limit`].
    pub limit: Option<usize>,
}

impl From<QueueConfig> for Change {
    /// All of it.
    fn from(queue: QueueConfig) -> Change {
        Change {
            min_bps: Some(queue.min_bps),
            max_bps: Some(queue.max_bps),
            priority: Some(queue.priority),
            weight: Some(queue.weight),
            burst_bytes: Some(queue.burst_bytes),
            limit: Some(queue.limit),
        }
    }
}

impl Change {
    fn of(self, queue: &mut QueueConfig) {
        queue.min_bps = self.min_bps.unwrap_or(queue.min_bps);
        queue.max_bps = self.max_bps.unwrap_or(queue.max_bps);
        queue.priority = self.priority.unwrap_or(queue.priority);
        queue.weight = self.weight.unwrap_or(queue.weight);
        queue.burst_bytes = self.burst_bytes.unwrap_or(queue.burst_bytes);
        queue.limit = self.limit.unwrap_or(queue.limit);
    }
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No port is named.
    #[error("{0:?} names no port; wanted PORT[:ID],OPTION=VALUE...")]
    NoPort(String),
    /// Not a queue's number.
    #[error("{0:?} is no queue's number: 0 to 4294967294")]
    Id(String),
    /// No such option.
    #[error("unknown option {0:?}; known: min, max, priority, weight, burst, limit")]
    Option(String),
    /// An option without a value.
    #[error("{0} wants a value: {0}=...")]
    NoValue(String),
    /// An option that was there already.
    #[error("{0} was given already")]
    Twice(String),
    /// Not a rate.
    #[error(
        "{option}={value:?} is no rate: bits per second, with k, M or G, as in 250M; above 0, or none"
    )]
    Rate {
        /// Of which option.
        option: String,
        /// What was given.
        value: String,
    },
    /// Not a number in range.
    #[error("{option}={value:?} is not a number from {min} to {max}")]
    Number {
        /// Of which option.
        option: String,
        /// What was given.
        value: String,
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A queue's option for the port.
    #[error("{0} is of a queue: say which, as PORT:ID")]
    OfQueue(String),
    /// The port without a rate.
    #[error("a port's own setting is its rate: PORT,max=RATE")]
    NoRate,
    /// The guaranteed rate is above the other.
    #[error("min={min} is above max={max}")]
    MinAboveMax {
        /// Bits per second.
        min: u64,
        /// Bits per second.
        max: u64,
    },
    /// The guaranteed rates of a port's queues are more than the port has.
    #[error("the min rates of queues sum up to {sum} bit/s, above the port's max={max}")]
    MinSum {
        /// Bits per second.
        sum: u64,
        /// Bits per second.
        max: u64,
    },
}

impl Setting {
    /// Reads a setting.
    pub fn parse(text: &str) -> Result<Setting, SpecError> {
        let (place, options) = match text.split_once(',') {
            Some((place, options)) => (place, Some(options)),
            None => (text, None),
        };
        let (name, id) = match place.rsplit_once(':') {
            Some((name, id)) => {
                let id = id.parse().ok().filter(|id| *id < u32::MAX);
                (name, Some(id.ok_or_else(|| SpecError::Id(place[name.len() + 1..].into()))?))
            }
            None => (place, None),
        };
        if name.is_empty() {
            return Err(SpecError::NoPort(text.into()));
        }
        let port = PortRef::from(name);
        let mut change = Change::default();
        let mut seen = Vec::new();
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let Some((option, value)) = option.split_once('=') else {
                return Err(match NAMES.contains(&option) {
                    true => SpecError::NoValue(option.into()),
                    false => SpecError::Option(option.into()),
                });
            };
            if !NAMES.contains(&option) {
                return Err(SpecError::Option(option.into()));
            }
            if seen.contains(&option) {
                return Err(SpecError::Twice(option.into()));
            }
            if id.is_none() && !matches!(option, "max" | "burst") {
                return Err(SpecError::OfQueue(option.into()));
            }
            seen.push(option);
            match option {
                "min" => change.min_bps = Some(rate(option, value)?),
                "max" => change.max_bps = Some(rate(option, value)?),
                "priority" => {
                    change.priority = Some(number(option, value, 0, u32::MAX.into())? as u32);
                }
                "weight" => change.weight = Some(number(option, value, 1, 1 << 16)? as u32),
                "burst" if value == "none" => change.burst_bytes = Some(None),
                "burst" => change.burst_bytes = Some(Some(number(option, value, 64, 1 << 40)?)),
                _ => change.limit = Some(number(option, value, 1, 1 << 20)? as usize),
            }
        }
        if let (Some(Some(min)), Some(Some(max))) = (change.min_bps, change.max_bps)
            && min > max
        {
            return Err(SpecError::MinAboveMax { min, max });
        }
        let of = match id {
            Some(id) => Of::Queue(id, change),
            None if seen.is_empty() => return Err(SpecError::NoRate),
            None => Of::Port(change),
        };
        Ok(Setting { port, of })
    }
}

impl QueuesConfig {
    /// Changes what a setting says, of a queue that is there or of a new one.
    pub fn set(&mut self, of: Of) -> Result<(), SpecError> {
        let mut new = self.clone();
        match of {
            Of::Port(change) => {
                new.max_bps = change.max_bps.unwrap_or(new.max_bps);
                new.burst_bytes = change.burst_bytes.unwrap_or(new.burst_bytes);
                if new.max_bps.is_none() && new.burst_bytes.is_some() {
                    return Err(SpecError::NoRate);
                }
            }
            Of::Queue(id, change) => {
                let at = new.queues.iter().position(|queue| queue.id == id);
                let mut queue = at.map_or(QueueConfig::new(id), |at| new.queues.remove(at));
                change.of(&mut queue);
                if let (Some(min), Some(max)) = (queue.min_bps, queue.max_bps)
                    && min > max
                {
                    return Err(SpecError::MinAboveMax { min, max });
                }
                new.queues.push(queue);
                new.queues.sort_by_key(|queue| queue.id);
            }
        }
        let mins = new.queues.iter().filter_map(|queue| queue.min_bps);
        let sum = mins.fold(0, u64::saturating_add);
        if let Some(max) = new.max_bps.filter(|max| sum > *max) {
            return Err(SpecError::MinSum { sum, max });
        }
        *self = new;
        Ok(())
    }
}

const NAMES: [&str; 6] = ["min", "max", "priority", "weight", "burst", "limit"];

/// A rate, or that there is none.
fn rate(option: &str, value: &str) -> Result<Option<u64>, SpecError> {
    if value == "none" {
        return Ok(None);
    }
    let (digits, scale) = match value.as_bytes().last() {
        Some(b'k' | b'K') => (&value[..value.len() - 1], 1_000),
        Some(b'M') => (&value[..value.len() - 1], 1_000_000),
        Some(b'G') => (&value[..value.len() - 1], 1_000_000_000),
        _ => (value, 1),
    };
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let rate = digits.parse().ok().filter(|_| all_digits).and_then(|n: u64| n.checked_mul(scale));
    rate.filter(|rate| *rate > 0)
        .map(Some)
        .ok_or_else(|| SpecError::Rate { option: option.into(), value: value.into() })
}

fn number(option: &str, value: &str, min: u64, max: u64) -> Result<u64, SpecError> {
    let refused = || SpecError::Number { option: option.into(), value: value.into(), min, max };
    value.parse().ok().filter(|n| (min..=max).contains(n)).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Setting::parse(text).expect_err("it is refused").to_string()
    }

    #[test]
    fn settings_are_read() {
        let setting = Setting::parse("eth0:3,min=2M,max=1G,priority=7,weight=4,limit=9,burst=3000");
        let queue = QueueConfig {
            id: 3,
            min_bps: Some(2_000_000),
            max_bps: Some(1_000_000_000),
            priority: 7,
            weight: 4,
            burst_bytes: Some(3000),
            limit: 9,
            dscp: None,
        };
        let port = PortRef::Name("eth0".into());
        assert_eq!(setting, Ok(Setting { port: port.clone(), of: Of::Queue(3, queue.into()) }));
        let of = Of::Port(Change { max_bps: Some(Some(10_000)), ..Change::default() });
        assert_eq!(Setting::parse("7,max=10k"), Ok(Setting { port: PortRef::Number(7), of }));
        let of = Of::Queue(0, Change::default());
        assert_eq!(Setting::parse("eth0:0"), Ok(Setting { port, of }));
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(
            error(":1,max=1"),
            "\":1,max=1\" names no port; wanted PORT[:ID],OPTION=VALUE..."
        );
        assert_eq!(error("p:x"), "\"x\" is no queue's number: 0 to 4294967294");
        assert_eq!(error("p:4294967295"), "\"4294967295\" is no queue's number: 0 to 4294967294");
        let known = "known: min, max, priority, weight, burst, limit";
        assert_eq!(error("p:1,rate=3"), format!("unknown option \"rate\"; {known}"));
        assert_eq!(error("p:1,max"), "max wants a value: max=...");
        assert_eq!(error("p:1,max=1,max=2"), "max was given already");
        let form = "bits per second, with k, M or G, as in 250M; above 0, or none";
        for wrong in ["", "0", "-1", "+1", "1.5M", "99999999999G"] {
            let expected = format!("max={wrong:?} is no rate: {form}");
            assert_eq!(error(&format!("p:1,max={wrong}")), expected);
        }
        assert_eq!(error("p:1,weight=0"), "weight=\"0\" is not a number from 1 to 65536");
        assert_eq!(error("p,min=3"), "min is of a queue: say which, as PORT:ID");
        assert_eq!(error("p"), "a port's own setting is its rate: PORT,max=RATE");
        assert_eq!(error("p:1,min=3k,max=2k"), "min=3000 is above max=2000");
    }

    #[test]
    fn what_a_setting_leaves_out_stays() {
        let mut config = QueuesConfig::default();
        let mut set = |text: &str| config.set(Setting::parse(text).expect("it is read").of);
        set("p:1,min=2M,max=9M,priority=3,weight=4,limit=50,burst=9000").expect("it fits");
        set("p,max=20M,burst=4000").expect("it fits");
        set("p:1,weight=7").expect("it fits");
        set("p,max=30M").expect("it fits");
        // The other bound is the queue's.
        assert_eq!(
            set("p:1,min=10M"),
            Err(SpecError::MinAboveMax { min: 10_000_000, max: 9_000_000 })
        );
        assert_eq!(set("p,max=none"), Err(SpecError::NoRate));
        let mut queue = QueueConfig {
            min_bps: Some(2_000_000),
            max_bps: Some(9_000_000),
            priority: 3,
            weight: 7,
            burst_bytes: Some(9000),
            limit: 50,
            ..QueueConfig::new(1)
        };
        assert_eq!(config.queues, [queue.clone()]);
        assert_eq!((config.max_bps, config.burst_bytes), (Some(30_000_000), Some(4000)));
        for text in ["p:1,min=none,max=none,burst=none", "p,max=none,burst=none"] {
            config.set(Setting::parse(text).expect("it is read").of).expect("it fits");
        }
        (queue.min_bps, queue.max_bps, queue.burst_bytes) = (None, None, None);
        assert_eq!(config.queues, [queue]);
        assert_eq!((config.max_bps, config.burst_bytes), (None, None));
    }

    #[test]
    fn guarantees_are_within_what_the_port_has() {
        let mut config = QueuesConfig::default();
        for text in ["p,max=10M", "p:1,min=6M", "p:1,min=4M", "p:2,min=6M"] {
            let setting = Setting::parse(text).expect("it is right");
            config.set(setting.of).expect("it fits");
        }
        let before = config.clone();
        let setting = Setting::parse("p:3,min=1").expect("it is right");
        let error = config.set(setting.of).expect_err("too much is promised");
        let expected =
            "the min rates of queues sum up to 10000001 bit/s, above the port's max=10000000";
        assert_eq!(error.to_string(), expected);
        assert_eq!(config, before);
    }
}
