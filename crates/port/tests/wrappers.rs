//! Ports around ports: what a wrapper does not do otherwise is what the inner port does.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use port::adapter::Adapter;
use port::marks::Marks;
use port::{
    Error, KernelStats, LinkState, Port, PortInfo, RxQueue, StampedBy, TxQueue, fault, memory,
    pace, recorder,
};

/// A port whose answers are all unlike the trait's own.
struct Inner {
    memory: memory::Memory,
    file: std::fs::File,
    marks: Arc<dyn Marks>,
    admin: Arc<Mutex<Vec<bool>>>,
}

const LINK: LinkState = LinkState { admin_up: true, carrier: false, present: true };

impl Port for Inner {
    fn info(&self) -> &PortInfo {
        self.memory.info()
    }

    fn link(&mut self) -> LinkState {
        LINK
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn glance(&self) -> Option<bool> {
        Some(true)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), Error> {
        self.admin.lock().unwrap().push(up);
        Ok(())
    }

    fn stamp_arrivals(&mut self) -> StampedBy {
        StampedBy::Device
    }

    fn sending(&mut self) -> Option<String> {
        Some("by hand".to_string())
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn RxQueue>, Error> {
        self.memory.rx_queue(queue)
    }

    fn tx_queue(&mut self) -> Result<Box<dyn TxQueue>, Error> {
        self.memory.tx_queue()
    }

    fn tx_waiting(&mut self) -> u64 {
        9
    }

    fn kernel_stats(&mut self) -> KernelStats {
        KernelStats { collisions: 7, ..KernelStats::default() }
    }

    fn marks(&self) -> Option<Arc<dyn Marks>> {
        Some(self.marks.clone())
    }
}

#[test]
fn what_a_wrapper_does_not_do_otherwise_the_inner_port_does() {
    let folder = tempfile::tempdir().unwrap();
    let (other, _far) = memory::port("other", memory::Config::default()).unwrap();
    let marks = Adapter::new(Box::new(other), 1).marks().unwrap();
    let admin = Arc::new(Mutex::new(Vec::new()));
    for which in ["paced", "recorded", "faulty", "marking"] {
        let (memory, far) = memory::port(which, memory::Config::default()).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let inner = Inner { memory, file, marks: marks.clone(), admin: admin.clone() };
        let inner: Box<dyn Port> = Box::new(inner);
        let mut port: Box<dyn Port> = match which {
            "paced" => Box::new(pace::Paced::new(inner, 1_000_000)),
            "recorded" => {
                Box::new(recorder::Recorder::new(inner, &folder.path().join("tape")).unwrap())
            }
            "faulty" => Box::new(fault::FaultInjector::new(inner, Default::default(), 1)),
            _ => Box::new(Adapter::new(inner, 1)),
        };
        assert_eq!(port.info().name, which);
        assert_eq!(port.link(), LINK, "{which}");
        assert_eq!((port.event_fd().is_some(), port.glance()), (true, Some(true)), "{which}");
        assert_eq!(port.stamp_arrivals(), StampedBy::Device, "{which}");
        assert_eq!(port.sending().as_deref(), Some("by hand"), "{which}");
        assert_eq!(port.kernel_stats().collisions, 7, "{which}");
        assert_eq!(port.tx_waiting(), 9, "{which}");
        port.set_admin(false).unwrap();
        assert_eq!(admin.lock().unwrap().pop(), Some(false), "{which}");
        // Frames come out of the injector without what stood beside them; the adapter has a table of its own.
        let shown = port.marks().map(|shown| Arc::ptr_eq(&shown, &marks));
        let wanted = match which {
            "faulty" => None,
            "marking" => Some(false),
            _ => Some(true),
        };
        assert_eq!(shown, wanted, "{which}");
        let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue().unwrap());
        let (mut burst, mut pool) = (port::Burst::new(), port::Pool::new());
        assert!(far.inject_bytes(&[5; 60]));
        assert_eq!(rx.rx(&mut burst, &mut pool).unwrap(), 1, "{which}");
        tx.tx(&burst.frames()[0]).unwrap();
        assert_eq!(tx.flush().sent, 1, "{which}");
        assert!(port.rx_queue(0).is_err(), "{which}: it is open already");
    }
}
