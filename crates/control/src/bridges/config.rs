//! What a bridge and a port are to be.

use super::error::Error;
use crate::bonds::Bond;
use crate::normal::learning::Learning;
use crate::normal::mirror::Mirror;
use crate::normal::vlan::Vlan;
use crate::persist::place::Place;
use crate::program::tables::Tracking;
use of_pipeline::table_limits::TableLimit;
use port::kind::{Attached, Environment};
use std::collections::BTreeMap;
use std::time::Duration;
use switch::EngineKind;

/// The name of the bridge of a process that is told of none by name.
pub const DEFAULT_NAME: &str = "br0";

/// What the bridges of a process have in common.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// What gives pipelines effect.
    pub engine: EngineKind,
    /// Packets per second to controllers, at most, of each bridge.
    pub punt_rate: u64,
    /// One packet in so many is run by the interpreter, too.
    pub validate: Option<u32>,
    /// The connection tracker of each bridge.
    pub tracking: Tracking,
    /// Flow entries of each bridge, at most; none for what memory allows.
    pub flows_max: Option<u32>,
    /// Where what is programmed outlives the process.
    pub persist: Option<Place>,
    /// What kinds of ports find there.
    pub environment: Environment,
    /// How long a thread may stand still before the process ends.
    pub watchdog: Option<Duration>,
}

/// A bridge as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Its name.
    pub name: String,
    /// Its datapath id. Without one, it is made from the first port's address, or of the name where there is no port yet.
    pub datapath_id: Option<u64>,
    /// Its own address, by which LACP names it; without one, the end of its datapath id.
    pub address: Option<[u8; 6]>,
    /// Controllers, listeners, versions, fail mode.
    pub channel: of_channel::Config,
    /// Its mirrors.
    pub mirrors: Vec<Mirror>,
    /// How NORMAL learns and floods, and how many VLAN tags are parsed.
    pub learning: Learning,
    /// Names and bounds of flow tables.
    pub tables: BTreeMap<u8, TableLimit>,
    /// Its bonds.
    pub bonds: Vec<Bond>,
}

impl BridgeConfig {
    /// A bridge of this name without controllers.
    pub fn named(name: &str) -> BridgeConfig {
        let channel = of_channel::Config::default();
        let (name, mirrors, bonds) = (name.to_owned(), Vec::new(), Vec::new());
        BridgeConfig {
            name,
            datapath_id: None,
            address: None,
            channel,
            mirrors,
            learning: Learning::default(),
            tables: BTreeMap::new(),
            bonds,
        }
    }
}

/// A port as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its name, once in the process.
    pub name: String,
    /// Its number, or the least free one; [`NUMBER_LOCAL`](switch::ports::NUMBER_LOCAL) for the bridge's own.
    pub number: Option<u32>,
    /// What it is attached to.
    pub attachment: Attached,
    /// Its VLANs under NORMAL, and whether it is protected.
    pub vlan: Vlan,
    /// Packets a second that are taken of it, at most.
    pub rx_rate: Option<u64>,
    /// Receive queues and their workers, where they are not to be spread.
    pub places: Vec<(usize, usize)>,
}

impl PortConfig {
    /// A port of this name, with the least free number.
    pub fn new(name: &str, attachment: Attached) -> PortConfig {
        PortConfig {
            name: name.to_owned(),
            number: None,
            attachment,
            vlan: Vlan::default(),
            rx_rate: None,
            places: Vec::new(),
        }
    }

    /// The port that a specification describes.
    pub fn of_spec(spec: &port::spec::Spec) -> PortConfig {
        let attachment = spec.attachment.clone();
        PortConfig { number: spec.number, ..PortConfig::new(spec.name(), attachment) }
    }
}

/// A bridge can be called so.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let bad = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    match (1..=255).contains(&name.len()) && !name.contains(bad) {
        true => Ok(()),
        false => Err(Error::BridgeName { name: name.to_owned() }),
    }
}

/// A port can be called so.
pub(crate) fn check_port_name(name: &str) -> Result<(), Error> {
    match (1..=255).contains(&name.len()) && !name.contains(char::is_control) {
        true => Ok(()),
        false => Err(Error::PortName { name: name.to_owned() }),
    }
}
