//! Packets that wait until the hardware address of their next hop is known.
//!
//! They have all their headers but for that address. The device's receive queue of the same worker looks after them each
//! [`LOOK_NS`], woken by a timer: what is known is sent, what has waited for [`WAIT_MAX`] is dropped and counted.
//! Bounds: [`EACH_MAX`] packets for a next hop, [`ALL_MAX`] in all.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use port::Frame;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::hub::shared::TunnelPort;
use crate::refused::Refused;
use crate::underlay::Underlay;

/// Packets that wait for a next hop, at most.
pub(super) const EACH_MAX: usize = 8;
/// Packets that wait for a device on a worker, at most.
pub(super) const ALL_MAX: usize = 64;
/// How long one waits, at most.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// They are looked after each so many nanoseconds.
const LOOK_NS: u64 = 1_000_000;

/// Where a packet goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) remote: IpAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) mark: u32,
    pub(super) device: u32,
    pub(super) gateway: IpAddr,
}

struct Waiting {
    frame: Frame,
    way: Way,
    since: Instant,
    port: Arc<TunnelPort>,
}

/// Packets of one worker that wait for one device.
pub(super) struct Pending {
    packets: Mutex<Queue>,
    count: AtomicUsize,
    timer: OwnedFd,
}

#[derive(Default)]
struct Queue {
    packets: VecDeque<Waiting>,
    /// When they are looked after next.
    next: Option<Instant>,
}

impl Pending {
    pub(super) fn new() -> rustix::io::Result<Pending> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Pending { packets: Mutex::default(), count: AtomicUsize::new(0), timer })
    }

    fn packets(&self) -> MutexGuard<'_, Queue> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable when they are to be looked after.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// Whether they are to be looked after now.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && self.packets().next.is_none_or(|next| Instant::now() >= next)
    }

    /// Adds a packet, which is hollow then; or says why not, and leaves it.
    pub(super) fn add(
        &self,
        frame: &mut Frame,
        way: Way,
        port: &Arc<TunnelPort>,
    ) -> Result<(), Refused> {
        let mut queue = self.packets();
        let same = queue.packets.iter().filter(|packet| packet.way.gateway == way.gateway).count();
        if same >= EACH_MAX || queue.packets.len() >= ALL_MAX {
            return Err(Refused::NeighbourQueue);
        }
        let since = Instant::now();
        let frame = frame.take();
        queue.packets.push_back(Waiting { frame, way, since, port: port.clone() });
        self.count.store(queue.packets.len(), Ordering::Relaxed);
        if queue.packets.len() == 1 {
            self.arm(&mut queue);
        }
        Ok(())
    }

    fn arm(&self, queue: &mut Queue) {
        queue.next = Some(Instant::now() + Duration::from_nanos(LOOK_NS));
        let it_value = Timespec { tv_sec: 0, tv_nsec: LOOK_NS as i64 };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timer = Itimerspec { it_interval, it_value };
        if let Err(error) = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer) {
            tracing::debug!(%error, "packets that wait for a neighbour are looked after with the next frame");
        }
    }

    /// Gives those whose next hop is known to `send`, with its hardware addresses in place, and drops those that have waited
    /// long enough.
    pub(super) fn look(
        &self,
        underlay: &dyn Underlay,
        now: Instant,
        mut send: impl FnMut(Frame, &TunnelPort),
    ) {
        // Empty is as good.
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
        let mut queue = self.packets();
        for _ in 0..queue.packets.len() {
            let Some(mut packet) = queue.packets.pop_front() else { break };
            let Way { remote, local, mark, device, .. } = packet.way;
            let next = underlay.resolve(remote, local, mark).filter(|next| next.device == device);
            match next.and_then(|next| Some((next.local_mac, next.neighbour?))) {
                Some((local_mac, neighbour)) => {
                    let data = packet.frame.data_mut();
                    data[..6].copy_from_slice(&neighbour);
                    data[6..12].copy_from_slice(&local_mac);
                    send(packet.frame, &packet.port);
                }
                None if now.duration_since(packet.since) >= WAIT_MAX => {
                    packet.port.unsent.add(&packet.port.name, Refused::NeighbourUnknown);
                }
                None => queue.packets.push_back(packet),
            }
        }
        self.count.store(queue.packets.len(), Ordering::Relaxed);
        if queue.packets.is_empty() {
            queue.next = None;
        } else {
            self.arm(&mut queue);
        }
    }

    /// Drops all, as their device goes.
    pub(super) fn clear(&self) {
        let left = std::mem::take(&mut self.packets().packets);
        self.count.store(0, Ordering::Relaxed);
        for packet in left {
            packet.port.unsent.add(&packet.port.name, Refused::NeighbourUnknown);
        }
    }
}
