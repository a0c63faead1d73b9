//! Table features that are set in several messages (1.3.5 §7.3.5, §7.3.5.5).

mod common;

use common::*;
use openflow::{
    ErrorCode, ErrorKind, Message, MultipartReplyBody, MultipartRequest, MultipartRequestBody,
    TableFeatures, Version, Xid, codec,
};
use std::io::Write;

fn request(tables: &[TableFeatures], more: bool) -> Message {
    let body = MultipartRequestBody::TableFeatures(tables.to_vec());
    Message::MultipartRequest(MultipartRequest { more, body })
}

fn send(c: &mut Controller, xid: u32, message: &Message) {
    let bytes = codec::encode(c.version, Xid(xid), message).unwrap();
    c.stream.write_all(&bytes).unwrap();
}

/// The tables of an answer in several messages.
fn answer(c: &mut Controller, xid: u32) -> Vec<TableFeatures> {
    let mut all = Vec::new();
    loop {
        let (of, message) = c.next().unwrap();
        assert_eq!(of, Xid(xid));
        let Message::MultipartReply(reply) = message else { panic!("{message:?}") };
        let MultipartReplyBody::TableFeatures(tables) = reply.body else { panic!("{reply:?}") };
        all.extend(tables);
        if !reply.more {
            return all;
        }
    }
}

#[test]
fn a_request_in_several_messages_is_one() {
    let bed = Bed::new(listening());
    let mut c = bed.controller(Version::V13);
    send(&mut c, 1, &request(&[], false));
    let mut tables = answer(&mut c, 1);
    tables[1].name = "second".to_owned();
    //= openflow-1.3.5 §7.3.5.5: the tables of all messages are the pipeline.
    let parts: Vec<&[TableFeatures]> = tables.chunks(30).collect();
    assert!(parts.len() > 2);
    for (i, part) in parts.iter().enumerate() {
        send(&mut c, 2, &request(part, i + 1 < parts.len()));
    }
    assert_eq!(answer(&mut c, 2), tables);
    // What came in part is forgotten when another request comes.
    send(&mut c, 3, &request(parts[0], true));
    send(&mut c, 4, &request(&[], false));
    assert_eq!(answer(&mut c, 4), tables);
    // One that does not end is bounded.
    for _ in 0..=255 / parts[0].len() {
        send(&mut c, 5, &request(parts[0], true));
    }
    let (xid, message) = c.next().unwrap();
    let Message::Error(error) = message else { panic!("{message:?}") };
    let overflow = ErrorKind::Code(ErrorCode::BrcMultipartBufferOverflow);
    assert_eq!((xid, error.kind), (Xid(5), overflow));
    c.barrier();
}
