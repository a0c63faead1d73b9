//! The memory that AF_XDP ports share: frames stay where they were received, and every chunk comes back.
//!
//! Chunks are counted for the whole process, so these tests go one by one.

#[path = "../../port/tests/lab/mod.rs"]
mod lab;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lab::{Lab, must};
use port::af_packet::AfPacket;
use port::prng::Prng;
use port::{Burst, Frame, Pool, Port, RxQueue, TxQueue};
use port_xdp::{Mode, SendBy, Settings, Xdp};

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(lab: &Lab, interface: &str, mode: Mode) -> Xdp {
    let (interface, queue, busy_poll_us) = (interface.to_owned(), None, None);
    let spec = Settings { interface, queue, mode, busy_poll_us, send: SendBy::Auto };
    lab.within("s", || Xdp::open(&spec).expect("the port opens"))
}

/// What all that is waited for must happen within, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn idle() -> usize {
    port_xdp::chunks().0
}

/// Until every chunk is idle: lists of threads come back when these are gone.
fn assert_all_idle() {
    let begun = Instant::now();
    loop {
        let (idle, all) = port_xdp::chunks();
        if idle == all {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{idle} of {all} chunks came back");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A frame of an experimental ethertype, with a number in it.
fn numbered(number: u32, len: usize) -> Frame {
    let mut bytes = vec![0x5a; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    Frame::copy_of(&bytes)
}

/// The number in a frame that [`numbered`] has made.
fn number(bytes: &[u8]) -> Option<u32> {
    (bytes.get(12..14)? == [0x88, 0xb5])
        .then(|| u32::from_be_bytes([bytes[14], bytes[15], bytes[16], bytes[17]]))
}

/// An end of a host, to send and receive raw frames by.
struct Host {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    burst: Burst,
    pool: Pool,
    _port: AfPacket,
}

impl Host {
    fn of(lab: &Lab, which: &str) -> Host {
        lab.within(which, || {
            let mut port = AfPacket::open("eth0").expect("eth0");
            let (rx, tx) = (port.rx_queue(0).expect("rx"), port.tx_queue().expect("tx"));
            Host { rx, tx, burst: Burst::new(), pool: Pool::new(), _port: port }
        })
    }

    fn send(&mut self, numbers: impl Iterator<Item = u32>, len: usize) {
        for n in numbers {
            self.tx.tx(&numbered(n, len)).expect("it is taken");
            self.tx.flush();
        }
    }

    /// Numbers of what comes, until so many are there.
    fn receive(&mut self, most: usize) -> Vec<u32> {
        let (mut numbers, mut last) = (Vec::new(), Instant::now());
        while numbers.len() < most && last.elapsed() < PATIENCE {
            let before = numbers.len();
            self.rx.rx(&mut self.burst, &mut self.pool).expect("it is up");
            numbers.extend(self.burst.drain().filter_map(|frame| number(frame.data())));
            if numbers.len() > before {
                last = Instant::now();
            }
        }
        numbers
    }
}

/// Takes so many numbered frames in; others are dropped.
fn take(rx: &mut dyn RxQueue, pool: &mut Pool, many: usize) -> Vec<Frame> {
    let (mut frames, mut burst, begun) = (Vec::new(), Burst::new(), Instant::now());
    while frames.len() < many {
        assert!(begun.elapsed() < PATIENCE, "{} of {many} came", frames.len());
        rx.rx(&mut burst, pool).expect("it is up");
        frames.extend(burst.drain().filter(|frame| number(frame.data()).is_some()));
    }
    frames
}

fn forwards_in_place(mode: Mode) {
    let _alone = alone();
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", "10.78.0.1");
    lab.veth("b", "p2", "10.78.0.2");
    let (mut a, mut b) = (open(&lab, "p1", mode), open(&lab, "p2", mode));
    let (mut rx, mut tx) = (a.rx_queue(0).expect("rx"), b.tx_queue().expect("tx"));
    let (mut from, mut to) = (Host::of(&lab, "a"), Host::of(&lab, "b"));
    let mut pool = Pool::new();
    let before = idle();
    from.send(0..100, 80);
    let mut frames = take(&mut *rx, &mut pool, 100);
    // Each lies in a chunk that was idle before, with room for headers.
    assert_eq!((before - idle(), pool.idle()), (100, (0, 0)));
    assert!(frames.iter().all(|frame| frame.headroom() >= 128 && frame.buffer_len() == 4096));
    let places: Vec<*const u8> = frames.iter().map(|frame| frame.data().as_ptr()).collect();
    for frame in &mut frames {
        frame.push_front(4);
        frame.data_mut().copy_within(4..16, 0);
        frame.data_mut()[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
    }
    for (frame, place) in frames.iter().zip(places) {
        assert_eq!(frame.data()[4..].as_ptr(), place, "it was moved");
    }
    // Every other one is dropped; to send the rest takes no chunk more.
    for (at, mut frame) in frames.into_iter().enumerate() {
        if at % 2 == 0 {
            frame.data_mut().copy_within(0..12, 4);
            frame.pull_front(4);
            tx.tx_taken(&mut frame, &mut pool).expect("it is taken");
            assert!(frame.is_hollow());
        } else {
            pool.give(frame);
        }
    }
    assert_eq!(before - idle(), 50);
    assert_eq!(tx.flush().sent, 50);
    assert_eq!(to.receive(50), (0..100).step_by(2).collect::<Vec<_>>());
    // One that stays, a copy that goes, and a frame that was never in a chunk.
    from.send(7..8, 1500);
    let frame = take(&mut *rx, &mut pool, 1).remove(0);
    tx.tx(&frame).expect("it is taken");
    tx.tx_owned(numbered(8, 60), &mut pool).expect("it is taken");
    assert_eq!((tx.flush().sent, to.receive(2)), (2, vec![7, 8]));
    // Frames outlive the port that they came by.
    drop((rx, a));
    assert_eq!(number(frame.data()), Some(7));
    assert_eq!(frame.data()[18..], [0x5a; 1482]);
    tx.tx_owned(frame, &mut pool).expect("it is taken");
    assert_eq!((tx.flush().sent, to.receive(1)), (1, vec![7]));
    drop((tx, b));
    assert_all_idle();
}

#[test]
fn native_forwards_in_place() {
    forwards_in_place(Mode::Native);
}

#[test]
fn generic_forwards_in_place() {
    forwards_in_place(Mode::Generic);
}

/// Whoever holds frames cannot stop the port: when chunks get rare, frames come as copies.
#[test]
fn receives_when_no_chunk_is_idle() {
    let _alone = alone();
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", "10.78.0.1");
    let mut a = open(&lab, "p1", Mode::Native);
    let (mut rx, mut from) = (a.rx_queue(0).expect("rx"), Host::of(&lab, "a"));
    let (mut pool, mut held) = (Pool::new(), Vec::new());
    let copied = |held: &[Frame]| held.iter().filter(|f| f.buffer_len() != 4096).count();
    while copied(&held) < 1000 {
        assert!(held.len() < 40_000, "all chunks there are were lent");
        let first = held.len() as u32;
        from.send(first..first + 500, 64);
        held.extend(take(&mut *rx, &mut pool, 500));
    }
    let numbers: Vec<u32> = held.iter().filter_map(|frame| number(frame.data())).collect();
    assert_eq!(numbers, (0..held.len() as u32).collect::<Vec<_>>());
    // Others may still be opened, and work.
    lab.veth("b", "p2", "10.78.0.2");
    let mut b = open(&lab, "p2", Mode::Native);
    let (mut rx_b, mut host_b) = (b.rx_queue(0).expect("rx"), Host::of(&lab, "b"));
    host_b.send(0..3000, 64);
    let mut got = take(&mut *rx_b, &mut pool, 1500);
    got.extend(take(&mut *rx_b, &mut pool, 500));
    assert!(number(got[1999].data()) == Some(1999), "frames were lost or moved");
    // With chunks idle again, frames come in place again.
    drop((held, got));
    rx_b.rx(&mut Burst::new(), &mut pool).expect("it is up");
    from.send(0..300, 64);
    let again = take(&mut *rx, &mut pool, 300);
    assert_eq!(copied(&again), 0);
    drop((again, rx, rx_b, a, b));
    assert_all_idle();
}

/// More sockets than one memory is for: those of the next one take copies.
#[test]
fn frames_go_from_one_memory_to_another() {
    let _alone = alone();
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", "10.78.0.1");
    lab.veth("b", "p2", "10.78.0.2");
    let mut a = open(&lab, "p1", Mode::Native);
    let first = port_xdp::chunks().1;
    let mut more = Vec::new();
    while port_xdp::chunks().1 == first {
        assert!(more.len() < 20, "no second memory");
        let (n, ns) = (more.len(), lab.ns("s"));
        must(&format!("ip -n {ns} link add x{n} type veth peer name y{n}"));
        must(&format!("ip -n {ns} link set y{n} up"));
        more.push(open(&lab, &format!("x{n}"), Mode::Native));
    }
    let mut b = open(&lab, "p2", Mode::Native);
    let (mut rx, mut tx) = (a.rx_queue(0).expect("rx"), b.tx_queue().expect("tx"));
    let (mut from, mut to) = (Host::of(&lab, "a"), Host::of(&lab, "b"));
    let mut pool = Pool::new();
    from.send(0..200, 80);
    for frame in take(&mut *rx, &mut pool, 200) {
        tx.tx_owned(frame, &mut pool).expect("it is taken");
    }
    assert_eq!((tx.flush().sent, to.receive(200)), (200, (0..200).collect::<Vec<_>>()));
    drop((rx, tx, a, b, more));
    assert_all_idle();
}

/// Two workers forward both ways, drop and copy at random, while ports are closed and opened and an interface
/// is deleted and made anew: nothing is forwarded damaged, and every chunk comes back.
#[test]
fn no_chunk_is_lost_while_ports_come_and_go() {
    let _alone = alone();
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", "10.78.0.1");
    lab.veth("b", "p2", "10.78.0.2");
    let stop = AtomicBool::new(false);
    let forwarded = AtomicU64::new(0);
    let mut random = Prng::new(11);
    std::thread::scope(|scope| {
        for (which, seed) in [("a", 1), ("b", 2)] {
            let (lab, stop) = (&lab, &stop);
            scope.spawn(move || {
                let mut random = Prng::new(seed);
                while !stop.load(Relaxed) {
                    // The interface may be gone at any time.
                    let opened = lab.within(which, || {
                        let mut port = AfPacket::open("eth0").ok()?;
                        port.tx_queue().ok().map(|tx| (port, tx))
                    });
                    let Some((_port, mut tx)) = opened else { continue };
                    for n in 0..2000 {
                        let _ = tx.tx(&numbered(n, 60 + random.below(1400) as usize));
                        if n % 16 == 0 {
                            tx.flush();
                        }
                    }
                    tx.flush();
                }
            });
        }
        for round in 0..12 {
            let mode = if round % 3 == 2 { Mode::Generic } else { Mode::Native };
            let (mut a, mut b) = (open(&lab, "p1", mode), open(&lab, "p2", mode));
            let over = AtomicBool::new(false);
            std::thread::scope(|workers| {
                for worker in 0..2 {
                    // Worker 0 receives by one port and worker 1 by the other; both send by both.
                    let mut rx =
                        if worker == 0 { a.rx_queue(0) } else { b.rx_queue(0) }.expect("rx");
                    let mut txs = [a.tx_queue().expect("tx"), b.tx_queue().expect("tx")];
                    let (over, forwarded, seed) = (&over, &forwarded, round * 2 + worker);
                    workers.spawn(move || {
                        let mut random = Prng::new(seed);
                        let (mut burst, mut pool) = (Burst::new(), Pool::new());
                        let mut waiting: Vec<Frame> = Vec::new();
                        while !over.load(Relaxed) {
                            let _ = rx.rx(&mut burst, &mut pool);
                            for mut frame in burst.drain() {
                                if let Some(n) = number(frame.data()) {
                                    let sound = frame.data()[18..].iter().all(|b| *b == 0x5a);
                                    assert!(sound, "frame {n} was damaged");
                                }
                                let (own, other) = (worker as usize, 1 - worker as usize);
                                match random.below(8) {
                                    0 => pool.give(frame),
                                    1 => waiting.push(frame),
                                    2 => {
                                        let _ = txs[own].tx(&frame);
                                        let _ = txs[other].tx_taken(&mut frame, &mut pool);
                                    }
                                    _ => {
                                        let _ = txs[other].tx_taken(&mut frame, &mut pool);
                                    }
                                }
                            }
                            if waiting.len() > 3000 {
                                for frame in waiting.drain(..) {
                                    let _ = txs[0].tx_owned(frame, &mut pool);
                                }
                            }
                            for tx in &mut txs {
                                forwarded.fetch_add(tx.flush().sent, Relaxed);
                            }
                        }
                    });
                }
                std::thread::sleep(Duration::from_millis(50 + random.below(150)));
                if round % 4 == 1 {
                    must(&format!("ip -n {} link del p1", lab.ns("s")));
                    let begun = Instant::now();
                    while lab.within("s", || a.link().present) {
                        assert!(begun.elapsed() < PATIENCE, "it is still there");
                    }
                    lab.veth("a", "p1", "10.78.0.1");
                    while !lab.within("s", || a.link().is_up()) {
                        assert!(begun.elapsed() < PATIENCE, "it does not come up");
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                if round % 2 == 0 {
                    // While workers still use its queues.
                    drop(a);
                    std::thread::sleep(Duration::from_millis(20));
                }
                over.store(true, Relaxed);
            });
            drop(b);
            assert_all_idle();
        }
        stop.store(true, Relaxed);
    });
    let forwarded = forwarded.load(Relaxed);
    println!("{forwarded} frames forwarded");
    assert!(forwarded > 1000, "{forwarded} frames are too few to tell anything");
}

/// A worker that was busy and then sleeps is woken, by what comes later and by what has come meanwhile.
#[test]
fn wakes_a_worker_that_was_busy() {
    let _alone = alone();
    let Some(lab) = Lab::new() else { return };
    lab.veth("a", "p1", "10.78.0.1");
    let mut a = open(&lab, "p1", Mode::Native);
    let (mut rx, mut from) = (a.rx_queue(0).expect("rx"), Host::of(&lab, "a"));
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    let wakes = |rx: &dyn RxQueue, ms| {
        port::wait_readable(rx.fd().expect("a descriptor"), Duration::from_millis(ms))
    };
    for round in 0..20 {
        // Busy with frames, or by asking alone.
        if round % 2 == 0 {
            from.send(0..10, 100);
            take(&mut *rx, &mut pool, 10);
        } else {
            for _ in 0..1000 {
                rx.rx(&mut burst, &mut pool).expect("it is up");
                burst.recycle(&mut pool);
            }
        }
        if round % 4 < 2 {
            // Nothing is there, then something is.
            while wakes(&*rx, 50) {
                rx.rx(&mut burst, &mut pool).expect("it is up");
                burst.recycle(&mut pool);
            }
            let fd = rx.fd().expect("a descriptor");
            from.send(round..round + 1, 100);
            assert!(port::wait_readable(fd, PATIENCE), "it slept on: {round}");
        } else {
            from.send(round..round + 1, 100);
            assert!(wakes(&*rx, 60_000), "it overslept: {round}");
        }
        let frames = take(&mut *rx, &mut pool, 1);
        assert_eq!(number(frames[0].data()), Some(round));
    }
    drop((rx, a));
    assert_all_idle();
}
