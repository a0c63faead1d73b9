//! `backends`: backends of balancers, shown with what checks have found and what they were given; drained and taken back.

use crate::health::balancers;
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use datapath::services::elements::Named;
use serde::{Deserialize, Serialize};
use service::balance::check::{Ask, Check};
use service::balance::{Given, Health, Status};
use std::collections::HashMap;
use std::fmt::Write as _;
use switch::Switch;

/// Places that one slice looks at.
const SLICE: usize = 4096;

/// The question.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Backends {
    /// Of this balancer alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// This one gets no new flows from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// So long: then it is down, and its connections are cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// This one gets flows again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undrain: Option<String>,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Balancers.
    pub services: Vec<Balancer>,
}

/// A balancer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Balancer {
    /// Its name.
    pub name: String,
    /// How its backends are checked.
    pub check: Option<String>,
    /// Its backends, as they were listed.
    pub backends: Vec<One>,
}

/// A backend.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct One {
    /// Its name.
    pub name: String,
    /// Its number, by which flow entries name it.
    pub number: u16,
    /// Its share.
    pub weight: u32,
    /// Where checks find it.
    pub host: Option<String>,
    /// As people have it: up, draining or down.
    pub set: String,
    /// Whether it takes flows: up, draining or down.
    pub state: String,
    /// Whether it answers checks, if it is checked.
    pub answers: Option<bool>,
    /// For so many seconds it has answered, or has not.
    pub since_seconds: Option<u64>,
    /// Answers to checks, good ones or not.
    pub checks: u64,
    /// Those that were not good.
    pub failures: u64,
    /// How long the last good one took.
    pub latency_us: Option<u64>,
    /// Why the last one that was not good was not.
    pub error: Option<String>,
    /// Its drain ends in so many seconds.
    pub drain_seconds: Option<f64>,
    /// Flows that it has now.
    pub flows: u64,
    /// Flows that it was given.
    pub flows_given: u64,
    /// Packets that it was given.
    pub packets: u64,
    /// Their octets, of whole frames.
    pub octets: u64,
}

impl Verb for Backends {
    const NAME: &'static str = "backends";
    const ABOUT: &'static str = "Backends of balancers: shown, drained, taken back";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let switch = at.switch()?;
        let mut all = balancers(switch);
        if let Some(name) = &self.service {
            let names: Vec<String> = all.iter().map(|named| named.name.clone()).collect();
            let of_group = find(switch, name);
            all.retain(|named| of_group.as_ref().is_some_and(|one| one.shares_with(named)));
            if all.is_empty() {
                let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(format!("there is no balancer {name}; there are {there}"));
            }
        }
        self.change_drains(switch, &all)?;
        Ok(Reply::Answer(Answer { services: all.iter().map(|one| tell(switch, one)).collect() }))
    }

    fn change(&self) -> Option<Change> {
        let service = self.service.as_deref().unwrap_or_default();
        let text = match (&self.drain, &self.undrain) {
            (Some(backend), _) => {
                let deadline = self.deadline_ms.map(|ms| format!(" for {ms} ms"));
                format!("{service} {backend} draining{}", deadline.unwrap_or_default())
            }
            (None, Some(backend)) => format!("{service} {backend} up"),
            (None, None) => return None,
        };
        Some(Change { kind: "backend", how: "modify", text })
    }

    fn text(answer: &Answer) -> String {
        print(answer)
    }
}

impl Backends {
    fn change_drains(&self, switch: &Switch, all: &[std::sync::Arc<Named>]) -> Result<(), String> {
        let (name, drains) = match (&self.drain, &self.undrain) {
            (None, None) if self.deadline_ms.is_none() => return Ok(()),
            (None, None) => return Err("deadline_ms is for drain".to_owned()),
            (Some(_), Some(_)) => return Err("drain or undrain, not both".to_owned()),
            (Some(name), None) => (name, true),
            (None, Some(name)) => (name, false),
        };
        let ([named], true) = (all, self.service.is_some()) else {
            return Err("drain and undrain need the balancer's name".to_owned());
        };
        let Some(spread) = named.spread() else { return Ok(()) };
        let until =
            self.deadline_ms.map(|ms| switch.now_ns().saturating_add(ms.saturating_mul(1_000_000)));
        let done = match drains {
            true => spread.backends().drain(name, until).is_ok(),
            false => spread.backends().set_health(name, Health::Up),
        };
        let names = || {
            let list = spread.backends().list();
            list.into_iter().map(|member| member.name).collect::<Vec<_>>().join(", ")
        };
        match done {
            true => Ok(()),
            false => Err(format!("{} has no backend {name}; it has {}", named.name, names())),
        }
    }
}

fn find(switch: &Switch, name: &str) -> Option<std::sync::Arc<Named>> {
    let list = switch.services().elements()?.list();
    list.into_iter().find(|named| named.name == name)
}

/// A balancer, as it is told: also to who looks at metrics.
pub(crate) fn tell(switch: &Switch, named: &Named) -> Balancer {
    let Some(spread) = named.spread() else { return Balancer::default() };
    let given: HashMap<u16, Given> =
        named.given().into_iter().map(|given| (given.number, given)).collect();
    let mut held: HashMap<u16, u64> = HashMap::new();
    let (now_ns, mut from) = (switch.now_ns(), Some(0));
    while let Some(place) = from {
        from = named.page(now_ns, place, SLICE, &mut |kept| {
            *held.entry(kept.backend.unwrap_or(0)).or_default() += 1;
        });
        std::thread::yield_now();
    }
    let one = |status: Status| {
        let number = status.member.number.unwrap_or(0);
        let given = given.get(&number).copied().unwrap_or_default();
        one(status, now_ns, given, held.get(&number).copied().unwrap_or(0))
    };
    Balancer {
        name: named.name.clone(),
        check: spread.check().map(said),
        backends: spread.backends().status().into_iter().map(one).collect(),
    }
}

fn word(health: Health) -> String {
    match health {
        Health::Up => "up",
        Health::Draining => "draining",
        Health::Down => "down",
    }
    .to_owned()
}

/// A check in a few words.
fn said(check: &Check) -> String {
    let ms = check.interval.as_millis();
    let (every, unit) = if ms.is_multiple_of(1000) { (ms / 1000, "s") } else { (ms, "ms") };
    let what = match &check.ask {
        Ask::Http { path, .. } => format!("http :{}{path}", check.port),
        Ask::Tcp => format!("tcp :{}", check.port),
        Ask::Icmp => "icmp".to_owned(),
    };
    format!("{what} every {every}{unit}")
}

fn one(status: Status, now_ns: u64, given: Given, flows: u64) -> One {
    let Status { member, host, takes, found, drain_until_ns } = status;
    let found = found.filter(|found| found.checks != 0);
    let found = found.as_ref();
    let drain = drain_until_ns.map(|until| until.saturating_sub(now_ns) as f64 / 1e9);
    One {
        name: member.name,
        number: given.number.max(member.number.unwrap_or(0)),
        weight: member.weight,
        host: host.map(|host| host.to_string()),
        set: word(member.health),
        state: word(takes),
        answers: found.map(|found| found.alive),
        since_seconds: found.map(|found| now_ns.saturating_sub(found.since_ns) / 1_000_000_000),
        checks: found.map_or(0, |found| found.checks),
        failures: found.map_or(0, |found| found.failures),
        latency_us: found.and_then(|found| found.latency_ns).map(|ns| ns / 1000),
        error: found.and_then(|found| found.error.clone()),
        drain_seconds: drain,
        flows,
        flows_given: given.flows,
        packets: given.packets,
        octets: given.octets,
    }
}

fn print(answer: &Answer) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    for Balancer { name, check, backends } in &answer.services {
        let _ = writeln!(out, "{name}: {}", check.as_deref().unwrap_or("no check"));
        let _ = writeln!(
            out,
            "  {:<16} {:>6} {:>6}  {:<9} {:>8} {:>9} {:>12} {:>14}  check",
            "backend", "number", "weight", "state", "flows", "given", "packets", "octets"
        );
        for one in backends {
            let _ = writeln!(
                out,
                "  {:<16} {:>6} {:>6}  {:<9} {:>8} {:>9} {:>12} {:>14}  {}",
                one.name,
                one.number,
                one.weight,
                one.state,
                one.flows,
                one.flows_given,
                one.packets,
                one.octets,
                checked(one)
            );
        }
    }
    if answer.services.is_empty() {
        let _ = writeln!(
            out,
            "no balancers; `millrace service add NAME balancer backends=...` adds one"
        );
    }
    out
}

/// What there is to say of a backend's checks and drain.
fn checked(one: &One) -> String {
    let mut said = Vec::new();
    if let (Some(answers), Some(since)) = (one.answers, one.since_seconds) {
        let what = if answers { "answers" } else { "fails" };
        let latency = one.latency_us.filter(|_| answers).map(|us| format!(" in {us} us"));
        said.push(format!("{what} for {since} s{}", latency.unwrap_or_default()));
        if let (Some(error), true) = (&one.error, !answers || one.failures != 0) {
            said.push(format!("{} of {} failed, last: {error}", one.failures, one.checks));
        }
        if !answers && one.state == "up" {
            said.push("does not count: no backend answers".to_owned());
        }
    }
    if let Some(seconds) = one.drain_seconds {
        said.push(format!("drain ends in {seconds:.0} s"));
    }
    if said.is_empty() { "-".to_owned() } else { said.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::services::add;
    use crate::program::tables;

    fn bed() -> Switch {
        let switch = tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None).unwrap();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let check =
            "check=http check_port=8080 check_path=/alive check_interval=500ms check_timeout=300ms";
        let line = format!("lb balancer backends=10.0.0.2,10.0.0.3:2 group=web {check}");
        add(&switch, &words(&line)).unwrap();
        add(&switch, &words(&line.replace("lb ", "lb2 "))).unwrap();
        add(&switch, &words("plain balancer backends=a,b")).unwrap();
        add(&switch, &words("count counter")).unwrap();
        switch
    }

    fn ask(switch: &Switch, question: Backends) -> Result<Answer, String> {
        match question.answer(&At::alone(switch))? {
            Reply::Answer(answer) => Ok(answer),
            Reply::Stream(..) => panic!("it is no stream"),
        }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn backends_are_told_with_what_checks_have_found() {
        let switch = bed();
        let all = ask(&switch, Backends::default()).unwrap();
        let names: Vec<_> = all.services.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["lb", "plain"], "lb2 shares lb's backends");
        let lb = find(&switch, "lb2").unwrap();
        let spread = lb.spread().unwrap();
        let check = spread.check().unwrap();
        let now = switch.now_ns();
        assert_eq!(spread.backends().due(check, now).len(), 2);
        spread.backends().told("10.0.0.2", check, now, Err("status 503".to_owned()));
        spread.backends().told("10.0.0.3", check, now, Ok(1_234_567));
        let told = ask(&switch, Backends { service: some("lb2"), ..Backends::default() }).unwrap();
        let text = print(&told);
        for part in [
            "lb: http :8080/alive every 500ms\n",
            "10.0.0.2              1      1  down ",
            "fails for 0 s; 1 of 1 failed, last: status 503\n",
            "10.0.0.3              2      2  up ",
            "answers for 0 s in 1234 us\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        spread.backends().told("10.0.0.3", check, now, Err("refused".to_owned()));
        spread.backends().told("10.0.0.3", check, now, Err("refused".to_owned()));
        spread.backends().told("10.0.0.3", check, now, Err("refused".to_owned()));
        let text = print(&ask(&switch, Backends::default()).unwrap());
        assert!(text.contains("does not count: no backend answers"), "{text}");
    }

    #[test]
    fn a_drain_needs_a_balancer_and_a_backend_and_is_taken_back() {
        let switch = bed();
        let drain = |service: Option<String>, backend: &str, deadline_ms| {
            let drain = some(backend);
            ask(&switch, Backends { service, drain, deadline_ms, undrain: None })
        };
        for (told, why) in [
            (drain(None, "a", None), "need the balancer's name"),
            (drain(some("plain"), "c", None), "plain has no backend c; it has a, b"),
            (drain(some("count"), "a", None), "no balancer count; there are lb, plain"),
            (
                ask(&switch, Backends { deadline_ms: Some(1), ..Backends::default() }),
                "deadline_ms is for drain",
            ),
        ] {
            let error = told.unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let told = drain(some("plain"), "a", Some(60_000)).unwrap();
        let a = &told.services[0].backends[0];
        assert_eq!((&*a.set, &*a.state), ("draining", "draining"));
        assert!(a.drain_seconds.is_some_and(|left| (59.0..=60.0).contains(&left)));
        assert!(print(&told).contains("drain ends in 60 s"), "{}", print(&told));
        let (service, undrain) = (some("plain"), some("a"));
        let back = ask(&switch, Backends { service, undrain, ..Backends::default() }).unwrap();
        let a = &back.services[0].backends[0];
        assert_eq!((&*a.state, a.drain_seconds), ("up", None));
    }
}
