//! The page of two bridges that forward.

use super::*;
use crate::bridges::bed::{LONG, bridges, flow, frame, memory, patch, until};
use crate::bridges::{BridgeConfig, Bridges};
use crate::program::tables;
use crate::sync::lock;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use switch::EngineKind;

/// Samples by name and labels. Each must belong to the family whose head is above it.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut family, mut kinds) = (BTreeMap::new(), String::new(), Vec::new());
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            assert!(!kinds.contains(&name), "{name} comes twice");
            kinds.push(name);
            name.clone_into(&mut family);
            assert!(["counter", "gauge", "histogram", "info"].contains(&kind), "{line}");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(&family), "{line} is not of {family}");
            assert!(
                samples.insert(name.to_owned(), value.parse().unwrap()).is_none(),
                "{line} comes twice"
            );
        }
    }
    samples
}

fn meter(bridges: &Bridges, text: &str) {
    let bridge = bridges.bridge("br0").unwrap();
    let openflow = bridge.openflow().unwrap();
    tables::tell(&mut lock(&openflow.agent), tables::Told::Meter, text, &|_| None).unwrap();
}

fn group(bridges: &Bridges, text: &str) {
    let bridge = bridges.bridge("br0").unwrap();
    let openflow = bridge.openflow().unwrap();
    tables::tell(&mut lock(&openflow.agent), tables::Told::Group, text, &|_| None).unwrap();
}

/// Two bridges behind one another. Ten frames go through a meter, a group and a patch port; three are dropped.
fn forwarding(name: &str) -> Bridges {
    let bridges = bridges(1, EngineKind::default());
    let mut far = Vec::new();
    for (bridge, own, peer) in [("br0", "to1", "to0"), ("br1", "to0", "to1")] {
        bridges.add(BridgeConfig::named(bridge)).unwrap();
        far.push(memory(&bridges, bridge, &format!("{name}-{bridge}")));
        patch(&bridges, bridge, own, peer);
    }
    meter(&bridges, "meter=7,pktps,burst,bands=type=drop,rate=1000000,burst_size=1000000");
    group(&bridges, "group_id=3,type=all,bucket=output:2");
    flow(&bridges, "br0", "dl_dst=02:00:00:00:00:01,actions=meter:7,group:3");
    flow(&bridges, "br0", "priority=1,actions=drop");
    flow(&bridges, "br1", "actions=NORMAL");
    let up = |bridge: &str, port: &str| {
        bridges.bridge(bridge).unwrap().port(port).unwrap().view.is_live()
    };
    until("the patch ports are up", || up("br0", "to1") && up("br1", "to0"));
    for n in 0..10 {
        assert!(far[0].inject_bytes(&frame(1, 0, n)));
        far[1].take_within(LONG).expect("a frame comes through");
    }
    for n in 0..3 {
        assert!(far[0].inject_bytes(&frame(9, 0, n)));
    }
    let port = || bridges.bridge("br0").unwrap().port(&format!("{name}-br0")).unwrap();
    until("three are dropped", || port().counters.drops.contains(&("action_drop", 3)));
    let stations = || bridges.bridge("br1").unwrap().stations().len();
    until("a station is learnt", || stations() == 1);
    bridges
}

#[test]
fn what_bridges_count_is_on_the_page() {
    let bridges = forwarding("metrics");
    let page_text = page(&bridges, Format::Prometheus, 1);
    let samples = samples(&page_text);
    let has =
        |name: &str| *samples.get(name).unwrap_or_else(|| panic!("no {name} in\n{page_text}"));
    for (name, value) in [
        (r#"millrace_port_receive_packets_total{bridge="br0",port="metrics-br0"}"#, 13.0),
        (r#"millrace_port_receive_bytes_total{bridge="br0",port="metrics-br0"}"#, 780.0),
        (r#"millrace_port_transmit_packets_total{bridge="br0",port="to1"}"#, 10.0),
        (r#"millrace_port_receive_packets_total{bridge="br1",port="to0"}"#, 10.0),
        (r#"millrace_port_transmit_packets_total{bridge="br1",port="metrics-br1"}"#, 10.0),
        (r#"millrace_port_drops_total{bridge="br0",port="metrics-br0",reason="action_drop"}"#, 3.0),
        (r#"millrace_port_up{bridge="br0",port="to1"}"#, 1.0),
        (r#"millrace_port_info{bridge="br1",port="to0",number="2",kind="patch"}"#, 1.0),
        (r#"millrace_flow_entries{bridge="br0"}"#, 2.0),
        (r#"millrace_groups{bridge="br0"}"#, 1.0),
        (r#"millrace_meters{bridge="br0"}"#, 1.0),
        (r#"millrace_group_packets_total{bridge="br0",group="3"}"#, 10.0),
        (r#"millrace_group_bytes_total{bridge="br0",group="3"}"#, 600.0),
        (r#"millrace_meter_packets_total{bridge="br0",meter="7"}"#, 10.0),
        (r#"millrace_meter_band_packets_total{bridge="br0",meter="7",band="0"}"#, 0.0),
        (r#"millrace_metrics_left_out{bridge="br0",kind="groups"}"#, 0.0),
        (r#"millrace_metrics_left_out{bridge="br0",kind="entries"}"#, 1.0),
        (r#"millrace_stations{bridge="br1"}"#, 1.0),
        (r#"millrace_conntrack_connections{bridge="br0"}"#, 0.0),
        (r#"millrace_table_entries{bridge="br0",table="t0"}"#, 2.0),
        (r#"millrace_table_lookups_total{bridge="br0",table="t0"}"#, 13.0),
        (r#"millrace_log_lost_lines_total{log="log"}"#, 0.0),
    ] {
        assert_eq!(has(name), value, "{name}");
    }
    // Of two entries the one that is hit more is told.
    let entry =
        r#"bridge="br0",table="0",priority="32768",cookie="0x0",match="dl_dst=02:00:00:00:00:01""#;
    assert_eq!(has(&format!("millrace_entry_packets_total{{{entry}}}")), 10.0);
    assert_eq!(has(&format!("millrace_entry_bytes_total{{{entry}}}")), 600.0);
    let told = samples.keys().filter(|name| name.starts_with("millrace_entry_packets_total"));
    assert_eq!(told.filter(|name| name.contains(r#"bridge="br0""#)).count(), 1);
    let engines = ["code", "whole", "interpreter"];
    let ran = engines.map(|engine| {
        has(&format!(r#"millrace_engine_packets_total{{bridge="br0",engine="{engine}"}}"#))
    });
    assert_eq!(ran.iter().sum::<f64>(), 13.0);
    let taken = has(r#"millrace_worker_taken_total{worker="0"}"#);
    assert!(taken >= 23.0, "frames of both bridges, and commands: {taken}");
    assert!(has(r#"millrace_worker_busy_seconds_total{worker="0"}"#) > 0.0);
    for family in ["transaction", "publication", "barrier"] {
        let count = has(&format!(r#"millrace_{family}_seconds_count{{bridge="br0"}}"#));
        assert!(count >= 2.0, "{family}: {count}");
    }
    assert!(has("process_resident_memory_bytes") > 1e6);
    assert!(has("process_start_time_seconds") > 1.6e9);
    // The same in the other format.
    let open = page(&bridges, Format::OpenMetrics, 0);
    assert!(!open.contains("millrace_entry_"), "nobody asked for entries");
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE millrace_build info\n"));
    bridges.stop();
}

#[test]
fn the_page_is_served_in_the_format_that_is_asked_for() {
    let bridges = bridges(1, EngineKind::default());
    let at = Some(MetricsAt { address: "127.0.0.1:0".parse().unwrap(), entries: 0 });
    let server = serve(at, &bridges, Bind::Now, |_| Ok(None)).unwrap().unwrap();
    let ask = |accept: &str| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let head = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{accept}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let text = ask("");
    assert!(text.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{text}");
    assert!(text.contains("\nmillrace_build_info{version=\""), "{text}");
    let text = ask("Accept: application/openmetrics-text\r\n");
    assert!(text.contains("content-type: application/openmetrics-text; version=1.0.0"), "{text}");
    drop(server);
    assert!(serve(None, &bridges, Bind::Now, |_| Ok(None)).unwrap().is_none());
    bridges.stop();
}
