//! What requests are executed with.

use crate::config::AgentConfig;
use of_lower::Layout;
use openflow::ElementName;
use std::sync::Arc;
use switch::Switch;

/// The switch, and what does not change with requests but its program.
pub(crate) struct Env {
    pub(crate) switch: Switch,
    pub(crate) config: AgentConfig,
    /// The ids of the program's parts.
    pub(crate) layout: Arc<Layout>,
}

impl Env {
    /// The services that flows may name: whether the one of a name may write packets.
    pub(crate) fn elements(&self) -> impl Fn(&ElementName) -> Option<bool> + use<> {
        let list = self.switch.services().elements().cloned();
        move |name| {
            let element = list.as_ref()?.get(name.number());
            element.filter(|e| e.name == name.as_str()).map(|e| e.edits())
        }
    }
}
