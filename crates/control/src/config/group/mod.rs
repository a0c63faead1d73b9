//! What `--replication` says: a group, this member, the others, the engine, addresses that move.
//!
//! What it says of the group comes first, then what it says of each share (`share=NAME services=NAME[,NAME...]`, and by choice
//! `address=...` and `prefer=MEMBER[,MEMBER...]`).
//!
//! `group=NAME member=NAME server=URL[,URL...] listen=ADDR:PORT[,ADDR:PORT...] peer=NAME@ADDR:PORT[,ADDR:PORT...]...`, and by choice
//! `address=PORT,IP,MAC[,VLAN]...`, `interval=10ms`, `misses=3`, `hold=1s`, `priority=100`, `rebalance=10s`, `batch=1ms`, `min-age=500ms`, `stripes=own`,
//! `registers=NAME[,NAME...]`, `notify=PROGRAM`, `ca=FILE`, `certificate=FILE`, `key=FILE`, `credentials=FILE`. Paths are the places of
//! `listen` and of each peer's addresses: the first to the first.
//!
//! | module | is |
//! |---|---|
//! | [`server`] | how the engine is reached |
//! | [`share`] | shares, and the words behind `share=` |
//! | [`words`] | values: places, times, addresses |

mod server;
mod share;
mod words;

pub(crate) use server::Server;
pub(crate) use share::Share;
pub(crate) use words::Address;

use crate::failure::Failure;
use replication::{Shares, member};
use server::ServerWords;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Members of a group, at most: each needs stripes of ports that are its own.
const MEMBERS_MAX: usize = 16;

/// Of a group with a pool: half of the stripes are divided among them.
const POOL_MEMBERS_MAX: usize = 8;

/// Shares move to members that come earlier when these have lived for so long.
const REBALANCE: Duration = Duration::from_secs(10);

/// Another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// Where it listens, by path.
    pub(crate) at: Vec<SocketAddr>,
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
    /// Half of the ports are a pool, of which members claim what they need.
    pub(crate) pool: bool,
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
            pool: false,
            shares: Vec::new(),
        };
        let mut server = ServerWords::default();
        let (mut seen, mut rebalance) = (Vec::new(), None);
        for word in line.split_whitespace() {
            let (name, value) = word
                .split_once('=')
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| format!("{word}: KEY=VALUE was expected"))?;
            let wrong = |want: &str| format!("{word}: {want} was expected");
            if name == "share" {
                read.shares.push(Share::named(value));
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
                share.take(word, name, value)?;
                continue;
            }
            if server.take(name, value) {
                continue;
            }
            match name {
                "group" => read.group = value.to_owned(),
                "member" => read.member = value.to_owned(),
                "listen" => {
                    read.listen =
                        words::sockets(value).ok_or_else(|| wrong("ADDR:PORT[,ADDR:PORT...]"))?;
                }
                "peer" => {
                    let peer = value.split_once('@').and_then(|(name, at)| {
                        Some(Peer { name: name.to_owned(), at: words::sockets(at)? })
                    });
                    read.peers.push(peer.ok_or_else(|| wrong("NAME@ADDR:PORT[,ADDR:PORT...]"))?);
                }
                "address" => {
                    let address =
                        words::address(value).ok_or_else(|| wrong("PORT,IP,MAC[,VLAN]"))?;
                    read.addresses.push(address);
                }
                "interval" => {
                    read.interval = words::time(value).ok_or_else(|| wrong("a time as 10ms"))?
                }
                "hold" => read.hold = words::time(value).ok_or_else(|| wrong("a time as 1s"))?,
                "batch" => {
                    let most = Duration::from_millis(100);
                    let batch = words::time(value).filter(|time| *time <= most);
                    read.batch = batch.ok_or_else(|| wrong("a time up to 100ms"))?;
                }
                "min-age" => {
                    let most = Duration::from_secs(60);
                    let age = words::time(value).filter(|time| *time <= most);
                    read.min_age = age.ok_or_else(|| wrong("a time up to 60s"))?;
                }
                "registers" => read.registers = value.split(',').map(str::to_owned).collect(),
                "stripes" => {
                    read.pool = match value {
                        "pool" => true,
                        "own" => false,
                        _ => return Err(wrong("own or pool")),
                    };
                }
                "misses" => {
                    read.misses = value.parse().map_err(|_| wrong("a number"))?;
                }
                "priority" => {
                    read.priority = value.parse().map_err(|_| wrong("a number up to 255"))?;
                }
                "rebalance" => {
                    rebalance = Some(match value {
                        "never" => None,
                        _ => Some(
                            words::time(value).ok_or_else(|| wrong("a time as 10s, or never"))?,
                        ),
                    });
                }
                "services" | "prefer" => {
                    return Err(format!("{word}: it belongs to a share, behind share=NAME"));
                }
                "notify" => {
                    let program =
                        Some(PathBuf::from(value)).filter(|program| program.is_absolute());
                    read.notify =
                        Some(program.ok_or_else(|| wrong("the whole path of a program"))?);
                }
                _ => {
                    return Err(format!(
                        "{word}: there are group=, member=, server=, listen=, peer=, address=, interval=, misses=, hold=, \
                         batch=, min-age=, registers=, priority=, rebalance=, stripes=, notify=, ca=, certificate=, key=, credentials= and share="
                    ));
                }
            }
        }
        read.server = server.done()?;
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
        if self.pool && self.peers.len() >= POOL_MEMBERS_MAX {
            return Err(format!(
                "stripes=pool: a group with a pool has {POOL_MEMBERS_MAX} members at most"
            ));
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
        share::check(&self.shares)?;
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

#[cfg(test)]
mod tests;
