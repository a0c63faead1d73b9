//! The switch made as a configuration wants it.

use super::bonds::BondConfig;
use super::wanted::{self, Row, Wanted, extras};
use super::{NormalConfig, NormalRefusal};
use crate::agent::Agent;
use crate::refusal::Refusal;
use crate::stage::Batch;
use ir::{CounterId, Entry, EntryId, Group, GroupKind, Update};
use of_lower::normal::config::Extras;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn insert(row: &Row, id: u32) -> Update {
    let entry = Entry {
        id: EntryId(id),
        priority: row.priority,
        matches: row.matches.clone(),
        action: row.action.clone(),
        cookie: 0,
        idle_timeout_ns: 0,
        hard_timeout_ns: 0,
    };
    Update::Insert(row.table, Arc::new(entry))
}

/// `counter` counts for what nobody reads.
fn group(
    wanted: &wanted::Group,
    counter: CounterId,
    slots: &BTreeMap<u32, Vec<CounterId>>,
) -> Arc<Group> {
    let own = wanted.slots.as_ref().and_then(|(place, _)| slots.get(place));
    let bucket = |(at, action): (usize, &ir::ActionCall)| ir::Bucket {
        weight: 0,
        watch_port: None,
        watch_group: None,
        action: action.clone(),
        counter: own.and_then(|own| own.get(at)).copied().unwrap_or(counter),
    };
    Arc::new(Group {
        kind: if wanted.slots.is_some() { GroupKind::Slots } else { GroupKind::All },
        buckets: wanted.buckets.iter().enumerate().map(bucket).collect(),
        hash: wanted.slots.as_ref().map_or_else(|| [].into(), |(_, hash)| hash.clone()),
        counter,
    })
}

/// Updates from what is there to what is wanted.
fn difference(
    tx: &mut Batch<'_>,
    before: &super::Vlans,
    wanted: &Wanted,
    (counter, slots): (CounterId, &BTreeMap<u32, Vec<CounterId>>),
) -> Result<Vec<(Row, u32)>, Refusal> {
    // By what may be there once.
    let key = |row: &Row| (row.table, row.priority, row.matches.clone());
    let mut there: BTreeMap<_, Vec<&(Row, u32)>> = BTreeMap::new();
    for old in &before.rows {
        there.entry(order(&old.0)).or_default().push(old);
    }
    let (mut rows, mut inserts, mut kept) = (Vec::new(), Vec::new(), BTreeSet::new());
    for row in &wanted.rows {
        let same = there.get(&order(row)).into_iter().flatten();
        let old = same.into_iter().find(|(old, _)| key(old) == key(row));
        match old {
            Some((old, id)) if old == row => {
                kept.insert(*id);
                rows.push((row.clone(), *id));
            }
            _ => {
                let id = tx.take_entry_id()?.0;
                inserts.push(insert(row, id));
                rows.push((row.clone(), id));
            }
        }
    }
    for (row, id) in before.rows.iter().filter(|(_, id)| !kept.contains(id)) {
        tx.push(Update::Delete(row.table, EntryId(*id)));
        tx.spend(*id);
    }
    let groups = wanted.groups.iter();
    for (id, wanted) in groups.filter(|(id, wanted)| before.groups.get(id) != Some(wanted)) {
        tx.push(Update::SetGroup(*id, group(wanted, counter, slots)));
    }
    inserts.into_iter().for_each(|update| tx.push(update));
    for id in before.groups.keys().filter(|id| !wanted.groups.contains_key(id)) {
        tx.push(Update::RemoveGroup(*id));
    }
    Ok(rows)
}

/// Something to sort rows by.
fn order(row: &Row) -> (u32, i32, String) {
    (row.table.0, row.priority, format!("{:?}", row.matches))
}

impl Agent {
    /// Bonds are these from now on; ports' VLANs and mirrors stay.
    pub fn set_bonds(&mut self, bonds: Vec<BondConfig>) -> Result<(), NormalRefusal> {
        let config = NormalConfig { bonds, ..self.vlans.config.clone() };
        self.set_normal_config(config)
    }

    /// Bytes that each slot of a bond has sent, if it balances.
    pub fn bond_slot_bytes(&self, place: u32) -> Option<Vec<u64>> {
        let counters: &Vec<CounterId> = self.vlans.slots.get(&place)?;
        let reader = self.env.switch.counters();
        let bytes = |counter: &CounterId| reader.read(counter.0).map_or(0, |value| value.bytes);
        Some(counters.iter().map(bytes).collect())
    }

    /// What NORMAL and mirrors are told.
    pub fn normal_config(&self) -> &NormalConfig {
        &self.vlans.config
    }

    /// Packets and bytes that a mirror has copied, by its place in the configuration.
    pub fn mirror_counts(&self, mirror: usize) -> Option<(u64, u64)> {
        if mirror >= self.vlans.config.mirrors.len() {
            return None;
        }
        let array = self.env.layout.headers.mirror_counter;
        self.env.switch.array_counter(array, mirror as u32)
    }

    /// VLANs of ports and mirrors are these from now on. Nothing changes where that is refused.
    pub fn set_normal_config(&mut self, config: NormalConfig) -> Result<(), NormalRefusal> {
        config.check(self.env.config.program.normal_capacity)?;
        if config == self.vlans.config {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.vlans.config, config);
        let fixed = self.forget_changed(&before);
        if before.stations != self.vlans.config.stations {
            self.stations.set_bounds(&self.env, &mut self.stage);
        }
        let done = self.follow_normal_config();
        if let Err(refusal) = done {
            let new = std::mem::replace(&mut self.vlans.config, before);
            self.forget_changed(&new);
            if new.stations != self.vlans.config.stations {
                self.stations.set_bounds(&self.env, &mut self.stage);
            }
            self.stations.fix_again(&self.env, &mut self.stage, fixed);
            return Err(NormalRefusal::Refused(refusal.to_string()));
        }
        self.stations.fix_again(&self.env, &mut self.stage, fixed);
        Ok(())
    }

    /// Stations of ports whose VLANs have changed may be in others now. Returns those that are to be put where they were
    /// once the program is another.
    fn forget_changed(&mut self, before: &NormalConfig) -> Vec<((u16, u64), u32)> {
        let now = &self.vlans.config;
        let bonds = now.moved(before);
        let all: BTreeSet<u32> = self.stores.ports.numbers().chain(bonds.iter().copied()).collect();
        let changed = all.into_iter().filter(|port| {
            bonds.contains(port)
                || before.ports.get(port) != now.ports.get(port)
                || before.is_mirrors(*port) != now.is_mirrors(*port)
        });
        let changed: Vec<u32> = changed.collect();
        self.stations.set_vlans(&self.vlans.config);
        let by_source = |config: &NormalConfig| config.bonds.iter().any(|bond| bond.by_source);
        if by_source(now) != by_source(before) {
            let mut fixed = self.stations.fixed();
            fixed.retain(|(_, port)| !changed.contains(port));
            self.stations.forget_all(&self.env, &mut self.stage, true);
            return fixed;
        }
        for port in changed {
            self.stations.forget_port(&self.env, &mut self.stage, port, true);
        }
        Vec::new()
    }

    /// After ports may have come, gone or changed: rows and groups are theirs.
    pub(crate) fn follow_ports_with_vlans(&mut self) {
        let changed = self.vlans.ports_seen != self.stores.ports.changes;
        if changed
            && self.vlans.config.has_tables()
            && let Err(refusal) = self.follow_normal_config()
        {
            tracing::error!(%refusal, "VLANs and mirrors do not follow the ports");
        }
    }

    fn wanted_extras(&self) -> Extras {
        Extras {
            tunnels: self.stores.tunnels.wanted(),
            answers: self.answers_wanted(),
            ..extras(&self.vlans.config, &self.stores.ports, self.stores.tables.first_egress)
        }
    }

    /// Services of the switch own addresses that are answered for.
    fn answers_wanted(&self) -> bool {
        let services = self.env.switch.services();
        services.elements().is_some_and(|elements| elements.answers().any())
    }

    /// After services have come or gone: the program answers for their addresses, if they have any.
    ///
    /// # Errors
    /// If the switch did not take the program; it runs the one before.
    pub fn follow_services(&mut self) -> Result<(), NormalRefusal> {
        if self.vlans.extras.answers != self.answers_wanted() {
            self.set_program().map_err(|refusal| NormalRefusal::Refused(refusal.to_string()))?;
        }
        Ok(())
    }

    /// The program has for tunnel ports what there is to be.
    pub(crate) fn follow_tunnels(&mut self) -> Result<(), Refusal> {
        match self.vlans.extras.tunnels == self.stores.tunnels.wanted() {
            true => return Ok(()),
            false => self.set_program()?,
        }
        let octets = self.stores.tunnels.wanted().map_or(0, |map| map.descriptor_len());
        self.env.switch.set_descriptor(octets as u32);
        Ok(())
    }

    fn follow_normal_config(&mut self) -> Result<(), Refusal> {
        if self.wanted_extras() != self.vlans.extras {
            self.set_program()?;
        }
        let (ports, hashes) = (&self.stores.ports, &mut self.vlans.hashes);
        let wanted = Wanted::of(&self.vlans.config, ports, &self.env.layout, hashes);
        let mut tx = Batch::new(&self.env.switch, &mut self.stage);
        let counter = match self.vlans.counter {
            Some(counter) => counter,
            None => tx.take_group_counter()?,
        };
        let mut slots = BTreeMap::new();
        for (place, count) in wanted.slots() {
            let own = match self.vlans.slots.get(&place) {
                Some(own) if own.len() == count => own.clone(),
                _ => (0..count).map(|_| tx.take_group_counter()).collect::<Result<_, _>>()?,
            };
            slots.insert(place, own);
        }
        for (place, own) in &self.vlans.slots {
            if slots.get(place) != Some(own) {
                own.iter().for_each(|counter| tx.spend(counter.0));
            }
        }
        let rows = difference(&mut tx, &self.vlans, &wanted, (counter, &slots))?;
        tx.commit()?.retire(&self.env.switch);
        self.vlans.slots = slots;
        self.vlans.counter = Some(counter);
        self.vlans.rows = rows;
        self.vlans.groups = wanted.groups;
        self.vlans.ports_seen = self.stores.ports.changes;
        Ok(())
    }

    /// Has the switch run the program for egress tables, VLANs and mirrors as they are asked for now, with all that it holds.
    pub(crate) fn set_program(&mut self) -> Result<(), Refusal> {
        let extras = self.wanted_extras();
        let (program, layout) = of_lower::program_of(&self.env.config.program, &extras);
        let layout = Arc::new(layout);
        let (ports, hashes) = (&self.stores.ports, &mut self.vlans.hashes);
        let wanted = Wanted::of(&self.vlans.config, ports, &layout, hashes);
        let before = std::mem::replace(&mut self.env.layout, layout);
        self.stage.set_layout(self.env.layout.clone());
        let mut taken = Vec::new();
        let done = self.install(program, &wanted, &mut taken);
        match done {
            Ok(counter) => {
                self.vlans.rows.drain(..).for_each(|(_, id)| self.env.switch.retire_counter(id));
                self.vlans.rows = wanted.rows.into_iter().zip(taken).collect();
                // Those whose slots have no counters yet are told again.
                let counted = |group: &wanted::Group| {
                    let place = group.slots.as_ref().map(|(place, _)| place);
                    place.is_none_or(|place| self.vlans.slots.contains_key(place))
                };
                let groups = wanted.groups.into_iter().filter(|(_, group)| counted(group));
                self.vlans.groups = groups.collect();
                self.vlans.counter = counter;
                self.vlans.extras = extras;
                self.vlans.ports_seen = self.stores.ports.changes;
                Ok(())
            }
            Err(refusal) => {
                taken.into_iter().for_each(|id| self.env.switch.retire_counter(id));
                self.env.layout = before;
                self.stage.set_layout(self.env.layout.clone());
                Err(refusal)
            }
        }
    }

    fn install(
        &mut self,
        program: ir::Program,
        wanted: &Wanted,
        taken: &mut Vec<u32>,
    ) -> Result<Option<CounterId>, Refusal> {
        let switch = &self.env.switch;
        let ours = &self.vlans;
        let mut updates = switch.with_pipeline(|pipeline| pipeline.contents());
        // Rows and groups are put in anew: their tables need not be there any more.
        let tables: BTreeSet<_> = ours.rows.iter().map(|(row, _)| row.table).collect();
        updates.retain(|update| match update {
            Update::Insert(table, _) => !tables.contains(table),
            Update::SetGroup(id, _) => !ours.groups.contains_key(id),
            _ => true,
        });
        for update in &mut updates {
            if let Update::AddAction(id, body) = update
                && let Some(new) = self.stage.action(*id)
            {
                *body = new.clone();
            }
        }
        updates.insert(0, Update::SetProgram(Arc::new(program)));
        let take = || {
            let code = openflow::ErrorCode::FmfcTableFull;
            let taken = switch.allocate_counter();
            taken.map_err(|full| Refusal::CountersFull { ids_max: full.ids_max, code })
        };
        let mut counter = ours.counter;
        if counter.is_none() && !wanted.groups.is_empty() {
            counter = Some(CounterId(take()?));
        }
        for row in &wanted.rows {
            let id = take()?;
            taken.push(id);
            updates.push(insert(row, id));
        }
        let groups = wanted.groups.iter().filter_map(|(id, group)| Some((id, group, counter?)));
        // Whoever floods comes before: groups need not be there yet.
        let groups = groups
            .map(|(id, one, counter)| Update::SetGroup(*id, group(one, counter, &ours.slots)));
        updates.extend(groups);
        match switch.transact(&updates) {
            Ok(_) => Ok(counter),
            Err((at, error)) => {
                if let (None, Some(counter)) = (ours.counter, counter) {
                    switch.retire_counter(counter.0);
                }
                Err(Refusal::Pipeline { at, error: Box::new(error) })
            }
        }
    }
}
