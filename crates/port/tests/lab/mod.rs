//! A switch of the smallest kind between network namespaces: two ports, each one's frames go out by the other.
//!
//! Shared by the tests of `port`, `port-xdp` and `tunnel`.
#![allow(dead_code, unreachable_pub, unused_imports)]

use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use port::{Burst, Pool, Port, RxQueue, TxQueue};
use testkit::spaces::Spaces;
pub use testkit::spaces::{must, sh};

/// Two host namespaces, `a` and `b`, and one for the ports, `s`.
pub struct Lab(Spaces);

impl Deref for Lab {
    type Target = Spaces;

    fn deref(&self) -> &Spaces {
        &self.0
    }
}

impl Lab {
    /// `None`, with a line that says so, where this cannot be done.
    pub fn new() -> Option<Lab> {
        Spaces::new(&["a", "b", "s"]).map(Lab)
    }

    /// Joins host `which` to the switch's namespace by a veth pair: `eth0` there, `port` here.
    pub fn veth(&self, which: &str, port: &str, address: &str) {
        let (host, switch) = (self.ns(which), self.ns("s"));
        must(&format!("ip link add {port} netns {switch} type veth peer name eth0 netns {host}"));
        must(&format!("ip -n {host} addr add {address}/24 dev eth0"));
        must(&format!("ip -n {host} link set eth0 up; ip -n {switch} link set {port} up"));
    }

    /// Moves TAP `tap` from the switch's namespace to host `which`, as its `eth0`.
    pub fn give_tap(&self, which: &str, tap: &str, address: &str) {
        let (host, switch) = (self.ns(which), self.ns("s"));
        must(&format!("ip -n {switch} link set {tap} netns {host} name eth0"));
        must(&format!("ip -n {host} addr add {address}/24 dev eth0"));
        must(&format!("ip -n {host} link set eth0 up"));
    }
}

/// Two ports joined, running until dropped.
pub struct Bridge {
    stop: Arc<AtomicBool>,
    /// Frames passed, of which GSO frames, and drops.
    pub counts: Arc<[AtomicU64; 3]>,
    worker: Option<std::thread::JoinHandle<()>>,
}

impl Bridge {
    /// Starts a worker that passes frames both ways.
    pub fn start(a: &mut dyn Port, b: &mut dyn Port) -> Bridge {
        let mut ways = Vec::new();
        for queue in 0..a.info().rx_queues {
            ways.push((a.rx_queue(queue).expect("rx a"), b.tx_queue().expect("tx b")));
        }
        for queue in 0..b.info().rx_queues {
            ways.push((b.rx_queue(queue).expect("rx b"), a.tx_queue().expect("tx a")));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new([const { AtomicU64::new(0) }; 3]);
        let (stopping, counting) = (stop.clone(), counts.clone());
        let worker = std::thread::spawn(move || {
            let (mut burst, mut pool) = (Burst::new(), Pool::new());
            while !stopping.load(Relaxed) {
                let mut passed = 0;
                for (rx, tx) in &mut ways {
                    passed += pass(rx.as_mut(), tx.as_mut(), &mut burst, &mut pool, &counting);
                }
                if passed == 0 {
                    sleep_on(ways.iter().map(|(rx, _)| rx.fd()));
                }
            }
        });
        Bridge { stop, counts, worker: Some(worker) }
    }
}

fn pass(
    rx: &mut dyn RxQueue,
    tx: &mut dyn TxQueue,
    burst: &mut Burst,
    pool: &mut Pool,
    counts: &[AtomicU64; 3],
) -> usize {
    let Ok(received) = rx.rx(burst, pool) else {
        std::thread::sleep(Duration::from_millis(1));
        return 0;
    };
    for frame in burst.drain() {
        let is_gso = frame.offload.gso.is_some();
        counts[1].fetch_add(u64::from(is_gso), Relaxed);
        if tx.tx_owned(frame, pool).is_err() {
            counts[2].fetch_add(1, Relaxed);
        }
    }
    let report = tx.flush();
    counts[0].fetch_add(report.sent, Relaxed);
    counts[2].fetch_add(report.drops.total(), Relaxed);
    received
}

fn sleep_on<'a>(fds: impl Iterator<Item = Option<BorrowedFd<'a>>>) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds: Vec<_> =
        fds.flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 }));
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// Pings `address` from host `which`; returns how many of the first `count` requests were answered. One more is sent: `ping`
/// waits for its last answer no longer than two round trips, which is nothing on a busy machine.
pub fn ping(lab: &Lab, which: &str, address: &str, count: u32, interval: &str) -> u32 {
    let (ns, all) = (lab.ns(which), count + 1);
    let output = sh(&format!("ip netns exec {ns} ping -n -c {all} -i {interval} -W 2 {address}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!(
        "{}",
        text.lines()
            .filter(|l| l.contains("packets") || l.contains("rtt"))
            .collect::<Vec<_>>()
            .join("; ")
    );
    let answered: std::collections::BTreeSet<u32> = text
        .lines()
        .filter(|line| line.contains(" time="))
        .filter_map(|line| line.split("icmp_seq=").nth(1)?.split(' ').next()?.parse().ok())
        .filter(|number| *number <= count)
        .collect();
    answered.len() as u32
}

/// TCP from host `a` to a server at `address` in host `b`, for `seconds`; Gb/s as the receiver saw
/// it, or `None` (with a line) where there is no iperf3.
pub fn iperf(lab: &Lab, address: &str, seconds: u32, options: &str) -> Option<f64> {
    if !sh("command -v iperf3").status.success() {
        println!("skipped: needs iperf3");
        return None;
    }
    let mut server = Command::new("ip")
        .args(["netns", "exec", &lab.ns("b"), "iperf3", "-s", "-1"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("iperf3");
    // Its port, 5201, in the state LISTEN.
    let listens = || {
        let sockets = lab.at("b", "cat /proc/net/tcp /proc/net/tcp6");
        sockets.lines().any(|line| line.contains(":1451 ") && line.contains(" 0A "))
    };
    let begun = Instant::now();
    while !listens() {
        assert!(begun.elapsed() < Duration::from_secs(60), "iperf3 does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    let ns = lab.ns("a");
    let output = sh(&format!(
        "timeout {} ip netns exec {ns} iperf3 -c {address} -t {seconds} -f g {options}",
        seconds + 10
    ));
    let _ = server.kill();
    let _ = server.wait();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().rfind(|line| line.contains("receiver"))?.to_owned();
    println!("{line}");
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| word.ends_with("bits/sec"))?;
    words[at - 1].parse().ok()
}
