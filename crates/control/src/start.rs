//! What is to be said when a switch is ready: that nothing is programmed, who may connect.

use crate::config::Config;
use crate::failure::Failure;
use of_channel::{FailMode, Listen, TlsFiles};
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use switch::Switch;

/// Who could program the switch.
pub(crate) struct Programmers<'a> {
    pub(crate) controllers: usize,
    pub(crate) listeners: &'a [Listen],
    pub(crate) fail_mode: FailMode,
}

/// What is to be said of a switch of OpenFlow's tables, if anything.
pub(crate) fn unprogrammed(entries: usize, by: &Programmers<'_>) -> Option<&'static str> {
    if entries > 0 {
        return None;
    }
    Some(match (by.controllers > 0, by.listeners.is_empty(), by.fail_mode) {
        (false, true, FailMode::Standalone) => {
            "nothing is programmed and no controller is named: the switch learns and forwards as a bridge"
        }
        (false, true, FailMode::Secure) => {
            "nothing is programmed and nobody can: no --flows, --controller or --listen is given; every frame \
             is dropped"
        }
        (_, _, FailMode::Standalone) => {
            "nothing is programmed and no controller is connected yet: the switch learns and forwards as a \
             bridge until one is"
        }
        (_, _, FailMode::Secure) => {
            "nothing is programmed and no controller is connected yet: every frame is dropped until one is, \
             and has programmed something"
        }
    })
}

/// Entries in all tables.
pub(crate) fn entries(switch: &Switch) -> usize {
    switch.with_pipeline(|pipeline| {
        let tables = 0..pipeline.program().tables.len() as u32;
        tables.map(|table| pipeline.entries(ir::TableId(table)).len()).sum()
    })
}

/// Listeners that accept whoever can reach this machine, without TLS.
pub(crate) fn open(listeners: &[Listen]) -> impl Iterator<Item = &Listen> {
    listeners
        .iter()
        .filter(|l| matches!(l, Listen::Tcp { address, .. } if address.is_unspecified()))
}

/// TLS as the configuration has it, if there is any.
pub(crate) fn tls_of(config: &Config) -> Result<Option<Arc<ServerConfig>>, Failure> {
    let tls = config.channel.tls.as_ref().map(TlsFiles::server).transpose();
    tls.map_err(Failure::bad)
}

/// TLS for a server of gRPC at an address, if there is any; says what is to be said where there is none.
pub(crate) fn tls(
    config: &Config,
    address: SocketAddr,
) -> Result<Option<Arc<ServerConfig>>, Failure> {
    let tls = tls_of(config)?;
    if tls.is_none() && address.ip().is_unspecified() {
        tracing::warn!(
            %address,
            "whoever reaches this machine may program the switch; name an address, or use TLS by \
             --private-key, --certificate and --ca-cert"
        );
    }
    Ok(tls)
}

/// TLS for pages that are read and change nothing, if there is any.
pub(crate) fn tls_for_readers(
    config: &Config,
    address: SocketAddr,
) -> Result<Option<Arc<ServerConfig>>, Failure> {
    let tls = tls_of(config)?;
    if tls.is_none() {
        warn_of_readers(address);
    }
    Ok(tls)
}

/// Says so where everybody can read.
pub(crate) fn warn_of_readers(address: SocketAddr) {
    if address.ip().is_unspecified() {
        tracing::warn!(
            %address,
            "whoever reaches this machine may read counters and names of ports; name an address, as in 127.0.0.1"
        );
    }
}

/// Says what is to be said of listeners.
pub(crate) fn warn_of_open(listeners: &[Listen]) {
    for listen in open(listeners) {
        tracing::warn!(
            %listen,
            "whoever reaches this machine may program the switch; name an address (ptcp:6653:127.0.0.1), or \
             use pssl: or punix:"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(entries: usize, controllers: usize, listen: &[&str], fail_mode: FailMode) -> String {
        let listeners: Vec<Listen> = listen.iter().map(|l| l.parse().unwrap()).collect();
        let by = Programmers { controllers, listeners: &listeners, fail_mode };
        unprogrammed(entries, &by).unwrap_or("").to_owned()
    }

    #[test]
    fn a_switch_that_nobody_programs_says_so() {
        let secure = FailMode::Secure;
        assert!(said(0, 0, &[], secure).contains("nobody can"));
        assert!(said(0, 1, &[], secure).contains("until one is"));
        assert!(said(0, 0, &["punix:/s"], secure).contains("no controller is connected yet"));
        assert!(said(0, 0, &[], FailMode::Standalone).ends_with("as a bridge"));
        assert_eq!(said(1, 0, &[], secure), "");
    }

    #[test]
    fn listeners_for_everybody_are_told_from_others() {
        let all = ["ptcp:", "ptcp:1:[::]", "ptcp:1:127.0.0.1", "pssl:", "punix:/s", "ptcp:1:[::1]"];
        let all: Vec<Listen> = all.iter().map(|l| l.parse().unwrap()).collect();
        let told: Vec<String> = open(&all).map(ToString::to_string).collect();
        assert_eq!(told, ["ptcp:6653", "ptcp:1:[::]"]);
    }
}
