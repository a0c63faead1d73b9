//! The learning switch between network namespaces: real hosts, real ping(8), AF_PACKET ports.
//!
//! Needs root, for `ip netns`. Namespaces and interfaces carry this process's id in their names, and
//! are removed at the end, after an error, and on Ctrl-C.

use super::stage::{Control, PUNT_RATE};
use crate::cli::DemoOptions;
use console::Sample;
use control::failure::Failure;
use control::program::tables;
use control::signals::{came, on_end};
use port::af_packet::AfPacket;
use serde_json::json;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const HOSTS: usize = 3;
/// Pings from each host to each other one, unless `--seconds` says otherwise.
const PINGS: u64 = 5;
/// A host is up so long after its interface.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);

/// What was made; dropping it removes it.
struct Net {
    id: u32,
    made: Vec<Vec<String>>,
}

impl Net {
    fn namespace(&self, n: usize) -> String {
        format!("mrdemo{}-{n}", self.id)
    }

    /// The switch's end of the cable to host `n`: at most 15 bytes.
    fn interface(&self, n: usize) -> String {
        format!("mrd{}p{n}", self.id)
    }

    /// Runs `ip` with these words, to be undone by others at the end.
    fn ip(&mut self, words: &str, undo: Option<&str>) -> Result<(), Failure> {
        let words: Vec<String> = words.split(' ').map(String::from).collect();
        run_command("ip", &words)?;
        self.made.extend(undo.map(|u| u.split(' ').map(String::from).collect()));
        Ok(())
    }

    fn host(&mut self, n: usize) -> Result<(), Failure> {
        let (ns, near) = (self.namespace(n), self.interface(n));
        self.ip(&format!("netns add {ns}"), Some(&format!("netns del {ns}")))?;
        self.ip(
            &format!("link add {near} type veth peer name eth0 netns {ns}"),
            Some(&format!("link del {near}")),
        )?;
        self.ip(&format!("-n {ns} addr add {}/24 dev eth0", address(n)), None)?;
        self.ip(&format!("-n {ns} link set eth0 up"), None)?;
        self.ip(&format!("-n {ns} link set lo up"), None)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for words in self.made.iter().rev() {
            if let Err(text) = run_command("ip", words).map_err(Failure::text) {
                eprintln!("millrace: {text}");
            }
        }
    }
}

fn address(n: usize) -> String {
    format!("10.77.0.{n}")
}

fn output(program: &str, words: &[String]) -> Result<Output, Failure> {
    let run = Command::new(program).args(words).stdin(Stdio::null()).output();
    run.map_err(|e| {
        Failure::Bad(format!(
            "cannot run {program}: {e}; it is in the package iproute2 or iputils-ping"
        ))
    })
}

fn run_command(program: &str, words: &[String]) -> Result<(), Failure> {
    let output = output(program, words)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Bad(format!("{program} {}: {}", words.join(" "), text.trim())))
}

/// The demonstration.
pub(super) fn run(options: &DemoOptions) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::bad(
            "--namespaces makes network namespaces, for which it must be root: sudo millrace demo learning --namespaces; \
             without it, the demo needs no privilege",
        ));
    }
    // From here on, Ctrl-C ends what runs and no longer the process, which must clean up.
    let signals = on_end().map_err(|e| Failure::Bad(format!("cannot wait for signals: {e}")))?;
    let mut net = Net { id: std::process::id(), made: Vec::new() };
    for n in 1..=HOSTS {
        net.host(n)?;
    }
    let switch = tables::start(1, Vec::new(), PUNT_RATE, Default::default(), None)?;
    for n in 1..=HOSTS {
        let port = AfPacket::open(&net.interface(n)).map_err(Failure::bad)?;
        switch.add_port(None, Box::new(port)).map_err(Failure::bad)?;
    }
    let control = Control::start(&switch)?;
    let flows = ["priority=0,actions=NORMAL".to_string()];
    control.add(&flows)?;
    switch.sync();
    eprintln!(
        "{} to {}, each in a namespace, on AF_PACKET ports, actions=NORMAL",
        address(1),
        address(HOSTS)
    );
    let deadline = Instant::now() + LINK_TIMEOUT;
    while switch.ports().iter().any(|p| !p.is_live()) && Instant::now() < deadline {
        if came(&signals, Duration::from_millis(20)) {
            return Err(Failure::bad("interrupted"));
        }
    }
    let started = Instant::now();
    let count =
        options.seconds.map_or(PINGS, |s| (s * 5 / (HOSTS as u64 * (HOSTS as u64 - 1))).max(1));
    let (mut asked, mut answered) = (0, 0);
    let mut interrupted = false;
    for from in 1..=HOSTS {
        for to in (1..=HOSTS).filter(|to| *to != from) {
            interrupted |= came(&signals, Duration::ZERO);
            if interrupted {
                break;
            }
            let (sent, received) = ping(&net.namespace(from), &address(from), &address(to), count)?;
            asked += sent;
            answered += received;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let sample = Sample::read(&switch);
    drop(control);
    switch.stop();
    drop(net);
    eprintln!(
        "{answered} of {asked} pings answered; {} frames in, {} out",
        sample.rx_packets(),
        sample.tx_packets()
    );
    if options.json {
        println!(
            "{}",
            json!({
                "demo": "learning", "seconds": (seconds * 1000.0).round() / 1000.0,
                "packets": sample.rx_packets(), "forwarded": sample.tx_packets(), "dropped": sample.drops,
                "pps": (sample.rx_packets() as f64 / seconds.max(1e-9)).round(),
                "verified": answered, "errors": asked - answered, "engine": sample.engine, "flows": flows.len(),
            })
        );
    }
    if interrupted {
        return Err(Failure::bad("interrupted"));
    }
    if answered < asked {
        return Err(Failure::Bad(format!(
            "{} of {asked} pings were not answered",
            asked - answered
        )));
    }
    Ok(())
}

/// Pings, and tells: requests and replies.
fn ping(namespace: &str, from: &str, to: &str, count: u64) -> Result<(u64, u64), Failure> {
    let words = format!("netns exec {namespace} ping -n -q -c {count} -i 0.2 -W 2 {to}");
    let output = output("ip", &words.split(' ').map(String::from).collect::<Vec<_>>())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some((sent, received)) = counts(&text) else {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Bad(format!(
            "ping {to} in {namespace}: {}{}",
            text.trim(),
            why.trim()
        )));
    };
    let times = text.lines().find(|l| l.contains("min/avg/max")).unwrap_or("no reply");
    eprintln!("{from} -> {to}: {received} of {sent} answered, {times}");
    Ok((sent, received))
}

/// `5 packets transmitted, 4 received, ...`
fn counts(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find(|l| l.contains("packets transmitted"))?;
    let mut numbers =
        line.split(", ").map(|part| part.split(' ').next().and_then(|n| n.parse().ok()));
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_are_counted() {
        let text =
            "PING x\n\n--- x ---\n5 packets transmitted, 4 received, 20% packet loss, time 804ms\n";
        assert_eq!(counts(text), Some((5, 4)));
        assert_eq!(counts("connect: Network is unreachable"), None);
    }

    #[test]
    fn names_fit() {
        let net = Net { id: 4_194_304, made: Vec::new() };
        assert!(net.interface(HOSTS).len() <= 15);
    }
}
