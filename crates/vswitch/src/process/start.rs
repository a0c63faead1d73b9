//! Starts of the program by itself: detached, watched.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The variable of the environment that tells a process what it is.
const ROLE: &str = "MILLRACE_VSWITCHD_ROLE";
/// The line on standard output that says that all is well.
const READY: &str = "ready";
/// A switch that crashes is started again so often at most.
const RESTART_PAUSE: Duration = Duration::from_secs(10);
/// How a process of ours ends that has found a fault of its own.
const BROKEN: i32 = 70;
/// Signals that are the end of a process with a fault, as Open vSwitch has them: ABRT, ALRM, BUS, FPE, ILL, PIPE, SEGV,
/// XCPU, XFSZ.
const FAULTS: [i32; 9] = [6, 14, 7, 8, 4, 13, 11, 24, 25];

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Who was started by a person or script.
    Command,
    /// Starts the switch again when it crashes.
    Monitor,
    /// The switch.
    Switch,
}

/// What is to be done in this process.
#[derive(Debug)]
pub enum Started {
    /// Its work is done: it ends with this status.
    Done(u8),
    /// It is the switch.
    Switch(Ready),
}

/// Says that the switch is ready, to whoever waits.
#[derive(Debug)]
pub struct Ready {
    awaited: bool,
}

impl Ready {
    /// Says so. Whoever waited goes away, and with it all that this process could write to.
    pub fn tell(&self) -> io::Result<()> {
        if self.awaited { tell() } else { Ok(()) }
    }
}

fn tell() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{READY}")?;
    out.flush()
}

/// What this process was told to be.
fn role() -> Role {
    match std::env::var(ROLE).as_deref() {
        Ok("monitor") => Role::Monitor,
        Ok("switch") => Role::Switch,
        _ => Role::Command,
    }
}

/// Does what the options ask for before the switch is started: in one process of up to three it returns
/// [`Started::Switch`].
pub fn begin(detach: bool, monitor: bool) -> io::Result<Started> {
    match role() {
        Role::Command if detach => {
            let mut child = again(if monitor { "monitor" } else { "switch" })?;
            match wait_ready(&mut child)? {
                true => Ok(Started::Done(0)),
                false => Ok(Started::Done(failed(&mut child)?)),
            }
        }
        Role::Command if monitor => watch(false).map(Started::Done),
        Role::Command => Ok(Started::Switch(Ready { awaited: false })),
        Role::Monitor => {
            rustix::process::setsid()?;
            watch(true).map(Started::Done)
        }
        Role::Switch => {
            // Below a monitor it is in the monitor's session, which is none of a terminal.
            if !monitor {
                rustix::process::setsid()?;
            }
            Ok(Started::Switch(Ready { awaited: true }))
        }
    }
}

/// This program with the same words, as something else.
fn again(role: &str) -> io::Result<Child> {
    let mut words = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    let piped = command.args(words).env(ROLE, role).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.stdin(Stdio::null()).spawn()?;
    if let Some(from) = child.stderr.take() {
        // Nothing of the terminal is kept open by what goes on behind it.
        let relay = move || relay(from);
        std::thread::Builder::new().name("stderr".to_owned()).spawn(relay)?;
    }
    Ok(child)
}

/// Passes on what a process says, and goes on reading when nobody hears it any more.
fn relay(mut from: impl Read) {
    let mut buffer = [0; 4096];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            return;
        }
        drop(io::stderr().write_all(&buffer[..count]));
    }
}

/// Whether it comes to be ready. What it says of what is wrong is on standard error.
fn wait_ready(child: &mut Child) -> io::Result<bool> {
    let Some(out) = child.stdout.take() else { return Ok(false) };
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    Ok(line.trim() == READY)
}

fn failed(child: &mut Child) -> io::Result<u8> {
    let status = child.wait()?;
    // Its last words are on their way.
    std::thread::sleep(Duration::from_millis(50));
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .filter(|code| *code != 0)
        .unwrap_or(1))
}

/// Starts the switch, again and again while it crashes.
fn watch(detached: bool) -> io::Result<u8> {
    let mut last: Option<Instant> = None;
    loop {
        let mut child = again("switch")?;
        let ready = wait_ready(&mut child)?;
        if ready && last.is_none() && detached {
            tell()?;
        }
        let status = child.wait()?;
        let crashed = status.signal().is_some_and(|signal| FAULTS.contains(&signal))
            || status.code() == Some(BROKEN);
        if !crashed || (!ready && last.is_none()) {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(code.unwrap_or(1));
        }
        if let Some(last) = last {
            std::thread::sleep(RESTART_PAUSE.saturating_sub(last.elapsed()));
        }
        last = Some(Instant::now());
        // The log is the switch's; the terminal may be gone.
        drop(writeln!(
            io::stderr(),
            "millrace vswitchd: the switch has crashed ({status}): started again"
        ));
    }
}
