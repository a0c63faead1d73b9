//! Virtual devices of DPDK, without huge pages or privileges: net_ring, net_null, net_pcap,
//! net_memif (`MEMIF_ROUNDS` says how often its peer comes and goes).
#![cfg(feature = "dpdk")]

use port::marks::{Flow, Mark, MarkError};
use port::{Burst, Csum, DropReason, Frame, Gso, GsoKind, Offload, Pool, Port, RxQueue, TxQueue};
use port_dpdk::{Options, idle_buffers, open};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: they count the pool's buffers.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options(workers: usize) -> Options {
    Options { workers, mbufs: 8191, ..Options::default() }
}

fn device(devargs: &str) -> Box<dyn Port> {
    open("p", devargs, &options(1)).unwrap_or_else(|e| panic!("{devargs}: {e}"))
}

fn ends(port: &mut dyn Port) -> (Box<dyn RxQueue>, Box<dyn TxQueue>) {
    (port.rx_queue(0).unwrap(), port.tx_queue().unwrap())
}

fn receive(rx: &mut dyn RxQueue, pool: &mut Pool) -> Vec<Frame> {
    let mut burst = Burst::new();
    rx.rx(&mut burst, pool).unwrap();
    burst.drain().collect()
}

fn bytes(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + n) as u8).collect()
}

#[test]
fn a_frame_travels_in_its_own_buffer() {
    let _alone = alone();
    let (mut a, mut pool) = (device("net_ring0"), Pool::new());
    let idle = idle_buffers();
    let (mut rx, mut tx) = ends(&mut *a);
    // From the heap: copied in.
    for n in 0..40 {
        tx.tx(&Frame::copy_of(&bytes(n, 60 + n))).unwrap();
    }
    let report = tx.flush();
    assert_eq!((report.sent, report.sent_bytes), (40, (0..40).map(|n| 60 + n as u64).sum()));
    let frames = receive(&mut *rx, &mut pool);
    assert_eq!(frames.len(), 40);
    let mut places = Vec::new();
    for (n, mut frame) in frames.into_iter().enumerate() {
        assert_eq!(frame.data(), bytes(n, 60 + n));
        assert_eq!((frame.headroom(), frame.offload), (128, Offload::NONE));
        // Headers grow and shrink in the mbuf's own room.
        match n % 3 {
            0 => frame.push_front(100).fill(9),
            1 => frame.pull_front(14),
            _ => frame.set_len(200),
        }
        places.push((frame.data().as_ptr(), frame.data().to_vec()));
        tx.tx_owned(frame, &mut pool).unwrap();
    }
    assert_eq!(tx.flush().sent, 40);
    let frames = receive(&mut *rx, &mut pool);
    for (frame, (place, bytes)) in frames.iter().zip(&places) {
        assert_eq!((frame.data().as_ptr(), frame.data()), (*place, &bytes[..]));
    }
    assert_eq!((frames.len(), idle - idle_buffers()), (40, 40));
    // A frame may end on any thread.
    std::thread::spawn(move || drop(frames)).join().unwrap();
    assert_eq!(idle_buffers(), idle);
    assert_eq!(pool.idle(), (0, 0));
}

#[test]
fn what_outgrows_a_buffer_is_copied_and_arrives_whole() {
    let _alone = alone();
    let (mut a, mut pool) = (device("net_ring1"), Pool::new());
    let idle = idle_buffers();
    let (mut rx, mut tx) = ends(&mut *a);
    tx.tx(&Frame::copy_of(&bytes(1, 1000))).unwrap();
    tx.flush();
    let mut frame = receive(&mut *rx, &mut pool).pop().unwrap();
    // Within the mbuf the bytes move for more headroom; past it they go to the heap.
    frame.push_front(129);
    assert_eq!(idle_buffers(), idle - 1);
    frame.push_front(1000).fill(3);
    frame.pull_front(1000);
    frame.data_mut().fill(3);
    frame.extend(&bytes(1, 1000));
    frame.pull_front(1000);
    assert_eq!(idle_buffers(), idle);
    tx.tx_owned(frame, &mut pool).unwrap();
    // One frame for two ports.
    let two = Frame::copy_of(&bytes(2, 64));
    tx.tx(&two).unwrap();
    tx.tx_owned(two, &mut pool).unwrap();
    assert_eq!(tx.flush().sent, 3);
    let frames = receive(&mut *rx, &mut pool);
    assert_eq!(
        (&frames[0].data()[..129], &frames[0].data()[129..]),
        (&[3; 129][..], &bytes(1, 1000)[..])
    );
    assert_eq!((frames[1].data(), frames[2].data()), (&bytes(2, 64)[..], &bytes(2, 64)[..]));
    // Neither too long nor too short ones leave, and each has its reason.
    assert_eq!(tx.tx(&Frame::copy_of(&bytes(0, 1523))), Err(DropReason::TxTooLong));
    assert_eq!(tx.tx_owned(Frame::copy_of(&bytes(0, 13)), &mut pool), Err(DropReason::TxTooShort));
    drop(frames);
    assert_eq!((tx.flush().sent, idle_buffers()), (0, idle));
}

#[test]
fn a_full_ring_is_counted() {
    let _alone = alone();
    let (mut a, mut pool) = (device("net_ring2"), Pool::new());
    let idle = idle_buffers();
    let (mut rx, mut tx) = ends(&mut *a);
    let (mut sent, mut full) = (0, 0);
    for n in 0..3000 {
        tx.tx(&Frame::copy_of(&bytes(n, 60))).unwrap();
        if n % 7 == 0 {
            let report = tx.flush();
            sent += report.sent;
            full += report.drops.get(DropReason::TxRingFull);
            assert_eq!(report.drops.total(), report.drops.get(DropReason::TxRingFull));
        }
    }
    let report = tx.flush();
    sent += report.sent;
    full += report.drops.get(DropReason::TxRingFull);
    assert_eq!(sent + full, 3000);
    assert!(sent >= 1000 && full > 0, "{sent} {full}");
    let mut came = 0;
    loop {
        let frames = receive(&mut *rx, &mut pool);
        if frames.is_empty() {
            break;
        }
        came += frames.len() as u64;
    }
    assert_eq!((came, idle_buffers()), (sent, idle));
}

/// A TCP segment of `payload` bytes whose checksum is left to the port.
fn tcp(payload: usize) -> Frame {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let len = (40 + payload) as u16;
    frame.extend([0x45, 0]);
    frame.extend(len.to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.extend(bytes(0, payload));
    wire::offload::fill_checksums(&mut frame).unwrap();
    let partial = wire::offload::pseudo_header_partial(&mut frame).unwrap();
    let mut frame = Frame::copy_of(&frame);
    frame.offload.csum = Csum::Partial { start: partial.start, offset: partial.offset };
    frame
}

#[test]
fn debts_are_paid_in_software_where_the_driver_cannot() {
    let _alone = alone();
    let (mut a, mut pool) = (device("net_ring3"), Pool::new());
    assert!(!a.info().carries_offload);
    let (mut rx, mut tx) = ends(&mut *a);
    tx.tx_owned(tcp(100), &mut pool).unwrap();
    let mut big = tcp(4000);
    big.offload.gso = Some(Gso { kind: GsoKind::TcpV4, size: 1400, hdr_len: 54, ecn: false });
    tx.tx(&big).unwrap();
    assert_eq!(tx.flush().sent, 4);
    let frames = receive(&mut *rx, &mut pool);
    let lens: Vec<usize> = frames.iter().map(Frame::len).collect();
    assert_eq!(lens, [154, 1454, 1454, 1254]);
    for frame in &frames {
        wire::offload::verify_checksums(frame.data()).unwrap();
        assert!(frame.offload.is_plain());
    }
}

#[test]
fn a_device_without_flow_marks_says_so() {
    let _alone = alone();
    let device = device("net_null0");
    let marks = device.marks().unwrap();
    let flow = Flow {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        src_port: 1,
        dst_port: 2,
        protocol: wire::IpProtocol::TCP,
    };
    assert_eq!(marks.set(flow, Mark::NONE), Err(MarkError::Generation));
    let refused = marks.set(flow, Mark { value: 1, generation: 1 }).unwrap_err().to_string();
    let want = "the adapter marks no such flow: net_null: ";
    assert!(refused.starts_with(want) && refused.len() > want.len(), "{refused}");
    let icmp = Flow { protocol: wire::IpProtocol::ICMP, ..flow };
    assert!(marks.set(icmp, Mark { value: 1, generation: 1 }).is_err());
    assert!(marks.is_empty() && !marks.clear(&flow));
}

#[test]
fn captures_are_read_and_written() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from.pcap"), dir.path().join("to.pcap"));
    let mut writer = port::pcap::Writer::new(std::fs::File::create(&from).unwrap()).unwrap();
    for n in 0..300 {
        writer.write(n as u64 * 1000, &bytes(n, 60 + n % 1400)).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let devargs = format!("net_pcap0,rx_pcap={},tx_pcap={}", from.display(), to.display());
    let (mut a, mut pool) = (device(&devargs), Pool::new());
    assert!(a.link().is_up());
    let idle = idle_buffers();
    let (mut rx, mut tx) = ends(&mut *a);
    let mut sent = 0;
    loop {
        let frames = receive(&mut *rx, &mut pool);
        if frames.is_empty() {
            break;
        }
        for frame in frames {
            tx.tx_owned(frame, &mut pool).unwrap();
        }
        sent += tx.flush().sent;
    }
    assert_eq!((sent, idle_buffers()), (300, idle));
    drop((a, rx, tx));
    let mut reader = port::pcap::Reader::new(std::fs::File::open(&to).unwrap()).unwrap();
    let mut n = 0;
    while let Some(record) = reader.next_record().unwrap() {
        assert_eq!(record.data, bytes(n, 60 + n % 1400));
        n += 1;
    }
    assert_eq!(n, 300);
    // Closed with its last queue, so that it can be opened anew.
    drop(device(&devargs));
}

#[test]
fn queues_are_as_many_as_the_device_has() {
    let _alone = alone();
    let file = "rx_pcap=/dev/null";
    // /dev/null is no capture: the device is refused in words.
    let error = open("cap", &format!("net_pcap5,{file}"), &options(1)).err().unwrap().to_string();
    assert!(error.starts_with("cap: starting the DPDK device failed: "), "{error}");
    // One file, one queue each way: three workers share it.
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from.pcap"), dir.path().join("to.pcap"));
    let mut writer = port::pcap::Writer::new(std::fs::File::create(&from).unwrap()).unwrap();
    writer.flush().unwrap();
    let devargs = format!("net_pcap6,rx_pcap={},tx_pcap={}", from.display(), to.display());
    let mut port = open("r", &devargs, &options(3)).unwrap();
    assert_eq!(port.info().rx_queues, 1);
    let mut pool = Pool::new();
    let mut txs: Vec<_> = (0..3).map(|_| port.tx_queue().unwrap()).collect();
    for tx in &mut txs {
        tx.tx_owned(Frame::copy_of(&bytes(0, 60)), &mut pool).unwrap();
        assert_eq!(tx.flush().sent, 1);
    }
    let rx = port.rx_queue(0).unwrap();
    assert!(port.rx_queue(0).is_err() && port.rx_queue(1).is_err());
    drop((port, txs, rx));
    assert_eq!(std::fs::metadata(&to).unwrap().len(), 24 + 3 * 76);
    let mut wide = open("n", "net_null7,size=64", &options(3)).unwrap();
    assert_eq!(wide.info().rx_queues, 3);
    for queue in 0..3 {
        let mut rx = wide.rx_queue(queue).unwrap();
        assert_eq!(receive(&mut *rx, &mut pool).len(), 64);
    }
}

/// One end of a memif stays, with a thread in its queues all the time, while the other comes and goes.
fn peers_come_and_go(stays: &str, comes: &str, rounds: usize) {
    let mut port = device(stays);
    let (mut rx, mut tx) = ends(&mut *port);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let wait = |what: &str, round: usize, done: &mut dyn FnMut() -> bool| {
        let start = std::time::Instant::now();
        while !done() {
            assert!(start.elapsed().as_secs() < 20, "{stays}, round {round}: {what}");
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        // Sends back what comes.
        scope.spawn(|| {
            let (mut pool, mut burst) = (Pool::new(), Burst::new());
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                rx.rx(&mut burst, &mut pool).unwrap();
                for frame in burst.drain() {
                    tx.tx_owned(frame, &mut pool).unwrap();
                }
                tx.flush();
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..rounds {
                let mut peer = device(comes);
                let (mut rx, mut tx) = ends(&mut *peer);
                let (mut pool, mut came) = (Pool::new(), 0);
                wait("the link comes up", round, &mut || {
                    peer.link().is_up() && port.link().is_up()
                });
                wait("frames come back", round, &mut || {
                    for n in 0..32 {
                        tx.tx(&Frame::copy_of(&bytes(n, 60))).unwrap();
                    }
                    tx.flush();
                    for frame in receive(&mut *rx, &mut pool) {
                        assert_eq!(frame.data(), bytes(came % 32, 60));
                        came += 1;
                    }
                    came >= 320
                });
                drop((peer, rx, tx));
                wait("the link goes down", round, &mut || !port.link().is_up());
            }
        }));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn memif_survives_its_peer_as_server_and_as_client() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let rounds = std::env::var("MEMIF_ROUNDS").map_or(8, |n| n.parse().unwrap());
    for (stays, comes) in [("server", "client"), ("client", "server")] {
        // One socket by two names: the driver keeps one of a name in a process, of whoever came first.
        let socket =
            |way: &str| format!("socket={}/{way}{stays},socket-abstract=no", dir.path().display());
        let comes = format!("net_memif1,role={comes},{}", socket("./"));
        peers_come_and_go(&format!("net_memif0,role={stays},{}", socket("")), &comes, rounds);
    }
}

/// `dpdk-events` looks at devices at any time. One that it looked at while its user closed it was still there when the
/// next of its name opened: "Device or resource busy".
#[test]
fn a_memif_is_closed_before_the_next_of_its_name_opens() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let devargs =
        format!("net_memif7,role=client,socket={}/none,socket-abstract=no", dir.path().display());
    for _ in 0..300 {
        drop(device(&devargs));
    }
}

#[test]
fn what_is_no_device_is_refused_in_words() {
    let _alone = alone();
    for devargs in ["net_nothing0", "net_pcap9", "", "0000:ff:1f.7", "net_ring0\0"] {
        let error = open("x", devargs, &options(1)).err().unwrap().to_string();
        assert!(error.starts_with("x: "), "{error}");
    }
}
