//! Packets from controllers: packet-out (1.3.5 §7.3.7; 1.0.2 §5.3.6).
//!
//! The packet enters the switch behind all that was committed before it, and its actions run on it
//! as an action of their own.

use crate::flow::lists;
use crate::injections::is_found;
use crate::refusal::Refusal;
use crate::transaction::Transaction;
use of_lower::rest::{Left, Part, Rest};
use of_lower::{Call, PuntArgs, lower_packet_out, lower_resumed};
use openflow::{FieldId, Instruction, PacketIn, PacketOut, PortNo, Resume, Version};
use std::sync::Arc;
use switch::Injection;

/// Bytes of the least and the greatest frame.
const FRAME: std::ops::RangeInclusive<usize> = 14..=65_535;

impl Transaction<'_> {
    /// Executes a packet-out.
    pub(crate) fn packet_out(&mut self, request: PacketOut) -> Result<(), Refusal> {
        let Some(injection) = self.injection(request)? else { return Ok(()) };
        match self.stage.deferred() {
            Some(deferred) => deferred.packets.push(injection),
            None => self.env.switch.inject(injection),
        }
        Ok(())
    }

    /// Lets a packet go on that waited for its controller (ovs-actions(7), `controller(pause)`).
    pub(crate) fn resume(&mut self, request: Resume) -> Result<(), Refusal> {
        let Some(mut rest) = Rest::decode(&request.continuation) else {
            return Err(Refusal::Continuation);
        };
        // What the controller made of the fields that it was told.
        for field in &request.matching {
            rest.pipeline.set(field.id, field.value);
        }
        let kept = [FieldId::InPort, FieldId::Metadata, FieldId::TunnelId];
        let known = |id: &FieldId| kept.contains(id) || PuntArgs::tells(*id);
        let fields = rest.pipeline.iter().map(|f| f.id);
        let others: Vec<FieldId> = fields.filter(|id| !known(id)).collect();
        others.into_iter().for_each(|id| rest.pipeline.remove(id));
        let set = Instruction::WriteActions(rest.waits.action_set.clone());
        self.stores.rules(self.env).instructions(Version::V15, 0, None, &[set])?;
        for part in &rest.left.parts {
            self.stores.rules(self.env).instructions(
                Version::V15,
                part.table,
                None,
                &part.instructions,
            )?;
            let lists = lists(&part.instructions);
            lists.for_each(|list| self.open_learns(list));
        }
        if !FRAME.contains(&request.data.len()) {
            return Err(Refusal::BadPacket { bytes: request.data.len() });
        }
        let elements = self.env.elements();
        let number = self.injections.next();
        let mut call = lower_resumed(&self.env.layout, &elements, number, &rest)?;
        // A goto, too, may lead to where it waits.
        self.keep(number, rest.left.clone(), &mut call);
        let pipeline = &rest.pipeline;
        let (action, args) = call.build(&self.env.layout);
        let injection = Injection {
            in_port: pipeline.exact(FieldId::InPort).unwrap_or(0) as u32,
            bytes: request.data,
            action: Arc::new(action),
            args: args.to_vec(),
        };
        self.env.switch.inject(injection);
        Ok(())
    }

    /// Keeps the lists of a packet that is about to be sent.
    fn keep(&mut self, number: u32, list: Left, call: &mut Call) {
        let learns = call.hold(|learn| self.stage.hold(learn));
        for learn in self.injections.keep(number, list, learns) {
            self.stage.let_go(learn);
        }
    }

    /// What a packet-out injects; nothing if it has no actions.
    fn injection(&mut self, request: PacketOut) -> Result<Option<Injection>, Refusal> {
        //= openflow-1.3.5 §7.3.7: a kept packet that is not there is OFPBRC_BUFFER_UNKNOWN.
        if let Some(buffer) = request.buffer_id {
            return Err(Refusal::BufferUnknown { buffer: buffer.0 });
        }
        let rules = self.stores.rules(self.env);
        //= openflow-1.3.5 §7.3.7: in_port is a port or CONTROLLER; 1.0 also says NONE, and where nothing
        //= is said there, 0, which is no port's number, is taken as Open vSwitch takes it in every version.
        let port = request.in_port;
        let none = [PortNo::CONTROLLER, PortNo::ANY, PortNo(0)].contains(&port);
        if !(rules.is_port(port) || none) {
            return Err(Refusal::InPort { port });
        }
        rules.packet_out(&request.actions)?;
        //= openflow-1.3.5 §7.3.7: no actions drop the packet.
        if request.actions.is_empty() {
            return Ok(None);
        }
        if !FRAME.contains(&request.data.len()) {
            return Err(Refusal::BadPacket { bytes: request.data.len() });
        }
        let number = is_found(&request.actions).then(|| self.injections.next());
        let mut call = lower_packet_out(
            &self.env.layout,
            &self.env.elements(),
            number,
            &request.pipeline,
            &request.actions,
        )?;
        if let Some(number) = number {
            let instructions = vec![Instruction::ApplyActions(request.actions)];
            let part = Part { table: 0, cookie: PacketIn::NO_COOKIE, instructions };
            self.keep(number, Left { parts: vec![part], cloned: false }, &mut call);
        }
        let (action, args) = call.build(&self.env.layout);
        Ok(Some(Injection {
            in_port: port.0,
            bytes: request.data,
            action: Arc::new(action),
            args: args.to_vec(),
        }))
    }
}
