//! Frames of Open vSwitch, heard and sent.

use std::collections::{BTreeMap, BTreeSet};

use bfd::packet::{flags, read};
use bfd::{Config, Identity, Received, Session};

const FRAMES: &str = include_str!("open_vswitch/frames.txt");

struct Recorded {
    at_ms: u64,
    sender: String,
    frame: Vec<u8>,
}

fn recorded() -> Vec<Recorded> {
    let lines = FRAMES.lines().filter(|line| !line.starts_with('#'));
    let each = lines.map(|line| {
        let mut words = line.split_whitespace();
        let at_ms = words.next().and_then(|word| word.parse().ok()).expect("a time");
        let sender = words.next().expect("a sender").to_owned();
        let hex = words.next().expect("a frame");
        let octet = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("an octet");
        let frame = (0..hex.len()).step_by(2).map(octet).collect();
        Recorded { at_ms, sender, frame }
    });
    each.collect()
}

fn frames_of(sender: &str) -> BTreeSet<Vec<u8>> {
    let all = recorded().into_iter().filter(|it| it.sender == sender);
    all.map(|it| it.frame).collect()
}

fn config(text: &str) -> Config {
    let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
    let column: BTreeMap<_, _> = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    Config::read(&column).expect("a configuration").expect("a session")
}

fn status(
    diagnostic: &str,
    flaps: u32,
    forwarding: bool,
    remote: &str,
    states: [&str; 2],
) -> BTreeMap<String, String> {
    let pairs = [
        ("diagnostic", diagnostic.to_owned()),
        ("flap_count", flaps.to_string()),
        ("forwarding", forwarding.to_string()),
        ("remote_diagnostic", remote.to_owned()),
        ("remote_state", states[0].to_owned()),
        ("state", states[1].to_owned()),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value)).into()
}

#[test]
fn every_frame_is_read_and_written_again() {
    let all = recorded();
    assert!(all.len() > 30, "{}", all.len());
    for it in &all {
        let (around, packet) = read(&it.frame).expect("a control packet");
        assert_eq!(packet.expect("a good one").frame(&around), it.frame, "at {} ms", it.at_ms);
    }
}

/// In the place of the second ovs-vswitchd: it says no frame that that one has not said, and finds what that one found.
#[test]
fn the_second_side_is_played() {
    let identity = Identity {
        mac: [2, 0, 0, 0, 0, 0x0b],
        discriminator: 0xd967_b25e,
        source_port: 49152,
        seed: 1,
    };
    let begin = 3100;
    let mut session = Session::new(config("enable=true min_rx=300 min_tx=200"), identity, begin);
    let mut said = BTreeSet::new();
    let mut answered = 0;
    let mut found = BTreeMap::new();
    // Before it hears the first one, it says that it is down.
    said.extend(session.due(begin));
    let first = recorded().into_iter().filter(|it| it.at_ms > begin && it.sender == "x");
    for it in first {
        let polled = read(&it.frame).and_then(|(_, packet)| packet.ok()).expect("a packet").flags
            & flags::POLL
            != 0;
        said.extend(session.due(it.at_ms));
        assert_eq!(session.receive(&it.frame, 0, it.at_ms), Received::Taken);
        while let Some(frame) = session.due(it.at_ms) {
            let packet = read(&frame).and_then(|(_, packet)| packet.ok()).expect("a packet");
            answered += u32::from(packet.flags & flags::FINAL != 0);
            assert_eq!(
                packet.flags & flags::FINAL != 0,
                polled,
                "a poll is answered at once, and nothing else"
            );
            said.insert(frame);
        }
        found.insert(it.at_ms, session.status());
    }
    assert_eq!(answered, 2);
    let theirs = frames_of("y");
    let other: Vec<_> = said.difference(&theirs).collect();
    assert!(other.is_empty(), "Open vSwitch has not said {other:02x?}");
    let at = |ms: u64| found.range(..=ms).next_back().expect("a status").1.clone();
    let none = "No Diagnostic";
    assert_eq!(at(9200), status(none, 1, true, none, ["up", "up"]));
    assert_eq!(at(11_000), status(none, 2, false, "Concatenated Path Down", ["up", "up"]));
    assert_eq!(at(13_000), status(none, 3, true, none, ["up", "up"]));
    // The first side has gone.
    let last = *found.keys().next_back().expect("a frame");
    let end = session.next_wake(last + 899).max(last + 900);
    session.due(end);
    assert_eq!(
        session.status(),
        status("Control Detection Time Expired", 4, false, none, ["down", "down"])
    );
    let text = session.show(end);
    let timeless: Vec<&str> = text.lines().filter(|line| !line.contains(" Time: ")).collect();
    assert_eq!(
        timeless,
        [
            "  Forwarding: false",
            "  Detect Multiplier: 3",
            "  Concatenated Path Down: false",
            "  TX Interval: Approx 1000ms",
            "  RX Interval: Approx 300ms",
            "",
            "  Local Flags: none",
            "  Local Session State: down",
            "  Local Diagnostic: Control Detection Time Expired",
            "  Local Discriminator: 0xd967b25e",
            "  Local Minimum TX Interval: 1000ms",
            "  Local Minimum RX Interval: 300ms",
            "",
            "  Remote Flags: none",
            "  Remote Session State: down",
            "  Remote Diagnostic: No Diagnostic",
            "  Remote Discriminator: 0x0",
            "  Remote Minimum TX Interval: 0ms",
            "  Remote Minimum RX Interval: 1ms",
            "  Remote Detect Multiplier: 3",
        ]
    );
}

/// In the place of the first: its polls are those of Open vSwitch.
#[test]
fn the_first_side_is_played() {
    let identity = Identity {
        mac: [2, 0, 0, 0, 0, 0x0a],
        discriminator: 0x58f9_b371,
        source_port: 49152,
        seed: 1,
    };
    let mut session = Session::new(config("enable=true"), identity, 0);
    let mut said = BTreeSet::new();
    let mut polls = 0;
    let changes = [(9300, "enable=true cpath_down=true"), (11_300, "enable=true min_tx=50")];
    let mut changes = changes.into_iter().peekable();
    let mut take = |session: &mut Session, now_ms: u64| {
        while let Some(frame) = session.due(now_ms) {
            let packet = read(&frame).and_then(|(_, packet)| packet.ok()).expect("a packet");
            polls += u32::from(packet.flags == flags::POLL);
            said.insert(frame);
        }
    };
    take(&mut session, 0);
    // Until the second side finds that the first has gone.
    for it in recorded().into_iter().filter(|it| it.sender == "y" && it.at_ms < 14_500) {
        if let Some((at, text)) = changes.next_if(|(at, _)| *at < it.at_ms) {
            session.set_config(config(text), at);
            take(&mut session, at);
        }
        session.receive(&it.frame, 0, it.at_ms);
        take(&mut session, it.at_ms);
    }
    assert_eq!(polls, 2);
    let theirs = frames_of("x");
    let other: Vec<_> = said.difference(&theirs).collect();
    assert!(other.is_empty(), "Open vSwitch has not said {other:02x?}");
    assert!(changes.next().is_none());
}
