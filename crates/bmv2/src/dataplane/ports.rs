//! The far ends of the ports, and the one client that has what they send.

use super::ids::Ids;
use super::proto::PacketStreamResponse;
use port::Frame;
use port::memory::{Config, Handle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tonic::Status;

/// What is told to a client.
pub(super) type Told = Result<PacketStreamResponse, Status>;

/// What a frame may have behind its addresses, at most.
const MTU: u32 = 9000;
/// Frames that are taken of a port at a time.
const BURST: usize = 64;
/// So often it is looked whether all has ended.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Ports by number.
pub(super) struct Ports {
    far: BTreeMap<u32, Handle>,
    client: Mutex<Option<Sender<Told>>>,
    ids: Mutex<Ids>,
    /// When the last frame came out.
    last: Mutex<Instant>,
    lost: AtomicU64,
    ended: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ports {
    /// The far ends of memory ports of these names, which whoever opens them afterwards has.
    pub(super) fn attach(ports: &[(u32, String)]) -> Result<Ports, port::Error> {
        let config =
            // Frames come out complete, and as short as a client likes.
            || Config { mtu: MTU, carries_offload: false, shortest: 0, ..Config::default() };
        let far = ports
            .iter()
            .map(|(number, name)| Ok((*number, port::memory::attach_as(name, config())?)));
        Ok(Ports {
            far: far.collect::<Result<_, port::Error>>()?,
            client: Mutex::default(),
            ids: Mutex::default(),
            last: Mutex::new(Instant::now()),
            lost: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        })
    }

    /// A port's far end.
    pub(super) fn far(&self, number: u32) -> Option<&Handle> {
        self.far.get(&number)
    }

    /// Their numbers.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.far.keys().copied().collect()
    }

    /// Gives a client what comes out; false if another one has it.
    pub(super) fn give_to(&self, client: Sender<Told>) -> bool {
        let mut has = lock(&self.client);
        if has.is_some() {
            return false;
        }
        *has = Some(client);
        true
    }

    /// The client has gone.
    pub(super) fn take_back(&self) {
        *lock(&self.client) = None;
    }

    /// Lets a port receive a frame; false if there is no room.
    pub(super) fn receive(&self, far: &Handle, id: u64, bytes: &[u8]) -> bool {
        let mut frame = Frame::copy_of(bytes);
        // In the order of the times, which the lock keeps.
        let mut ids = lock(&self.ids);
        frame.rx_ns = ids.arrived(id, port::now_ns());
        far.inject(frame).is_ok()
    }

    /// How long no frame has come out.
    pub(super) fn quiet(&self) -> Duration {
        lock(&self.last).elapsed()
    }

    /// Takes what the switch sends and gives it to the client, until the end.
    pub(super) fn send(&self) {
        while !self.ended.load(Ordering::Relaxed) {
            let mut fds: Vec<PollFd<'_>> = self
                .far
                .values()
                .map(|far| PollFd::from_borrowed_fd(far.fd(), PollFlags::IN))
                .collect();
            if let Err(error) = poll(&mut fds, Some(&PATIENCE))
                && error != rustix::io::Errno::INTR
            {
                tracing::error!(%error, "the data plane by gRPC waits no more: nothing comes out");
                return;
            }
            for (number, far) in &self.far {
                far.take_into(BURST, |frame| self.tell(*number, &frame));
            }
        }
    }

    fn tell(&self, port: u32, frame: &Frame) {
        *lock(&self.last) = Instant::now();
        let id = lock(&self.ids).of(frame.rx_ns);
        let packet = frame.data().to_vec();
        let client = lock(&self.client);
        let told = client.as_ref().map(|client| {
            // The device is filled in where it is known.
            client.try_send(Ok(PacketStreamResponse { id, device_id: 0, port, packet }))
        });
        if told.is_none_or(|told| told.is_err()) && self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                port,
                "frames that find no client of the data plane, or none that reads, are lost"
            );
        }
    }

    /// Frames that no client has had.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Ends [`send`](Self::send).
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        if self.lost() > 0 {
            tracing::info!(
                frames = self.lost(),
                "lost of the data plane by gRPC: no client has read them"
            );
        }
    }
}
