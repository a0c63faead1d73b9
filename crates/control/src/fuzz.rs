//! The bodies of the fuzz targets `config`, `fleet`, `ctl` and `take_over`, which the unit tests run too. Hidden: only tests and
//! the fuzz targets call them. No path that the bytes name is opened.

use crate::config::{self, Config, Options};
use crate::ports::Ports;
use crate::program::tables;
use crate::protocol::{Answer, Reply, Request, line};
use crate::takeover::own::{Gives, converse};
use crate::takeover::running::Running;
use crate::verb::{At, Verb};
use crate::verbs::{self, service::Service};
use std::io::{BufReader, Cursor, Read, Write};
use std::sync::OnceLock;
use switch::{EngineKind, Switch};

/// A switch that all inputs of a target ask, one after the other.
fn small() -> &'static Switch {
    static SWITCH: OnceLock<Switch> = OnceLock::new();
    SWITCH.get_or_init(|| {
        let started = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None);
        started.unwrap_or_else(|e| panic!("a switch starts: {}", e.text()))
    })
}

/// A configuration file: any bytes are refused in a line or so, or give a configuration within bounds.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = match config::parse(text) {
        Ok(file) => file,
        Err(error) => return assert!(!error.is_empty()),
    };
    match Config::of(file, Options::default()) {
        Ok(config) => {
            assert!((1..=256).contains(&config.workers) && config.tracking.connections > 0);
            assert!(config.watchdog.is_none_or(|bound| bound.as_secs() >= 5));
            if let Ok(ports) = Ports::plan(&config) {
                assert!(ports.names().len() >= config.ports.len());
            }
        }
        Err(failure) => assert!(!failure.text().is_empty()),
    }
}

/// What a fleet's store holds: any octets are refused in a line, or are a version whose configurations read as any others.
pub fn fleet(data: &[u8]) {
    crate::fleet::fuzz(data);
}

/// Lines that come by a control socket: each is answered in one line, and what it asks for reads back the same.
pub fn ctl(data: &[u8]) {
    let switch = small();
    for asked in data.split(|byte| *byte == b'\n').take(64) {
        let Ok(request) = Request::read(asked) else { continue };
        let (verb, bridge) = (request.verb.clone(), request.bridge.clone());
        let Ok(question) = verbs::read(request) else { continue };
        let written = question.written();
        let again =
            Request { verb, bridge, arguments: written.clone() }.line().expect("it can be written");
        let again = Request::read(&again).expect("what was written");
        let question = verbs::read(again).expect("what was written");
        assert_eq!(question.written(), written);
        // Files are not to be opened for whoever fuzzes.
        if question.names_files() {
            continue;
        }
        let outcome = question.answer(&At::alone(switch)).map(|reply| match reply {
            Reply::Answer(value) | Reply::Stream(value, _) => value,
        });
        let told = line(&Answer::from(outcome)).expect("an answer can be written");
        assert_eq!(told.iter().filter(|byte| **byte == b'\n').count(), 1);
        if let Some(name) = written["add"][0].as_str() {
            let gone = Service { remove: Some(name.to_owned()), ..Service::default() };
            // Whether it is there does not matter.
            drop(Verb::answer(gone, &At::alone(switch)));
        }
    }
}

/// Specifications of ports, of all kinds: [`port::spec::fuzz`].
pub fn port_spec(data: &[u8]) {
    port::spec::fuzz(data, crate::port_kinds::KINDS);
}

/// The other end of a take-over: what it says, and nobody hears what is said to it.
struct Peer<'a>(Cursor<&'a [u8]>);

impl Read for Peer<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(out)
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A running process that keeps what it was asked.
#[derive(Default)]
struct Asked {
    stopped: bool,
    finished: bool,
}

impl Gives for Asked {
    fn bridges(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(b"{\"bridges\":[]}")
    }
    fn entries(&mut self, _: &str, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(b"entries")
    }
    fn program(&mut self, _: &str, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(b"program")
    }
    fn connections(&mut self, _: &str, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(b"connections")
    }
    fn changes(&mut self, _: &str, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(b"changes")
    }
    fn services(&mut self, _: &str, out: &mut dyn Write) -> std::io::Result<()> {
        assert!(self.stopped, "services are asked behind the stop");
        out.write_all(b"{\"services\":[]}\n")
    }
    fn state(&mut self, _: &str, _: &mut dyn Write) -> std::io::Result<()> {
        assert!(self.stopped, "what packets have written is asked behind the stop");
        Ok(())
    }
    fn stop(&mut self) -> std::io::Result<()> {
        assert!(!self.stopped, "packets stop once");
        self.stopped = true;
        Ok(())
    }
    fn finish(&mut self, _: &mut dyn Write) -> std::io::Result<()> {
        assert!(self.stopped && !self.finished, "packets stop before the end");
        self.finished = true;
        Ok(())
    }
}

/// Either side of a take-over hears any bytes: with an odd first one the running process, else the new one.
pub fn take_over(data: &[u8]) {
    let Some((side, rest)) = data.split_first() else { return };
    if side % 2 == 1 {
        let (mut asked, mut said) = (Asked::default(), Vec::new());
        let outcome = converse(rest, &mut said, &mut asked);
        assert_eq!(matches!(outcome, Ok(true)), asked.finished);
        return;
    }
    let switch = small();
    let mut running = Running::of(
        BufReader::new(Peer(Cursor::new(rest))),
        u64::from(side % 4 == 0) * u64::from(4 + side / 4 % 2),
    );
    if let Err(failure) = running.learn() {
        return assert!(failure.text().starts_with("--take-over"));
    }
    let agent = running.agent(|id| tables::agent(switch, Some(id)));
    let went = agent
        .map(|_| ())
        .and_then(|()| running.connections(switch))
        .and_then(|()| running.stop(Some(switch)).map(|_| ()))
        .and_then(|()| running.services(switch));
    if let Err(failure) = went {
        assert!(failure.text().starts_with("--take-over"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::prng::Prng;

    /// Runs a body on these seeds, whole and damaged, and on random bytes.
    fn run_on(seeds: &[&[u8]], rounds: u64, body: fn(&[u8])) {
        seeds.iter().for_each(|seed| body(seed));
        body(&[]);
        for round in 0..rounds {
            let mut random = Prng::new(round);
            let seed = seeds[random.below(seeds.len() as u64) as usize];
            let mut bytes = seed.to_vec();
            if random.below(5) == 0 {
                bytes = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
            }
            for _ in 0..random.below(6) {
                let at = random.below(bytes.len().max(1) as u64) as usize;
                match random.below(3) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at.min(bytes.len()), random.below(256) as u8),
                    _ => bytes.get_mut(at).into_iter().for_each(|b| *b = random.below(256) as u8),
                }
            }
            body(&bytes);
        }
    }

    #[test]
    fn configurations() {
        let all =
            b"port = [\"a:1=memory:x\", \"pcap:rx=f,loop\"]\nlisten = [\"ptcp:0\"]\nworkers = 3\n\
                    rx-worker = [\"a:0=1\"]\nrx-rate = [\"a=5\"]\nqueue = [\"a:1,min=1M\"]\n\
                    cpus = \"0,2-3\"\nvalidate = \"1/7\"\ndatapath-id = \"0x1f\"\nwatchdog = 9\n\
                    protocols = \"OpenFlow13\"\nsynchronise = [\"0=1,goto_table:1\"]\n";
        let some = b"connections = 1073741824\nmbufs = 4096\neal = \"-l 0\"\nctl-group = \"0\"\npoll = true\n";
        run_on(&[all, some], 400, config);
    }

    #[test]
    fn versions_of_a_fleet() {
        let text =
            b"workers = 2\nport = [\"memory:a\"]\n[member.a]\nport = []\n[member.b]\nworkers = 1\n";
        let version =
            b"{\"version\":{\"number\":1,\"time\":\"\",\"by\":\"\",\"text\":\"\",\"digest\":\"\"}}";
        let ack = b"{\"number\":3,\"outcome\":\"refused\",\"error\":\"x\",\"running\":2}";
        let place = b"nats://10.0.0.9:4222,tls://b/gw member=a cache=/c ca=/ca";
        run_on(&[text, version, ack, place], 2000, fleet);
    }

    #[test]
    fn control_requests() {
        let seeds: [&[u8]; 6] = [
            b"{\"command\":\"stats\"}\n{\"command\":\"explain\"}\n",
            b"{\"command\":\"dump\",\"stage\":\"ir\"}",
            b"{\"command\":\"trace\",\"in_port\":1,\"packet\":\"020000000001020000000002080045\"}",
            b"{\"command\":\"queue\",\"set\":[\"1:2,max=5M\"],\"clear\":[\"9\"]}",
            b"{\"command\":\"conntrack\",\"flush\":false,\"zone\":1,\"limit\":5}\n{\"command\":\"take_over\"}",
            b"{\"command\":\"service\",\"add\":[\"x\",\"counter\"],\"set\":null,\"remove\":null}",
        ];
        run_on(&seeds, 300, ctl);
    }

    #[test]
    fn both_sides_of_a_take_over() {
        let seeds: [&[u8]; 4] = [
            b"\x01entries\nconnections\nchanges\nstop\nfinish\n",
            b"\x01finish\n",
            b"\x01stop\nstop\nchanges\n",
            b"\x04\x08\0\0\0\x06\x06\0\x08\0\0\0\0\0\0\0\0",
        ];
        run_on(&seeds, 300, take_over);
    }
}
