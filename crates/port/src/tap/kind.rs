//! The kinds `tap` and `internal`: the same interface, shown under another word.

use super::Tap;
use crate::doctor::{self, CAP_NET_ADMIN, Finding, Machine};
use crate::error::Error;
use crate::inherited::Inherited;
use crate::kind::{Attached, Attachment, Database, Environment, Kind, TakeOver};
use crate::port::Port;
use crate::spec::words::interface;
use crate::terminal::Terminal;
use std::fmt;
use std::path::Path;

/// `tap:IF`
pub static KIND: Kind = Kind {
    form: "tap:IF",
    about: "a TAP interface, which the switch makes",
    use_for: "the host itself, virtual machines",
    diagnose: Some(diagnose),
    database: &[Database { word: "tap", attach: |name, _| Attached::new(Named::tap(name)) }],
    capabilities: &["CAP_NET_ADMIN"],
    ..Kind::plain("tap", |text, at| Ok(Attached::new(Named::tap(&interface(text, at)?))))
};

/// `internal:IF`
pub static INTERNAL: Kind = Kind {
    form: "internal:IF",
    about: "a TAP interface, which is shown as internal",
    use_for: "the host itself",
    database: &[Database {
        word: "internal",
        attach: |name, _| Attached::new(Named::internal(name)),
    }],
    capabilities: &["CAP_NET_ADMIN"],
    ..Kind::plain("internal", |text, at| Ok(Attached::new(Named::internal(&interface(text, at)?))))
};

/// A TAP interface of this name.
struct Named {
    kind: &'static Kind,
    interface: String,
}

impl Named {
    fn tap(interface: &str) -> Named {
        Named { kind: &KIND, interface: interface.to_owned() }
    }

    fn internal(interface: &str) -> Named {
        Named { kind: &INTERNAL, interface: interface.to_owned() }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.word, self.interface)
    }
}

impl Attachment for Named {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn default_name(&self) -> &str {
        &self.interface
    }

    /// A bridge's own port is attended to, if somebody does.
    fn open(&self, _: &str, environment: &Environment) -> Result<Box<dyn Port>, Error> {
        let is_internal = self.kind.word == INTERNAL.word;
        let terminal = if is_internal { environment.get::<Terminal>() } else { None };
        let inherited = environment.get::<Inherited>().and_then(|all| all.take(&self.interface));
        Ok(Box::new(Tap::open_as(&self.interface, self.kind.word, terminal, inherited)?))
    }

    fn take_over(&self) -> TakeOver {
        TakeOver::Exclusive
    }

    fn interface(&self) -> Option<&str> {
        Some(&self.interface)
    }
}

/// Makes an interface, which goes when it is closed.
fn diagnose(machine: &Machine) -> Finding {
    if let Some(mut problem) = tun_device() {
        if let Some((missing, mend)) = machine.missing(&[CAP_NET_ADMIN]) {
            problem.detail.push_str(&format!("; {missing} is missing"));
            problem.mend = problem.mend.map(|m| format!("{m} && {mend}"));
        }
        return problem;
    }
    match Tap::open(&doctor::probe_name()) {
        Ok(_) => Finding::good("made an interface and removed it"),
        Err(error) => match machine.missing(&[CAP_NET_ADMIN]) {
            Some((missing, mend)) => Finding::bad(format!("{missing} is missing"), Some(mend)),
            None => Finding::bad(error.to_string(), None),
        },
    }
}

/// What is wrong with `/dev/net/tun`, if anything.
fn tun_device() -> Option<Finding> {
    use rustix::fs::{Mode, OFlags, open};
    let error = open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).err()?;
    let (detail, mend) = match error {
        rustix::io::Errno::NOENT if Path::new("/sys/class/misc/tun").exists() => (
            "/dev/net/tun is missing",
            "sudo mkdir -p /dev/net && sudo mknod -m 666 /dev/net/tun c 10 200",
        ),
        rustix::io::Errno::NOENT | rustix::io::Errno::NODEV => {
            ("the kernel's tun driver is not loaded", "sudo modprobe tun")
        }
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => {
            ("/dev/net/tun is not readable and writable", "sudo chmod 666 /dev/net/tun")
        }
        other => {
            return Some(Finding::bad(format!("opening /dev/net/tun failed: {other}"), None));
        }
    };
    Some(Finding::bad(detail, Some(mend.to_string())))
}
