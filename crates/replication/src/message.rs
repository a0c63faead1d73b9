//! Messages of the group's stream.
//!
//! All numbers have their least significant octet first.
//!
//! | octets | are |
//! |---|---|
//! | 4 | `mrpl` |
//! | 1, 1 | the version, 2; the kind |
//! | 8 | the sender's epoch |
//! | 8 | the message's number: of an active member's, one more than the last |
//! | 8 | the digest of the sender's configuration |
//! | 8 | when the sender sent it, in nanoseconds since 1970, for the lag that people see |
//! | 1 + n | the sender's name |
//! | 1 + n | the share that it is about; empty where the group has none |
//! | the rest | the body |
//! | 4 | CRC-32C of the octets before |
//!
//! | kind | body |
//! |---|---|
//! | 1, changes | parts: a tracker's name (1 + n), octets of records (4), records (`service::conntrack::follow`) |
//! | 2, all begins | its number (8), and for whom (1 + n) |
//! | 3, part of all | its number (8), parts |
//! | 4, all ends | its number (8) |
//! | 5, all is asked for | nothing |
//! | 6, go on | for whom (1 + n): the sender has stopped, and this was its last message |

use crate::bytes::{
    NAME_MAX, checked, put_short, seal, take, take_label, take_name, take_short, take_u32, take_u64,
};

const MAGIC: [u8; 4] = *b"mrpl";
const VERSION: u8 = 2;
/// Octets of a message, at most: a server of NATS takes 1 MiB.
pub const MESSAGE_MAX: usize = 1 << 20;
/// Octets beside the body's parts, at most.
pub const OVERHEAD_MAX: usize = 4 + 2 + 4 * 8 + 3 * (1 + NAME_MAX) + 8 + 4;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub from: String,
    /// Of which share; empty where the group has none.
    pub share: String,
    /// In which epoch.
    pub epoch: u64,
    /// Its number.
    pub seq: u64,
    /// The digest of the sender's configuration.
    pub digest: u64,
    /// When it was sent, in nanoseconds since 1970, by the sender's clock.
    pub sent_ns: u64,
    /// What it says.
    pub body: Body,
}

/// Records of one tracker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// The tracker's name.
    pub tracker: String,
    /// Records, one behind another.
    pub records: Vec<u8>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// What has changed; nothing, to say that nothing has.
    Changes(Vec<Part>),
    /// All connections come from here on, for this member.
    AllBegins {
        /// Its number.
        id: u64,
        /// For whom.
        to: String,
    },
    /// Some of them.
    PartOfAll {
        /// Its number.
        id: u64,
        /// Which.
        parts: Vec<Part>,
    },
    /// These were all.
    AllEnds {
        /// Its number.
        id: u64,
    },
    /// The sender asks for all connections.
    AskForAll,
    /// The sender has stopped; this member goes on.
    GoOn {
        /// Who.
        to: String,
    },
}

/// Why octets are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// They do not begin as messages do.
    #[error("it does not begin as messages of a group do")]
    Magic,
    /// Of another version.
    #[error("it is of version {0}; this program speaks version {VERSION}")]
    Version(u8),
    /// The sum is wrong.
    #[error("its checksum is wrong: it was damaged, or is cut short")]
    Checksum,
    /// It is not what its kind wants.
    #[error("its {0} is cut short or makes no sense")]
    Body(&'static str),
}

impl Message {
    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend(MAGIC);
        let kind = match &self.body {
            Body::Changes(_) => 1,
            Body::AllBegins { .. } => 2,
            Body::PartOfAll { .. } => 3,
            Body::AllEnds { .. } => 4,
            Body::AskForAll => 5,
            Body::GoOn { .. } => 6,
        };
        out.extend([VERSION, kind]);
        for word in [self.epoch, self.seq, self.digest, self.sent_ns] {
            out.extend(word.to_le_bytes());
        }
        put_short(&mut out, self.from.as_bytes());
        put_short(&mut out, self.share.as_bytes());
        match &self.body {
            Body::Changes(parts) => put_parts(&mut out, parts),
            Body::AllBegins { id, to } => {
                out.extend(id.to_le_bytes());
                put_short(&mut out, to.as_bytes());
            }
            Body::PartOfAll { id, parts } => {
                out.extend(id.to_le_bytes());
                put_parts(&mut out, parts);
            }
            Body::AllEnds { id } => out.extend(id.to_le_bytes()),
            Body::AskForAll => {}
            Body::GoOn { to } => put_short(&mut out, to.as_bytes()),
        }
        seal(&mut out);
        out
    }

    /// A message of these octets, all of them.
    ///
    /// # Errors
    /// [`MessageError`], if they are none.
    pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        if bytes.get(..4) != Some(&MAGIC) {
            return Err(MessageError::Magic);
        }
        if let Some(version) = bytes.get(4).filter(|version| **version != VERSION) {
            return Err(MessageError::Version(*version));
        }
        let front = checked(bytes).ok_or(MessageError::Checksum)?;
        let rest = &mut front.get(5..).ok_or(MessageError::Body("head"))?;
        let (kind, message) = head(rest).ok_or(MessageError::Body("head"))?;
        let body = body(kind, rest)?;
        match rest {
            [] => Ok(Message { body, ..message }),
            _ => Err(MessageError::Body("end")),
        }
    }
}

/// The kind, and a message of it that says nothing yet.
fn head(rest: &mut &[u8]) -> Option<(u8, Message)> {
    let [kind] = take(rest)?;
    let mut word = || take_u64(rest);
    let (epoch, seq, digest, sent_ns) = (word()?, word()?, word()?, word()?);
    let (from, share) = (take_name(rest)?, take_label(rest)?);
    Some((kind, Message { from, share, epoch, seq, digest, sent_ns, body: Body::AskForAll }))
}

fn body(kind: u8, rest: &mut &[u8]) -> Result<Body, MessageError> {
    let wrong = MessageError::Body;
    Ok(match kind {
        1 => Body::Changes(take_parts(rest)?),
        2 => {
            let id = take_u64(rest).ok_or(wrong("number"))?;
            Body::AllBegins { id, to: take_name(rest).ok_or(wrong("receiver"))? }
        }
        3 => {
            let id = take_u64(rest).ok_or(wrong("number"))?;
            Body::PartOfAll { id, parts: take_parts(rest)? }
        }
        4 => Body::AllEnds { id: take_u64(rest).ok_or(wrong("number"))? },
        5 => Body::AskForAll,
        6 => Body::GoOn { to: take_name(rest).ok_or(wrong("receiver"))? },
        _ => return Err(wrong("kind")),
    })
}

fn put_parts(out: &mut Vec<u8>, parts: &[Part]) {
    for part in parts {
        put_short(out, part.tracker.as_bytes());
        out.extend((part.records.len() as u32).to_le_bytes());
        out.extend(&part.records);
    }
}

fn take_parts(rest: &mut &[u8]) -> Result<Vec<Part>, MessageError> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        parts.push(take_part(rest).ok_or(MessageError::Body("part"))?);
    }
    Ok(parts)
}

fn take_part(rest: &mut &[u8]) -> Option<Part> {
    let tracker = std::str::from_utf8(take_short(rest)?).ok()?.to_owned();
    let len = take_u32(rest)? as usize;
    let (records, more) = rest.split_at_checked(len)?;
    *rest = more;
    Some(Part { tracker, records: records.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_come_back_and_damage_is_found() {
        let part = |n: usize| Part { tracker: format!("service:{n}"), records: vec![n as u8; n] };
        let bodies = [
            Body::Changes(Vec::new()),
            Body::Changes(vec![part(0), part(700)]),
            Body::AllBegins { id: 7, to: "b".to_owned() },
            Body::PartOfAll { id: 7, parts: vec![part(3)] },
            Body::AllEnds { id: u64::MAX },
            Body::AskForAll,
            Body::GoOn { to: "x_1-2".to_owned() },
        ];
        for body in bodies {
            let from = "m".repeat(NAME_MAX);
            let share = if body == Body::AskForAll { "" } else { "s" }.to_owned();
            let message = Message { from, share, epoch: 1, seq: 2, digest: 3, sent_ns: 4, body };
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Ok(message));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                assert!(Message::decode(&damaged).is_err(), "{at}");
                assert!(Message::decode(&bytes[..at]).is_err(), "{at}");
            }
        }
        let odd = b"mrpl\x01".to_vec();
        let error = Message::decode(&odd).unwrap_err();
        assert_eq!(error.to_string(), "it is of version 1; this program speaks version 2");
    }
}
