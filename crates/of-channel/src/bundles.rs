//! The bundles of one connection (OpenFlow 1.4.1 §6.8, §7.3.9; in 1.3 the ONF's extension 230).
//!
//! A bundle is opened, filled, perhaps closed, and then committed or discarded; it goes with its
//! connection. Each message is decoded as it comes, so that what is wrong with its form is answered
//! at once; whether it can be done shows at the commit.
//!
//! A connection has [`BUNDLES_MAX`] bundles at most, and [`MESSAGES_MAX`] messages of [`BYTES_MAX`]
//! bytes in all of them.

use of_pipeline::bundle::may_hold;
use openflow::codec::{self, Header};
use openflow::{
    BundleAdd, BundleControl, BundleControlType, BundleFlags, BundleId, ErrorCode, Message,
    Version, Xid,
};
use std::collections::HashMap;

/// Bundles of one connection, at most.
pub(crate) const BUNDLES_MAX: usize = 64;
/// Messages in all bundles of a connection, at most.
pub(crate) const MESSAGES_MAX: usize = 1 << 21;
/// Bytes of those messages, at most.
pub(crate) const BYTES_MAX: usize = 512 << 20;
/// Bytes of a message that are kept to refuse it with.
const KEPT: usize = openflow::ErrorMessage::DATA_BYTES;

/// A message in a bundle.
pub(crate) struct Held {
    /// Its own.
    pub(crate) xid: Xid,
    /// Its first bytes, to refuse it with.
    pub(crate) head: Box<[u8]>,
    /// What it asks for.
    pub(crate) message: Message,
}

struct Bundle {
    flags: BundleFlags,
    closed: bool,
    held: Vec<Held>,
    bytes: usize,
}

/// The bundles of one connection.
#[derive(Default)]
pub(crate) struct Bundles {
    bundles: HashMap<BundleId, Bundle>,
    messages: usize,
    bytes: usize,
}

/// What becomes of a control message.
pub(crate) enum Controlled {
    /// It is done; this is the answer.
    Done(BundleControl),
    /// The messages are to be executed; then this is the answer.
    Commit(Vec<Held>, BundleControl),
}

/// Why a request about bundles is refused: the code, and what was wrong.
pub(crate) type Refused = (ErrorCode, String);

impl Bundles {
    /// Opens, closes, discards, or takes out the messages to be committed.
    pub(crate) fn control(&mut self, request: &BundleControl) -> Result<Controlled, Refused> {
        let id = request.bundle_id;
        let control = request.control.reply();
        let answer = BundleControl { control, time: None, ..*request };
        match request.control {
            BundleControlType::OpenRequest => {
                self.open(id, request.flags)?;
                Ok(Controlled::Done(answer))
            }
            BundleControlType::CloseRequest => {
                let bundle = self.find(id)?;
                //= openflow-1.4.1 §7.3.9.3: a bundle is closed once, with the flags it was opened with.
                if bundle.closed {
                    return Err(closed(id));
                }
                same_flags(bundle, request.flags)?;
                bundle.closed = true;
                Ok(Controlled::Done(answer))
            }
            BundleControlType::CommitRequest => {
                let bundle = self.find(id)?;
                //= openflow-1.4.1 §7.3.9.4: a commit needs the flags that the bundle was opened with.
                same_flags(bundle, request.flags)?;
                //= openflow-1.5.1 §7.3.9.5: a commit at a later time is optional.
                if request.time.is_some() {
                    let text = "bundles are committed when that is asked for, not later";
                    return Err((ErrorCode::BfcSchedNotSupported, text.to_owned()));
                }
                //= openflow-1.4.1 §7.3.9.4: whatever comes of it, the bundle is gone.
                Ok(Controlled::Commit(self.take(id), answer))
            }
            BundleControlType::DiscardRequest => {
                self.find(id)?;
                self.take(id);
                Ok(Controlled::Done(answer))
            }
            _ => {
                let text = format!("a controller sends requests, not {:?}", request.control);
                Err((ErrorCode::BfcBadType, text))
            }
        }
    }

    fn open(&mut self, id: BundleId, flags: BundleFlags) -> Result<&mut Bundle, Refused> {
        //= openflow-1.4.1 §7.3.9.2: a bundle that is there is not opened again.
        if self.bundles.contains_key(&id) {
            let text = format!("bundle {} is open already; choose another number", id.0);
            return Err((ErrorCode::BfcBundleExist, text));
        }
        //= openflow-1.4.1 §7.3.9.2: flags that are not known or cannot be kept are refused.
        let unknown = flags - (BundleFlags::ATOMIC | BundleFlags::ORDERED);
        if !unknown.is_empty() {
            let text =
                format!("bundle flags {:#x}: 1 (atomic) and 2 (ordered) are known", flags.bits());
            return Err((ErrorCode::BfcBadFlags, text));
        }
        if self.bundles.len() >= BUNDLES_MAX {
            let text = format!("{BUNDLES_MAX} bundles are the most; commit or discard one");
            return Err((ErrorCode::BfcOutOfBundles, text));
        }
        let bundle = Bundle { flags, closed: false, held: Vec::new(), bytes: 0 };
        Ok(self.bundles.entry(id).or_insert(bundle))
    }

    fn find(&mut self, id: BundleId) -> Result<&mut Bundle, Refused> {
        self.bundles
            .get_mut(&id)
            .ok_or_else(|| (ErrorCode::BfcBadId, format!("there is no bundle {}; open it", id.0)))
    }

    fn take(&mut self, id: BundleId) -> Vec<Held> {
        let Some(bundle) = self.bundles.remove(&id) else { return Vec::new() };
        self.messages -= bundle.held.len();
        self.bytes -= bundle.bytes;
        bundle.held
    }

    /// Adds a message. `xid` is that of the request.
    pub(crate) fn add(
        &mut self,
        version: Version,
        xid: Xid,
        request: &BundleAdd,
    ) -> Result<(), Refused> {
        let id = request.bundle_id;
        //= openflow-1.4.1 §7.3.9.6: adding to a bundle that is not there opens it.
        if !self.bundles.contains_key(&id) {
            self.open(id, request.flags)?;
        }
        let (messages, bytes) = (self.messages, self.bytes);
        let bundle = self.find(id)?;
        if bundle.closed {
            return Err(closed(id));
        }
        same_flags(bundle, request.flags)?;
        let raw = &request.message;
        //= openflow-1.4.1 §7.3.9.6: the message has the xid of the request that adds it.
        let inner = Header::parse(raw).map(|h| h.xid);
        if inner != Some(xid) {
            let text = format!("the message has another xid than {xid}, that of the request");
            return Err((ErrorCode::BfcMsgBadXid, text));
        }
        if messages >= MESSAGES_MAX || bytes + raw.len() > BYTES_MAX {
            let text =
                format!("bundles hold {MESSAGES_MAX} messages and {BYTES_MAX} bytes at most");
            return Err((ErrorCode::BfcMsgTooMany, text));
        }
        let (_, message) = codec::decode(version, raw).map_err(|e| (e.code, e.to_string()))?;
        //= openflow-1.4.1 §7.3.9.6: a message that no bundle holds is OFPBFC_MSG_UNSUP.
        if !may_hold(&message) {
            let text = format!("{} cannot be in a bundle", message.type_name());
            return Err((ErrorCode::BfcMsgUnsup, text));
        }
        let head = raw[..raw.len().min(KEPT)].into();
        bundle.held.push(Held { xid, head, message });
        bundle.bytes += raw.len();
        self.messages += 1;
        self.bytes += raw.len();
        Ok(())
    }
}

fn closed(id: BundleId) -> Refused {
    (ErrorCode::BfcBundleClosed, format!("bundle {} is closed; commit or discard it", id.0))
}

fn same_flags(bundle: &Bundle, flags: BundleFlags) -> Result<(), Refused> {
    if bundle.flags == flags {
        return Ok(());
    }
    let (ours, theirs) = (bundle.flags.bits(), flags.bits());
    let text = format!("flags {theirs:#x}; the bundle was opened with {ours:#x}");
    Err((ErrorCode::BfcBadFlags, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{FlowMod, Match};

    const ATOMIC: BundleFlags = BundleFlags::ATOMIC;

    fn control(id: u32, control: BundleControlType, flags: BundleFlags) -> BundleControl {
        BundleControl { bundle_id: BundleId(id), control, flags, time: None }
    }

    fn code(bundles: &mut Bundles, id: u32, what: BundleControlType) -> Option<ErrorCode> {
        bundles.control(&control(id, what, ATOMIC)).err().map(|(code, _)| code)
    }

    fn add(bundles: &mut Bundles, id: u32, xid: u32, message: &Message) -> Option<ErrorCode> {
        let message = codec::encode(Version::V14, Xid(7), message).unwrap();
        let add = BundleAdd { bundle_id: BundleId(id), flags: ATOMIC, message };
        bundles.add(Version::V14, Xid(xid), &add).err().map(|(code, _)| code)
    }

    fn flow() -> Message {
        let mut flow = FlowMod::add(Match::new(), Default::default());
        flow.dialect = Version::V14;
        Message::FlowMod(flow)
    }

    #[test]
    fn every_error_of_controls() {
        use BundleControlType as Type;
        let b = &mut Bundles::default();
        assert_eq!(code(b, 1, Type::CloseRequest), Some(ErrorCode::BfcBadId));
        assert_eq!(code(b, 1, Type::CommitRequest), Some(ErrorCode::BfcBadId));
        assert_eq!(code(b, 1, Type::DiscardRequest), Some(ErrorCode::BfcBadId));
        assert_eq!(code(b, 1, Type::OpenReply), Some(ErrorCode::BfcBadType));
        assert_eq!(code(b, 1, Type::OpenRequest), None);
        assert_eq!(code(b, 1, Type::OpenRequest), Some(ErrorCode::BfcBundleExist));
        let other = control(1, Type::CloseRequest, BundleFlags::ORDERED);
        assert_eq!(b.control(&other).err().unwrap().0, ErrorCode::BfcBadFlags);
        let unknown = control(2, Type::OpenRequest, BundleFlags::from_bits_retain(8));
        assert_eq!(b.control(&unknown).err().unwrap().0, ErrorCode::BfcBadFlags);
        assert_eq!(code(b, 1, Type::CloseRequest), None);
        assert_eq!(code(b, 1, Type::CloseRequest), Some(ErrorCode::BfcBundleClosed));
        assert_eq!(add(b, 1, 7, &flow()), Some(ErrorCode::BfcBundleClosed));
        let later = BundleControl { time: Some((1, 0)), ..control(1, Type::CommitRequest, ATOMIC) };
        assert_eq!(b.control(&later).err().unwrap().0, ErrorCode::BfcSchedNotSupported);
        assert_eq!(code(b, 1, Type::DiscardRequest), None);
        assert_eq!(code(b, 1, Type::DiscardRequest), Some(ErrorCode::BfcBadId));
        (0..BUNDLES_MAX as u32).for_each(|id| assert_eq!(code(b, id, Type::OpenRequest), None));
        assert_eq!(code(b, 9999, Type::OpenRequest), Some(ErrorCode::BfcOutOfBundles));
    }

    #[test]
    fn every_error_of_additions() {
        let b = &mut Bundles::default();
        assert_eq!(add(b, 1, 8, &flow()), Some(ErrorCode::BfcMsgBadXid));
        assert_eq!(add(b, 1, 7, &Message::BarrierRequest), Some(ErrorCode::BfcMsgUnsup));
        assert_eq!(add(b, 1, 7, &flow()), None, "it is open by the first addition");
        let bytes = codec::encode(Version::V13, Xid(7), &Message::BarrierRequest).unwrap();
        let add = BundleAdd { bundle_id: BundleId(1), flags: ATOMIC, message: bytes };
        let error = b.add(Version::V14, Xid(7), &add).unwrap_err();
        assert_eq!(error.0, ErrorCode::BrcBadVersion, "what is wrong with it is told");
        let other = BundleAdd { flags: BundleFlags::ORDERED, ..add };
        assert_eq!(b.add(Version::V14, Xid(7), &other).unwrap_err().0, ErrorCode::BfcBadFlags);
        let commit = control(1, BundleControlType::CommitRequest, ATOMIC);
        let Ok(Controlled::Commit(held, answer)) = b.control(&commit) else {
            panic!("it can be committed");
        };
        assert_eq!((held.len(), answer.control), (1, BundleControlType::CommitReply));
        assert_eq!((b.messages, b.bytes), (0, 0), "nothing is left");
    }
}
