//! OpenFlow pipelines from flow and group lines, without a switch around them.

use contract::tunnel::OptionMap;
use ir::{Bits, Bucket, CounterId, Entry, EntryId, Group, GroupId, GroupKind, Pipeline, Update};
use of_lower::normal::config::Extras;
use of_lower::{
    Context, Interner, Layout, ProgramConfig, lower_bucket, lower_instructions, lower_match,
    no_elements,
};
use openflow::syntax::{self, parse_flow, parse_group, parse_meter, parse_packet};
use openflow::{FlowMod, GroupType, PortNo, Version};
use std::sync::Arc;

/// A pipeline under construction.
pub(crate) struct Flows {
    pub(crate) pipeline: Pipeline,
    pub(crate) layout: Arc<Layout>,
    interner: Interner,
    next: u32,
}

impl Flows {
    /// The program with so many tables; ALL and FLOOD lead to ports 1 to 3.
    pub(crate) fn new(tables: u8) -> Flows {
        Flows::with(tables, &Extras::default())
    }

    /// The same for tunnel ports, whose descriptors have option 0.
    pub(crate) fn for_tunnels(tables: u8) -> Flows {
        let map = OptionMap::new(1, &[(0, 0x102, 0x80, 4)]).unwrap();
        Flows::with(tables, &Extras { tunnels: Some(Arc::new(map)), ..Extras::default() })
    }

    fn with(tables: u8, extras: &Extras) -> Flows {
        let config = ProgramConfig { tables, table_capacity: 4096, normal_capacity: 64 };
        let (program, layout) = of_lower::program_of(&config, extras);
        let layout = Arc::new(layout);
        let pipeline = Pipeline::new(Arc::new(program)).unwrap();
        let interner = Interner::new(layout.clone());
        let mut flows = Flows { pipeline, layout, interner, next: 0 };
        for id in [of_lower::layout::GROUP_ALL, of_lower::layout::GROUP_FLOOD] {
            let buckets = (1..=3).map(|port| bucket(flows.layout.output_call(port), port));
            let buckets = buckets.collect();
            let counter = CounterId(id.0 & 0xff);
            let group = Group { kind: GroupKind::All, buckets, hash: [].into(), counter };
            flows.transact(&[Update::SetGroup(id, Arc::new(group))]);
        }
        flows
    }

    /// With these groups and flows.
    pub(crate) fn of(tables: u8, groups: &[&str], lines: &str) -> Flows {
        let mut flows = Flows::new(tables);
        groups.iter().for_each(|line| flows.group(line));
        for (_, line) in syntax::lines(lines) {
            flows.flow(line.trim());
        }
        flows
    }

    fn transact(&mut self, updates: &[Update]) -> bool {
        self.pipeline.transact(updates).is_ok()
    }

    pub(crate) fn flow(&mut self, line: &str) {
        let flow = parse_flow(line, &syntax::Context::new(Version::V13));
        let flow = flow.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(self.add(&flow), "{line}");
    }

    /// Adds a flow; false if it cannot be.
    pub(crate) fn add(&mut self, flow: &FlowMod) -> bool {
        let table = flow.table_id.0;
        let miss = flow.priority == 0 && flow.matching.iter().next().is_none();
        let context = if miss { Context::TableMiss } else { Context::Entry };
        let Ok(call) =
            lower_instructions(&self.layout, &no_elements, table, context, &flow.instructions)
        else {
            return false;
        };
        let action = call.intern(&mut self.interner);
        self.next += 1;
        let entry = Entry {
            id: EntryId(self.next),
            priority: flow.priority.into(),
            matches: lower_match(&flow.matching),
            action,
            cookie: 0,
            idle_timeout_ns: 0,
            hard_timeout_ns: 0,
        };
        let insert = Update::Insert(ir::TableId(table.into()), Arc::new(entry));
        let updates: Vec<Update> = self.interner.adds().chain([insert]).collect();
        let done = self.transact(&updates);
        if done {
            self.interner.commit()
        } else {
            self.interner.rollback()
        }
        done
    }

    pub(crate) fn group(&mut self, line: &str) {
        let group = parse_group(line, &syntax::Context::new(Version::V13)).unwrap();
        let calls: Vec<_> = (group.buckets.iter())
            .map(|b| lower_bucket(&self.layout, &b.actions).unwrap().intern(&mut self.interner))
            .collect();
        let buckets = (group.buckets.iter().zip(calls).zip(1u32..)).map(|((b, call), n)| Bucket {
            weight: b.weight,
            watch_port: (b.watch_port != PortNo::ANY).then_some(b.watch_port.0),
            watch_group: (b.watch_group.0 < 100).then_some(GroupId(b.watch_group.0)),
            ..bucket(call, 100 * group.group_id.0 + n)
        });
        let kind = match group.group_type {
            GroupType::All => GroupKind::All,
            GroupType::Select => GroupKind::Select,
            GroupType::Indirect => GroupKind::Indirect,
            GroupType::FastFailover => GroupKind::FastFailover,
        };
        let (id, hash) = (group.group_id.0, self.layout.select_hash().into());
        let buckets = buckets.collect();
        let lowered = Group { kind, buckets, hash, counter: CounterId(1000 + id) };
        let set = Update::SetGroup(GroupId(id), Arc::new(lowered));
        let updates: Vec<Update> = self.interner.adds().chain([set]).collect();
        assert!(self.transact(&updates), "{line}");
        self.interner.commit();
    }

    pub(crate) fn meter(&mut self, line: &str) {
        let meter = parse_meter(line, &syntax::Context::new(Version::V13)).unwrap();
        let bands =
            vec![ir::Band { rate: 1, burst: 1, color: 1 + (meter.meter_id.0 & 1) as u8, level: 1 }];
        let lowered = ir::Meter { packets: true, bands };
        let id = ir::MeterId(meter.meter_id.0);
        assert!(self.transact(&[Update::SetMeter(id, Arc::new(lowered))]));
    }

    /// Fragments are dropped, or not.
    pub(crate) fn drop_fragments(&mut self, drop: bool) {
        let members = self.layout.fragment_policy(drop);
        assert!(self.transact(&[Update::SetValueSet(self.layout.drop_fragments, members)]));
    }

    /// NORMAL knows a station.
    pub(crate) fn station(&mut self, vlan: u16, mac: u64, port: u32) {
        let (src, dst) = (self.layout.normal_src, self.layout.normal_dst);
        let src_entry = self.layout.normal_src_entry(vlan, mac, port);
        let dst_entry = self.layout.normal_dst_entry(vlan, mac, port, None);
        for (table, (matches, action)) in [(src, src_entry), (dst, dst_entry)] {
            self.next += 1;
            let entry = Entry {
                id: EntryId(self.next),
                priority: 0,
                matches,
                action,
                cookie: 0,
                idle_timeout_ns: 0,
                hard_timeout_ns: 0,
            };
            assert!(self.transact(&[Update::Insert(table, Arc::new(entry))]));
        }
    }

    /// What every table does on a miss.
    pub(crate) fn miss_to_controller(&mut self, table: u32) {
        let max_len = Bits::from_u128(128, 16);
        let call = ir::ActionCall::with(self.layout.miss_to_controller, [max_len]);
        assert!(self.transact(&[Update::SetDefault(ir::TableId(table), call)]));
    }
}

fn bucket(action: ir::ActionCall, counter: u32) -> Bucket {
    let counter = CounterId(counter);
    Bucket { weight: 1, watch_port: None, watch_group: None, action, counter }
}

/// A frame.
pub(crate) fn frame(text: &str) -> Vec<u8> {
    parse_packet(text).unwrap_or_else(|error| panic!("{text}: {error}")).bytes
}

/// Frames of every protocol that the parser knows.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = [
        "dl_type=0x88b5",
        "dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x88b5",
        "arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2",
        "ip,nw_proto=47",
        "tcp,nw_src=10.0.0.1,nw_dst=10.1.2.3,tp_src=1024,tp_dst=80",
        "tcp,nw_ttl=1,nw_dst=10.1.2.3,tp_dst=80",
        "udp,nw_dst=192.0.2.7,tp_src=7,tp_dst=53",
        "udp,dl_vlan=5,nw_dst=10.9.9.9,tp_dst=9",
        "tcp,dl_vlan=101,nw_src=10.0.0.101,tp_dst=9",
        "icmp,icmp_type=8,icmp_code=0",
        "sctp,nw_dst=10.1.2.3,tp_dst=80",
        "sctp6,tp_dst=80",
        "tcp6,tp_src=5,tp_dst=80",
        "udp6,ipv6_src=fe80::1,tp_dst=53",
        "icmp6,icmp_type=135,icmp_code=0",
        "icmp6,icmp_type=136,icmp_code=0",
        "icmp6,icmp_type=1,icmp_code=0",
        "mpls,mpls_label=5,mpls_bos=1,mpls_ttl=4",
        "dl_type=0x88e7",
    ]
    .into_iter()
    .map(frame)
    .collect();
    // Tags and labels in front of an IP packet, LLC, what is cut short.
    let tcp = frames[4].clone();
    let with = |at: usize, gone: usize, bytes: &[u8]| {
        let mut new = tcp.clone();
        new.splice(at..at + gone, bytes.iter().copied());
        new
    };
    let more = [
        with(12, 0, &[0x81, 0, 0x60, 9]),
        with(
            12,
            0,
            &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 0x81, 0, 0, 4, 0x81, 0, 0, 5],
        ),
        with(12, 2, &[0x88, 0x47, 0, 1, 0x11, 9]),
        with(12, 2, &[0x88, 0x47, 0, 1, 0x10, 9, 0, 2, 0x10, 8, 0, 3, 0x11, 7]),
        with(12, 2, &[0x88, 0xe7, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]),
        with(12, 2, &[0, 60, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
        with(12, 2, &[0, 60, 0x42, 0x42, 3]),
        with(20, 2, &[0x20, 0]),
        with(20, 2, &[0x00, 9]),
        with(14, 1, &[0x46]),
        tcp[..30].to_vec(),
        tcp[..40].to_vec(),
        tcp[..13].to_vec(),
        Vec::new(),
    ];
    frames.extend(more);
    frames
}
