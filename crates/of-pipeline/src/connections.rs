//! Tracked connections that controllers have forgotten (`NXT_CT_FLUSH_ZONE`, `NXT_CT_FLUSH`).
//!
//! In: a zone, or what connections have to agree with. Out: how many are gone. They are those of this bridge alone.

use crate::agent::Agent;
use openflow::{CtFlush, CtTuple};
use service::conntrack::{Ends, Selection};

impl Agent {
    /// Forgets the tracked connections of a zone; says how many there were.
    pub fn flush_zone(&self, zone: u16) -> usize {
        self.forget(&Selection::zone(Some(zone)))
    }

    /// Forgets the tracked connections that are chosen; says how many there were.
    pub fn flush_connections(&self, chosen: &CtFlush) -> usize {
        let ends = |tuple: &CtTuple| Ends {
            src: tuple.src,
            dst: tuple.dst,
            src_port: tuple.src_port,
            dst_port: tuple.dst_port,
            icmp: (tuple.icmp_id, tuple.icmp_type, tuple.icmp_code),
        };
        self.forget(&Selection {
            zone: chosen.zone,
            protocol: chosen.protocol,
            original: ends(&chosen.original),
            reply: ends(&chosen.reply),
            mark: chosen.mark,
            label: chosen.labels,
        })
    }

    fn forget(&self, chosen: &Selection) -> usize {
        let connections = self.env.switch.services().connections();
        connections.map_or(0, |connections| connections.flush_selected(chosen))
    }
}
