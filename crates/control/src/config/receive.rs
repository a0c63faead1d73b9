//! Which worker takes a port's receive queue, and how much it takes of a port.

use crate::failure::Failure;

/// Packets a second that a port can be told to give, at most.
const RX_RATE_MAX: u64 = 10_000_000_000;

/// A receive queue and its worker, `PORT[:QUEUE]=WORKER`; queue 0 if none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RxWorker {
    /// The port, by name or number.
    pub(crate) port: String,
    /// The queue, from 0.
    pub(crate) queue: usize,
    /// The worker, from 0.
    pub(crate) worker: usize,
}

impl RxWorker {
    pub(super) fn parse(text: &str) -> Result<RxWorker, Failure> {
        of_port("--rx-worker", text, "PORT[:QUEUE]=WORKER, as in p1:0=1", |port, worker| {
            let (port, queue) = port.rsplit_once(':').unwrap_or((port, "0"));
            let (queue, worker) = (queue.parse().ok()?, worker.parse().ok()?);
            (!port.is_empty()).then(|| RxWorker { port: port.to_owned(), queue, worker })
        })
    }
}

/// Packets a second that are taken of a port at most, `PORT=RATE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RxRate {
    /// The port, by name or number.
    pub(crate) port: String,
    /// Packets a second.
    pub(crate) per_second: u64,
}

impl RxRate {
    pub(super) fn parse(text: &str) -> Result<RxRate, Failure> {
        let form = "PORT=RATE, in packets a second from 1 to 10000000000, as in p1=1000000";
        of_port("--rx-rate", text, form, |port, rate| {
            let per_second = rate.parse().ok().filter(|rate| (1..=RX_RATE_MAX).contains(rate))?;
            (!port.is_empty()).then(|| RxRate { port: port.to_owned(), per_second })
        })
    }
}

/// An option's `PORT=VALUE`, its two sides read by `read`; the failure tells the form that is expected.
fn of_port<T>(
    option: &str,
    text: &str,
    form: &str,
    read: impl FnOnce(&str, &str) -> Option<T>,
) -> Result<T, Failure> {
    let read = text.rsplit_once('=').and_then(|(port, value)| read(port, value));
    read.ok_or_else(|| Failure::Usage(format!("{option} {text}: write {form}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_given_workers() {
        let parse = |text| RxWorker::parse(text).map(|r| (r.port, r.queue, r.worker)).ok();
        assert_eq!(parse("p1=2"), Some(("p1".into(), 0, 2)));
        assert_eq!(parse("7:3=0"), Some(("7".into(), 3, 0)));
        for text in ["", "p1", "p1:x=0", "p1=x", "=1", ":0=1", "p1:=1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn ports_are_given_rates() {
        let parse = |text| RxRate::parse(text).map(|r| (r.port, r.per_second)).ok();
        assert_eq!(parse("p1=2500000"), Some(("p1".into(), 2_500_000)));
        assert_eq!(parse("7=1"), Some(("7".into(), 1)));
        for text in ["", "p1", "p1=0", "p1=x", "p1=-1", "=1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
