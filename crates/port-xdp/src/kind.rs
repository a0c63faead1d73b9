//! The kind `af_xdp`: `af_xdp:IF[,queue=N][,mode=native|generic][,busy-poll=USEC][,send=ring|live]`.

use crate::settings::{Mode, SendBy, Settings};
use port::doctor::{self, CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN, Finding, Machine};
use port::kind::{Attached, Attachment, Environment, Generates, Kind, TakeOver};
use port::spec::SpecError;
use port::spec::words::{interface, number, split_option, unknown, words};
use port::{Error, Port};
use rustix::net::{AddressFamily, SocketType};
use std::fmt;

/// `af_xdp:IF[,OPTION...]`
pub static KIND: Kind = Kind {
    form: "af_xdp:IF[,OPTION...]",
    options: &[
        ("queue=N", "this queue only; without it, all queues of the interface"),
        ("mode=native", "XDP in the driver; default: native where it works, else generic"),
        ("mode=generic", "XDP in the kernel, for any driver"),
        ("busy-poll=USEC", "poll the driver from the worker"),
        ("send=ring", "send through the ring; default, but for gauge"),
        ("send=live", "send in bursts as live XDP frames (Linux 5.18)"),
    ],
    about: "an interface, by AF_XDP",
    use_for: "high packet rates without DPDK",
    diagnose: Some(diagnose),
    capabilities: &["CAP_BPF", "CAP_IPC_LOCK", "CAP_NET_ADMIN", "CAP_NET_RAW"],
    ..Kind::plain("af_xdp", parse)
};

fn parse(text: &str, at: usize) -> Result<Attached, SpecError> {
    Ok(Attached::new(settings(text, at)?))
}

fn settings(text: &str, at: usize) -> Result<Settings, SpecError> {
    let mut words = words(text, at);
    let (at, name) = words.next().unwrap_or((at, ""));
    let interface = interface(name, at)?;
    let (mut queue, mut mode, mut busy_poll_us, mut send) = (None, None, None, None);
    for (at, word) in words {
        let (option, value) = split_option(word);
        let place = at + option.len() + 1;
        let twice = match (option, value) {
            ("queue", Some(value)) => {
                queue.replace(number(value, place, "queue", 0, 65_535)?).is_some()
            }
            ("mode", Some("native")) => mode.replace(Mode::Native).is_some(),
            ("mode", Some("generic")) => mode.replace(Mode::Generic).is_some(),
            ("mode", Some(value)) => {
                return Err(unknown(place, "mode", value, &["native", "generic"]));
            }
            ("busy-poll", Some(value)) => {
                let us = number(value, place, "busy-poll", 1, 1_000_000)?;
                busy_poll_us.replace(us).is_some()
            }
            ("send", Some("ring")) => send.replace(SendBy::Ring).is_some(),
            ("send", Some("live")) => send.replace(SendBy::Live).is_some(),
            ("send", Some(value)) => {
                return Err(unknown(place, "way to send", value, &["ring", "live"]));
            }
            ("queue" | "mode" | "busy-poll" | "send", None) => {
                return Err(SpecError::Value { at, word: option.to_owned(), takes_value: true });
            }
            _ => {
                let known = ["queue", "mode", "busy-poll", "send"];
                return Err(unknown(at, "option of af_xdp", option, &known));
            }
        };
        if twice {
            return Err(SpecError::Twice { at, word: option.to_owned() });
        }
    }
    let (mode, send) = (mode.unwrap_or_default(), send.unwrap_or_default());
    Ok(Settings { interface, queue, mode, busy_poll_us, send })
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "af_xdp:{}", self.interface)?;
        if let Some(queue) = self.queue {
            write!(f, ",queue={queue}")?;
        }
        match self.mode {
            Mode::Auto => Ok(()),
            Mode::Native => f.write_str(",mode=native"),
            Mode::Generic => f.write_str(",mode=generic"),
        }?;
        self.busy_poll_us.map_or(Ok(()), |us| write!(f, ",busy-poll={us}"))?;
        match self.send {
            SendBy::Auto => Ok(()),
            SendBy::Ring => f.write_str(",send=ring"),
            SendBy::Live => f.write_str(",send=live"),
        }
    }
}

impl Attachment for Settings {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn default_name(&self) -> &str {
        &self.interface
    }

    fn open(&self, _: &str, environment: &Environment) -> Result<Box<dyn Port>, Error> {
        // Traffic that is generated goes as fast as it can, unless it is told otherwise.
        if self.send == SendBy::Auto && environment.get::<Generates>().is_some() {
            return crate::open(&Settings { send: SendBy::Live, ..self.clone() });
        }
        crate::open(self)
    }

    fn check(&self, _: &str) -> Result<(), String> {
        let name = self.interface.clone();
        match std::path::Path::new("/sys/class/net").join(&name).exists() {
            true => Ok(()),
            false => Err(Error::NoInterface { name }.to_string()),
        }
    }

    fn take_over(&self) -> TakeOver {
        TakeOver::Exclusive
    }

    fn interface(&self) -> Option<&str> {
        Some(&self.interface)
    }
}

/// Opens a socket on a TAP interface, which goes when it is closed.
fn diagnose(machine: &Machine) -> Finding {
    let family = AddressFamily::from_raw(44); // AF_XDP, linux/socket.h
    if let Err(rustix::io::Errno::AFNOSUPPORT) = rustix::net::socket(family, SocketType::RAW, None)
    {
        let mend = "use af_packet, or a kernel built with CONFIG_XDP_SOCKETS=y".to_string();
        return Finding::bad(format!("the kernel has no AF_XDP; {mend}"), None);
    }
    // CAP_SYS_ADMIN stands for CAP_BPF, as before Linux 5.8.
    let mut needed = vec![CAP_NET_ADMIN, CAP_NET_RAW];
    if !machine.has(CAP_SYS_ADMIN) {
        needed.push(CAP_BPF);
    }
    if let Some((missing, mend)) = machine.missing(&needed) {
        return Finding::bad(format!("missing: {missing}"), Some(mend));
    }
    let interface = doctor::probe_name();
    let Ok(_tap) = port::tap::Tap::open(&interface) else {
        let detail = "the kernel and the privileges suffice; not tried, for want of an interface to try it on";
        return Finding::good(detail);
    };
    let (queue, mode, busy_poll_us, send) = (Some(0), Mode::Generic, None, SendBy::Auto);
    match crate::open(&Settings { interface, queue, mode, busy_poll_us, send }) {
        Ok(_) => Finding::good("opened a socket in generic mode; native mode is up to each driver"),
        Err(error) => {
            let (detail, mend) = refused(machine, &error.to_string());
            Finding::bad(detail, mend)
        }
    }
}

fn refused(machine: &Machine, error: &str) -> (String, Option<String>) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    match limit {
        Some(bytes) if bytes < 64 << 20 => {
            let mend = format!("ulimit -l unlimited && {} run ...", machine.program());
            (format!("{error}; only {} KiB may be locked in memory", bytes >> 10), Some(mend))
        }
        _ => (error.to_string(), None),
    }
}
