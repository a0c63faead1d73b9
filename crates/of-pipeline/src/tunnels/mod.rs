//! Tunnel ports as controllers see them: the map of Geneve options to fields, and who may use which.
//!
//! In: ports whose frames have a descriptor, and `NXT_TLV_TABLE_MOD`. Out: the map that the program and the tunnel ports lay
//! descriptors out by. The program knows of tunnels from the first such port on, or from the first option in the map.
//!
//! Holds true: every entry, group and packet-out names only options that are in the map, and each mask has only bits that its
//! option has. So an option in use cannot go.
//! Cost: a request that names no option pays a look at its fields; one that takes options away, a look at all entries.

pub(crate) mod map;

pub use map::OptionsFollower;

use crate::agent::Agent;
use crate::flow::actions;
use crate::refusal::Refusal;
use crate::stores::Stores;
use crate::transaction::Change;
use contract::tunnel::{OPTIONS, OPTIONS_LEN};
use map::Tunnels;
use openflow::{Action, FieldId, TlvMapping, TlvTableMod, TlvTableReply};
use std::sync::Arc;

impl Change {
    /// Options that a request names are in the map; its masks become those of the options.
    pub(crate) fn check_options(&mut self, tunnels: &Tunnels) -> Result<(), Refusal> {
        match self {
            Change::Flow(request) | Change::Emergency(request) => {
                tunnels.check_match(&mut request.matching)?;
                crate::flow::lists(&request.instructions)
                    .try_for_each(|list| tunnels.check_actions(list))
            }
            Change::Group(request) => {
                request.buckets.iter().try_for_each(|bucket| tunnels.check_actions(&bucket.actions))
            }
            Change::Packet(request) => tunnels.check_actions(&request.actions),
            Change::Meter(_) | Change::Port(_) => Ok(()),
        }
    }
}

impl Stores {
    /// A field of one of these options that an entry or a group names.
    fn uses_option(&self, gone: &[u8]) -> Option<FieldId> {
        let is_gone = |field: FieldId| field.tun_metadata().is_some_and(|i| gone.contains(&i));
        let named = |list: &mut dyn Iterator<Item = &Action>| {
            let mut found = None;
            list.for_each(|action| {
                action.fields(&mut |_, field| found = found.or(is_gone(field).then_some(field)));
            });
            found
        };
        let tables = (0..self.flows.tables()).flat_map(|table| self.flows.iter(table as u8));
        let of_flow = tables.map(|(_, flow)| flow).find_map(|flow| {
            let matched = flow.matching.iter().map(|f| f.id).find(|id| is_gone(*id));
            matched.or_else(|| named(&mut actions(&flow.instructions)))
        });
        of_flow.or_else(|| {
            self.groups.iter().find_map(|(_, group)| {
                let buckets = group.buckets.iter();
                buckets.map(|b| named(&mut Action::flat(&b.actions))).find_map(|found| found)
            })
        })
    }
}

impl Agent {
    /// The map of Geneve options goes there each time that it changes, and now.
    pub fn set_options_follower(&mut self, follower: OptionsFollower) {
        follower(&self.stores.tunnels.map);
        self.stores.tunnels.follower = Some(follower);
    }

    /// Executes `NXT_TLV_TABLE_MOD`.
    pub fn change_options(&mut self, request: &TlvTableMod) -> Result<(), Refusal> {
        let used = |gone: &[u8]| self.stores.uses_option(gone);
        let map = self.stores.tunnels.changed(request, used)?;
        if map.options() == self.stores.tunnels.map.options() {
            return Ok(());
        }
        let numbers = map.number.max(self.stores.tunnels.numbers);
        let before = std::mem::replace(&mut self.stores.tunnels.map, Arc::new(map));
        if let Err(refusal) = self.follow_tunnels() {
            self.stores.tunnels.map = before;
            return Err(refusal);
        }
        self.stores.tunnels.numbers = numbers;
        self.tell_options();
        self.keeping.options();
        self.keep();
        Ok(())
    }

    pub(crate) fn tell_options(&self) {
        if let Some(follower) = &self.stores.tunnels.follower {
            follower(&self.stores.tunnels.map);
        }
    }

    /// The answer to `NXT_TLV_TABLE_REQUEST`.
    pub fn options(&self) -> TlvTableReply {
        let options = self.stores.tunnels.map.options().iter();
        TlvTableReply {
            max_option_space: OPTIONS_LEN as u32,
            max_fields: OPTIONS as u16,
            mappings: options
                .map(|o| TlvMapping {
                    class: o.class,
                    kind: o.kind,
                    len: o.len,
                    index: o.index.into(),
                })
                .collect(),
        }
    }
}
