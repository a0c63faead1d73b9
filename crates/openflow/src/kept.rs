//! 1.0's actions in messages of later versions.
//!
//! There a request says the nearest that the version has: `mod_nw_src` becomes a set-field of IPv4's source, which needs
//! a match of IPv4. Who hands entries to another process keeps them as they are: [`keep_v10`] makes each such action one of
//! Nicira's notes, `V10_NOTE` and the action's bytes in 1.0. In a request such a note is the action again.

use crate::action::{Action, Instruction};
use crate::codec::as_v10_note;
use crate::message::Message;

/// Makes notes of the actions that only 1.0 has, in a request that adds a flow entry or a group.
pub fn keep_v10(message: &mut Message) {
    match message {
        Message::FlowMod(flow) => flow.instructions.iter_mut().for_each(|instruction| {
            if let Instruction::ApplyActions(list) | Instruction::WriteActions(list) = instruction {
                keep(list);
            }
        }),
        Message::GroupMod(group) => {
            group.buckets.iter_mut().for_each(|bucket| keep(&mut bucket.actions));
        }
        _ => {}
    }
}

fn keep(list: &mut [Action]) {
    for action in list {
        if let Action::Clone(inner) = action {
            keep(inner);
        } else if let Some(note) = as_v10_note(action) {
            *action = Action::Note(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};
    use crate::ids::Xid;
    use crate::syntax::{Context, parse_flow, parse_group};
    use crate::version::Version;

    #[test]
    fn actions_of_1_0_pass_through_any_version() {
        let flow = "in_port=1 actions=mod_nw_src:1.2.3.4,mod_nw_tos:8,clone(mod_tp_dst:99,output:1),\
                    mod_vlan_vid:5,mod_vlan_pcp:3,enqueue:2:1,strip_vlan,output:2";
        let group = "group_id=1,type=all,bucket=bucket_id:0,actions=mod_nw_dst:10.0.0.9,mod_tp_src:7,output:2";
        let context = Context::new(Version::V10);
        let said = [
            parse_flow(flow, &context).map(Message::FlowMod).expect("it is read"),
            parse_group(group, &context).map(Message::GroupMod).expect("it is read"),
        ];
        for version in [Version::V13, Version::V14, Version::V15] {
            for said in &said {
                let mut kept = said.clone();
                keep_v10(&mut kept);
                let bytes = encode(version, Xid(1), &kept).expect("it is written");
                let read = decode(version, &bytes).expect("it is read").1;
                match (read, said) {
                    (Message::FlowMod(read), Message::FlowMod(said)) => {
                        assert_eq!(read.instructions, said.instructions, "{version}");
                    }
                    (Message::GroupMod(read), Message::GroupMod(said)) => {
                        assert_eq!(read.buckets, said.buckets, "{version}");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Without that, the nearest is said, which is what `ovs-ofctl` says by a later version.
    #[test]
    fn others_are_told_the_nearest() {
        let flow = parse_flow("ip,actions=mod_nw_src:1.2.3.4,1", &Context::new(Version::V10));
        let message = Message::FlowMod(flow.expect("it is read"));
        let bytes = encode(Version::V15, Xid(1), &message).expect("it is written");
        let Ok((_, Message::FlowMod(read))) = decode(Version::V15, &bytes) else { panic!() };
        let set = |i: &Instruction| matches!(i, Instruction::ApplyActions(list) if matches!(list[0], Action::SetField(_)));
        assert!(read.instructions.iter().any(set));
    }
}
