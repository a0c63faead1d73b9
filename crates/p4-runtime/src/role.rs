//! What a role may do, as its primary says in `role.config` (P4Runtime §5.2).
//!
//! The specification leaves the kind of `role.config` open; Stratum's is known here, `stratum.P4RoleConfig`:
//!
//! | field | means |
//! |---|---|
//! | `exclusive_p4_ids` | what this role alone may write and read of all roles with a name |
//! | `shared_p4_ids` | what it may write and read beside others |
//! | `receives_packet_ins`, `packet_in_filter` | whether packets are told to it, and only those with this metadata |
//! | `can_push_pipeline` | it may push pipelines |
//!
//! The role without a name may do everything, and has no config. A role without a config may do what the program's
//! `@p4runtime_role` leaves it.
//!
//! Checked by: the tests below; `tests/roles.rs`.

use crate::code::{Fault, fault};
use crate::proto::v1;
use prost::Message as _;
use std::collections::BTreeSet;

/// What names the known kind.
const KIND: &str = "stratum.P4RoleConfig";
/// Ids in a config, at most.
const IDS_MAX: usize = 65_536;

/// Metadata that a packet has to have.
#[derive(Clone, PartialEq, prost::Message)]
struct PacketFilter {
    #[prost(uint32, tag = "1")]
    metadata_id: u32,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// The config as clients send it.
#[derive(Clone, PartialEq, prost::Message)]
struct Sent {
    #[prost(uint32, repeated, tag = "1")]
    exclusive_p4_ids: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    shared_p4_ids: Vec<u32>,
    #[prost(message, optional, tag = "3")]
    packet_in_filter: Option<PacketFilter>,
    #[prost(bool, tag = "4")]
    receives_packet_ins: bool,
    #[prost(bool, tag = "5")]
    can_push_pipeline: bool,
}

/// A role's config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    exclusive: BTreeSet<u32>,
    shared: BTreeSet<u32>,
    packets: bool,
    filter: Option<(u32, Vec<u8>)>,
    /// It may push pipelines.
    pub pushes: bool,
}

/// A number without the zeros in front.
fn shortest(value: &[u8]) -> &[u8] {
    let zeros = value.iter().take_while(|b| **b == 0).count();
    &value[zeros.min(value.len().saturating_sub(1))..]
}

impl Config {
    /// What a client sends; none if it is empty.
    pub fn read(any: Option<&prost_types::Any>) -> Result<Option<Config>, Fault> {
        let Some(any) = any else { return Ok(None) };
        if any.type_url.is_empty() && any.value.is_empty() {
            return Ok(None);
        }
        if any.type_url.rsplit('/').next() != Some(KIND) {
            return Err(fault!(
                InvalidArgument,
                "role.config of the kind \"{}\" is not known here; {KIND} is, or say in the program what a role \
                 may write, by @p4runtime_role(\"NAME\")",
                any.type_url
            ));
        }
        let sent = Sent::decode(&any.value[..])
            .map_err(|e| fault!(InvalidArgument, "role.config is no {KIND}: {e}"))?;
        if sent.exclusive_p4_ids.len() + sent.shared_p4_ids.len() > IDS_MAX {
            return Err(fault!(ResourceExhausted, "role.config: {IDS_MAX} ids are the most"));
        }
        let filter = sent.packet_in_filter.map(|f| (f.metadata_id, shortest(&f.value).to_vec()));
        Ok(Some(Config {
            exclusive: sent.exclusive_p4_ids.into_iter().collect(),
            shared: sent.shared_p4_ids.into_iter().collect(),
            packets: sent.receives_packet_ins,
            filter,
            pushes: sent.can_push_pipeline,
        }))
    }

    /// A packet is told to this role.
    pub fn takes(&self, packet: &v1::PacketIn) -> bool {
        self.packets
            && self.filter.as_ref().is_none_or(|(id, value)| {
                let has = |m: &v1::PacketMetadata| {
                    m.metadata_id == *id && shortest(&m.value) == &value[..]
                };
                packet.metadata.iter().any(has)
            })
    }

    /// What no other role may touch.
    pub(crate) fn exclusive(&self) -> &BTreeSet<u32> {
        &self.exclusive
    }
}

/// What a role may write and read.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// Only these, if its config says so.
    own: Option<BTreeSet<u32>>,
    /// Not these: others have them alone.
    others: BTreeSet<u32>,
}

impl Rights {
    /// Those of a role with a name, by its config and what others have alone.
    pub fn new(own: Option<&Config>, others: BTreeSet<u32>) -> Rights {
        let own = own.map(|c| c.exclusive.union(&c.shared).copied().collect());
        Rights { own, others }
    }

    /// It may write and read what has this id.
    pub fn allow(&self, id: u32) -> bool {
        !self.others.contains(&id) && self.own.as_ref().is_none_or(|own| own.contains(&id))
    }

    /// It may do what has no id in a P4Info.
    pub fn are_whole(&self) -> bool {
        self.own.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    fn any(kind: &str, value: Vec<u8>) -> prost_types::Any {
        prost_types::Any { type_url: format!("type.googleapis.com/{kind}"), value }
    }

    #[test]
    fn kinds_are_known_or_named() {
        assert_eq!(Config::read(None), Ok(None));
        assert_eq!(Config::read(Some(&prost_types::Any::default())), Ok(None));
        let told = Config::read(Some(&any("x.Y", vec![1]))).unwrap_err();
        assert_eq!(told.code, Code::InvalidArgument);
        assert!(told.text.contains("the kind \"type.googleapis.com/x.Y\""), "{}", told.text);
        let told = Config::read(Some(&any(KIND, vec![0xff]))).unwrap_err();
        assert!(told.text.contains("is no stratum.P4RoleConfig"), "{}", told.text);
        let many = Sent { shared_p4_ids: (0..=IDS_MAX as u32).collect(), ..Sent::default() };
        let told = Config::read(Some(&any(KIND, many.encode_to_vec()))).unwrap_err();
        assert_eq!(told.code, Code::ResourceExhausted);
    }

    #[test]
    fn packets_are_filtered_by_their_metadata() {
        let packet = |value: &[u8]| v1::PacketIn {
            metadata: vec![v1::PacketMetadata { metadata_id: 1, value: value.to_vec() }],
            ..v1::PacketIn::default()
        };
        let read = |sent: Sent| Config::read(Some(&any(KIND, sent.encode_to_vec()))).unwrap();
        let none = read(Sent { can_push_pipeline: true, ..Sent::default() }).unwrap();
        assert!(!none.takes(&packet(&[5])) && none.pushes);
        let all = read(Sent { receives_packet_ins: true, ..Sent::default() }).unwrap();
        assert!(all.takes(&packet(&[5])) && all.takes(&v1::PacketIn::default()));
        let filter = Some(PacketFilter { metadata_id: 1, value: vec![0, 5] });
        let some = Sent { receives_packet_ins: true, packet_in_filter: filter, ..Sent::default() };
        let some = read(some).unwrap();
        assert!(some.takes(&packet(&[5])) && !some.takes(&packet(&[6])));
        assert!(!some.takes(&v1::PacketIn::default()));
    }

    #[test]
    fn rights_are_what_the_config_lists_and_others_leave() {
        let config = Config {
            exclusive: [1].into_iter().collect(),
            shared: [2].into_iter().collect(),
            ..Config::default()
        };
        let rights = Rights::new(Some(&config), [3].into_iter().collect());
        assert_eq!([1, 2, 3, 4].map(|id| rights.allow(id)), [true, true, false, false]);
        let rights = Rights::new(None, [3].into_iter().collect());
        assert_eq!([1, 3].map(|id| rights.allow(id)), [true, false]);
        assert!(rights.are_whole());
    }
}
