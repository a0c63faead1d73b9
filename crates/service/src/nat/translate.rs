//! Bindings of the tracker's connections, and its packets by them.

use super::{
    Newcomer, Pool, PoolId, Ports, Rule, Stripes, changed, class, rewrite, rewrite_error, search,
};
use crate::conntrack::{Direction, Drop, Outcome, Role, Tracker, Tuple};
use crate::packet::Packet;
use crate::random::Random;

/// A destination is nobody's own.
fn chance(random: &mut Random) -> (&mut Random, Stripes) {
    (random, Stripes::ALL)
}

impl Tracker {
    /// From now on new connections get ports of these stripes alone.
    pub fn set_stripes(&mut self, stripes: Stripes) {
        self.stripes = stripes;
    }

    /// A reply tuple by this rule that no connection has. None if there is none left.
    ///
    /// Where there is none, a connection that is over gives way: one that has the tuple, or, where ports are a sender's own, one of
    /// the sender's that has a port.
    pub(crate) fn bind(&mut self, rule: &Rule, original: &Tuple, to: &Newcomer) -> Option<Tuple> {
        if *rule == Rule::default() {
            let mut random = self.random.clone();
            let reply = self.same_address(original, &mut random);
            self.random = random;
            return reply;
        }
        let exhausted = self.exhausted_of(rule);
        if let Some(reply) = self.bind_by(rule, original, None) {
            return Some(reply);
        }
        self.set_exhausted(rule, exhausted);
        if let Some(reply) = self.bind_by(rule, original, Some(to)) {
            if let Some((old, _)) = self.holder(&reply) {
                self.replace(old, to.now);
                self.keep_bound(rule, original, &reply);
            }
            return Some(reply);
        }
        let blocks = |id: PoolId| self.pools.get(id.0).is_some_and(|pool| pool.blocks.is_some());
        if to.syn_end.is_none() || !rule.source.is_some_and(blocks) {
            return None;
        }
        let old = self.closed_of(original, to)?;
        self.set_exhausted(rule, exhausted);
        self.replace(old, to.now);
        self.bind_by(rule, original, None)
    }

    fn bind_by(&mut self, rule: &Rule, original: &Tuple, to: Option<&Newcomer>) -> Option<Tuple> {
        // Taken out while the index is asked; nothing in between removes connections.
        let mut pools = std::mem::take(&mut self.pools);
        let mut random = self.random.clone();
        let reply = self.choose(&mut pools, &mut random, rule, original, to);
        self.random = random;
        self.pools = pools;
        reply
    }

    /// Translation to no address in particular (`nat(src)`, or all zeroes): the connection's own, with another source port where its
    /// answers would be another connection's.
    pub(crate) fn same_address(&self, original: &Tuple, random: &mut Random) -> Option<Tuple> {
        let plain = original.inverted();
        if self.holder(&plain).is_none() {
            return Some(plain);
        }
        if !original.has_ports() && !original.is_query() {
            return None;
        }
        let (first, last) = class(original, original.src_port);
        let free = |dst_port| {
            self.stripes.has(dst_port) && self.holder(&Tuple { dst_port, ..plain }).is_none()
        };
        let port = search(first, last, original.src_port, random, free);
        Some(Tuple { dst_port: port?, ..plain })
    }

    /// Connections for which a rule's pools had nothing left.
    fn exhausted_of(&self, rule: &Rule) -> [u64; 2] {
        let of = |id: Option<PoolId>| id.and_then(|id| self.pools.get(id.0));
        [of(rule.source), of(rule.destination)].map(|pool| pool.map_or(0, |pool| pool.exhausted))
    }

    fn set_exhausted(&mut self, rule: &Rule, [source, destination]: [u64; 2]) {
        for (id, exhausted) in [(rule.source, source), (rule.destination, destination)] {
            if let Some(pool) = id.and_then(|id| self.pools.get_mut(id.0)) {
                pool.exhausted = exhausted;
            }
        }
    }

    /// What a connection that gave way had bound is the newcomer's now.
    fn keep_bound(&mut self, rule: &Rule, original: &Tuple, reply: &Tuple) {
        if let Some(pool) = rule.source.and_then(|id| self.pools.get_mut(id.0)) {
            pool.claim(original.src, reply.dst, reply.dst_port);
        }
    }

    /// Whether a new connection may have this reply tuple: none has it, or one that gives way.
    fn is_free(&self, reply: &Tuple, to: Option<&Newcomer>) -> bool {
        match self.holder(reply) {
            None => true,
            Some((at, way)) => to.is_some_and(|to| self.gives_way(at, way, to)),
        }
    }

    /// A rule's pools as they are, with nothing bound, and the rule by their places.
    pub(crate) fn copies(&self, rule: &Rule) -> (Vec<Pool>, Rule) {
        let mut pools = Vec::new();
        let mut copy = |id: Option<PoolId>| {
            pools.push(self.pools.get(id?.0)?.unbound());
            Some(PoolId(pools.len() - 1))
        };
        let rule = Rule { source: copy(rule.source), destination: copy(rule.destination) };
        (pools, rule)
    }

    /// The reply tuple that a rule has for a connection, with what its pools bind noted in these.
    pub(crate) fn choose(
        &self,
        pools: &mut [Pool],
        random: &mut Random,
        rule: &Rule,
        original: &Tuple,
        to: Option<&Newcomer>,
    ) -> Option<Tuple> {
        let free = |reply: &Tuple| self.is_free(reply, to);
        let plain = original.inverted();
        let mut reply = plain;
        let mut shared = false;
        if let Some(PoolId(id)) = rule.destination {
            let pool = pools.get_mut(id)?;
            let sender = (original.src, if original.is_query() { 0 } else { original.dst_port });
            // With a source still to be chosen, any destination will do.
            let mut fits = |src: u128, port: u16| {
                let src_port = if original.has_ports() { port } else { plain.src_port };
                rule.source.is_some() || free(&Tuple { src, src_port, ..plain })
            };
            // What a socket has outside is a source, no destination.
            let has = |_| None;
            let taken = match pool.ports {
                Ports::Keep | Ports::Range(..) => {
                    let mut taken = pool.take(original, sender, chance(random), &has, &mut fits);
                    if taken.is_none() && (original.has_ports() || original.is_query()) {
                        shared = true;
                        taken = pool.take(original, sender, chance(random), &has, &mut |_, _| true);
                    }
                    taken
                }
                Ports::Blocks { .. } | Ports::Deterministic { .. } => None,
            };
            let Some((src, port)) = taken else {
                pool.exhausted += 1;
                return None;
            };
            reply.src = src;
            if original.has_ports() {
                reply.src_port = port;
            }
            if shared {
                // The client's port is what tells the two apart.
                let (first, last) = class(original, original.src_port);
                let fits =
                    |dst_port| self.stripes.has(dst_port) && free(&Tuple { dst_port, ..reply });
                let Some(port) = search(first, last, original.src_port, random, fits) else {
                    pool.exhausted += 1;
                    return None;
                };
                reply.dst_port = port;
            }
        }
        if let Some(PoolId(id)) = rule.source {
            let pool = pools.get_mut(id)?;
            let mut fits = |dst: u128, port: u16| free(&Tuple { dst, dst_port: port, ..reply });
            let sender = (original.src, original.src_port);
            let has = |outside| self.mappings.get(self.socket(original, outside));
            let taken = pool.take(original, sender, (random, self.stripes), &has, &mut fits);
            let Some((dst, port)) = taken else {
                pool.exhausted += 1;
                return None;
            };
            (reply.dst, reply.dst_port) = (dst, port);
        }
        // Without a rule that applies, two translated connections could still meet.
        (reply == plain || rule.source.is_some() || free(&reply)).then_some(reply)
    }

    /// The name of an inside socket at an outside address, for [`Mappings`].
    fn socket(&self, original: &Tuple, outside: u128) -> u64 {
        let socket = Tuple { dst: outside, dst_port: 0, role: Role::Any, ..*original };
        crate::hash::fold(self.hasher.hash(&socket), 0x2d35_8dcc_aa6c_78a5)
    }

    /// Notes what the source of a connection that is now kept was translated to.
    pub(crate) fn map_socket(&mut self, original: &Tuple, reply: &Tuple) {
        let outside = (reply.dst, reply.v6);
        self.mappings.note(self.socket(original, reply.dst), outside, reply.dst_port);
    }

    /// Such a connection is gone.
    pub(crate) fn unmap_socket(&mut self, original: &Tuple, reply: &Tuple) {
        let outside = (reply.dst, reply.v6);
        self.mappings.forget(self.socket(original, reply.dst), outside, reply.dst_port);
    }

    /// What a connection's source was translated to is free again.
    pub(crate) fn release(&mut self, original: &Tuple, reply: &Tuple) {
        for pool in &mut self.pools {
            if let Some(blocks) = &mut pool.blocks
                && pool.v6 == original.v6
            {
                blocks.give(original.src, reply.dst, reply.dst_port);
            }
        }
    }

    /// Changes a packet of a connection as its direction asks.
    pub(crate) fn translate(
        &mut self,
        (original, reply): (&Tuple, &Tuple),
        direction: Direction,
        packet: &mut Packet<'_>,
        outcome: &mut Outcome,
    ) {
        let (from, to) = match direction {
            Direction::Original => (original, reply.inverted()),
            Direction::Reply => (reply, original.inverted()),
        };
        if *from == to {
            return;
        }
        match rewrite(packet, from, &to) {
            Ok(()) => outcome.state |= changed(from, &to),
            Err(drop) => {
                outcome.drop = Some(drop);
                self.counters.nat_impossible += 1;
            }
        }
    }

    /// Changes an error that goes in `direction`, outside and inside.
    pub(crate) fn translate_error(
        &mut self,
        (original, reply): (&Tuple, &Tuple),
        direction: Direction,
        packet: &mut Packet<'_>,
        outcome: &mut Outcome,
    ) {
        let (from, to) = match direction {
            Direction::Original => (original, reply.inverted()),
            Direction::Reply => (reply, original.inverted()),
        };
        if *from == to {
            return;
        }
        // What it quotes went the other way, and left as the inverse of `from`; its sender knows it as
        // the inverse of `to`.
        match rewrite_error(packet, from, &to) {
            Some(()) => outcome.state |= changed(from, &to),
            None => {
                outcome.drop = Some(Drop::NatImpossible);
                self.counters.nat_impossible += 1;
            }
        }
    }
}
