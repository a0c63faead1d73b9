//! What a kind of port finds out about this machine: whether it works, and the command that mends it.
//!
//! A kind looks by opening a port where that leaves no trace. What it needs to know of the process ([`Machine`]) is read
//! once for all kinds.

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// It works.
    pub works: bool,
    /// What was found.
    pub detail: String,
    /// A command that mends it, if it does not work and one does.
    pub mend: Option<String>,
}

impl Finding {
    /// It works.
    pub fn good(detail: impl Into<String>) -> Finding {
        Finding { works: true, detail: detail.into(), mend: None }
    }

    /// It does not.
    pub fn bad(detail: impl Into<String>, mend: Option<String>) -> Finding {
        Finding { works: false, detail: detail.into(), mend }
    }
}

/// A capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its number in `linux/capability.h`.
    number: u32,
    /// Its name, as setcap(8) takes it.
    name: &'static str,
}

/// To change interfaces.
pub const CAP_NET_ADMIN: Capability = Capability { number: 12, name: "cap_net_admin" };
/// To open packet sockets.
pub const CAP_NET_RAW: Capability = Capability { number: 13, name: "cap_net_raw" };
/// Nearly everything; stood for `CAP_BPF` before Linux 5.8.
pub const CAP_SYS_ADMIN: Capability = Capability { number: 21, name: "cap_sys_admin" };
/// To load programs into the kernel.
pub const CAP_BPF: Capability = Capability { number: 39, name: "cap_bpf" };

/// What the kernel allows this process.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `CapEff` of `/proc/self/status`, proc_pid_status(5).
    capabilities: u64,
    /// This program, for setcap(8).
    program: String,
}

impl Machine {
    /// As it is now.
    pub fn read() -> Machine {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let program =
            std::env::current_exe().map_or("millrace".into(), |p| p.display().to_string());
        Machine { capabilities: effective(&status), program }
    }

    /// The process has it.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities >> capability.number & 1 == 1
    }

    /// Which of these are missing, and the command that gives all that any kind of port needs.
    pub fn missing(&self, needed: &[Capability]) -> Option<(String, String)> {
        let missing: Vec<_> = needed.iter().filter(|c| !self.has(**c)).map(|c| c.name).collect();
        if missing.is_empty() {
            return None;
        }
        let all = [CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF].map(|c| c.name).join(",");
        Some((missing.join(", "), format!("sudo setcap {all}+ep {}", self.program())))
    }

    /// This program, as a shell reads it.
    pub fn program(&self) -> String {
        quoted(&self.program)
    }
}

/// An interface name that nobody else has: at most 15 bytes, and process ids end at 4194304.
pub fn probe_name() -> String {
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
}
