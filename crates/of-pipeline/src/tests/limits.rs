//! How much a switch takes in all: entries, their bytes, buckets; and what it tells of that.

use super::bed::*;
use crate::{Agent, AgentConfig};
use openflow::{
    Action, Bucket, BucketId, ErrorCode, FieldId, FlowMod, FlowModCommand, GroupId, GroupMod,
    GroupModCommand, GroupType, Match, Message, MultipartReplyBody, MultipartRequestBody, PortNo,
    TableId,
};

/// A switch that takes so many entries in all, of which a table takes up to 100.
fn bed(flows_max: u32) -> Bed {
    with(AgentConfig { flows_max, ..AgentConfig::default() })
}

fn with(config: AgentConfig) -> Bed {
    let mut bed = Bed::new(2);
    let program = bed.agent.config().program;
    let config = AgentConfig { program, ..config };
    bed.agent = Agent::new(bed.agent.switch().clone(), config).unwrap();
    bed
}

fn entry(table: u8, n: u32) -> FlowMod {
    let matching = Match::new().with(FieldId::EthDst, n.into());
    FlowMod { table_id: TableId(table), ..add(matching, apply([output(2)])) }
}

#[test]
fn entries_of_all_tables_together_are_bounded() {
    let mut bed = bed(10);
    (0..10).for_each(|n| drop(bed.ok(entry((n % 4) as u8, n))));
    let refusal = bed.refusal(entry(5, 99));
    assert_eq!(refusal.code(), ErrorCode::FmfcTableFull);
    assert_eq!(
        refusal.to_string(),
        "the switch has 10 flow entries in all tables, which is what --flows-max allows; delete some \
         (OFPFMFC_TABLE_FULL)"
    );
    // What is there may be replaced and modified, and what goes makes room.
    bed.ok(entry(1, 1));
    bed.ok(FlowMod { command: FlowModCommand::Modify, ..entry(1, 1) });
    bed.ok(FlowMod { command: FlowModCommand::DeleteStrict, ..entry(1, 1) });
    bed.ok(entry(5, 99));
    assert_eq!(bed.refused(entry(5, 100)), ErrorCode::FmfcTableFull);
}

#[test]
fn a_bundle_takes_no_more_than_there_is_room_for() {
    let mut bed = bed(10);
    (0..6).for_each(|n| drop(bed.ok(entry(0, n))));
    let adds = |n: std::ops::Range<u32>| n.map(|n| Message::FlowMod(entry(1, n))).collect();
    let fault = bed.agent.bundle(V13, adds(0..5)).unwrap_err();
    assert_eq!((fault.at, fault.refusal.code()), (4, ErrorCode::FmfcTableFull));
    assert_eq!(bed.flows(TableId::ALL).len(), 6, "nothing of it happened");
    bed.agent.bundle(V13, adds(0..4)).unwrap();
    assert_eq!(bed.agent.flows().total().0, 10);
}

#[test]
fn tables_tell_no_more_than_they_take() {
    for (flows_max, told) in [(10, 10), (1 << 20, 100)] {
        let mut bed = bed(flows_max);
        for body in bed.ask(V13, MultipartRequestBody::TableFeatures(Vec::new())) {
            let MultipartReplyBody::TableFeatures(tables) = body else { panic!("{body:?}") };
            assert!(tables.iter().all(|table| table.max_entries == told), "{flows_max}");
        }
        for body in bed.ask(V10, MultipartRequestBody::Table) {
            let MultipartReplyBody::Table(tables) = body else { panic!("{body:?}") };
            assert_eq!(tables[0].max_entries, told);
        }
    }
}

#[test]
fn long_entries_are_bounded_by_their_bytes() {
    let mut bed = with(AgentConfig { content_max: Some(20_000), ..AgentConfig::default() });
    let long = |n: u32, length: u32| {
        let set = |i: u32| Action::set_field(FieldId::EthSrc, u128::from(i));
        add(entry(0, n).matching, apply((0..length).map(set).collect::<Vec<_>>()))
    };
    (0..5).for_each(|n| drop(bed.ok(long(n, 100))));
    let refusal = bed.refusal(long(9, 300));
    assert_eq!(refusal.code(), ErrorCode::FmfcTableFull);
    assert_eq!(
        refusal.to_string(),
        "the matches and actions of all flow entries have 20000 bytes, which is what --flows-max allows; \
         delete some, or use shorter lists of actions (OFPFMFC_TABLE_FULL)"
    );
    // A modify of all is judged by what it makes longer.
    let modify = |length| FlowMod {
        command: FlowModCommand::Modify,
        matching: Match::new(),
        ..long(0, length)
    };
    assert_eq!(bed.refused(modify(300)), ErrorCode::FmfcTableFull);
    bed.ok(modify(10));
    bed.ok(long(9, 300));
}

#[test]
fn what_entries_take_is_counted_through_all_changes() {
    let mut bed = bed(100);
    assert_eq!(bed.agent.flows().total(), (0, 0));
    bed.ok(entry(0, 1));
    let one = bed.agent.flows().total().1;
    bed.ok(FlowMod {
        command: FlowModCommand::Modify,
        ..add(entry(0, 1).matching, apply([output(1), output(2)]))
    });
    assert!(bed.agent.flows().total().1 > one);
    bed.ok(entry(0, 1));
    assert_eq!(bed.agent.flows().total(), (1, one));
    let adds = (0..5).map(|n| Message::FlowMod(entry(2, n)));
    let wrong = Message::FlowMod(entry(200, 1));
    bed.agent.bundle(V13, adds.chain([wrong]).collect()).unwrap_err();
    assert_eq!(bed.agent.flows().total(), (1, one), "a bundle that is undone leaves nothing");
    bed.ok(FlowMod { command: FlowModCommand::Delete, ..entry(0, 1) });
    assert_eq!(bed.agent.flows().total(), (0, 0));
}

#[test]
fn buckets_of_all_groups_are_bounded_by_their_bytes() {
    let mut bed = with(AgentConfig { content_max: Some(20_000), ..AgentConfig::default() });
    let bucket = |id: u32| Bucket {
        id: BucketId(id),
        weight: 0,
        watch_port: PortNo::ANY,
        watch_group: GroupId::ANY,
        actions: vec![Action::set_field(FieldId::EthSrc, 1), output(2)],
    };
    let group = |id: u32| GroupMod {
        command: GroupModCommand::AddOrModify,
        group_type: GroupType::All,
        group_id: GroupId(id),
        command_bucket: BucketId::ALL,
        selection: None,
        buckets: (0..30).map(bucket).collect(),
    };
    let take = |bed: &mut Bed, n| bed.agent.handle(V13, Message::GroupMod(group(n)));
    let fit = (0..100).take_while(|n| take(&mut bed, *n).is_ok()).count() as u32;
    assert!((5..15).contains(&fit), "{fit}");
    assert_eq!(take(&mut bed, fit).unwrap_err().code(), ErrorCode::GmfcOutOfBuckets);
    // Replaced, not added.
    (0..fit).for_each(|n| drop(bed.ok(Message::GroupMod(group(n)))));
    let delete = GroupMod { command: GroupModCommand::Delete, buckets: vec![], ..group(3) };
    bed.ok(Message::GroupMod(delete));
    assert!(take(&mut bed, fit).is_ok());
}
