//! `NXT_PACKET_IN2`: packet-ins as a list of properties, with what the `controller` action carries for its
//! controller (`userdata`). Connections get them that ask for packet-in format 2.

use super::header::put_header;
use super::header::{MESSAGE_LEN_MAX, finish_message};
use super::loss::{Encode, EncodeError, Loss};
use super::property;
use super::reader::{Reader, Result};
use super::writer::Put;
use super::{nx_match, oxm};
use crate::flow_match::Match;
use crate::ids::NICIRA;
use crate::ids::Xid;
use crate::packet::{PacketIn, Resume};
use crate::version::Version;

const SUBTYPE: u32 = 30;

const PACKET: u16 = 0;
const FULL_LEN: u16 = 1;
const TABLE_ID: u16 = 3;
const COOKIE: u16 = 4;
const REASON: u16 = 5;
const METADATA: u16 = 6;
const USERDATA: u16 = 7;
const CONTINUATION: u16 = 8;

/// The one property in a continuation. Open vSwitch's numbers, from 0 on, tell what only its own datapath can
/// resume; readers skip numbers that they do not know.
const OWN: u16 = 0x4d52;

/// `NXT_RESUME`'s subtype.
pub(super) const RESUME: u32 = 28;

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
    metadata(buf, version, &packet.matching)?;
    if !packet.userdata.is_empty() {
        bytes(buf, USERDATA, &packet.userdata);
    }
    if !packet.continuation.is_empty() {
        put_continuation(buf, &packet.continuation);
    }
    let length = buf.len() - start;
    if length > MESSAGE_LEN_MAX {
        return Err(EncodeError::TooLong { length });
    }
    finish_message(buf, start)
}

/// The pipeline fields.
fn metadata(buf: &mut Vec<u8>, version: Version, matching: &Match) -> Encode {
    let at = property::begin(buf, METADATA);
    if version == Version::V10 {
        let fields = buf.len();
        let length = nx_match::encode_match(buf, matching, (0, 0));
        buf.truncate(fields + length);
    } else {
        oxm::encode_fields(buf, version, matching, Loss::LeaveOut)?;
    }
    property::end(buf, at);
    Ok(())
}

/// Reads what resumes a packet: properties of a packet-in. Others than the packet, its fields and the
/// continuation only inform.
pub(super) fn decode_resume(r: &mut Reader<'_>) -> Result<Resume> {
    let (mut data, mut matching, mut continuation) = (Vec::new(), Match::new(), Vec::new());
    while let Some((number, mut property)) = property::next(r, "property of NXT_RESUME")? {
        match number {
            PACKET => data = property.rest().to_vec(),
            METADATA => matching = nx_match::decode_fields(&mut property)?,
            CONTINUATION => continuation = read_continuation(&mut property)?,
            _ => {}
        }
    }
    Ok(Resume { data, matching, continuation })
}

/// Writes the body of what resumes a packet.
pub(super) fn encode_resume(buf: &mut Vec<u8>, version: Version, resume: &Resume) -> Encode {
    buf.put_u32(NICIRA);
    buf.put_u32(RESUME);
    let bytes = |buf: &mut Vec<u8>, number, data: &[u8]| {
        let at = property::begin(buf, number);
        buf.extend_from_slice(data);
        property::end(buf, at);
    };
    bytes(buf, PACKET, &resume.data);
    metadata(buf, version, &resume.matching)?;
    put_continuation(buf, &resume.continuation);
    Ok(())
}

/// Writes a continuation: four zeros, then a list of properties, as every reader of the message takes it apart.
fn put_continuation(buf: &mut Vec<u8>, continuation: &[u8]) {
    let outer = property::begin(buf, CONTINUATION);
    buf.pad(4);
    let own = property::begin(buf, OWN);
    buf.extend_from_slice(continuation);
    property::end(buf, own);
    property::end(buf, outer);
}

/// Reads a continuation; it is empty where it is another switch's.
fn read_continuation(outer: &mut Reader<'_>) -> Result<Vec<u8>> {
    outer.skip(4)?;
    let mut continuation = Vec::new();
    while let Some((number, mut property)) = property::next(outer, "property of a continuation")? {
        if number == OWN {
            continuation = property.rest().to_vec();
        }
    }
    Ok(continuation)
}
