//! Who stands at ports to the host, takes some of the frames that are sent to them, and puts frames in as if received.
//!
//! With Open vSwitch, a bridge's own port (`internal`) may have the address of a tunnel's near end. Frames that the bridge
//! sends there and that are packets of a tunnel are no matter for the host's kernel; and the packets that a tunnel makes
//! enter the bridge there. So the program has a [`Terminal`] in the [`Environment`](crate::kind::Environment), and each port
//! of the kind `internal` that is opened asks it.
//!
//! The port has a receive queue more for each worker, whose frames stay on that worker ([`Port::worker_of`]).
//! Cost: a virtual call for each frame that is sent to the host.
//!
//! [`Port::worker_of`]: crate::Port::worker_of

use std::any::Any;
use std::sync::Arc;

use crate::frame::Frame;
use crate::pool::Pool;
use crate::port::{KernelStats, RxQueue};

/// In the environment of who opens ports.
#[derive(Clone)]
pub struct Terminal(pub Arc<dyn Attend>);

/// Attends to ports to the host.
pub trait Attend: Send + Sync {
    /// A port on this interface is opened. None: it is none of its business.
    fn attend(&self, interface: &str) -> Option<Attended>;
}

/// What a port gets.
pub struct Attended {
    /// A receive queue for each worker, in order.
    pub receive: Vec<Box<dyn RxQueue>>,
    /// Who looks at what is sent, for each worker in order.
    pub takers: Vec<Box<dyn Take>>,
    /// What it lost, to be added to what the kernel counts.
    pub lost: Box<dyn Fn() -> KernelStats + Send>,
    /// Is dropped with the port.
    pub held: Box<dyn Any + Send>,
}

/// Looks at what one worker sends to a port.
pub trait Take: Send {
    /// Whether it wants this frame. If so, [`take`](Self::take) comes next with the same frame, or a copy.
    fn wants(&mut self, frame: &Frame) -> bool;

    /// Takes the frame, which is hollow then.
    fn take(&mut self, frame: &mut Frame, pool: &mut Pool);

    /// What was taken goes on.
    fn flush(&mut self);
}
