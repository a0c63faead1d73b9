//! Planted faults are found, each by its module; an honest switch is not accused.
//!
//! The switch is millrace's own, on memory ports. The shim stands between it and the controller, and
//! lies as it is told; frames are lost by `port`'s fault injector.

use datapath::services::Services;
use gauge::describe::described;
use gauge::lua::Script;
use gauge::module::{self, MODULES, Module};
use gauge::report::{How, Report};
use gauge::run::WIRE;
use gauge::{Bench, Control, DataPort, Peer, Run, Settings};
use of_channel::connection::Timing;
use of_channel::{Channel, Config, Listen, TlsFiles};
use of_pipeline::lower::{self, ProgramConfig};
use of_pipeline::{Agent, AgentConfig};
use openflow::codec::{self, Frame};
use openflow::{
    FlowModCommand, FlowStatsRequest, Message, MultipartReplyBody, MultipartRequestBody, Version,
    Xid,
};
use port::fault::{FaultInjector, Faults};
use port::prng::Prng;
use port::{Port, memory};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use switch::Switch;

/// How the shim lies.
#[derive(Clone, Copy, Default)]
struct Lies {
    /// Flow-mods reach the switch so late, but barriers are answered at once.
    early_barrier: Option<Duration>,
    /// One in so many frames is lost on its way out.
    loses: Option<u32>,
    /// A counter that is told wrongly, and by how much.
    miscounts: Option<(Counter, u64)>,
    /// What flow entries count is told so late.
    stale: Option<Duration>,
    /// Every second rule is added so long before the one that was sent before it.
    reorders: Option<Duration>,
    /// One in so many echo requests is not answered.
    deaf: Option<u32>,
    /// What the path does to frames on their way out.
    bends: Option<Bend>,
    /// Of these messages, one in so many never reaches the switch.
    forgets: Option<(Which, u32)>,
    /// Messages from the switch that are sent twice.
    doubles: Option<Which>,
    /// The channel is closed, once, at so many of these messages.
    closes: Option<(Which, u32)>,
    /// How often it cannot be opened again then.
    crashes: u32,
    /// What the switch says from then on is none of OpenFlow.
    babbles: bool,
}

/// A counter of the switch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counter {
    FlowPackets,
    FlowBytes,
    PortTx,
    PortRxBytes,
    PortRxErrors,
    PortTxDropped,
    /// In thousandths.
    PortRxShare,
    TableLookups,
    Aggregate,
}

/// What is done to a frame.
type Change = fn(&mut Vec<u8>);
/// Which messages are meant.
type Which = fn(&Message) -> bool;

/// What becomes of a frame on its way from the switch.
#[derive(Clone, Copy)]
enum Bend {
    /// This is done to each.
    Each(Change),
    /// One bit of one in a hundred is flipped.
    Bits,
    /// One in so many comes twice.
    Twice(u32),
    /// Each comes back by the input port, too.
    Hub,
    /// With each of ours, one of another process's comes, by the same path.
    Strangers,
    /// A cable is pulled once so many frames have come, and is back a while later.
    Pulled(Cable, u32),
}

/// Whose link goes when the cable is pulled: the far end does not see it, as behind a media converter.
#[derive(Clone, Copy, Debug)]
enum Cable {
    OurInput,
    OurOutput,
    SwitchOutput,
}

/// A switch, the shim before it, and both on the bench.
struct Lab {
    bench: Option<Bench>,
    channel: Option<Channel>,
    switch: Switch,
    shim: Option<JoinHandle<()>>,
    path: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
    /// Where the switch itself can be reached.
    port: u16,
    shim_port: u16,
}

/// Carries frames between our ports and the switch's, and bends those that come out. The wires: in, then out, each our
/// port's far end, then the switch's.
fn path(wires: &[(memory::Handle, memory::Handle)], bend: Bend, over: &AtomicBool) {
    let [(our_in, its_in), (our_out, its_out)] = wires else { panic!("two wires") };
    let (mut count, mut random) = (0u32, Prng::new(7));
    let mut pulled: Option<(&memory::Handle, Instant)> = None;
    while !over.load(Ordering::Relaxed) {
        let mut busy = false;
        for (from, to) in [(our_in, its_in), (our_out, its_out), (its_in, our_in)] {
            busy |= from.take_into(64, |frame| drop(to.inject(frame))) > 0;
        }
        busy |= its_out.take_into(64, |frame| {
            count += 1;
            let mut bytes = frame.data().to_vec();
            let is_ours = gauge::probe::parse(&bytes).is_some();
            match bend {
                Bend::Each(change) if is_ours => change(&mut bytes),
                Bend::Bits if is_ours && random.below(100) == 0 => {
                    let bit = random.below(bytes.len() as u64 * 8) as usize;
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                Bend::Twice(n) if count % n == 0 => drop(our_out.inject_bytes(&bytes)),
                Bend::Hub => drop(our_in.inject_bytes(&bytes)),
                Bend::Pulled(cable, at) if count == at => {
                    let end = match cable {
                        Cable::OurInput => our_in,
                        Cable::OurOutput => our_out,
                        Cable::SwitchOutput => its_out,
                    };
                    end.set_carrier(false);
                    pulled = Some((end, Instant::now()));
                }
                Bend::Strangers => {
                    if let Some(probe) = gauge::probe::parse(&bytes) {
                        let mut other = bytes.clone();
                        gauge::probe::estrange(&mut other, probe);
                        our_out.inject_bytes(&other);
                    }
                }
                _ => {}
            }
            our_out.inject_bytes(&bytes);
        }) > 0;
        if let Some((end, since)) = pulled
            && since.elapsed() > Duration::from_millis(400)
        {
            end.set_carrier(true);
            pulled = None;
        }
        if !busy {
            // What comes by either end wakes it soon enough.
            port::wait_readable(its_out.fd(), Duration::from_micros(100));
        }
    }
}

impl Lab {
    fn new(version: Version, lies: Lies) -> Lab {
        let (mut lab, peer, [input, output], settings) = Lab::start(version, lies);
        let control = Control::open(&peer, &[version]).unwrap();
        lab.bench = Some(Bench::new(control, input, output, settings).unwrap());
        lab
    }

    /// A whole session of these modules; the report, and the flow entries that are there after it.
    fn session(
        version: Version,
        lies: Lies,
        names: &[&str],
        change: impl FnOnce(&mut Settings),
    ) -> (Report, usize) {
        Lab::session_told(version, lies, names, change, &mut |_| {})
    }

    /// The same, with somebody who hears of its progress.
    fn session_told(
        version: Version,
        lies: Lies,
        names: &[&str],
        change: impl FnOnce(&mut Settings),
        progress: &mut dyn FnMut(&str),
    ) -> (Report, usize) {
        let (lab, peer, [input, output], mut settings) = Lab::start(version, lies);
        change(&mut settings);
        let find = |name: &&str| MODULES.iter().find(|m| m.name == *name).unwrap();
        let modules: Vec<&Module> = names.iter().map(find).collect();
        let ports = (input, output);
        let report = gauge::gauge(&peer, &[version], ports, None, settings, &modules, progress);
        let mut control = Control::open(&Peer::loopback(lab.port), &[version]).unwrap();
        let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
        let parts = control.multipart("flow statistics", body).unwrap();
        let left = parts.iter().map(|part| match part {
            MultipartReplyBody::Flow(entries) => entries.len(),
            _ => 0,
        });
        (report, left.sum())
    }

    /// A switch and its shim: how the shim is reached, our ports, and settings for a small session.
    fn start(version: Version, lies: Lies) -> (Lab, Peer, [DataPort; 2], Settings) {
        let (program, _) = lower::program(&ProgramConfig::default());
        let config = switch::Config {
            program: Arc::new(program),
            workers: 1,
            cpus: Vec::new(),
            punt_rate: 1_000_000,
            engine: Default::default(),
            validate: None,
        };
        let mut services = Services::default();
        services.track(service::conntrack::Config::new(1 << 18, 7));
        let switch = Switch::start_with(config, services).unwrap();
        let config = memory::Config { capacity: 1 << 16, ..Default::default() };
        let mut wires = Vec::new();
        let ours = ["in", "out"].map(|name| {
            let (theirs, far): (Box<dyn Port>, Box<dyn Port>) = match (lies.bends, lies.loses) {
                (Some(_), _) => {
                    let (theirs, wire) = memory::port(name, config.clone()).unwrap();
                    let (ours, far) = memory::port(name, config.clone()).unwrap();
                    wires.push((far, wire));
                    (Box::new(theirs), Box::new(ours))
                }
                (None, loses) => {
                    let (ours, theirs) = memory::cable(name, name, config.clone()).unwrap();
                    let theirs: Box<dyn Port> = match loses {
                        Some(n) if name == "out" => {
                            let faults = Faults { loss: 1.0 / f64::from(n), ..Faults::default() };
                            Box::new(FaultInjector::new(Box::new(theirs), faults, 11))
                        }
                        _ => Box::new(theirs),
                    };
                    (theirs, Box::new(ours))
                }
            };
            let number = switch.add_port(None, theirs).unwrap();
            DataPort::new(name, number, far).unwrap()
        });
        let over = Arc::new(AtomicBool::new(false));
        let path = lies.bends.map(|bend| {
            let (over, wires) = (over.clone(), std::mem::take(&mut wires));
            std::thread::spawn(move || path(&wires, bend, &over))
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
            let Ok((controller, _)) = listener.accept() else { return };
            // Whoever wants the shim gone connects and says nothing.
            let Ok(switch) = TcpStream::connect(("127.0.0.1", port)) else { return };
            shim(controller, switch, version, lies);
            if lies.closes.is_some() {
                // It can be reached again, sooner or later, and then is honest.
                for _ in 0..lies.crashes {
                    drop(listener.accept().unwrap());
                }
                let (controller, _) = listener.accept().unwrap();
                let switch = TcpStream::connect(("127.0.0.1", port)).unwrap();
                shim(controller, switch, version, Lies::default());
            }
        });
        let settings = Settings {
            probes: 3000,
            rate_pps: 10_000.0,
            sizes: vec![64, 1518],
            batches: vec![1, 20],
            barrier_rounds: 2,
            echoes: 200,
            punts: 100,
            settle_ms: 100,
            loss_probes: 20_000,
            trial_ms: 100,
            rate_max_pps: 5000.0,
            punt_max_pps: 500.0,
            occupancies: vec![500],
            polled_entries: 200,
            update_ms: 300,
            meters_pps: vec![1000],
            meter_ms: 500,
            failovers: 1,
            active_flows: vec![1, 1000],
            masks: vec![1, 16],
            cliff_pps: 5000.0,
            cliff_ms: 300,
            described: vec![("ports".into(), Arc::new(described("udp_dst=1-9").unwrap()))],
            // Tests share the machine with other tests: slots are missed.
            late_share_max: 1.0,
            ..Settings::default()
        };
        let lab = Lab {
            bench: None,
            channel: Some(channel),
            switch,
            shim: Some(shim),
            path,
            over,
            port,
            shim_port,
        };
        (lab, Peer::loopback(shim_port), ours, settings)
    }

    fn ask(&mut self, module: &Module) -> Vec<Run> {
        self.try_ask(module).unwrap()
    }

    fn try_ask(&mut self, module: &Module) -> Result<Vec<Run>, gauge::Error> {
        let bench = self.bench.as_mut().unwrap();
        bench.control.clear().unwrap();
        (module.run)(bench, &mut |_| {})
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
        self.over.store(true, Ordering::Relaxed);
        self.switch.stop();
        if let Some(path) = self.path.take() {
            let _ = path.join();
        }
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
            let mut first_counted = None;
            each(&mut switch, |bytes| {
                let Some(bytes) = bytes else { return true };
                let bytes = miscount(version, bytes, lies, &mut first_counted);
                if let (Some(doubles), Ok((_, m))) = (lies.doubles, codec::decode(version, &bytes))
                    && doubles(&m)
                    && up.lock().unwrap().write_all(&bytes).is_err()
                {
                    return false;
                }
                up.lock().unwrap().write_all(&bytes).is_ok()
            });
            let _ = up.lock().unwrap().shutdown(Shutdown::Both);
        })
    };
    let (mut controller, mut down) = (controller, switch);
    let (mut echoes, mut forgotten, mut closes) = (0, 0, 0);
    let mut held = Vec::new();
    if lies.reorders.is_some() {
        // What comes within this time of what came before is of one batch.
        controller.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    }
    each(&mut controller, |bytes| {
        let Some(bytes) = bytes else {
            return release(&mut down, &mut held, lies.reorders.unwrap_or_default());
        };
        let decoded = codec::decode(version, &bytes);
        if lies.reorders.is_some() {
            if let Ok((_, message)) = decoded {
                held.push((message, bytes));
            }
            return true;
        }
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
            (Ok((_, message)), Lies { forgets: Some((which, n)), .. }) if which(message) => {
                forgotten += 1;
                if forgotten % n == 0 {
                    return true;
                }
            }
            (Ok((_, message)), Lies { closes: Some((which, n)), .. }) if which(message) => {
                closes += 1;
                if closes == n && lies.babbles {
                    let _ = up.lock().unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                    return true;
                }
                if closes == n {
                    return false;
                }
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

/// Sends what was held, with each second rule before the one that it followed; then the barriers.
fn release(down: &mut TcpStream, held: &mut Vec<(Message, Vec<u8>)>, apart: Duration) -> bool {
    let is_rule =
        |m: &Message| matches!(m, Message::FlowMod(f) if f.command == FlowModCommand::Add);
    let (mut rules, others): (Vec<_>, Vec<_>) = held.drain(..).partition(|(m, _)| is_rule(m));
    let only_rules = others.iter().all(|(m, _)| *m == Message::BarrierRequest);
    if !only_rules {
        // Removing all and adding one are not to be swapped.
        return others.iter().chain(&rules).all(|(_, bytes)| down.write_all(bytes).is_ok());
    }
    for pair in rules.chunks_mut(2) {
        pair.reverse();
        for (i, (_, bytes)) in pair.iter().enumerate() {
            if i > 0 {
                std::thread::sleep(apart);
            }
            if down.write_all(bytes).is_err() {
                return false;
            }
        }
    }
    others.iter().all(|(_, bytes)| down.write_all(bytes).is_ok())
}

/// Hands over each message until there are no more or the other side takes none; and nothing, when none
/// has come within the stream's time.
fn each(stream: &mut TcpStream, mut take: impl FnMut(Option<Vec<u8>>) -> bool) {
    let (mut input, mut chunk) = (Vec::new(), [0; 65536]);
    loop {
        while let Frame::Message { length } = codec::frame(&input) {
            if !take(Some(input.drain(..length).collect())) {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => input.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if !take(None) {
                    return;
                }
            }
            _ => return,
        }
    }
}

fn miscount(
    version: Version,
    bytes: Vec<u8>,
    lies: Lies,
    first_counted: &mut Option<Instant>,
) -> Vec<u8> {
    if lies.miscounts.is_none() && lies.stale.is_none() {
        return bytes;
    }
    let Ok((Xid(xid), Message::MultipartReply(mut reply))) = codec::decode(version, &bytes) else {
        return bytes;
    };
    let lie = |counter| match lies.miscounts {
        Some((wrong, by)) if wrong == counter => by,
        _ => 0,
    };
    match &mut reply.body {
        MultipartReplyBody::Flow(entries) => {
            for entry in entries.iter_mut().filter(|e| e.priority == 1000) {
                if entry.packet_count > 0 {
                    entry.packet_count += lie(Counter::FlowPackets);
                    entry.byte_count += lie(Counter::FlowBytes);
                    first_counted.get_or_insert_with(Instant::now);
                }
                if lies.stale.is_some_and(|by| first_counted.is_some_and(|f| f.elapsed() < by)) {
                    (entry.packet_count, entry.byte_count) = (0, 0);
                }
            }
        }
        MultipartReplyBody::PortStats(ports) => {
            for p in ports.iter_mut().filter(|p| p.rx_packets + p.tx_packets > 500) {
                p.tx_packets += p.tx_packets / 10 * lie(Counter::PortTx);
                p.rx_packets += p.rx_packets * lie(Counter::PortRxShare) / 1000;
                p.rx_bytes += p.rx_packets / 10 * lie(Counter::PortRxBytes);
                p.rx_errors += p.rx_packets / 100 * lie(Counter::PortRxErrors);
                p.tx_dropped += p.tx_packets / 100 * lie(Counter::PortTxDropped);
            }
        }
        MultipartReplyBody::Table(tables) if lie(Counter::TableLookups) > 0 => {
            tables.iter_mut().for_each(|t| t.lookup_count /= 2);
        }
        MultipartReplyBody::Aggregate(sum) => sum.packet_count += lie(Counter::Aggregate),
        _ => {}
    }
    codec::encode(version, Xid(xid), &Message::MultipartReply(reply)).unwrap()
}

/// How often each fault is planted: GAUGE_RUNS, once without it.
fn rounds() -> u32 {
    std::env::var("GAUGE_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// Figures that need a switch of another process, or ports that the kernel stamps.
fn sometimes(figure: &str) -> bool {
    ["cpu_load", "added_wire_p50_us"].contains(&figure)
}

/// Asks an honest switch what these modules ask.
fn honest(version: Version, asked: impl Fn(&Module) -> bool) {
    for _ in 0..rounds() {
        let mut lab = Lab::new(version, Lies::default());
        for module in MODULES.iter().filter(|m| asked(m)) {
            let runs = match lab.try_ask(module) {
                Ok(runs) => runs,
                Err(e) => {
                    let may = match module.name {
                        "restart" => e.to_string().contains("--restart COMMAND"),
                        "meter" | "failover" => version == Version::V10,
                        _ => false,
                    };
                    assert!(may && e.is_of_one_module(), "{version} {}: {e}", module.name);
                    continue;
                }
            };
            assert!(!runs.is_empty());
            if module.name == "actions" {
                // The change that OFLOPS-SUME measures; version 1.0 has no MPLS.
                let has = |name: &str| runs.iter().any(|run| run.label.starts_with(name));
                assert!(has("set UDP destination") && has("set DSCP"), "{version}");
                assert!(version == Version::V10 || has("push MPLS"), "{version}");
            }
            for run in &runs {
                assert_eq!(run.findings, [], "{version} {}: {}", module.name, run.label);
                for figure in module.figures.iter().filter(|f| !sometimes(f)) {
                    assert!(run.value(figure).is_some(), "{version} {} {figure}", module.name);
                }
            }
            // Without load a run has no latency under load; only the kernel stamps both ends of a wire.
            for latency in module.latencies.iter().filter(|latency| **latency != WIRE) {
                let has = |run: &Run| {
                    run.latencies.iter().any(|(name, summary)| name == latency && summary.count > 0)
                };
                assert!(runs.iter().any(has), "{version} {} {latency}", module.name);
            }
        }
    }
}

const OF_UPDATES: [&str; 8] = [
    "insertion",
    "modification",
    "deletion",
    "priority",
    "occupancy",
    "order",
    "barrier",
    "update_rate",
];

#[test]
fn an_honest_switch_is_not_accused_of_its_updates() {
    honest(Version::V13, |m| OF_UPDATES.contains(&m.name));
}

#[test]
fn an_honest_switch_is_not_accused_of_the_rest() {
    honest(Version::V13, |m| !OF_UPDATES.contains(&m.name) && m.name != "actions");
}

#[test]
fn an_honest_switch_is_not_accused_of_its_actions() {
    honest(Version::V13, |m| m.name == "actions");
}

#[test]
fn an_honest_switch_is_not_accused_in_other_versions() {
    // What they say by other bytes is asked of them.
    const SMALL: [&str; 10] = [
        "echo",
        "forwarding",
        "insertion",
        "modification",
        "barrier",
        "packet_in",
        "packet_out",
        "port_statistics",
        "meter",
        "failover",
    ];
    honest(Version::V10, |m| SMALL.contains(&m.name) || m.name == "statistics");
    honest(Version::V14, |m| SMALL[..2].contains(&m.name) || m.name == "statistics");
    honest(Version::V15, |m| SMALL[6..].contains(&m.name) || m.name == "statistics");
}

#[test]
fn scripts_ask_what_they_like() {
    let mut lab = Lab::new(Version::V13, Lies::default());
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gauge");
    let mut run = |text: &str| {
        let script = Script::read("a script", text)?;
        let bench = lab.bench.as_mut().unwrap();
        script.run(bench, &mut |_| {}).map_err(|e| e.to_string()).map(|mut runs| runs.remove(0))
    };
    for (file, figure, least, latency) in [
        ("barrier_gap", "rules", 20.0, Some("after_reply")),
        ("learning_switch", "flows_learnt", 50.0, Some("until_forwarded")),
        ("counter_steps", "counted", 5000.0, None),
    ] {
        let text = std::fs::read_to_string(format!("{examples}/{file}.lua")).unwrap();
        let run = run(&text).unwrap();
        assert_eq!(run.findings, [], "{file}");
        assert!(run.value(figure).unwrap() >= least, "{file}: {:?}", run.figures);
        if let Some(latency) = latency {
            let (_, summary) = run.latencies.iter().find(|(name, _)| *name == latency).unwrap();
            assert!(summary.count > 0, "{file}");
        }
        assert!(run.value("sent").unwrap() > 0.0);
    }
    let head = "name = 'x' about = 'y' ";
    let mut error = |text: &str| run(&format!("{head}{text}")).unwrap_err();
    assert!(error("function start(t) t:flow('add', 'tpdst=1') end").contains("flow \"tpdst=1\""));
    assert!(error("function start(t) t:flow('drop', '') end").contains("known: add, modify"));
    assert!(error("function traffic() return { speed = 1 } end").contains("unknown key \"speed\""));
    assert!(
        error("function init() local s = 'x' while true do s = s .. s end end").contains("memory")
    );
    assert!(error("function init() return io.open('/etc/passwd') end").contains("'io'"));
    assert!(error("function init() return dofile('/etc/passwd') end").contains("'dofile'"));
    assert!(error("function filter() return true end").contains("expected a table"));
    assert!(
        error("function filter() return { capture = 'port http' } end").contains("at 5: \"http\"")
    );
    assert!(
        error("function filter() return { messages = {'ping'} } end")
            .contains("no messages \"ping\"")
    );
    assert!(error("function filter() return { frames = true } end").contains("expected one of"));
    assert!(Script::read("f", "name = 'x'").unwrap_err().contains("sets no about"));
    assert!(Script::read("f", "name = 'a b' about = ''").unwrap_err().contains("letters, digits"));
    assert!(Script::read("f", "nonsense").is_err());
}

/// A script hears of every frame that its filter passes, with its bytes, and its figures can be bounded.
#[test]
fn scripts_filter_what_they_capture() {
    let mut lab = Lab::new(Version::V13, Lies::default());
    let text = r#"
        name = "tagged" about = "which flows come out with a tag"
        local frames, tags, seen = 0, 0, {}
        function init(t)
            local input, output = t:ports()
            t:flow("add", string.format("priority=1,in_port=%d,ip,actions=output:%d", input, output))
            t:flow("add", string.format(
                "priority=2,in_port=%d,ip,nw_dst=%s,actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:%d",
                input, t:address(1), output))
            t:barrier()
        end
        function traffic(t) return { rate = 2000, probes = 3000, flows = 3 } end
        function filter(t) return { capture = "vlan 5 and udp port 9" } end
        function capture(t, p)
            frames = frames + 1
            seen[p.flow] = true
            local _, output = t:ports()
            if p.port == output and p.data:sub(13, 14) == "\x81\x00" and #p.data == 64 then tags = tags + 1 end
        end
        function destroy(t)
            t:figure("frames", frames) t:figure("tags", tags)
            if seen[0] or seen[2] then t:finding("untagged", "a frame passed that the filter keeps out") end
        end
    "#;
    let script = Script::read("tagged.lua", text).unwrap();
    let run = script.run(lab.bench.as_mut().unwrap(), &mut |_| {}).unwrap().remove(0);
    assert_eq!(run.findings, []);
    let frames = run.value("frames").unwrap();
    // The first may be faster than the rules, many where other tests take the processors.
    assert!((1.0..=1000.0).contains(&frames), "{frames}");
    assert_eq!(run.value("tags"), Some(frames));
    assert!(gauge::report::Threshold::parse("tagged.frames=999", &["tagged"]).is_ok());
}

/// What the filter keeps out has not come out; what it passes is written to the file.
#[test]
fn captures_are_filtered_and_recorded() {
    let file = std::env::temp_dir().join(format!("gauge-capture-{}.pcap", std::process::id()));
    let mut lab = Lab::new(Version::V13, Lies::default());
    let record = gauge::Recording::create(&file).unwrap();
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    (settings.probes, settings.sizes) = (500, vec![64]);
    settings.record = Some(record.clone());
    settings.filter = Some(Arc::new(gauge::Filter::parse("udp dst port 9 and len < 100").unwrap()));
    assert_eq!(lab.findings(&module::forwarding::MODULE), [""; 0]);
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    settings.filter = Some(Arc::new(gauge::Filter::parse("vlan").unwrap()));
    assert_eq!(lab.findings(&module::forwarding::MODULE), ["frames_lost"]);
    record.end().unwrap();
    let mut reader = port::pcap::Reader::new(std::fs::File::open(&file).unwrap()).unwrap();
    let (mut frames, mut last) = (0, 0);
    while let Some(found) = reader.next_record().unwrap() {
        assert_eq!(found.data.len(), 60);
        assert!(found.ns >= last);
        (frames, last) = (frames + 1, found.ns);
    }
    // The warm-up, and the run.
    assert_eq!(frames, 1000);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn the_channel_is_spoken_by_tls_too() {
    const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../of-channel/tests/tls");
    let files = |who: &str| TlsFiles {
        private_key: format!("{TLS}/{who}-privkey.pem").into(),
        certificate: format!("{TLS}/{who}-cert.pem").into(),
        ca_cert: Some(format!("{TLS}/ca.pem").into()),
    };
    let lab = Lab::new(Version::V13, Lies::default());
    let agent = Agent::new(lab.switch.clone(), AgentConfig::default()).unwrap();
    let config = Config {
        listeners: vec![Listen::Tls { address: Ipv4Addr::LOCALHOST.into(), port: 0 }],
        tls: Some(files("switch")),
        ..Config::default()
    };
    let channel = Channel::start(lab.switch.clone(), Arc::new(Mutex::new(agent)), config).unwrap();
    let Listen::Tls { port, .. } = channel.listening()[0] else { unreachable!() };
    let peer: Peer = format!("tls:127.0.0.1:{port}").parse().unwrap();
    assert!(Control::open(&peer, &Version::ALL).is_err(), "without keys");
    let mut control =
        Control::open(&peer.clone().with_tls(files("controller")), &Version::ALL).unwrap();
    let echoes = gauge::module::echo::exchange(&mut control, 100, 1000.0, Default::default());
    assert_eq!(echoes.unwrap().unanswered, 0);
    assert!(Control::open(&peer.with_tls(files("stranger")), &Version::ALL).is_err());
}

#[test]
fn early_barriers_are_found() {
    let lies = Lies { early_barrier: Some(Duration::from_millis(60)), ..Lies::default() };
    let mut lab = Lab::new(Version::V13, lies);
    let mut runs = Vec::new();
    for _ in 0..rounds() {
        runs.extend(lab.ask(&module::barrier::MODULE));
    }
    for run in &runs {
        assert_eq!(run.findings.len(), 1, "{run:?}");
        assert_eq!(run.findings[0].what, "barrier_early");
        let late_us = run.value("late_us").unwrap();
        assert!((20_000.0..2_000_000.0).contains(&late_us), "{late_us}");
    }
    // The other module shows it as a gap between the two planes.
    for run in lab.ask(&module::updates::INSERTION) {
        let gap = run.value("data_us").unwrap() - run.value("control_us").unwrap();
        assert!(gap > 20_000.0, "{}: {gap}", run.label);
    }
}

#[test]
fn losses_are_found_and_not_taken_for_early_barriers() {
    for _ in 0..rounds() {
        let mut lab = Lab::new(Version::V13, Lies { loses: Some(200), ..Lies::default() });
        let findings = lab.findings(&module::forwarding::MODULE);
        assert_eq!(findings, ["frames_lost", "frames_lost"]);
        assert_eq!(lab.findings(&module::barrier::MODULE), [""; 0]);
        assert_eq!(lab.findings(&module::statistics::MODULE), [""; 0]);
    }
}

#[test]
fn one_loss_in_ten_thousand_is_found() {
    for _ in 0..rounds() {
        let mut lab = Lab::new(Version::V13, Lies { loses: Some(10_000), ..Lies::default() });
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.loss_probes, settings.loss_pps) = (100_000, 40_000.0);
        assert_eq!(lab.findings(&module::loss::MODULE), ["frames_lost"]);
        assert_eq!(lab.findings(&module::updates::ORDER), [""; 0]);
    }
}

#[test]
fn rules_out_of_their_order_are_found() {
    let reorders = Some(Duration::from_millis(60));
    let mut lab = Lab::new(Version::V13, Lies { reorders, ..Lies::default() });
    for _ in 0..rounds() {
        let runs = lab.ask(&module::updates::ORDER);
        assert_eq!(runs[0].findings.len(), 1, "{:?}", runs[0].figures);
        assert_eq!(runs[0].findings[0].what, "rules_reordered");
        // Of ten pairs; on a busy machine the shim may see them in several batches.
        assert!((1.0..=10.0).contains(&runs[0].value("disordered").unwrap()));
    }
    // When the barrier is answered all rules are there.
    assert_eq!(lab.findings(&module::barrier::MODULE), [""; 0]);
    // It may reorder what no barrier parts; that is shown, not blamed.
    let runs = lab.ask(&module::updates::INSERTION);
    assert!(runs[1].value("overtaken").unwrap() > 0.0);
    assert_eq!(runs[1].findings, []);
}

#[test]
fn late_counters_are_found() {
    for _ in 0..rounds() {
        let stale = Some(Duration::from_millis(1200));
        let mut lab = Lab::new(Version::V13, Lies { stale, ..Lies::default() });
        lab.bench.as_mut().unwrap().settings.fresh_max_ms = 500;
        assert_eq!(lab.findings(&module::statistics::MODULE), ["flow_count_stale"]);
    }
}

#[test]
fn wrong_counters_are_found() {
    for (counter, by, found) in [
        (Counter::FlowPackets, 1, "flow_count_wrong"),
        (Counter::FlowBytes, 7, "flow_count_wrong"),
        (Counter::TableLookups, 1, "table_count_wrong"),
        (Counter::Aggregate, 1, "aggregate_count_wrong"),
    ] {
        let miscounts = Some((counter, by));
        let mut lab = Lab::new(Version::V13, Lies { miscounts, ..Lies::default() });
        assert_eq!(lab.findings(&module::statistics::MODULE), [found], "{counter:?}");
    }
    for (counter, by) in [
        (Counter::PortTx, 1),
        (Counter::PortRxShare, 9),
        (Counter::PortRxBytes, 1),
        (Counter::PortRxErrors, 1),
        (Counter::PortTxDropped, 1),
    ] {
        let version = if by == 9 { Version::V13 } else { Version::V10 };
        let miscounts = Some((counter, by));
        let mut lab = Lab::new(version, Lies { miscounts, ..Lies::default() });
        assert_eq!(lab.findings(&module::counters::MODULE), ["port_count_wrong"], "{counter:?}");
    }
}

/// The checksum of an IPv4 header behind an untagged Ethernet header.
fn sum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let words = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
}

#[test]
fn frames_that_came_out_changed_are_found_and_the_field_is_named() {
    let changes: [(Change, &str, &str); 6] = [
        (|f| (f[22] = 61, sum(f)).1, "frames_changed", "ip_ttl"),
        (|f| (f[26..30].fill(6), sum(f)).1, "frames_changed", "ip_src"),
        (|f| f[5] ^= 0x55, "frames_changed", "eth_dst"),
        (
            |f| f.get_mut(200..216).into_iter().for_each(|b| b.fill(0xff)),
            "frames_changed",
            "payload",
        ),
        (|f| f.truncate(200), "frames_changed", "length"),
        // The frames that look for the wires are short.
        (
            |f| {
                if f.len() > 60 {
                    f[42..60].fill(0xee)
                }
            },
            "frames_unreadable",
            "mark",
        ),
    ];
    for (change, what, field) in changes {
        let bends = Some(Bend::Each(change));
        let mut lab = Lab::new(Version::V13, Lies { bends, ..Lies::default() });
        lab.bench.as_mut().unwrap().settings.sizes = vec![512];
        lab.bench.as_mut().unwrap().settings.probes = 1000;
        let run = lab.ask(&module::forwarding::MODULE).remove(0);
        let [found] = &run.findings[..] else { panic!("{field}: {:?}", run.findings) };
        assert_eq!(found.what, what, "{field}: {found:?}");
        let named = found.text.contains(field) || field == "mark";
        assert!(named && found.text.starts_with("1000 of 1000"), "{field}: {found:?}");
        assert_eq!(run.value("lost"), Some(0.0), "{field}");
    }
}

#[test]
fn an_action_that_is_not_done_is_found() {
    // UDP's destination is as it was before, whatever the rule says.
    let bends = Some(Bend::Each(|f| f[36..38].copy_from_slice(&9u16.to_be_bytes())));
    let mut lab = Lab::new(Version::V13, Lies { bends, ..Lies::default() });
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    (settings.sizes, settings.probes) = (vec![128], 800);
    for run in lab.ask(&module::actions::MODULE) {
        let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
        let expected: &[&str] = match run.label.split(',').next().unwrap() {
            "set UDP destination" => &["action_not_done"],
            // What follows a tag or a label lies elsewhere.
            "push VLAN" | "push MPLS" => &["frames_changed"],
            _ => &[],
        };
        assert_eq!(found, expected, "{}: {:?}", run.label, run.findings);
    }
}

#[test]
fn flipped_bits_are_found_and_not_taken_for_other_faults() {
    let mut lab = Lab::new(Version::V13, Lies { bends: Some(Bend::Bits), ..Lies::default() });
    lab.bench.as_mut().unwrap().settings.sizes = vec![64];
    for module in [&module::forwarding::MODULE, &module::loss::MODULE] {
        let run = lab.ask(module).remove(0);
        let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
        assert_eq!(found, ["frames_corrupted"], "{:?}", run.findings);
        for figure in ["lost", "doubled", "reordered"] {
            assert_eq!(run.value(figure), Some(0.0), "{figure}");
        }
    }
}

#[test]
fn doubled_frames_and_those_that_come_back_are_found() {
    for (bend, what) in [(Bend::Twice(100), "frames_doubled"), (Bend::Hub, "frames_returned")] {
        let mut lab = Lab::new(Version::V13, Lies { bends: Some(bend), ..Lies::default() });
        lab.bench.as_mut().unwrap().settings.sizes = vec![64];
        for module in [&module::forwarding::MODULE, &module::cliffs::FLOWS, &module::load::POLLING]
        {
            for run in lab.ask(module) {
                let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
                assert_eq!(found, [what], "{} {:?}", module.name, run.findings);
            }
        }
    }
}

#[test]
fn probes_of_others_accuse_nobody() {
    let mut lab = Lab::new(Version::V13, Lies { bends: Some(Bend::Strangers), ..Lies::default() });
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    (settings.sizes, settings.attempts) = (vec![64], 2);
    for module in
        [&module::forwarding::MODULE, &module::statistics::MODULE, &module::counters::MODULE]
    {
        for run in lab.ask(module) {
            assert_eq!(run.findings, [], "{}", module.name);
            assert_eq!(run.attempts, 2);
            let told = run.disturbed.join(" ");
            assert!(told.contains("probes of another run came out"), "{told}");
        }
    }
}

#[test]
fn a_disturbed_run_accuses_nobody() {
    let mut lab = Lab::new(Version::V13, Lies { loses: Some(50), ..Lies::default() });
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    // No probe leaves so early that none is late.
    (settings.late_share_max, settings.attempts, settings.sizes) = (-1.0, 2, vec![64]);
    for module in [&module::forwarding::MODULE, &module::loss::MODULE, &module::load::POLLING] {
        for run in lab.ask(module) {
            assert_eq!((run.findings.len(), run.attempts), (0, 2), "{} {run:?}", module.name);
            assert!(!run.disturbed.is_empty());
            let kept = |note: &String| note.starts_with("not believed: frames_lost");
            // What `loss` would find it does not even look at then.
            assert!(
                module.name == "loss" || run.notes.iter().any(kept),
                "{} {:?}",
                module.name,
                run.notes
            );
        }
    }
}

/// A rule of a module is added or changed.
fn is_new_rule(message: &Message) -> bool {
    matches!(message, Message::FlowMod(f) if f.priority == 1000 && f.command != FlowModCommand::Delete)
}

/// One is removed, by itself.
fn is_removal(message: &Message) -> bool {
    matches!(message, Message::FlowMod(f) if f.command == FlowModCommand::DeleteStrict)
}

fn is_echo(message: &Message) -> bool {
    matches!(message, Message::EchoRequest(_))
}

/// What a run that stays disturbed would have found is kept as a remark, whatever it is.
#[test]
fn no_kind_of_fault_is_claimed_of_a_disturbed_run() {
    let lies = Lies::default();
    // Late probes say nothing against counters and barriers; others' frames do.
    let bends = Some(Bend::Strangers);
    let wrong = Some((Counter::FlowPackets, 1));
    let port = Some((Counter::PortTx, 1));
    let late = Some(Duration::from_millis(60));
    let changed: Change = |f| (f[22] = 61, sum(f)).1;
    let cases: [(Lies, &Module, &str); 7] = [
        (
            Lies { bends: Some(Bend::Twice(20)), ..lies },
            &module::forwarding::MODULE,
            "frames_doubled",
        ),
        (
            Lies { bends: Some(Bend::Each(changed)), ..lies },
            &module::forwarding::MODULE,
            "frames_changed",
        ),
        (Lies { bends: Some(Bend::Hub), ..lies }, &module::cliffs::FLOWS, "frames_returned"),
        (Lies { miscounts: wrong, bends, ..lies }, &module::statistics::MODULE, "flow_count_wrong"),
        (Lies { miscounts: port, bends, ..lies }, &module::counters::MODULE, "port_count_wrong"),
        (Lies { early_barrier: late, bends, ..lies }, &module::barrier::MODULE, "barrier_early"),
        (
            Lies { forgets: Some((is_new_rule, 10)), ..lies },
            &module::updates::INSERTION,
            "rule_inactive",
        ),
    ];
    for (lies, module, what) in cases {
        let mut lab = Lab::new(Version::V13, lies);
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.late_share_max, settings.attempts, settings.sizes) = (-1.0, 1, vec![64]);
        settings.batches = vec![20];
        for run in lab.ask(module) {
            assert_eq!(run.findings, [], "{}", module.name);
            assert!(!run.disturbed.is_empty(), "{} {run:?}", module.name);
            // Some do not even look then.
            let told = run.notes.iter().all(|n| !n.starts_with("not believed") || n.contains(what));
            assert!(told, "{} {:?}", module.name, run.notes);
        }
    }
}

/// Who reads JUnit's form or the exit status is told the same.
#[test]
fn a_disturbed_session_is_undecided() {
    let lies = Lies { loses: Some(50), ..Lies::default() };
    let (report, _) = Lab::session(Version::V13, lies, &["forwarding", "loss"], |s| {
        (s.late_share_max, s.attempts, s.sizes) = (-1.0, 1, vec![64]);
    });
    assert_eq!((report.ended.how, report.verdict().status()), (How::Complete, 4), "{report}");
    let stored = gauge::Stored::parse(&serde_json::to_string(&report).unwrap()).unwrap();
    let junit = gauge::junit::junit(&stored);
    assert!(junit.contains("<error message=\"disturbed\">"), "{junit}");
    assert!(!junit.contains("<failure"), "{junit}");
}

#[test]
fn removals_that_never_come_are_not_late_ones() {
    let forgets: Option<(Which, u32)> = Some((is_removal, 10));
    let mut lab = Lab::new(Version::V13, Lies { forgets, ..Lies::default() });
    lab.bench.as_mut().unwrap().settings.batches = vec![20];
    for run in lab.ask(&module::updates::DELETION) {
        let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
        assert_eq!(found, ["rule_undead"], "{:?}", run.findings);
    }
    assert_eq!(lab.findings(&module::barrier::MODULE), [""; 0]);
}

/// Other shares of them, another version, other modules.
#[test]
fn rules_that_never_come_are_named_as_such_however_many() {
    use module::updates;
    let cases: [(Version, u32, &Module); 6] = [
        (Version::V13, 1, &module::barrier::MODULE),
        (Version::V13, 1, &updates::INSERTION),
        (Version::V13, 20, &module::barrier::MODULE),
        (Version::V10, 10, &module::barrier::MODULE),
        (Version::V10, 10, &updates::INSERTION),
        (Version::V15, 10, &updates::ORDER),
    ];
    for (version, n, module) in cases {
        let forgets: Option<(Which, u32)> = Some((is_new_rule, n));
        let mut lab = Lab::new(version, Lies { forgets, ..Lies::default() });
        lab.bench.as_mut().unwrap().settings.batches = vec![20];
        for run in lab.ask(module) {
            let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
            assert_eq!(
                found,
                ["rule_inactive"],
                "{version} {n} {} {:?}",
                module.name,
                run.findings
            );
        }
    }
}

#[test]
fn rules_that_never_come_are_not_late() {
    let forgets: Option<(Which, u32)> = Some((is_new_rule, 10));
    let mut lab = Lab::new(Version::V13, Lies { forgets, ..Lies::default() });
    lab.bench.as_mut().unwrap().settings.batches = vec![20];
    use module::updates;
    for module in
        [&updates::INSERTION, &module::barrier::MODULE, &updates::ORDER, &updates::MODIFICATION]
    {
        for run in lab.ask(module) {
            let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
            assert_eq!(found, ["rule_inactive"], "{} {:?}", module.name, run.findings);
        }
    }
}

#[test]
fn doubled_replies_are_found() {
    let cases: [(Which, &Module, &str, &str); 5] = [
        (
            |m| matches!(m, Message::EchoReply(_)),
            &module::echo::MODULE,
            "replies_doubled",
            "200 echo replies",
        ),
        (
            |m| matches!(m, Message::BarrierReply),
            &module::updates::INSERTION,
            "replies_doubled",
            "barrier replies",
        ),
        (
            |m| matches!(m, Message::MultipartReply(_)),
            &module::statistics::MODULE,
            "replies_doubled",
            "statistics replies",
        ),
        (
            |m| matches!(m, Message::MultipartReply(_)),
            &module::load::POLLING,
            "replies_doubled",
            "statistics replies",
        ),
        (
            |m| matches!(m, Message::PacketIn(_)),
            &module::punt::PACKET_IN,
            "packet_in_doubled",
            "100 of 100",
        ),
    ];
    for (doubles, module, what, text) in cases {
        let mut lab = Lab::new(Version::V13, Lies { doubles: Some(doubles), ..Lies::default() });
        let runs = lab.ask(module);
        // Without anything asked there is nothing to double.
        for run in runs.iter().filter(|r| r.label != "nothing asked") {
            let [found] = &run.findings[..] else { panic!("{}: {:?}", module.name, run.findings) };
            assert!(found.what == what && found.text.contains(text), "{}: {found:?}", module.name);
        }
    }
}

/// Parts of one answer are not taken for doubles of each other.
#[test]
fn long_answers_are_not_doubled() {
    let mut lab = Lab::new(Version::V13, Lies::default());
    lab.bench.as_mut().unwrap().settings.polled_entries = 3000;
    assert_eq!(lab.findings(&module::load::POLLING), [""; 0]);
}

/// What was measured until the channel closed is told; it is opened again, and what follows is measured.
#[test]
fn a_closed_channel_leaves_a_report() {
    let closes: Option<(Which, u32)> = Some((is_echo, 70));
    let lies = Lies { closes, ..Lies::default() };
    let modules = ["echo", "loss", "packet_out"];
    let (report, left) = Lab::session(Version::V13, lies, &modules, |_| {});
    assert_eq!((report.ended.how, report.verdict().status()), (How::SwitchFailed, 3), "{report}");
    let broke: Vec<bool> = report.modules.iter().map(|m| m.broke.is_some()).collect();
    assert_eq!(broke, [true, false, false], "{report}");
    let found = report.modules.iter().flat_map(|m| &m.runs).flat_map(|r| &r.findings);
    assert_eq!(found.map(|f| f.what).collect::<Vec<_>>(), ["channel_closed"]);
    // The others were asked by a new channel, and nothing of ours is left.
    assert!(report.modules[1..].iter().all(|m| m.runs.len() == 1), "{report}");
    assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0));
    let stored = gauge::Stored::parse(&serde_json::to_string(&report).unwrap()).unwrap();
    assert!(gauge::junit::junit(&stored).contains("<error message=\"broken off\">"));
}

/// Whatever was being asked when it closed: a rule, a barrier, statistics, a packet-out.
#[test]
fn a_channel_that_closes_at_any_message_leaves_a_report() {
    let cases: [(Which, u32, &str); 4] = [
        (is_new_rule, 5, "insertion"),
        (|m| matches!(m, Message::BarrierRequest), 7, "barrier"),
        (|m| matches!(m, Message::MultipartRequest(_)), 20, "polling"),
        (|m| matches!(m, Message::PacketOut(_)), 30, "packet_out"),
    ];
    for (which, n, broken) in cases {
        let lies = Lies { closes: Some((which, n)), ..Lies::default() };
        let (report, left) = Lab::session(Version::V13, lies, &["echo", broken, "loss"], |s| {
            s.sizes = vec![64];
        });
        let verdict = (report.ended.how, report.verdict().status());
        assert_eq!(verdict, (How::SwitchFailed, 3), "{broken} {report}");
        let broke: Vec<bool> = report.modules.iter().map(|m| m.broke.is_some()).collect();
        assert_eq!(broke, [false, true, false], "{broken} {report}");
        let runs = report.modules.iter().flat_map(|m| &m.runs);
        let found: Vec<&str> = runs.flat_map(|r| &r.findings).map(|f| f.what).collect();
        assert_eq!(found, ["channel_closed"], "{broken} {report}");
        assert!(report.modules[2].runs.len() == 1, "{broken}: it goes on {report}");
        assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0), "{broken}");
    }
}

/// A switch that crashes is away for a while; one that says what is none of OpenFlow is as good as gone.
#[test]
fn a_crash_leaves_a_report_and_the_session_goes_on_when_it_is_back() {
    for (crashes, babbles) in [(0, true), (3, false)] {
        let lies = Lies { closes: Some((is_echo, 70)), crashes, babbles, ..Lies::default() };
        let (report, left) = Lab::session(Version::V13, lies, &["echo", "packet_out"], |_| {});
        let verdict = (report.ended.how, report.verdict().status());
        assert_eq!(verdict, (How::SwitchFailed, 3), "{report}");
        let runs = report.modules.iter().flat_map(|m| &m.runs);
        let found: Vec<&str> = runs.flat_map(|r| &r.findings).map(|f| f.what).collect();
        assert_eq!(found, ["channel_closed"], "{report}");
        assert!(report.modules[1].broke.is_none() && report.modules[1].runs.len() == 1, "{report}");
        assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0));
    }
}

/// One that does not come back leaves what was measured before it.
#[test]
fn a_crash_for_good_leaves_what_was_measured() {
    let lies = Lies { closes: Some((is_new_rule, 5)), crashes: 1000, ..Lies::default() };
    let (lab, peer, [input, output], settings) = Lab::start(Version::V13, lies);
    let names = ["echo", "insertion", "loss"];
    let find = |name: &&str| MODULES.iter().find(|m| m.name == *name).unwrap();
    let modules: Vec<&Module> = names.iter().map(find).collect();
    let ports = (input, output);
    let report = gauge::gauge(&peer, &[Version::V13], ports, None, settings, &modules, &mut |_| {});
    assert_eq!((report.ended.how, report.verdict().status()), (How::SwitchFailed, 3), "{report}");
    assert!(report.modules[0].broke.is_none() && report.modules[0].runs.len() == 1, "{report}");
    assert!(report.modules[1].broke.is_some(), "{report}");
    assert!(report.modules[2].skipped.as_deref().unwrap().starts_with("not reached"), "{report}");
    assert!(report.ended.left_behind.is_some(), "rules may still be there: {report}");
    let stored = gauge::Stored::parse(&serde_json::to_string(&report).unwrap()).unwrap();
    assert!(gauge::junit::junit(&stored).contains("<error message=\"cut short\">"));
    // The shim waits for so many.
    (0..1001).for_each(|_| drop(TcpStream::connect(("127.0.0.1", lab.shim_port))));
}

#[test]
fn a_link_of_ours_that_goes_disturbs_and_accuses_nobody() {
    for cable in [Cable::OurInput, Cable::OurOutput] {
        let bends = Some(Bend::Pulled(cable, 1500));
        let mut lab = Lab::new(Version::V13, Lies { bends, ..Lies::default() });
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.sizes, settings.attempts) = (vec![64], 1);
        for run in lab.ask(&module::forwarding::MODULE) {
            assert_eq!(run.findings, [], "{cable:?} {run:?}");
            let told = run.disturbed.join("; ");
            assert!(told.contains("the link of one of our ports went down"), "{cable:?} {told}");
        }
        // It is asked again when the link is back, and then nothing is wrong.
        let mut lab = Lab::new(Version::V13, Lies { bends, ..Lies::default() });
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.sizes, settings.attempts) = (vec![64], 4);
        for run in lab.ask(&module::forwarding::MODULE) {
            assert!(run.findings.is_empty() && run.disturbed.is_empty(), "{cable:?} {run:?}");
            assert!(
                run.notes.iter().any(|n| n.contains("the link of one of our ports")),
                "{run:?}"
            );
        }
    }
}

/// What the switch lost while its link was gone it has lost; that it said why is told beside it.
#[test]
fn a_link_of_the_switch_that_goes_is_told() {
    for (version, module) in [
        (Version::V13, &module::forwarding::MODULE),
        (Version::V10, &module::forwarding::MODULE),
        (Version::V15, &module::loss::MODULE),
    ] {
        let bends = Some(Bend::Pulled(Cable::SwitchOutput, 1500));
        let mut lab = Lab::new(version, Lies { bends, ..Lies::default() });
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.sizes, settings.attempts) = (vec![64], 1);
        for run in lab.ask(module) {
            let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
            assert_eq!(found, ["frames_lost"], "{version} {} {run:?}", module.name);
            for word in ["down", "up"] {
                let told = format!("the link of its port 2 is {word}");
                assert!(run.notes.iter().any(|n| n.contains(&told)), "{version} {run:?}");
            }
        }
    }
}

/// At whatever it is raised: before anything was asked, at the first module, at the last, in a second round.
#[test]
fn an_interrupt_at_any_time_leaves_a_report_and_no_rules() {
    let cases: [(&str, usize, [usize; 3]); 4] = [
        ("control channel", 0, [0, 0, 0]),
        ("echo", 0, [0, 0, 0]),
        ("forwarding", 0, [1, 1, 0]),
        ("echo", 1, [1, 1, 1]),
    ];
    for (at, round, expected) in cases {
        let interrupt = gauge::Interrupt::default();
        let (raise, mut seen) = (interrupt.clone(), 0);
        let (report, left) = Lab::session_told(
            Version::V13,
            Lies::default(),
            &["echo", "packet_out", "forwarding"],
            |s| (s.sizes, s.repetitions, s.interrupt) = (vec![64], 2, interrupt),
            &mut |line| {
                if line.starts_with(at) {
                    if seen == round {
                        raise.raise();
                    }
                    seen += 1;
                }
            },
        );
        let verdict = (report.ended.how, report.verdict().status());
        assert_eq!(verdict, (How::Interrupted, 5), "{at} {report}");
        assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0), "{at} {report}");
        let runs: Vec<usize> = report.modules.iter().map(|m| m.runs.len()).collect();
        assert_eq!(runs, expected, "{at} {report}");
    }
}

#[test]
fn an_interrupt_leaves_a_report_and_no_rules() {
    let modules = ["echo", "forwarding", "loss", "statistics"];
    // Raised when the third begins; what it does to traffic on its way is tested beside the code.
    let interrupt = gauge::Interrupt::default();
    let raise = interrupt.clone();
    let (report, left) = Lab::session_told(
        Version::V13,
        Lies::default(),
        &modules,
        |s| (s.sizes, s.interrupt) = (vec![64], interrupt),
        &mut |line| {
            if line == "loss" {
                raise.raise();
            }
        },
    );
    assert_eq!((report.ended.how, report.verdict().status()), (How::Interrupted, 5), "{report}");
    assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0));
    let runs: Vec<usize> = report.modules.iter().map(|m| m.runs.len()).collect();
    assert_eq!(runs, [1, 1, 0, 0], "{report}");
    assert_eq!(report.modules[2].broke.as_deref(), Some("interrupted"));
    assert!(report.modules[3].skipped.as_deref().unwrap().starts_with("not reached: interrupted"));
}

/// Ports that are not wired as was said: nothing can be asked, and nothing stays behind.
#[test]
fn wrong_wires_leave_no_rules() {
    let (lab, peer, [mut input, mut output], settings) = Lab::start(Version::V13, Lies::default());
    let echo = [&module::echo::MODULE];
    (input.number, output.number) = (output.number, input.number);
    let crossed = (input, output);
    let report = gauge::gauge(&peer, &[Version::V13], crossed, None, settings, &echo, &mut |_| {});
    assert_eq!((report.ended.how, report.verdict().status()), (How::NotMeasured, 4), "{report}");
    assert!(report.ended.why.contains("does not lead to our port"), "{report}");
    assert_eq!(report.ended.left_behind, None, "{report}");
    let mut control = Control::open(&Peer::loopback(lab.port), &[Version::V13]).unwrap();
    let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
    let parts = control.multipart("flow statistics", body).unwrap();
    let none = |part| matches!(part, MultipartReplyBody::Flow(entries) if entries.is_empty());
    assert!(parts.into_iter().all(none));
}

#[test]
fn a_switch_that_cannot_be_reached_leaves_a_report() {
    let (lab, _, [input, output], settings) = Lab::start(Version::V13, Lies::default());
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let modules = [&module::echo::MODULE];
    let peer = Peer::loopback(gone);
    let ports = (input, output);
    let report = gauge::gauge(&peer, &[Version::V13], ports, None, settings, &modules, &mut |_| {});
    assert_eq!((report.ended.how, report.verdict().status()), (How::SwitchFailed, 3));
    assert!(
        report.modules[0].skipped.as_deref().unwrap().starts_with("not reached: tcp:127.0.0.1")
    );
    // The shim waits for somebody.
    drop(TcpStream::connect(("127.0.0.1", lab.shim_port)).unwrap());
}

#[test]
fn modules_are_asked_as_often_as_told() {
    let (report, left) =
        Lab::session(Version::V13, Lies::default(), &["echo", "packet_out"], |s| {
            s.repetitions = 3;
        });
    assert_eq!((report.ended.how, left), (How::Complete, 0), "{report}");
    for module in &report.modules {
        let repetitions: Vec<u32> = module.runs.iter().map(|r| r.repetition).collect();
        assert_eq!(repetitions, [0, 1, 2]);
    }
}

#[test]
fn unanswered_echoes_are_found() {
    for _ in 0..rounds() {
        let mut lab = Lab::new(Version::V13, Lies { deaf: Some(50), ..Lies::default() });
        let runs = lab.ask(&module::echo::MODULE);
        assert_eq!(runs[0].findings[0].what, "echo_unanswered");
        assert_eq!(runs[0].value("unanswered"), Some(4.0));
    }
}
