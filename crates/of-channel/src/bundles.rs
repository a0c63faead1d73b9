//! The bundles of one connection (OpenFlow 1.4.1 §6.8, §7.3.9; in 1.3 the ONF's extension 230).
//!
//! A bundle is opened, filled, perhaps closed, and then committed or discarded; it goes with its
//! connection. From 1.5 on a commit may say when (§6.9.5): then the bundle waits, takes nothing more, and
//! may be discarded until its time comes. Times are those of the system's clock, in UTC. Each message is decoded as it comes, so that what is wrong with its form is answered
//! at once; whether it can be done shows at the commit.
//!
//! A connection has [`BUNDLES_MAX`] bundles at most, and [`MESSAGES_MAX`] messages of [`BYTES_MAX`]
//! bytes in all of them; all connections share a bound of bytes ([`Budget`]).

use of_pipeline::bundle::may_hold;
use openflow::codec::{self, Header};
use openflow::{
    BundleAdd, BundleControl, BundleControlType, BundleFeatures, BundleFeaturesRequest,
    BundleFlags, BundleId, BundleTimes, ErrorCode, Message, Version, Xid,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bundles of one connection, at most.
pub(crate) const BUNDLES_MAX: usize = 64;
/// Messages in all bundles of a connection, at most.
pub(crate) const MESSAGES_MAX: usize = 1 << 21;
/// Bytes of those messages, at most.
pub(crate) const BYTES_MAX: usize = 512 << 20;
/// How far ahead a bundle may be scheduled, and how late a commit may come, unless a controller sets
/// them; and how near to its time a bundle is done.
const FUTURE_NS: u128 = 3600 * SECOND_NS;
const PAST_NS: u128 = SECOND_NS;
const ACCURACY_NS: u128 = SECOND_NS / 100;
const SECOND_NS: u128 = 1_000_000_000;

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos())
}

fn ns((sec, nsec): (u64, u32)) -> u128 {
    u128::from(sec) * SECOND_NS + u128::from(nsec)
}

fn sec(ns: u128) -> (u64, u32) {
    (u64::try_from(ns / SECOND_NS).unwrap_or(u64::MAX), (ns % SECOND_NS) as u32)
}

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
    due: Option<Due>,
}

/// When a bundle is to be committed, and what is answered then.
struct Due {
    at_ns: u128,
    answer: BundleControl,
    xid: Xid,
    request: Box<[u8]>,
}

/// A bundle whose time has come.
pub(crate) struct Ripe {
    pub(crate) held: Vec<Held>,
    pub(crate) answer: BundleControl,
    /// The commit request's.
    pub(crate) xid: Xid,
    /// Its first bytes.
    pub(crate) request: Box<[u8]>,
}

/// Bytes that bundles of all connections have, and may have.
pub(crate) struct Budget {
    used: Arc<AtomicUsize>,
    most: usize,
}

impl Budget {
    pub(crate) fn new(used: Arc<AtomicUsize>, most: usize) -> Budget {
        Budget { used, most }
    }

    /// Takes so many, if they are there. Relaxed: the count bounds memory and guards nothing.
    fn take(&self, bytes: usize) -> bool {
        let fits = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.most;
        if !fits {
            self.give(bytes);
        }
        fits
    }

    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The bundles of one connection.
pub(crate) struct Bundles {
    budget: Budget,
    future_ns: u128,
    past_ns: u128,
    bundles: HashMap<BundleId, Bundle>,
    messages: usize,
    bytes: usize,
}

impl Drop for Bundles {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

impl Bundles {
    /// There are none.
    pub(crate) fn new(budget: Budget) -> Bundles {
        Bundles {
            budget,
            future_ns: FUTURE_NS,
            past_ns: PAST_NS,
            bundles: HashMap::new(),
            messages: 0,
            bytes: 0,
        }
    }
}

/// What becomes of a control message.
pub(crate) enum Controlled {
    /// It is done; this is the answer.
    Done(BundleControl),
    /// The messages are to be executed; then this is the answer.
    Commit(Vec<Held>, BundleControl),
    /// They are to be executed later.
    Later,
}

/// Why a request about bundles is refused: the code, and what was wrong.
pub(crate) type Refused = (ErrorCode, String);

impl Bundles {
    /// Opens, closes, discards, or takes out the messages to be committed.
    pub(crate) fn control(
        &mut self,
        version: Version,
        xid: Xid,
        request: &BundleControl,
        bytes: &[u8],
        now_ns: u128,
    ) -> Result<Controlled, Refused> {
        let id = request.bundle_id;
        let control = request.control.reply();
        let answer = BundleControl { control, time: None, ..*request };
        match request.control {
            BundleControlType::OpenRequest => {
                self.open(version, id, request.flags)?;
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
                if bundle.due.is_some() {
                    let text = format!("bundle {} is scheduled already; discard it", id.0);
                    return Err((ErrorCode::BfcBundleInProgress, text));
                }
                if let Some(at_ns) = self.when(version, request, now_ns)? {
                    let request = bytes[..bytes.len().min(KEPT)].into();
                    let bundle = self.find(id)?;
                    bundle.closed = true;
                    bundle.due = Some(Due { at_ns, answer, xid, request });
                    return Ok(Controlled::Later);
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

    /// When a commit asks to be done; nothing for at once.
    fn when(
        &self,
        version: Version,
        request: &BundleControl,
        now_ns: u128,
    ) -> Result<Option<u128>, Refused> {
        let flagged = request.flags.contains(BundleFlags::TIME) && version >= Version::V15;
        let at_ns = match (flagged, request.time) {
            (false, None) => return Ok(None),
            (true, Some(time)) => ns(time),
            _ => {
                let text = "a scheduled commit has the flag of time (4) and says its time";
                return Err((ErrorCode::BfcBadFlags, text.to_owned()));
            }
        };
        //= openflow-1.5.1 §7.3.9.5: what is too far ahead is OFPBFC_SCHED_FUTURE, what is too late
        //= OFPBFC_SCHED_PAST; what is a little late is done at once.
        if at_ns > now_ns.saturating_add(self.future_ns) {
            let text = format!("{} s is the most that a bundle waits", self.future_ns / SECOND_NS);
            return Err((ErrorCode::BfcSchedFuture, text));
        }
        if at_ns.saturating_add(self.past_ns) < now_ns {
            let text = format!("its time was {} ms ago", (now_ns - at_ns) / 1_000_000);
            return Err((ErrorCode::BfcSchedPast, text));
        }
        Ok((at_ns > now_ns).then_some(at_ns))
    }

    /// When the next bundle is due.
    pub(crate) fn due_ns(&self) -> Option<u128> {
        self.bundles.values().filter_map(|b| b.due.as_ref().map(|due| due.at_ns)).min()
    }

    /// A bundle that is due, the earliest first.
    pub(crate) fn ripe(&mut self, now_ns: u128) -> Option<Ripe> {
        let due = |b: &Bundle| b.due.as_ref().map(|due| due.at_ns).filter(|at| *at <= now_ns);
        let (id, _) =
            self.bundles.iter().filter_map(|(id, b)| Some((*id, due(b)?))).min_by_key(|b| b.1)?;
        let Due { answer, xid, request, .. } = self.find(id).ok()?.due.take()?;
        Some(Ripe { held: self.take(id), answer, xid, request })
    }

    /// What bundles can do; sets the bounds of scheduling if that is asked for.
    pub(crate) fn features(
        &mut self,
        request: &BundleFeaturesRequest,
        now_ns: u128,
    ) -> BundleFeatures {
        if let Some(times) = request.times
            && request.flags & BundleFeaturesRequest::SET_BOUNDS != 0
        {
            (self.future_ns, self.past_ns) = (ns(times.future), ns(times.past));
        }
        let (accuracy, now) = (sec(ACCURACY_NS), sec(now_ns));
        let (future, past) = (sec(self.future_ns), sec(self.past_ns));
        BundleFeatures {
            capabilities: BundleFlags::ATOMIC | BundleFlags::ORDERED | BundleFlags::TIME,
            times: Some(BundleTimes { accuracy, future, past, now }),
        }
    }

    fn open(
        &mut self,
        version: Version,
        id: BundleId,
        flags: BundleFlags,
    ) -> Result<&mut Bundle, Refused> {
        //= openflow-1.4.1 §7.3.9.2: a bundle that is there is not opened again.
        if self.bundles.contains_key(&id) {
            let text = format!("bundle {} is open already; choose another number", id.0);
            return Err((ErrorCode::BfcBundleExist, text));
        }
        //= openflow-1.4.1 §7.3.9.2: flags that are not known or cannot be kept are refused.
        let timed = if version >= Version::V15 { BundleFlags::TIME } else { BundleFlags::empty() };
        let unknown = flags - (BundleFlags::ATOMIC | BundleFlags::ORDERED | timed);
        if !unknown.is_empty() {
            let text = format!(
                "bundle flags {:#x}: 1 (atomic), 2 (ordered), in 1.5 4 (time)",
                flags.bits()
            );
            return Err((ErrorCode::BfcBadFlags, text));
        }
        if self.bundles.len() >= BUNDLES_MAX {
            let text = format!("{BUNDLES_MAX} bundles are the most; commit or discard one");
            return Err((ErrorCode::BfcOutOfBundles, text));
        }
        let bundle = Bundle { flags, closed: false, held: Vec::new(), bytes: 0, due: None };
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
        self.budget.give(bundle.bytes);
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
            self.open(version, id, request.flags)?;
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
        if !self.budget.take(raw.len()) {
            let text = format!(
                "the bundles of all connections have {} bytes, which is the most; commit or discard some",
                self.budget.most
            );
            return Err((ErrorCode::BfcOutOfBundles, text));
        }
        let bundle = self.find(id)?;
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
    // Whether a bundle has a time shows at its commit.
    if bundle.flags - BundleFlags::TIME == flags - BundleFlags::TIME {
        return Ok(());
    }
    let (ours, theirs) = (bundle.flags.bits(), flags.bits());
    let text = format!("flags {theirs:#x}; the bundle was opened with {ours:#x}");
    Err((ErrorCode::BfcBadFlags, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundles(most: usize) -> Bundles {
        Bundles::new(Budget::new(Arc::default(), most))
    }

    use openflow::{FlowMod, Match};

    const ATOMIC: BundleFlags = BundleFlags::ATOMIC;

    fn control(id: u32, control: BundleControlType, flags: BundleFlags) -> BundleControl {
        BundleControl { bundle_id: BundleId(id), control, flags, time: None }
    }

    fn ask(bundles: &mut Bundles, request: &BundleControl) -> Result<Controlled, Refused> {
        bundles.control(Version::V15, Xid(1), request, &[1; 8], NOW)
    }

    const NOW: u128 = 1000 * SECOND_NS;

    fn code(bundles: &mut Bundles, id: u32, what: BundleControlType) -> Option<ErrorCode> {
        ask(bundles, &control(id, what, ATOMIC)).err().map(|(code, _)| code)
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
        let b = &mut bundles(BYTES_MAX);
        assert_eq!(code(b, 1, Type::CloseRequest), Some(ErrorCode::BfcBadId));
        assert_eq!(code(b, 1, Type::CommitRequest), Some(ErrorCode::BfcBadId));
        assert_eq!(code(b, 1, Type::DiscardRequest), Some(ErrorCode::BfcBadId));
        assert_eq!(code(b, 1, Type::OpenReply), Some(ErrorCode::BfcBadType));
        assert_eq!(code(b, 1, Type::OpenRequest), None);
        assert_eq!(code(b, 1, Type::OpenRequest), Some(ErrorCode::BfcBundleExist));
        let other = control(1, Type::CloseRequest, BundleFlags::ORDERED);
        assert_eq!(ask(b, &other).err().unwrap().0, ErrorCode::BfcBadFlags);
        let unknown = control(2, Type::OpenRequest, BundleFlags::from_bits_retain(8));
        assert_eq!(ask(b, &unknown).err().unwrap().0, ErrorCode::BfcBadFlags);
        assert_eq!(code(b, 1, Type::CloseRequest), None);
        assert_eq!(code(b, 1, Type::CloseRequest), Some(ErrorCode::BfcBundleClosed));
        assert_eq!(add(b, 1, 7, &flow()), Some(ErrorCode::BfcBundleClosed));
        let later = BundleControl { time: Some((1, 0)), ..control(1, Type::CommitRequest, ATOMIC) };
        assert_eq!(ask(b, &later).err().unwrap().0, ErrorCode::BfcBadFlags);
        assert_eq!(code(b, 1, Type::DiscardRequest), None);
        assert_eq!(code(b, 1, Type::DiscardRequest), Some(ErrorCode::BfcBadId));
        (0..BUNDLES_MAX as u32).for_each(|id| assert_eq!(code(b, id, Type::OpenRequest), None));
        assert_eq!(code(b, 9999, Type::OpenRequest), Some(ErrorCode::BfcOutOfBundles));
    }

    #[test]
    fn every_error_of_additions() {
        let b = &mut bundles(BYTES_MAX);
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
        let Ok(Controlled::Commit(held, answer)) = ask(b, &commit) else {
            panic!("it can be committed");
        };
        assert_eq!((held.len(), answer.control), (1, BundleControlType::CommitReply));
        assert_eq!((b.messages, b.bytes), (0, 0), "nothing is left");
    }

    #[test]
    fn scheduled_bundles_wait_for_their_time() {
        use BundleControlType as Type;
        let b = &mut bundles(BYTES_MAX);
        let flags = ATOMIC | BundleFlags::TIME;
        let timed = |id, at| {
            let time = Some(at);
            BundleControl { time, ..control(id, Type::CommitRequest, flags) }
        };
        let code = |b: &mut Bundles, request| ask(b, &request).err().map(|e| e.0);
        // Not before 1.5.
        let open = |id| control(id, Type::OpenRequest, flags);
        let early = b.control(Version::V14, Xid(1), &open(1), &[], NOW);
        assert_eq!(early.err().unwrap().0, ErrorCode::BfcBadFlags);
        (1..=4).for_each(|id| assert_eq!(code(b, open(id)), None));
        assert_eq!(
            code(b, BundleControl { time: None, ..timed(1, (0, 0)) }),
            Some(ErrorCode::BfcBadFlags)
        );
        //= openflow-1.5.1 §7.3.9.5: bounds of scheduling, which a controller may set.
        assert_eq!(code(b, timed(1, (1000 + 3601, 0))), Some(ErrorCode::BfcSchedFuture));
        assert_eq!(code(b, timed(1, (998, 0))), Some(ErrorCode::BfcSchedPast));
        let at_once = ask(b, &timed(1, (999, 500_000_000)));
        assert!(matches!(at_once, Ok(Controlled::Commit(..))), "a little late");
        assert!(matches!(ask(b, &timed(2, (1005, 0))), Ok(Controlled::Later)));
        assert!(matches!(ask(b, &timed(3, (1002, 7))), Ok(Controlled::Later)));
        assert_eq!(code(b, timed(3, (1002, 7))), Some(ErrorCode::BfcBundleInProgress));
        assert_eq!(add(b, 3, 7, &flow()), Some(ErrorCode::BfcBundleClosed));
        assert_eq!(b.due_ns(), Some(1002 * SECOND_NS + 7));
        assert!(b.ripe(1002 * SECOND_NS).is_none());
        let ripe = b.ripe(1002 * SECOND_NS + 7).unwrap();
        assert_eq!((ripe.answer.control, ripe.xid), (Type::CommitReply, Xid(1)));
        // One that waits may be discarded.
        assert_eq!(code(b, control(2, Type::DiscardRequest, flags)), None);
        assert_eq!(b.due_ns(), None);
        let times = BundleTimes { future: (5, 0), past: (2, 0), ..BundleTimes::default() };
        let flags = BundleFeaturesRequest::SET_BOUNDS;
        let said = b.features(&BundleFeaturesRequest { flags, times: Some(times) }, NOW);
        let said = said.times.unwrap();
        assert_eq!((said.future, said.past, said.now), ((5, 0), (2, 0), (1000, 0)));
        assert_eq!(code(b, timed(4, (1006, 0))), Some(ErrorCode::BfcSchedFuture));
        assert!(matches!(ask(b, &timed(4, (998, 0))), Ok(Controlled::Commit(..))));
    }
}
