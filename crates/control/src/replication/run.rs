//! The thread that runs a member.

use super::address;
use super::copy::{Copy, Telling};
use super::engine::{Brought, Engine};
use super::links::{self, Heard, Links};
use super::{Asked, nats};
use crate::bridges::Bridges;
use crate::config::group::Settings;
use crate::group::{Counts, Shown};
use crate::sync::lock;
use datapath::worker::Injection;
use ir::program::{Action as Run, Param};
use ir::{Bits, Expr, Op};
use openflow::PortNo;
use replication::member::SWEEP_NS;
use replication::{Action, Member, Message, Role};
use service::nat::{STRIPES, Stripes};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{Receiver, channel};

/// Messages that were brought and wait to be applied, at most.
const BROUGHT: usize = 4096;
/// Trackers are looked for so often.
const LOOK_NS: u64 = 1_000_000_000;
/// When the network is told where addresses are, after a promotion.
const TELLS_NS: [u64; 4] = [0, 20_000_000, 200_000_000, 1_000_000_000];
/// A member that is asked to end hands over in so long.
const ENDS: Duration = Duration::from_millis(200);

pub(super) struct Runner {
    settings: Settings,
    bridges: Bridges,
    member: Member,
    copy: Copy,
    incarnation: u64,
    began: Instant,
    shown: Arc<Mutex<Shown>>,
    counts: Counts,
    output: Arc<Run>,
    telling: Option<Telling>,
    wants_all: VecDeque<String>,
    looked_ns: u64,
    sweep_ns: Option<u64>,
    /// Of the last promotion: when, and how often the network was told.
    promoted: Option<(u64, usize)>,
    changed_ns: u64,
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
        copy: Copy,
        shown: Arc<Mutex<Shown>>,
    ) -> Result<Runner, String> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let incarnation = u64::try_from(wall.as_nanos()).unwrap_or(1);
        let digest = copy.digest();
        let member = settings.member(digest, incarnation);
        let member = Member::new(member, 0).map_err(|error| error.to_string())?;
        let params = vec![Param { name: "to".to_owned(), width: 32 }];
        let body = vec![Op::Output { port: Expr::Param(0) }];
        Ok(Runner {
            settings,
            bridges,
            member,
            copy,
            incarnation,
            began: Instant::now(),
            shown,
            counts: Counts::default(),
            output: Arc::new(Run { name: "replication".to_owned(), params, body }),
            telling: None,
            wants_all: VecDeque::new(),
            looked_ns: 0,
            sweep_ns: None,
            promoted: None,
            changed_ns: 0,
        })
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
        let mut until = self.member.next_wake();
        if self.member.role() == Role::Active {
            let batch = u64::try_from(self.settings.batch.as_nanos()).unwrap_or(u64::MAX);
            until = until.min(self.changed_ns + batch);
        }
        if self.telling.is_some() {
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
            Heard::Beat(beat) => {
                self.counts.beats += 1;
                self.member.heard(now_ns, beat);
            }
            Heard::Closed(name) => self.member.closed(now_ns, &name),
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
                self.member.connected(connected);
            }
            Brought::Message(octets) => match Message::decode(&octets) {
                Ok(message) => {
                    self.counts.messages += 1;
                    self.counts.octets += octets.len() as u64;
                    self.counts.lag_ns = wall_ns().saturating_sub(message.sent_ns);
                    self.member.received(now_ns, message);
                }
                Err(error) => {
                    if self.counts.damaged == 0 {
                        tracing::warn!(%error, "a message of the group is refused; others are counted");
                    }
                    self.counts.damaged += 1;
                }
            },
            Brought::Stored(revision, owner) => self.member.stored(now_ns, revision, owner),
            Brought::NotWritten => self.member.not_written(),
        }
        self.act(links, engine);
    }

    /// Somebody asks for something; whether it ends.
    fn asked(&mut self, asked: Asked, links: &Links, engine: &dyn Engine) -> bool {
        let now_ns = self.now_ns();
        match asked {
            Asked::Promote(to) => {
                let _ = to.send(self.member.promote_by_command(now_ns));
            }
            Asked::Demote(to) => {
                let _ = to.send(self.member.demote_by_command(now_ns));
            }
            Asked::Drain(to) => {
                let _ = to.send(self.drain(links, engine));
            }
            Asked::End => {
                if self.member.role() == Role::Active && self.member.heir(now_ns).is_some() {
                    let _ = self.drain(links, engine);
                }
                self.member.end();
                self.act(links, engine);
                return true;
            }
        }
        self.act(links, engine);
        false
    }

    /// Frames stop, the last changes are told, and another one goes on.
    fn drain(&mut self, links: &Links, engine: &dyn Engine) -> Result<String, String> {
        let now_ns = self.now_ns();
        if self.member.role() == Role::Active && self.member.heir(now_ns).is_some() {
            self.copy.stop_frames();
            self.publish(engine);
        }
        let to = self.member.hand_over(now_ns, wall_ns());
        self.act(links, engine);
        to
    }

    /// What is due now.
    fn turn(&mut self, links: &Links, engine: &dyn Engine) {
        let now_ns = self.now_ns();
        self.member.tick(now_ns, wall_ns());
        self.act(links, engine);
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = now_ns;
            self.copy.look();
            self.member.set_digest(self.copy.digest());
        }
        if self.member.role() == Role::Active {
            self.publish(engine);
            self.tell_all(engine);
            self.copy.set_stripes(self.stripes());
            self.announce(now_ns);
        } else if self.sweep_ns.is_some_and(|at| at <= now_ns) {
            self.sweep_ns = None;
            self.copy.sweep();
        }
        self.show(now_ns);
    }

    /// Tells what has changed.
    fn publish(&mut self, engine: &dyn Engine) {
        let now_ns = self.now_ns();
        self.changed_ns = now_ns;
        let (messages, full) = self.copy.changes();
        if full {
            self.counts.full += 1;
            self.member.skip();
        }
        for parts in messages {
            if let Some(message) = self.member.changes(now_ns, wall_ns(), parts) {
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
    fn tell_all(&mut self, engine: &dyn Engine) {
        let (now_ns, wall) = (self.now_ns(), wall_ns());
        if !engine.has_room() {
            return;
        }
        if self.telling.is_none()
            && let Some(to) = self.wants_all.pop_front()
            && let Some((id, message)) = self.member.all_begins(now_ns, wall, &to)
        {
            self.send(engine, &message);
            self.telling = Some(self.copy.telling(id));
            tracing::info!(to, "all connections are told");
        }
        let Some(mut telling) = self.telling.take() else { return };
        match self.copy.tell(&mut telling) {
            Some(parts) => {
                if !parts.is_empty()
                    && let Some(message) = self.member.part_of_all(now_ns, wall, telling.id, parts)
                {
                    self.send(engine, &message);
                }
                self.telling = Some(telling);
            }
            None => {
                if let Some(message) = self.member.all_ends(now_ns, wall, telling.id) {
                    self.send(engine, &message);
                }
            }
        }
    }

    fn act(&mut self, links: &Links, engine: &dyn Engine) {
        for action in self.member.take_actions() {
            match action {
                Action::Beat(beat) => links.send(&beat),
                Action::Send(message) => self.send(engine, &message),
                Action::Promote(epoch, reason) => {
                    let begin = Instant::now();
                    self.copy.go_on(self.stripes());
                    let now_ns = self.now_ns();
                    self.promoted = Some((now_ns, 0));
                    self.announce(now_ns);
                    self.sweep_ns = None;
                    self.counts.promoted(reason.word());
                    let us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
                    tracing::warn!(epoch, %reason, us, "this member is active");
                }
                Action::Demote(epoch, reason) => {
                    self.copy.stand_still();
                    (self.telling, self.promoted) = (None, None);
                    self.wants_all.clear();
                    self.counts.demoted(reason.word());
                    tracing::warn!(epoch, %reason, "this member is a standby");
                }
                Action::BeginSync => {
                    self.sweep_ns = None;
                    self.copy.begin_sync();
                }
                Action::Apply(parts) => {
                    if !self.copy.apply(&parts) {
                        self.member.lost();
                    }
                }
                Action::EndSync => {
                    self.sweep_ns = Some(self.now_ns() + SWEEP_NS);
                    tracing::info!("this standby has all connections");
                }
                Action::TellAll(to) => {
                    if !self.wants_all.contains(&to) {
                        self.wants_all.push_back(to);
                    }
                }
                Action::Write(revision, owner) => engine.write(revision, owner),
                Action::Note(note) => tracing::warn!("{note}"),
            }
        }
    }

    /// Ports that this member may give out: all its own, or those of this start alone while it does not know all connections.
    fn stripes(&self) -> Stripes {
        stripes(self.settings.place(), self.member.has_synced(), self.incarnation)
    }

    /// Tells the network where the group's addresses are.
    fn announce(&mut self, now_ns: u64) {
        let Some((since, times)) = self.promoted else { return };
        let due = TELLS_NS.get(times).is_some_and(|after| now_ns >= since + after);
        if !due {
            return;
        }
        self.promoted = Some((since, times + 1));
        for address in &self.settings.addresses {
            let bytes = address::frame(address);
            let mut found = false;
            for bridge in self.bridges.all() {
                let ports = bridge.switch().ports();
                let Some(port) = ports.iter().find(|port| port.info.name == address.port) else {
                    continue;
                };
                found = true;
                bridge.switch().inject(Injection {
                    in_port: PortNo::CONTROLLER.0,
                    bytes: bytes.clone(),
                    action: self.output.clone(),
                    args: vec![Bits::from_u128(port.number.into(), 32)],
                });
            }
            if !found && times == 0 {
                tracing::warn!(
                    port = address.port,
                    "an address of the group is at a port that is not there"
                );
            }
        }
    }

    fn show(&self, now_ns: u64) {
        let mut shown = lock(&self.shown);
        shown.view = self.member.view(now_ns);
        shown.counts = Counts {
            unknown: self.copy.unknown,
            refused: self.copy.refused,
            no_room: self.copy.no_room,
            told: self.copy.told,
            applied: self.copy.applied,
            ..self.counts.clone()
        };
    }
}

/// Of `count` members the stripes of the one at `place`. Three of four it gives out once it knows all connections; of every fourth, a
/// quarter each time it starts: who has started anew gives out no port that an earlier self has given out.
fn stripes((place, count): (u32, u32), knows: bool, incarnation: u64) -> Stripes {
    let own: Vec<u32> = (0..STRIPES).filter(|stripe| stripe % count == place).collect();
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
mod tests {
    use super::*;

    #[test]
    fn no_stripe_is_two_members_own() {
        for count in 2..=16 {
            let sets = (64 / u64::from(count) / 4).clamp(1, 4);
            for (place, other) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))) {
                for (life, later) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
                    let of = |place, knows, life| stripes((place, count), knows, life).0;
                    let mine = of(place, true, life);
                    assert!(mine.count_ones() >= 64 / count / 2, "{count} {place} {mine:x}");
                    assert!(of(place, false, life) != 0, "{count} {place} {life}");
                    if place != other {
                        assert_eq!(mine & of(other, true, later), 0);
                    } else if life % sets != later % sets {
                        let earlier = "what an earlier self has given out";
                        assert_eq!(mine & of(place, false, later), 0, "{earlier}");
                    }
                }
            }
        }
    }
}
