//! Bytes to messages and back.
//!
//! [`frame`] cuts a stream into messages, [`Header::parse`] reads what comes before negotiation,
//! [`decode`] reads a whole message, [`encode`] and [`encode_into`] write one. One file per topic,
//! each with all versions side by side.
//!
//! Decoding checks lengths strictly, reads padding as anything, and answers each fault with the code
//! that the specification gives. Encoding fails only where a version cannot say a request, or a
//! message is too long; what a version cannot say of a flow entry in a *reply*, it leaves out.
//! Cost: one pass; vectors are allocated as long as the lists are, a flow-mod takes one per list of
//! actions.

pub(crate) mod action;
mod buffer;
mod bundle;
mod ct_flush;
mod flow;
mod group;
mod header;
pub(crate) mod loss;
mod match10;
mod meter;
mod misc;
mod monitor;
mod multipart;
mod nx_match;
pub(crate) mod nxm;
mod own_fields;
pub(crate) mod oxm;
mod oxs;
mod packet_in2;
mod port;
pub(crate) mod property;
pub(crate) mod reader;
mod registers;
mod switch;
mod table;
mod tlv_table;
pub(crate) mod writer;

pub use crate::ids::NICIRA;
pub(crate) use action::as_v10_note;
pub use header::{HEADER_LEN, Header, MESSAGE_LEN_MAX};
pub use loss::EncodeError;
pub(crate) use nxm::{nxm_field, nxm_name};
pub use packet_in2::encode_packet_in2;
pub use reader::{DecodeError, DecodeFault};

use crate::error::ErrorCode;
use crate::ids::Xid;
use crate::message::{ForwardedRequest, Message, RequestForward};
use crate::switch::AsyncChange;
use crate::version::Version;
use header::{finish_message, put_header};
use loss::Encode;
use reader::{Reader, Result};
use writer::Put;

/// What stands at the front of a stream's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Not yet a message; it takes at least this many bytes in all to say more.
    Incomplete {
        /// Bytes from the front.
        need: usize,
    },
    /// A message of so many bytes.
    Message {
        /// Bytes from the front.
        length: usize,
    },
    /// No message: the header's length is below the header's own. Where the next one begins is
    /// unknown; the connection is lost.
    Bad {
        /// The header.
        header: Header,
    },
}

/// Looks for a message at the front of `bytes`.
#[inline]
pub fn frame(bytes: &[u8]) -> Frame {
    match Header::parse(bytes) {
        None => Frame::Incomplete { need: HEADER_LEN },
        Some(header) => match usize::from(header.length) {
            length if length < HEADER_LEN => Frame::Bad { header },
            length if length > bytes.len() => Frame::Incomplete { need: length },
            length => Frame::Message { length },
        },
    }
}

/// Reads the message that `bytes` are, from its header to its end.
///
/// `version` is what the connection has negotiated. Hello and error messages are read whatever
/// version their header names, so that negotiation can use this too; any other message must be of
/// `version`.
pub fn decode(version: Version, bytes: &[u8]) -> std::result::Result<(Xid, Message), DecodeError> {
    decode_as(version, false, bytes)
}

/// As [`decode`]. With `table_ids`, the high byte of a 1.0 flow-mod's command is its table, as
/// Nicira's message `NXT_FLOW_MOD_TABLE_ID` asks for.
pub fn decode_as(
    version: Version,
    table_ids: bool,
    bytes: &[u8],
) -> std::result::Result<(Xid, Message), DecodeError> {
    let mut r = Reader::new(bytes, 0, "message", ErrorCode::BrcBadLen);
    let header =
        Header { version: r.u8()?, message_type: r.u8()?, length: r.u16()?, xid: Xid(r.u32()?) };
    if usize::from(header.length) != bytes.len() {
        return Err(r.bad_length(header.length.into(), "the number of bytes there are"));
    }
    let negotiable = matches!(header.message_type, Header::HELLO | Header::ERROR);
    let version = match Version::from_wire(header.version) {
        Some(v) if v == version || negotiable => v,
        _ if negotiable => version,
        _ => {
            return Err(DecodeError {
                code: ErrorCode::BrcBadVersion,
                offset: 0,
                fault: DecodeFault::Value {
                    what: "version",
                    got: header.version.into(),
                    right: match version {
                        Version::V10 => "1 (OpenFlow 1.0)",
                        Version::V13 => "4 (OpenFlow 1.3)",
                        Version::V14 => "5 (OpenFlow 1.4)",
                        Version::V15 => "6 (OpenFlow 1.5)",
                    },
                },
            });
        }
    };
    let message = decode_body(version, table_ids, header.message_type, &mut r)?;
    r.finish()?;
    Ok((header.xid, message))
}

fn decode_body(
    version: Version,
    table_ids: bool,
    number: u8,
    r: &mut Reader<'_>,
) -> Result<Message> {
    // 1.0's numbers from 15 on, as 1.3's.
    let number = match (version, number) {
        (Version::V10, 15) => 16,
        (Version::V10, n @ 16..=21) => n + 2,
        (Version::V10, 22..) => {
            return Err(bad_type(r, number, "0 to 21"));
        }
        (_, n) => n,
    };
    let (v14, right) = match version {
        Version::V10 => (false, "0 to 21"),
        Version::V13 => (false, "0 to 29"),
        Version::V14 | Version::V15 => (true, "0 to 21 or 24 to 34"),
    };
    Ok(match number {
        Header::HELLO => Message::Hello(misc::decode_hello(r)),
        Header::ERROR => Message::Error(misc::decode_error(version, r)?),
        2 => Message::EchoRequest(r.rest().to_vec()),
        3 => Message::EchoReply(r.rest().to_vec()),
        4 if version == Version::V13 => decode_experimenter_13(r)?,
        4 => misc::decode_vendor(version, table_ids, r)?,
        5 => Message::FeaturesRequest,
        6 => Message::FeaturesReply(switch::decode_features(version, r)?),
        7 => Message::GetConfigRequest,
        8 => Message::GetConfigReply(switch::decode_config(r)?),
        9 => Message::SetConfig(switch::decode_config(r)?),
        10 => Message::PacketIn(misc::decode_packet_in(version, r)?),
        11 => Message::FlowRemoved(flow::decode_removed(version, r)?),
        12 => Message::PortStatus(port::decode_status(version, r)?),
        13 => Message::PacketOut(misc::decode_packet_out(version, r)?),
        14 => Message::FlowMod(own_fields::restored(flow::decode_mod(version, table_ids, r)?)),
        15 => Message::GroupMod(group::decode_mod(version, r)?),
        16 => Message::PortMod(port::decode_mod(version, r)?),
        17 => Message::TableMod(table::decode_mod(version, r)?),
        18 => Message::MultipartRequest(multipart::decode_request(version, r)?),
        19 => Message::MultipartReply(multipart::decode_reply(version, r)?),
        20 => Message::BarrierRequest,
        21 => Message::BarrierReply,
        35 if version >= Version::V15 => {
            Message::ControllerStatus(switch::decode_controller_status(r)?)
        }
        22 | 23 | 35.. if v14 => return Err(bad_type(r, number, right)),
        22 => Message::QueueGetConfigRequest(port::decode_queue_request(version, r)?),
        23 => Message::QueueGetConfigReply(port::decode_queue_reply(version, r)?),
        24 => Message::RoleRequest(switch::decode_role(version, r)?),
        25 => Message::RoleReply(switch::decode_role(version, r)?),
        26 => Message::GetAsyncRequest,
        27 => Message::GetAsyncReply(switch::decode_async_config(version, r)?),
        28 => Message::SetAsync(switch::decode_async(version, r)?),
        29 => Message::MeterMod(meter::decode_mod(r)?),
        30 if v14 => Message::RoleStatus(switch::decode_role_status(r)?),
        31 if v14 => Message::TableStatus(table::decode_status(r)?),
        32 if v14 => Message::RequestForward(decode_forward(version, r)?),
        33 if v14 => Message::BundleControl(bundle::decode_control(r)?),
        34 if v14 => Message::BundleAdd(bundle::decode_add(r)?),
        _ => return Err(bad_type(r, number, right)),
    })
}

/// 1.3's experimenter messages; the ONF's about bundles are messages of their own.
fn decode_experimenter_13(r: &mut Reader<'_>) -> Result<Message> {
    let e = misc::decode_experimenter(Version::V13, r)?;
    if let Some(known) = misc::nicira_setting(&e)? {
        return Ok(known);
    }
    let mut body = Reader::new(&e.data, HEADER_LEN + 8, "bundle message", ErrorCode::BrcBadLen);
    let message = match (e.experimenter, e.exp_type) {
        (ErrorCode::ONF, Some(bundle::ONF_CONTROL)) => {
            Message::BundleControl(bundle::decode_control(&mut body)?)
        }
        (ErrorCode::ONF, Some(bundle::ONF_ADD)) => {
            Message::BundleAdd(bundle::decode_add(&mut body)?)
        }
        _ => return Ok(Message::Experimenter(e)),
    };
    body.finish()?;
    Ok(message)
}

/// Reads the request that a requestforward holds (1.4.1 §7.4.6).
fn decode_forward(version: Version, r: &mut Reader<'_>) -> Result<RequestForward> {
    let mut inner = r.element(2, HEADER_LEN, "forwarded request", ErrorCode::BrcBadLen)?;
    let number = (inner.u8()?, inner.u8()?).1;
    inner.skip(2)?;
    let xid = Xid(inner.u32()?);
    let request = match number {
        15 => ForwardedRequest::Group(group::decode_mod(version, &mut inner)?),
        29 => ForwardedRequest::Meter(meter::decode_mod(&mut inner)?),
        _ => return Err(bad_type(&inner, number, "15 or 29")),
    };
    inner.finish()?;
    Ok(RequestForward { xid, request })
}

fn bad_type(r: &Reader<'_>, number: u8, right: &'static str) -> DecodeError {
    r.bad_value(ErrorCode::BrcBadType, "message type", number, right)
}

/// Writes a message into a new vector. See [`encode_into`].
pub fn encode(
    version: Version,
    xid: Xid,
    message: &Message,
) -> std::result::Result<Vec<u8>, EncodeError> {
    let mut buf = Vec::with_capacity(128);
    encode_into(&mut buf, version, xid, message)?;
    Ok(buf)
}

/// Writes a message at the end of `buf`, which an error leaves as it was.
///
/// A multipart reply longer than a message can be is cut between its entries into several messages
/// with the same xid, all but the last with the flag `MORE`; the last has it if `more` is set.
pub fn encode_into(
    buf: &mut Vec<u8>,
    version: Version,
    xid: Xid,
    message: &Message,
) -> std::result::Result<(), EncodeError> {
    let start = buf.len();
    let done = encode_at_end(buf, version, xid, message);
    if done.is_err() {
        buf.truncate(start);
    }
    done
}

fn encode_at_end(buf: &mut Vec<u8>, version: Version, xid: Xid, message: &Message) -> Encode {
    let start = buf.len();
    let number = message_number(version, message)?;
    put_header(buf, version, number, xid);
    match message {
        Message::Hello(hello) => misc::encode_hello(buf, hello),
        Message::Error(error) => misc::encode_error(buf, version, error)?,
        Message::EchoRequest(data) | Message::EchoReply(data) => buf.extend_from_slice(data),
        Message::Experimenter(e) => misc::encode_experimenter(buf, version, e),
        Message::Nicira(setting) => misc::encode_nicira(buf, setting),
        Message::Resume(resume) => packet_in2::encode_resume(buf, version, resume)?,
        Message::FeaturesReply(features) => switch::encode_features(buf, version, features),
        Message::GetConfigReply(config) | Message::SetConfig(config) => {
            switch::encode_config(buf, config);
        }
        Message::PacketIn(packet) => misc::encode_packet_in(buf, version, packet)?,
        Message::FlowRemoved(removed) => flow::encode_removed(buf, version, removed)?,
        Message::PortStatus(status) => port::encode_status(buf, version, status),
        Message::PacketOut(packet) => misc::encode_packet_out(buf, version, packet)?,
        Message::FlowMod(flow_mod) => flow::encode_mod(buf, version, flow_mod)?,
        Message::GroupMod(group_mod) => group::encode_mod(buf, version, group_mod)?,
        Message::PortMod(port_mod) => port::encode_mod(buf, version, port_mod)?,
        Message::TableMod(table_mod) => table::encode_mod(buf, version, table_mod),
        Message::MultipartRequest(request) => multipart::encode_request(buf, version, request)?,
        Message::MultipartReply(reply) => {
            // Writes its headers itself, as there may be several.
            buf.truncate(start);
            return multipart::encode_reply(buf, version, number, xid, reply);
        }
        Message::QueueGetConfigRequest(request) => {
            port::encode_queue_request(buf, version, request)?;
        }
        Message::QueueGetConfigReply(reply) => port::encode_queue_reply(buf, version, reply),
        Message::RoleRequest(role) if version == Version::V10 => {
            switch::encode_nx_role(buf, misc::NX_ROLE_REQUEST, role);
        }
        Message::RoleReply(role) if version == Version::V10 => {
            switch::encode_nx_role(buf, misc::NX_ROLE_REPLY, role);
        }
        Message::RoleRequest(role) | Message::RoleReply(role) => {
            switch::encode_role(buf, version, role);
        }
        Message::GetAsyncReply(config) => {
            switch::encode_async(buf, version, &AsyncChange::all(version, config));
        }
        Message::SetAsync(change) => switch::encode_async(buf, version, change),
        Message::MeterMod(meter_mod) => meter::encode_mod(buf, meter_mod),
        Message::RoleStatus(status) => switch::encode_role_status(buf, status),
        Message::TableStatus(status) => table::encode_status(buf, status),
        Message::ControllerStatus(status) => switch::encode_controller_status(buf, status),
        Message::RequestForward(forward) => {
            let inner = buf.len();
            put_header(buf, version, forward.number(), forward.xid);
            match &forward.request {
                ForwardedRequest::Group(m) => group::encode_mod(buf, version, m)?,
                ForwardedRequest::Meter(m) => meter::encode_mod(buf, m),
            }
            finish_message(buf, inner)?;
        }
        Message::BundleControl(control) => {
            put_onf(buf, version, bundle::ONF_CONTROL);
            bundle::encode_control(buf, control);
        }
        Message::BundleAdd(add) => {
            put_onf(buf, version, bundle::ONF_ADD);
            bundle::encode_add(buf, add);
        }
        Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::BarrierRequest
        | Message::BarrierReply
        | Message::GetAsyncRequest => {}
    }
    finish_message(buf, start)
}

/// What comes before the body of a bundle message in 1.3.
fn put_onf(buf: &mut Vec<u8>, version: Version, exp_type: u32) {
    if version == Version::V13 {
        buf.put_u32(ErrorCode::ONF);
        buf.put_u32(exp_type);
    }
}

/// The message type's number in a version.
fn message_number(version: Version, message: &Message) -> std::result::Result<u8, EncodeError> {
    let number = match message {
        Message::Hello(_) => Header::HELLO,
        Message::Error(_) => Header::ERROR,
        Message::EchoRequest(_) => 2,
        Message::EchoReply(_) => 3,
        Message::Experimenter(_) | Message::Nicira(_) | Message::Resume(_) => 4,
        Message::FeaturesRequest => 5,
        Message::FeaturesReply(_) => 6,
        Message::GetConfigRequest => 7,
        Message::GetConfigReply(_) => 8,
        Message::SetConfig(_) => 9,
        Message::PacketIn(_) => 10,
        Message::FlowRemoved(_) => 11,
        Message::PortStatus(_) => 12,
        Message::PacketOut(_) => 13,
        // NXM's flow-mod is a vendor's message.
        Message::FlowMod(m) if m.extended && version == Version::V10 => 4,
        Message::FlowMod(_) => 14,
        // Nicira's, of 1.0.
        Message::GroupMod(_) if version == Version::V10 => 4,
        Message::GroupMod(_) => 15,
        Message::PortMod(_) => 16,
        Message::TableMod(_) => 17,
        Message::MultipartRequest(_) => 18,
        Message::MultipartReply(_) => 19,
        Message::BarrierRequest => 20,
        Message::BarrierReply => 21,
        Message::QueueGetConfigRequest(_) => 22,
        Message::QueueGetConfigReply(_) => 23,
        // Nicira's, of 1.0.
        Message::RoleRequest(_) | Message::RoleReply(_) if version == Version::V10 => 4,
        Message::RoleRequest(_) => 24,
        Message::RoleReply(_) => 25,
        Message::GetAsyncRequest => 26,
        Message::GetAsyncReply(_) => 27,
        Message::SetAsync(_) => 28,
        Message::MeterMod(_) => 29,
        Message::RoleStatus(_) => 30,
        Message::TableStatus(_) => 31,
        Message::RequestForward(_) => 32,
        // The ONF's experimenter messages.
        Message::BundleControl(_) | Message::BundleAdd(_) if version == Version::V13 => 4,
        Message::BundleControl(_) => 33,
        Message::BundleAdd(_) => 34,
        Message::ControllerStatus(_) => 35,
    };
    match (version, number) {
        (Version::V10, n @ 0..=14) | (Version::V13, n @ 0..=29) => Ok(n),
        (Version::V14 | Version::V15, n @ (0..=21 | 24..=34)) | (Version::V15, n @ 35) => Ok(n),
        (Version::V10, 16) => Ok(15),
        (Version::V10, n @ 18..=23) => Ok(n - 2),
        _ => Err(EncodeError::NotInVersion { version, what: message.type_name() }),
    }
}

#[cfg(test)]
mod tests;
