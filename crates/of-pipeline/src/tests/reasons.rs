//! Why a packet is dropped: an entry that says drop is told from one that outputs nothing, and from a miss.

use super::bed::*;
use ir::DropReason;
use openflow::syntax::{Context, parse_flow, parse_group};
use openflow::{FlowMod, Version};
use switch::EngineKind;

fn flow(line: &str) -> FlowMod {
    parse_flow(line, &Context::new(V13)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// A frame by port 1 into these groups and entries is given up for this reason and no other, by either engine.
fn dropped(reason: DropReason, groups: &[&str], flows: &[&str]) {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let mut bed = Bed::by(engine.clone(), program(), 3);
        for line in groups {
            bed.ok(parse_group(line, &Context::new(Version::V15)).unwrap());
        }
        flows.iter().for_each(|line| drop(bed.ok(flow(line))));
        bed.send(1, &frame(2, 1));
        for other in DropReason::ALL {
            let expected = u64::from(*other == reason);
            assert_eq!(bed.drops(*other), expected, "{engine:?}, {other}: {groups:?} {flows:?}");
        }
        (1..=3).for_each(|port| bed.silent(port));
    }
}

#[test]
fn an_entry_that_says_drop_is_the_reason() {
    let all = |flows: &[&str]| dropped(DropReason::Action, &[], flows);
    all(&["actions=drop"]);
    all(&["priority=0 actions=drop"]);
    all(&["in_port=1 actions=drop", "actions=output:2"]);
    all(&["actions=goto_table:1", "table=1 actions=drop"]);
    all(&["actions=dec_ttl,goto_table:2", "table=2 actions=drop"]);
    all(&["actions=resubmit(,3)", "table=3 actions=drop"]);
    all(&["actions=resubmit(,3),resubmit(,4)", "table=3 actions=drop", "table=4 actions=drop"]);
    all(&["actions=write_actions(output:2),goto_table:1", "table=1 actions=clear_actions"]);
    all(&[
        "dl_type=0x88b5 actions=conjunction(5,1/2)",
        "in_port=1 actions=conjunction(5,2/2)",
        "conj_id=5 actions=drop",
    ]);
}

#[test]
fn what_outputs_nothing_without_saying_so_is_another_reason() {
    dropped(DropReason::TableMiss, &[], &[]);
    dropped(DropReason::TableMiss, &[], &["in_port=2 actions=drop"]);
    dropped(DropReason::TableMiss, &[], &["actions=goto_table:1"]);
    dropped(DropReason::NoOutput, &[], &["actions=set_field:5->reg0"]);
    dropped(DropReason::NoOutput, &[], &["actions=write_metadata:7"]);
    dropped(
        DropReason::NoOutput,
        &[],
        &["actions=write_actions(set_field:00:00:00:00:00:07->eth_dst)"],
    );
    dropped(DropReason::OutputToIngress, &[], &["actions=output:1"]);
    // The table before it asked for an output that did not happen.
    dropped(
        DropReason::OutputToIngress,
        &[],
        &["actions=output:1,goto_table:1", "table=1 actions=drop"],
    );
}

#[test]
fn an_entry_that_says_drop_takes_back_nothing() {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let cases: [&[&str]; 4] = [
            &["actions=output:2,goto_table:1", "table=1 actions=drop"],
            &["actions=write_actions(output:2),goto_table:1", "table=1 actions=drop"],
            &["actions=resubmit(,1),output:2", "table=1 actions=drop"],
            &["actions=clone(resubmit(,1)),output:2", "table=1 actions=drop"],
        ];
        for flows in cases {
            let mut bed = Bed::by(engine.clone(), program(), 3);
            flows.iter().for_each(|line| drop(bed.ok(flow(line))));
            let sent = frame(2, 1);
            bed.send(1, &sent);
            assert_eq!(bed.receive(2), sent, "{flows:?}");
            let all: u64 = DropReason::ALL.iter().map(|reason| bed.drops(*reason)).sum();
            assert_eq!(all, 0, "{engine:?}: {flows:?}");
        }
    }
}

#[test]
fn groups_tell_no_bucket_from_one_that_says_drop() {
    for kind in ["all", "select", "fast_failover"] {
        let empty = format!("group_id=1,type={kind}");
        dropped(DropReason::GroupDead, &[&empty], &["actions=group:1"]);
        dropped(DropReason::GroupDead, &[&empty], &["actions=write_actions(group:1)"]);
    }
    let dead = "group_id=1,type=fast_failover,bucket=watch_port:9,actions=output:2";
    dropped(DropReason::GroupDead, &[dead], &["actions=group:1"]);
    for kind in ["all", "indirect", "select"] {
        let says_drop = format!("group_id=1,type={kind},bucket=actions=drop");
        dropped(DropReason::Action, &[&says_drop], &["actions=group:1"]);
        dropped(DropReason::Action, &[&says_drop], &["actions=write_actions(group:1)"]);
        let does_nothing = format!("group_id=1,type={kind},bucket=actions=dec_ttl");
        dropped(DropReason::NoOutput, &[&does_nothing], &["actions=group:1"]);
    }
}
