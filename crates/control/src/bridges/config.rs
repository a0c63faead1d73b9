//! What a bridge and a port are to be.

use super::error::Error;
use port::spec::Kind;
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
    /// Connections that are kept at most, of each bridge.
    pub connections: usize,
    /// Flow entries of each bridge, at most; none for what memory allows.
    pub flows_max: Option<u32>,
    /// How DPDK's devices are opened.
    pub dpdk: port_dpdk::Options,
    /// How long a thread may stand still before the process ends.
    pub watchdog: Option<Duration>,
}

/// A bridge as it is to be.
#[derive(Clone, Debug)]
pub struct BridgeConfig {
    /// Its name.
    pub name: String,
    /// Its datapath id. Without one, it is made from the first port's address, or of the name where there is no port yet.
    pub datapath_id: Option<u64>,
    /// Controllers, listeners, versions, fail mode.
    pub channel: of_channel::Config,
}

impl BridgeConfig {
    /// A bridge of this name without controllers.
    pub fn named(name: &str) -> BridgeConfig {
        let channel = of_channel::Config::default();
        BridgeConfig { name: name.to_owned(), datapath_id: None, channel }
    }
}

/// A port as it is to be.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Its name, once in the process.
    pub name: String,
    /// Its number, or the least free one; [`NUMBER_LOCAL`](switch::ports::NUMBER_LOCAL) for the bridge's own.
    pub number: Option<u32>,
    /// What is behind it.
    pub kind: Kind,
    /// Its VLANs under NORMAL.
    pub vlan: Vlan,
    /// Packets a second that are taken of it, at most.
    pub rx_rate: Option<u64>,
    /// Receive queues and their workers, where they are not to be spread.
    pub places: Vec<(usize, usize)>,
}

impl PortConfig {
    /// A port of this name, with the least free number.
    pub fn new(name: &str, kind: Kind) -> PortConfig {
        PortConfig {
            name: name.to_owned(),
            number: None,
            kind,
            vlan: Vlan::default(),
            rx_rate: None,
            places: Vec::new(),
        }
    }

    /// The port that a specification describes.
    pub fn of_spec(spec: &port::spec::Spec) -> PortConfig {
        PortConfig { number: spec.number, ..PortConfig::new(spec.name(), spec.kind.clone()) }
    }
}

/// VLANs of a port under NORMAL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vlan {
    /// What it does with tags.
    pub mode: VlanMode,
    /// The VLAN of frames without a tag, or of all.
    pub tag: u16,
    /// The VLANs that it carries with a tag; all, if none are named.
    pub trunks: Vec<u16>,
    /// Frames of priority without a VLAN get a tag of VLAN 0 that says so.
    pub priority_tags: bool,
}

/// What a port does with tags under NORMAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VlanMode {
    /// All its VLANs come and go with their tags.
    #[default]
    Trunk,
    /// One VLAN, without tags; frames with one are dropped.
    Access,
    /// As a trunk; frames without a tag belong to a VLAN, which leaves with its tag.
    NativeTagged,
    /// As a trunk; frames without a tag belong to a VLAN, which leaves without a tag.
    NativeUntagged,
    /// All frames, with tags or without, belong to one VLAN, whose tag is put in front of theirs inside the switch.
    Dot1qTunnel,
}

/// What does not fit together in a port's VLANs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VlanError {
    /// No VLAN has this number.
    #[error("{0} is no VLAN: 0 to 4095 were expected")]
    Number(u16),
    /// This mode is not there.
    #[error("VLAN mode {0} is not supported")]
    Unsupported(&'static str),
}

impl VlanMode {
    /// As Open vSwitch writes it.
    pub fn word(self) -> &'static str {
        match self {
            VlanMode::Trunk => "trunk",
            VlanMode::Access => "access",
            VlanMode::NativeTagged => "native-tagged",
            VlanMode::NativeUntagged => "native-untagged",
            VlanMode::Dot1qTunnel => "dot1q-tunnel",
        }
    }
}

impl Vlan {
    /// Whether it is one that the switch can do.
    pub(super) fn check(&self) -> Result<(), VlanError> {
        let numbers = std::iter::once(&self.tag).chain(&self.trunks);
        if let Some(number) = numbers.copied().find(|number| *number > 4095) {
            return Err(VlanError::Number(number));
        }
        if *self != Vlan::default() {
            return Err(VlanError::Unsupported(self.mode.word()));
        }
        Ok(())
    }
}

/// A bridge can be called so.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let bad = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    match (1..=255).contains(&name.len()) && !name.contains(bad) {
        true => Ok(()),
        false => Err(Error::BridgeName { name: name.to_owned() }),
    }
}

/// A port can be called so.
pub(super) fn check_port_name(name: &str) -> Result<(), Error> {
    match (1..=255).contains(&name.len()) && !name.contains(char::is_control) {
        true => Ok(()),
        false => Err(Error::PortName { name: name.to_owned() }),
    }
}
