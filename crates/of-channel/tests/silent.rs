//! Peers that ask and never read. Alone in its process, whose memory is measured.

mod common;

use common::*;
use of_channel::Config;
use of_channel::connection::Timing;
use openflow::{FlowStatsRequest, Message, MultipartRequest, MultipartRequestBody, Version};
use std::io::Write;
use std::time::Duration;

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn answers_that_nobody_reads_cost_little_each_and_end_with_their_connections() {
    let probe = Duration::from_secs(2);
    let bed = Bed::new(Config { timing: Timing { probe }, ..listening() });
    {
        let mut agent = bed.agent.lock().unwrap();
        for n in 0..30_000 {
            agent.handle(Version::V13, Message::FlowMod(flow(n))).unwrap();
        }
    }
    let before = resident();
    // Each answer has some 3 MB, and each connection takes 1 MiB or so of it.
    let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
    let all = Message::MultipartRequest(MultipartRequest { more: false, body });
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut peer = bed.controller(Version::V13);
        // More than the kernel holds for it.
        let (_, one) = peer.encode(&all);
        peer.stream.write_all(&one.repeat(8)).unwrap();
        silent.push(peer);
    }
    // Who asks is served meanwhile.
    let mut other = bed.controller(Version::V13);
    assert_eq!(other.dump().len(), 30_000);
    let grown = resident().saturating_sub(before);
    println!("grew by {} MiB", grown >> 20);
    assert!(grown < 160 << 20, "grew by {grown} bytes");
    // They are given up, and one that answers echo requests is not.
    wait_for("the silent ones are given up", || {
        other.ask(&Message::EchoRequest(vec![]));
        bed.channel().connected().len() == 1
    });
    assert_eq!(other.dump().len(), 30_000);
}
