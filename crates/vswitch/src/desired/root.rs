//! `Open_vSwitch`: the only row, at which everything hangs.

use super::datapath::Datapath;
use super::notes::Notes;
use super::reader::Reader;
use ovsdb::{Row, Uuid};
use std::path::PathBuf;
use std::time::Duration;

/// How often statistics are written, without `other_config:stats-update-interval`.
const STATISTICS_DEFAULT_MS: u64 = 5000;

/// The row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The row's name.
    pub uuid: Uuid,
    /// The configuration that `cur_cfg` is to reach.
    pub next_cfg: i64,
    /// How often statistics are written.
    pub statistics_every: Duration,
    /// Figures of the machine are written, too.
    pub machine_statistics: bool,
    /// Entries are still being restored: no packet comes in until this goes.
    pub flow_restore_wait: bool,
    /// Keys for `ssl:` controllers.
    pub keys: Option<Keys>,
    /// Datapaths by type.
    pub datapaths: Vec<Datapath>,
    /// What is asked for and not done.
    pub notes: Notes,
}

/// Keys for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The private key's file.
    pub private_key: PathBuf,
    /// The certificate's.
    pub certificate: PathBuf,
    /// The authority's certificate's.
    pub authority: PathBuf,
    /// While that is not there, the first controller that is reached shows it.
    pub bootstrap: bool,
}

impl Keys {
    /// The database's, if it has some.
    pub(crate) fn of_database(reader: &Reader<'_>) -> Option<Keys> {
        let (_, row) = reader.database.only("Open_vSwitch")?;
        let uuid = row.uuids("ssl").next()?;
        let ssl = reader.database.row("SSL", uuid)?;
        let path = |column| PathBuf::from(ssl.text(column).unwrap_or_default());
        Some(Keys {
            private_key: path("private_key"),
            certificate: path("certificate"),
            authority: path("ca_cert"),
            bootstrap: ssl.boolean("bootstrap_ca_cert") == Some(true),
        })
    }
}

impl Root {
    pub(crate) fn of(reader: &Reader<'_>, uuid: Uuid, row: &Row) -> Root {
        let mut notes = Notes::default();
        let key = |name| row.key("other_config", name);
        let every = match key("stats-update-interval").map(str::parse) {
            None => STATISTICS_DEFAULT_MS,
            // Open vSwitch takes no shorter one than its default.
            Some(Ok(ms)) => STATISTICS_DEFAULT_MS.max(ms),
            Some(Err(_)) => {
                notes.add("stats-update-interval is no number of milliseconds");
                STATISTICS_DEFAULT_MS
            }
        };
        if key("hw-offload") == Some("true") {
            notes.add("hw-offload: there is no flow cache that a network card could take");
        }
        if key("dpdk-init").is_some_and(|init| init != "false") {
            notes.add("dpdk-init: DPDK's ports are opened by millrace run --port dpdk:...");
        }
        if key("userspace-tso-enable") == Some("true") {
            notes.add("userspace-tso-enable: segmentation offloads always pass from port to port");
        }
        Root {
            uuid,
            next_cfg: row.integer("next_cfg").unwrap_or(0),
            statistics_every: Duration::from_millis(every),
            machine_statistics: key("enable-statistics") == Some("true"),
            flow_restore_wait: key("flow-restore-wait") == Some("true"),
            keys: Keys::of_database(reader),
            datapaths: Datapath::all(reader, row),
            notes,
        }
    }
}
