//! Updates while frames flow: what they cost, how soon they are live, and whether each frame is
//! forwarded by one version.
//!
//! A control thread changes the gateway's routing table at a rate, as a switch does: each change is
//! a transaction of its own, what gathers within [`TICK`] is published together. One in eight routes
//! is withdrawn and comes back later; the others get another next hop.
//!
//! [`check`] has every transaction change two tables at once: a user's public address, and both
//! Ethernet addresses of the route that its frames take, all with the transaction's number in them.
//! A frame that comes out must bear one number everywhere, right checksums, and a number between that
//! of the version that the lane held and the last one committed.

use super::cases::{Gateway, gateway, routes};
use super::frame::{Flow, fold, sum};
use super::lane::{BURST, Bed, Lane, Seen};
use super::measure::{Sample, Tally};
use super::trace::{FRAMES_MIN, Trace};
use super::{cases, measure};
use control::failure::Failure;
use datapath::tally::Ran;
use interp::Sink;
use interp::sink::Collect;
use ir::{Bits, Entry, TableId, Update, Verdict};
use port::prng::Prng;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What gathers is published after so long.
const TICK: Duration = Duration::from_millis(1);
/// Transactions between looks at the clock.
const BATCH: u64 = 64;
/// Flows of a check: users and the routes that only they take.
const PAIRS: usize = 64;

/// What a control thread has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Updated {
    /// Transactions.
    pub(crate) updates: u64,
    /// Publications.
    pub(crate) published: u64,
    /// Seconds.
    pub(crate) seconds: f64,
}

impl Updated {
    /// Transactions a second.
    pub(crate) fn rate(&self) -> f64 {
        self.updates as f64 / self.seconds.max(1e-9)
    }
}

/// Changes without end: what the `n`-th transaction consists of.
trait Changes: Send {
    fn next(&mut self, n: u64, updates: &mut Vec<Update>);
}

/// Commits changes at a rate until told to stop. `committed` counts them.
fn drive(
    bed: &mut Bed,
    changes: &mut dyn Changes,
    rate: u64,
    committed: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Updated, Failure> {
    let started = Instant::now();
    let mut done = Updated::default();
    let mut published_at = started;
    let mut pending = false;
    let mut updates = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let elapsed = started.elapsed();
        let due = (elapsed.as_secs_f64() * rate as f64) as u64;
        let batch = due.saturating_sub(done.updates).min(BATCH);
        for _ in 0..batch {
            updates.clear();
            changes.next(done.updates, &mut updates);
            bed.pipeline.transact(&updates).map_err(|(_, e)| Failure::bad(e))?;
            done.updates += 1;
            // Before anybody can forward by it.
            committed.store(done.updates, Ordering::SeqCst);
            bed.engine.apply(&bed.pipeline, &updates, elapsed.as_nanos() as u64);
            pending = true;
        }
        if pending && published_at.elapsed() >= TICK {
            bed.publish();
            done.published += 1;
            pending = false;
            published_at = Instant::now();
        } else if batch == 0 {
            if !pending {
                bed.settle();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    if pending {
        bed.publish();
    }
    done.seconds = started.elapsed().as_secs_f64();
    Ok(done)
}

/// Another route each time.
struct Churn {
    routes: Vec<Arc<Entry>>,
    /// Those that are withdrawn, each by its place.
    withdrawn: Vec<usize>,
    random: Prng,
}

impl Churn {
    fn new(bed: &Bed) -> Churn {
        let routes = bed.pipeline.entries(route_table()).iter().cloned().collect();
        Churn { routes, withdrawn: Vec::new(), random: Prng::new(0x6368) }
    }
}

fn route_table() -> TableId {
    TableId(gateway::ROUTES.into())
}

impl Changes for Churn {
    fn next(&mut self, n: u64, updates: &mut Vec<Update>) {
        // Withdrawn routes come back in the order in which they went.
        if n % 8 == 7 && !self.withdrawn.is_empty() {
            let route = self.routes[self.withdrawn.remove(0)].clone();
            return updates.push(Update::Insert(route_table(), route));
        }
        let place = self.random.below(self.routes.len() as u64) as usize;
        if self.withdrawn.contains(&place) {
            let at = self.withdrawn.iter().position(|p| *p == place).unwrap_or(0);
            let route = self.routes[self.withdrawn.remove(at)].clone();
            return updates.push(Update::Insert(route_table(), route));
        }
        if n % 8 == 3 && self.withdrawn.len() < 8 {
            self.withdrawn.push(place);
            return updates.push(Update::Delete(route_table(), self.routes[place].id));
        }
        let mut route = (*self.routes[place]).clone();
        let hop = Gateway::hop_mac(self.random.below(64) as u32);
        set_last(&mut route, 48, hop.into());
        self.routes[place] = Arc::new(route);
        updates.push(Update::Modify(route_table(), self.routes[place].clone()));
    }
}

/// Sets the last argument of this width.
fn set_last(entry: &mut Entry, width: u32, value: u128) -> bool {
    let arg = entry.action.args.iter_mut().rev().find(|a| a.width() == width);
    arg.map(|a| *a = Bits::from_u128(value, width)).is_some()
}

/// Runs a lane for so long, beside updates at this rate.
pub(crate) fn beside(
    bed: &mut Bed,
    trace: &Trace,
    lane: &mut Lane,
    at: &mut usize,
    time: Duration,
    rate: u64,
    tally: &mut Tally,
) -> Result<(Sample, Updated), Failure> {
    let mut churn = Churn::new(bed);
    let (committed, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sample, updated) = std::thread::scope(|scope| {
        let control = scope.spawn(|| drive(bed, &mut churn, rate, &committed, &stop));
        let sample = measure::lane(lane, trace, at, time, tally);
        stop.store(true, Ordering::Relaxed);
        // The control thread may be waiting for the lane to let go of a version.
        while !control.is_finished() {
            lane.adopt();
            std::thread::yield_now();
        }
        (sample, control.join())
    });
    let updated = updated.map_err(|_| Failure::bad("the control thread panicked"))??;
    // What is still withdrawn comes back.
    let back: Vec<Update> = churn
        .withdrawn
        .iter()
        .map(|place| Update::Insert(route_table(), churn.routes[*place].clone()))
        .collect();
    if !back.is_empty() {
        bed.transact(&back, 0)?;
        // The lane does not run: it must let go of what it holds.
        lane.adopt();
        bed.publish();
        lane.adopt();
    }
    Ok((sample, updated))
}

/// A user, a route, and the frames between them.
struct Pair {
    user: (TableId, Arc<Entry>),
    route: Arc<Entry>,
    flow: Flow,
}

/// Public addresses that bear a number: 100.64.0.0/10.
const STAMPED: u32 = 0x6440_0000;
const STAMP_BITS: u32 = 22;
/// Kinds of Ethernet addresses that do.
const TO: u8 = 0x0a;
const FROM: u8 = 0x0b;

/// Which pair transaction `n`, from 1, changes.
fn pair_of(n: u64, pairs: usize) -> usize {
    Prng::new(n).below(pairs as u64) as usize
}

struct Stamps {
    pairs: Vec<Pair>,
}

impl Stamps {
    fn new(bed: &Bed, case: &Gateway) -> Stamps {
        let by_prefix: HashMap<(u32, u32), Arc<Entry>> = bed
            .pipeline
            .entries(route_table())
            .iter()
            .filter_map(|e| match &e.matches.last()?.pattern {
                ir::Pattern::Masked(v, m) => {
                    Some(((v.low_u128() as u32, m.low_u128().count_ones()), e.clone()))
                }
                ir::Pattern::Prefix(v, len) => Some(((v.low_u128() as u32, *len), e.clone())),
                ir::Pattern::Exact(v) => Some(((v.low_u128() as u32, 32), e.clone())),
                ir::Pattern::Range(..) => None,
            })
            .collect();
        let covers = |r: &routes::Route, a: u32| a & routes::mask(r.len) == r.prefix;
        let mut random = Prng::new(0x7374);
        let mut pairs = Vec::new();
        let people = case.customers * case.users;
        for (n, route) in
            (0..people).zip(case.routes.iter().step_by(case.routes.len().div_ceil(4 * PAIRS)))
        {
            let dst = route.address(random.next_u64());
            let best = case.routes.iter().filter(|r| covers(r, dst)).max_by_key(|r| r.len);
            let (customer, user) = (n % case.customers, n / case.customers);
            let table = TableId(Gateway::table(customer).into());
            let private = u128::from(Gateway::private(user));
            let of_user = |e: &&Arc<Entry>| {
                e.matches.iter().any(|m| match &m.pattern {
                    ir::Pattern::Exact(v) => v.width() == 32 && v.low_u128() == private,
                    ir::Pattern::Masked(v, m) => {
                        v.width() == 32 && m.low_u128() == 0xffff_ffff && v.low_u128() == private
                    }
                    ir::Pattern::Prefix(v, len) => *len == 32 && v.low_u128() == private,
                    ir::Pattern::Range(..) => false,
                })
            };
            let user_entry = bed.pipeline.entries(table).iter().find(of_user);
            let (Some(user_entry), Some(route_entry)) =
                (user_entry, by_prefix.get(&(route.prefix, route.len)))
            else {
                continue;
            };
            if best == Some(route) {
                let flow = cases::case::Case::flow(case, 0);
                pairs.push(Pair {
                    user: (table, user_entry.clone()),
                    route: route_entry.clone(),
                    flow: Gateway::upstream(customer, user, dst, flow),
                });
            }
            if pairs.len() == PAIRS {
                break;
            }
        }
        Stamps { pairs }
    }

    /// The updates that stamp a pair.
    fn stamp(&self, pair: usize, stamp: u64, updates: &mut Vec<Update>) {
        let Pair { user: (table, user), route, .. } = &self.pairs[pair];
        let mut user = (**user).clone();
        let public = STAMPED | (stamp as u32 & ((1 << STAMP_BITS) - 1));
        set_last(&mut user, 32, public.into());
        let mut route = (**route).clone();
        let macs = [cases::case::mac(FROM, stamp as u32), cases::case::mac(TO, stamp as u32)];
        let args = route.action.args.iter_mut().filter(|a| a.width() == 48);
        // The source is set first.
        args.zip(macs).for_each(|(arg, mac)| *arg = Bits::from_u128(mac.into(), 48));
        updates.push(Update::Modify(*table, Arc::new(user)));
        updates.push(Update::Modify(route_table(), Arc::new(route)));
    }
}

impl Changes for Stamps {
    fn next(&mut self, n: u64, updates: &mut Vec<Update>) {
        self.stamp(pair_of(n + 1, self.pairs.len()), n + 1, updates);
    }
}

/// What a check came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consistency {
    /// Frames checked.
    pub(crate) packets: u64,
    /// Frames that bore two numbers, a number that cannot be, or a wrong checksum.
    pub(crate) mixed: u64,
    /// Frames that were forwarded by a later version than the one the lane held: edited in place.
    pub(crate) ahead: u64,
    /// Frames that the interpreter ran.
    pub(crate) left: u64,
    /// Versions that the lane held.
    pub(crate) versions: u64,
    /// What the control thread did.
    pub(crate) updated: Updated,
    /// The first that was wrong.
    pub(crate) first: Option<String>,
}

/// Collects what comes out: frame, port, shift, or bytes.
#[derive(Default)]
struct Out {
    compiled: Vec<(usize, u32, i32, usize)>,
    interpreted: Vec<(usize, u32, Vec<u8>)>,
    left: u64,
}

impl Seen for Out {
    fn compiled(&mut self, i: usize, packet: &abi::Packet<'_>, _: &jit::Scratch) {
        let port = packet.outputs().first().map_or(0, |o| o.port);
        self.compiled.push((i, port, packet.shift, packet.len() as usize));
    }

    fn interpreted(&mut self, i: usize, run: &mut dyn FnMut(&mut dyn Sink) -> (Verdict, Ran)) {
        let mut collect = Collect::default();
        let (_, ran) = run(&mut collect);
        self.left += u64::from(ran == Ran::Interpreter);
        let output = collect.outputs.into_iter().next();
        let (port, bytes) = output.map_or((0, Vec::new()), |o| (o.port, o.bytes));
        self.interpreted.push((i, port, bytes));
    }
}

/// The number that a frame bears, if it bears one everywhere and its checksums are right.
fn number(port: u32, bytes: &[u8]) -> Result<u64, String> {
    let [ip, tcp] = [14, 34];
    if port != gateway::INTERNET || bytes.len() < 54 {
        return Err(format!("it left by port {port} with {} bytes", bytes.len()));
    }
    let word =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (to, from, src) = (word(2), word(8), word(ip + 12));
    if bytes[..2] != [2, TO] || bytes[6..8] != [2, FROM] {
        return Err("its Ethernet addresses are no version's".to_string());
    }
    if to != from || src != STAMPED | (to & ((1 << STAMP_BITS) - 1)) {
        return Err(format!("it bears {to}, {from} and {}", src & ((1 << STAMP_BITS) - 1)));
    }
    if fold(sum(&bytes[ip..tcp])) != 0xffff {
        return Err("its IPv4 checksum is wrong".to_string());
    }
    let pseudo = sum(&bytes[ip + 12..tcp]) + u32::from(bytes[ip + 9]) + (bytes.len() - tcp) as u32;
    if fold(pseudo + sum(&bytes[tcp..])) != 0xffff {
        return Err("its transport checksum is wrong".to_string());
    }
    Ok(to.into())
}

/// A first update is waited for so long: on a busy machine the control thread may come late.
const PATIENCE: Duration = Duration::from_secs(20);

/// Forwards so many frames, at least, beside transactions at this rate and looks at every one.
pub(crate) fn check(
    bed: &mut Bed,
    case: &Gateway,
    frames: u64,
    rate: u64,
) -> Result<Consistency, Failure> {
    let mut stamps = Stamps::new(bed, case);
    let pairs = stamps.pairs.len();
    if pairs == 0 {
        return Err(Failure::bad("no route of this gateway is taken by itself"));
    }
    let mut first = Vec::new();
    (0..pairs).for_each(|pair| stamps.stamp(pair, 0, &mut first));
    let base = bed.transact(&first, 0)?;
    bed.publish();
    bed.settle();
    let mut random = Prng::new(0x6672);
    let mut trace = Trace::default();
    let mut who = Vec::new();
    for _ in 0..FRAMES_MIN {
        let pair = random.below(pairs as u64) as usize;
        trace.push(gateway::ACCESS, &stamps.pairs[pair].flow.bytes());
        who.push(pair);
    }
    let mut lane = bed.lane(0, trace.len_max());
    let (committed, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut result = Consistency::default();
    let updated = std::thread::scope(|scope| {
        let control = scope.spawn(|| drive(bed, &mut stamps, rate, &committed, &stop));
        let mut held = 0;
        let mut stamp = vec![0u64; pairs];
        let mut at = 0;
        let begun = Instant::now();
        let late = |result: &Consistency| result.versions == 0 && begun.elapsed() < PATIENCE;
        while (result.packets < frames || late(&result)) && !control.is_finished() {
            let mut out = Out::default();
            lane.burst(&trace, at, 1, &mut out);
            let last = committed.load(Ordering::SeqCst);
            // What the lane held for this burst.
            let version = lane.forward().version().saturating_sub(base);
            result.versions += u64::from(version != held);
            (held + 1..=version).for_each(|n| stamp[pair_of(n, pairs)] = n);
            held = version;
            result.left += out.left;
            let compiled = out
                .compiled
                .iter()
                .map(|(i, port, shift, len)| (*i, *port, lane.bytes(*i, *shift, *len).to_vec()));
            for (i, port, bytes) in compiled.chain(out.interpreted) {
                let pair = who[(at + i) % who.len()];
                result.packets += 1;
                let told = number(port, &bytes).and_then(|n| {
                    let mine = n == 0 || pair_of(n, pairs) == pair;
                    if !mine || n < stamp[pair] || n > last {
                        return Err(format!(
                            "it bears {n}: not its own, before {} or after {last}",
                            stamp[pair]
                        ));
                    }
                    Ok(n)
                });
                match told {
                    Ok(n) => result.ahead += u64::from(n > version),
                    Err(text) => {
                        result.mixed += 1;
                        result.first.get_or_insert(text);
                    }
                }
            }
            at = (at + BURST) % trace.len();
        }
        stop.store(true, Ordering::Relaxed);
        while !control.is_finished() {
            lane.adopt();
            std::thread::yield_now();
        }
        control.join()
    });
    result.updated = updated.map_err(|_| Failure::bad("the control thread panicked"))??;
    Ok(result)
}

/// Changes one entry of the smallest table, again and again, while a lane forwards; for each, the
/// microseconds from the request until the lane forwards by it. Also the table's name.
pub(crate) fn edits(
    bed: &mut Bed,
    trace: &Trace,
    lane: &mut Lane,
    times: usize,
) -> Result<Option<(String, Vec<f64>)>, Failure> {
    let program = bed.pipeline.program().clone();
    let tables = (0..program.tables.len() as u32).map(TableId);
    let with_port = |e: &&Arc<Entry>| e.action.args.iter().any(|a| a.width() == 32);
    let smallest = tables
        .filter_map(|t| {
            let entries = bed.pipeline.entries(t);
            let entry = entries.iter().find(with_port)?.clone();
            Some((entries.len(), t, entry))
        })
        .min_by_key(|(len, ..)| *len);
    let Some((_, table, entry)) = smallest else { return Ok(None) };
    let name = program.tables[table.index()].name.clone();
    let stop = AtomicBool::new(false);
    let mut tally = Tally::new();
    let figures = std::thread::scope(|scope| {
        let control = scope.spawn(|| {
            let mut figures = Vec::new();
            let result = (0..times).try_for_each(|n| {
                // Long enough for what the engine does when it has time.
                std::thread::sleep(Duration::from_millis(20));
                bed.settle();
                let mut changed = (*entry).clone();
                if n % 2 == 0 {
                    set_last(&mut changed, 32, 4000);
                }
                let started = Instant::now();
                let version = bed.transact(&[Update::Modify(table, Arc::new(changed))], 0)?;
                bed.publish();
                while !bed.publisher.adopted_by_all(version) {
                    std::hint::spin_loop();
                }
                figures.push(started.elapsed().as_secs_f64() * 1e6);
                Ok::<(), Failure>(())
            });
            stop.store(true, Ordering::Relaxed);
            result.map(|()| figures)
        });
        let mut at = 0;
        while !stop.load(Ordering::Relaxed) && !control.is_finished() {
            measure::lane(lane, trace, &mut at, Duration::from_micros(200), &mut tally);
        }
        control.join()
    });
    let figures = figures.map_err(|_| Failure::bad("the control thread panicked"))??;
    bed.transact(&[Update::Modify(table, entry)], 0)?;
    lane.adopt();
    bed.publish();
    lane.adopt();
    Ok(Some((name, figures)))
}
