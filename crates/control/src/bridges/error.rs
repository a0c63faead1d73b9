//! What can go wrong with bridges and their ports.

use switch::ports::NUMBER_MAX;

/// Why a bridge or a port could not be made, found or changed. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such bridge.
    #[error("there is no bridge {bridge:?}")]
    NoBridge {
        /// Its name.
        bridge: String,
    },
    /// There is one of the name.
    #[error("there is a bridge {bridge:?} already")]
    BridgeExists {
        /// Its name.
        bridge: String,
    },
    /// A bridge cannot be called so.
    #[error(
        "{name:?} cannot be a bridge's name: 1 to 255 bytes, no '/', no white space, no control characters"
    )]
    BridgeName {
        /// The name.
        name: String,
    },
    /// What was programmed before cannot be put back, or what will be cannot be kept.
    #[error("bridge {bridge:?}: {why}")]
    Kept {
        /// Its name.
        bridge: String,
        /// Why.
        why: String,
    },
    /// An entry of the configuration cannot be read, or is refused.
    #[error("bridge {bridge:?}: {why}")]
    Entries {
        /// Its name.
        bridge: String,
        /// Which, and why.
        why: String,
    },
    /// A bridge keeps its name.
    #[error("bridge {bridge:?} cannot be given another name: remove it, and add one")]
    Renamed {
        /// Its name.
        bridge: String,
    },
    /// No such port at the bridge.
    #[error("bridge {bridge:?} has no port {port:?}")]
    NoPort {
        /// The bridge's name.
        bridge: String,
        /// The port's.
        port: String,
    },
    /// There is one of the name, perhaps at another bridge.
    #[error("there is a port {port:?} already, at bridge {bridge:?}")]
    PortExists {
        /// The bridge that has it.
        bridge: String,
        /// The port's name.
        port: String,
    },
    /// A port cannot be called so.
    #[error("{name:?} cannot be a port's name: 1 to 255 bytes, no control characters")]
    PortName {
        /// The name.
        name: String,
    },
    /// Another port has the number.
    #[error("port number {number} is in use by port {by:?}; choose another or leave it out")]
    NumberInUse {
        /// The number.
        number: u32,
        /// Who has it.
        by: String,
    },
    /// No port can have the number.
    #[error("port number {number:#x} is reserved; ordinary ports are 1 to {NUMBER_MAX:#x}")]
    NumberReserved {
        /// The number.
        number: u32,
    },
    /// The port could not be opened, or does not do what it is asked for.
    #[error("port {port}: {error}")]
    Port {
        /// Its name.
        port: String,
        /// Why.
        error: port::Error,
    },
    /// The switch refused the port.
    #[error("port {port}: {error}")]
    Switch {
        /// Its name.
        port: String,
        /// Why.
        error: switch::PortError,
    },
    /// Something of the port's VLANs does not fit together.
    #[error("port {port}: {error}")]
    Vlan {
        /// Its name.
        port: String,
        /// What.
        error: crate::normal::vlan::VlanError,
    },
    /// A mirror cannot be.
    #[error("bridge {bridge}: {error}")]
    Mirror {
        /// The bridge's name.
        bridge: String,
        /// What.
        error: crate::normal::mirror::MirrorError,
    },
    /// A flow table cannot be bounded so.
    #[error("bridge {bridge}: {error}")]
    Table {
        /// The bridge's name.
        bridge: String,
        /// What.
        error: of_pipeline::table_limits::LimitRefusal,
    },
    /// How NORMAL should learn cannot be.
    #[error("bridge {bridge}: {error}")]
    Learning {
        /// The bridge's name.
        bridge: String,
        /// What.
        error: of_pipeline::vlans::NormalRefusal,
    },
    /// A bond cannot be.
    #[error("bridge {bridge}: {error}")]
    Bond {
        /// The bridge's name.
        bridge: String,
        /// What.
        error: crate::bonds::BondError,
    },
    /// A session of BFD cannot be.
    #[error("port {port}: {error}")]
    Bfd {
        /// The port's name.
        port: String,
        /// Why.
        error: crate::bfd::BfdError,
    },
    /// A station cannot be put at a port.
    #[error("bridge {bridge}: {error}")]
    Station {
        /// The bridge's name.
        bridge: String,
        /// Why.
        error: of_pipeline::normal::StationRefusal,
    },
    /// The switch did not start.
    #[error("bridge {bridge}: {error}")]
    Start {
        /// Its name.
        bridge: String,
        /// Why.
        error: switch::StartError,
    },
    /// Its OpenFlow agent did not start.
    #[error("bridge {bridge}: {error}")]
    Agent {
        /// Its name.
        bridge: String,
        /// Why.
        error: of_pipeline::AgentError,
    },
    /// The way to its controllers.
    #[error("bridge {bridge}: {error}")]
    Channel {
        /// Its name.
        bridge: String,
        /// Why.
        error: of_channel::ChannelError,
    },
    /// A P4 program is not configured so.
    #[error("bridge {bridge:?} runs a P4 program, which has no OpenFlow controllers")]
    NotOpenFlow {
        /// Its name.
        bridge: String,
    },
    /// What the process has from its start on.
    #[error("{setting} changes with a restart: end the process, and start it with the new value")]
    NeedsRestart {
        /// The option.
        setting: &'static str,
    },
    /// What a running bridge keeps.
    #[error("bridge {bridge}: {what} cannot change while it runs: remove it, and add it again")]
    Fixed {
        /// Its name.
        bridge: String,
        /// What it is.
        what: &'static str,
    },
}
