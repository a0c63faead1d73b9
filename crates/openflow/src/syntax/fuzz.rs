//! The body of the fuzz target `syntax`, which the unit tests run too.

use super::*;
use crate::flow::FlowStats;
use crate::group::GroupDesc;
use crate::ids::PortNo;
use crate::ids::{Age, TableId};
use crate::meter::MeterConfig;

/// Reads `data` as every kind of text, in every version. Nothing may panic; an error points into
/// the text; what was read prints as a text that reads back as the same value.
///
/// # Panics
/// When it does not; that is the finding.
pub fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for (_, line) in lines(text) {
        for version in Version::ALL {
            let named = |name: &str| (name == "eth0").then_some(PortNo(1));
            fuzz_line(line, &Context { version, ports: &named });
        }
        if let Some(packet) = looked_at(line, parse_packet(line)) {
            assert!(packet.bytes.len() >= 60, "{line}");
        }
    }
}

fn looked_at<T>(line: &str, read: Result<T, SyntaxError>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(error.column >= 1 && error.column <= line.len() + 1, "{line}: {error}");
            assert!(error.to_string().starts_with("column "));
            None
        }
    }
}

fn fuzz_line(line: &str, cx: &Context<'_>) {
    let v = cx.version;
    if let Some(m) = looked_at(line, parse_match(line, cx)) {
        let printed = print_match(&m, v);
        assert_eq!(parse_match(&printed, cx).as_ref(), Ok(&m), "{line} → {printed}");
    }
    if let Some(list) = looked_at(line, parse_actions(line, cx)) {
        let printed = print_instructions(&list, v);
        assert_eq!(parse_actions(&printed, cx).as_ref(), Ok(&list), "{line} → {printed}");
    }
    if let Some(flow) = looked_at(line, parse_flow(line, cx)) {
        let printed = print_flow_mod(&flow, v);
        assert_eq!(parse_flow(&printed, cx).as_ref(), Ok(&flow), "{line} → {printed}");
        let stats = FlowStats {
            table_id: TableId(0),
            age: Age { sec: 1, nsec: 20_000_000 },
            priority: flow.priority,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            flags: flow.flags,
            importance: 0,
            cookie: flow.cookie,
            packet_count: 3,
            byte_count: 4,
            uncounted: Default::default(),
            matching: flow.matching.clone(),
            instructions: flow.instructions.clone(),
        };
        let printed = print_flow(&stats, v, true);
        let again = parse_flow(&printed, cx).map(|flow| (flow.matching, flow.instructions));
        assert_eq!(again, Ok((flow.matching, flow.instructions)), "{line} → {printed}");
    }
    if let Some(group) = looked_at(line, parse_group(line, cx)) {
        let printed = print_group_mod(&group, v);
        let crate::group::GroupMod { group_type, group_id, selection, buckets, .. } = group.clone();
        assert_eq!(parse_group(&printed, cx), Ok(group), "{line} → {printed}");
        print_group(&GroupDesc { group_type, group_id, selection, buckets }, v);
    }
    if let Some(meter) = looked_at(line, parse_meter(line, cx)) {
        let printed = print_meter_mod(&meter);
        let crate::meter::MeterMod { flags, meter_id, bands, .. } = meter.clone();
        assert_eq!(parse_meter(&printed, cx), Ok(meter), "{line} → {printed}");
        print_meter(&MeterConfig { flags, meter_id, bands });
    }
}
