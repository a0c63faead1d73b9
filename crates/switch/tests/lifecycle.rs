//! Ports that come, go and flap under traffic; stopping; what is left when a switch is dropped; what
//! an idle switch costs.

mod common;

use common::{Net, add, balance, config, injection, until};
use port::Frame;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use switch::{PortConfig, PortError, PortEvent, Switch};
use testkit::station::{FIRST, call, frame, insert};

/// Sends to station 5 from the ends, counted, until told to stop.
struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Traffic {
    fn start(ends: Vec<port::memory::Handle>) -> Traffic {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (until, count) = (stop.clone(), sent.clone());
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                for far in &ends {
                    for _ in 0..32 {
                        let put = far.inject(Frame::copy_of(&frame(5, 0))).is_ok();
                        count.fetch_add(u64::from(put), Ordering::Relaxed);
                    }
                }
                std::thread::yield_now();
            }
        });
        Traffic { stop, sent, thread }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Ordering::Relaxed)
    }
}

#[test]
fn every_frame_has_one_fate_while_ports_come_go_and_flap() {
    for workers in 1..=3 {
        let net = Net::new(workers, 3);
        net.switch.transact(&[insert(FIRST, 1, 5, call("out", &[9]))]).unwrap();
        let traffic = Traffic::start(net.far[..2].to_vec());
        let (mut left, mut injected) = (0, 0);
        for round in 0..60u32 {
            let far = add(&net.switch, 9);
            net.switch.inject(injection(1, frame(6, round), 9));
            injected += 1;
            let down = PortConfig { down: round % 3 == 0, ..PortConfig::default() };
            net.switch.configure_port(9, down).unwrap();
            let closed = PortConfig { no_receive: round % 5 == 0, ..PortConfig::default() };
            net.switch.configure_port(2, closed).unwrap();
            far.set_carrier(round % 4 != 0);
            std::thread::sleep(Duration::from_millis(1));
            // What the port counts up to its end, and what reached its far end.
            net.switch.remove_port(9).unwrap();
            let got = far.take_into(usize::MAX, drop) as u64;
            left += got;
            assert!(matches!(net.switch.remove_port(9), Err(PortError::Unknown(9))));
        }
        let removed = std::iter::from_fn(|| net.switch.try_port_event()).filter_map(|e| match e {
            PortEvent::Removed(view) => Some(view.number),
            _ => None,
        });
        assert_eq!(removed.collect::<Vec<_>>(), [9; 60]);
        let sent = traffic.stop();
        // The ports that are gone have taken their counters with them, but not without telling.
        let gone = net.switch.departed();
        let gone_dropped: u64 = gone.drops.iter().map(|d| d.1).sum();
        assert_eq!(gone.tx_packets, left);
        let here = || balance(&net.switch);
        until("all frames are received", || here().0 == sent + injected);
        until("all frames have ended", || {
            here().1 + gone.tx_packets + gone_dropped == sent + injected
        });
        println!(
            "{workers} workers: {sent} frames, {left} left by port 9, {gone_dropped} dropped there"
        );
    }
}

#[test]
fn what_a_bad_cable_loses_is_told_by_direction() {
    let net = Net::new(1, 0);
    let (port, far) = port::memory::port("bad", Default::default()).unwrap();
    let faults = port::fault::Faults { loss: 0.3, reordering: 0.2, ..Default::default() };
    let bad = port::fault::FaultInjector::new(Box::new(port), faults, 7);
    net.switch.add_port(Some(1), Box::new(bad)).unwrap();
    net.switch.transact(&[insert(FIRST, 1, 5, call("out", &[1]))]).unwrap();
    net.switch.sync();
    (0..2000).for_each(|number| assert!(far.inject_bytes(&frame(5, number))));
    let counters = || net.switch.port_counters()[0].1.clone();
    until("all frames are taken", || counters().rx_packets + counters().rx_dropped == 2000);
    // One frame at most is held back to leave after its successor.
    until("all frames have ended", || {
        let c = counters();
        c.rx_packets - c.tx_packets - c.tx_dropped <= 1
    });
    let c = counters();
    assert!((400..800).contains(&c.rx_dropped) && (250..600).contains(&c.tx_dropped), "{c:?}");
    assert_eq!(c.drops, [("injected_loss", c.rx_dropped + c.tx_dropped)]);
    assert_eq!(far.take_into(usize::MAX, drop) as u64, c.tx_packets);
}

#[test]
fn ports_have_numbers_and_names_of_their_own() {
    let net = Net::new(2, 3);
    let port = |name: &str| Box::new(port::memory::port(name, Default::default()).unwrap().0);
    let refused = |n, p| net.switch.add_port(n, p).unwrap_err().to_string();
    assert!(refused(Some(2), port("other")).contains("number 2 is in use"));
    assert!(refused(None, port("p2")).contains("name p2 is in use"));
    assert!(refused(Some(0xffff_ff01), port("other")).contains("reserved"));
    assert!(refused(Some(0xffff_ff00), port("other")).contains("reserved"));
    assert_eq!(net.switch.ports().len(), 3);
    net.switch.remove_port(2).unwrap();
    assert_eq!(net.switch.add_port(None, port("other")).unwrap(), 2);
    assert_eq!(net.switch.add_port(Some(0xffff_fffe), port("local")).unwrap(), 0xffff_fffe);
    let numbers: Vec<u32> = net.switch.ports().iter().map(|p| p.number).collect();
    assert_eq!(numbers, [1, 2, 3, 0xffff_fffe]);
    // P4 has a port 0, which nobody gets who names none.
    assert_eq!(net.switch.add_port(Some(0), port("zero")).unwrap(), 0);
    assert!(net.switch.configure_port(77, PortConfig::default()).is_err());
}

#[test]
fn ports_are_removed_together_or_not_at_all() {
    let net = Net::new(2, 4);
    while net.switch.try_port_event().is_some() {}
    let numbers = || net.switch.ports().iter().map(|p| p.number).collect::<Vec<_>>();
    assert!(matches!(net.switch.remove_ports(&[1, 77]), Err(PortError::Unknown(77))));
    assert_eq!(numbers(), [1, 2, 3, 4]);
    net.switch.remove_ports(&[3, 1, 3]).unwrap();
    assert_eq!(numbers(), [2, 4]);
    let told = std::iter::from_fn(|| net.switch.try_port_event()).map(|event| match event {
        PortEvent::Removed(view) => view.number,
        other => panic!("{other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), [1, 3]);
    add(&net.switch, 3);
    assert_eq!(numbers(), [2, 3, 4]);
}

/// A port whose receive queue is closed when somebody says so: to close a packet socket takes the kernel 10 ms and more.
struct SlowToClose {
    port: port::memory::Memory,
    ends: Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>,
}

struct SlowRx {
    queue: Box<dyn port::RxQueue>,
    begins: mpsc::Sender<()>,
    may_end: mpsc::Receiver<()>,
}

impl port::Port for SlowToClose {
    fn info(&self) -> &port::PortInfo {
        self.port.info()
    }

    fn link(&mut self) -> port::LinkState {
        self.port.link()
    }

    fn set_admin(&mut self, up: bool) -> Result<(), port::Error> {
        self.port.set_admin(up)
    }

    fn rx_queue(&mut self, queue: usize) -> Result<Box<dyn port::RxQueue>, port::Error> {
        let (begins, may_end) = self.ends.take().unwrap();
        Ok(Box::new(SlowRx { queue: self.port.rx_queue(queue)?, begins, may_end }))
    }

    fn tx_queue(&mut self) -> Result<Box<dyn port::TxQueue>, port::Error> {
        self.port.tx_queue()
    }
}

impl port::RxQueue for SlowRx {
    fn rx(
        &mut self,
        burst: &mut port::Burst,
        pool: &mut port::Pool,
    ) -> Result<usize, port::RxError> {
        self.queue.rx(burst, pool)
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.queue.fd()
    }
}

impl Drop for SlowRx {
    fn drop(&mut self) {
        self.begins.send(()).unwrap();
        self.may_end.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn traffic_goes_on_while_a_port_is_closed() {
    let net = Net::new(1, 2);
    net.switch.transact(&[insert(FIRST, 1, 5, call("out", &[2]))]).unwrap();
    let (begins, begun) = mpsc::channel();
    let (end, may_end) = mpsc::channel();
    let (port, _far) = port::memory::port("slow", Default::default()).unwrap();
    let slow = SlowToClose { port, ends: Some((begins, may_end)) };
    net.switch.add_port(Some(9), Box::new(slow)).unwrap();
    net.switch.sync();
    std::thread::scope(|scope| {
        let removing = scope.spawn(|| net.switch.remove_port(9));
        begun.recv_timeout(Duration::from_secs(60)).unwrap();
        for number in 0..100 {
            assert!(net.far(1).inject_bytes(&frame(5, number)));
            assert!(net.far(2).take_within(Duration::from_secs(60)).is_some());
        }
        assert!(!removing.is_finished(), "it returns when all is closed");
        end.send(()).unwrap();
        removing.join().unwrap().unwrap();
    });
}

#[test]
fn a_link_that_changes_is_noticed_and_told() {
    let net = Net::new(1, 2);
    while net.switch.try_port_event().is_some() {}
    net.far(2).set_carrier(false);
    let event = net.switch.next_port_event(Duration::from_secs(60));
    let Some(PortEvent::Modified(view)) = event else { panic!("it is told") };
    assert_eq!((view.number, view.is_live()), (2, false));
    net.switch.transact(&[insert(FIRST, 1, 5, call("out", &[2]))]).unwrap();
    net.switch.sync();
    assert!(net.far(1).inject_bytes(&frame(5, 0)));
    until("it is dropped", || balance(&net.switch) == (1, 1));
    assert_eq!(net.switch.port_counters()[1].1.drops, [("port_down", 1)]);
    net.far(2).set_carrier(true);
    assert!(net.switch.next_port_event(Duration::from_secs(60)).is_some());
    assert!(net.far(1).inject_bytes(&frame(5, 1)));
    assert!(net.far(2).take_within(Duration::from_secs(60)).is_some());
    let as_it_is = net.switch.port(2).unwrap().config;
    net.switch.configure_port(2, as_it_is).unwrap();
    assert!(net.switch.try_port_event().is_none(), "nothing changed");
}

#[test]
fn a_follower_hears_of_ports_beside_who_takes_events() {
    let net = Net::new(1, 2);
    let follower = net.switch.follow_ports();
    while net.switch.try_port_event().is_some() {}
    let added = net.switch.port(2).unwrap();
    assert_eq!((added.transitions, added.changed_ns, &*added.device), (0, added.since_ns, "p2"));
    let next = || follower.next(Duration::from_secs(60)).unwrap();
    for (turn, down) in [(1, true), (2, false)] {
        let config = PortConfig { down, ..PortConfig::default() };
        net.switch.configure_port(2, config).unwrap();
        let PortEvent::Modified(view) = next() else { panic!("it is told") };
        assert_eq!((view.number, view.is_up(), view.transitions), (2, !down, turn));
        assert!(view.changed_ns > added.since_ns);
        assert!(net.switch.try_port_event().is_some());
    }
    // What is no change of its state leaves the time of the last one.
    let before = net.switch.port(2).unwrap();
    let config = PortConfig { no_forward: true, ..PortConfig::default() };
    net.switch.configure_port(2, config).unwrap();
    let PortEvent::Modified(view) = next() else { panic!("it is told") };
    assert_eq!((view.changed_ns, view.transitions), (before.changed_ns, 2));
    net.switch.remove_port(2).unwrap();
    assert!(matches!(next(), PortEvent::Removed(view) if view.number == 2));
    assert_eq!(follower.lost(), 0);
    // One that does not read loses its own, and is told how many.
    for turn in 0..10_000 {
        let config = PortConfig { down: turn % 2 == 0, ..PortConfig::default() };
        net.switch.configure_port(1, config).unwrap();
        assert!(net.switch.try_port_event().is_some());
    }
    assert_eq!(follower.lost(), 10_000 - 4096);
}

#[test]
fn a_port_removed_while_its_worker_sleeps_is_closed_at_once() {
    let net = Net::new(1, 1);
    for _ in 0..20 {
        // A port by name is open once; it is free again when its queues are gone.
        let port = port::memory::open("switch-lifecycle").unwrap();
        net.switch.add_port(Some(4), Box::new(port)).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        let begin = Instant::now();
        net.switch.remove_port(4).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn stop_ends_the_workers_while_traffic_flows() {
    for workers in 1..=3 {
        let net = Net::new(workers, 3);
        net.switch.transact(&[insert(FIRST, 1, 5, call("out", &[3]))]).unwrap();
        let traffic = Traffic::start(net.far[..2].to_vec());
        std::thread::sleep(Duration::from_millis(5));
        net.switch.stop();
        let (received, ended) = balance(&net.switch);
        assert_eq!(received, ended);
        assert!(received <= traffic.stop());
        assert_eq!(balance(&net.switch), (received, ended));
        // Asking a stopped switch for anything waits for nobody.
        net.switch.stop();
        net.switch.transact(&[insert(FIRST, 2, 6, call("out", &[3]))]).unwrap();
        net.switch.sync();
        net.switch.inject(injection(1, frame(6, 0), 3));
        net.switch.remove_port(1).unwrap();
        assert_eq!(net.switch.trace(2, &frame(6, 0)).outputs.len(), 1);
    }
}

fn threads_named(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name =
        |t: std::fs::DirEntry| std::fs::read_to_string(t.path().join("comm")).unwrap_or_default();
    tasks.flatten().map(name).filter(|n| n.starts_with(prefix)).count()
}

/// In a process of its own, as it counts threads: `cargo test` runs tests of one file in one process.
#[test]
fn threads_end_with_the_last_handle() {
    let Ok(_) = std::env::var("SWITCH_ALONE") else {
        return alone("threads_end_with_the_last_handle");
    };
    let switch = Switch::start(config(3)).unwrap();
    let far = add(&switch, 1);
    let other = switch.clone();
    drop(switch);
    other.sync();
    let threads = || ["worker-", "publish", "monitor"].map(threads_named);
    // A thread names itself when it begins to run.
    until("all threads run", || threads() == [3, 1, 1]);
    assert!(far.inject_bytes(&frame(5, 0)));
    drop(other);
    until("all threads have ended", || threads() == [0, 0, 0]);
}

/// Processor time of this process in clock ticks (proc(5): 1/100 s).
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_silent_switch_costs_next_to_nothing() {
    let Ok(_) = std::env::var("SWITCH_ALONE") else {
        return alone("a_silent_switch_costs_next_to_nothing");
    };
    let net = Net::new(2, 4);
    std::thread::sleep(Duration::from_millis(50));
    let before = ticks();
    std::thread::sleep(Duration::from_secs(2));
    let used = ticks() - before;
    println!("4 silent ports, 2 workers: {used} of 200 ticks in 2 s");
    assert!(used <= 10, "{used} of 200 ticks");
    drop(net);
}

/// Runs one test of this file in a process of its own.
fn alone(test: &str) {
    let me = std::env::current_exe().unwrap();
    let run = std::process::Command::new(me)
        .args(["--exact", test, "--nocapture"])
        .env("SWITCH_ALONE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    text.lines().filter(|l| l.contains("ticks")).for_each(|l| println!("{l}"));
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
}
