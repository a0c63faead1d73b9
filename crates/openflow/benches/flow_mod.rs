//! Time per flow-mod: decoding, encoding, and writing flow statistics, for 100,000 flows of four
//! fields and one output. Checks that what it times comes out right.

use openflow::*;
use smallvec::smallvec;
use std::hint::black_box;
use std::time::Instant;

const FLOWS: u32 = 100_000;

fn flow_mod(n: u32) -> FlowMod {
    let matching = Match::new()
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::IpProto, 6)
        .with(FieldId::Ipv4Dst, (0x0a00_0000 + n).into())
        .with(FieldId::TcpDst, 80);
    let actions = vec![Action::output(PortNo(1 + n % 8))];
    FlowMod::add(matching, smallvec![Instruction::ApplyActions(actions)])
}

fn time<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = black_box(work());
    let elapsed = start.elapsed();
    println!(
        "{what}: {:.1} ms, {} ns each",
        elapsed.as_secs_f64() * 1e3,
        elapsed.as_nanos() / u128::from(FLOWS)
    );
    result
}

fn main() {
    let messages: Vec<Message> = (0..FLOWS).map(|n| Message::FlowMod(flow_mod(n))).collect();
    for version in Version::ALL {
        let stream = time(&format!("{version} encode flow-mods"), || {
            let mut stream = Vec::new();
            for message in &messages {
                encode_into(&mut stream, version, Xid(1), message).expect("it can be said");
            }
            stream
        });
        let decoded = time(&format!("{version} decode flow-mods"), || {
            let mut rest = &stream[..];
            let mut flows = Vec::with_capacity(messages.len());
            while let Frame::Message { length } = frame(rest) {
                let (message, tail) = rest.split_at(length);
                flows.push(decode(version, message).expect("it was encoded").1);
                rest = tail;
            }
            flows
        });
        assert_eq!(decoded.len(), messages.len());
        if version == Version::V13 {
            assert_eq!(decoded, messages);
        }
        let flows = decoded
            .into_iter()
            .map(|message| match message {
                Message::FlowMod(m) => FlowStats {
                    table_id: m.table_id,
                    age: Age::default(),
                    priority: m.priority,
                    idle_timeout: 0,
                    hard_timeout: 0,
                    flags: m.flags,
                    importance: m.importance,
                    cookie: m.cookie,
                    packet_count: 0,
                    byte_count: 0,
                    uncounted: m.uncounted,
                    matching: m.matching,
                    instructions: m.instructions,
                },
                other => panic!("{} among the flow-mods", other.type_name()),
            })
            .collect();
        let reply = MultipartReply { more: false, body: MultipartReplyBody::Flow(flows) };
        let reply = Message::MultipartReply(reply);
        let bytes = time(&format!("{version} encode flow statistics"), || {
            encode(version, Xid(1), &reply).expect("it can be said")
        });
        assert!(bytes.len() > 88 * messages.len());
    }
}
