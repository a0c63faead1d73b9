//! Tunnel ports as controllers see them: the map of Geneve options to fields, and who may use which.
//!
//! In: ports whose frames have a descriptor, and `NXT_TLV_TABLE_MOD`. Out: the map that the program and the tunnel ports lay
//! descriptors out by. The program knows of tunnels from the first such port on, or from the first option in the map.
//!
//! Holds true: every entry, group and packet-out names only options that are in the map, and each mask has only bits that its
//! option has. So an option in use cannot go.
//! Cost: a request that names no option pays a look at its fields; one that takes options away, a look at all entries.

use crate::agent::Agent;
use crate::flow::actions;
use crate::refusal::Refusal;
use crate::stores::Stores;
use crate::transaction::Change;
use contract::tunnel::{OPTION_LEN_MAX, OPTIONS, OPTIONS_LEN, OptionMap};
use openflow::{Action, FieldId, Match, TlvMapping, TlvTableCommand, TlvTableMod, TlvTableReply};
use std::fmt;
use std::sync::Arc;

/// Takes the map each time that it changes. It must not wait.
pub type OptionsFollower = Box<dyn Fn(&Arc<OptionMap>) + Send>;

/// What there is for tunnel ports.
#[derive(Default)]
pub(crate) struct Tunnels {
    /// There is a tunnel port, or was one.
    ports: bool,
    map: Arc<OptionMap>,
    /// Numbers of maps that there were.
    numbers: u16,
    follower: Option<OptionsFollower>,
}

impl fmt::Debug for Tunnels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnels").field("ports", &self.ports).field("map", &self.map).finish()
    }
}

impl Tunnels {
    /// A tunnel port is there.
    pub(crate) fn see_port(&mut self) {
        self.ports = true;
    }

    /// What the program is to have for them.
    pub(crate) fn wanted(&self) -> Option<Arc<OptionMap>> {
        (self.ports || !self.map.is_empty()).then(|| self.map.clone())
    }

    /// The octets of a field's option.
    fn len(&self, field: FieldId, index: u8) -> Result<u8, Refusal> {
        let option = self.map.by_index(index).ok_or(Refusal::NoOption { field })?;
        Ok(option.len)
    }

    fn check_match(&self, matching: &mut Match) -> Result<(), Refusal> {
        let fields: Vec<_> =
            matching.iter().filter_map(|f| Some((*f, f.id.tun_metadata()?))).collect();
        for (field, index) in fields {
            let len = self.len(field.id, index)?;
            let all = u128::MAX >> (128 - 8 * u32::from(len));
            if field.value & !all != 0 {
                return Err(Refusal::OptionValue { field: field.id, value: field.value, len });
            }
            matching.set_masked(field.id, field.value, field.mask & all);
        }
        Ok(())
    }

    fn check_actions(&self, list: &[Action]) -> Result<(), Refusal> {
        Action::flat(list).try_for_each(|action| {
            let mut found = Ok(());
            action.fields(&mut |_, field| {
                if let (Some(index), Ok(())) = (field.tun_metadata(), &found) {
                    found = self.len(field, index).map(drop);
                }
            });
            found
        })
    }

    /// Options that a request names are in the map; its masks become those of the options.
    pub(crate) fn check(&self, change: &mut Change) -> Result<(), Refusal> {
        match change {
            Change::Flow(request) | Change::Emergency(request) => {
                self.check_match(&mut request.matching)?;
                crate::flow::lists(&request.instructions)
                    .try_for_each(|list| self.check_actions(list))
            }
            Change::Group(request) => {
                request.buckets.iter().try_for_each(|bucket| self.check_actions(&bucket.actions))
            }
            Change::Packet(request) => self.check_actions(&request.actions),
            Change::Meter(_) | Change::Port(_) => Ok(()),
        }
    }

    /// The map as a request makes it.
    fn changed(&self, request: &TlvTableMod, stores: &Stores) -> Result<OptionMap, Refusal> {
        let mut options: Vec<(u8, u16, u8, u8)> =
            self.map.options().iter().map(|o| (o.index, o.class, o.kind, o.len)).collect();
        let gone = match request.command {
            TlvTableCommand::Add => {
                for mapping in &request.mappings {
                    add(&mut options, mapping)?;
                }
                Vec::new()
            }
            TlvTableCommand::Delete => {
                let named = |index: &u8| {
                    request.mappings.iter().any(|mapping| mapping.index == u16::from(*index))
                };
                options.extract_if(.., |(index, ..)| named(index)).map(|o| o.0).collect()
            }
            TlvTableCommand::Clear => options.drain(..).map(|option| option.0).collect(),
        };
        if !gone.is_empty()
            && let Some(field) = stores.uses_option(&gone)
        {
            return Err(Refusal::OptionUsed { field });
        }
        // 0 is the empty map's; of the others none is like the one before.
        let number = if options.is_empty() { 0 } else { self.numbers.wrapping_add(1).max(1) };
        let map = OptionMap::new(number, &options);
        map.ok_or(Refusal::OptionSpace { max: OPTIONS_LEN })
    }
}

/// A mapping joins the others.
fn add(options: &mut Vec<(u8, u16, u8, u8)>, mapping: &TlvMapping) -> Result<(), Refusal> {
    let &TlvMapping { class, kind, len, index } = mapping;
    if usize::from(index) >= OPTIONS {
        return Err(Refusal::OptionIndex { index });
    }
    if len == 0 || !len.is_multiple_of(4) || len > OPTION_LEN_MAX {
        return Err(Refusal::OptionLength { len, max: OPTION_LEN_MAX });
    }
    if options.iter().any(|option| u16::from(option.0) == index) {
        return Err(Refusal::OptionMapped { index });
    }
    if options.iter().any(|option| (option.1, option.2) == (class, kind)) {
        return Err(Refusal::OptionTwice { class, kind });
    }
    options.push((index as u8, class, kind, len));
    Ok(())
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
        let map = self.stores.tunnels.changed(request, &self.stores)?;
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
