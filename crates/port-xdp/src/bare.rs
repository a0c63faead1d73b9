//! The shortest way from one AF_XDP socket to another: what forwarding costs without a switch.
//!
//! Descriptors go from a receive ring to a transmit ring, and from there back to the fill ring; no frame is
//! looked at, no chunk is accounted for. Sockets, rings and system calls are those of the port, so that
//! what `millrace bench xdp` compares differs in the switch alone.

use std::sync::Arc;

use port::Error;

use crate::socket::{self, Attachment, Base, Opened, RxHalf, TxHalf};
use crate::umem::Seats;
use crate::xdp::NEEDS;

/// Descriptors that are moved together.
const BURST: usize = port::BURST_MAX;

/// An interface to receive by, and one to send by; queue 0 of each, in native mode.
///
/// Fields end in their order: sockets before programs.
pub struct Bare {
    rx: RxHalf,
    tx: TxHalf,
    /// The other halves, of which nothing is asked.
    _idle: (TxHalf, RxHalf),
    /// The sending socket.
    to: Arc<Base>,
    _attachments: [Attachment; 2],
    _seats: Seats,
}

impl Bare {
    /// Opens both. Needs what [`open`](crate::open) needs.
    pub fn open(from: &str, to: &str) -> Result<Bare, Error> {
        let seats =
            Seats::take(2).map_err(|e| Error::io(from, "mapping the frames' memory", NEEDS, e))?;
        let one = |name: &str| {
            let (_, link) = port::link::bring_up(name, NEEDS)?;
            let how = socket::How { native: true, busy_poll_us: None, live: false };
            let Opened { mut sockets, attachment, .. } =
                socket::open(link.index, &[0], how, seats.umem())
                    .map_err(|(action, e)| Error::io(name, action, NEEDS, e))?;
            let socket = sockets.pop().ok_or_else(|| Error::NoInterface { name: name.into() })?;
            Ok((socket, attachment))
        };
        let ((rx, idle_tx), from) = one(from)?;
        let ((idle_rx, tx), to) = one(to)?;
        let (to_base, _attachments) = (tx.base().clone(), [from, to]);
        Ok(Bare { rx, tx, _idle: (idle_tx, idle_rx), to: to_base, _attachments, _seats: seats })
    }

    /// Forwards what is there, at most a burst; returns how many frames. Those that find the transmit ring
    /// full are lost.
    pub fn step(&mut self) -> usize {
        let (rx, fill, tx, completion) =
            (&mut self.rx.rx, &mut self.rx.fill, &mut self.tx.tx, &mut self.tx.completion);
        // What circulates are the chunks that the fill ring was given, so it has room for each.
        let (mut taken, mut lost) = (0, 0);
        while taken < BURST
            && let Some(desc) = rx.pop()
        {
            taken += 1;
            if let Err(desc) = tx.push(desc) {
                lost += 1;
                let _ = fill.push(desc.addr);
            }
        }
        let mut collect = || {
            while let Some(address) = completion.pop() {
                let _ = fill.push(address);
            }
            completion.release();
        };
        if taken > 0 {
            rx.release();
            // What could not be sent now goes with the next burst.
            let _ = socket::send(self.to.fd(), tx, &mut collect);
        }
        collect();
        fill.publish();
        if self.rx.fill.needs_wakeup() {
            self.rx.kick();
        }
        taken - lost
    }

    /// Takes what is there and sends none of it; returns how many frames.
    pub fn discard(&mut self) -> usize {
        let mut taken = 0;
        while let Some(desc) = self.rx.rx.pop() {
            taken += 1;
            let _ = self.rx.fill.push(desc.addr);
        }
        self.rx.rx.release();
        self.rx.fill.publish();
        taken
    }
}
