//! `Controller`: who programs a bridge, and how.

use super::notes::Notes;
use super::reader::Reader;
use crate::feature::Feature;
use ovsdb::{Row, Uuid};

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// The row's name.
    pub uuid: Uuid,
    /// What the switch is told.
    pub settings: ControllerSettings,
}

/// What the switch is told of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerSettings {
    /// `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]`, `unix:PATH`, or `ptcp:`, `pssl:`, `punix:` to wait for it.
    pub target: String,
    /// It may look and change entries, but its absence is no failure: `type=service`.
    pub service: bool,
    /// The longest pause between attempts, in milliseconds.
    pub backoff_max_ms: Option<u64>,
    /// It is probed after so long a silence, in milliseconds; 0 for never.
    pub probe_ms: Option<u64>,
    /// So many packet-ins a second at most, and at once.
    pub rate: Option<(u64, u64)>,
    /// It gets asynchronous messages without asking.
    pub asynchronous: bool,
}

impl ControllerSettings {
    /// It is reached by TLS, or reaches us by it.
    pub fn is_tls(&self) -> bool {
        self.target.starts_with("ssl:") || self.target.starts_with("pssl:")
    }
}

impl Controller {
    pub(crate) fn of(
        reader: &Reader<'_>,
        uuid: Uuid,
        row: &Row,
        notes: &mut Notes,
    ) -> Option<Controller> {
        let target = row.text("target").unwrap_or_default().to_owned();
        let mut own = Notes::default();
        let natural = |column| row.integer(column).and_then(|value| u64::try_from(value).ok());
        let mut settings = ControllerSettings {
            target: target.clone(),
            service: row.text("type") == Some("service"),
            backoff_max_ms: natural("max_backoff"),
            probe_ms: natural("inactivity_probe"),
            rate: None,
            asynchronous: row.boolean("enable_async_messages") != Some(false),
        };
        if let Some(rate) = natural("controller_rate_limit")
            && reader.can(&mut own, Feature::ControllerRate)
        {
            // A quarter of the rate at once, as in Open vSwitch.
            settings.rate = Some((rate, natural("controller_burst_limit").unwrap_or(rate / 4)));
        }
        if row.text("connection_mode") == Some("in-band") {
            own.add(
                "connection_mode=in-band: no hidden entries are made for a controller's packets",
            );
        }
        for column in ["local_ip", "local_netmask", "local_gateway"] {
            if row.text(column).is_some() {
                own.add(format!("{column}: addresses of the bridge's interface are set by ip(8)"));
            }
        }
        if row.integer("controller_queue_size").is_some() {
            own.add("controller_queue_size: queues are bounded in octets, the same for all");
        }
        own.iter().for_each(|note| notes.add(format!("controller {target}: {note}")));
        (!target.is_empty()).then_some(Controller { uuid, settings })
    }
}
