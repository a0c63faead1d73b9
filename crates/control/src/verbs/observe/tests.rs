//! Frames are told with their verdicts, chosen as a match chooses them, and no more than the rate allows.

use super::*;
use crate::bridges::bed::{bridges, flow, frame, memory};
use std::io::{BufRead, BufReader};
use switch::EngineKind;

/// The lines that a question's stream has until it ends.
fn lines(question: &Observe, at: &At<'_>, act: impl FnOnce() + Send) -> Vec<Line> {
    let Reply::Stream((), write) = question.clone().answer(at).unwrap() else {
        panic!("no stream")
    };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut told = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || write(&theirs).unwrap());
        // It begins when its thread does.
        std::thread::sleep(Duration::from_millis(100));
        act();
        told = BufReader::new(&ours)
            .lines()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect();
    });
    told
}

fn seen(line: &Line) -> (&str, &str, Vec<&str>, Vec<&str>) {
    let Line::Seen(seen) = line else { panic!("{line:?}") };
    let dropped = seen.dropped.iter().map(|dropped| &*dropped.reason).collect();
    (&seen.in_name, &seen.verdict, seen.sent.iter().map(|name| &**name).collect(), dropped)
}

#[test]
fn frames_are_told_with_what_became_of_them() {
    for engine in crate::bridges::bed::engines() {
        let bridges = bridges(1, engine);
        bridges.add(crate::bridges::BridgeConfig::named("b")).unwrap();
        let (left, _right) = (memory(&bridges, "b", "obs-l"), memory(&bridges, "b", "obs-r"));
        flow(&bridges, "b", "priority=2,dl_dst=02:00:00:00:00:05,actions=output:2");
        flow(&bridges, "b", "priority=1,dl_dst=02:00:00:00:00:06,actions=drop");
        let first = bridges.first();
        let at = At::of(&bridges, first.as_ref(), false, None);
        let send = |to: &[u8]| {
            to.iter().for_each(|to| assert!(left.inject_bytes(&frame(*to, 9, 0))));
        };
        let all = Observe { count: Some(3), ..Observe::default() };
        let told = lines(&all, &at, || send(&[5, 6, 7]));
        assert_eq!(seen(&told[0]), ("obs-l", "forwarded", vec!["obs-r"], vec![]));
        assert_eq!(seen(&told[1]), ("obs-l", "dropped", vec![], vec!["action_drop"]));
        assert_eq!(seen(&told[2]), ("obs-l", "dropped", vec![], vec!["table_miss"]));
        assert!(shown(&told[0]).ends_with(" -> to obs-r"), "{}", shown(&told[0]));
        assert!(shown(&told[1]).ends_with(" -> DROPPED: action_drop"), "{}", shown(&told[1]));
        // Of these one is chosen, by what is in it, by its port, or by what became of it.
        let one = |question: Observe| {
            let told =
                lines(&Observe { count: Some(1), hex: true, ..question }, &at, || send(&[5, 6, 7]));
            let Line::Seen(seen) = &told[0] else { panic!("{told:?}") };
            seen.hex[10..12].to_owned()
        };
        let filter = |text: &str| Observe { filter: text.to_owned(), ..Observe::default() };
        assert_eq!(one(filter("dl_dst=02:00:00:00:00:06")), "06");
        assert_eq!(one(filter("in_port=obs-l,dl_dst=02:00:00:00:00:07")), "07");
        assert_eq!(one(Observe { dropped: true, ..Observe::default() }), "06");
        let reason = Some("table_miss".to_owned());
        assert_eq!(one(Observe { reason, ..Observe::default() }), "07");
        bridges.stop();
    }
}

#[test]
fn no_more_is_looked_at_than_the_rate_allows() {
    let bridges = bridges(1, EngineKind::default());
    bridges.add(crate::bridges::BridgeConfig::named("b")).unwrap();
    let left = memory(&bridges, "b", "obs-rate");
    let first = bridges.first();
    let at = At::of(&bridges, first.as_ref(), false, None);
    const SENT: u64 = 20_000;
    let question = Observe { rate: NonZeroU32::new(10).unwrap(), ..Observe::default() };
    let Reply::Stream((), write) = question.answer(&at).unwrap() else { panic!("no stream") };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut looked, mut passed) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(move || write(&theirs));
        std::thread::sleep(Duration::from_millis(100));
        scope.spawn(|| {
            for n in 0..SENT {
                while !left.inject_bytes(&frame(5, 9, n as u16)) {
                    std::thread::yield_now();
                }
            }
        });
        let mut lines = BufReader::new(&ours).lines();
        while looked + passed < SENT {
            match serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() {
                Line::Seen(_) => looked += 1,
                Line::Passed(report) => {
                    passed += report.passed + report.missed;
                }
            }
        }
        ours.shutdown(std::net::Shutdown::Both).unwrap();
    });
    assert_eq!(looked + passed, SENT);
    // Whole bursts are looked at, and each pays for the time behind it.
    assert!(looked > 0 && looked < SENT / 4, "{looked} of {SENT}");
    bridges.stop();
}

#[test]
fn what_no_frame_has_is_refused() {
    let bridges = bridges(1, EngineKind::default());
    bridges.add(crate::bridges::BridgeConfig::named("b")).unwrap();
    let first = bridges.first();
    let at = At::of(&bridges, first.as_ref(), false, None);
    let refused = |question: Observe| question.answer(&at).map(drop).unwrap_err();
    let filter = |text: &str| Observe { filter: text.to_owned(), ..Observe::default() };
    for state in ["reg0=1", "metadata=3", "ct_state=+trk", "tun_id=5"] {
        assert!(refused(filter(state)).contains("is no part of a frame as it comes in"), "{state}");
    }
    assert!(refused(filter("tp_dsr=80")).contains("tp_dst"), "{}", refused(filter("tp_dsr=80")));
    let reason = Observe { reason: Some("bad".to_owned()), ..Observe::default() };
    assert!(refused(reason).contains("reasons are "));
    bridges.stop();
}
