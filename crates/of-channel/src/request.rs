//! What to do with a message of a peer that has shaken hands.
//!
//! Messages about the connection are answered here: hello, echo, barrier, role, asynchronous
//! configuration. All others go to the agent, unless a slave may not send them.

use crate::connection::Connection;
use crate::shared::Origin;
use openflow::{ErrorCode, Message, MultipartRequestBody, Role, Version, Xid};
use tokio::io::{AsyncRead, AsyncWrite};

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Does what a message asks for; `bytes` are its own.
    pub(crate) fn request(&mut self, version: Version, xid: Xid, message: Message, bytes: &[u8]) {
        match message {
            // A later hello says nothing new; an echo reply was heard by being there.
            Message::Hello(_) | Message::EchoReply(_) => {}
            Message::EchoRequest(data) => self.reply(xid, &Message::EchoReply(data), bytes),
            Message::Error(error) => {
                tracing::debug!(peer = %self.peer, kind = %error.kind, "the peer reports an error");
            }
            message if self.origin == Origin::Snooper => {
                let text = format!("{}: this socket only shows messages", message.type_name());
                self.refuse(bytes, ErrorCode::BrcEperm, &text);
            }
            Message::BarrierRequest => {
                self.settle();
                self.reply(xid, &Message::BarrierReply, bytes);
            }
            Message::RoleRequest(request) => {
                let answer = self.shared.roles().request(self.id, request);
                match answer {
                    Ok(reply) => self.reply(xid, &Message::RoleReply(reply), bytes),
                    Err(stale) => self.refuse(bytes, ErrorCode::RrfcStale, &stale.to_string()),
                }
            }
            Message::GetAsyncRequest => {
                let wants = self.shared.roles().wants(self.id);
                self.reply(xid, &Message::GetAsyncReply(wants), bytes);
            }
            Message::SetAsync(wants) => self.shared.roles().set_wants(self.id, wants),
            message if changes_state(&message) && self.is_slave() => {
                //= openflow-1.3.5 §6.3.4: a slave has read-only access.
                let text = format!("{} from a slave controller", message.type_name());
                self.refuse(bytes, ErrorCode::BrcIsSlave, &text);
            }
            message => self.pass_on(version, xid, message, bytes),
        }
    }

    fn pass_on(&mut self, version: Version, xid: Xid, message: Message, bytes: &[u8]) {
        if !is_query(&message) {
            self.unsettled = true;
            self.ungathered = true;
            self.ahead = 2;
        }
        let shared = self.shared.clone();
        let result = shared
            .agent()
            .handle_into(version, message, &mut |reply| self.reply(xid, &reply, bytes));
        if let Err(refusal) = result {
            self.refuse(bytes, refusal.code(), &refusal.to_string());
        }
    }

    /// Returns when all that came before is done, and what it caused is told.
    fn settle(&mut self) {
        //= openflow-1.3.5 §7.3.8: all before the barrier is done before its reply.
        if std::mem::take(&mut self.unsettled) {
            self.shared.switch.sync();
        }
        self.ungathered = false;
        self.shared.gather();
        self.flush_queued();
    }

    fn is_slave(&self) -> bool {
        self.shared.roles().role(self.id) == Role::Slave
    }
}

/// Messages that a slave may not send (1.3.5 §6.3.4).
fn changes_state(message: &Message) -> bool {
    match message {
        Message::PacketOut(_)
        | Message::FlowMod(_)
        | Message::GroupMod(_)
        | Message::PortMod(_)
        | Message::MeterMod(_)
        | Message::TableMod(_) => true,
        Message::MultipartRequest(request) => {
            matches!(&request.body, MultipartRequestBody::TableFeatures(t) if !t.is_empty())
        }
        _ => false,
    }
}

/// Messages that change nothing, so that a barrier after them has nothing to wait for.
fn is_query(message: &Message) -> bool {
    match message {
        Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::QueueGetConfigRequest(_) => true,
        Message::MultipartRequest(_) => !changes_state(message),
        _ => false,
    }
}
