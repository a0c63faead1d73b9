//! OpenFlow's actions that hold nothing, or one number: each row says all that there is to say.

use super::dec_ttl;
use super::row::{ALL, Bound, FROM_13, FROM_15, Number, ONLY_10, Payload, Row, Written, payload};
use super::set_field;
use crate::action::{Action, ActionType};
use crate::ids::{GroupId, MeterId, QueueId};
use crate::version::Version::{V10, V13};

/// A row of nothing but the word.
const fn plain(
    action_type: ActionType,
    words: &'static [(&'static str, crate::version::Version)],
    make: fn() -> Action,
) -> Row {
    Row { action_type, versions: FROM_13, ..Row::plain(words, &[], make) }
}

/// A row of a number.
const fn number(
    action_type: ActionType,
    words: &'static [(&'static str, crate::version::Version)],
    number: Number,
) -> Row {
    Row {
        name: words[0].0,
        action_type,
        words,
        payload: Payload::Number(number),
        versions: FROM_13,
        ..Row::EXTENSION
    }
}

/// A row of one of 1.0's settings.
const fn setting(
    name: &'static str,
    word: &'static [(&'static str, crate::version::Version)],
    v10: u16,
    of: Number,
) -> Row {
    let row = number(ActionType::SetField, word, of);
    Row { name, v10: Some(v10), versions: ONLY_10, ..row }
}

pub(super) static COPY_TTL_OUT: Row =
    plain(ActionType::CopyTtlOut, &[("copy_ttl_out", V13)], || Action::CopyTtlOut);
pub(super) static COPY_TTL_IN: Row =
    plain(ActionType::CopyTtlIn, &[("copy_ttl_in", V13)], || Action::CopyTtlIn);
pub(super) static POP_PBB: Row = plain(ActionType::PopPbb, &[("pop_pbb", V13)], || Action::PopPbb);
pub(super) static DEC_MPLS_TTL: Row = Row {
    nicira: &[26],
    ..plain(ActionType::DecMplsTtl, &[("dec_mpls_ttl", V10)], || Action::DecMplsTtl)
};
pub(super) static POP_VLAN: Row = Row {
    name: "pop_vlan",
    v10: Some(3),
    versions: ALL,
    print: Some(|out, _, printing| {
        out.write_str(if printing.version == V10 { "strip_vlan" } else { "pop_vlan" })
    }),
    ..plain(ActionType::PopVlan, &[("strip_vlan", V10), ("pop_vlan", V10)], || Action::PopVlan)
};
pub(super) static DEC_NW_TTL: Row = Row {
    name: "dec_nw_ttl",
    nicira: &[18],
    parse: Some(dec_ttl::parse),
    ..plain(ActionType::DecNwTtl, &[("dec_ttl", V10)], || Action::DecNwTtl)
};

pub(super) static SET_MPLS_TTL: Row = Row {
    nicira: &[25],
    ..number(
        ActionType::SetMplsTtl,
        &[("set_mpls_ttl", V10)],
        Number {
            written: Written::Parentheses,
            ..Number::of_bits(
                8,
                |ttl| Action::SetMplsTtl(ttl as u8),
                payload!(Action::SetMplsTtl(ttl) => u32::from(*ttl)),
            )
        },
    )
};
pub(super) static SET_NW_TTL: Row = Row {
    name: "set_nw_ttl",
    // Nicira has a load for it.
    encode: Some(set_field::encode_ttl),
    ..number(
        ActionType::SetNwTtl,
        &[("mod_nw_ttl", V10)],
        Number::of_bits(
            8,
            |ttl| Action::SetNwTtl(ttl as u8),
            payload!(Action::SetNwTtl(ttl) => u32::from(*ttl)),
        ),
    )
};
pub(super) static SET_QUEUE: Row = Row {
    nicira: &[4],
    ..number(
        ActionType::SetQueue,
        &[("set_queue", V10)],
        Number::of_bits(
            32,
            |queue| Action::SetQueue(QueueId(queue)),
            payload!(Action::SetQueue(queue) => queue.0),
        ),
    )
};
pub(super) static GROUP: Row = Row {
    nicira: &[40],
    versions: ALL,
    ..number(
        ActionType::Group,
        &[("group", V10)],
        Number::of_bits(
            32,
            |group| Action::Group(GroupId(group)),
            payload!(Action::Group(group) => group.0),
        ),
    )
};
/// Before 1.5 it is an instruction.
pub(super) static METER: Row = Row {
    versions: FROM_15,
    ..number(
        ActionType::Meter,
        &[("meter", V13)],
        Number::of_bits(
            32,
            |meter| Action::Meter(MeterId(meter)),
            payload!(Action::Meter(meter) => meter.0),
        ),
    )
};

/// What a pushed EtherType may be.
const fn pushed(takes: fn(u32) -> bool, right: &'static str) -> Option<Bound> {
    Some(Bound { takes, what: "pushed Ethernet type", right, expected: right })
}

pub(super) static PUSH_VLAN: Row = number(
    ActionType::PushVlan,
    &[("push_vlan", V13)],
    Number {
        written: Written::EtherType,
        bound: pushed(|t| matches!(t, 0x8100 | 0x88a8), "0x8100 or 0x88a8"),
        random: |rng| rng.choose(&[0x8100, 0x88a8]),
        ..Number::of_bits(
            16,
            |t| Action::PushVlan(t as u16),
            payload!(Action::PushVlan(t) => u32::from(*t)),
        )
    },
);
pub(super) static PUSH_MPLS: Row = Row {
    nicira: &[23],
    ..number(
        ActionType::PushMpls,
        &[("push_mpls", V10)],
        Number {
            written: Written::EtherType,
            bound: pushed(|t| matches!(t, 0x8847 | 0x8848), "0x8847 or 0x8848"),
            random: |rng| rng.choose(&[0x8847, 0x8848]),
            ..Number::of_bits(
                16,
                |t| Action::PushMpls(t as u16),
                payload!(Action::PushMpls(t) => u32::from(*t)),
            )
        },
    )
};
pub(super) static POP_MPLS: Row = Row {
    nicira: &[24],
    ..number(
        ActionType::PopMpls,
        &[("pop_mpls", V10)],
        Number {
            written: Written::EtherType,
            ..Number::of_bits(
                16,
                |t| Action::PopMpls(t as u16),
                payload!(Action::PopMpls(t) => u32::from(*t)),
            )
        },
    )
};
pub(super) static PUSH_PBB: Row = number(
    ActionType::PushPbb,
    &[("push_pbb", V13)],
    Number {
        written: Written::EtherType,
        bound: pushed(|t| t == 0x88e7, "0x88e7"),
        random: |_| 0x88e7,
        ..Number::of_bits(
            16,
            |t| Action::PushPbb(t as u16),
            payload!(Action::PushPbb(t) => u32::from(*t)),
        )
    },
);

pub(super) static SET_VLAN_VID: Row = setting(
    "set_vlan_vid",
    &[("mod_vlan_vid", V10)],
    1,
    Number {
        bound: Some(Bound {
            takes: |vid| vid <= 0x0fff,
            what: "VLAN id",
            right: "12 bits",
            expected: "12 bits",
        }),
        ..Number::of_bits(
            12,
            |vid| Action::SetVlanVid(vid as u16),
            payload!(Action::SetVlanVid(vid) => u32::from(*vid)),
        )
    },
);
pub(super) static SET_VLAN_PCP: Row = setting(
    "set_vlan_pcp",
    &[("mod_vlan_pcp", V10)],
    2,
    Number {
        bound: Some(Bound {
            takes: |pcp| pcp <= 7,
            what: "VLAN priority",
            right: "3 bits",
            expected: "3 bits",
        }),
        ..Number::of_bits(
            3,
            |pcp| Action::SetVlanPcp(pcp as u8),
            payload!(Action::SetVlanPcp(pcp) => u32::from(*pcp)),
        )
    },
);
pub(super) static SET_NW_SRC: Row = setting(
    "set_nw_src",
    &[("mod_nw_src", V10)],
    6,
    Number {
        written: Written::Ipv4,
        ..Number::of_bits(32, Action::SetNwSrc, payload!(Action::SetNwSrc(address) => *address))
    },
);
pub(super) static SET_NW_DST: Row = setting(
    "set_nw_dst",
    &[("mod_nw_dst", V10)],
    7,
    Number {
        written: Written::Ipv4,
        ..Number::of_bits(32, Action::SetNwDst, payload!(Action::SetNwDst(address) => *address))
    },
);
pub(super) static SET_NW_TOS: Row = setting(
    "set_nw_tos",
    &[("mod_nw_tos", V10)],
    8,
    Number {
        bound: Some(Bound {
            takes: |tos| tos & 3 == 0,
            what: "type of service",
            right: "a value with its two low bits 0",
            expected: "a type of service whose two low bits are 0",
        }),
        random: |rng| rng.u32() & !3,
        ..Number::of_bits(
            8,
            |tos| Action::SetNwTos(tos as u8),
            payload!(Action::SetNwTos(tos) => u32::from(*tos)),
        )
    },
);
pub(super) static SET_TP_SRC: Row = setting(
    "set_tp_src",
    &[("mod_tp_src", V10)],
    9,
    Number::of_bits(
        16,
        |port| Action::SetTpSrc(port as u16),
        payload!(Action::SetTpSrc(port) => u32::from(*port)),
    ),
);
pub(super) static SET_TP_DST: Row = setting(
    "set_tp_dst",
    &[("mod_tp_dst", V10)],
    10,
    Number::of_bits(
        16,
        |port| Action::SetTpDst(port as u16),
        payload!(Action::SetTpDst(port) => u32::from(*port)),
    ),
);
