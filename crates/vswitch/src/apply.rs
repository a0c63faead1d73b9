//! Does the steps, and keeps what was done and what was refused.
//!
//! A step that is refused does not keep the others from being done. It comes again in the next [`diff`](crate::diff), since
//! the switch still lacks it; so an interface that appears later is taken then.

use crate::actual::{Actual, ActualBridge, ActualInterface, Refusals};
use crate::diff::{Opening, Step};
use crate::switch::Switch;

/// Does steps in order. Says what was refused.
pub fn apply(switch: &dyn Switch, actual: &mut Actual, steps: Vec<Step>) -> Refusals {
    let mut refusals = Refusals::default();
    for step in steps {
        one(switch, actual, step, &mut refusals);
    }
    refusals
}

fn one(switch: &dyn Switch, actual: &mut Actual, step: Step, refusals: &mut Refusals) {
    // A bridge that was refused has no parts; its refusal stands for them.
    match step {
        Step::Timeouts(policies) => {
            switch.set_timeouts(&policies);
            actual.timeouts = policies;
        }
        Step::ZoneLimits(limits) => {
            switch.set_zone_limits(&limits);
            actual.zone_limits = limits;
        }
        Step::AddBridge(settings) => match switch.add_bridge(&settings) {
            Ok(()) => {
                let bridge = ActualBridge { settings: settings.clone(), ..Default::default() };
                actual.bridges.insert(settings.name, bridge);
            }
            Err(why) => drop(refusals.bridges.insert(settings.name, why)),
        },
        Step::SetBridge(settings) => match switch.set_bridge(&settings) {
            Ok(()) => {
                if let Some(bridge) = actual.bridges.get_mut(&settings.name) {
                    bridge.settings = settings;
                }
            }
            Err(why) => drop(refusals.bridges.insert(settings.name, why)),
        },
        Step::RemoveBridge(name) => match switch.remove_bridge(&name) {
            Ok(()) => drop(actual.bridges.remove(&name)),
            Err(why) => drop(refusals.bridges.insert(name, why)),
        },
        other => within(switch, actual, other, refusals),
    }
}

fn within(switch: &dyn Switch, actual: &mut Actual, step: Step, refusals: &mut Refusals) {
    let name = match &step {
        Step::Mirrors(bridge, _)
        | Step::RemoveInterface(bridge, _)
        | Step::RemovePort(bridge, _)
        | Step::AddInterface(bridge, _)
        | Step::SetInterface(bridge, _)
        | Step::PreparePort(bridge, _)
        | Step::SetPort(bridge, _)
        | Step::Controllers(bridge, _) => bridge.clone(),
        Step::Timeouts(_)
        | Step::ZoneLimits(_)
        | Step::AddBridge(_)
        | Step::SetBridge(_)
        | Step::RemoveBridge(_) => {
            return;
        }
    };
    let Some(bridge) = actual.bridges.get_mut(&name) else { return };
    match step {
        Step::RemoveInterface(_, interface) => match switch.remove_interface(&name, &interface) {
            Ok(()) => {
                if let Some(gone) = bridge.interfaces.remove(&interface) {
                    bridge.numbers.give_back(gone.number);
                }
            }
            Err(why) => drop(refusals.interfaces.insert(interface, why)),
        },
        Step::RemovePort(_, port) => match switch.remove_port(&name, &port) {
            Ok(()) => drop(bridge.ports.remove(&port)),
            Err(why) => drop(refusals.ports.insert(port, why)),
        },
        Step::PreparePort(_, settings) => {
            if let Err(why) = switch.prepare_port(&name, &settings) {
                refusals.ports.insert(settings.name, why);
            }
        }
        Step::AddInterface(_, opening) => open(switch, &name, bridge, opening, refusals),
        Step::SetInterface(_, settings) => match switch.set_interface(&name, &settings) {
            Ok(()) => {
                if let Some(interface) = bridge.interfaces.get_mut(&settings.name) {
                    interface.settings = settings;
                }
            }
            Err(why) => drop(refusals.interfaces.insert(settings.name, why)),
        },
        Step::SetPort(_, settings) => {
            let mut settings = settings;
            // Of a bond some may be open; it is told again when the others are.
            settings.interfaces.retain(|name| bridge.interfaces.contains_key(name));
            let told = bridge.ports.get(&settings.name) == Some(&settings);
            if settings.interfaces.is_empty() || told {
                return;
            }
            match switch.set_port(&name, &settings) {
                Ok(()) => drop(bridge.ports.insert(settings.name.clone(), settings)),
                Err(why) => drop(refusals.ports.insert(settings.name, why)),
            }
        }
        Step::Mirrors(_, mirrors) => match switch.set_mirrors(&name, &mirrors) {
            Ok(()) => bridge.mirrors = mirrors,
            Err(why) => drop(refusals.bridges.insert(name, why)),
        },
        Step::Controllers(_, controllers) => match switch.set_controllers(&name, &controllers) {
            Ok(()) => bridge.controllers = controllers,
            Err(why) => drop(refusals.bridges.insert(name, why)),
        },
        Step::Timeouts(_)
        | Step::ZoneLimits(_)
        | Step::AddBridge(_)
        | Step::SetBridge(_)
        | Step::RemoveBridge(_) => {}
    }
}

fn open(
    switch: &dyn Switch,
    name: &str,
    bridge: &mut ActualBridge,
    opening: Opening,
    refusals: &mut Refusals,
) {
    let Opening { settings, fixed, request, last } = opening;
    let number = fixed.or_else(|| bridge.numbers.take(request, last));
    let Some(number) = number else {
        let why = "all port numbers are taken".to_owned();
        refusals.interfaces.insert(settings.name, why);
        return;
    };
    if request.is_some_and(|request| request != number) && fixed.is_none() {
        let interface = &settings.name;
        tracing::warn!(bridge = name, interface, number, "the number asked for is taken");
    }
    match switch.add_interface(name, number, &settings) {
        Ok(()) => {
            let own = settings.name.clone();
            // A port whose interface was opened anew is told its settings again.
            bridge.ports.retain(|_, port| !port.interfaces.contains(&own));
            let mut settings = settings;
            // What can be set only of one that is open; it stays open if that is refused.
            if settings != settings.as_opened()
                && let Err(why) = switch.set_interface(name, &settings)
            {
                settings = settings.as_opened();
                refusals.interfaces.insert(own.clone(), why);
            }
            bridge.interfaces.insert(own, ActualInterface { settings, number, request });
        }
        Err(why) => {
            bridge.numbers.take_back(number);
            refusals.interfaces.insert(settings.name, why);
        }
    }
}
