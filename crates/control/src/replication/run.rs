//! The thread that runs a member.

use super::Asked;
#[cfg(not(feature = "replication-nats"))]
use super::absent as nats;
use super::copy::Copy;
use super::engine::{Brought, Engine};
use super::links::{self, Heard, Links};
#[cfg(feature = "replication-nats")]
use super::nats;
use super::notify::Notify;
use super::share::Share;
use crate::bridges::Bridges;
use crate::config::group::Settings;
use crate::group::{Counts, Shown};
use crate::sync::lock;
use replication::member::SWEEP_NS;
use replication::pool::Pool;
use replication::{Action, Body, Heartbeat, Member, Message, Role, Shares};
use service::nat::{STRIPES, Stripes};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{Receiver, channel};

/// Messages that were brought and wait to be applied, at most.
const BROUGHT: usize = 4096;
/// What the engine refuses is shown for so long after it was told last.
const FAULT_NS: u64 = 10_000_000_000;
/// Trackers are looked for so often.
const LOOK_NS: u64 = 1_000_000_000;
/// What people are shown is renewed so often, and when somebody looks: who looks at a thread that stands still sees what is no older.
const SHOW_NS: u64 = 1_000_000_000;
/// Stripes of ports that are a pool, where there is one: those behind [`OWN`].
const POOL: u64 = !0 << OWN;
/// Stripes that are divided among the members where there is a pool.
const OWN: u32 = STRIPES / 2;
/// Stripes of the pool that a member claims at a time: some 4,000 ports of each address.
const CLAIM: u32 = 4;
/// A member that is asked to end hands over in so long.
const ENDS: Duration = Duration::from_millis(200);

pub(super) struct Runner {
    settings: Settings,
    bridges: Bridges,
    /// The state machines, and what belongs to each, in one order.
    members: Shares,
    shares: Vec<Share>,
    /// Their pools of ports; none where all ports are divided for good.
    pools: Vec<Pool>,
    incarnation: u64,
    began: Instant,
    shown: Arc<Mutex<Shown>>,
    counts: Counts,
    looked_ns: u64,
    showed_ns: u64,
    changed_ns: u64,
    notify: Option<Notify>,
    /// What is wrong with the engine, and when that was told.
    fault: Option<(String, u64)>,
}

/// What wakes it.
enum Woken {
    Time,
    Heard(Heard),
    Brought(Brought),
    Asked(Option<Asked>),
}

impl Runner {
    pub(super) fn new(
        settings: Settings,
        bridges: Bridges,
        shares: Vec<Share>,
        shown: Arc<Mutex<Shown>>,
    ) -> Result<Runner, String> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let incarnation = u64::try_from(wall.as_nanos()).unwrap_or(1);
        let members = settings.members(0, incarnation).map_err(|error| error.to_string())?;
        let notify = settings.notify.as_ref().map(|program| {
            let started = Notify::start(program, &settings.group, &settings.member);
            started.map_err(|error| {
                format!("notify={}: there is no thread: {error}", program.display())
            })
        });
        let notify = notify.transpose()?;
        for member in members.all() {
            if let Some(notify) = &notify {
                notify.tell(false, 0, "start", &member.config().share);
            }
        }
        let pools = match settings.pool {
            true => shares.iter().map(|_| Pool::new(&settings.member, POOL)).collect(),
            false => Vec::new(),
        };
        let mut runner = Runner {
            pools,
            settings,
            bridges,
            members,
            shares,
            incarnation,
            began: Instant::now(),
            shown,
            counts: Counts::default(),
            looked_ns: 0,
            showed_ns: 0,
            changed_ns: 0,
            notify,
            fault: None,
        };
        runner.look();
        Ok(runner)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Runs until somebody asks for its end, or nobody is there who could.
    pub(super) fn run(mut self, bound: links::Bound, mut asked: Receiver<Asked>) {
        // Ahead of others on a loaded machine; where that is not allowed, as others.
        let _ = rustix::process::setpriority_process(None, -15);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "members of the group are not heard"),
        };
        runtime.block_on(async {
            let (to, mut heard) = channel(BROUGHT);
            let links = match links::start(bound, &self.settings, &to) {
                Ok(links) => links,
                Err(error) => return tracing::error!(%error, "members of the group are not heard"),
            };
            let (to, mut brought) = channel(BROUGHT);
            let engine = match nats::start(&self.settings, to).await {
                Ok(engine) => engine,
                Err(error) => return tracing::error!(error, "the group has no engine"),
            };
            loop {
                let woken = self.sleep(&mut heard, &mut brought, &mut asked).await;
                let mut ends = self.take(woken, &links, &engine);
                // All that has come is seen before silence is judged.
                while let Ok(heard) = heard.try_recv() {
                    self.hear(heard);
                }
                for _ in 0..64 {
                    let Ok(brought) = brought.try_recv() else { break };
                    self.bring(brought, &links, &engine);
                }
                while let Ok(question) = asked.try_recv() {
                    ends |= self.take(Woken::Asked(Some(question)), &links, &engine);
                }
                self.turn(&links, &engine);
                if ends {
                    tokio::time::sleep(ENDS).await;
                    return;
                }
            }
        });
        // Tasks that wait for nobody any more.
        runtime.shutdown_timeout(Duration::from_millis(100));
    }

    async fn sleep(
        &mut self,
        heard: &mut Receiver<Heard>,
        brought: &mut Receiver<Brought>,
        asked: &mut Receiver<Asked>,
    ) -> Woken {
        let now_ns = self.now_ns();
        let mut until = self.members.next_wake();
        if self.members.all().iter().any(is_active) {
            let batch = u64::try_from(self.settings.batch.as_nanos()).unwrap_or(u64::MAX);
            until = until.min(self.changed_ns + batch);
        }
        if self.shares.iter().any(|share| share.telling.is_some()) {
            until = now_ns;
        }
        let span = Duration::from_nanos(until.saturating_sub(now_ns));
        tokio::select! {
            biased;
            Some(heard) = heard.recv() => Woken::Heard(heard),
            question = asked.recv() => Woken::Asked(question),
            Some(brought) = brought.recv() => Woken::Brought(brought),
            () = tokio::time::sleep(span) => Woken::Time,
        }
    }

    /// Takes what has woken it; whether it ends.
    fn take(&mut self, woken: Woken, links: &Links, engine: &dyn Engine) -> bool {
        match woken {
            Woken::Time => {}
            Woken::Heard(heard) => self.hear(heard),
            Woken::Brought(brought) => self.bring(brought, links, engine),
            Woken::Asked(Some(asked)) => return self.asked(asked, links, engine),
            Woken::Asked(None) => return true,
        }
        false
    }

    fn hear(&mut self, heard: Heard) {
        let now_ns = self.now_ns();
        match heard {
            Heard::Beats(beats) => {
                self.counts.beats += 1;
                beats.into_iter().for_each(|beat| self.members.heard(now_ns, beat));
            }
            Heard::Closed(name) => self.members.closed(now_ns, &name),
        }
    }

    fn bring(&mut self, brought: Brought, links: &Links, engine: &dyn Engine) {
        let now_ns = self.now_ns();
        match brought {
            Brought::Connected(connected) => {
                match connected {
                    true => tracing::info!("the engine of the group is there"),
                    false => tracing::warn!(
                        "the engine of the group is away: connections are not protected"
                    ),
                }
                if connected {
                    self.fault = None;
                }
                self.members.connected(connected);
            }
            Brought::Fault(why) => {
                self.counts.faults += 1;
                self.fault = Some((why, now_ns));
            }
            Brought::Message(octets) => match Message::decode(&octets) {
                Ok(message) => {
                    self.counts.messages += 1;
                    self.counts.octets += octets.len() as u64;
                    self.counts.lag_ns = wall_ns().saturating_sub(message.sent_ns);
                    let (share, epoch) = (message.share.clone(), message.epoch);
                    let (asks, sent_ns) = (message.body == Body::AskForAll, message.sent_ns);
                    if let Some(at) = self.members.find(&share)
                        && !asks
                        && epoch >= self.members.all()[at].epoch()
                    {
                        self.shares[at].told_ns = sent_ns;
                    }
                    if self.members.received(now_ns, message).is_none() {
                        if self.counts.other_share == 0 {
                            tracing::warn!(
                                share,
                                "another member has a share that this one has not"
                            );
                        }
                        self.counts.other_share += 1;
                    }
                }
                Err(error) => {
                    if self.counts.damaged == 0 {
                        tracing::warn!(%error, "a message of the group is refused; others are counted");
                    }
                    self.counts.damaged += 1;
                }
            },
            Brought::Stored(share, revision, owner) => {
                self.members.stored(now_ns, &share, revision, owner);
            }
            Brought::Claims(share, revision, claims) => {
                if let Some(at) = self.members.find(&share)
                    && let Some(pool) = self.pools.get_mut(at)
                {
                    pool.stored(revision, claims);
                }
            }
            Brought::NotClaimed(share) => {
                let at = share.map(|share| self.members.find(&share));
                let its = |(n, _): &(usize, &mut Pool)| at.is_none_or(|at| at == Some(*n));
                let refused = self.pools.iter_mut().enumerate().filter(its);
                self.counts.claims_refused +=
                    refused.map(|(_, pool)| u64::from(pool.not_written())).sum::<u64>();
            }
            Brought::NotWritten(share) => {
                let its = |member: &&mut Member| {
                    share.as_ref().is_none_or(|share| *share == member.config().share)
                };
                self.members.all_mut().iter_mut().filter(its).for_each(Member::not_written);
            }
        }
        self.act(links, engine);
    }

    /// Somebody asks for something; whether it ends.
    fn asked(&mut self, asked: Asked, links: &Links, engine: &dyn Engine) -> bool {
        let now_ns = self.now_ns();
        // Who has asked is answered when it is done, and shown.
        match asked {
            Asked::Promote(share, to) => {
                let done = self.each(share, |member| member.promote_by_command(now_ns));
                self.done(links, engine);
                let _ = to.send(done);
            }
            Asked::Demote(share, to) => {
                let done = self.each(share, |member| {
                    member.demote_by_command(now_ns);
                    Ok(())
                });
                self.done(links, engine);
                let _ = to.send(done);
            }
            Asked::Drain(share, to) => {
                let done = self.drain(share.as_deref(), engine);
                self.done(links, engine);
                let _ = to.send(done);
            }
            Asked::Rebalance(to) => {
                let done = self.rebalance();
                self.done(links, engine);
                let _ = to.send(done);
            }
            Asked::Forget(name, to) => {
                let done = self.forget(&name, engine);
                self.done(links, engine);
                let _ = to.send(done);
            }
            Asked::Show(to) => {
                self.show(now_ns);
                let _ = to.send(());
            }
            Asked::End => {
                for at in 0..self.shares.len() {
                    let member = &self.members.all()[at];
                    if is_active(member) && member.heir(now_ns).is_some() {
                        let _ = self.hand_over(at, engine);
                    }
                }
                self.members.all_mut().iter_mut().for_each(Member::end);
                // Before the others hear of it.
                self.shares.iter().for_each(|share| share.copy.open_for(Duration::ZERO));
                self.act(links, engine);
                return true;
            }
        }
        false
    }

    fn done(&mut self, links: &Links, engine: &dyn Engine) {
        self.act(links, engine);
        self.show(self.now_ns());
    }

    /// Shares that were drained are given back.
    fn rebalance(&mut self) -> Result<(), String> {
        if self.settings.rebalance.is_none() {
            return Err(
                "this group is not rebalanced: it was started without rebalance=TIME".to_owned()
            );
        }
        let mut members = self.members.all_mut().iter_mut();
        match members.any(|member| member.is_drained()) {
            false => Err("this member was not drained".to_owned()),
            true => {
                self.members.all_mut().iter_mut().for_each(|member| member.set_drained(false));
                Ok(())
            }
        }
    }

    /// A member is gone for good: what it has claimed is free.
    fn forget(&mut self, name: &str, engine: &dyn Engine) -> Result<(), String> {
        if self.pools.is_empty() {
            return Err(
                "this group has no pool of ports: it was started without stripes=pool".to_owned()
            );
        }
        let now_ns = self.now_ns();
        let views = self.members.all().iter().map(|member| member.view(now_ns));
        let peers: Vec<_> =
            views.flat_map(|view| view.peers).filter(|peer| peer.name == name).collect();
        if peers.is_empty() {
            return Err(format!("{name} is no other member of this group"));
        }
        if peers.iter().any(|peer| peer.alive) {
            return Err(format!("{name} lives: it gives out ports of what it has claimed"));
        }
        let mut forgotten = false;
        for (pool, member) in self.pools.iter_mut().zip(self.members.all()) {
            if let Some((revision, claims)) = pool.forget(name) {
                engine.claim(&member.config().share, revision, claims);
                forgotten = true;
            }
        }
        match forgotten {
            true => Ok(()),
            false => Err(format!("{name} has claimed nothing, as far as is known here")),
        }
    }

    /// Claims stripes of the pool where ports run short.
    fn claim(&mut self, engine: &dyn Engine) {
        for (at, pool) in self.pools.iter_mut().enumerate() {
            let member = &self.members.all()[at];
            if !is_active(member) || !member.has_synced() || pool.free() == 0 {
                continue;
            }
            if self.shares[at].copy.is_scarce()
                && let Some((revision, claims)) = pool.claim(CLAIM)
            {
                self.counts.claims += 1;
                tracing::info!(share = member.config().share, "ports run short: more are claimed");
                engine.claim(&member.config().share, revision, claims);
            }
        }
    }

    /// Does something with a share, or with all of them: fails if that fails for all.
    fn each(
        &mut self,
        share: Option<String>,
        mut act: impl FnMut(&mut Member) -> Result<(), String>,
    ) -> Result<(), String> {
        if let Some(share) = share {
            let at = self.find(&share)?;
            return act(&mut self.members.all_mut()[at]);
        }
        let done: Vec<_> = self.members.all_mut().iter_mut().map(&mut act).collect();
        match done.iter().any(Result::is_ok) {
            true => Ok(()),
            false => done.into_iter().next().unwrap_or(Ok(())),
        }
    }

    fn find(&self, share: &str) -> Result<usize, String> {
        self.members.find(share).ok_or_else(|| {
            let mut names = self.members.all().iter().map(|member| &*member.config().share);
            match names.next() {
                Some("") | None => "this group has no shares".to_owned(),
                Some(first) => {
                    let names: Vec<&str> = [first].into_iter().chain(names).collect();
                    format!("there is no share {share}; there are {}", names.join(", "))
                }
            }
        })
    }

    /// Hands a share over, or all of them, and gets none of them back until it is told to.
    fn drain(&mut self, share: Option<&str>, engine: &dyn Engine) -> Result<String, String> {
        let which = match share {
            Some(share) => vec![self.find(share)?],
            None => (0..self.shares.len()).collect(),
        };
        // Where nothing is given back by itself, nothing has to be kept from coming back.
        let stays = self.settings.rebalance.is_some();
        let before: Vec<bool> = self.members.all().iter().map(Member::is_drained).collect();
        let mut done = Vec::new();
        for at in which {
            if stays {
                self.members.all_mut()[at].set_drained(true);
            }
            done.push(self.hand_over(at, engine));
        }
        if !done.iter().any(Result::is_ok) {
            // What has failed has changed nothing.
            for (member, was) in self.members.all_mut().iter_mut().zip(before) {
                member.set_drained(was);
            }
        }
        let mut to: Vec<String> = done.iter().filter_map(|done| done.clone().ok()).collect();
        to.sort();
        to.dedup();
        match to.is_empty() {
            true => done.into_iter().next().unwrap_or_else(|| Err("there is no share".to_owned())),
            false => Ok(to.join(", ")),
        }
    }

    /// Packets stop, the last changes are told, and another one goes on.
    fn hand_over(&mut self, at: usize, engine: &dyn Engine) -> Result<String, String> {
        let now_ns = self.now_ns();
        let member = &self.members.all()[at];
        if is_active(member) && member.heir(now_ns).is_some() {
            self.shares[at].copy.stop_packets();
            self.publish(at, engine);
        }
        self.members.all_mut()[at].hand_over(now_ns, wall_ns())
    }

    /// What is due now.
    fn turn(&mut self, links: &Links, engine: &dyn Engine) {
        let now_ns = self.now_ns();
        self.members.tick(now_ns, wall_ns());
        if let Some(at) = self.members.gives_back(now_ns)
            && let Ok(to) = self.hand_over(at, engine)
        {
            let share = &self.members.all()[at].config().share;
            tracing::info!(share, to, "it goes to the member that it prefers");
        }
        self.act(links, engine);
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = now_ns;
            self.look();
            self.claim(engine);
        }
        for at in 0..self.shares.len() {
            if is_active(&self.members.all()[at]) {
                self.shares[at].copy.open_for(self.opens_for(at));
                self.publish(at, engine);
                self.tell_all(at, engine);
                let stripes = self.stripes(at);
                self.shares[at].copy.set_stripes(stripes);
                self.shares[at].announce(now_ns, &self.bridges);
            } else if self.shares[at].sweep_ns.is_some_and(|when| when <= now_ns) {
                self.shares[at].sweep_ns = None;
                self.shares[at].copy.sweep();
            }
        }
        self.changed_ns = now_ns;
        if now_ns.saturating_sub(self.showed_ns) >= SHOW_NS {
            self.show(now_ns);
        }
    }

    /// Trackers that have come and gone; what must be the same everywhere.
    fn look(&mut self) {
        for (share, member) in self.shares.iter_mut().zip(self.members.all_mut()) {
            share.copy.look();
            // Members that divide their ports in another way must not go on for each other.
            member.set_digest(share.copy.digest() ^ u64::from(self.settings.pool));
            share.miss(&member.config().share);
        }
    }

    /// Tells what has changed.
    fn publish(&mut self, at: usize, engine: &dyn Engine) {
        let now_ns = self.now_ns();
        let (messages, full) = self.shares[at].copy.changes();
        if full {
            self.counts.full += 1;
            self.members.all_mut()[at].skip();
        }
        for parts in messages {
            if let Some(message) = self.members.all_mut()[at].changes(now_ns, wall_ns(), parts) {
                self.send(engine, &message);
            }
        }
    }

    fn send(&mut self, engine: &dyn Engine, message: &Message) {
        let octets = message.encode();
        self.counts.sent_octets += octets.len() as u64;
        match engine.publish(octets) {
            true => self.counts.sent += 1,
            false => self.counts.unsent += 1,
        }
    }

    /// Goes on telling all to who has asked, a slice at a time.
    fn tell_all(&mut self, at: usize, engine: &dyn Engine) {
        let (now_ns, wall) = (self.now_ns(), wall_ns());
        if !engine.has_room() {
            return;
        }
        if self.shares[at].telling.is_none()
            && let Some(to) = self.shares[at].wants_all.pop_front()
            && let Some((id, message)) = self.members.all_mut()[at].all_begins(now_ns, wall, &to)
        {
            self.send(engine, &message);
            self.shares[at].telling = Some(self.shares[at].copy.telling(id));
            tracing::info!(share = message.share, to, "all connections are told");
        }
        let Some(mut telling) = self.shares[at].telling.take() else { return };
        let member = &mut self.members.all_mut()[at];
        match self.shares[at].copy.tell(&mut telling) {
            Some(parts) => {
                let id = telling.id;
                self.shares[at].telling = Some(telling);
                if !parts.is_empty()
                    && let Some(message) = member.part_of_all(now_ns, wall, id, parts)
                {
                    self.send(engine, &message);
                }
            }
            None => {
                if let Some(message) = member.all_ends(now_ns, wall, telling.id) {
                    self.send(engine, &message);
                }
            }
        }
    }

    /// Does what the state machines say.
    fn act(&mut self, links: &Links, engine: &dyn Engine) {
        let mut beats = Vec::new();
        for at in 0..self.shares.len() {
            for action in self.members.all_mut()[at].take_actions() {
                self.do_one(at, action, &mut beats, engine);
            }
        }
        links.send(&beats);
    }

    fn do_one(
        &mut self,
        at: usize,
        action: Action,
        beats: &mut Vec<Heartbeat>,
        engine: &dyn Engine,
    ) {
        let name = self.members.all()[at].config().share.clone();
        match action {
            Action::Beat(beat) => beats.push(beat),
            Action::Send(message) => self.send(engine, &message),
            Action::Promote(epoch, reason) => {
                let begin = Instant::now();
                let stripes = self.stripes(at);
                let opens = self.opens_for(at);
                self.shares[at].copy.go_on(stripes, opens);
                let now_ns = self.now_ns();
                self.shares[at].promoted(now_ns, &self.bridges);
                self.counts.promoted(reason.word());
                let us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
                // What the other one has learnt since is lost, if it tells no more.
                let told = Some(self.shares[at].told_ns).filter(|told| *told > 0);
                let told_us_ago = told.map(|told| wall_ns().saturating_sub(told) / 1000);
                tracing::warn!(share = name, epoch, %reason, us, told_us_ago, "this member is active");
                self.notify(true, epoch, reason.word(), &name);
                self.showed_ns = 0;
            }
            Action::Announce => {
                let now_ns = self.now_ns();
                self.shares[at].told_anew(now_ns, &self.bridges);
            }
            Action::Demote(epoch, reason) => {
                self.shares[at].demoted();
                self.counts.demoted(reason.word());
                tracing::warn!(share = name, epoch, %reason, "this member is a standby");
                self.notify(false, epoch, reason.word(), &name);
                self.showed_ns = 0;
            }
            Action::BeginSync => {
                self.shares[at].sweep_ns = None;
                self.shares[at].copy.begin_sync();
            }
            Action::Apply(parts) => {
                if !self.shares[at].copy.apply(&parts) {
                    self.members.all_mut()[at].lost();
                }
            }
            Action::EndSync => {
                self.shares[at].sweep_ns = Some(self.now_ns() + SWEEP_NS);
                tracing::info!(share = name, "this standby has all connections");
            }
            Action::TellAll(to) => {
                let wants = &mut self.shares[at].wants_all;
                if !wants.contains(&to) {
                    wants.push_back(to);
                }
            }
            Action::Write(revision, owner) => engine.write(&name, revision, owner),
            Action::Note(note) => tracing::warn!(share = name, "{note}"),
        }
    }

    fn opens_for(&self, at: usize) -> Duration {
        Duration::from_nanos(self.members.all()[at].opens_for(self.now_ns()))
    }

    /// Ports that this member may give out: all its own, or those of this start alone while it does not know all connections.
    fn stripes(&self, at: usize) -> Stripes {
        let knows = self.members.all()[at].has_synced();
        let divided = if self.settings.pool { OWN } else { STRIPES };
        let own = stripes(self.settings.place(), divided, knows, self.incarnation);
        Stripes(own.0 | self.pools.get(at).map_or(0, |pool| pool.mine(knows)))
    }

    /// The same, for people.
    fn shown_stripes(&self, at: usize) -> Option<crate::group::Stripes> {
        let pool = self.pools.get(at)?;
        let (usable, claimed, free) = (self.stripes(at).0, pool.mine(true), pool.free());
        let [usable, claimed, free] = [usable, claimed, free].map(u64::count_ones);
        Some(crate::group::Stripes { usable, claimed, free })
    }

    fn notify(&self, active: bool, epoch: u64, reason: &str, share: &str) {
        if let Some(notify) = &self.notify {
            notify.tell(active, epoch, reason, share);
        }
    }

    fn show(&mut self, now_ns: u64) {
        self.showed_ns = now_ns;
        let sum = |of: fn(&Copy) -> u64| self.shares.iter().map(|share| of(&share.copy)).sum();
        let stripes = (0..self.shares.len()).map(|at| self.shown_stripes(at)).collect();
        let mut shown = lock(&self.shown);
        shown.stripes = stripes;
        shown.views = self.members.all().iter().map(|member| member.view(now_ns)).collect();
        shown.drained = self.members.all().iter().map(Member::is_drained).collect();
        shown.missing = self.shares.iter().map(|share| share.missing.clone()).collect();
        // A server that goes on refusing says so again and again.
        let connected = shown.views.iter().any(|view| view.store.connected);
        let lasts = |at: u64| !connected || now_ns - at < FAULT_NS;
        let fault = self.fault.as_ref().filter(|(_, at)| lasts(*at));
        let fault = fault.map(|(why, _)| why.clone());
        shown.counts = Counts {
            fault,
            notified: self.notify.as_ref().map(|notify| notify.runs.both()),
            unknown: sum(|copy| copy.unknown),
            refused: sum(|copy| copy.refused),
            no_room: sum(|copy| copy.no_room),
            fenced: sum(Copy::fenced),
            told: sum(|copy| copy.told),
            applied: sum(|copy| copy.applied),
            ..self.counts.clone()
        };
    }
}

fn is_active(member: &Member) -> bool {
    member.role() == Role::Active
}

/// Of so many stripes that are divided among `count` members, those of the one at `place`. Three of four it gives out once it knows all connections; of every fourth, a
/// quarter each time it starts: who has started anew gives out no port that an earlier self has given out.
fn stripes((place, count): (u32, u32), divided: u32, knows: bool, incarnation: u64) -> Stripes {
    let own: Vec<u32> = (0..divided).filter(|stripe| stripe % count == place).collect();
    // Of every fourth, by start: as many sets as there are stripes for, four at most.
    let sets = (own.len() as u64 / 4).clamp(1, 4);
    let may = |n: u64| if n % 4 == 3 { n / 4 % sets == incarnation % sets } else { knows };
    let mine = own.into_iter().zip(0_u64..).filter(|(_, n)| may(*n));
    Stripes(mine.fold(0, |bits, (stripe, _)| bits | 1 << stripe))
}

fn wall_ns() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
