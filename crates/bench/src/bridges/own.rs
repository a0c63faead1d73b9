//! A bridge's own port, at which tunnels meet the network below them; and that network, made up: one device and one
//! neighbour, known from the start.

use port::terminal::{Attended, Take};
use port::{DropReason, Error, Frame, LinkState, Pool, Port, PortInfo, RxQueue, TxQueue, TxReport};
use std::any::Any;
use std::net::IpAddr;
use tunnel::hub::Hub;
use tunnel::underlay::{Next, Underlay};

/// The name of the port.
const NAME: &str = "own";
/// The number of its interface.
const DEVICE: u32 = 7;
/// The near end.
pub(super) const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

/// All hosts are neighbours, behind [`Own`].
pub(super) struct Network;

impl Underlay for Network {
    fn version(&self) -> u64 {
        1
    }

    fn resolve(&self, to: IpAddr, _: Option<IpAddr>, _: u32) -> Option<Next> {
        Some(Next {
            device: DEVICE,
            source: LOCAL,
            local_mac: [2, 0, 0, 0, 0, 1],
            gateway: to,
            neighbour: Some([2, 0, 0, 0, 0, 2]),
            mtu: 9000,
        })
    }

    fn ask(&self, _: u32, _: IpAddr) {}

    fn is_local(&self, address: IpAddr) -> bool {
        address == LOCAL
    }

    fn index_of(&self, name: &str) -> Option<u32> {
        (name == NAME).then_some(DEVICE)
    }
}

/// The port. What is for no tunnel is refused, as there is no host.
pub(super) struct Own {
    info: PortInfo,
    receive: Vec<Option<Box<dyn RxQueue>>>,
    takers: Vec<Box<dyn Take>>,
    _held: Box<dyn Any + Send>,
}

impl Own {
    /// Of a hub that has no other.
    pub(super) fn new(hub: &Hub) -> Option<Own> {
        let Attended { receive, takers, held, .. } = hub.terminal().0.attend(NAME)?;
        let info = PortInfo {
            name: NAME.to_owned(),
            kind: "bench",
            mac: [2, 0xbe, 0, 0, 0, 0xff],
            mtu: 9000,
            curr_speed_kbps: 10_000_000,
            carries_offload: true,
            described: false,
            rx_queues: receive.len(),
            warnings: Vec::new(),
        };
        let receive = receive.into_iter().map(Some).collect();
        Some(Own { info, receive, takers, _held: held })
    }
}

impl Port for Own {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn link(&mut self) -> LinkState {
        LinkState { admin_up: true, carrier: true, present: true }
    }

    fn set_admin(&mut self, _up: bool) -> Result<(), Error> {
        Ok(())
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.info.check_rx_queue(queue, matches!(self.receive.get(queue), Some(None)))?;
        let receive = self.receive.get_mut(queue).and_then(Option::take);
        receive.ok_or_else(|| no_queue(queue, self.info.rx_queues))
    }

    fn worker_of(&self, queue: usize) -> Option<usize> {
        Some(queue)
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        let taker = self.takers.pop().ok_or_else(|| no_queue(0, 0))?;
        Ok(Box::new(Tx { taker, spare: Pool::default(), report: TxReport::default() }))
    }
}

fn no_queue(queue: usize, queues: usize) -> Error {
    Error::NoQueue { name: NAME.to_owned(), queue, queues }
}

struct Tx {
    taker: Box<dyn Take>,
    spare: Pool,
    report: TxReport,
}

impl TxQueue for Tx {
    fn tx(&mut self, frame: &Frame) -> Result<(), DropReason> {
        let mut pool = std::mem::take(&mut self.spare);
        let copy = pool.clone_of(frame);
        let result = self.tx_owned(copy, &mut pool);
        self.spare = pool;
        result
    }

    fn tx_owned(&mut self, mut frame: Frame, pool: &mut Pool) -> Result<(), DropReason> {
        self.tx_taken(&mut frame, pool)
    }

    fn tx_taken(&mut self, frame: &mut Frame, pool: &mut Pool) -> Result<(), DropReason> {
        if !self.taker.wants(frame) {
            pool.give(frame.take());
            return Err(DropReason::TxRefused);
        }
        self.report.count_sent(frame.len());
        self.taker.take(frame, pool);
        Ok(())
    }

    fn flush(&mut self) -> TxReport {
        self.taker.flush();
        std::mem::take(&mut self.report)
    }
}
