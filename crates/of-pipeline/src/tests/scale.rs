//! Many entries: nothing is quadratic.

use super::bed::*;
use of_lower::ProgramConfig;
use openflow::{
    FieldId, FlowMod, FlowStatsRequest, Match, Message, MultipartReply, MultipartReplyBody,
    MultipartRequest, MultipartRequestBody,
};
use std::time::Instant;

const MANY: u32 = 100_000;

fn request(n: u32) -> FlowMod {
    let matching = Match::new()
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::Ipv4Src, (0x0a00_0000 + n).into())
        .with(FieldId::Ipv4Dst, (0x1400_0000 + n / 7).into());
    add(matching, apply([output(1 + n % 4)]))
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

#[test]
#[ignore = "takes seconds unless optimised; prints its figures"]
fn a_hundred_thousand_entries() {
    let program = ProgramConfig { tables: 254, table_capacity: 1 << 20, normal_capacity: 1024 };
    let mut bed = Bed::of(program, 2);
    let before = resident();
    let start = Instant::now();
    for request in (0..MANY).map(request) {
        bed.agent.handle(V13, Message::FlowMod(request)).unwrap();
    }
    let added = start.elapsed();
    bed.agent.switch().sync();
    let synced = start.elapsed();
    let memory = resident().saturating_sub(before);
    let start = Instant::now();
    let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
    let request = Message::MultipartRequest(MultipartRequest { more: false, body });
    let (mut parts, mut flows) = (0, 0);
    bed.agent
        .handle_by(None, V13, request, &mut |reply| match reply {
            Message::MultipartReply(MultipartReply {
                body: MultipartReplyBody::Flow(f), ..
            }) => {
                parts += 1;
                flows += f.len();
            }
            other => panic!("{other:?}"),
        })
        .unwrap();
    assert_eq!(flows, MANY as usize);
    let listed = start.elapsed();
    let start = Instant::now();
    bed.ok(delete(Match::new()));
    eprintln!(
        "{MANY} entries: added in {added:?}, in force after {synced:?}, {} bytes each; \
         listed in {listed:?} ({parts} parts); deleted in {:?}",
        memory / u64::from(MANY),
        start.elapsed()
    );
    assert!(bed.agent.flows().is_empty());
}
