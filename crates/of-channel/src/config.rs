//! What a channel is told: controllers, listeners, bounds, keys.

use crate::bootstrap::Connector;
use crate::keys::{TlsError, TlsFiles};
use crate::rate::Rate;
use crate::target::{Listen, Target};
use crate::tls::Tls;
use openflow::{Version, VersionSet};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Connections of those who connect to us at the same time, unless configured otherwise; more are closed as
/// they come.
pub const CONNECTIONS_MAX: usize = 1024;

/// How long a peer may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// After so long an echo request is sent; after twice as long the connection is given up.
    pub probe: Duration,
}

/// What the switch does while no controller is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Forwards by the tables as they are.
    #[default]
    Secure,
    /// Also learns and forwards as an ordinary bridge what no entry of table 0 matches.
    Standalone,
}

/// What is said of one controller where it differs from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// In place of [`Config::backoff_max`].
    pub backoff_max: Option<Duration>,
    /// In place of [`Timing::probe`].
    pub probe: Option<Duration>,
    /// In place of [`Config::packet_in_rate`].
    pub packet_in_rate: Option<Rate>,
}

/// What the channel does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Controllers to connect to.
    pub controllers: Vec<Target>,
    /// Where to listen for controllers.
    pub listeners: Vec<Listen>,
    /// Where to listen for those who only want to see all messages (`ovs-ofctl snoop`).
    pub snoop: Option<PathBuf>,
    /// Auxiliary connections to each of those controllers, beside the main one.
    pub auxiliary: u8,
    /// Connections of those who connect to us, at most; of one source a quarter of it.
    pub connections_max: usize,
    /// Messages in bundles of all connections together, in bytes, at most.
    pub bundles_bytes_max: usize,
    /// Versions to offer.
    pub protocols: VersionSet,
    /// What happens without controllers.
    pub fail_mode: FailMode,
    /// Longest pause between attempts to connect.
    pub backoff_max: Duration,
    /// Probes.
    pub timing: Timing,
    /// Keys and certificates, for targets and listeners of TLS.
    pub tls: Option<TlsFiles>,
    /// Packet-ins for each controller; none for no limit but what the switch punts.
    pub packet_in_rate: Option<Rate>,
    /// What differs for some, by target or listener as they are written.
    pub own: BTreeMap<String, Own>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            controllers: Vec::new(),
            listeners: Vec::new(),
            snoop: None,
            auxiliary: 0,
            connections_max: CONNECTIONS_MAX,
            bundles_bytes_max: crate::bundles::BYTES_MAX,
            protocols: VersionSet::of(&Version::ALL),
            fail_mode: FailMode::Secure,
            backoff_max: Duration::from_secs(8),
            timing: Timing { probe: Duration::from_secs(5) },
            tls: None,
            packet_in_rate: None,
            own: BTreeMap::new(),
        }
    }
}

/// Why the channel could not start.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A listener could not be opened.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, std::io::Error),
    /// TLS is asked for without what it takes.
    #[error("{0}: TLS needs --private-key and --certificate{1}")]
    NoTls(String, &'static str),
    /// Keys or certificates that do not serve.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// The thread could not start.
    #[error("cannot start the control channel: {0}")]
    System(std::io::Error),
}

impl Config {
    /// How long a controller of this target or listener may be silent.
    pub(crate) fn probe(&self, place: &str) -> Duration {
        self.own.get(place).and_then(|own| own.probe).unwrap_or(self.timing.probe)
    }

    /// The longest pause between attempts to reach it.
    pub(crate) fn backoff(&self, place: &str) -> Duration {
        self.own.get(place).and_then(|own| own.backoff_max).unwrap_or(self.backoff_max)
    }

    /// The limit of its packet-ins.
    pub(crate) fn rate(&self, place: &str) -> Option<Rate> {
        self.own.get(place).and_then(|own| own.packet_in_rate).or(self.packet_in_rate)
    }

    /// Tells what would stop a channel from starting, as far as that can be told without taking anybody's place:
    /// keys and certificates, addresses that this machine does not have, files in the place of sockets.
    pub fn check(&self) -> Result<(), ChannelError> {
        self.tls()?;
        for listen in self.listeners.iter().cloned().chain(self.snoop.clone().map(Listen::Unix)) {
            let free = match &listen {
                // Whether the address is ours: the port may be another process's that is about to let go of it.
                Listen::Tcp { address, .. } | Listen::Tls { address, .. } => {
                    std::net::TcpListener::bind((*address, 0)).map(|_| ())
                }
                Listen::Unix(path) => crate::unix::may_bind(path),
            };
            free.map_err(|e| ChannelError::Listen(listen.to_string(), e))?;
        }
        Ok(())
    }

    pub(crate) fn tls(&self) -> Result<Option<Tls>, ChannelError> {
        let tls = self.tls.as_ref().map(Tls::load).transpose()?;
        for listen in &self.listeners {
            if matches!(listen, Listen::Tls { .. }) && tls.is_none() {
                let text = ", and --ca-cert if controllers are to show certificates";
                return Err(ChannelError::NoTls(listen.to_string(), text));
            }
        }
        let connector = tls.as_ref().and_then(|tls| tls.connector.as_ref());
        if connector.is_some_and(Connector::bootstraps)
            && let Some(listen) = self.listeners.iter().find(|l| matches!(l, Listen::Tls { .. }))
        {
            let text = ", and --ca-cert, which is not there yet: whoever connects is not believed";
            return Err(ChannelError::NoTls(listen.to_string(), text));
        }
        for target in self.controllers.iter().filter(|target| target.tls) {
            if tls.as_ref().is_none_or(|tls| tls.connector.is_none()) {
                return Err(ChannelError::NoTls(target.to_string(), " and --ca-cert"));
            }
        }
        Ok(tls)
    }
}
