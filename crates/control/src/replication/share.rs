//! A share at this member: its trackers, what is told of them and to whom, and its addresses. A group that is not divided is one share.

use super::address;
use super::copy::{Copy, Telling};
use crate::bridges::Bridges;
use crate::config::group::Address;
use datapath::worker::Injection;
use ir::program::{Action as Run, Param};
use ir::{Bits, Expr, Op};
use openflow::PortNo;
use std::collections::VecDeque;
use std::sync::Arc;

/// When the network is told where addresses are, after a promotion.
const TELLS_NS: [u64; 7] =
    [0, 20_000_000, 50_000_000, 100_000_000, 200_000_000, 500_000_000, 1_000_000_000];

pub(super) struct Share {
    pub(super) copy: Copy,
    pub(super) telling: Option<Telling>,
    /// Members that have asked for all connections.
    pub(super) wants_all: VecDeque<String>,
    /// When the last message of its active member was sent, by that one's clock on the wall; 0 if none has come.
    pub(super) told_ns: u64,
    /// Its services and registers that are not there.
    pub(super) missing: Vec<String>,
    /// When connections that were not told of are gone.
    pub(super) sweep_ns: Option<u64>,
    addresses: Vec<Address>,
    /// Of the last promotion: when, and how often the network was told.
    promoted: Option<(u64, usize)>,
    output: Arc<Run>,
}

impl Share {
    pub(super) fn new(copy: Copy, addresses: Vec<Address>) -> Share {
        let params = vec![Param { name: "to".to_owned(), width: 32 }];
        let body = vec![Op::Output { port: Expr::Param(0) }];
        Share {
            copy,
            telling: None,
            wants_all: VecDeque::new(),
            told_ns: 0,
            missing: Vec::new(),
            sweep_ns: None,
            addresses,
            promoted: None,
            output: Arc::new(Run { name: "replication".to_owned(), params, body }),
        }
    }

    /// Looks for services and registers that it is to have: once of each that is not there it is said, and when it is there again.
    pub(super) fn miss(&mut self, share: &str) {
        let services = self.copy.missing().into_iter().map(|name| format!("service {name}"));
        let registers = self.copy.missing_registers().into_iter();
        let registers = registers.map(|name| format!("register {name}"));
        let missing: Vec<String> = services.chain(registers).collect();
        for what in missing.iter().filter(|what| !self.missing.contains(what)) {
            tracing::warn!(share, what, "the group is to have what is not there");
        }
        for what in self.missing.iter().filter(|what| !missing.contains(what)) {
            tracing::info!(share, what, "the group has what it missed");
        }
        self.missing = missing;
    }

    /// It forwards, since now.
    pub(super) fn promoted(&mut self, now_ns: u64, bridges: &Bridges) {
        self.promoted = Some((now_ns, 0));
        self.sweep_ns = None;
        self.announce(now_ns, bridges);
    }

    /// The network is told anew where its addresses are.
    pub(super) fn told_anew(&mut self, now_ns: u64, bridges: &Bridges) {
        self.promoted = Some((now_ns, 0));
        self.announce(now_ns, bridges);
    }

    /// It forwards no more.
    pub(super) fn demoted(&mut self) {
        self.copy.stand_still();
        (self.telling, self.promoted) = (None, None);
        self.wants_all.clear();
    }

    /// Tells the network where the share's addresses are, when that is due.
    pub(super) fn announce(&mut self, now_ns: u64, bridges: &Bridges) {
        let Some((since, times)) = self.promoted else { return };
        let due = TELLS_NS.get(times).is_some_and(|after| now_ns >= since + after);
        if !due {
            return;
        }
        self.promoted = Some((since, times + 1));
        for address in &self.addresses {
            let bytes = address::frame(address);
            let mut found = false;
            for bridge in bridges.all() {
                let ports = bridge.switch().ports();
                let Some(port) = ports.iter().find(|port| port.info.name == address.port) else {
                    continue;
                };
                found = true;
                bridge.switch().inject(Injection {
                    in_port: PortNo::CONTROLLER.0,
                    bytes: bytes.clone(),
                    action: self.output.clone(),
                    args: vec![Bits::from_u128(port.number.into(), 32)],
                });
            }
            if !found && times == 0 {
                tracing::warn!(
                    port = address.port,
                    "an address of the group is at a port that is not there"
                );
            }
        }
    }
}
