//! Planted faults are found, each by its module; an honest switch is not accused.
//!
//! The switch is millrace's own, on memory ports. The shim stands between it and the controller, and
//! lies as it is told; frames are lost by `port`'s fault injector.

use gauge::bench::{Bench, Settings};
use gauge::module::{self, MODULES, Module};
use gauge::report::Run;
use gauge::{Control, DataPort, Peer};
use of_channel::connection::Timing;
use of_channel::{Channel, Config, Listen};
use of_pipeline::lower::{self, ProgramConfig};
use of_pipeline::{Agent, AgentConfig};
use openflow::codec::{self, Frame};
use openflow::{Message, MultipartReplyBody, Version, Xid};
use port::fault::{FaultInjector, Faults};
use port::{Port, memory};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use switch::Switch;

/// How the shim lies.
#[derive(Clone, Copy, Default)]
struct Lies {
    /// Flow-mods reach the switch so late, but barriers are answered at once.
    early_barrier: Option<Duration>,
    /// One in so many frames is lost on its way out.
    loses: Option<u32>,
    /// Flow entries are said to have counted so many packets too many.
    miscounts: u64,
    /// One in so many echo requests is not answered.
    deaf: Option<u32>,
}

/// A switch, the shim before it, and both on the bench.
struct Lab {
    bench: Option<Bench>,
    channel: Option<Channel>,
    switch: Switch,
    shim: Option<JoinHandle<()>>,
}

impl Lab {
    fn new(version: Version, lies: Lies) -> Lab {
        let (program, _) = lower::program(&ProgramConfig::default());
        let switch = Switch::start(switch::Config {
            program: Arc::new(program),
            workers: 1,
            cpus: Vec::new(),
            punt_rate: 1_000_000,
            engine: Default::default(),
            validate: None,
        })
        .unwrap();
        let ours = ["in", "out"].map(|name| {
            let config = memory::Config { capacity: 1 << 16, ..Default::default() };
            let (ours, theirs) = memory::cable(name, name, config).unwrap();
            let theirs: Box<dyn Port> = match lies.loses {
                Some(n) if name == "out" => {
                    let faults = Faults { loss: 1.0 / f64::from(n), ..Faults::default() };
                    Box::new(FaultInjector::new(Box::new(theirs), faults, 11))
                }
                _ => Box::new(theirs),
            };
            let number = switch.add_port(None, theirs).unwrap();
            DataPort::new(name, number, Box::new(ours)).unwrap()
        });
        let agent = Agent::new(switch.clone(), AgentConfig::default()).unwrap();
        let listen = Listen::Tcp { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
        let config = Config {
            listeners: vec![listen],
            timing: Timing { probe: Duration::from_secs(60) },
            ..Config::default()
        };
        let channel = Channel::start(switch.clone(), Arc::new(Mutex::new(agent)), config).unwrap();
        let Listen::Tcp { port, .. } = channel.listening()[0] else { unreachable!() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shim_port = listener.local_addr().unwrap().port();
        let shim = std::thread::spawn(move || {
            let (controller, _) = listener.accept().unwrap();
            let switch = TcpStream::connect(("127.0.0.1", port)).unwrap();
            shim(controller, switch, version, lies);
        });
        let control = Control::open(&Peer::loopback(shim_port), &[version]).unwrap();
        let settings = Settings {
            probes: 3000,
            rate_pps: 10_000.0,
            sizes: vec![64, 1518],
            batches: vec![1, 20],
            barrier_rounds: 2,
            echoes: 200,
            punts: 100,
            // Tests share the machine with other tests: slots are missed.
            late_share_max: 1.0,
            ..Settings::default()
        };
        let [input, output] = ours;
        let bench = Bench::new(control, input, output, settings).unwrap();
        Lab { bench: Some(bench), channel: Some(channel), switch, shim: Some(shim) }
    }

    fn ask(&mut self, module: &Module) -> Vec<Run> {
        let bench = self.bench.as_mut().unwrap();
        bench.control.clear().unwrap();
        (module.run)(bench, &mut |_| {}).unwrap()
    }

    fn findings(&mut self, module: &Module) -> Vec<&'static str> {
        let runs = self.ask(module);
        runs.iter().flat_map(|r| &r.findings).map(|f| f.what).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.bench = None;
        self.channel = None;
        self.switch.stop();
        if let Some(shim) = self.shim.take() {
            let _ = shim.join();
        }
    }
}

/// Passes messages on in both directions, lying.
fn shim(controller: TcpStream, switch: TcpStream, version: Version, lies: Lies) {
    let up = Arc::new(Mutex::new(controller.try_clone().unwrap()));
    let back = {
        let (mut switch, up) = (switch.try_clone().unwrap(), up.clone());
        std::thread::spawn(move || {
            each(&mut switch, |bytes| {
                let bytes = miscount(version, bytes, lies.miscounts);
                up.lock().unwrap().write_all(&bytes).is_ok()
            });
            let _ = up.lock().unwrap().shutdown(Shutdown::Both);
        })
    };
    let (mut controller, mut down) = (controller, switch);
    let mut echoes = 0;
    each(&mut controller, |bytes| {
        let decoded = codec::decode(version, &bytes);
        match (&decoded, lies) {
            (Ok((xid, Message::BarrierRequest)), Lies { early_barrier: Some(delay), .. }) => {
                // Says yes, and lets what came before wait.
                let reply = codec::encode(version, *xid, &Message::BarrierReply).unwrap();
                let said = up.lock().unwrap().write_all(&reply).is_ok();
                std::thread::sleep(delay);
                return said;
            }
            (Ok((_, Message::FlowMod(_))), Lies { early_barrier: Some(_), .. }) => {
                let (mut down, bytes) = (down.try_clone().unwrap(), bytes.clone());
                let delay = lies.early_barrier.unwrap();
                std::thread::spawn(move || {
                    std::thread::sleep(delay);
                    let _ = down.write_all(&bytes);
                });
                return true;
            }
            (Ok((_, Message::EchoRequest(_))), Lies { deaf: Some(n), .. }) => {
                echoes += 1;
                if echoes % n == 0 {
                    return true;
                }
            }
            _ => {}
        }
        down.write_all(&bytes).is_ok()
    });
    let _ = down.shutdown(Shutdown::Both);
    back.join().unwrap();
}

/// Hands over each message until there are no more or the other side takes none.
fn each(stream: &mut TcpStream, mut take: impl FnMut(Vec<u8>) -> bool) {
    let (mut input, mut chunk) = (Vec::new(), [0; 65536]);
    loop {
        while let Frame::Message { length } = codec::frame(&input) {
            if !take(input.drain(..length).collect()) {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => input.extend_from_slice(&chunk[..n]),
            _ => return,
        }
    }
}

fn miscount(version: Version, bytes: Vec<u8>, by: u64) -> Vec<u8> {
    if by == 0 {
        return bytes;
    }
    let Ok((xid, Message::MultipartReply(mut reply))) = codec::decode(version, &bytes) else {
        return bytes;
    };
    if let MultipartReplyBody::Flow(entries) = &mut reply.body {
        for entry in entries.iter_mut().filter(|e| e.priority == 1000) {
            entry.packet_count += by;
        }
    }
    let Xid(xid) = xid;
    codec::encode(version, Xid(xid), &Message::MultipartReply(reply)).unwrap()
}

#[test]
fn an_honest_switch_is_not_accused() {
    for version in Version::ALL {
        let mut lab = Lab::new(version, Lies::default());
        // 1.4 and 1.5 say the same by other bytes; what differs most is asked of them.
        let all = version <= Version::V13;
        for module in MODULES.iter().filter(|m| all || m.name != "barrier") {
            let runs = lab.ask(module);
            assert!(!runs.is_empty());
            for run in runs {
                assert_eq!(run.findings, [], "{version} {}: {}", module.name, run.label);
                for latency in module.latencies {
                    let (_, summary) = run.latencies.iter().find(|(n, _)| n == latency).unwrap();
                    assert!(summary.count > 0, "{version} {} {latency}", module.name);
                }
                for figure in module.figures {
                    assert!(run.value(figure).is_some(), "{version} {} {figure}", module.name);
                }
            }
        }
    }
}

#[test]
fn early_barriers_are_found() {
    let lies = Lies { early_barrier: Some(Duration::from_millis(60)), ..Lies::default() };
    let mut lab = Lab::new(Version::V13, lies);
    let runs = lab.ask(&module::barrier::MODULE);
    for run in &runs {
        assert_eq!(run.findings.len(), 1, "{run:?}");
        assert_eq!(run.findings[0].what, "barrier_early");
        let late_us = run.value("late_us").unwrap();
        assert!((20_000.0..2_000_000.0).contains(&late_us), "{late_us}");
    }
    // The other module shows it as a gap between the two planes.
    for run in lab.ask(&module::insertion::MODULE) {
        let gap = run.value("data_us").unwrap() - run.value("control_us").unwrap();
        assert!(gap > 20_000.0, "{}: {gap}", run.label);
    }
}

#[test]
fn losses_are_found_and_not_taken_for_early_barriers() {
    let mut lab = Lab::new(Version::V13, Lies { loses: Some(200), ..Lies::default() });
    let findings = lab.findings(&module::forwarding::MODULE);
    assert_eq!(findings, ["frames_lost", "frames_lost"]);
    assert_eq!(lab.findings(&module::barrier::MODULE), [""; 0]);
    assert_eq!(lab.findings(&module::statistics::MODULE), [""; 0]);
}

#[test]
fn wrong_counters_are_found() {
    let mut lab = Lab::new(Version::V10, Lies { miscounts: 1, ..Lies::default() });
    assert_eq!(lab.findings(&module::statistics::MODULE), ["flow_count_wrong"]);
    assert_eq!(lab.findings(&module::forwarding::MODULE), [""; 0]);
}

#[test]
fn unanswered_echoes_are_found() {
    let mut lab = Lab::new(Version::V13, Lies { deaf: Some(50), ..Lies::default() });
    let runs = lab.ask(&module::echo::MODULE);
    assert_eq!(runs[0].findings[0].what, "echo_unanswered");
    assert_eq!(runs[0].value("unanswered"), Some(4.0));
}
