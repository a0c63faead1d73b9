//! What of the agent outlives its process: which parts have changed since they were last kept.
//!
//! The stores note what changes, whatever request, packet or timeout changes it ([`Touched`] is the flow tables' observer). At
//! the end of a request, and of what is polled, the [`Keeper`] is told once of all of it. So what happens together is kept
//! together. The keeper looks into the agent for what the parts are now.
//!
//! Cost: nothing without a keeper; else one key for each change, and what the keeper does.

use crate::agent::{Agent, Keeping};
use crate::touched::{Numbers, Touched};
use openflow::{Message, PortConfig, PortMod, SwitchConfig, TableFeatures, TableId, TableMod};
use openflow::{MultipartRequest, MultipartRequestBody, PortFeatures, PortNo};
use std::mem::take;

pub use crate::agent::Keeper;
pub use crate::touched::{Changed, Written};

impl Agent {
    /// Tells this keeper of all that changes from now on.
    pub fn set_keeper(&mut self, keeper: Box<dyn Keeper>, written: Written) {
        self.keeping =
            Keeping { keeper: Some(keeper), written: Some(written), ..Keeping::default() };
        *self.stores.flows.touched() = Touched::begun();
        for numbers in [
            &mut self.stores.groups.touched,
            &mut self.stores.meters.touched,
            &mut self.stores.ports.touched,
        ] {
            *numbers = Numbers::begun();
        }
    }

    /// What whoever answers requests is to call first.
    pub fn written(&self) -> Option<Written> {
        self.keeping.written.clone()
    }

    /// Tells the keeper what has changed, if anything has.
    pub(crate) fn keep(&mut self) {
        let Some(mut keeper) = self.keeping.keeper.take() else { return };
        let mut flows = self.stores.flows.touched().take();
        flows.sort_unstable();
        flows.dedup();
        let changed = Changed {
            flows,
            groups: self.stores.groups.touched.take(),
            meters: self.stores.meters.touched.take(),
            ports: self.stores.ports.touched.take(),
            tables: take(&mut self.keeping.tables),
            settings: take(&mut self.keeping.settings),
            options: take(&mut self.keeping.options),
        };
        if !changed.is_empty() {
            keeper.keep(self, changed);
        }
        self.keeping.keeper = Some(keeper);
    }

    /// What controllers have set of the switch.
    pub fn set_config(&self) -> SwitchConfig {
        self.settings.config()
    }

    /// Messages of 1.5 that make the tables of another agent what these are; none if nothing was set.
    pub fn table_messages(&self) -> Vec<Message> {
        use crate::features::TABLE_FIRST_EGRESS;
        let configs = &self.stores.tables;
        let count = self.stores.flows.tables() as u8;
        let most = self.env.config.entries_max();
        let is_set = |table: u8| {
            configs.get(table).is_some_and(|config| {
                config.gone || config.capacity != most || !config.name.is_empty()
            })
        };
        let mut messages = Vec::new();
        if configs.first_egress.is_some() || (0..count).any(is_set) {
            let features = |table: u8| TableFeatures {
                table_id: TableId(table),
                name: configs.get(table).map_or_else(String::new, |config| config.name.clone()),
                max_entries: configs.capacity(table),
                features: match configs.first_egress == Some(table) {
                    true => TABLE_FIRST_EGRESS,
                    false => 0,
                },
                ..TableFeatures::default()
            };
            let body =
                MultipartRequestBody::TableFeatures(configs.tables().map(features).collect());
            messages.push(Message::MultipartRequest(MultipartRequest { more: false, body }));
        }
        for table in configs.tables() {
            let desc = configs.desc(table, &self.stores.flows);
            if desc.config != 0 {
                messages.push(Message::TableMod(TableMod {
                    table_id: desc.table_id,
                    config: desc.config,
                    eviction: None,
                    vacancy: desc.vacancy,
                }));
            }
        }
        messages
    }

    /// Ports that controllers have configured.
    pub fn configured_ports(&self) -> Vec<u32> {
        let ports = self.port_descs();
        let set = |config: PortConfig| !config.is_empty();
        ports.iter().filter(|port| set(port.config)).map(|port| port.port_no.0).collect()
    }

    /// What is configured of a port, as a message that does it again, and the port's name.
    pub fn port_message(&self, port: u32) -> Option<(PortMod, String)> {
        let desc = self.port_descs().into_iter().find(|desc| desc.port_no == PortNo(port))?;
        let message = PortMod {
            port_no: desc.port_no,
            hw_addr: desc.hw_addr,
            config: desc.config,
            mask: PortConfig::all(),
            advertise: PortFeatures::empty(),
        };
        Some((message, desc.name))
    }
}
