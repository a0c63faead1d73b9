//! Ports of switches as interfaces, at one moment.
//!
//! A process may have several switches. Ports' names are single in it, so that an interface is a port of one of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use switch::{PortView, Switch};

/// Who samples often shares what was read so recently.
const SHARED_FOR: Duration = Duration::from_millis(5);

/// What an interface has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes received.
    pub in_octets: u64,
    /// Frames received.
    pub in_pkts: u64,
    /// Frames dropped on their way in.
    pub in_discards: u64,
    /// Frames that came damaged.
    pub in_errors: u64,
    /// Of these: by their checksum.
    pub in_fcs_errors: u64,
    /// Bytes sent.
    pub out_octets: u64,
    /// Frames sent.
    pub out_pkts: u64,
    /// Frames dropped on their way out.
    pub out_discards: u64,
    /// Frames that could not be sent.
    pub out_errors: u64,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The port's number.
    pub number: u32,
    /// The port's name.
    pub name: String,
    /// What is behind it: kind and name.
    pub hardware: String,
    /// It is not configured down.
    pub enabled: bool,
    /// Nobody has put it down, outside of the switch either.
    pub admin_up: bool,
    /// What is behind it is there.
    pub present: bool,
    /// Frames can pass.
    pub up: bool,
    /// When it last came up or went down, in nanoseconds since 1970.
    pub changed_ns: u64,
    /// How often it did.
    pub transitions: u64,
    /// When it came, which is when its counters began.
    pub since_ns: u64,
    /// What it has counted.
    pub counters: Counters,
}

/// All interfaces at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
    /// Switch by switch, by ascending number.
    pub interfaces: Vec<Interface>,
}

/// The switches of a process as they are now, in order.
pub type Switches = Arc<dyn Fn() -> Vec<Switch> + Send + Sync>;

/// A switch whose ports are interfaces.
pub struct Part {
    switch: Switch,
    /// Ports that are no interfaces.
    hidden: Vec<u32>,
    /// The switch's clock at 0, in nanoseconds since 1970.
    epoch_ns: u64,
}

/// Where interfaces are read.
pub struct Source {
    home: Switch,
    hidden: Vec<u32>,
    switches: Switches,
    /// Those that were there when it was looked last.
    parts: Mutex<Vec<Arc<Part>>>,
    recent: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    /// Changes are made one after the other.
    setting: Mutex<()>,
}

/// Nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Part {
    fn new(switch: Switch, hidden: Vec<u32>) -> Part {
        let epoch_ns = (now_ns() as u64).saturating_sub(switch.now_ns());
        Part { switch, hidden, epoch_ns }
    }

    /// The switch.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// A port, if it is an interface; its counters are left out.
    pub fn interface(&self, view: &PortView) -> Option<Interface> {
        let is_hidden = self.hidden.contains(&view.number);
        (!is_hidden).then(|| Interface {
            number: view.number,
            name: view.info.name.clone(),
            hardware: format!("{}:{}", view.info.kind, view.device),
            enabled: !view.config.down,
            admin_up: !view.config.down && view.link.admin_up,
            present: view.link.present,
            up: view.is_up(),
            changed_ns: self.epoch_ns.saturating_add(view.changed_ns),
            transitions: view.transitions,
            since_ns: self.epoch_ns.saturating_add(view.since_ns),
            counters: Counters::default(),
        })
    }

    /// Its interfaces without their counters.
    pub fn states(&self) -> Vec<Interface> {
        self.switch.ports().iter().filter_map(|view| self.interface(view)).collect()
    }

    /// The interface of a name, and its port.
    fn named(&self, name: &str) -> Option<PortView> {
        let is = |view: &PortView| view.info.name == name && !self.hidden.contains(&view.number);
        self.switch.ports().into_iter().find(is)
    }
}

impl Source {
    /// The ports of these switches. Of `home`, where what is told of clients is counted, some may be `hidden`.
    pub fn new(home: Switch, hidden: Vec<u32>, switches: Switches) -> Source {
        let (parts, recent, setting) = (Mutex::default(), Mutex::default(), Mutex::default());
        Source { home, hidden, switches, parts, recent, setting }
    }

    /// The switch that counts what is told of clients.
    pub fn home(&self) -> &Switch {
        &self.home
    }

    /// The switches that there are now.
    pub fn parts(&self) -> Vec<Arc<Part>> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = |switch: Switch| {
            // One that stays has the epoch that it had: times are told alike.
            if let Some(part) = parts.iter().find(|part| part.switch.is(&switch)) {
                return part.clone();
            }
            let hidden = if switch.is(&self.home) { self.hidden.clone() } else { Vec::new() };
            Arc::new(Part::new(switch, hidden))
        };
        *parts = (self.switches)().into_iter().map(part).collect();
        parts.clone()
    }

    /// Held by who changes ports.
    pub(crate) fn setting(&self) -> MutexGuard<'_, ()> {
        self.setting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port of an interface, and its switch.
    pub(crate) fn port(&self, name: &str) -> Option<(Switch, PortView)> {
        let found = |part: Arc<Part>| Some((part.switch.clone(), part.named(name)?));
        self.parts().into_iter().find_map(found)
    }

    /// All but counters, which is cheap.
    pub fn states(&self) -> Snapshot {
        let at_ns = now_ns();
        Snapshot { at_ns, interfaces: self.parts().iter().flat_map(|part| part.states()).collect() }
    }

    /// All, as it is now.
    pub fn fresh(&self) -> Snapshot {
        let at_ns = now_ns();
        let mut interfaces = Vec::new();
        for part in self.parts() {
            let counted = part.switch.port_counters();
            interfaces.extend(counted.iter().filter_map(|(view, ours, kernel)| {
                let counters = Counters {
                    in_octets: ours.rx_bytes,
                    in_pkts: ours.rx_packets,
                    in_discards: ours.rx_dropped + kernel.rx_dropped,
                    in_errors: kernel.rx_errors,
                    in_fcs_errors: kernel.rx_crc_errors,
                    out_octets: ours.tx_bytes,
                    out_pkts: ours.tx_packets,
                    out_discards: ours.tx_dropped + kernel.tx_dropped,
                    out_errors: kernel.tx_errors,
                };
                Some(Interface { counters, ..part.interface(view)? })
            }));
        }
        Snapshot { at_ns, interfaces }
    }

    /// All, as it was a few milliseconds ago at most.
    pub fn recent(&self) -> Arc<Snapshot> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, snapshot)) = &*recent
            && at.elapsed() < SHARED_FOR
        {
            return snapshot.clone();
        }
        let snapshot = Arc::new(self.fresh());
        *recent = Some((Instant::now(), snapshot.clone()));
        snapshot
    }
}
