//! Requests that change something, applied to the stores: one of them, or those of a bundle, happen whole or not at all.
//!
//! What a request asks for is told apart once, here ([`Change::of`], [`Transaction::apply`]), whether it comes alone or
//! in a bundle. What each kind does is in a file of its own, as methods of the transaction.
//!
//! A request alone: what is checked is checked, the switch takes its updates, then the stores change. In a bundle
//! ([`Transaction::begin`]) the stores change with each request, so that a later one sees what an earlier one did, and
//! the switch takes all updates at the end ([`Transaction::end`]). If one is refused, the stores' journals undo what
//! was done to them, and nothing was done to the switch.

use crate::alike::SharedInstructions;
use crate::emergency::Emergency;
use crate::env::Env;
use crate::flow::FlowKey;
use crate::injections::Injections;
use crate::monitor::Requester;
use crate::outbox::Outbox;
use crate::refusal::Refusal;
use crate::stage::Stage;
use crate::stores::Stores;
use openflow::{FlowMod, FlowModFlags, GroupMod, Message, MeterMod, PacketOut, PortMod};

/// A request under way, or those of a bundle.
pub(crate) struct Transaction<'a> {
    pub(crate) env: &'a Env,
    pub(crate) stores: &'a mut Stores,
    pub(crate) emergency: &'a mut Emergency,
    pub(crate) injections: &'a mut Injections,
    pub(crate) stage: &'a mut Stage,
    pub(crate) outbox: &'a mut Outbox,
    /// Whose it is; none if the switch's own.
    pub(crate) by: Option<Requester>,
}

/// A request that changes something, or sends a packet: what a bundle may hold.
pub(crate) enum Change {
    Flow(FlowMod),
    /// Of 1.0's emergency entries, which no table has.
    Emergency(FlowMod),
    Group(GroupMod),
    Meter(MeterMod),
    Port(PortMod),
    Packet(PacketOut),
}

impl Change {
    /// What a message asks for; the message itself if it is none of these.
    #[allow(clippy::result_large_err)] // a message is what it was
    #[inline]
    pub(crate) fn of(message: Message) -> Result<Change, Message> {
        Ok(match message {
            Message::FlowMod(request) if request.flags.contains(FlowModFlags::EMERG) => {
                Change::Emergency(request)
            }
            Message::FlowMod(request) => Change::Flow(request),
            Message::GroupMod(request) => Change::Group(request),
            Message::MeterMod(request) => Change::Meter(request),
            Message::PortMod(request) => Change::Port(request),
            Message::PacketOut(request) => Change::Packet(request),
            other => return Err(other),
        })
    }
}

impl Transaction<'_> {
    /// Does what a request asks for, or nothing of it.
    #[inline]
    pub(crate) fn apply(&mut self, mut change: Change) -> Result<(), Refusal> {
        change.check_options(&self.stores.tunnels)?;
        self.open_rooms(&change);
        let done = match change {
            Change::Flow(request) => self.flow_mod(request),
            Change::Emergency(request) => {
                let rules = self.stores.rules(self.env);
                self.emergency.change(self.env, &rules, request)
            }
            Change::Group(request) => self.group_mod(request),
            Change::Meter(request) => self.meter_mod(request),
            Change::Port(request) => self.port_mod(request),
            Change::Packet(request) => self.packet_out(request),
        };
        self.settle(done)
    }

    /// A request about entries is done, or nothing of it is; in a bundle, that is seen at its end.
    pub(crate) fn settle<T>(&mut self, done: Result<T, Refusal>) -> Result<T, Refusal> {
        if !self.stage.is_staging() {
            match &done {
                Ok(_) => self.stores.conjunctions.keep(),
                Err(_) => self.stores.conjunctions.undo(),
            }
        }
        done
    }

    /// A bundle begins.
    pub(crate) fn begin(&mut self) {
        self.stage.begin();
        self.stores.begin();
    }

    /// A bundle of good requests ends: the switch takes it. On an error nothing happened, and the bundle is still to be
    /// [taken back](Self::take_back).
    pub(crate) fn end(&mut self) -> Result<(), Refusal> {
        let switch = &self.env.switch;
        let (spent, deferred) = self.stage.finish(switch)?;
        self.stores.keep();
        deferred.resets.into_iter().for_each(|id| switch.reset_counter(id));
        self.tell_removed(deferred.removed);
        spent.retire(switch);
        self.delete_orphans();
        deferred.packets.into_iter().for_each(|packet| switch.inject(packet));
        Ok(())
    }

    /// Nothing of a bundle happens. `events`: how many there were to be told when it began.
    pub(crate) fn take_back(&mut self, events: usize) {
        let switch = &self.env.switch;
        let deferred = self.stage.abort(switch);
        self.stores.undo();
        self.outbox.truncate(events);
        for (port, config, ours) in deferred.ports.into_iter().rev() {
            self.stores.ports.set(port, ours);
            if let Err(error) = switch.configure_port(port, config) {
                tracing::error!(port, %error, "what a bundle set is not set back");
            }
        }
    }

    /// Sets an entry's counter to zero; in a bundle, once that is done.
    pub(crate) fn reset_counter(&mut self, id: u32) {
        match self.stage.deferred() {
            Some(deferred) => deferred.resets.push(id),
            None => self.env.switch.reset_counter(id),
        }
    }

    /// Tells that an entry came, or was changed and did this before.
    pub(crate) fn tell_change(&mut self, key: FlowKey, before: Option<SharedInstructions>) {
        if !self.outbox.watched {
            return;
        }
        if let Some(flow) = self.stores.flows.get(key) {
            let before = before.map(|before| before.to_owned());
            self.outbox.changed(self.by, key, flow, before);
        }
    }
}
