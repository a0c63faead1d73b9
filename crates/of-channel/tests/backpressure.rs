//! A peer that asks without reading. Alone in its process, whose memory is measured.

mod common;

use common::*;
use openflow::{FlowStatsRequest, Message, MultipartRequest, MultipartRequestBody, Version};
use std::io::Write;
use std::time::{Duration, Instant};

#[test]
fn who_asks_without_reading_is_held_up() {
    let bed = Bed::new(listening());
    let mut greedy = bed.controller(Version::V13);
    for i in 0..2000 {
        greedy.send(&Message::FlowMod(flow(i)));
    }
    greedy.barrier();
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let before = resident();
    let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
    let (_, one) =
        greedy.encode(&Message::MultipartRequest(MultipartRequest { more: false, body }));
    // Each is answered by some 200 KB: 2 GB in all, if nobody minded.
    let many: Vec<u8> = one.iter().copied().cycle().take(one.len() * 10_000).collect();
    let writing = {
        let mut stream = greedy.stream.try_clone().unwrap();
        std::thread::spawn(move || stream.write_all(&many))
    };
    // Others are served meanwhile.
    let mut other = bed.controller(Version::V13);
    let until = Instant::now() + Duration::from_secs(1);
    let mut slowest = Duration::ZERO;
    while Instant::now() < until {
        let asked = Instant::now();
        other.ask(&Message::EchoRequest(vec![]));
        slowest = slowest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    }
    let grown = resident().saturating_sub(before);
    println!("grew by {} KiB; slowest echo of another took {slowest:?}", grown >> 10);
    assert!(grown < 100 << 20, "grew by {grown} bytes");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    // Once it reads, it goes on.
    for _ in 0..100 {
        greedy.next().unwrap();
    }
    // The write ends either way, with the connection at the latest.
    greedy.stream.shutdown(std::net::Shutdown::Both).unwrap();
    let _ = writing.join().unwrap();
    other.barrier();
    assert_eq!(bed.flows(), 2000);
}
