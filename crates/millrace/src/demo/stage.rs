//! The switch of a demonstration: the one that `millrace run` runs, on memory ports.

use control::failure::Failure;
use control::program::tables;
use control::sync::lock;
use of_pipeline::Agent;
use openflow::syntax::{self, Context};
use openflow::{Message, PortNo, Version};
use port::memory::{self, Handle};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use switch::Switch;

/// Frames in flight in each direction of a port, at most.
pub(super) const RING_FRAMES: usize = 4096;
/// Packets to the control side per second, at most: as `run` has it.
pub(super) const PUNT_RATE: u64 = 100_000;
/// The control side looks at least so often.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running switch, its agent, and the far ends of its ports.
pub(super) struct Stage {
    switch: Switch,
    ends: Vec<Handle>,
    control: Control,
}

impl Stage {
    /// A switch with memory ports of these names, numbered from 1, and these flow entries.
    pub(super) fn set(ports: &[String], flows: &[String]) -> Result<Stage, Failure> {
        let switch = tables::start(1, Vec::new(), PUNT_RATE, Default::default(), None)?;
        let mut ends = Vec::new();
        for name in ports {
            let config = memory::Config { capacity: RING_FRAMES, ..memory::Config::default() };
            let (port, end) = memory::port(name, config).map_err(Failure::bad)?;
            switch.add_port(None, Box::new(port)).map_err(Failure::bad)?;
            ends.push(end);
        }
        let control = Control::start(&switch)?;
        control.add(flows)?;
        switch.sync();
        Ok(Stage { switch, ends, control })
    }

    /// The switch.
    pub(super) fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The far ends of the ports, in the order of their numbers.
    pub(super) fn ends(&self) -> &[Handle] {
        &self.ends
    }

    /// A line on what NORMAL has learned, if it has.
    pub(super) fn learned(&self) -> Option<String> {
        let agent = lock(&self.control.agent);
        let mut ports: Vec<u32> = agent.stations().iter().map(|(_, _, port)| port).collect();
        ports.sort_unstable();
        let list: Vec<String> = ports.iter().map(ToString::to_string).collect();
        (!list.is_empty())
            .then(|| format!("{} addresses learned, at ports {}", list.len(), list.join(" ")))
    }

    /// Stops control side and switch.
    pub(super) fn stop(self) {
        drop(self.control);
        self.switch.stop();
    }
}

/// The control side: an agent, and a thread on which it learns and follows ports.
pub(super) struct Control {
    agent: Arc<Mutex<Agent>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Control {
    /// The control side of a switch.
    pub(super) fn start(switch: &Switch) -> Result<Control, Failure> {
        let agent = Arc::new(Mutex::new(tables::agent(switch, Some(1))?));
        let stop = Arc::new(AtomicBool::new(false));
        let (its_agent, its_stop, switch) = (agent.clone(), stop.clone(), switch.clone());
        let round = move || {
            while !its_stop.load(Relaxed) {
                switch.wait(POLL_INTERVAL);
                // No controller is connected who would want to hear.
                lock(&its_agent).poll();
            }
        };
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(round)
            .map_err(Failure::bad)?;
        Ok(Control { agent, stop, thread: Some(thread) })
    }

    /// Adds flow entries.
    pub(super) fn add(&self, flows: &[String]) -> Result<(), Failure> {
        let none = |_: &str| -> Option<PortNo> { None };
        let context = Context { version: Version::V13, ports: &none };
        for line in flows {
            let bad = |e: String| Failure::Bad(format!("{line}: {e}"));
            let flow = syntax::parse_flow(line, &context).map_err(|e| bad(e.to_string()))?;
            let mut agent = lock(&self.agent);
            agent.handle(Version::V13, Message::FlowMod(flow)).map_err(|e| bad(e.to_string()))?;
        }
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}
