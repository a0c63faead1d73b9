//! Packets from controllers: packet-out (1.3.5 §7.3.7; 1.0.2 §5.3.6).
//!
//! The packet enters the switch behind all that was committed before it, and its actions run on it
//! as an action of their own.

use crate::agent::{Agent, elements};
use crate::lower::lower_packet_out;
use crate::refusal::Refusal;
use openflow::{PacketOut, PortNo};
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
