//! A port as the control side has it, and as clients see it.

use datapath::ports::{PortFlags, PortShared};
use datapath::queues::PortRef;
use port::{LinkState, Port, PortInfo};
use std::sync::Arc;

/// What clients configure of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortConfig {
    /// Administratively down.
    pub down: bool,
    /// Drop what it receives.
    pub no_receive: bool,
    /// Send nothing out of it.
    pub no_forward: bool,
}

/// A port as clients see it.
#[derive(Clone, Debug)]
pub struct PortView {
    /// Its number.
    pub number: u32,
    /// What it is, under the name that it has in the switch.
    pub info: PortInfo,
    /// The name of what is behind it, such as an interface.
    pub device: String,
    /// Its link.
    pub link: LinkState,
    /// What clients configured.
    pub config: PortConfig,
    /// When it was added, in nanoseconds of the switch's clock.
    pub since_ns: u64,
    /// When it last came up or went down, in nanoseconds of the switch's clock.
    pub changed_ns: u64,
    /// How often it came up or went down since it was added.
    pub transitions: u64,
    /// Somebody says that it is not to be used, whatever its link is, such as a bond whose partner is not there.
    pub held: bool,
}

impl PortView {
    /// Frames can pass.
    pub fn is_up(&self) -> bool {
        self.link.is_up() && !self.config.down
    }

    /// Frames can pass, and nobody holds it.
    pub fn is_live(&self) -> bool {
        self.is_up() && !self.held
    }
}

/// Something happened to a port.
#[derive(Clone, Debug)]
pub enum PortEvent {
    /// It was added.
    Added(PortView),
    /// Its link or configuration changed.
    Modified(PortView),
    /// It was removed.
    Removed(PortView),
}

/// Why a port could not be added, found or changed.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The number is in use.
    #[error("port number {0} is in use; choose another or leave it out")]
    NumberInUse(u32),
    /// The number is reserved.
    #[error("port number {0:#x} is reserved; ordinary ports are 1 to {max:#x}", max = NUMBER_MAX)]
    NumberReserved(u32),
    /// The name is in use.
    #[error("port name {0} is in use; give the port another: NAME=SPEC")]
    NameInUse(String),
    /// No such worker.
    #[error("there is no worker {worker}; there are {workers}, counted from 0")]
    NoWorker {
        /// The worker asked for.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// No such port.
    #[error("there is no port {0}")]
    Unknown(u32),
    /// No port of this name.
    #[error("there is no port {0:?}")]
    UnknownName(String),
    /// Queue settings that do not fit together.
    #[error("port {name}: {error}")]
    Queues {
        /// The port's name.
        name: String,
        /// What is wrong.
        error: datapath::queues::SpecError,
    },
    /// The port itself refused.
    #[error(transparent)]
    Port(#[from] port::Error),
}

/// Greatest number of an ordinary port.
pub const NUMBER_MAX: u32 = 0xffff_feff;
/// The number of the switch's own port, which is not ordinary and may be added under it.
pub const NUMBER_LOCAL: u32 = 0xffff_fffe;

/// A port in the control side's hands.
pub(crate) struct Slot {
    pub(crate) number: u32,
    pub(crate) port: Box<dyn Port>,
    pub(crate) shared: Arc<PortShared>,
    pub(crate) link: LinkState,
    pub(crate) config: PortConfig,
    pub(crate) since_ns: u64,
    /// Whether it was up when its flags were last set, since when, and how often that changed.
    pub(crate) was_up: bool,
    pub(crate) changed_ns: u64,
    pub(crate) transitions: u64,
    pub(crate) held: bool,
    /// Octets of its frames' descriptors, if it is a tunnel port.
    pub(crate) descriptor: u32,
}

impl Slot {
    pub(crate) fn view(&self) -> PortView {
        let info = PortInfo { name: self.shared.name.clone(), ..self.port.info().clone() };
        PortView {
            number: self.number,
            info,
            device: self.port.info().name.clone(),
            link: self.link,
            config: self.config,
            since_ns: self.since_ns,
            changed_ns: self.changed_ns,
            transitions: self.transitions,
            held: self.held,
        }
    }

    /// Tells workers what it is, and notes whether it has come up or gone down.
    pub(crate) fn set_flags(&mut self, now_ns: u64) {
        let is_up = self.link.is_up() && !self.config.down;
        if std::mem::replace(&mut self.was_up, is_up) != is_up {
            (self.changed_ns, self.transitions) = (now_ns, self.transitions + 1);
        }
        let descriptor = if self.port.info().described { self.descriptor } else { 0 };
        if self.shared.descriptor() != descriptor {
            self.shared.set_descriptor(descriptor);
        }
        self.shared.set_flag(PortFlags::UP, is_up);
        self.shared.set_flag(PortFlags::NO_RECEIVE, self.config.no_receive || self.config.down);
        self.shared.set_flag(PortFlags::NO_FORWARD, self.config.no_forward);
        self.shared.set_flag(PortFlags::HELD, self.held);
    }
}

pub(crate) fn find<'a>(slots: &'a [Slot], port: &PortRef) -> Result<&'a Slot, PortError> {
    let found = match port {
        PortRef::Number(number) => slots.iter().find(|slot| slot.number == *number),
        PortRef::Name(name) => slots.iter().find(|slot| slot.shared.name == *name),
    };
    found.ok_or_else(|| match port {
        PortRef::Number(number) => PortError::Unknown(*number),
        PortRef::Name(name) => PortError::UnknownName(name.clone()),
    })
}
