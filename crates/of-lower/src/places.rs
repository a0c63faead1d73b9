//! Which lists may hold an action, beside one that is applied at once.
//!
//! The rules refuse what no list may hold, and lowering has no words for it. An action that a set cannot hold and a bucket
//! can, which most new ones are, needs no line here: its own description has its name.

use super::slots::Kind;
use openflow::Action;

/// Where an action may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// What a refusal calls it.
    pub name: &'static str,
    /// Its kind in an action set: what it replaces there, and its place in the order. None for an action that a set
    /// cannot hold.
    pub set: Option<(u8, u8)>,
    /// Why a bucket cannot hold it: what is wrong, and what to do instead. None for one that it can.
    pub not_in_bucket: Option<(&'static str, &'static str)>,
}

impl Places {
    const fn but_bucket(self, what: &'static str, instead: &'static str) -> Places {
        Places { not_in_bucket: Some((what, instead)), ..self }
    }
}

/// Where an action may stand.
///
/// A bucket can hold no meter, whose end would leave the group without it, and nothing that belongs to a flow entry.
pub fn places(action: &Action) -> Places {
    let list = Places { name: action.name(), set: None, not_in_bucket: None };
    let set = |kind: Kind| Places { set: Some((kind as u8, 0)), ..list };
    match action {
        Action::Output { .. } => set(Kind::Output),
        Action::CopyTtlOut => set(Kind::CopyTtlOut),
        Action::CopyTtlIn => set(Kind::CopyTtlIn),
        Action::SetMplsTtl(_) => set(Kind::SetMplsTtl),
        Action::DecMplsTtl => set(Kind::DecMplsTtl),
        Action::PushVlan(_) => set(Kind::PushVlan),
        Action::PopVlan => set(Kind::PopVlan),
        Action::PushMpls(_) => set(Kind::PushMpls),
        Action::PopMpls(_) => set(Kind::PopMpls),
        Action::SetQueue(_) => set(Kind::SetQueue),
        Action::Group(_) => set(Kind::Group),
        Action::SetNwTtl(_) => set(Kind::SetNwTtl),
        Action::DecNwTtl => set(Kind::DecNwTtl),
        Action::PushPbb(_) => set(Kind::PushPbb),
        Action::PopPbb => set(Kind::PopPbb),
        // Each field is a kind of its own.
        Action::SetField(set) => {
            Places { set: Some((Kind::SetNwTtl as u8, 1 + set.field as u8)), ..list }
        }
        Action::Meter(_) => list.but_bucket("meter", "meter the flow entry"),
        Action::FinTimeout(_) => list.but_bucket("fin_timeout", "it belongs to flow entries"),
        Action::Controller(to) if to.meter.is_some() => {
            list.but_bucket("controller with meter_id", "meter the flow entry")
        }
        Action::Learn(learn) if learn.delete_learned => {
            list.but_bucket("learn with delete_learned", "resubmit to a flow entry that has it")
        }
        Action::Bundle(m) if m.to.is_some() => Places { name: "bundle_load", ..list },
        Action::Softflow(_) => list.but_bucket("softflow", "resubmit to a flow entry that has it"),
        Action::Conjunction(_) => list.but_bucket("conjunction", "it belongs to flow entries"),
        // An experimenter's action is refused wherever it stands.
        _ => list,
    }
}
