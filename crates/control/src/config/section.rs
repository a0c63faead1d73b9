//! A section `[[bridge]]` of a configuration file.

use super::diff::BridgeSetup;
use super::words::{FailModeName, datapath_id, protocols};
use crate::bridges::config::{BridgeConfig, PortConfig};
use crate::failure::Failure;
use crate::normal::learning::Learning;
use crate::normal::vlan::of_named_port;
use crate::port_kinds;
use crate::program::entries::Entries;
use of_channel::{FailMode, Listen, Target};
use std::path::PathBuf;

/// A bridge beside the first one.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct BridgeSection {
    pub(super) name: String,
    #[serde(default)]
    pub(super) port: Vec<String>,
    #[serde(default)]
    pub(super) vlan: Vec<String>,
    #[serde(default)]
    pub(super) mirror: Vec<String>,
    pub(super) normal: Option<String>,
    #[serde(default)]
    pub(super) bond: Vec<String>,
    #[serde(default)]
    pub(super) controller: Vec<String>,
    #[serde(default)]
    pub(super) listen: Vec<String>,
    pub(super) snoop: Option<PathBuf>,
    pub(super) datapath_id: Option<String>,
    pub(super) fail_mode: Option<FailModeName>,
    pub(super) protocols: Option<String>,
    #[serde(default)]
    pub(super) flow: Vec<String>,
    #[serde(default)]
    pub(super) group: Vec<String>,
    #[serde(default)]
    pub(super) meter: Vec<String>,
}

impl BridgeSection {
    /// What it says, over what the first bridge's controllers are spoken to by.
    pub(super) fn read(self, channel: &of_channel::Config) -> Result<BridgeSetup, Failure> {
        let name = self.name;
        let failed = |e: &dyn std::fmt::Display| Failure::Usage(format!("bridge {name:?}: {e}"));
        let ports = self.port.iter().map(|text| {
            let spec =
                port_kinds::parse(text).map_err(|e| failed(&format!("port {text:?}: {e}")))?;
            Ok(PortConfig::of_spec(&spec))
        });
        let mut ports = ports.collect::<Result<Vec<_>, Failure>>()?;
        for text in &self.vlan {
            let (name, vlan) = of_named_port(text).map_err(|e| failed(&e))?;
            let port = ports.iter_mut().find(|port| port.name == name);
            port.ok_or_else(|| failed(&format!("vlan {text:?}: there is no port {name}")))?.vlan =
                vlan;
        }
        let mirrors = self.mirror.iter().map(|text| text.parse().map_err(|e| failed(&e)));
        let mirrors = mirrors.collect::<Result<_, _>>()?;
        let learning = self.normal.map(|text| text.parse::<Learning>().map_err(|e| failed(&e)));
        let learning = learning.transpose()?.unwrap_or_default();
        let bonds = self.bond.iter().map(|text| text.parse().map_err(|e| failed(&e)));
        let bonds = bonds.collect::<Result<_, _>>()?;
        let controllers = self.controller.iter().map(|s| s.parse::<Target>());
        let listeners = self.listen.iter().map(|s| s.parse::<Listen>());
        let channel = of_channel::Config {
            controllers: controllers.collect::<Result<_, _>>().map_err(|e| failed(&e))?,
            listeners: listeners.collect::<Result<_, _>>().map_err(|e| failed(&e))?,
            snoop: self.snoop,
            fail_mode: self.fail_mode.map_or(channel.fail_mode, FailMode::from),
            protocols: match &self.protocols {
                Some(list) => protocols(list)?,
                None => channel.protocols,
            },
            ..channel.clone()
        };
        let datapath_id = self.datapath_id.map(|id| datapath_id(&id)).transpose()?;
        let named = BridgeConfig::named(&name);
        let bridge = BridgeConfig { datapath_id, channel, mirrors, learning, bonds, ..named };
        let (meters, groups, flows) = (self.meter, self.group, self.flow);
        let entries = Entries { meters, groups, flows, p4: Vec::new() };
        Ok(BridgeSetup { bridge, ports, entries })
    }
}
