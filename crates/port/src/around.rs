//! A port around another port: what it does not do otherwise is what the inner one does.
//!
//! Whatever implements [`Around`] is a [`Port`]. It says what is its own, queues mostly; all else is forwarded here, once
//! for all of them, so that a method that [`Port`] gains reaches the inner port through every wrapper.
//! Checked by: the tests of the wrappers.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::link::LinkRequest;
use crate::marks::Marks;
use crate::{Error, KernelStats, LinkState, Port, PortInfo, RxQueue, StampedBy, TxQueue};

/// A port around another.
pub(crate) trait Around: Send {
    /// The port inside.
    fn inner(&self) -> &dyn Port;

    /// The same, to be changed.
    fn inner_mut(&mut self) -> &mut dyn Port;

    /// What workers receive by, in place of a queue of the inner port.
    fn around_rx(&mut self, rx: Box<dyn RxQueue>) -> Box<dyn RxQueue> {
        rx
    }

    /// What workers send by, in place of a queue of the inner port.
    fn around_tx(&mut self, tx: Box<dyn TxQueue>) -> Box<dyn TxQueue> {
        tx
    }

    /// The table of marks that still stand beside frames when they have come through.
    fn marks_through(&self) -> Option<Arc<dyn Marks>> {
        self.inner().marks()
    }
}

impl<W: Around> Port for W {
    fn info(&self) -> &PortInfo {
        self.inner().info()
    }

    fn set_name(&mut self, name: &str) {
        self.inner_mut().set_name(name);
    }

    fn link(&mut self) -> LinkState {
        self.inner_mut().link()
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner().event_fd()
    }

    fn glance(&self) -> Option<bool> {
        self.inner().glance()
    }

    fn set_link(&mut self, wanted: LinkRequest) -> Result<(), Error> {
        self.inner_mut().set_link(wanted)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        self.inner_mut().set_admin(up)
    }

    fn stamp_arrivals(&mut self) -> StampedBy {
        self.inner_mut().stamp_arrivals()
    }

    fn sending(&mut self) -> Option<String> {
        self.inner_mut().sending()
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        let rx = self.inner_mut().rx_queue(queue)?;
        Ok(self.around_rx(rx))
    }

    fn worker_of(&self, queue: usize) -> Option<usize> {
        self.inner().worker_of(queue)
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let tx = self.inner_mut().tx_queue()?;
        Ok(self.around_tx(tx))
    }

    fn receiving(&self) -> Option<OwnedFd> {
        self.inner().receiving()
    }

    fn receive_by(&mut self, socket: OwnedFd) -> bool {
        self.inner_mut().receive_by(socket)
    }

    fn tx_waiting(&mut self) -> u64 {
        self.inner_mut().tx_waiting()
    }

    fn kernel_stats(&mut self) -> KernelStats {
        self.inner_mut().kernel_stats()
    }

    fn marks(&self) -> Option<Arc<dyn Marks>> {
        self.marks_through()
    }
}
