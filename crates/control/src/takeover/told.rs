//! What a process says of its bridges before it hands any of them over: one object of JSON.

use super::wire::{One, Told};
use crate::bridges::Bridges;
use crate::controllers::openflow::OpenFlow;
use crate::controllers::p4::P4;
use crate::verbs::save::service_lines;

/// What there is. `given` are the services that the process was started with.
pub(crate) fn tell(bridges: &Bridges, given: &[String]) -> Result<Told, String> {
    let mut told = Told::default();
    for bridge in bridges.all() {
        let name = bridge.name().to_owned();
        let p4 = bridge.controllers().find::<P4>();
        match &p4 {
            Some(p4) => drop(p4.device()?),
            None if bridge.controllers().find::<OpenFlow>().is_none() => {
                return Err(format!("bridge {name:?} is programmed by nobody who hands it over"));
            }
            None => {}
        }
        let mut unsaid = Vec::new();
        let services = service_lines(&bridge, given, &mut unsaid);
        told.bridges.push(One { name, p4: p4.is_some(), services, unsaid });
    }
    Ok(told)
}
