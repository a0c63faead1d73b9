//! A data port: one of ours that is wired to the switch.

use crate::error::Error;
use crate::probe;
use port::{Burst, Pool, Port, RxError, RxQueue, StampedBy, TxQueue, wait_readable};
use std::time::Duration;

/// The loop sleeps only if nothing is due for so long; shorter waits are spent looking.
pub(super) const SPIN_NS: u64 = 300_000;

/// Frames that an interface has received and sent in all, ours and others', where somebody counts them.
type Counted = Box<dyn FnMut() -> Option<[u64; 2]> + Send>;

/// A port of ours, wired to one of the switch's.
pub struct DataPort {
    /// Its name.
    pub name: String,
    /// The number of the switch's port at the other end.
    pub number: u32,
    /// What kind of port it is.
    pub kind: &'static str,
    /// Who says when a frame arrived.
    pub stamps: StampedBy,
    pub(super) port: Box<dyn Port>,
    /// All its receive queues: which of them a frame comes by is for the interface to say.
    pub(super) rx: Vec<Box<dyn RxQueue>>,
    pub(super) tx: Box<dyn TxQueue>,
    pub(super) lost: u64,
    pub(super) counted: Option<Counted>,
}

/// Frames that an interface of this thread's network namespace has received and sent (proc_pid_net(5)).
fn passed_by_interface(name: &str) -> Option<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let of = |line: &str| line.trim().strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
    let line = text.lines().find_map(of)?;
    let number = |at: usize| line.split_whitespace().nth(at)?.parse().ok();
    Some([number(1)?, number(9)?])
}

impl DataPort {
    /// Opens the queues of a port that is wired to the switch's port `number`.
    pub fn new(name: &str, number: u32, mut port: Box<dyn Port>) -> Result<DataPort, Error> {
        let failed = |source| Error::Port { name: name.to_string(), source };
        let stamps = port.stamp_arrivals();
        let queues = 0..port.info().rx_queues;
        let rx = queues.map(|queue| port.rx_queue(queue)).collect::<Result<_, _>>();
        let rx = rx.map_err(failed)?;
        let tx = port.tx_queue().map_err(failed)?;
        let kind = port.info().kind;
        let name = name.to_string();
        let counted: Option<Counted> = match kind {
            "af_packet" => {
                let interface = port.info().name.clone();
                Some(Box::new(move || passed_by_interface(&interface)))
            }
            _ => None,
        };
        let mut port = DataPort { name, number, kind, stamps, port, rx, tx, lost: 0, counted };
        port.lost = port.lost_in_all();
        Ok(port)
    }

    /// Has another say how many frames its interface has received and sent in all.
    pub fn counted_by(
        mut self,
        counted: impl FnMut() -> Option<[u64; 2]> + Send + 'static,
    ) -> DataPort {
        self.counted = Some(Box::new(counted));
        self
    }

    /// Frames that its interface has received and sent in all, where that is known.
    pub fn passed_in_all(&mut self) -> Option<[u64; 2]> {
        self.counted.as_mut()?()
    }

    /// Whether there is a link now.
    pub fn has_link(&mut self) -> bool {
        self.port.glance().unwrap_or_else(|| self.port.link().is_up())
    }

    /// The longest probe that fits, without the frame check sequence.
    pub fn len_max(&self) -> usize {
        (self.port.info().mtu as usize + 14).min(probe::LEN_MAX)
    }

    /// Takes the link away from the switch, or gives it back.
    pub fn set_link(&mut self, up: bool) -> Result<(), Error> {
        let failed = |source| Error::Port { name: self.name.clone(), source };
        self.port.set_admin(up).map_err(failed)
    }

    fn lost_in_all(&mut self) -> u64 {
        let queues: u64 = self.rx.iter().map(|queue| queue.drops().total()).sum();
        self.port.kernel_stats().rx_dropped + queues
    }

    /// Takes what its queues have ready, as much as the burst has room for.
    pub(super) fn receive(&mut self, burst: &mut Burst, pool: &mut Pool) -> Result<usize, RxError> {
        let mut got = 0;
        for queue in &mut self.rx {
            got += queue.rx(burst, pool)?;
        }
        Ok(got)
    }

    /// Rests until a frame may have come, for at most so long.
    pub(super) fn rest(&self, most: Duration) {
        match &self.rx[..] {
            [only] => match only.fd() {
                Some(fd) => drop(wait_readable(fd, most)),
                None => std::thread::yield_now(),
            },
            // Only one can be slept on: the others are looked at soon.
            _ => std::thread::sleep(most.min(Duration::from_nanos(SPIN_NS))),
        }
    }

    /// How frames leave by it, where there is more than one way; looked at now.
    pub fn sending(&mut self) -> Option<String> {
        self.port.sending()
    }

    /// Frames that came to this port and were lost on our side since the last call.
    pub(super) fn newly_lost(&mut self) -> u64 {
        let lost = self.lost_in_all();
        let before = std::mem::replace(&mut self.lost, lost);
        lost.saturating_sub(before)
    }
}
