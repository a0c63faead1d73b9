//! A switch, the shim before it, and both on the bench.

use crate::path::path;
use crate::shim::Lies;
use crate::shim::shim;
use datapath::services::Services;
use gauge::Bench;
use gauge::Control;
use gauge::DataPort;
use gauge::Peer;
use gauge::Run;
use gauge::Settings;
use gauge::describe::described;
use gauge::module::MODULES;
use gauge::module::Module;
use gauge::report::Report;
use of_channel::Channel;
use of_channel::Config;
use of_channel::Listen;
use of_channel::connection::Timing;
use of_pipeline::Agent;
use of_pipeline::AgentConfig;
use of_pipeline::lower;
use of_pipeline::lower::ProgramConfig;
use openflow::FlowStatsRequest;
use openflow::MultipartReplyBody;
use openflow::MultipartRequestBody;
use openflow::Version;
use port::Port;
use port::fault::FaultInjector;
use port::fault::Faults;
use port::memory;
use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use switch::Switch;

/// A switch, the shim before it, and both on the bench.
pub(crate) struct Lab {
    pub(crate) bench: Option<Bench>,
    pub(crate) channel: Option<Channel>,
    pub(crate) switch: Switch,
    pub(crate) shim: Option<JoinHandle<()>>,
    pub(crate) path: Option<JoinHandle<()>>,
    pub(crate) over: Arc<AtomicBool>,
    /// Where the switch itself can be reached.
    pub(crate) port: u16,
    pub(crate) shim_port: u16,
}

impl Lab {
    pub(crate) fn new(version: Version, lies: Lies) -> Lab {
        let (mut lab, peer, [input, output], settings) = Lab::start(version, lies);
        let control = Control::open(&peer, &[version]).unwrap();
        lab.bench = Some(Bench::new(control, input, output, settings).unwrap());
        lab
    }

    /// A whole session of these modules; the report, and the flow entries that are there after it.
    pub(crate) fn session(
        version: Version,
        lies: Lies,
        names: &[&str],
        change: impl FnOnce(&mut Settings),
    ) -> (Report, usize) {
        Lab::session_told(version, lies, names, change, &mut |_| {})
    }

    /// The same, with somebody who hears of its progress.
    pub(crate) fn session_told(
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
    pub(crate) fn start(version: Version, lies: Lies) -> (Lab, Peer, [DataPort; 2], Settings) {
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

    pub(crate) fn ask(&mut self, module: &Module) -> Vec<Run> {
        self.try_ask(module).unwrap()
    }

    pub(crate) fn try_ask(&mut self, module: &Module) -> Result<Vec<Run>, gauge::Error> {
        let bench = self.bench.as_mut().unwrap();
        bench.control.clear().unwrap();
        (module.run)(bench, &mut |_| {})
    }

    pub(crate) fn findings(&mut self, module: &Module) -> Vec<&'static str> {
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

/// How often each fault is planted: GAUGE_RUNS, once without it.
pub(crate) fn rounds() -> u32 {
    std::env::var("GAUGE_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}
