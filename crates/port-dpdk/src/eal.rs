//! How DPDK is started: its arguments, from what the user says and what the machine has.
//!
//! DPDK's environment (EAL) is started once in a process, by the first device. What the user gives
//! with `--eal` goes in as it is; what it leaves open is set so that a switch can start without any:
//!
//! | argument | why |
//! |---|---|
//! | `--no-huge -m 1024` | unless huge pages are free; slower, but works everywhere |
//! | `--in-memory` | with huge pages: nothing is left behind in a file system |
//! | `--file-prefix` | without huge pages: other DPDK programs run beside |
//! | `-a 0000:00:00.0` | no PCI device is taken that no port names |
//! | `--lcores 0@0` | DPDK gets no thread of its own; workers join it |
//! | `--log-level`, `--no-telemetry` | its start is silent, and opens no socket |
//!
//! Pure: [`arguments`] and [`split`] touch nothing.

use std::fmt::Write as _;

/// What the machine has to offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Free huge pages of all sizes, in MiB.
    pub huge_mib: u64,
    /// This process.
    pub pid: u32,
}

/// Megabytes without huge pages, beside what the pool needs.
const PLAIN_MIB: u64 = 192;
/// Bytes of an mbuf with its room, in the pool.
const MBUF_BYTES: u64 = 2432;

impl Machine {
    /// This one, from `/sys/kernel/mm/hugepages`.
    pub fn read() -> Machine {
        let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
        let free = |entry: std::fs::DirEntry| -> Option<u64> {
            let name = entry.file_name();
            let kib: u64 =
                name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let pages = std::fs::read_to_string(entry.path().join("free_hugepages")).ok()?;
            Some(pages.trim().parse::<u64>().ok()? * kib / 1024)
        };
        Machine { huge_mib: sizes.filter_map(free).sum(), pid: std::process::id() }
    }
}

/// Memory that a pool of so many buffers and DPDK itself want, in MiB.
pub fn wanted_mib(mbufs: u32) -> u64 {
    ((u64::from(mbufs) * MBUF_BYTES) >> 20) + PLAIN_MIB
}

/// DPDK's argument list, the program's name first: what the user says, and for what it leaves open,
/// what suits the machine.
pub fn arguments(user: &[String], machine: Machine, mbufs: u32) -> Vec<String> {
    let said = |names: &[&str]| {
        user.iter().any(|arg| {
            names.iter().any(|name| {
                let rest = arg.strip_prefix(name);
                // `-m512`, `--lcores=0`, or the word alone.
                rest.is_some_and(|r| r.is_empty() || r.starts_with('=') || !name.starts_with("--"))
            })
        })
    };
    let mut args = vec!["millrace".to_owned()];
    let mut add = |words: &[&str]| args.extend(words.iter().map(|w| (*w).to_owned()));
    if !said(&["-l", "-c", "--lcores"]) {
        add(&["--lcores", "0@0"]);
    }
    if !said(&["-a", "--allow", "-b", "--block", "--no-pci"]) {
        add(&["-a", "0000:00:00.0"]);
    }
    if !said(&["--log-level"]) {
        add(&["--log-level", "*:4"]);
    }
    if !said(&["--telemetry", "--no-telemetry"]) {
        add(&["--no-telemetry"]);
    }
    let wanted = wanted_mib(mbufs);
    let place = ["--no-huge", "--in-memory", "--huge-dir", "--legacy-mem", "--socket-mem"];
    if said(&["--no-huge"]) || !said(&place) && machine.huge_mib < wanted {
        if !said(&["--no-huge"]) {
            add(&["--no-huge"]);
        }
        if !said(&["-m"]) {
            add(&["-m", &wanted.to_string()]);
        }
        if !said(&["--file-prefix", "--in-memory"]) {
            let mut prefix = String::new();
            // Writing to a string does not fail.
            let _ = write!(prefix, "millrace{}", machine.pid);
            add(&["--file-prefix", &prefix]);
        }
    } else if !said(&place) {
        add(&["--in-memory"]);
    }
    args.extend(user.iter().cloned());
    args
}

/// The words of `--eal`: separated by white space; `"` and `'` keep a word together.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    match quote {
        Some(end) => Err(format!("--eal: a quote {end} is not closed")),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(user: &str, huge_mib: u64) -> String {
        let machine = Machine { huge_mib, pid: 7 };
        arguments(&split(user).unwrap(), machine, 1000).join(" ")
    }

    #[test]
    fn what_is_left_open_suits_the_machine() {
        let common = "millrace --lcores 0@0 -a 0000:00:00.0 --log-level *:4 --no-telemetry";
        assert_eq!(line("", 0), format!("{common} --no-huge -m 194 --file-prefix millrace7"));
        assert_eq!(line("", 1024), format!("{common} --in-memory"));
        // A pool that does not fit into the huge pages there are.
        assert!(line("", 100).contains("--no-huge"));
    }

    #[test]
    fn what_the_user_says_holds() {
        let all = "-l 1 --no-pci --log-level=lib.eal:8 --telemetry --huge-dir /h";
        assert_eq!(line(all, 0), format!("millrace {all}"));
        assert!(line("-m512 --no-huge", 9999).ends_with("--file-prefix millrace7 -m512 --no-huge"));
        assert!(!line("-m512 --no-huge", 9999).contains("-m 194"));
        assert!(line("--file-prefix x", 0).contains("--no-huge -m 194 --file-prefix x"));
        // `--lcores` is no `-l`, nor is `--log-level`.
        assert!(line("--log-level 8", 0).contains("--lcores 0@0"));
    }

    #[test]
    fn words_are_kept_together_by_quotes() {
        assert_eq!(split("  -a 'x y'  \"\" z\"q\" ").unwrap(), ["-a", "x y", "", "zq"]);
        assert_eq!(split("a 'b").unwrap_err(), "--eal: a quote ' is not closed");
        assert!(split("").unwrap().is_empty());
    }
}
