//! A port of the switch as an interface, at one moment.

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
    /// By ascending number.
    pub interfaces: Vec<Interface>,
}

/// Where interfaces are read.
pub struct Source {
    switch: Switch,
    /// Ports that are no interfaces.
    hidden: Vec<u32>,
    /// The switch's clock at 0, in nanoseconds since 1970.
    epoch_ns: u64,
    recent: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    /// Changes are made one after the other.
    setting: Mutex<()>,
}

/// Nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Source {
    /// The ports of a switch but these.
    pub fn new(switch: Switch, hidden: Vec<u32>) -> Source {
        let epoch_ns = (now_ns() as u64).saturating_sub(switch.now_ns());
        Source { switch, hidden, epoch_ns, recent: Mutex::default(), setting: Mutex::default() }
    }

    /// The switch.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Held by who changes ports.
    pub(crate) fn setting(&self) -> MutexGuard<'_, ()> {
        self.setting.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// All but counters, which is cheap.
    pub fn states(&self) -> Snapshot {
        let at_ns = now_ns();
        let ports = self.switch.ports();
        Snapshot { at_ns, interfaces: ports.iter().filter_map(|v| self.interface(v)).collect() }
    }

    /// All, as it is now.
    pub fn fresh(&self) -> Snapshot {
        let at_ns = now_ns();
        let counted = self.switch.port_counters();
        let interfaces = counted.iter().filter_map(|(view, ours, kernel)| {
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
            Some(Interface { counters, ..self.interface(view)? })
        });
        Snapshot { at_ns, interfaces: interfaces.collect() }
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
