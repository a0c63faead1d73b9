//! What to do with a message of a peer that has shaken hands.
//!
//! Messages about the connection are answered here: hello, echo, barrier, role, asynchronous
//! configuration. All others go to the agent, unless a slave may not send them.

use crate::bundles::{Controlled, Held, Ripe, now_ns};
use crate::changes;
use crate::connection::Connection;
use crate::roles::{Asynchronous, ConnectionId};
use crate::shared::Origin;
use openflow::{
    BundleControl, ErrorCode, ErrorMessage, FlowMonitorRequest, ForwardedRequest, GroupId, Match,
    Message, MonitorCommand, MonitorFlags, MultipartReply, MultipartReplyBody, MultipartRequest,
    MultipartRequestBody, Nicira, PortNo, RequestForward, Role, RoleReason, RoleStatus,
    TableFeatures, TableId, Version, Xid,
};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// Tables of one table-features request, at most.
const TABLES_MAX: usize = 255;

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
                // Where nothing was done there is nothing to wait for.
                let unsettled = std::mem::take(&mut self.unsettled);
                let place = unsettled.then(|| self.shared.switch.barrier());
                self.barrier = Some((xid, place));
            }
            Message::RoleRequest(request) => {
                let answer = self.shared.roles().request(self.main, request);
                match answer {
                    Ok(change) => {
                        self.reply(xid, &Message::RoleReply(change.reply), bytes);
                        self.tell_displaced(&change.displaced);
                        self.shared.tell_roles(self.main, &change);
                    }
                    Err(stale) => self.refuse(bytes, ErrorCode::RrfcStale, &stale.to_string()),
                }
            }
            Message::GetAsyncRequest => {
                let wants = self.shared.roles().wants(self.main);
                self.reply(xid, &Message::GetAsyncReply(wants), bytes);
            }
            Message::SetAsync(change) => self.shared.roles().set_wants(self.main, &change),
            message if changes_state(&message) && self.is_slave() => {
                //= openflow-1.3.5 §6.3.4: a slave has read-only access.
                let text = format!("{} from a slave controller", message.type_name());
                self.refuse(bytes, ErrorCode::BrcIsSlave, &text);
            }
            Message::Nicira(setting) => self.set_nicira(xid, setting, bytes),
            Message::BundleControl(request) => self.control_bundle(version, xid, &request, bytes),
            Message::BundleAdd(request) => {
                if let Err((code, text)) = self.bundles.add(version, xid, &request) {
                    self.refuse(bytes, code, &text);
                }
            }
            Message::MultipartRequest(MultipartRequest {
                body: MultipartRequestBody::FlowMonitor(requests),
                more: false,
            }) => {
                // What came before is told before.
                self.shared.gather();
                self.flush_queued();
                match self.shared.monitor(self.main, version, &requests) {
                    Ok(list) => list.iter().for_each(|reply| self.reply(xid, reply, bytes)),
                    Err((code, text)) => self.refuse(bytes, code, &text),
                }
            }
            Message::MultipartRequest(MultipartRequest {
                body: MultipartRequestBody::BundleFeatures(request),
                more: false,
            }) => {
                let features = self.bundles.features(&request, now_ns());
                let body = MultipartReplyBody::BundleFeatures(features);
                let reply = MultipartReply { more: false, body };
                self.reply(xid, &Message::MultipartReply(reply), bytes);
            }
            Message::MultipartRequest(MultipartRequest {
                body: MultipartRequestBody::ControllerStatus,
                more: false,
            }) => {
                //= openflow-1.5.1 §7.3.5.15: every controller is told of, whether or not it is there.
                let body = MultipartReplyBody::ControllerStatus(self.shared.controllers());
                let reply = MultipartReply { more: false, body };
                self.reply(xid, &Message::MultipartReply(reply), bytes);
            }
            Message::MultipartRequest(MultipartRequest {
                body: MultipartRequestBody::TableFeatures(tables),
                more,
            }) => self.gather_tables(version, xid, tables, more, bytes),
            message => self.pass_on(version, xid, message, bytes),
        }
    }

    //= openflow-1.3.5 §7.3.5: a request may come in several messages of one transaction; one that is
    //= too large is OFPBRC_MULTIPART_BUFFER_OVERFLOW.
    /// Tables of a table-features request, whole or in part. One of another transaction takes the
    /// place of what has not come to its end.
    fn gather_tables(
        &mut self,
        version: Version,
        xid: Xid,
        tables: Vec<TableFeatures>,
        more: bool,
        bytes: &[u8],
    ) {
        let earlier = self.tables.take().filter(|(of, _)| *of == xid);
        let (_, mut all) = earlier.unwrap_or((xid, Vec::new()));
        all.extend(tables);
        if all.len() > TABLES_MAX {
            let text = format!("features of more than {TABLES_MAX} tables; there are no more");
            return self.refuse(bytes, ErrorCode::BrcMultipartBufferOverflow, &text);
        }
        if more {
            self.tables = Some((xid, all));
            return;
        }
        let body = MultipartRequestBody::TableFeatures(all);
        let request = MultipartRequest { more: false, body };
        self.pass_on(version, xid, Message::MultipartRequest(request), bytes);
    }

    fn pass_on(&mut self, version: Version, xid: Xid, message: Message, bytes: &[u8]) {
        if let Message::MultipartRequest(MultipartRequest { more: false, body }) = &message {
            let listing = self.shared.agent().list(version, body);
            match listing {
                Ok(None) => {}
                Ok(Some(listing)) => {
                    let head = bytes[..bytes.len().min(ErrorMessage::DATA_BYTES)].into();
                    self.listing = Some((xid, listing, head));
                    return;
                }
                Err(refusal) => return self.refuse(bytes, refusal.code(), &refusal.to_string()),
            }
        }
        if !is_query(&message) {
            self.unsettled = true;
            self.ungathered = true;
            self.ahead = 2;
        }
        let forwarded = forwardable(&message);
        let shared = self.shared.clone();
        let change = changes::kind(&message).map(|kind| (kind, self.text_of(&message, kind.0)));
        let result = {
            let mut agent = shared.agent();
            let by = Some((self.main.0, xid));
            let auxiliary = match self.origin {
                Origin::Auxiliary { id, .. } => id,
                _ => 0,
            };
            agent.handle_by(by, version, message, &mut |mut reply| {
                //= openflow-1.3.5 §6.3.5, §7.3.1: which of the connections this is.
                if let Message::FeaturesReply(features) = &mut reply {
                    features.auxiliary_id = auxiliary;
                }
                self.reply(xid, &reply, bytes);
            })
        };
        if let Err(refusal) = result {
            return self.refuse(bytes, refusal.code(), &refusal.to_string());
        }
        if let Some(change) = change {
            self.note_change(change);
        }
        if let Some(request) = forwarded {
            self.tell_others(xid, request);
        }
    }

    /// The words of a change, where they are used.
    fn text_of(&self, message: &Message, kind: &'static str) -> Option<String> {
        let switch = &self.shared.switch;
        let wanted = switch.changes().wants_text(kind, switch.now_ns());
        wanted.then(|| changes::text(message, self.version()))
    }

    fn note_change(&self, ((kind, verb), text): Noted) {
        let switch = &self.shared.switch;
        switch.changes().note(&self.peer, kind, verb, text.as_deref(), switch.now_ns());
    }

    /// Sets something of Nicira's extensions. NXM is read whatever the format is set to.
    fn set_nicira(&mut self, xid: Xid, setting: Nicira, bytes: &[u8]) {
        match setting {
            Nicira::FlowFormat(0 | 2) => {}
            Nicira::PacketInFormat(format @ (0 | 2)) => self.packet_in2 = format == 2,
            Nicira::FlowModTableId(on) => self.table_ids = on,
            Nicira::ControllerId(id) => self.shared.set_controller_id(self.main, id),
            Nicira::FlushZone(zone) => {
                let gone = self.shared.agent().flush_zone(zone);
                tracing::debug!(zone, gone, "connections are forgotten");
            }
            Nicira::CtFlush(chosen) => {
                let gone = self.shared.agent().flush_connections(&chosen);
                tracing::debug!(?chosen, gone, "connections are forgotten");
            }
            Nicira::TlvTableMod(request) => {
                let done = self.shared.agent().change_options(&request);
                if let Err(refusal) = done {
                    self.refuse(bytes, refusal.code(), &refusal.to_string());
                }
            }
            Nicira::TlvTableRequest => {
                let reply = self.shared.agent().options();
                self.reply(xid, &Message::Nicira(Nicira::TlvTableReply(reply)), bytes);
            }
            Nicira::TlvTableReply(_) => {
                let text = "only switches tell which options have fields";
                self.refuse(bytes, ErrorCode::BrcBadExpType, text);
            }
            Nicira::MonitorCancel(id) => {
                let cancel = FlowMonitorRequest {
                    monitor_id: id,
                    command: MonitorCommand::Delete,
                    flags: MonitorFlags::empty(),
                    out_port: PortNo::ANY,
                    out_group: GroupId::ANY,
                    table_id: TableId::ALL,
                    matching: Match::new(),
                };
                let version = self.version();
                if let Err((code, text)) = self.shared.monitor(self.main, version, &[cancel]) {
                    self.refuse(bytes, code, &text);
                }
            }
            Nicira::MonitorPaused | Nicira::MonitorResumed => {
                let text = "only switches tell of pauses";
                self.refuse(bytes, ErrorCode::BrcBadExpType, text);
            }
            Nicira::FlowFormat(format) => {
                let text = format!("flow format {format}: 0 (OpenFlow 1.0) and 2 (NXM) are known");
                self.refuse(bytes, ErrorCode::BrcEperm, &text);
            }
            Nicira::PacketInFormat(format) => {
                let text = format!(
                    "packet-in format {format}: 0, the version's own, and 2, Nicira's newer one, are known"
                );
                self.refuse(bytes, ErrorCode::BrcEperm, &text);
            }
        }
    }

    fn control_bundle(
        &mut self,
        version: Version,
        xid: Xid,
        request: &BundleControl,
        bytes: &[u8],
    ) {
        match self.bundles.control(version, xid, request, bytes, now_ns()) {
            Err((code, text)) => self.refuse(bytes, code, &text),
            Ok(Controlled::Done(answer)) => {
                self.reply(xid, &Message::BundleControl(answer), bytes);
            }
            // It is answered when it is done.
            Ok(Controlled::Later) => {}
            Ok(Controlled::Commit(held, answer)) => self.commit(xid, held, answer, bytes),
        }
    }

    /// Commits the bundles whose time has come; says when the next one's comes.
    pub(crate) fn commit_due(&mut self) -> Option<Instant> {
        while let Some(Ripe { held, answer, xid, request }) = self.bundles.ripe(now_ns()) {
            if self.is_slave() {
                let text = "the controller has become slave since it scheduled the bundle";
                self.refuse(&request, ErrorCode::BrcIsSlave, text);
            } else {
                self.commit(xid, held, answer, &request);
            }
        }
        let wait_ns = self.bundles.due_ns()?.saturating_sub(now_ns());
        let wait = Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(u64::MAX));
        Instant::now().checked_add(wait)
    }

    /// Executes the messages of a bundle that an answer ends.
    fn commit(&mut self, xid: Xid, held: Vec<Held>, answer: BundleControl, bytes: &[u8]) {
        let version = self.version();
        self.unsettled = true;
        self.ungathered = true;
        let mut forwarded = Vec::new();
        let mut heads = Vec::with_capacity(held.len());
        let mut requests = Vec::with_capacity(held.len());
        let mut noted: Vec<Noted> = Vec::new();
        for Held { xid, head, message } in held {
            noted
                .extend(changes::kind(&message).map(|kind| (kind, self.text_of(&message, kind.0))));
            forwarded.extend(forwardable(&message).map(|request| (xid, request)));
            heads.push(head);
            requests.push(message);
        }
        let done = {
            let mut agent = self.shared.agent();
            agent.bundle_by(Some((self.main.0, xid)), version, requests)
        };
        match done {
            Ok(()) => {
                self.reply(xid, &Message::BundleControl(answer), bytes);
                noted.into_iter().for_each(|change| self.note_change(change));
                for (xid, request) in forwarded {
                    self.tell_others(xid, request);
                }
            }
            //= openflow-1.4.1 §7.3.9.4: the message that failed is refused by its own error,
            //= the commit with OFPBFC_MSG_FAILED.
            Err(fault) => {
                if let Some(head) = heads.get(fault.at) {
                    self.refuse(head, fault.refusal.code(), &fault.to_string());
                }
                self.refuse(bytes, ErrorCode::BfcMsgFailed, &fault.to_string());
            }
        }
    }

    //= openflow-1.4.1 §7.4.4: who was master is told that it is slave now.
    fn tell_displaced(&self, displaced: &[ConnectionId]) {
        if displaced.is_empty() {
            return;
        }
        let reason = RoleReason::MasterRequest;
        let generation_id = self.shared.roles().generation();
        let status = RoleStatus { role: Role::Slave, reason, generation_id };
        let (kind, message) = (Asynchronous::RoleStatus(reason), Message::RoleStatus(status));
        self.shared.tell(kind, message, |id| displaced.contains(&id));
    }

    //= openflow-1.4.1 §7.4.6: a group-mod or meter-mod that was done is told to the others.
    fn tell_others(&self, xid: Xid, request: ForwardedRequest) {
        let number = match request {
            ForwardedRequest::Group(_) => 0,
            ForwardedRequest::Meter(_) => 1,
        };
        let message = Message::RequestForward(RequestForward { xid, request });
        self.shared.tell(Asynchronous::RequestForward(number), message, |id| id != self.main);
    }

    /// Answers the barrier, if there is one, once all that came before it is done, and after what that
    /// caused is told. False: it takes longer than until then.
    pub(crate) fn pass_barrier(&mut self, until: Instant) -> bool {
        let Some((xid, place)) = &self.barrier else { return true };
        //= openflow-1.3.5 §7.3.8: all before the barrier is done before its reply.
        if let Some(place) = place
            && !self.shared.switch.await_passed(place, until.into_std())
        {
            return false;
        }
        let xid = *xid;
        self.barrier = None;
        self.ungathered = false;
        self.shared.gather();
        self.flush_queued();
        self.push(xid, &Message::BarrierReply);
        true
    }

    /// Goes on with a long reply, if there is one, as far as the peer takes it. False: it is not over,
    /// and it takes longer than until then.
    pub(crate) fn pass_listing(&mut self, until: Instant) -> bool {
        while let Some((xid, mut listing, head)) = self.listing.take() {
            if self.output_is_high() || Instant::now() >= until {
                self.listing = Some((xid, listing, head));
                return false;
            }
            let message = self.shared.agent().list_on(&mut listing);
            if let Some(message) = message {
                self.reply(xid, &message, &head);
            }
            if !listing.is_over() {
                self.listing = Some((xid, listing, head));
            }
        }
        true
    }

    fn is_slave(&self) -> bool {
        self.shared.roles().role(self.main) == Role::Slave
    }
}

/// A change: its kind and verb, and its words where they are used.
type Noted = ((&'static str, &'static str), Option<String>);

/// What others are told of a request that was done.
fn forwardable(message: &Message) -> Option<ForwardedRequest> {
    match message {
        Message::GroupMod(m) => Some(ForwardedRequest::Group(m.clone())),
        Message::MeterMod(m) => Some(ForwardedRequest::Meter(m.clone())),
        _ => None,
    }
}

/// Messages that a slave may not send (1.3.5 §6.3.4).
fn changes_state(message: &Message) -> bool {
    match message {
        Message::PacketOut(_)
        | Message::Resume(_)
        | Message::FlowMod(_)
        | Message::GroupMod(_)
        | Message::PortMod(_)
        | Message::MeterMod(_)
        | Message::TableMod(_)
        | Message::BundleControl(_)
        | Message::BundleAdd(_)
        | Message::Nicira(Nicira::FlushZone(_) | Nicira::CtFlush(_) | Nicira::TlvTableMod(_)) => {
            true
        }
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
