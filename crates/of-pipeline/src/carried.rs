//! Counters and ages of entries that were taken over from another process.

use crate::agent::Agent;
use openflow::FlowStats;
use std::time::Duration;

impl Agent {
    /// The entry of this table, priority and match goes on from what another process tells of it: packets, bytes and age.
    /// False if it is not there. Its timeouts stay: what was left of them came with it.
    pub fn carry(&mut self, told: &FlowStats) -> bool {
        let flows = &mut self.stores.flows;
        let found = flows.find_strict(told.table_id.0, told.priority, &told.matching);
        let Some(key) = found else { return false };
        let known = |count: u64| if count == u64::MAX { 0 } else { count };
        let (packets, bytes) = (known(told.packet_count), known(told.byte_count));
        let age = Duration::new(told.age.sec.into(), told.age.nsec);
        flows.set_before(key, u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        self.env.switch.carry_counter(key.id, packets, bytes)
    }
}
