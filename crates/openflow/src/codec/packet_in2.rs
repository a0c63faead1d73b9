//! `NXT_PACKET_IN2`: packet-ins as a list of properties, with what the `controller` action carries for its
//! controller (`userdata`). Connections get them that ask for packet-in format 2.

use super::property;
use super::writer::Put;
use super::{Encode, EncodeError, Loss, MESSAGE_LEN_MAX, NICIRA, finish_message, nicira, oxm};
use super::{Version, put_header};
use crate::ids::Xid;
use crate::packet::PacketIn;

const SUBTYPE: u32 = 30;

const PACKET: u16 = 0;
const FULL_LEN: u16 = 1;
const TABLE_ID: u16 = 3;
const COOKIE: u16 = 4;
const REASON: u16 = 5;
const METADATA: u16 = 6;
const USERDATA: u16 = 7;

/// Appends a packet-in in Nicira's format of properties.
///
/// # Errors
/// The message would be longer than any can be; `buf` is as it was then.
pub fn encode_packet_in2(
    buf: &mut Vec<u8>,
    version: Version,
    xid: Xid,
    packet: &PacketIn,
) -> std::result::Result<(), EncodeError> {
    let start = buf.len();
    let done = encode(buf, version, xid, packet);
    if done.is_err() {
        buf.truncate(start);
    }
    done
}

fn encode(buf: &mut Vec<u8>, version: Version, xid: Xid, packet: &PacketIn) -> Encode {
    let start = buf.len();
    // The vendor message of 1.0 has the number of the experimenter message.
    put_header(buf, version, 4, xid);
    buf.put_u32(NICIRA);
    buf.put_u32(SUBTYPE);
    let bytes = |buf: &mut Vec<u8>, number, data: &[u8]| {
        let at = property::begin(buf, number);
        buf.extend_from_slice(data);
        property::end(buf, at);
    };
    bytes(buf, PACKET, &packet.data);
    if usize::from(packet.total_len) > packet.data.len() {
        bytes(buf, FULL_LEN, &u32::from(packet.total_len).to_be_bytes());
    }
    // Small numbers are padded to four bytes, which count.
    bytes(buf, TABLE_ID, &[packet.table_id.0, 0, 0, 0]);
    if packet.cookie != PacketIn::NO_COOKIE {
        let at = property::begin(buf, COOKIE);
        buf.pad(4);
        buf.put_u64(packet.cookie);
        property::end(buf, at);
    }
    bytes(buf, REASON, &[packet.reason.wire(Version::V15), 0, 0, 0]);
    let at = property::begin(buf, METADATA);
    if version == Version::V10 {
        let fields = buf.len();
        let length = nicira::encode_match(buf, &packet.matching, (0, 0));
        buf.truncate(fields + length);
    } else {
        oxm::encode_fields(buf, version, &packet.matching, Loss::LeaveOut)?;
    }
    property::end(buf, at);
    if !packet.userdata.is_empty() {
        bytes(buf, USERDATA, &packet.userdata);
    }
    let length = buf.len() - start;
    if length > MESSAGE_LEN_MAX {
        return Err(EncodeError::TooLong { length });
    }
    finish_message(buf, start)
}
