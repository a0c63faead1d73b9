//! `millrace doctor`: what this machine lacks for each kind of port, and the command that mends it.
//!
//! In: nothing but the machine. Out: for each kind of port whether it works, found out by opening
//! one where that leaves no trace (a TAP interface of its own, which goes when it is closed, and an
//! AF_XDP socket on that); and for workers and the control socket.
//!
//! Exit status 0 says that the report could be made and that what needs no privilege works; a
//! privilege that is merely missing is part of the report and no failure. 1: `memory`, `pcap` or the
//! control socket does not work here.

use crate::cli::DoctorOptions;
use control::failure::Failure;
use port::spec::{Xdp, XdpMode, XdpSend};
use rustix::net::{AddressFamily, SocketType};
use serde_json::{Value, json};
use std::path::Path;

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    /// The kind of port, or `control_socket`.
    what: &'static str,
    works: bool,
    /// What was found.
    detail: String,
    /// A command that mends it, if it does not work and one does.
    mend: Option<String>,
}

/// `millrace doctor`.
pub(crate) fn run(options: DoctorOptions) -> Result<(), Failure> {
    let machine = Machine::read();
    let ports =
        [memory(), pcap(), machine.tap(), machine.af_packet(), machine.af_xdp(), machine.dpdk()];
    let control = control_socket();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if options.json {
        println!(
            "{}",
            json!({
                "ports": ports.iter().map(Finding::value).collect::<Vec<_>>(),
                "workers": {"cores": cores, "usable": usable(cores)},
                "control_socket": control.value(),
            })
        );
    } else {
        ports.iter().for_each(|f| print!("{}", f.text()));
        println!("{:<15} {}", "workers", workers(cores));
        print!("{}", control.text());
    }
    let unprivileged = ["memory", "pcap", "control_socket"];
    let broken: Vec<_> = ports
        .iter()
        .chain([&control])
        .filter(|f| !f.works && unprivileged.contains(&f.what))
        .map(|f| f.what)
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::Bad(format!("not even this works here: {}", broken.join(", "))))
}

impl Finding {
    fn good(what: &'static str, detail: impl Into<String>) -> Finding {
        Finding { what, works: true, detail: detail.into(), mend: None }
    }

    fn bad(what: &'static str, detail: impl Into<String>, mend: Option<String>) -> Finding {
        Finding { what, works: false, detail: detail.into(), mend }
    }

    fn value(&self) -> Value {
        json!({"kind": self.what, "works": self.works, "detail": self.detail, "mend": self.mend})
    }

    fn text(&self) -> String {
        let state = if self.works { "works" } else { "does not work" };
        let name = self.what.replace("control_socket", "control socket");
        let mut out = format!("{name:<15} {state}: {}\n", self.detail);
        if let Some(mend) = &self.mend {
            out.push_str(&format!("{:<15} mend it with: {mend}\n", ""));
        }
        out
    }
}

/// Cores that workers can have: one is left to the control side where there are two or more.
fn usable(cores: usize) -> usize {
    cores.saturating_sub(1).max(1)
}

fn workers(cores: usize) -> String {
    match cores {
        1 => "1 core: the worker and the control side take turns".to_string(),
        n => format!(
            "{n} cores: up to --workers {}, which leaves one to the control side",
            usable(n)
        ),
    }
}

fn memory() -> Finding {
    match port::memory::port("doctor", port::memory::Config::default()) {
        Ok(_) => Finding::good("memory", "needs no privilege"),
        Err(error) => Finding::bad("memory", error.to_string(), None),
    }
}

fn pcap() -> Finding {
    let file = std::env::temp_dir().join(format!("millrace-doctor-{}.pcap", std::process::id()));
    let opened = port::pcap::Pcap::open("doctor", None, Some(&file), false);
    let works = opened.map(drop);
    // Not there if it could not be made.
    let _ = std::fs::remove_file(&file);
    match works {
        Ok(()) => Finding::good("pcap", "needs no privilege beyond access to the files"),
        Err(error) => {
            let mend = "mkdir -p ~/tmp && export TMPDIR=~/tmp".to_string();
            Finding::bad("pcap", error.to_string(), Some(mend))
        }
    }
}

fn control_socket() -> Finding {
    let what = "control_socket";
    let path = control::client::default_path();
    let shown = path.display();
    if std::os::unix::net::UnixStream::connect(&path).is_ok() {
        let detail = format!("{shown}: a switch is running there; give another one --ctl PATH");
        return Finding::good(what, detail);
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    match rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
        Ok(()) => Finding::good(what, shown.to_string()),
        Err(error) => {
            let mend = Some("millrace run --ctl /tmp/millrace.ctl".to_string());
            Finding::bad(what, format!("{shown}: its folder is not writable: {error}"), mend)
        }
    }
}

/// Capabilities by their number in `linux/capability.h`.
const CAP_NET_ADMIN: (u32, &str) = (12, "cap_net_admin");
const CAP_NET_RAW: (u32, &str) = (13, "cap_net_raw");
const CAP_SYS_ADMIN: (u32, &str) = (21, "cap_sys_admin");
const CAP_BPF: (u32, &str) = (39, "cap_bpf");

/// What the kernel allows us.
struct Machine {
    /// `CapEff` of `/proc/self/status`, proc_pid_status(5).
    capabilities: u64,
    /// This program, for setcap(8).
    program: String,
}

impl Machine {
    fn read() -> Machine {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let program =
            std::env::current_exe().map_or("millrace".into(), |p| p.display().to_string());
        Machine { capabilities: effective(&status), program }
    }

    fn has(&self, (number, _): (u32, &str)) -> bool {
        self.capabilities >> number & 1 == 1
    }

    /// Which of these are missing, and the command that gives all that any kind of port needs.
    fn missing(&self, needed: &[(u32, &'static str)]) -> Option<(String, String)> {
        let missing: Vec<_> = needed.iter().filter(|c| !self.has(**c)).map(|c| c.1).collect();
        if missing.is_empty() {
            return None;
        }
        let all = [CAP_NET_ADMIN.1, CAP_NET_RAW.1, CAP_BPF.1].join(",");
        Some((missing.join(", "), format!("sudo setcap {all}+ep {}", quoted(&self.program))))
    }

    fn tap(&self) -> Finding {
        if let Some(mut problem) = tun_device() {
            if let Some((missing, mend)) = self.missing(&[CAP_NET_ADMIN]) {
                problem.detail.push_str(&format!("; {missing} is missing"));
                problem.mend = problem.mend.map(|m| format!("{m} && {mend}"));
            }
            return problem;
        }
        match port::tap::Tap::open(&probe_name()) {
            Ok(_) => Finding::good("tap", "made an interface and removed it"),
            Err(error) => match self.missing(&[CAP_NET_ADMIN]) {
                Some((missing, mend)) => {
                    Finding::bad("tap", format!("{missing} is missing"), Some(mend))
                }
                None => Finding::bad("tap", error.to_string(), None),
            },
        }
    }

    fn af_packet(&self) -> Finding {
        let what = "af_packet";
        match rustix::net::socket(AddressFamily::PACKET, SocketType::RAW, None) {
            Ok(_) => match self.missing(&[CAP_NET_ADMIN]) {
                None => Finding::good(what, "opened a socket"),
                Some((missing, mend)) => Finding::bad(
                    what,
                    format!("{missing} is missing, for promiscuous mode"),
                    Some(mend),
                ),
            },
            Err(rustix::io::Errno::AFNOSUPPORT) => {
                let mend = Some("sudo modprobe af_packet".to_string());
                Finding::bad(what, "the kernel has no AF_PACKET (CONFIG_PACKET)", mend)
            }
            Err(error) => match self.missing(&[CAP_NET_RAW, CAP_NET_ADMIN]) {
                Some((missing, mend)) => {
                    Finding::bad(what, format!("missing: {missing}"), Some(mend))
                }
                None => Finding::bad(what, format!("opening a socket failed: {error}"), None),
            },
        }
    }

    fn af_xdp(&self) -> Finding {
        let what = "af_xdp";
        let family = AddressFamily::from_raw(44); // AF_XDP, linux/socket.h
        if let Err(rustix::io::Errno::AFNOSUPPORT) =
            rustix::net::socket(family, SocketType::RAW, None)
        {
            let mend = "use af_packet, or a kernel built with CONFIG_XDP_SOCKETS=y".to_string();
            return Finding::bad(what, format!("the kernel has no AF_XDP; {mend}"), None);
        }
        // CAP_SYS_ADMIN stands for CAP_BPF, as before Linux 5.8.
        let mut needed = vec![CAP_NET_ADMIN, CAP_NET_RAW];
        if !self.has(CAP_SYS_ADMIN) {
            needed.push(CAP_BPF);
        }
        if let Some((missing, mend)) = self.missing(&needed) {
            return Finding::bad(what, format!("missing: {missing}"), Some(mend));
        }
        let name = probe_name();
        let Ok(_tap) = port::tap::Tap::open(&name) else {
            let detail = "the kernel and the privileges suffice; not tried, for want of an interface to try it on";
            return Finding::good(what, detail);
        };
        let (queue, mode, busy_poll_us) = (Some(0), XdpMode::Generic, None);
        let send = XdpSend::Auto;
        match port_xdp::open(&Xdp { interface: name, queue, mode, busy_poll_us, send }) {
            Ok(_) => Finding::good(
                what,
                "opened a socket in generic mode; native mode is up to each driver",
            ),
            Err(error) => {
                let (detail, mend) = self.refused_xdp(&error.to_string());
                Finding::bad(what, detail, mend)
            }
        }
    }

    fn refused_xdp(&self, error: &str) -> (String, Option<String>) {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        match limit {
            Some(bytes) if bytes < 64 << 20 => {
                let mend = format!("ulimit -l unlimited && {} run ...", quoted(&self.program));
                (format!("{error}; only {} KiB may be locked in memory", bytes >> 10), Some(mend))
            }
            _ => (error.to_string(), None),
        }
    }

    /// Whether a device can be had, by having one; with what is slow about it.
    fn dpdk(&self) -> Finding {
        let what = "dpdk";
        // The least that DPDK starts with, so that nothing big is taken to find out.
        let options = port_dpdk::Options { mbufs: 4096, ..Default::default() };
        if let Err(error) = port_dpdk::open("doctor", "net_null_doctor,no-rx=1", &options) {
            let mend = match port_dpdk::BUILT_IN {
                true => None,
                false => Some(
                    "sudo apt-get install libdpdk-dev && cargo build --release --features dpdk"
                        .to_owned(),
                ),
            };
            let detail = error.to_string();
            let detail = detail.strip_prefix("doctor: ").unwrap_or(&detail).to_owned();
            let detail = detail.split("; ").next().unwrap_or(&detail).to_owned();
            return Finding::bad(what, detail, mend);
        }
        let wanted = port_dpdk::eal::wanted_mib(port_dpdk::MBUFS);
        let free = port_dpdk::eal::Machine::read().huge_mib;
        let mut detail = "opened a device".to_owned();
        if free < wanted {
            detail.push_str(&format!(
                "; {free} MiB of huge pages are free and {wanted} are wanted: without them it works, \
                 slower; sudo sysctl vm.nr_hugepages={} gives them",
                wanted.div_ceil(2)
            ));
        }
        if !Path::new("/sys/bus/pci/drivers/vfio-pci").exists() {
            detail.push_str(
                "; network cards of most kinds need the kernel's vfio-pci: sudo modprobe vfio-pci, \
                 then dpdk-devbind.py --bind=vfio-pci ADDRESS",
            );
        }
        Finding::good(what, detail)
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
            return Some(Finding::bad(
                "tap",
                format!("opening /dev/net/tun failed: {other}"),
                None,
            ));
        }
    };
    Some(Finding::bad("tap", detail, Some(mend.to_string())))
}

/// An interface name that nobody else has: at most 15 bytes, and process ids end at 4194304.
fn probe_name() -> String {
    format!("mrdoc{}", std::process::id())
}

/// The value of the line that begins with `CapEff:`, 16 hexadecimal digits.
fn effective(status: &str) -> u64 {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

/// As a shell reads it back.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) {
        path.to_string()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read() {
        assert_eq!(effective("Name:\tx\nCapEff:\t0000000000003000\n"), 0x3000);
        assert_eq!(effective("Name:\tx\n"), 0);
        let machine = Machine { capabilities: 1 << 13, program: "/opt/a b/millrace".into() };
        assert!(machine.has(CAP_NET_RAW));
        let (missing, mend) = machine.missing(&[CAP_NET_ADMIN, CAP_NET_RAW]).unwrap();
        assert_eq!(missing, "cap_net_admin");
        assert_eq!(mend, "sudo setcap cap_net_admin,cap_net_raw,cap_bpf+ep '/opt/a b/millrace'");
        assert!(machine.missing(&[CAP_NET_RAW]).is_none());
    }

    #[test]
    fn what_needs_no_privilege_works() {
        assert!(memory().works);
        assert!(pcap().works, "{:?}", pcap());
        assert_eq!(Machine::read().dpdk().works, port_dpdk::BUILT_IN);
    }

    #[test]
    fn a_finding_reads_well() {
        let bad = Finding::bad("tap", "cap_net_admin is missing", Some("sudo x".into()));
        let text = "tap             does not work: cap_net_admin is missing\n                mend it with: sudo x\n";
        assert_eq!(bad.text(), text);
    }

    #[test]
    fn workers_leave_a_core_to_the_control_side() {
        assert_eq!([1, 2, 8].map(usable), [1, 1, 7]);
        assert!(workers(8).contains("--workers 7"));
    }
}
