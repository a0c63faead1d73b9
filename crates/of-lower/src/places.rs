//! Which lists may hold an action, beside one that is applied at once: one row an action.
//!
//! The rules refuse what a row leaves out, and lowering has no words for it. A new action is a row here.

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
    const fn set(name: &'static str, kind: Kind) -> Places {
        Places { name, set: Some((kind as u8, 0)), not_in_bucket: None }
    }

    const fn list(name: &'static str) -> Places {
        Places { name, set: None, not_in_bucket: None }
    }

    const fn but_bucket(self, what: &'static str, instead: &'static str) -> Places {
        Places { not_in_bucket: Some((what, instead)), ..self }
    }
}

/// Where an action may stand.
///
/// A bucket can hold no meter, whose end would leave the group without it, and nothing that belongs to a flow entry.
pub fn places(action: &Action) -> Places {
    match action {
        Action::Output { .. } => Places::set("output", Kind::Output),
        Action::CopyTtlOut => Places::set("copy_ttl_out", Kind::CopyTtlOut),
        Action::CopyTtlIn => Places::set("copy_ttl_in", Kind::CopyTtlIn),
        Action::SetMplsTtl(_) => Places::set("set_mpls_ttl", Kind::SetMplsTtl),
        Action::DecMplsTtl => Places::set("dec_mpls_ttl", Kind::DecMplsTtl),
        Action::PushVlan(_) => Places::set("push_vlan", Kind::PushVlan),
        Action::PopVlan => Places::set("pop_vlan", Kind::PopVlan),
        Action::PushMpls(_) => Places::set("push_mpls", Kind::PushMpls),
        Action::PopMpls(_) => Places::set("pop_mpls", Kind::PopMpls),
        Action::SetQueue(_) => Places::set("set_queue", Kind::SetQueue),
        Action::Group(_) => Places::set("group", Kind::Group),
        Action::SetNwTtl(_) => Places::set("set_nw_ttl", Kind::SetNwTtl),
        Action::DecNwTtl => Places::set("dec_nw_ttl", Kind::DecNwTtl),
        Action::PushPbb(_) => Places::set("push_pbb", Kind::PushPbb),
        Action::PopPbb => Places::set("pop_pbb", Kind::PopPbb),
        // Each field is a kind of its own.
        Action::SetField(set) => {
            let kind = (Kind::SetNwTtl as u8, 1 + set.field as u8);
            Places { set: Some(kind), ..Places::list("set_field") }
        }
        Action::SetVlanVid(_) => Places::list("set_vlan_vid"),
        Action::SetVlanPcp(_) => Places::list("set_vlan_pcp"),
        Action::SetNwSrc(_) => Places::list("set_nw_src"),
        Action::SetNwDst(_) => Places::list("set_nw_dst"),
        Action::SetNwTos(_) => Places::list("set_nw_tos"),
        Action::SetTpSrc(_) => Places::list("set_tp_src"),
        Action::SetTpDst(_) => Places::list("set_tp_dst"),
        Action::Enqueue { .. } => Places::list("enqueue"),
        Action::Meter(_) => Places::list("meter").but_bucket("meter", "meter the flow entry"),
        Action::CopyField(_) => Places::list("copy_field"),
        Action::Resubmit { .. } => Places::list("resubmit"),
        Action::PopQueue => Places::list("pop_queue"),
        Action::OutputTruncated { .. } => Places::list("a truncating output"),
        Action::FinTimeout(_) => {
            Places::list("fin_timeout").but_bucket("fin_timeout", "it belongs to flow entries")
        }
        Action::Controller(to) if to.meter.is_some() => Places::list("controller with options")
            .but_bucket("controller with meter_id", "meter the flow entry"),
        Action::Controller(_) => Places::list("controller with options"),
        Action::DecNwTtlTo(_) => Places::list("dec_ttl with ids"),
        Action::OutputField { .. } => Places::list("output to a field"),
        Action::StackPush(_) => Places::list("push"),
        Action::StackPop(_) => Places::list("pop"),
        Action::CheckPktLarger { .. } => Places::list("check_pkt_larger"),
        Action::Multipath(_) => Places::list("multipath"),
        Action::Learn(learn) if learn.delete_learned => Places::list("learn")
            .but_bucket("learn with delete_learned", "resubmit to a flow entry that has it"),
        Action::Learn(_) => Places::list("learn"),
        Action::Bundle(m) if m.to.is_some() => Places::list("bundle_load"),
        Action::Bundle(_) => Places::list("bundle"),
        Action::Clone(_) => Places::list("clone"),
        Action::Ct(_) => Places::list("ct"),
        Action::CtClear => Places::list("ct_clear"),
        Action::Softflow(_) => {
            Places::list("softflow").but_bucket("softflow", "resubmit to a flow entry that has it")
        }
        Action::Exit => Places::list("exit"),
        Action::Conjunction(_) => {
            Places::list("conjunction").but_bucket("conjunction", "it belongs to flow entries")
        }
        Action::Note(_) => Places::list("note"),
        // Refused wherever it stands.
        Action::Experimenter(_) => Places::list("an experimenter's action"),
    }
}
