//! Backends of balancers, connections that services keep, and what was answered for their addresses.

use super::source::Source;
use crate::bridges::Bridge;
use crate::health::balancers;
use crate::program::services::owners;
use crate::verbs::backends::{self, One};
use datapath::services::elements::Named;
use metrics::{Family, Text};
use std::sync::Arc;

const UP: Family = Family::gauge(
    "millrace_backend_up",
    "1 if a balancer's backend takes new flows: nobody has set it otherwise, and checks do not object",
);
const ANSWERS: Family =
    Family::gauge("millrace_backend_answers", "1 if a backend answers its checks, else 0");
const FLOWS: Family = Family::gauge("millrace_backend_flows", "Flows that a backend has now");
const GIVEN: Family =
    Family::counter("millrace_backend_flows_given", "Flows that a backend was given");
const PACKETS: Family =
    Family::counter("millrace_backend_packets", "Packets that a backend was given");
const BYTES: Family = Family::counter("millrace_backend_bytes", "Octets of them, of whole frames");
const LATENCY: Family = Family::gauge(
    "millrace_backend_check_seconds",
    "How long the last good answer to a check took",
);
const CHECKS: Family = Family::counter(
    "millrace_backend_checks",
    "Answers to checks of a backend, by what they were: good or failed",
);
const CONNECTIONS: Family = Family::gauge(
    "millrace_service_connections",
    "Connections that a service keeps: of the kinds nat and conntrack",
);
const ANSWERED: Family = Family::counter(
    "millrace_service_answers",
    "Requests for addresses of a service (answer=) that were answered, by protocol: arp or nd",
);
const MALFORMED: Family = Family::counter(
    "millrace_service_requests_malformed",
    "Requests for addresses of a service (answer=) that make no sense, and go on to table 0",
);

pub(super) fn tell(source: &Source<'_>, text: &mut Text) {
    let mut all = Vec::new();
    for bridge in &source.all {
        for named in balancers(bridge.switch()) {
            let told = backends::tell(bridge.switch(), &named);
            let of = |one: One| (bridge.name(), named.name.clone(), one);
            all.extend(told.backends.into_iter().map(of));
        }
    }
    let mut put = |family: &Family, value: &dyn Fn(&One) -> Option<f64>| {
        let mut family = text.family(family);
        for (bridge, service, one) in &all {
            if let Some(value) = value(one) {
                let labels = [
                    ("bridge", *bridge),
                    ("service", service.as_str()),
                    ("backend", one.name.as_str()),
                ];
                family.put(&labels, value);
            }
        }
    };
    put(&UP, &|one| Some(f64::from(u8::from(one.state == "up"))));
    put(&ANSWERS, &|one| one.answers.map(|answers| f64::from(u8::from(answers))));
    put(&FLOWS, &|one| Some(one.flows as f64));
    put(&GIVEN, &|one| Some(one.flows_given as f64));
    put(&PACKETS, &|one| Some(one.packets as f64));
    put(&BYTES, &|one| Some(one.octets as f64));
    put(&LATENCY, &|one| one.latency_us.map(|us| us as f64 / 1e6));
    let mut family = text.family(&CHECKS);
    for (bridge, service, one) in all.iter().filter(|(_, _, one)| one.answers.is_some()) {
        for (result, n) in [("good", one.checks - one.failures), ("failed", one.failures)] {
            let named = [("service", service.as_str()), ("backend", one.name.as_str())];
            family.put(&[("bridge", *bridge), named[0], named[1], ("result", result)], n);
        }
    }
    let mut family = text.family(&CONNECTIONS);
    for bridge in &source.all {
        for named in owners(bridge.switch()) {
            if ["nat", "conntrack"].contains(&&*named.kind) {
                let labels = [("bridge", bridge.name()), ("service", named.name.as_str())];
                family.put(&labels, named.size().0);
            }
        }
    }
    let answering = |bridge: &Bridge| -> Vec<Arc<Named>> {
        let all = bridge.switch().services().elements().map(|elements| elements.list());
        all.into_iter().flatten().filter(|named| named.answered().is_some()).collect()
    };
    let answering: Vec<_> = source
        .all
        .iter()
        .flat_map(|bridge| answering(bridge).into_iter().map(|named| (bridge.name(), named)))
        .filter_map(|(bridge, named)| {
            let counts = named.answered()?.read().map(|(_, n)| n);
            Some((bridge, named, counts))
        })
        .collect();
    let mut family = text.family(&ANSWERED);
    for (bridge, named, [arp, nd, _]) in &answering {
        for (protocol, n) in [("arp", arp), ("nd", nd)] {
            let labels = [("bridge", *bridge), ("service", &*named.name), ("protocol", protocol)];
            family.put(&labels, *n);
        }
    }
    let mut family = text.family(&MALFORMED);
    for (bridge, named, [_, _, malformed]) in &answering {
        family.put(&[("bridge", *bridge), ("service", &*named.name)], *malformed);
    }
}
