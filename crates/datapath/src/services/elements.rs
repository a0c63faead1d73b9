//! SoftFlow's services (USENIX ATC 2016): elements that flows call by name, as services of the pipeline.
//!
//! A program calls one service, [`NAME`], or [`EDIT_NAME`] where the element may write the packet, and says which
//! element by its number ([`ARGS`]); what comes back ([`RESULTS`]) is the register and whether lookups may be
//! skipped. The list of elements changes while packets pass: it is replaced as a whole, so that a burst sees one
//! list.
//!
//! One instance of an element serves all workers, behind a lock that is held for the packets of a burst that come
//! to one call: state is about connections, and nothing sees to it that both directions of one come to one worker.
//! The elements of a *group* have one instance together, which is told the role of the element that it is called for; it is
//! there as long as one of them is.
//!
//! A packet for an element that is not there (any more) is dropped and counted, as one to a virtual machine that
//! is gone; so is one that a program hands to an element by the wrong one of the two services.
//!
//! Checked by: the tests below; `of_pipeline` and `tests/softflow.rs` for what flows make of it.

use super::answers::{AnswerCounts, Answers};
use super::call::{Burst, Call, Service, answer, checksum};
use super::waiting::{WaitNews, WaitQueue, WaitTicket, WaitingPacket};
use arc_swap::ArcSwap;
pub use contract::softflow::{ARGS, EDIT_NAME, NAME, RESULTS, number};
use ir::{Bits, DropReason};
use jit::Handed;
use service::balance::{Given, Spread};
use service::catalogue::{self, Answered};
use service::conntrack::{Selection, Tracker};
use service::element::{Apart, Element, Fate, Instance, Kept, Metadata, Passing, Writes};
use service::nat::Outside;
use service::packet::{Offsets, Packet};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// An element that is to be added.
pub struct New<'a> {
    /// Its number in flows.
    pub number: u32,
    /// Its name in flows.
    pub name: &'a str,
    /// Its kind, for people.
    pub kind: &'a str,
    /// What it was made with.
    pub settings: Vec<(String, String)>,
    /// The group that it is of, by name.
    pub group: Option<&'a str>,
    /// It.
    pub element: Box<dyn Element>,
}

/// An instance, and the element that made it.
struct State {
    maker: Box<dyn Element>,
    instance: Mutex<Running>,
}

/// An instance, and the frames that wait for what it expects.
struct Running {
    instance: Box<dyn Instance>,
    waiting: WaitQueue,
    /// Another process has its packets.
    standby: bool,
}

impl Running {
    /// Frames that are to go on, and those that are lost, as the instance says by now.
    fn settle(&mut self, news: Option<&mut WaitNews>) {
        let (ready, lost) = self.instance.news();
        match news {
            Some(news) => {
                news.ready
                    .extend(ready.into_iter().filter_map(|ticket| self.waiting.ready(ticket)));
            }
            None => ready.into_iter().for_each(|ticket| self.waiting.lost(ticket)),
        }
        lost.into_iter().for_each(|ticket| self.waiting.lost(ticket));
    }
}

/// An element, under a name.
pub struct Named {
    /// Its name in flows.
    pub name: String,
    /// Its kind, for people.
    pub kind: String,
    /// Its group.
    pub group: Option<String>,
    settings: Vec<(String, String)>,
    writes: Writes,
    role: u32,
    state: Arc<State>,
    packets: AtomicU64,
    dropped: AtomicU64,
    /// Those of them that it dropped as a standby.
    stood_by: AtomicU64,
    /// Addresses that are answered for in its name.
    answers: Vec<Answered>,
    answered: Arc<AnswerCounts>,
}

impl Named {
    fn lock(&self) -> MutexGuard<'_, Running> {
        // An element that panicked over a packet is as it was left: its state is its own.
        self.state.instance.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Which parts of a packet it may write.
    pub fn writes(&self) -> Writes {
        self.writes
    }

    /// It may write packets.
    pub fn edits(&self) -> bool {
        self.writes != Writes::Nothing
    }

    /// What it was made with, or what that has become since, as it may be shown.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut settings = self.settings.clone();
        for (key, value) in self.state.maker.current() {
            match settings.iter_mut().find(|(other, _)| *other == key) {
                Some((_, old)) => *old = value,
                None => settings.push((key, value)),
            }
        }
        match catalogue::kind(&self.kind) {
            Some(kind) => kind.shown(&settings),
            None => settings,
        }
    }

    /// Sets what can be set while it runs; of a group, for all its elements.
    ///
    /// # Errors
    /// Those of [`Element::set`].
    pub fn set(&self, settings: &[(String, String)]) -> Result<(), catalogue::Error> {
        self.state.maker.set(settings)
    }

    /// The balancer that it is, if it is one.
    pub fn spread(&self) -> Option<&Spread> {
        self.state.maker.itself()?.downcast_ref()
    }

    /// Whether the two are of one group, whose state is one.
    pub fn shares_with(&self, other: &Named) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Connections or flows that it keeps, of so many places from this one on, in a lock's time; the place to go on from.
    pub fn page(
        &self,
        now_ns: u64,
        from: usize,
        places: usize,
        see: &mut dyn FnMut(Kept),
    ) -> Option<usize> {
        self.lock().instance.page(now_ns, from, places, see)
    }

    /// Connections that it keeps, those of them that are half open, and the octets that they take.
    pub fn size(&self) -> (usize, usize, usize) {
        self.lock().instance.size()
    }

    /// Forgets connections that are chosen; how many there were. Packets wait meanwhile.
    pub fn forget(&self, chosen: &Selection) -> usize {
        self.lock().instance.forget(chosen)
    }

    /// Does something with its tracker, while packets wait; none if it has none.
    pub fn with_tracker<R>(&self, act: impl FnOnce(&mut Tracker) -> R) -> Option<R> {
        self.lock().instance.tracker().map(act)
    }

    /// Tells flows that another process could not know the way of, in a lock's time: [`Instance::tell_flows`].
    pub fn tell_flows(
        &self,
        now_ns: u64,
        from: usize,
        places: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        self.lock().instance.tell_flows(now_ns, from, places, out)
    }

    /// Goes on with flows that another process has told: how many.
    ///
    /// # Errors
    /// If they are none.
    pub fn told_flows(&self, now_ns: u64, records: &[u8]) -> Result<usize, String> {
        self.lock().instance.told_flows(now_ns, records)
    }

    /// Whether it is a standby.
    pub fn is_standby(&self) -> bool {
        self.lock().standby
    }

    /// What is taken of its outside addresses, at most so many one by one; none if it translates nothing.
    pub fn outside(&self, most: usize) -> Option<Outside> {
        self.lock().instance.outside(most)
    }

    /// What was answered for its addresses; none of one that has none.
    pub fn answered(&self) -> Option<&AnswerCounts> {
        (!self.answers.is_empty()).then_some(&*self.answered)
    }

    /// What the backends of a balancer were given.
    pub fn given(&self) -> Vec<Given> {
        self.lock().instance.given()
    }

    /// An image of what it keeps, of a switch that has stopped; none if it keeps nothing.
    pub fn export(&self, now_ns: u64, taken_at: u64) -> Option<Vec<u8>> {
        self.lock().instance.export(now_ns, taken_at)
    }

    /// Goes on with an image: how many connections or flows it has taken.
    ///
    /// # Errors
    /// If it is no image of such a service.
    pub fn import(&self, now_ns: u64, image: Vec<u8>) -> Result<usize, String> {
        self.lock().instance.import(now_ns, image)
    }

    /// Packets that it has taken, those of them that it dropped, and the counters of its instance.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let (own, more) = {
            let instance = &mut self.lock().instance;
            (instance.counters(), instance.own_counters())
        };
        let taken = self.packets.load(Ordering::Relaxed);
        let ours = [("calls", taken), ("drops", self.dropped.load(Ordering::Relaxed))];
        let stood_by = self.stood_by.load(Ordering::Relaxed);
        let standby = (stood_by > 0).then_some(("standby", stood_by));
        let answered = self.answered().map(AnswerCounts::read).into_iter().flatten();
        let known = ours.into_iter().chain(standby).chain(own).chain(answered);
        let known = known.map(|(name, n)| (name.to_string(), n));
        known.chain(more.into_iter().map(|(name, n)| (format!("count_{name}"), n))).collect()
    }
}

/// The elements of a switch, by their numbers.
#[derive(Default)]
pub struct Elements {
    list: ArcSwap<BTreeMap<u32, Arc<Named>>>,
    /// Whoever changes the list.
    changes: Mutex<()>,
    nobody: AtomicU64,
    /// Names and groups whose elements are standbys when they come.
    held: Mutex<BTreeSet<String>>,
    answers: Arc<Answers>,
}

/// Why an element was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// There is one of this name.
    #[error("there is a service {0} already; remove it first")]
    Exists(String),
    /// Another name has the same number.
    #[error("services {0} and {1} would have the same number in sf_action; choose another name")]
    Collides(String, String),
    /// The group's elements are of another kind.
    #[error(
        "group {group} has elements of the kind {kind}, as {name}; its elements are of one kind"
    )]
    Kind {
        /// The group.
        group: String,
        /// One of its elements.
        name: String,
        /// That one's kind.
        kind: String,
    },
    /// Another one is answered for as well.
    #[error("service {name} is answered for at {address} already; no address has two owners")]
    Answered {
        /// The address.
        address: IpAddr,
        /// Its owner.
        name: String,
    },
    /// What is answered for it makes no sense.
    #[error(transparent)]
    Settings(#[from] catalogue::Error),
    /// The group's elements have another value of a setting.
    #[error(
        "the elements of group {group} share their state, so they agree in {key}=, and {name} has another"
    )]
    Differs {
        /// The group.
        group: String,
        /// One of its elements.
        name: String,
        /// The setting.
        key: &'static str,
    },
}

impl Elements {
    /// All elements but those that share the state of another: of these, the first.
    pub fn owners(&self) -> Vec<Arc<Named>> {
        let mut all: Vec<Arc<Named>> = Vec::new();
        for named in self.list() {
            if !all.iter().any(|other| other.shares_with(&named)) {
                all.push(named);
            }
        }
        all
    }

    /// Elements of these names, or of groups of these names, are [standbys](Self::set_standby) when they come, until they are
    /// told to go on.
    pub fn hold(&self, names: &[String]) {
        let mut held = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        held.extend(names.iter().cloned());
    }

    fn is_held(&self, name: &str) -> bool {
        self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).contains(name)
    }

    /// Adds an element under a name and its number, with an instance that starts now, or its group's. `seed` is a number
    /// that nobody outside can guess.
    ///
    /// # Errors
    /// If the name or the number is taken, or the element does not fit its group.
    pub fn add(&self, new: New<'_>, (now_ns, seed): (u64, u64)) -> Result<(), AddError> {
        let _alone = self.changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut list = BTreeMap::clone(&self.list.load());
        let New { number, name, kind, settings, group, element } = new;
        if let Some(other) = list.get(&number) {
            return Err(match other.name == name {
                true => AddError::Exists(name.to_string()),
                false => AddError::Collides(name.to_string(), other.name.clone()),
            });
        }
        let answers = catalogue::answers(kind, &settings)?;
        for other in list.values() {
            let both = |one: &Answered| other.answers.iter().find_map(|two| one.shared(two));
            // Both sides of a NAT may say the same.
            let agrees =
                other.answers == answers && group.is_some() && other.group.as_deref() == group;
            if let (Some(address), false) = (answers.iter().find_map(both), agrees) {
                return Err(AddError::Answered { address, name: other.name.clone() });
            }
        }
        let of_group = |other: &&Arc<Named>| group.is_some() && other.group.as_deref() == group;
        let (writes, role) = (element.writes(), element.role());
        let state = match list.values().find(of_group) {
            Some(other) => {
                let (group, name) = (group.unwrap_or_default().to_string(), other.name.clone());
                if other.kind != kind {
                    return Err(AddError::Kind { group, name, kind: other.kind.clone() });
                }
                let differs = |kind: &catalogue::Kind| kind.differ(&other.settings, &settings);
                if let Some(key) = catalogue::kind(kind).and_then(differs) {
                    return Err(AddError::Differs { group, name, key });
                }
                other.state.clone()
            }
            None => Arc::new(State {
                instance: Mutex::new(Running {
                    instance: element.instance(0, now_ns, seed),
                    waiting: WaitQueue::default(),
                    standby: self.is_held(group.unwrap_or(name)),
                }),
                maker: element,
            }),
        };
        let named = Named {
            name: name.to_string(),
            kind: kind.to_string(),
            group: group.map(str::to_string),
            settings,
            writes,
            role,
            state,
            packets: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            stood_by: AtomicU64::new(0),
            answers,
            answered: Arc::default(),
        };
        list.insert(number, Arc::new(named));
        self.store(list);
        Ok(())
    }

    fn store(&self, list: BTreeMap<u32, Arc<Named>>) {
        self.set_answers(&list);
        self.list.store(Arc::new(list));
    }

    /// Addresses of standbys are answered by another process.
    fn set_answers(&self, list: &BTreeMap<u32, Arc<Named>>) {
        let active = list.values().filter(|named| !named.answers.is_empty() && !named.is_standby());
        self.answers.set(active.map(|named| (&*named.answers, &named.answered)));
    }

    /// An element, and all of its group, are standbys: their packets are another process', and are dropped and counted here; so are
    /// requests for their addresses. Or they are none any more.
    pub fn set_standby(&self, named: &Named, standby: bool) {
        let _alone = self.changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let before = std::mem::replace(&mut named.lock().standby, standby);
        if before != standby {
            self.set_answers(&self.list.load());
        }
    }

    /// What is answered for addresses of these.
    pub fn answers(&self) -> &Arc<Answers> {
        &self.answers
    }

    /// Takes an element away; false if there is none of this number.
    pub fn remove(&self, number: u32) -> bool {
        let _alone = self.changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut list = BTreeMap::clone(&self.list.load());
        let found = list.remove(&number).is_some();
        self.store(list);
        found
    }

    /// The element of a number.
    pub fn get(&self, number: u32) -> Option<Arc<Named>> {
        self.list.load().get(&number).cloned()
    }

    /// All of them, by their names.
    pub fn list(&self) -> Vec<Arc<Named>> {
        let mut all: Vec<Arc<Named>> = self.list.load().values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Packets that came for an element that is not there, or by the wrong service.
    pub fn for_nobody(&self) -> u64 {
        self.nobody.load(Ordering::Relaxed)
    }

    /// The element that a call names, if that service may call it.
    fn find<'l>(
        list: &'l BTreeMap<u32, Arc<Named>>,
        service: &ir::program::Service,
        number: u32,
    ) -> Option<&'l Named> {
        list.get(&number).map(|named| &**named).filter(|named| named.edits() <= service.edits)
    }
}

/// What a packet carries, by the values of [`ARGS`].
#[inline(always)]
fn metadata([_, argument, register, action, stage]: [u64; ARGS.len()]) -> Metadata {
    Metadata {
        register,
        action: action as u32,
        stage: stage as u8,
        coalesce: false,
        argument: argument as u32,
    }
}

/// Packets as their element takes them. It borrows the bytes meanwhile.
///
/// What is known of a packet goes straight to its place: offsets that lay in memory in between would be read there in wider
/// parts than they were written in, for which the processor waits. So those that have to be walked for come last.
#[inline(always)]
fn lend<'a>(
    burst: Burst<'_>,
    run: &mut [Handed<'a>],
    all: &mut SmallVec<[Passing<'a>; abi::BURST_MAX]>,
) {
    let mut odd = false;
    all.extend(run.iter_mut().map(|handed| {
        let (checksum, hint) = (checksum(burst.csum(handed)), burst.hint(handed));
        let metadata = metadata(match handed.args.first_chunk() {
            Some(args) => *args,
            None => std::array::from_fn(|at| handed.args.get(at).copied().unwrap_or(0)),
        });
        let frame = std::mem::take(&mut handed.bytes);
        let usual = Offsets::usual(frame);
        odd |= usual.is_none();
        let packet = Packet { frame, at: usual.unwrap_or_default(), checksum, hint };
        let apart = if burst.leaves { Apart::Leave } else { Apart::Never };
        Passing { packet, metadata, fate: Fate::Continue, apart }
    }));
    if odd {
        walk(all);
    }
}

/// Finds the offsets of packets that the short way has none of.
#[cold]
fn walk(all: &mut [Passing<'_>]) {
    for Passing { packet, .. } in all.iter_mut().filter(|one| one.packet.at.l4 == 0) {
        packet.at = Offsets::walked(packet.frame);
    }
}

impl Service for Elements {
    fn burst(&self, burst: Burst<'_>, packets: &mut [Handed<'_>]) {
        let list = self.list.load();
        let number = |handed: &Handed<'_>| handed.args.first().map_or(0, |word| *word as u32);
        for run in packets.chunk_by_mut(|a, b| number(a) == number(b)) {
            let Some(named) = Elements::find(&list, burst.service, number(&run[0])) else {
                self.nobody.fetch_add(run.len() as u64, Ordering::Relaxed);
                run.iter_mut().for_each(|handed| handed.passes = false);
                continue;
            };
            let count = run.len() as u64;
            let mut all = SmallVec::new();
            lend(burst, run, &mut all);
            let mut running = named.lock();
            if running.standby {
                drop(running);
                all.iter_mut().for_each(|passing| passing.fate = Fate::Drop);
                named.stood_by.fetch_add(count, Ordering::Relaxed);
            } else {
                running.instance.ingress_as(named.role, burst.now_ns, &mut all);
                running.settle(None);
                drop(running);
            }
            let (mut dropped, mut left) = (0, 0);
            // Drained and not moved: they are several thousand octets.
            for (handed, passing) in run.iter_mut().zip(all.drain(..)) {
                let Passing { packet, metadata, fate, .. } = passing;
                handed.bytes = packet.frame;
                // One by one: two words are less than a call that copies any number of them.
                let words = [metadata.register, metadata.coalesce.into()];
                for (at, word) in words.into_iter().enumerate() {
                    if let Some(to) = handed.results.get_mut(at) {
                        *to = word;
                    }
                }
                handed.passes = fate == Fate::Continue;
                handed.left = fate == Fate::Apart;
                left += u64::from(handed.left);
                dropped += u64::from(fate == Fate::Drop);
            }
            named.packets.fetch_add(count - left, Ordering::Relaxed);
            if dropped > 0 {
                named.dropped.fetch_add(dropped, Ordering::Relaxed);
            }
        }
    }

    fn call(&self, call: Call<'_>, results: &mut [Bits]) -> bool {
        let arg = |at: usize| call.args.get(at).map_or(0, Bits::low_u64);
        if call.look {
            // Nothing is asked of state: the packet goes on as it came.
            answer(results, 0, arg(2));
            answer(results, 1, 1u8);
            return Elements::find(&self.list.load(), call.service, arg(0) as u32).is_some();
        }
        let list = self.list.load();
        let Some(named) = Elements::find(&list, call.service, arg(0) as u32) else {
            self.nobody.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let mut packet = Packet::of(call.packet);
        packet.checksum = checksum(call.csum);
        let metadata = metadata(std::array::from_fn(arg));
        let apart = if call.news.is_some() { Apart::Hold } else { Apart::Never };
        let mut one = [Passing { metadata, apart, ..Passing::new(packet) }];
        let mut running = named.lock();
        if running.standby {
            named.packets.fetch_add(1, Ordering::Relaxed);
            named.dropped.fetch_add(1, Ordering::Relaxed);
            named.stood_by.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        running.instance.ingress_as(named.role, call.now_ns, &mut one);
        let [Passing { metadata, fate, .. }] = one;
        let mut news = call.news;
        if let (Some(news), Fate::Waits(ticket)) = (&mut news, fate) {
            news.waits = Some(WaitTicket { service: 0, element: arg(0) as u32, ticket });
        }
        running.settle(news);
        drop(running);
        answer(results, 0, metadata.register);
        answer(results, 1, u8::from(metadata.coalesce));
        let passes = fate == Fate::Continue;
        // One that waits is counted when it comes again.
        if let Fate::Waits(_) = fate {
            return false;
        }
        named.packets.fetch_add(1, Ordering::Relaxed);
        if !passes {
            named.dropped.fetch_add(1, Ordering::Relaxed);
        }
        passes
    }

    fn tend(&self, now_ns: u64) {
        for named in self.list.load().values() {
            let mut running = named.lock();
            running.instance.tend(now_ns);
            running.settle(None);
        }
    }

    fn keep(&self, waits: WaitTicket, kept: WaitingPacket) -> Option<WaitingPacket> {
        match self.get(waits.element) {
            Some(named) => named.lock().waiting.keep(waits.ticket, kept),
            None => {
                kept.drop(DropReason::FragmentLost);
                None
            }
        }
    }

    fn give_up(&self, reason: DropReason) {
        for named in self.list.load().values() {
            named.lock().waiting.give_up(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::program::Param;
    use port::Csum;
    use service::simple::{Counter, Noop, RateLimiter};

    fn declared(edits: bool) -> ir::program::Service {
        let params = |list: &[(&str, u32)]| {
            list.iter().map(|(n, w)| Param { name: (*n).to_string(), width: *w }).collect()
        };
        let name = if edits { EDIT_NAME } else { NAME }.to_string();
        ir::program::Service { name, args: params(&ARGS), results: params(&RESULTS), edits }
    }

    fn new<'a>(number: u32, name: &'a str, element: impl Element + 'static) -> New<'a> {
        let (kind, settings, element) = ("kind", Vec::new(), Box::new(element));
        New { number, name, kind, settings, group: None, element }
    }

    fn add(elements: &Elements, number: u32, name: &str, element: impl Element + 'static) {
        elements.add(new(number, name, element), (0, 1)).unwrap();
    }

    fn count(elements: &Elements, number: u32, name: &str) -> u64 {
        let counters = elements.get(number).unwrap().counters();
        counters.iter().find(|(n, _)| n == name).unwrap().1
    }

    /// Hands packets of 100 bytes over, one for each number; who passes, and the answers.
    fn burst(elements: &Elements, edits: bool, numbers: &[u64]) -> Vec<(bool, [u64; 2])> {
        let service = declared(edits);
        let mut frames = vec![vec![0u8; 100]; numbers.len()];
        let args: Vec<[u64; 5]> = numbers.iter().map(|n| [*n, 7, 0xabc, 0, 0]).collect();
        let mut results = vec![[0u64; 2]; numbers.len()];
        let mut packets: Vec<Handed<'_>> = frames
            .iter_mut()
            .zip(&args)
            .zip(&mut results)
            .enumerate()
            .map(|(packet, ((bytes, args), results))| Handed {
                packet,
                bytes,
                args,
                results,
                passes: true,
                left: false,
            })
            .collect();
        let csums = vec![Csum::None; numbers.len()];
        elements.burst(
            Burst { service: &service, csums: &csums, marks: &[], now_ns: 0, leaves: false },
            &mut packets,
        );
        let passes: Vec<bool> = packets.iter().map(|handed| handed.passes).collect();
        passes.into_iter().zip(results).collect()
    }

    #[test]
    fn packets_come_to_their_elements_and_to_nobody_elses() {
        let elements = Elements::default();
        add(&elements, 1, "idle", Noop);
        add(&elements, 2, "limit", RateLimiter { octets_per_second: 0, burst_octets: 150 });
        let told = burst(&elements, false, &[1, 2, 2, 1, 3]);
        let passes: Vec<bool> = told.iter().map(|told| told.0).collect();
        assert_eq!(passes, [true, true, false, true, false]);
        assert_eq!(told[0].1, [0xabc, 1], "the register stays, lookups may be skipped");
        assert_eq!(elements.for_nobody(), 1);
        let limit = ["calls", "drops", "passed", "dropped"].map(|name| count(&elements, 2, name));
        assert_eq!(limit, [2, 1, 1, 1]);
        assert!(elements.remove(1) && !elements.remove(1));
        assert!(!burst(&elements, false, &[1])[0].0);
    }

    #[test]
    fn a_standby_drops_its_packets_until_it_goes_on() {
        let elements = Elements::default();
        add(&elements, 1, "idle", Noop);
        elements.set_standby(&elements.get(1).unwrap(), true);
        elements.hold(&["later".to_owned()]);
        add(&elements, 2, "later", Noop);
        assert!(!burst(&elements, false, &[2])[0].0);
        assert_eq!(burst(&elements, false, &[1, 1]).iter().filter(|told| told.0).count(), 0);
        elements.set_standby(&elements.get(1).unwrap(), false);
        assert!(burst(&elements, false, &[1])[0].0);
        assert_eq!(["calls", "drops", "standby"].map(|n| count(&elements, 1, n)), [3, 2, 2]);
    }

    #[test]
    fn addresses_of_a_standby_are_answered_by_another_process() {
        let elements = Elements::default();
        elements.hold(&["held".to_owned()]);
        for (number, group) in [(1, None), (2, Some("held"))] {
            let settings =
                format!("direction=out addresses=10.0.0.{number} answer=02:00:00:00:00:07");
            let settings = catalogue::parse(settings.split_whitespace()).unwrap();
            let element = catalogue::element("nat", &settings).unwrap();
            let name = &*format!("nat{number}");
            let new = New { number, name, kind: "nat", settings, group, element };
            elements.add(new, (0, 1)).unwrap();
        }
        let asked = |number| {
            let head = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]];
            let who = [2, 0, 0, 0, 0, 1, 10, 0, 0, 100];
            let frame = &mut [&head.concat()[..], &who, &[0; 6], &[10, 0, 0, number]].concat();
            let results = &mut [0];
            let packet =
                Handed { packet: 0, bytes: frame, args: &[], results, passes: true, left: false };
            let (service, csums) = (declared(true), [Csum::None]);
            let burst =
                Burst { service: &service, csums: &csums, marks: &[], now_ns: 0, leaves: false };
            elements.answers().burst(burst, &mut [packet]);
            results[0] == 1
        };
        assert_eq!([1, 2].map(asked), [true, false], "held");
        let of = |number| elements.get(number).unwrap();
        elements.set_standby(&of(2), false);
        elements.set_standby(&of(1), true);
        assert_eq!([1, 2].map(asked), [false, true]);
        elements.set_standby(&of(1), false);
        assert_eq!([1, 2].map(asked), [true, true]);
    }

    #[test]
    fn names_and_numbers_are_one_elements() {
        let elements = Elements::default();
        add(&elements, 1, "a", Noop);
        let again =
            |number, name| elements.add(new(number, name, Noop), (0, 1)).map_err(|e| e.to_string());
        assert!(again(1, "a").unwrap_err().contains("already"));
        assert!(again(1, "b").unwrap_err().contains("same number"));
        assert_eq!(again(2, "b"), Ok(()));
        assert_eq!(elements.list().len(), 2);
    }

    #[test]
    fn a_groups_elements_have_one_instance_while_one_of_them_is_there() {
        let elements = Elements::default();
        let join = |number, name, kind, settings: &str, group| {
            let settings = catalogue::parse(settings.split_whitespace()).unwrap();
            let element = catalogue::element(kind, &settings).unwrap();
            let new = New { number, name, kind, settings, group, element };
            elements.add(new, (0, 1)).map_err(|e| e.to_string())
        };
        assert_eq!(join(1, "a", "counter", "", Some("g")), Ok(()));
        assert_eq!(join(2, "b", "counter", "", Some("g")), Ok(()));
        assert_eq!(join(3, "c", "counter", "", Some("h")), Ok(()));
        assert_eq!(join(4, "d", "counter", "", None), Ok(()));
        burst(&elements, false, &[1, 1, 2, 3, 4]);
        let counts = |name: &str| [1, 2, 3, 4].map(|n| count(&elements, n, name));
        assert_eq!((counts("calls"), counts("packets")), ([2, 1, 1, 1], [3, 3, 1, 1]));
        assert_eq!(
            join(5, "e", "noop", "", Some("g")).unwrap_err(),
            "group g has elements of the kind counter, as a; its elements are of one kind"
        );
        assert!(elements.remove(1));
        assert_eq!(join(1, "a", "counter", "", Some("g")), Ok(()));
        assert_eq!((count(&elements, 1, "calls"), count(&elements, 1, "packets")), (0, 3));
        assert!(elements.remove(1) && elements.remove(2));
        assert_eq!(join(1, "a", "counter", "", Some("g")), Ok(()));
        assert_eq!(count(&elements, 1, "packets"), 0, "the group was gone");
        // A NAT's two sides agree in all but their direction; a default is a value.
        let nat = |number, name, more: &str| {
            join(number, name, "nat", &format!("addresses=192.0.2.1 {more}"), Some("n"))
        };
        assert_eq!(nat(6, "out", "direction=out"), Ok(()));
        assert_eq!(
            nat(7, "in", "direction=in ports=1-9").unwrap_err(),
            "the elements of group n share their state, so they agree in ports=, and out has another"
        );
        assert_eq!(nat(7, "in", "direction=in ports=1024-65535"), Ok(()));
        assert_eq!([6, 7].map(|n| elements.get(n).unwrap().role), [0, 1]);
    }

    #[test]
    fn what_is_set_is_set_for_the_group_and_shown_without_secrets() {
        let elements = Elements::default();
        for (number, name) in [(1, "a"), (2, "b")] {
            let settings = catalogue::parse(["backends=x,y", "key=77"]).unwrap();
            let element = catalogue::element("balancer", &settings).unwrap();
            let group = Some("g");
            elements
                .add(New { number, name, kind: "balancer", settings, group, element }, (0, 1))
                .unwrap();
        }
        let set = |number, words: &str| {
            let settings = catalogue::parse(words.split_whitespace()).unwrap();
            elements.get(number).unwrap().set(&settings).map_err(|e| e.to_string())
        };
        assert_eq!(set(2, "health=x:down"), Ok(()));
        assert_eq!(set(2, "health=y:down"), Ok(()));
        assert!(set(2, "health=z:down").unwrap_err().contains("the backends are x and y"));
        // The first made the instance, and it is set, too.
        burst(&elements, false, &[1, 2]);
        assert_eq!(count(&elements, 1, "nobody"), 2);
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        let shown = elements.get(1).unwrap().settings();
        assert_eq!(shown, [pair("backends", "x@1:1:down,y@2:1:down"), pair("key", "...")]);
        add(&elements, 3, "c", Counter::default());
        assert!(
            elements
                .get(3)
                .unwrap()
                .set(&[pair("a", "1")])
                .unwrap_err()
                .to_string()
                .contains("cannot be set while it runs")
        );
    }

    #[test]
    fn what_writes_packets_is_not_called_where_they_may_not_be_written() {
        struct Writer;
        impl Element for Writer {
            fn name(&self) -> &'static str {
                "writer"
            }
            fn writes(&self) -> Writes {
                Writes::Payload
            }
            fn instance(&self, _: usize, _: u64, _: u64) -> Box<dyn Instance> {
                Box::new(Noop)
            }
        }
        let elements = Elements::default();
        add(&elements, 1, "writer", Writer);
        assert!(!burst(&elements, false, &[1])[0].0);
        assert!(burst(&elements, true, &[1])[0].0);
        assert_eq!(elements.for_nobody(), 1);
    }

    #[test]
    fn an_element_is_told_where_each_packets_layers_are_and_gives_the_packet_back() {
        struct Looks;
        impl Element for Looks {
            fn name(&self) -> &'static str {
                "looks"
            }
            fn writes(&self) -> Writes {
                Writes::Nothing
            }
            fn instance(&self, _: usize, _: u64, _: u64) -> Box<dyn Instance> {
                Box::new(Looks)
            }
        }
        impl Instance for Looks {
            fn ingress(&mut self, _: u64, burst: &mut [Passing<'_>]) {
                for Passing { packet, metadata, .. } in burst {
                    assert_eq!(packet.at, Offsets::of(packet.frame));
                    metadata.register = packet.at.l4.into();
                }
            }
            fn counters(&self) -> Vec<(&'static str, u64)> {
                Vec::new()
            }
        }
        let elements = Elements::default();
        add(&elements, 1, "looks", Looks);
        let plain = testkit::packet::Udp::default().frame();
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0, 1]);
        let other = vec![0; 60];
        let frames = [&plain, &tagged, &other, &plain, &tagged, &tagged].map(Vec::clone);
        let (mut handed, mut results) = (frames.clone(), [[9; 2]; 6]);
        let mut packets: Vec<Handed<'_>> = Vec::new();
        for (packet, (bytes, results)) in handed.iter_mut().zip(&mut results).enumerate() {
            packets.push(Handed {
                packet,
                bytes,
                args: &[1, 0, 0, 0, 0],
                results,
                passes: true,
                left: false,
            });
        }
        let service = declared(false);
        elements.burst(
            Burst { service: &service, csums: &[], marks: &[], now_ns: 0, leaves: false },
            &mut packets,
        );
        assert!(packets.iter().zip(&frames).all(|(packet, frame)| packet.bytes == &frame[..]));
        assert_eq!(results.map(|results| results[0]), [34, 38, 0, 34, 38, 38]);
    }
}
