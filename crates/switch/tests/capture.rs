//! Captures: each frame that a tap wants, once, as it was, with what became of it.

mod common;

use common::{Net, injection, until};
use ir::EntryId;
use std::time::Duration;
use switch::{CaptureFilter, CaptureRecord, Captured, Config, EngineKind, Way};
use testkit::station::{FIRST, call, frame, insert};

const ALL: CaptureFilter = CaptureFilter {
    ingress: true,
    egress: true,
    port: None,
    table: None,
    any_entry: false,
    dropped: false,
    hits: false,
    rate: None,
    snap_len: 1 << 16,
};

fn config(engine: EngineKind) -> Config {
    Config { engine, ..common::config(1) }
}

/// Every engine: what compiled code does and what the interpreter does are told alike.
fn engines() -> [EngineKind; 2] {
    [EngineKind::default(), EngineKind::Interp]
}

/// A switch on three ports: 5 goes to port 2, 6 is dropped, 7 goes to the controller, others miss.
fn net(engine: EngineKind) -> Net {
    let net = Net::with(config(engine), 3);
    // The counters of the entries' ids.
    (0..4).for_each(|id| assert_eq!(net.switch.allocate_counter(), Ok(id)));
    let entries = [
        insert(FIRST, 1, 5, call("out", &[2])),
        insert(FIRST, 2, 6, call("drop", &[])),
        insert(FIRST, 3, 7, call("punt", &[])),
    ];
    net.switch.transact(&entries).unwrap();
    net.switch.sync();
    net
}

/// As many frames as are expected, and no more.
fn take(captured: &Captured, count: usize) -> Vec<CaptureRecord> {
    let next = |_| captured.next(Duration::from_secs(60)).expect("a frame is captured");
    let records = (0..count).map(next).collect();
    assert_eq!(captured.next(Duration::from_millis(50)), None);
    records
}

fn told(records: &[CaptureRecord]) -> Vec<(u32, Way, String)> {
    records.iter().map(|r| (r.port, r.way, r.comment())).collect()
}

#[test]
fn each_frame_is_told_with_its_fate() {
    for engine in engines() {
        let net = net(engine);
        let captured = net.switch.capture(ALL);
        for station in [5, 6, 7] {
            assert!(net.far(1).inject_bytes(&frame(station, 0)));
        }
        let records = take(&captured, 4);
        // What came in stands before what went out, whichever frames shared a burst.
        let mut all = told(&records);
        assert_eq!(all[0].1, Way::In);
        all.sort_by_key(|(_, way, _)| *way == Way::Out);
        let expected = [
            (1, Way::In, "sent to 2"),
            (1, Way::In, "dropped: action_drop"),
            (1, Way::In, "to the controller"),
            (2, Way::Out, "from port 1"),
        ];
        assert_eq!(all, expected.map(|(port, way, text)| (port, way, text.to_owned())));
        let came: Vec<_> = records.iter().filter(|r| r.way == Way::In).collect();
        for (record, station) in came.iter().zip([5, 6, 7]) {
            assert_eq!(record.bytes, frame(station, 0));
            assert_eq!(record.len, record.bytes.len());
        }
        assert_eq!(captured.missed(), 0);
    }
}

#[test]
fn a_filter_is_kept_to() {
    for engine in engines() {
        let net = net(engine);
        let out = net.switch.capture(CaptureFilter { ingress: false, port: Some(2), ..ALL });
        let other = net.switch.capture(CaptureFilter { port: Some(3), ..ALL });
        let short = net.switch.capture(CaptureFilter { egress: false, snap_len: 14, ..ALL });
        assert!(net.far(1).inject_bytes(&frame(5, 0)));
        assert!(net.far(1).inject_bytes(&frame(6, 0)));
        assert_eq!(told(&take(&out, 1)), [(2, Way::Out, "from port 1".to_owned())]);
        let records = take(&short, 2);
        let whole = frame(5, 0);
        assert_eq!((&records[0].bytes[..], records[0].len), (&whole[..14], whole.len()));
        assert_eq!(take(&other, 0), []);
        // What the control side sends goes out, too.
        net.switch.inject(injection(1, frame(9, 1), 2));
        assert_eq!(take(&out, 1)[0].bytes, frame(9, 1));
        // What a frame from the control side did is not told of the next one.
        assert!(net.far(1).inject_bytes(&frame(6, 1)));
        assert_eq!(told(&take(&short, 1)), [(1, Way::In, "dropped: action_drop".to_owned())]);
    }
}

#[test]
fn those_that_hit_an_entry_are_found() {
    for engine in engines() {
        let net = net(engine);
        let captured = net.switch.capture(CaptureFilter {
            ingress: false,
            egress: false,
            table: Some(FIRST),
            ..ALL
        });
        captured.set_entries(vec![EntryId(3), EntryId(2)]);
        for round in 0..20 {
            for station in [5, 6, 5, 7, 8] {
                assert!(net.far(1).inject_bytes(&frame(station, round)));
            }
        }
        let records = take(&captured, 40);
        for (n, record) in records.iter().enumerate() {
            let station = if n % 2 == 0 { 6 } else { 7 };
            assert_eq!(record.bytes, frame(station, n as u32 / 2));
        }
        // The counters moved once a frame: looking counts nothing.
        let hits = [1, 2, 3].map(|id| net.switch.counter(id).packets);
        assert_eq!(hits, [40, 20, 20]);
        captured.set_entries(Vec::new());
        assert!(net.far(1).inject_bytes(&frame(6, 0)));
        assert_eq!(take(&captured, 0), []);
    }
}

#[test]
fn what_is_not_taken_is_counted_and_holds_nothing_up() {
    let net = net(EngineKind::default());
    let captured = net.switch.capture(CaptureFilter { egress: false, ..ALL });
    let sent = 3 * datapath::capture::RECORDS_MAX as u64;
    for n in 0..sent {
        while !net.far(1).inject_bytes(&frame(6, n as u32)) {
            std::thread::yield_now();
        }
    }
    until("all are dropped", || net.switch.counter(2).packets == sent);
    let mut taken = 0;
    while captured.next(Duration::from_millis(50)).is_some() {
        taken += 1;
    }
    assert_eq!(taken + captured.missed(), sent);
    assert!(taken >= datapath::capture::RECORDS_MAX as u64);
    // Once nobody looks, frames go on, and the next tap is served.
    drop(captured);
    let captured = net.switch.capture(CaptureFilter { egress: false, ..ALL });
    assert!(net.far(1).inject_bytes(&frame(5, 1)));
    assert_eq!(told(&take(&captured, 1)), [(1, Way::In, "sent to 2".to_owned())]);
}

/// Each frame's lookups, by table and entry.
fn hits(record: &CaptureRecord) -> Vec<(u32, Option<u32>)> {
    record.hits.iter().map(|(table, entry)| (table.0, entry.map(|e| e.0))).collect()
}

#[test]
fn what_is_dropped_is_told_with_what_it_hit() {
    for engine in engines() {
        let net = net(engine);
        let captured = net.switch.capture(CaptureFilter { dropped: true, hits: true, ..ALL });
        for station in [5, 6, 7, 8, 6] {
            assert!(net.far(1).inject_bytes(&frame(station, 0)));
        }
        let records = take(&captured, 3);
        let stations = [6, 8, 6].map(|station| frame(station, 0));
        assert_eq!(records.iter().map(|r| r.bytes.clone()).collect::<Vec<_>>(), stations);
        assert!(records.iter().all(|r| !r.fate.dropped.is_empty()), "{records:?}");
        assert_eq!(hits(&records[0]), [(FIRST.0, Some(2))]);
        assert_eq!(hits(&records[1])[0], (FIRST.0, None), "a miss is told as one");
        assert_eq!(hits(&records[2]), [(FIRST.0, Some(2))]);
    }
}

#[test]
fn a_table_alone_shows_what_is_looked_up_there() {
    for engine in engines() {
        let net = net(engine);
        let filter = CaptureFilter { ingress: false, any_entry: true, hits: true, ..ALL };
        let first = net.switch.capture(CaptureFilter { table: Some(FIRST), ..filter.clone() });
        let later = switch::TableId(FIRST.0 + 40);
        let other = net.switch.capture(CaptureFilter { table: Some(later), ..filter });
        for station in [5, 6, 8] {
            assert!(net.far(1).inject_bytes(&frame(station, 0)));
        }
        let records = take(&first, 3);
        let entries: Vec<_> = records.iter().map(|r| hits(r)[0].1).collect();
        assert_eq!(entries, [Some(1), Some(2), None]);
        assert_eq!(take(&other, 0), []);
        let counted = [1, 2].map(|id| net.switch.counter(id).packets);
        assert_eq!(counted, [1, 1], "looking counts nothing");
    }
}

#[test]
fn dropped_copies_count_as_dropped_and_ports_are_kept_to() {
    for engine in engines() {
        let net = net(engine);
        // Port 2 takes nothing any more: what goes there is dropped.
        net.switch
            .configure_port(2, switch::PortConfig { no_forward: true, ..Default::default() })
            .unwrap();
        let captured = net.switch.capture(CaptureFilter { dropped: true, port: Some(1), ..ALL });
        // What becomes of a frame that nobody asks for is not told of the next one.
        assert!(net.far(3).inject_bytes(&frame(6, 0)));
        until("it is dropped", || net.switch.counter(2).packets == 1);
        assert!(net.far(1).inject_bytes(&frame(5, 0)));
        let records = take(&captured, 1);
        assert_eq!(records[0].comment(), "dropped at port 2: port_no_fwd");
        assert!(records[0].hits.is_empty(), "not asked for");
    }
}
