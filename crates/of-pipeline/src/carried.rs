//! Counters and ages of entries, groups and meters that were taken over from another process.

use crate::agent::Agent;
use openflow::{Age, FlowStats, GroupStats, MeterStats};
use std::time::Duration;
use switch::CounterValue;

/// All ones stand for a count that is not known.
fn known(count: u64) -> u64 {
    if count == u64::MAX { 0 } else { count }
}

fn ns(age: Age) -> u64 {
    let age = Duration::new(age.sec.into(), age.nsec);
    u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)
}

impl Agent {
    /// The entry of this table, priority and match goes on from what another process tells of it: packets, bytes and age.
    /// False if it is not there. Its timeouts stay: what was left of them came with it.
    pub fn carry(&mut self, told: &FlowStats) -> bool {
        let flows = &mut self.stores.flows;
        let found = flows.find_strict(told.table_id.0, told.priority, &told.matching);
        let Some(key) = found else { return false };
        let (packets, bytes) = (known(told.packet_count), known(told.byte_count));
        flows.set_before(key, ns(told.age));
        self.env.switch.carry_counter(key.id, packets, bytes)
    }

    /// The same of a group. Its buckets go on, too, if it has as many as the other process tells of.
    pub fn carry_group(&mut self, told: &GroupStats) -> bool {
        let number = told.group_id.0;
        let Some(group) = self.stores.groups.get(number) else { return false };
        let carry = |counter: ir::CounterId, packets, bytes| {
            self.env.switch.carry_counter(counter.0, known(packets), known(bytes))
        };
        let done = carry(group.counter, told.packet_count, told.byte_count);
        if group.bucket_counters.len() == told.buckets.len() {
            for (counter, bucket) in group.bucket_counters.iter().zip(&told.buckets) {
                carry(*counter, bucket.packet_count, bucket.byte_count);
            }
        }
        self.stores.groups.set_before(number, ns(told.age));
        done
    }

    /// The same of a meter. Its bands go on, too, if it has as many as the other process tells of.
    pub fn carry_meter(&mut self, told: &MeterStats) -> bool {
        let number = told.meter_id.0;
        if !self.stores.meters.contains(number) {
            return false;
        }
        self.stores.meters.set_before(number, ns(told.age));
        let count = |packets, bytes| CounterValue {
            packets: known(packets),
            bytes: known(bytes),
            ..CounterValue::default()
        };
        let bands = told.bands.iter().map(|band| count(band.packet_count, band.byte_count));
        let counted = switch::MeterStats {
            input: count(told.packet_in_count, told.byte_in_count),
            bands: bands.collect(),
        };
        self.env.switch.carry_meter(ir::MeterId(number), &counted)
    }
}
