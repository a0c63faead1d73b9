//! `millrace replication upgrade`: the members of a group are upgraded one after the other, and no connection is lost.
//!
//! Who runs it reaches each member's host by a command (`--via`, ssh by default), and what he may do there is what that command lets him
//! do: nothing of it goes by the group's own links or by its broker. All is asked by `millrace replication` at the hosts.
//!
//! For each member, standbys first: it hands over what it forwards, its own command upgrades and restarts it, and the next one's turn comes
//! when another process answers and the group is protected. The first thing that fails ends it, with the state of each member.

use crate::cli::UpgradeOrder;
use control::failure::Failure;
use control::output::say;
use control::verb::Verb as _;
use control::verbs::replication::{Answer, Replication};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often members are asked.
const ASK: Duration = Duration::from_millis(200);
/// How often it is said what is waited for.
const SAY: Duration = Duration::from_secs(2);

/// `millrace replication upgrade`.
pub(super) fn upgrade(order: &UpgradeOrder, ctl: Option<&Path>) -> Result<(), Failure> {
    let hosts = Hosts { order, ctl: ctl.map(|path| path.display().to_string()) };
    hosts.check()?;
    let mut left: Vec<&str> = order.members.iter().map(|(name, _)| &**name).collect();
    let began = Instant::now();
    let mut done = Vec::new();
    let mut states = hosts.states(&left)?;
    fits(&states, &left)?;
    if order.dry_run {
        return dry_run(&hosts, &states);
    }
    while let Some(at) = next(&states) {
        let name = left.remove(at);
        if let Err(why) = hosts.one(name, &states[at]) {
            return Err(hosts.stopped(name, &done, &left, &why));
        }
        done.push(name);
        states = hosts.states(&left)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    say(format_args!("upgraded {}, in {seconds:.1} s; the group is protected\n", done.join(", ")));
    Ok(())
}

/// Whose turn it is: who forwards nothing comes first, then who was named first.
fn next(states: &[Answer]) -> Option<usize> {
    let standby = states.iter().position(|state| state.role == "standby");
    standby.or(if states.is_empty() { None } else { Some(0) })
}

/// They are members of one group, each the one that it is to be, and nobody is missed when one of them is away.
fn fits(states: &[Answer], names: &[&str]) -> Result<(), Failure> {
    for (state, name) in states.iter().zip(names) {
        let at = &states[0];
        if state.member != *name {
            return Err(Failure::Bad(format!(
                "{name}: member {} of group {} answers there",
                state.member, state.group
            )));
        }
        if state.group != at.group {
            return Err(Failure::Bad(format!(
                "{name} is of group {}, and {} of group {}",
                state.group, names[0], at.group
            )));
        }
        if let Some(why) = lacks(state) {
            return Err(Failure::Bad(format!("nothing was done: {name}: {why}")));
        }
    }
    Ok(())
}

/// Why a group is not as it must be before and behind each step, as one member sees it.
fn lacks(state: &Answer) -> Option<String> {
    if !state.engine {
        return Some("the engine is away".to_owned());
    }
    for peer in &state.peers {
        if !peer.alive {
            return Some(format!("it does not hear {}", peer.name));
        }
        if !peer.same {
            return Some(format!("{} has another configuration", peer.name));
        }
    }
    let unprotected = || match state.role == "standby" {
        true => "it has not all connections".to_owned(),
        false => "no standby has all connections".to_owned(),
    };
    (!state.protected).then(unprotected)
}

/// What would be done.
fn dry_run(hosts: &Hosts<'_>, states: &[Answer]) -> Result<(), Failure> {
    let mut left: Vec<&Answer> = states.iter().collect();
    // Who hands over makes another one active: of two members the second one to be upgraded.
    left.sort_by_key(|state| state.role != "standby");
    for state in left {
        let name = &state.member;
        let forwards: Vec<&str> = match state.shares.is_empty() {
            true => Vec::new(),
            false => {
                let its = state.shares.iter().filter(|share| share.role == "active");
                its.map(|share| &*share.name).collect()
            }
        };
        say(format_args!("{name}: {}, process {}, {}\n", state.role, state.pid, state.version));
        match (&*state.role, forwards.is_empty()) {
            ("standby", _) => {}
            (_, true) => say(format_args!("  drain: it hands over to another member\n")),
            (_, false) => say(format_args!("  drain: it hands over {}\n", forwards.join(", "))),
        }
        say(format_args!("  run: {}\n", hosts.line(name, &hosts.order.by).join(" ")));
        say(format_args!("  wait until another process answers and the group is protected\n"));
    }
    Ok(())
}

/// A word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The hosts, and how they are reached.
struct Hosts<'a> {
    order: &'a UpgradeOrder,
    ctl: Option<String>,
}

impl Hosts<'_> {
    fn check(&self) -> Result<(), Failure> {
        let names: Vec<&String> = self.order.members.iter().map(|(name, _)| name).collect();
        if let Some(twice) = (1..names.len()).find(|n| names[..*n].contains(&names[*n])) {
            return Err(Failure::Usage(format!("{} is named twice", names[twice])));
        }
        if self.order.via.split_whitespace().next().is_none() {
            return Err(Failure::Usage(
                "--via: a command was expected, as `ssh {host}`".to_owned(),
            ));
        }
        Ok(())
    }

    fn host(&self, name: &str) -> &str {
        let its = self.order.members.iter().find(|(member, _)| member == name);
        its.map_or("", |(_, host)| host)
    }

    /// The command that runs a line of shell where a member is.
    fn line(&self, name: &str, line: &str) -> Vec<String> {
        let host = self.host(name);
        let mut words: Vec<String> =
            self.order.via.split_whitespace().map(|word| word.replace("{host}", host)).collect();
        words.push(line.replace("{member}", name));
        words
    }

    /// Runs a line of shell where a member is, and gives what it says.
    fn run(&self, name: &str, line: &str) -> Result<String, String> {
        let words = self.line(name, line);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("{}: {error}", words[0]))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(said(&output.stdout)),
            false => {
                let (why, status) = (said(&output.stderr), output.status);
                Err(if why.is_empty() { format!("{line}: {status}") } else { why })
            }
        }
    }

    /// `millrace replication` there.
    fn ask(&self, name: &str, words: &str) -> Result<String, String> {
        let ctl = self.ctl.as_ref().map(|ctl| format!(" --ctl {}", quoted(ctl)));
        let program = quoted(&self.order.program);
        self.run(name, &format!("{program} replication{words}{}", ctl.unwrap_or_default()))
    }

    fn state(&self, name: &str) -> Result<Answer, String> {
        let said = self.ask(name, " --json")?;
        serde_json::from_str(&said).map_err(|error| format!("its answer is none: {error}"))
    }

    fn states(&self, names: &[&str]) -> Result<Vec<Answer>, Failure> {
        let state = |name: &&str| {
            self.state(name).map_err(|why| Failure::Bad(format!("{name} does not answer: {why}")))
        };
        names.iter().map(state).collect()
    }

    /// Upgrades one member.
    fn one(&self, name: &str, state: &Answer) -> Result<(), String> {
        let began = Instant::now();
        let before = state.pid;
        if state.role != "standby" {
            self.ask(name, " drain")?;
            self.until(name, "hands over", |state| {
                (state.role != "standby").then(|| "it still forwards".to_owned())
            })?;
            tell(name, "it forwards nothing");
        }
        tell(name, &format!("run: {}", self.order.by.replace("{member}", name)));
        let words = self.line(name, &self.order.by);
        let mut command = Command::new(&words[0]);
        // What it says is for who has asked for it.
        let command = command.args(&words[1..]).stdin(Stdio::null()).stdout(std::io::stderr());
        let status = command.status().map_err(|error| format!("{}: {error}", words[0]))?;
        if !status.success() {
            return Err(format!("the command has failed: {status}"));
        }
        let state = self.until(name, "is back", |state| match state.pid == before {
            true => Some(format!("process {before} runs as before: nothing has restarted it")),
            false => lacks(state),
        })?;
        let (seconds, pid, version) = (began.elapsed().as_secs_f64(), state.pid, &state.version);
        tell(name, &format!("process {pid} is up, {version}, protected after {seconds:.1} s"));
        Ok(())
    }

    /// Asks a member until it lacks nothing.
    fn until(
        &self,
        name: &str,
        what: &str,
        lacks: impl Fn(&Answer) -> Option<String>,
    ) -> Result<Answer, String> {
        let (end, mut said) = (Instant::now() + self.order.within, Instant::now());
        loop {
            let why = match self.state(name) {
                Ok(state) => match lacks(&state) {
                    None => return Ok(state),
                    Some(why) => why,
                },
                Err(why) => why,
            };
            if Instant::now() >= end {
                let within = self.order.within.as_secs();
                return Err(format!("waited {within} s until it {what}: {why}"));
            }
            if said.elapsed() >= SAY {
                said = Instant::now();
                tell(name, &format!("waiting until it {what}: {why}"));
            }
            std::thread::sleep(ASK);
        }
    }

    /// What has failed, and how the group is now.
    fn stopped(&self, name: &str, done: &[&str], left: &[&str], why: &str) -> Failure {
        let all = |names: &[&str]| match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        let mut text = format!(
            "stopped at {name}: {why}\nupgraded: {}; not tried: {}\n",
            all(done),
            all(left)
        );
        for (member, _) in &self.order.members {
            let state = self.state(member).map(|state| Replication::text(&state));
            let state = state.unwrap_or_else(|why| format!("does not answer: {why}\n"));
            let state = state.trim_end().replace('\n', "\n  ");
            text.push_str(&format!("{member}:\n  {state}\n"));
        }
        text.push_str(
            "a member that was drained stays so until it restarts, or `millrace replication rebalance` there",
        );
        Failure::Bad(text)
    }
}

fn tell(name: &str, what: &str) {
    eprintln!("millrace: {name}: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::verbs::replication::Peer;

    fn state(member: &str, role: &str) -> Answer {
        let peer = Peer { name: "x".to_owned(), alive: true, same: true, ..Peer::default() };
        Answer {
            group: "gw".to_owned(),
            member: member.to_owned(),
            role: role.to_owned(),
            engine: true,
            protected: true,
            peers: vec![peer],
            ..Answer::default()
        }
    }

    #[test]
    fn standbys_come_first() {
        assert_eq!(next(&[]), None);
        assert_eq!(next(&[state("a", "active"), state("b", "standby")]), Some(1));
        assert_eq!(next(&[state("a", "shared"), state("b", "shared")]), Some(0));
    }

    #[test]
    fn what_a_group_lacks_is_named() {
        type Change = fn(&mut Answer);
        let cases: [(Change, &str); 5] = [
            (|state| state.engine = false, "the engine is away"),
            (|state| state.peers[0].alive = false, "it does not hear x"),
            (|state| state.peers[0].same = false, "x has another configuration"),
            (|state| state.protected = false, "no standby has all connections"),
            (
                |state| (state.role, state.protected) = ("standby".to_owned(), false),
                "it has not all connections",
            ),
        ];
        assert_eq!(lacks(&state("a", "active")), None);
        for (change, why) in cases {
            let mut state = state("a", "active");
            change(&mut state);
            assert_eq!(lacks(&state).as_deref(), Some(why));
        }
        let named = |name| fits(&[state("a", "active")], &[name]).map_err(Failure::text);
        assert!(named("a").is_ok());
        assert!(named("b").unwrap_err().contains("member a of group gw answers there"));
    }

    #[test]
    fn words_of_a_shell() {
        assert_eq!(quoted("a b'c"), r"'a b'\''c'");
    }
}
