//! Packets to controllers: packet-in (1.3.5 §6.1.2, §7.4.1; 1.0.2 §5.4.1).
//!
//! Packets are not kept in buffers. The specification then wants the whole packet in the message,
//! whatever `max_len` of the action and `miss_send_len` of the configuration say: both are limits on
//! what is sent of a packet that is kept.
//!
//! | the switch says | 1.3 | 1.0 |
//! |---|---|---|
//! | a table-miss entry's action | `NO_MATCH` | `NO_MATCH` |
//! | no entry at all in the first table | - | `NO_MATCH` |
//! | any other action, a bucket, the action set, a packet-out | `ACTION`; from 1.4 on one each | `ACTION` |
//! | TTL invalid | `INVALID_TTL` | - |

use crate::agent::Agent;
use crate::event::Event;
use crate::waiting::Doer;
use ir::PuntReason;
use of_lower::PuntArgs;
use of_lower::rest::Rest;
use openflow::{FieldId, Match, PacketIn, PacketInReason, PortConfig, TableId};
use switch::Punt;
use wire::EtherType;
use wire::vlan::Tags;

/// The reason of a packet-in.
fn reason(reason: PuntReason) -> PacketInReason {
    match reason {
        //= openflow-1.3.5 §7.4.1: NO_MATCH is the table-miss entry's.
        PuntReason::TableMiss => PacketInReason::NoMatch,
        PuntReason::InvalidTtl => PacketInReason::InvalidTtl,
        //= openflow-1.4.1 §7.4.1: what sent a packet has a reason each.
        PuntReason::ActionSet => PacketInReason::ActionSet,
        PuntReason::Group => PacketInReason::Group,
        PuntReason::PacketOut => PacketInReason::PacketOut,
        PuntReason::Action | PuntReason::Digest | PuntReason::Control => PacketInReason::Action,
    }
}

/// The packet's pipeline fields.
fn pipeline_fields(args: &PuntArgs) -> Match {
    let mut matching = Match::new().with(FieldId::InPort, args.in_port.into());
    //= openflow-1.3.5 §7.2.3.9: in_phy_port is left out where it is the same; metadata and
    //= tunnel_id where they are 0.
    if args.in_phy_port != args.in_port {
        matching.set(FieldId::InPhyPort, args.in_phy_port.into());
    }
    if args.metadata != 0 {
        matching.set(FieldId::Metadata, args.metadata.into());
    }
    if args.tunnel_id != 0 {
        matching.set(FieldId::TunnelId, args.tunnel_id.into());
    }
    matching
}

/// Completes what is said of a connection, as Open vSwitch does: with `ct_state` comes the packet's type, which says what
/// kind of addresses follow, and with the opener's protocol come all of its addresses and ports, zeros among them.
fn connection_fields(matching: &mut Match, frame: &[u8]) {
    if !matching.has(FieldId::CtState) {
        return;
    }
    let Some((kind, rest)) = frame.split_at_checked(14) else { return };
    let mut tags = Tags::new(EtherType(u16::from_be_bytes([kind[12], kind[13]])), rest);
    tags.by_ref().for_each(drop);
    let kind = tags.ethertype();
    matching.set(FieldId::EthType, kind.0.into());
    if !matching.has(FieldId::CtNwProto) {
        return;
    }
    let addresses = match kind {
        EtherType::IPV6 => [FieldId::CtIpv6Src, FieldId::CtIpv6Dst],
        _ => [FieldId::CtNwSrc, FieldId::CtNwDst],
    };
    for field in addresses.into_iter().chain([FieldId::CtTpSrc, FieldId::CtTpDst]) {
        if !matching.has(field) {
            matching.set(field, 0);
        }
    }
}

impl Agent {
    /// What controllers are told of a punted packet, if anything.
    pub(crate) fn packet_in(&self, punt: Punt) -> Option<Event> {
        let args = PuntArgs::read(&punt.args);
        //= openflow-1.3.5 §7.2.1: OFPPC_NO_PACKET_IN: packets that came in by the port are not sent.
        if self.stores.ports.configured(args.in_port).contains(PortConfig::NO_PACKET_IN) {
            return None;
        }
        let table = punt.table.and_then(|table| self.env.layout.flow_table(table));
        let key = self.flow_key(punt.table, punt.entry);
        //= openflow-1.3.5 §7.4.1: the cookie of the entry that sent it; all ones where there is none.
        let cookie = key
            .and_then(|key| self.stores.flows.get(key))
            .map_or(PacketIn::NO_COOKIE, |f| f.cookie);
        let mut matching = pipeline_fields(&args);
        for field in &PuntArgs::pipeline(&punt.args) {
            matching.set(field.id, field.value);
        }
        connection_fields(&mut matching, &punt.bytes);
        let doer = Doer { key, bucket: punt.bucket, injection: args.injection };
        let told = match args.userdata {
            0 => None,
            which => self.told(doer, which, &punt.callers),
        };
        let (userdata, rest) = told.map_or((Vec::new(), None), |(to, rest)| (to.userdata, rest));
        let continuation = rest.map_or(Vec::new(), |left| {
            let mut waits = self.env.layout.read_waits(&punt.args);
            if left.cloned {
                waits.action_set.clear();
            }
            Rest { pipeline: matching.clone(), waits, left }.encode()
        });
        let packet = PacketIn {
            buffer_id: None,
            total_len: u16::try_from(punt.bytes.len()).unwrap_or(u16::MAX),
            reason: reason(punt.reason),
            table_id: TableId(table.unwrap_or(0)),
            cookie,
            matching,
            data: punt.bytes,
            userdata,
            continuation,
        };
        Some(match args.controller_id {
            0 => Event::PacketIn(packet),
            id => Event::PacketInTo(id, packet),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipeline_fields_that_say_nothing_are_left_out() {
        let args = PuntArgs { in_port: 3, in_phy_port: 3, ..PuntArgs::default() };
        assert_eq!(pipeline_fields(&args), Match::new().with(FieldId::InPort, 3));
        let args = PuntArgs { in_phy_port: 4, metadata: 5, tunnel_id: 6, ..args };
        let all = pipeline_fields(&args);
        assert_eq!(all.len(), 4);
        assert_eq!(all.check(), Ok(()));
    }

    #[test]
    fn reasons() {
        assert_eq!(reason(PuntReason::TableMiss), PacketInReason::NoMatch);
        assert_eq!(reason(PuntReason::Group), PacketInReason::Group);
        assert_eq!(reason(PuntReason::ActionSet), PacketInReason::ActionSet);
        assert_eq!(PacketInReason::Group.wire(openflow::Version::V13), 1);
        assert_eq!(reason(PuntReason::InvalidTtl), PacketInReason::InvalidTtl);
    }
}
