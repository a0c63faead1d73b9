//! Who may write: streams, roles, election ids (P4Runtime §5).
//!
//! A stream takes a role and an election id; of each role the stream with the highest id that was ever seen is the
//! primary, and the only one that may write. When it leaves, nobody takes its place until somebody comes with an id that
//! is as high. A stream without an election id never is a primary; an id of zero is one.
//!
//! This is a state machine without I/O: what is to be told to whom comes back as [`Notice`]s. Streams are numbers.

use crate::code::{Fault, fault};
use crate::proto::{rpc, v1};
use crate::role::{Config, Rights};
use std::collections::BTreeMap;

/// Streams at once, at most.
pub const STREAMS_MAX: usize = 64;
/// Roles that are remembered, at most.
pub const ROLES_MAX: usize = 256;
/// Bytes of a role's name, at most.
const NAME_MAX: usize = 256;

/// A stream's number.
pub type StreamId = u64;

/// Something to be told to a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// To whom.
    pub to: StreamId,
    /// What.
    pub update: v1::MasterArbitrationUpdate,
}

#[derive(Clone, Debug)]
struct Member {
    role: String,
    election: Option<u128>,
    /// As the client spoke of them.
    device_id: u64,
    told_role: Option<v1::Role>,
}

#[derive(Clone, Debug, Default)]
struct RoleState {
    /// The highest id that was ever seen.
    highest: Option<u128>,
    primary: Option<StreamId>,
    /// As its last primary has said.
    config: Option<Config>,
    /// The same as it was sent.
    sent: Option<prost_types::Any>,
}

/// All streams and roles.
#[derive(Debug, Default)]
pub struct Arbitration {
    members: BTreeMap<StreamId, Member>,
    roles: BTreeMap<String, RoleState>,
}

/// An election id, if it is set.
pub fn election(id: Option<&v1::Uint128>) -> Option<u128> {
    id.map(|id| u128::from(id.high) << 64 | u128::from(id.low))
}

fn told(id: u128) -> v1::Uint128 {
    v1::Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

/// The name of a role: numbers of old clients are names of their own.
pub fn role_name(name: &str, id: u64) -> String {
    match id != 0 && name.is_empty() {
        true => format!("#{id}"),
        false => name.to_owned(),
    }
}

impl Arbitration {
    /// A stream says who it is. What is to be told; or the stream is to be closed, with this fault.
    #[allow(deprecated, reason = "old clients number roles")]
    pub fn update(
        &mut self,
        stream: StreamId,
        said: &v1::MasterArbitrationUpdate,
    ) -> Result<Vec<Notice>, Fault> {
        let role = said.role.as_ref();
        let name = role.map_or(String::new(), |r| role_name(&r.name, r.id));
        let config = Config::read(role.and_then(|r| r.config.as_ref()))?;
        if name.is_empty() && config.is_some() {
            return Err(fault!(
                InvalidArgument,
                "the role without a name may do everything and has no role.config; give the role a name"
            ));
        }
        if name.len() > NAME_MAX {
            return Err(fault!(InvalidArgument, "a role's name has at most {NAME_MAX} bytes"));
        }
        let election = election(said.election_id.as_ref());
        if let Some(old) = self.members.get(&stream) {
            if old.device_id != said.device_id {
                return Err(fault!(
                    FailedPrecondition,
                    "this stream is for device {}; open another one for device {}",
                    old.device_id,
                    said.device_id
                ));
            }
            if old.role != name {
                return Err(fault!(
                    FailedPrecondition,
                    "this stream has the role \"{}\"; open another one for the role \"{name}\"",
                    old.role
                ));
            }
        } else if self.members.len() >= STREAMS_MAX {
            return Err(fault!(
                ResourceExhausted,
                "{STREAMS_MAX} streams are open, and that is the most"
            ));
        } else if !self.roles.contains_key(&name) && self.roles.len() >= ROLES_MAX {
            return Err(fault!(ResourceExhausted, "there are {ROLES_MAX} roles, the most"));
        }
        let same = |(id, m): (&StreamId, &Member)| {
            *id != stream && m.role == name && m.election == election
        };
        if election.is_some() && self.members.iter().any(same) {
            return Err(fault!(
                InvalidArgument,
                "another stream of the role \"{name}\" has the election id {}",
                election.unwrap_or(0)
            ));
        }
        let member = Member {
            role: name.clone(),
            election,
            device_id: said.device_id,
            told_role: said.role.clone(),
        };
        self.members.insert(stream, member);
        let state = self.roles.entry(name.clone()).or_default();
        let before = (state.primary, state.highest);
        //= p4runtime-1.5.0 §5: the highest election id that a role was ever told is the primary's; a lower one is backup,
        //= also after the primary has left.
        if election.is_some() && election >= state.highest {
            state.highest = election;
            state.primary = Some(stream);
            state.config = config;
            state.sent = role.and_then(|r| r.config.clone());
        } else if state.primary == Some(stream) {
            state.primary = None;
        }
        let changed = before != (state.primary, state.highest);
        Ok(match changed {
            true => self.everyone(&name),
            false => self.notice(stream).into_iter().collect(),
        })
    }

    /// Of each role its name, its highest election id and its config, for a process that goes on with them.
    pub fn roles(&self) -> Vec<v1::MasterArbitrationUpdate> {
        let role = |(name, state): (&String, &RoleState)| v1::MasterArbitrationUpdate {
            role: Some(v1::Role {
                name: name.clone(),
                config: state.sent.clone(),
                ..v1::Role::default()
            }),
            election_id: state.highest.map(told),
            ..v1::MasterArbitrationUpdate::default()
        };
        self.roles.iter().map(role).collect()
    }

    /// A role is known from before: whoever is to be its primary needs an id as high.
    pub fn remember(&mut self, known: &v1::MasterArbitrationUpdate) -> Result<(), Fault> {
        let Some(role) = &known.role else { return Ok(()) };
        let state = RoleState {
            highest: election(known.election_id.as_ref()),
            primary: None,
            config: Config::read(role.config.as_ref())?,
            sent: role.config.clone(),
        };
        self.roles.insert(role.name.clone(), state);
        Ok(())
    }

    /// A stream has gone. What is to be told.
    pub fn leave(&mut self, stream: StreamId) -> Vec<Notice> {
        let Some(member) = self.members.remove(&stream) else { return Vec::new() };
        match self.roles.get_mut(&member.role) {
            Some(state) if state.primary == Some(stream) => {
                state.primary = None;
                self.everyone(&member.role)
            }
            _ => Vec::new(),
        }
    }

    fn everyone(&self, role: &str) -> Vec<Notice> {
        let of_role = self.members.iter().filter(|(_, m)| m.role == role);
        of_role.filter_map(|(id, _)| self.notice(*id)).collect()
    }

    fn notice(&self, stream: StreamId) -> Option<Notice> {
        let member = self.members.get(&stream)?;
        let state = self.roles.get(&member.role)?;
        let backup = match state.primary {
            // Without a status all is well: some clients take any text for a fault.
            Some(primary) if primary == stream => None,
            Some(_) => Some((6, "you are backup; another client is primary")),
            None => Some((5, "you are backup; no client is primary")),
        };
        Some(Notice {
            to: stream,
            update: v1::MasterArbitrationUpdate {
                device_id: member.device_id,
                role: member.told_role.clone(),
                election_id: state.highest.map(told),
                status: backup.map(|(code, message)| rpc::Status {
                    code,
                    message: message.to_owned(),
                    details: Vec::new(),
                }),
            },
        })
    }

    /// A request by this role and election id may write.
    pub fn check(&self, role: &str, id: Option<u128>) -> Result<(), Fault> {
        let Some(id) = id else {
            return Err(fault!(
                PermissionDenied,
                "the request has no election id, and the primary's is needed"
            ));
        };
        let state = self.roles.get(role);
        let primary = state.and_then(|s| self.members.get(&s.primary?));
        match primary {
            None => Err(fault!(
                PermissionDenied,
                "the role \"{role}\" has no primary; open a StreamChannel and arbitrate first"
            )),
            Some(m) if m.election != Some(id) => Err(fault!(
                PermissionDenied,
                "election id {id} is not that of the primary of the role \"{role}\""
            )),
            Some(_) => Ok(()),
        }
    }

    /// What a role may write and read.
    pub fn rights(&self, role: &str) -> Rights {
        if role.is_empty() {
            return Rights::default();
        }
        let others = self.roles.iter().filter(|(name, _)| *name != role);
        let others = others.filter_map(|(_, s)| s.config.as_ref());
        let alone = others.flat_map(|config| config.exclusive().iter().copied()).collect();
        Rights::new(self.config(role), alone)
    }

    /// The config of a role, if it has one.
    pub fn config(&self, role: &str) -> Option<&Config> {
        self.roles.get(role)?.config.as_ref()
    }

    /// The role of a stream that has arbitrated, and whether it is the role's primary.
    pub fn standing(&self, stream: StreamId) -> Option<(&str, bool)> {
        let member = self.members.get(&stream)?;
        let primary = self.roles.get(&member.role).and_then(|s| s.primary);
        Some((&member.role, primary == Some(stream)))
    }

    /// The primaries, with their roles.
    pub fn primaries(&self) -> impl Iterator<Item = (&str, StreamId)> {
        self.roles.iter().filter_map(|(role, s)| Some((role.as_str(), s.primary?)))
    }

    /// How many streams have arbitrated.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Nobody has.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    fn said(id: Option<u128>, role: &str) -> v1::MasterArbitrationUpdate {
        let role =
            (!role.is_empty()).then(|| v1::Role { name: role.to_owned(), ..v1::Role::default() });
        v1::MasterArbitrationUpdate { device_id: 1, role, election_id: id.map(told), status: None }
    }

    /// Who was told which code, and the election id.
    fn says(notices: &[Notice]) -> Vec<(StreamId, i32, Option<u128>)> {
        let code = |n: &Notice| n.update.status.as_ref().map_or(0, |s| s.code);
        let all = notices.iter();
        all.map(|n| (n.to, code(n), election(n.update.election_id.as_ref()))).collect()
    }

    #[test]
    fn the_highest_id_is_primary_and_nobody_is_promoted() {
        let mut a = Arbitration::default();
        assert_eq!(says(&a.update(1, &said(Some(5), "")).unwrap()), [(1, 0, Some(5))]);
        assert_eq!(says(&a.update(2, &said(Some(3), "")).unwrap()), [(2, 6, Some(5))]);
        // A higher one takes over; all are told.
        let told = a.update(3, &said(Some(9), "")).unwrap();
        assert_eq!(says(&told), [(1, 6, Some(9)), (2, 6, Some(9)), (3, 0, Some(9))]);
        assert_eq!(says(&a.leave(3)), [(1, 5, Some(9)), (2, 5, Some(9))]);
        assert_eq!(a.check("", Some(9)).unwrap_err().code, Code::PermissionDenied);
        // The highest id that was ever seen is remembered: 8 is too low, 9 is not.
        assert_eq!(says(&a.update(2, &said(Some(8), "")).unwrap()), [(2, 5, Some(9))]);
        let told = a.update(1, &said(Some(9), "")).unwrap();
        assert_eq!(says(&told), [(1, 0, Some(9)), (2, 6, Some(9))]);
        assert_eq!(a.check("", Some(9)), Ok(()));
    }

    #[test]
    fn roles_are_remembered_elsewhere_with_their_ids() {
        let mut a = Arbitration::default();
        a.update(1, &said(Some(5), "")).unwrap();
        a.update(2, &said(Some(1 << 70), "a")).unwrap();
        let mut b = Arbitration::default();
        a.roles().iter().for_each(|role| b.remember(role).unwrap());
        assert!(b.check("", Some(5)).is_err(), "nobody is primary");
        assert_eq!(says(&b.update(7, &said(Some(4), "")).unwrap()), [(7, 5, Some(5))]);
        assert_eq!(says(&b.update(8, &said(Some(1 << 70), "a")).unwrap()), [(8, 0, Some(1 << 70))]);
        assert_eq!(b.roles(), a.roles());
    }

    #[test]
    fn a_primary_may_step_down() {
        let mut a = Arbitration::default();
        a.update(1, &said(Some(u128::MAX), "")).unwrap();
        a.update(2, &said(None, "")).unwrap();
        let told = a.update(1, &said(Some(1), "")).unwrap();
        assert_eq!(says(&told), [(1, 5, Some(u128::MAX)), (2, 5, Some(u128::MAX))]);
        assert!(a.check("", Some(1)).is_err());
        // A backup that leaves is nobody's news.
        assert_eq!(a.leave(2), []);
        assert_eq!(a.leave(7), []);
    }

    #[test]
    fn unset_is_not_zero() {
        let mut a = Arbitration::default();
        assert_eq!(says(&a.update(1, &said(None, "")).unwrap()), [(1, 5, None)]);
        // Several may have none.
        assert_eq!(says(&a.update(2, &said(None, "")).unwrap()), [(2, 5, None)]);
        let told = a.update(3, &said(Some(0), "")).unwrap();
        assert_eq!(says(&told), [(1, 6, Some(0)), (2, 6, Some(0)), (3, 0, Some(0))]);
        assert_eq!(a.check("", Some(0)), Ok(()));
        assert!(a.check("", None).unwrap_err().text.contains("no election id"));
    }

    #[test]
    fn ids_are_single_in_a_role_and_roles_are_apart() {
        let mut a = Arbitration::default();
        a.update(1, &said(Some(5), "")).unwrap();
        assert_eq!(a.update(2, &said(Some(5), "")).unwrap_err().code, Code::InvalidArgument);
        // The same id in another role is another thing.
        assert_eq!(says(&a.update(2, &said(Some(5), "a")).unwrap()), [(2, 0, Some(5))]);
        assert_eq!(a.check("a", Some(5)), Ok(()));
        assert!(a.check("b", Some(5)).unwrap_err().text.contains("no primary"));
        let changes = a.update(2, &said(Some(6), "b")).unwrap_err();
        assert_eq!(changes.code, Code::FailedPrecondition);
        let mut other = said(Some(7), "a");
        other.device_id = 0;
        assert_eq!(a.update(2, &other).unwrap_err().code, Code::FailedPrecondition);
        // A role by number is a role, too.
        assert_eq!((role_name("", 7), role_name("x", 7)), ("#7".into(), "x".into()));
    }

    #[test]
    fn ids_have_128_bits() {
        let mut a = Arbitration::default();
        let wide = 1u128 << 64;
        a.update(1, &said(Some(u64::MAX.into()), "")).unwrap();
        let told = a.update(2, &said(Some(wide), "")).unwrap();
        assert_eq!(says(&told), [(1, 6, Some(wide)), (2, 0, Some(wide))]);
    }

    #[test]
    fn streams_and_roles_are_bounded() {
        let mut a = Arbitration::default();
        for n in 0..STREAMS_MAX as u64 {
            a.update(n, &said(Some(n.into()), "")).unwrap();
        }
        let more = a.update(1000, &said(Some(1000), "")).unwrap_err();
        assert_eq!(more.code, Code::ResourceExhausted);
        // Those that are there may go on.
        a.update(3, &said(Some(2000), "")).unwrap();
        for n in 0..STREAMS_MAX as u64 {
            a.leave(n);
        }
        for n in 0..ROLES_MAX as u64 - 1 {
            a.update(n, &said(Some(1), &n.to_string())).unwrap();
            a.leave(n);
        }
        let more = a.update(1, &said(Some(1), "more")).unwrap_err();
        assert_eq!(more.code, Code::ResourceExhausted);
    }
}
