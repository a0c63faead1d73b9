//! The use cases of Molnár et al., *Dataplane Specialization for High-performance OpenFlow Software
//! Switching* (SIGCOMM 2016), §4.1, and its firewall (figure 1): flow entries and traffic.
//!
//! | name | parameters | tables |
//! |---|---|---|
//! | `l2:N` | N addresses | one: destination address to port |
//! | `l3:N` | N prefixes | one: longest prefix to next hop; addresses, time to live |
//! | `lb:N` | N services | one: service and first bit of the source to server; all else is dropped |
//! | `gateway:CxU,R` | C customers of U users, R prefixes | customers, users, routes, and back |
//! | `firewall:N` | N servers | one: blocked sources, services, management, default |
//! | `softflow:a`, `b`, `c`, `d:N` | | SoftFlow's pipelines ([`Softflow`]) |
//!
//! Everything is drawn from seeds, so that it is the same each time and everywhere. A use case knows
//! its flows without bound: flow *n* is the same whatever the number of active flows.
//!
//! The paper samples its routing tables from a router of the Internet; [`routes`] draws prefixes of
//! the lengths that such a table has, some of them within others.

pub(crate) mod balancer;
pub(crate) mod case;
pub(crate) mod firewall;
pub(crate) mod gateway;
mod l2;
mod l3;
pub(crate) mod routes;
mod softflow;

pub(crate) use balancer::Balancer;
pub(crate) use firewall::Firewall;
pub(crate) use gateway::Gateway;
pub(crate) use l2::L2;
pub(crate) use l3::L3;
pub(crate) use softflow::Softflow;

use case::Case;

/// The use cases, as the command line's help shows them.
pub(crate) const NAMES: &str = "l2:N, l3:N, lb:N, gateway:CxU,R, firewall:N, softflow:a|b|c|d:N";

/// A use case by its name.
pub(crate) fn parse(text: &str) -> Result<Box<dyn Case>, String> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    let number =
        |default: u64, max: u64| match parameters {
            "" => Ok(default),
            words => words.parse().ok().filter(|n| (1..=max).contains(n)).ok_or_else(|| {
                format!("use case {text:?}: {words:?} is no number from 1 to {max}")
            }),
        };
    Ok(match name {
        "l2" => Box::new(L2::new(number(1000, 1 << 20)? as usize)),
        "l3" => Box::new(L3::new(number(10_000, 1_000_000)? as usize)),
        "lb" => Box::new(Balancer::new(number(10, 10_000)? as u32)),
        "firewall" => Box::new(Firewall::new(number(100, 10_000)? as u32)),
        "gateway" => Box::new(Gateway::parse(parameters).ok_or_else(|| {
            format!(
                "use case {text:?}: write gateway:CUSTOMERSxUSERS,PREFIXES, as gateway:10x20,10000, \
                 with at most {} customers, {} users of each and 1000000 prefixes",
                gateway::CUSTOMERS_MAX,
                gateway::USERS_MAX
            )
        })?),
        "softflow" => Box::new(Softflow::parse(parameters).ok_or_else(|| {
            format!(
                "use case {text:?}: write softflow:a, softflow:b, softflow:c, or softflow:d:N with at most {} \
                 services",
                softflow::CHAIN_MAX
            )
        })?),
        _ => return Err(format!("there is no use case {text:?}: choose one of {NAMES}")),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SMALL: [&str; 10] = [
        "l2:1",
        "l2:10",
        "l2:1000",
        "l3:1",
        "l3:1000",
        "lb:1",
        "lb:100",
        "gateway:2x3,50",
        "gateway:10x20,1000",
        "firewall:20",
    ];

    #[test]
    fn use_cases_are_the_same_each_time() {
        for name in SMALL {
            let (a, b) = (parse(name).unwrap(), parse(name).unwrap());
            assert_eq!(a.name(), name);
            let lines = |case: &dyn Case| {
                let mut lines = Vec::new();
                case.entries(&mut |line| lines.push(line));
                lines
            };
            assert_eq!(lines(&*a), lines(&*b), "{name}");
            assert!((0..500).all(|n| a.flow(n) == b.flow(n)), "{name}");
        }
    }

    #[test]
    fn entries_are_flows_that_are_all_different() {
        for name in SMALL {
            let case = parse(name).unwrap();
            let context = openflow::syntax::Context::new(openflow::Version::V13);
            let mut seen = std::collections::HashSet::new();
            case.entries(&mut |line| {
                let flow = openflow::syntax::parse_flow(&line, &context);
                let flow = flow.unwrap_or_else(|e| panic!("{name}: {line}: {e}"));
                let key = (flow.table_id, flow.priority, format!("{:?}", flow.matching));
                assert!(seen.insert(key), "{name}: {line}");
            });
        }
    }

    #[test]
    fn what_is_no_use_case_is_refused_in_words() {
        for text in
            ["", "l4", "l2:0", "l2:x", "l2:99999999", "gateway:10", "gateway:0x1,2", "lb:-1"]
        {
            let Err(error) = parse(text) else { panic!("{text} is taken") };
            assert!(error.contains("use case"), "{error}");
        }
    }
}
