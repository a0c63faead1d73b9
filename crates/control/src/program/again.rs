//! What an agent has, as messages that make it again: for a journal, for a take-over, for a configuration that is undone.
//!
//! Messages are of [`VERSION`], which says all that entries are.
//!
//! Checked by: the tests below; those of `persist`, `takeover` and `entries`.

use crate::takeover::wire::VERSION;
use of_pipeline::flow_table::Flow;
use of_pipeline::group_table::GroupEntry;
use of_pipeline::meter_table::MeterEntry;
use openflow::codec::EncodeError;
use openflow::{
    Bucket, BucketId, FlowMod, FlowModFlags, GroupId, GroupMod, GroupModCommand, GroupType,
    Message, MeterId, MeterMod, MeterModCommand, TableId,
};

/// A meter is added, or becomes this one.
pub(crate) fn meter(command: MeterModCommand, number: u32, meter: &MeterEntry) -> Message {
    let (flags, bands) = (meter.flags, meter.bands.clone());
    Message::MeterMod(MeterMod { command, flags, meter_id: MeterId(number), bands })
}

/// A group of this number, without buckets. Groups may lead to each other: all are there before any leads anywhere.
pub(crate) fn no_group(number: u32) -> Message {
    Message::GroupMod(GroupMod {
        command: GroupModCommand::Add,
        group_type: GroupType::All,
        group_id: GroupId(number),
        command_bucket: BucketId::ALL,
        selection: None,
        buckets: Vec::new(),
    })
}

/// A group that is there becomes this one. What is too long for one message comes in several.
pub(crate) fn group(
    number: u32,
    group: &GroupEntry,
    to: &mut dyn FnMut(Message) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let (kind, buckets) = (group.group_type, &group.buckets[..]);
    // Buckets that are all without weight can only be inserted.
    let weightless = kind == GroupType::Select
        && !buckets.is_empty()
        && buckets.iter().all(|bucket| bucket.weight == 0);
    let message = |command, buckets: &[Bucket]| {
        let inserts = command == GroupModCommand::InsertBucket;
        Message::GroupMod(GroupMod {
            command,
            group_type: kind,
            group_id: GroupId(number),
            command_bucket: if inserts { BucketId::LAST } else { BucketId::ALL },
            selection: group.selection.clone().filter(|_| !inserts),
            buckets: buckets.to_vec(),
        })
    };
    let mut at = if weightless { 0 } else { buckets.len() };
    loop {
        match to(message(GroupModCommand::Modify, &buckets[..at])) {
            Err(EncodeError::TooLong { .. }) if at > 1 => at /= 2,
            done => break done?,
        }
    }
    let mut step = buckets.len();
    while at < buckets.len() {
        let end = (at + step).min(buckets.len());
        match to(message(GroupModCommand::InsertBucket, &buckets[at..end])) {
            Err(EncodeError::TooLong { .. }) if step > 1 => step = (end - at).div_ceil(2),
            done => {
                done?;
                at = end;
            }
        }
    }
    Ok(())
}

/// An entry is added.
pub(crate) fn flow(table: u8, flow: &Flow) -> FlowMod {
    let keeps =
        FlowModFlags::SEND_FLOW_REM | FlowModFlags::NO_PKT_COUNTS | FlowModFlags::NO_BYT_COUNTS;
    FlowMod {
        dialect: VERSION,
        cookie: flow.cookie,
        table_id: TableId(table),
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        priority: flow.priority,
        flags: flow.flags & keeps,
        importance: flow.importance,
        ..FlowMod::add(flow.matching.clone(), flow.instructions.to_owned())
    }
}

/// The same with what is left of its time, a second at least.
pub(crate) fn flow_with_time_left(table: u8, of: &Flow, now_ns: u64) -> FlowMod {
    let mut again = flow(table, of);
    if of.hard_timeout != 0 {
        // The time before this process has been taken off already.
        let gone = now_ns.saturating_sub(of.created_ns) / 1_000_000_000;
        let left = u64::from(of.hard_timeout).saturating_sub(gone).max(1);
        again.hard_timeout = u16::try_from(left).unwrap_or(of.hard_timeout);
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tables::{self, Told, tell};
    use switch::EngineKind;

    /// Each take-over takes off what has passed since the one before, and no more.
    #[test]
    fn time_that_was_taken_off_is_not_taken_off_again() {
        let switch = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None).unwrap();
        let mut agent = tables::agent(&switch, Some(1)).unwrap();
        tell(&mut agent, Told::Flow, "hard_timeout=60,actions=drop", &|_| None).unwrap();
        let (_, flow) = agent.flows().iter(0).next().unwrap();
        let mut flow = flow.clone();
        flow.before_ns = 40_000_000_000;
        let left = |after_s: u64| {
            flow_with_time_left(0, &flow, flow.created_ns + after_s * 1_000_000_000).hard_timeout
        };
        assert_eq!([left(0), left(15), left(90)], [60, 45, 1]);
        switch.stop();
    }

    #[test]
    fn a_group_that_is_too_long_for_a_message_comes_in_several() {
        let switch = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None).unwrap();
        let mut agent = tables::agent(&switch, Some(1)).unwrap();
        let buckets: String = (1..=8).map(|n| format!(",bucket=actions=output:{n}")).collect();
        let line = format!("group_id=3,type=all{buckets}");
        tell(&mut agent, Told::Group, &line, &|_| None).unwrap();
        let entry = agent.groups().get(3).unwrap().clone();
        let mut messages = Vec::new();
        group(3, &entry, &mut |message| match &message {
            Message::GroupMod(one) if one.buckets.len() > 3 => {
                Err(EncodeError::TooLong { length: 70_000 })
            }
            _ => {
                messages.push(message);
                Ok(())
            }
        })
        .unwrap();
        assert!(messages.len() > 2, "{}", messages.len());
        let other = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None).unwrap();
        let mut again = tables::agent(&other, Some(1)).unwrap();
        again.handle(VERSION, no_group(3)).unwrap();
        for message in messages {
            again.handle(VERSION, message).unwrap();
        }
        assert_eq!(again.groups().get(3).unwrap().buckets, entry.buckets);
        [switch, other].iter().for_each(switch::Switch::stop);
    }
}
