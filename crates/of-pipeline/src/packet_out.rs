//! Packets from controllers: packet-out (1.3.5 §7.3.7; 1.0.2 §5.3.6).
//!
//! The packet enters the switch behind all that was committed before it, and its actions run on it
//! as an action of their own.

use crate::agent::{Agent, elements};
use crate::lower::{PuntArgs, lower_packet_out, lower_resumed};
use crate::refusal::Refusal;
use openflow::{FieldId, Message, PacketOut, PortNo, Resume, Version, decode};
use std::sync::Arc;
use switch::Injection;

/// Bytes of the least and the greatest frame.
const FRAME: std::ops::RangeInclusive<usize> = 14..=65_535;

impl Agent {
    /// Executes a packet-out.
    pub(crate) fn packet_out(&mut self, request: PacketOut) -> Result<(), Refusal> {
        if let Some(injection) = self.injection(request)? {
            self.switch.inject(injection);
        }
        Ok(())
    }

    /// Lets a packet go on that waited for its controller (ovs-actions(7), `controller(pause)`).
    pub(crate) fn resume(&mut self, request: Resume) -> Result<(), Refusal> {
        let Ok((_, Message::FlowMod(rest))) = decode(Version::V15, &request.continuation) else {
            return Err(Refusal::Continuation);
        };
        let mut pipeline = rest.matching;
        // What the controller made of the fields that it was told.
        for field in &request.matching {
            pipeline.set(field.id, field.value);
        }
        let kept = [FieldId::InPort, FieldId::Metadata, FieldId::TunnelId];
        let known = |id: &FieldId| kept.contains(id) || PuntArgs::PIPELINE.contains(id);
        let others: Vec<FieldId> = pipeline.iter().map(|f| f.id).filter(|id| !known(id)).collect();
        others.into_iter().for_each(|id| pipeline.remove(id));
        let table = rest.table_id.0;
        let instructions = rest.instructions;
        self.rules().instructions(Version::V15, table, None, &instructions)?;
        if !FRAME.contains(&request.data.len()) {
            return Err(Refusal::BadPacket { bytes: request.data.len() });
        }
        let elements = elements(&self.switch);
        let call = lower_resumed(&self.layout, &elements, &pipeline, table, &instructions)?;
        let (action, args) = call.build(&self.layout);
        let injection = Injection {
            in_port: pipeline.exact(FieldId::InPort).unwrap_or(0) as u32,
            bytes: request.data,
            action: Arc::new(action),
            args: args.to_vec(),
        };
        self.switch.inject(injection);
        Ok(())
    }

    /// What a packet-out injects; nothing if it has no actions.
    pub(crate) fn injection(&self, request: PacketOut) -> Result<Option<Injection>, Refusal> {
        //= openflow-1.3.5 §7.3.7: a kept packet that is not there is OFPBRC_BUFFER_UNKNOWN.
        if let Some(buffer) = request.buffer_id {
            return Err(Refusal::BufferUnknown { buffer: buffer.0 });
        }
        let rules = self.rules();
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
        let call = lower_packet_out(
            &self.layout,
            &elements(&self.switch),
            &request.pipeline,
            &request.actions,
        )?;
        let (action, args) = call.build(&self.layout);
        Ok(Some(Injection {
            in_port: port.0,
            bytes: request.data,
            action: Arc::new(action),
            args: args.to_vec(),
        }))
    }
}
