//! What `--replication` says: a group, this member, the others, the engine, addresses that move.
//!
//! What it says of the group comes first, then what it says of each share (`share=NAME services=NAME[,NAME...]`, and by choice
//! `address=...` and `prefer=MEMBER[,MEMBER...]`).
//!
//! `group=NAME member=NAME server=URL[,URL...] listen=ADDR:PORT[,ADDR:PORT...] peer=NAME@ADDR:PORT[,ADDR:PORT...]...`, and by choice
//! `address=PORT,IP,MAC[,VLAN]...`, `interval=10ms`, `misses=3`, `hold=1s`, `priority=100`, `rebalance=10s`, `batch=1ms`, `min-age=500ms`,
//! `registers=NAME[,NAME...]`, `notify=PROGRAM`, `ca=FILE`, `certificate=FILE`, `key=FILE`, `credentials=FILE`. Paths are the places of
//! `listen` and of each peer's addresses: the first to the first.

use crate::failure::Failure;
use replication::{Shares, member};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Members of a group, at most: each needs stripes of ports that are its own.
const MEMBERS_MAX: usize = 16;

/// Shares move to members that come earlier when these have lived for so long.
const REBALANCE: Duration = Duration::from_secs(10);

/// Another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// Where it listens, by path.
    pub(crate) at: Vec<SocketAddr>,
}

/// An address that the active member has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// At this port of a bridge.
    pub(crate) port: String,
    pub(crate) ip: IpAddr,
    pub(crate) mac: [u8; 6],
    pub(crate) vlan: Option<u16>,
}

/// How the engine is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Server {
    pub(crate) urls: Vec<String>,
    pub(crate) ca: Option<PathBuf>,
    /// Certificate and key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    pub(crate) credentials: Option<PathBuf>,
}

impl Server {
    /// Files that are read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let identity = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.ca.iter().chain(&self.credentials).chain(identity).map(PathBuf::as_path)
    }
}

/// A share: services whose packets one member forwards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Share {
    pub(crate) name: String,
    /// Names of services, or of their groups.
    pub(crate) services: Vec<String>,
    /// Addresses that the share's active member has.
    pub(crate) addresses: Vec<Address>,
    /// Members that come first.
    pub(crate) prefer: Vec<String>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) group: String,
    pub(crate) member: String,
    pub(crate) server: Server,
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) interval: Duration,
    pub(crate) misses: u32,
    pub(crate) hold: Duration,
    pub(crate) batch: Duration,
    /// Connections that are younger are not told.
    pub(crate) min_age: Duration,
    /// Registers of P4 programs that are told, by name.
    pub(crate) registers: Vec<String>,
    pub(crate) priority: u8,
    /// A program that is told of roles.
    pub(crate) notify: Option<PathBuf>,
    /// A member that comes earlier gets its place back once it has lived for so long.
    pub(crate) rebalance: Option<Duration>,
    /// None: the whole process is active or a standby.
    pub(crate) shares: Vec<Share>,
}

impl Settings {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with which word.
    pub(crate) fn parse(line: &str) -> Result<Settings, String> {
        let mut read = Settings {
            group: String::new(),
            member: String::new(),
            server: Server::default(),
            listen: Vec::new(),
            peers: Vec::new(),
            addresses: Vec::new(),
            interval: Duration::from_millis(10),
            misses: 3,
            hold: Duration::from_secs(1),
            batch: Duration::from_millis(1),
            min_age: Duration::ZERO,
            registers: Vec::new(),
            priority: 100,
            notify: None,
            rebalance: None,
            shares: Vec::new(),
        };
        let (mut certificate, mut key) = (None, None);
        let (mut seen, mut rebalance) = (Vec::new(), None);
        for word in line.split_whitespace() {
            let (name, value) = word
                .split_once('=')
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| format!("{word}: KEY=VALUE was expected"))?;
            let wrong = |want: &str| format!("{word}: {want} was expected");
            if name == "share" {
                read.shares.push(Share { name: value.to_owned(), ..Share::default() });
                seen.retain(|name| !matches!(*name, "services" | "prefer"));
                continue;
            }
            if !matches!(name, "peer" | "address") {
                if seen.contains(&name) {
                    return Err(format!("{name}= is there twice"));
                }
                seen.push(name);
            }
            if let Some(share) = read.shares.last_mut() {
                let names = || value.split(',').map(str::to_owned).collect();
                match name {
                    "services" => share.services = names(),
                    "prefer" => share.prefer = names(),
                    "address" => share
                        .addresses
                        .push(address(value).ok_or_else(|| wrong("PORT,IP,MAC[,VLAN]"))?),
                    _ => {
                        return Err(format!(
                            "{word}: behind share={} there are services=, address=, prefer= and the next share=; what is the \
                             whole group's comes before the first share=",
                            share.name
                        ));
                    }
                }
                continue;
            }
            match name {
                "group" => read.group = value.to_owned(),
                "member" => read.member = value.to_owned(),
                "server" => read.server.urls = value.split(',').map(str::to_owned).collect(),
                "listen" => {
                    read.listen =
                        sockets(value).ok_or_else(|| wrong("ADDR:PORT[,ADDR:PORT...]"))?;
                }
                "peer" => {
                    let peer = value.split_once('@').and_then(|(name, at)| {
                        Some(Peer { name: name.to_owned(), at: sockets(at)? })
                    });
                    read.peers.push(peer.ok_or_else(|| wrong("NAME@ADDR:PORT[,ADDR:PORT...]"))?);
                }
                "address" => {
                    let address = address(value).ok_or_else(|| wrong("PORT,IP,MAC[,VLAN]"))?;
                    read.addresses.push(address);
                }
                "interval" => read.interval = time(value).ok_or_else(|| wrong("a time as 10ms"))?,
                "hold" => read.hold = time(value).ok_or_else(|| wrong("a time as 1s"))?,
                "batch" => {
                    let most = Duration::from_millis(100);
                    let batch = time(value).filter(|time| *time <= most);
                    read.batch = batch.ok_or_else(|| wrong("a time up to 100ms"))?;
                }
                "min-age" => {
                    let most = Duration::from_secs(60);
                    let age = time(value).filter(|time| *time <= most);
                    read.min_age = age.ok_or_else(|| wrong("a time up to 60s"))?;
                }
                "registers" => read.registers = value.split(',').map(str::to_owned).collect(),
                "misses" => {
                    read.misses = value.parse().map_err(|_| wrong("a number"))?;
                }
                "priority" => {
                    read.priority = value.parse().map_err(|_| wrong("a number up to 255"))?;
                }
                "rebalance" => {
                    rebalance = Some(match value {
                        "never" => None,
                        _ => Some(time(value).ok_or_else(|| wrong("a time as 10s, or never"))?),
                    });
                }
                "services" | "prefer" => {
                    return Err(format!("{word}: it belongs to a share, behind share=NAME"));
                }
                "ca" => read.server.ca = Some(value.into()),
                "certificate" => certificate = Some(PathBuf::from(value)),
                "key" => key = Some(PathBuf::from(value)),
                "notify" => {
                    let program =
                        Some(PathBuf::from(value)).filter(|program| program.is_absolute());
                    read.notify =
                        Some(program.ok_or_else(|| wrong("the whole path of a program"))?);
                }
                "credentials" => read.server.credentials = Some(value.into()),
                _ => {
                    return Err(format!(
                        "{word}: there are group=, member=, server=, listen=, peer=, address=, interval=, misses=, hold=, \
                         batch=, min-age=, registers=, priority=, rebalance=, notify=, ca=, certificate=, key=, credentials= and share="
                    ));
                }
            }
        }
        read.server.identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("certificate= and key= go together".to_owned()),
        };
        // Shares go where they belong by themselves; a group without them stays where it is.
        let shared = (!read.shares.is_empty()).then_some(REBALANCE);
        read.rebalance = rebalance.unwrap_or(shared);
        if !read.shares.is_empty() {
            if seen.contains(&"priority") {
                return Err("priority=: shares have prefer=MEMBER instead".to_owned());
            }
            if !read.registers.is_empty() {
                return Err("registers=: a program's registers belong to no share".to_owned());
            }
            if !read.addresses.is_empty() {
                return Err("address=: it belongs to a share, behind share=NAME".to_owned());
            }
        }
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), String> {
        for (name, missing) in [
            ("group", self.group.is_empty()),
            ("member", self.member.is_empty()),
            ("server", self.server.urls.is_empty()),
            ("listen", self.listen.is_empty()),
            ("peer", self.peers.is_empty()),
        ] {
            if missing {
                return Err(format!("{name}= is missing"));
            }
        }
        if self.peers.len() >= MEMBERS_MAX {
            return Err(format!("a group has {MEMBERS_MAX} members at most"));
        }
        for peer in &self.peers {
            if peer.at.len() != self.listen.len() {
                return Err(format!(
                    "peer {} has {} addresses and listen= {}: one of each makes a path",
                    peer.name,
                    peer.at.len(),
                    self.listen.len()
                ));
            }
        }
        let mut seen: Vec<&str> = Vec::new();
        for share in &self.shares {
            if share.services.is_empty() {
                return Err(format!("share={}: services= is missing", share.name));
            }
            for service in &share.services {
                if seen.contains(&&**service) {
                    return Err(format!("share={}: service {service} is there twice", share.name));
                }
                seen.push(service);
            }
        }
        self.members(0, 0).map(drop).map_err(|error| error.to_string())
    }

    /// The state machines of all shares, at the time 0.
    ///
    /// # Errors
    /// If they cannot be as they are configured.
    pub(crate) fn members(
        &self,
        digest: u64,
        incarnation: u64,
    ) -> Result<Shares, member::ConfigError> {
        let share = |share: &Share| replication::shares::Share {
            name: share.name.clone(),
            prefer: share.prefer.clone(),
        };
        let shares: Vec<_> = self.shares.iter().map(share).collect();
        Shares::new(&self.member(digest, incarnation), &shares, 0)
    }

    /// What the state machine is told.
    fn member(&self, digest: u64, incarnation: u64) -> member::Config {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 1024);
        member::Config {
            group: self.group.clone(),
            share: String::new(),
            name: self.member.clone(),
            peers: self.peers.iter().map(|peer| peer.name.clone()).collect(),
            priority: self.priority,
            interval_ns: ns(self.interval),
            misses: self.misses,
            hold_ns: ns(self.hold),
            settles_ns: member::SETTLES_NS,
            digest,
            incarnation,
            returns_ns: self.rebalance.map(ns),
        }
    }

    /// Which of the members it is, in the order of their names, and how many there are.
    pub(crate) fn place(&self) -> (u32, u32) {
        let before = self.peers.iter().filter(|peer| peer.name < self.member).count();
        (before as u32, self.peers.len() as u32 + 1)
    }
}

/// Reads the line, if there is one.
pub(super) fn read(
    line: Option<String>,
    take_over: Option<&Path>,
) -> Result<Option<Settings>, Failure> {
    if line.is_some() && take_over.is_some() {
        return Err(Failure::usage(
            "--take-over: a member of a group hands over to another member: `millrace replication drain`, then start anew",
        ));
    }
    let read = line.map(|line| Settings::parse(&line)).transpose();
    read.map_err(|why| Failure::usage(format!("--replication: {why}")))
}

/// A confined process starts programs only where it is told that it may.
pub(super) fn may_notify(
    settings: Option<&Settings>,
    confine: bool,
    paths: &[PathBuf],
) -> Result<(), Failure> {
    let program = settings.and_then(|settings| settings.notify.as_ref());
    match program {
        Some(program) if confine && !paths.iter().any(|path| program.starts_with(path)) => {
            let program = program.display();
            Err(Failure::Usage(format!(
                "--replication notify={program}: a confined process starts programs only of folders that --confine-path names"
            )))
        }
        _ => Ok(()),
    }
}

fn sockets(text: &str) -> Option<Vec<SocketAddr>> {
    text.split(',').map(|one| one.parse().ok()).collect()
}

fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    let ms = number.parse::<u32>().ok()?.checked_mul(unit)?;
    (1..=3_600_000).contains(&ms).then(|| Duration::from_millis(ms.into()))
}

fn address(text: &str) -> Option<Address> {
    let mut words = text.split(',');
    let (port, ip, mac) = (words.next()?, words.next()?, words.next()?);
    let vlan = words.next().map(|vlan| vlan.parse().ok().filter(|vlan| (1..4095).contains(vlan)));
    if words.next().is_some() || vlan == Some(None) || port.is_empty() {
        return None;
    }
    let octets = mac.split(':').map(|octet| u8::from_str_radix(octet, 16).ok());
    let octets = octets.collect::<Option<Vec<u8>>>()?;
    Some(Address {
        port: port.to_owned(),
        ip: ip.parse().ok()?,
        mac: octets.try_into().ok()?,
        vlan: vlan.flatten(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str =
        "group=gw member=b server=nats://10.0.0.9 listen=10.0.0.2:7400 peer=a@10.0.0.1:7400";

    #[test]
    fn a_line_is_read() {
        let read = Settings::parse(LEAST).unwrap();
        assert_eq!((read.place(), read.misses, read.interval.as_millis()), ((1, 2), 3, 10));
        let more = "group=gw member=b server=nats://x,tls://y listen=10.0.0.2:7400,[fd00::2]:7400 \
                    peer=a@10.0.0.1:7400,[fd00::1]:7400 peer=c@10.0.0.3:1,[fd00::3]:1 address=lan,10.1.0.1,02:00:00:00:00:01 \
                    address=wan,2001:db8::1,02:00:00:00:00:02,100 interval=5ms misses=4 hold=2s priority=7 batch=2ms min-age=3s \
                    ca=/ca certificate=/c key=/k credentials=/x";
        let read = Settings::parse(more).unwrap();
        assert_eq!(
            (read.place(), read.peers.len(), read.addresses[1].vlan),
            ((1, 3), 2, Some(100))
        );
        assert_eq!(read.addresses[0].mac, [2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn shares_are_read() {
        let line = format!(
            "{LEAST} share=one services=nat1,arp1 address=lan,10.1.0.1,02:00:00:00:00:01 prefer=b share=two services=nat2"
        );
        let read = Settings::parse(&line).unwrap();
        assert_eq!(read.rebalance, Some(REBALANCE));
        let [one, two] = &read.shares[..] else { panic!("two") };
        assert_eq!((&*one.name, one.services.len(), one.addresses.len()), ("one", 2, 1));
        assert_eq!((&*two.name, two.prefer.len()), ("two", 0));
        let members = read.members(7, 8).unwrap();
        assert_eq!((members.all().len(), members.all()[0].config().priority), (2, 255));
        let never = Settings::parse(&line.replace(" share=one", " rebalance=never share=one"));
        assert_eq!(never.unwrap().rebalance, None);
        let alone = Settings::parse(LEAST).unwrap();
        assert_eq!((alone.rebalance, alone.members(1, 1).unwrap().all().len()), (None, 1));
    }

    #[test]
    fn a_confined_process_starts_programs_only_where_it_may() {
        let read = Settings::parse(&format!("{LEAST} notify=/opt/gw/role")).unwrap();
        let may = |confine, paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            may_notify(Some(&read), confine, &paths).map_err(Failure::text)
        };
        assert_eq!((may(false, &[]), may(true, &["/opt/gw"])), (Ok(()), Ok(())));
        for paths in [&[][..], &["/opt/g"], &["/etc"]] {
            assert!(may(true, paths).unwrap_err().contains("notify=/opt/gw/role: a confined"));
        }
        assert!(may_notify(None, true, &[]).is_ok());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, why) in [
            ("", "group= is missing"),
            ("group", "KEY=VALUE"),
            (&format!("{LEAST} group=x"), "group= is there twice"),
            (&format!("{LEAST} colour=red"), "there are group="),
            (&format!("{LEAST} address=lan,10.1.0.1"), "PORT,IP,MAC"),
            (&format!("{LEAST} address=lan,10.1.0.1,02:00:00:00:00:01,4095"), "PORT,IP,MAC"),
            (&format!("{LEAST} interval=0ms"), "a time as 10ms"),
            (&format!("{LEAST} interval=10"), "a time as 10ms"),
            (&format!("{LEAST} batch=1s"), "up to 100ms"),
            (&format!("{LEAST} min-age=5m"), "up to 60s"),
            (&format!("{LEAST} misses=1"), "at least 2"),
            (&format!("{LEAST} key=/k"), "go together"),
            (&format!("{LEAST} notify=x"), "the whole path"),
            (&format!("{LEAST} peer=c@10.0.0.3:1,10.0.0.4:1"), "one of each makes a path"),
            (&format!("{LEAST} peer=a@10.0.0.1:1"), "two members are named a"),
            (&format!("{LEAST} peer=b@10.0.0.1:1"), "two members are named b"),
            (&format!("{LEAST} services=x"), "behind share=NAME"),
            (&format!("{LEAST} rebalance=soon"), "a time as 10s, or never"),
            (&format!("{LEAST} share=s"), "services= is missing"),
            (&format!("{LEAST} share=s services=x share=t services=x"), "x is there twice"),
            (&format!("{LEAST} share=s services=x share=s services=y"), "two shares are named s"),
            (&format!("{LEAST} share=s services=x prefer=z"), "no member"),
            (&format!("{LEAST} share=s services=x hold=1s"), "before the first share="),
            (&format!("{LEAST} registers=r share=s services=x"), "belong to no share"),
            (&format!("{LEAST} priority=7 share=s services=x"), "prefer=MEMBER instead"),
            (
                &format!("{LEAST} address=l,10.1.0.1,02:00:00:00:00:01 share=s services=x"),
                "to a share",
            ),
            (&LEAST.replace("member=b", "member=b.c"), "no name of a member"),
        ] {
            let error = Settings::parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
