//! The control sockets of a process: one for its owner and `--ctl-group`, who may do all, and one for each other
//! [role](crate::role) that a group was given.

use crate::protocol::{Reply, Request};
use crate::role::Role;
use crate::socket::{Place, Server, Socket};
use of_channel::unix::Identity;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use switch::Pulse;

/// Where they are to be, and whose they are.
#[derive(Clone, Debug)]
pub(crate) struct Doors(Vec<(Place, Role)>);

/// The groups that were given a role, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Who may do all.
    pub admin: Option<u32>,
    /// Who may change what the switch does.
    pub operate: Option<u32>,
    /// Who may look.
    pub read: Option<u32>,
}

/// Where the socket of a role is, beside the one for all.
pub(crate) fn path_for(path: &Path, role: Role) -> PathBuf {
    match role {
        Role::Admin => path.to_owned(),
        _ => path.with_added_extension(role.suffix()),
    }
}

impl Doors {
    pub(crate) fn new(path: PathBuf, groups: Groups) -> Doors {
        let others = [(Role::Operate, groups.operate), (Role::Read, groups.read)];
        let others = others.into_iter().filter_map(|(role, group)| {
            let place = Place { path: path_for(&path, role), group: Some(group?) };
            Some((place, role))
        });
        let mut all: Vec<_> = others.collect();
        all.insert(0, (Place { path, group: groups.admin }, Role::Admin));
        Doors(all)
    }

    /// The one for all.
    pub(crate) fn path(&self) -> &Path {
        &self.0[0].0.path
    }

    /// Tells what is in the way; `ours` tells of a path which socket's place may be taken.
    pub(crate) fn check(&self, ours: impl Fn(Role) -> Option<Identity>) -> std::io::Result<()> {
        self.0.iter().try_for_each(|(place, role)| place.check(ours(*role)))
    }

    /// Opens all; those at `taken` are put beside their places, which another process is about to leave.
    pub(crate) fn open(&self, taken: Option<&Path>) -> std::io::Result<Opened> {
        let open = |(place, role): &(Place, Role)| {
            let theirs = taken.map(|path| path_for(path, *role));
            let theirs = theirs.and_then(|path| of_channel::unix::identity(&path));
            let stands = theirs.is_some() && theirs == of_channel::unix::identity(&place.path);
            let socket = if stands { place.open_beside() } else { place.open() };
            socket.map(|socket| (socket, *role))
        };
        self.0.iter().map(open).collect::<Result<_, _>>().map(Opened)
    }
}

/// Control sockets that nobody serves yet.
pub(crate) struct Opened(Vec<(Socket, Role)>);

impl Opened {
    /// Answers in the background.
    pub(crate) fn serve(
        self,
        pulse: impl Fn(&str) -> Option<Pulse>,
        answer: impl Fn(Role, Request) -> Result<Reply<Value>, String> + Send + Sync + 'static,
    ) -> std::io::Result<Servers> {
        let answer = Arc::new(answer);
        let serve = |(socket, role): (Socket, Role)| {
            let answer = answer.clone();
            let name = ["ctl", role.suffix()].join("-");
            socket.serve(pulse(name.trim_end_matches('-')), move |request| answer(role, request))
        };
        self.0.into_iter().map(serve).collect::<Result<_, _>>().map(Servers)
    }
}

/// The sockets of a running process; they are removed when this is dropped.
pub(crate) struct Servers(Vec<Server>);

impl Servers {
    /// Where they listen, or are about to.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(Server::path)
    }

    /// Puts sockets that were made beside their places there.
    pub(crate) fn settle(&mut self) -> std::io::Result<()> {
        self.0.iter_mut().try_for_each(Server::settle)
    }
}
