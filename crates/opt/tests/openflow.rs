//! OpenFlow programs: the same to every packet, and little of them is left.
//!
//! `OPT_ORACLE_SEEDS` and `OPT_ORACLE_FROM` run more random flows, from another seed on; `OPT_PRINT`
//! prints what is left of the use cases.

mod common;
#[path = "common/flows.rs"]
mod flows;

use common::check;
use flows::{Flows, frames};
use ir::testing::Rng;
use ir::{ParserOp, Program, Terminator};
use opt::{Bail, Optimised, Options, contents};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// Frames, some of them damaged, each with a port.
fn packets(rng: &mut Rng, all: &[Vec<u8>], n: usize) -> Vec<(u32, Vec<u8>)> {
    let one = |rng: &mut Rng| {
        let mut bytes = rng.pick(all);
        // The last byte of the destination chooses entries.
        if let (Some(byte), true) = (bytes.get_mut(5), rng.one_in(2)) {
            *byte = rng.below(16) as u8;
        }
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len().max(1));
            match rng.below(4) {
                0 if rng.one_in(3) => bytes.truncate(at),
                _ => bytes.get_mut(at).into_iter().for_each(|b| *b = rng.next_u64() as u8),
            }
        }
        (1 + rng.below(4) as u32, bytes)
    };
    (0..n).map(|_| one(rng)).collect()
}

const MATCHES: &[&str] = &[
    "",
    "in_port=1",
    "dl_dst=0:0:0:0:0:01/0:0:0:0:0:0f",
    "dl_dst=0:0:0:0:0:02/0:0:0:0:0:0f",
    "dl_dst=0:0:0:0:0:03/0:0:0:0:0:0f",
    "dl_dst=0:0:0:0:0:01/0:0:0:0:0:01",
    "vlan_tci=0x1000/0x1000",
    "ip",
    "ip,nw_dst=10.0.0.0/8",
    "ip,nw_dst=10.1.0.0/16",
    "ip,nw_tos=32",
    "ipv6",
    "ipv6,ipv6_src=fe80::/10",
    "ipv6,ipv6_exthdr=0x1/0x1",
    "tcp",
    "tcp,tp_dst=80",
    "udp",
    "udp,tp_dst=53",
    "tcp6,tp_dst=80",
    "udp6",
    "sctp",
    "icmp",
    "icmp6,icmp_type=135",
    "arp",
    "arp,arp_tpa=10.0.0.2",
    "mpls",
    "mpls,mpls_bos=1",
    "dl_type=0x88e7",
    "metadata=0x5/0xf",
    "ip,metadata=5",
];

const ACTIONS: &[&str] = &[
    "output:2",
    "output:3",
    "in_port",
    "controller:64",
    "push_vlan:0x8100",
    "set_field:4103->vlan_vid",
    "pop_vlan",
    "push_mpls:0x8847",
    "set_field:77->mpls_label",
    "set_mpls_ttl:3",
    "dec_mpls_ttl",
    "copy_ttl_out",
    "copy_ttl_in",
    "pop_mpls:0x0800",
    "push_pbb:0x88e7",
    "pop_pbb",
    "dec_ttl",
    "mod_nw_ttl:7",
    "set_field:1:2:3:4:5:6->eth_src",
    "set_field:1:2:3:4:5:7->eth_dst",
    "set_field:9.9.9.9->ipv4_dst",
    "set_field:8.8.8.8->ipv4_src",
    "set_field:80->tcp_dst",
    "set_field:53->udp_dst",
    "set_field:9->sctp_dst",
    "set_field:63->ip_dscp",
    "set_field:3->ip_ecn",
    "set_field:fe80::1->ipv6_src",
    "set_field:2->arp_op",
    "set_field:8->icmpv4_type",
    "set_field:fe80::2->nd_target",
    "set_field:0x7->tunnel_id",
    "set_queue:3",
    "group:1",
    "group:2",
    "flood",
    "normal",
    "resubmit(,1)",
    "resubmit(2,4)",
    "clone(dec_ttl,output:1)",
    "bundle(symmetric_l4,0,hrw,ofport,members:1,2,3)",
];

/// Needs of a set-field that [`MATCHES`] may not name are not asked for below of-pipeline's rules.
fn random_flows(rng: &mut Rng) -> Flows {
    // Every other one has tunnel ports: none is one here, but outputs ask.
    let mut flows = if rng.one_in(2) { Flows::for_tunnels(6) } else { Flows::new(6) };
    flows.group(
        "group_id=1,type=all,bucket=actions=set_field:1:2:3:4:5:8->eth_src,output:1,\
         bucket=actions=dec_ttl,output:3",
    );
    flows.group(
        "group_id=2,type=select,bucket=weight:1,actions=output:1,\
         bucket=weight:1,actions=push_vlan:0x8100,output:2",
    );
    flows.meter("meter=1,pktps,bands=type=dscp_remark,rate=1,prec_level=1");
    flows.meter("meter=2,pktps,bands=type=drop,rate=1");
    flows.drop_fragments(rng.one_in(3));
    flows.station(0, 0x0200_0000_0002, 2);
    if rng.one_in(3) {
        flows.miss_to_controller(rng.below(6) as u32);
    }
    // A few kinds of actions for all flows, as in a pipeline of one purpose.
    let kinds: Vec<&str> = (0..1 + rng.below(5)).map(|_| rng.pick(ACTIONS)).collect();
    let writes = rng.one_in(3);
    for _ in 0..1 + rng.below(7) {
        let table = rng.below(3);
        let matches = rng.pick(MATCHES);
        let mut words: Vec<String> = Vec::new();
        if rng.one_in(8) {
            words.push(format!("meter:{}", 1 + rng.below(2)));
        }
        let some =
            |rng: &mut Rng| -> Vec<&str> { (0..rng.below(4)).map(|_| rng.pick(&kinds)).collect() };
        words.extend(some(rng).iter().map(ToString::to_string));
        if writes && rng.one_in(2) {
            if rng.one_in(4) {
                words.push("clear_actions".into());
            }
            let list = some(rng);
            if !list.is_empty() && !list.contains(&"normal") {
                words.push(format!("write_actions({})", list.join(",")));
            }
        }
        if rng.one_in(4) {
            words.push(rng.pick(&["write_metadata:0x5/0xf", "write_metadata:0x5"]).into());
        }
        if rng.one_in(2) {
            words.push(format!("goto_table:{}", table + 1 + rng.below(2)));
        }
        let actions = if words.is_empty() { "drop".to_string() } else { words.join(",") };
        let comma = if matches.is_empty() { "" } else { "," };
        let priority = rng.below(4);
        let line = format!("table={table},priority={priority},{matches}{comma}actions={actions}");
        let cx = openflow::syntax::Context::new(openflow::Version::V13);
        // What the syntax refuses, and what is there already, is left out.
        if let Ok(flow) = openflow::syntax::parse_flow(&line, &cx) {
            flows.add(&flow);
        }
    }
    flows
}

#[test]
fn random_flows_do_the_same() {
    let all = frames();
    let from = number("OPT_ORACLE_FROM", 0);
    let mut entries = 0;
    for seed in from..from + number("OPT_ORACLE_SEEDS", 250) {
        let mut rng = Rng::new(seed ^ 0x0f);
        let flows = random_flows(&mut rng);
        let summary = contents(&flows.pipeline);
        entries += summary.tables.iter().map(|t| t.entries).sum::<usize>();
        let packets = packets(&mut rng, &all, 50);
        let mut options = Options::default();
        if rng.one_in(3) {
            options.set(rng.pick(Options::PASSES), false);
        }
        let bail = if rng.one_in(2) { Bail::ALL } else { Bail::default() };
        for bail in [Bail::default(), bail] {
            options.bail = bail;
            check(&flows.pipeline, &summary, options, &packets, &format!("seed {seed}"));
        }
    }
    assert!(entries > 400, "{entries}");
}

/// What is left of a program, in short.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    blocks: usize,
    tables: usize,
    actions: usize,
    checksums: usize,
    extracted: Vec<String>,
}

fn left(optimised: &Optimised) -> Left {
    let p: &Program = &optimised.program;
    let live = p.blocks.iter().filter(|b| !b.ops.is_empty() || b.end != Terminator::Exit);
    let mut extracted: Vec<String> = (p.parser.iter().flat_map(|s| &s.ops))
        .filter_map(|op| match op {
            ParserOp::Extract { header, .. } => Some(p.headers[header.index()].name.clone()),
            ParserOp::ExtractNext { stack, .. } => Some(p.stacks[stack.index()].name.clone()),
            _ => None,
        })
        .collect();
    extracted.sort();
    extracted.dedup();
    Left {
        blocks: live.count(),
        tables: optimised.tables.iter().flatten().count(),
        actions: optimised.actions.len(),
        checksums: p.checksums.len(),
        extracted,
    }
}

fn optimised(flows: &Flows, bail: Bail) -> Optimised {
    let summary = contents(&flows.pipeline);
    let options = Options { bail, ..Options::default() };
    let optimised = opt::optimise(flows.pipeline.program(), &summary, &options);
    let packets = packets(&mut Rng::new(1), &frames(), 200);
    check(&flows.pipeline, &summary, options, &packets, "use case");
    if std::env::var_os("OPT_PRINT").is_some() {
        print(&optimised);
    }
    optimised
}

fn print(optimised: &Optimised) {
    let p = &optimised.program;
    for state in &p.parser {
        if !state.ops.is_empty() || state.next != ir::Transition::Accept {
            println!("state {}", state.name);
            state.ops.iter().for_each(|op| println!("  {op:?}"));
            println!("  {:?}", state.next);
        }
    }
    for block in &p.blocks {
        if !block.ops.is_empty() || block.end != Terminator::Exit {
            println!("block {}", block.name);
            for op in &block.ops {
                println!("  {}", ir::text::print_op(p, &[], op));
            }
            println!("  {:?}", block.end);
        }
    }
    for action in optimised.actions.values() {
        println!("action {}", action.name);
        for op in &action.body {
            println!("  {}", ir::text::print_op(p, &action.params, op));
        }
    }
    optimised.notes.iter().for_each(|note| println!("{note}"));
}

#[test]
fn an_l2_table_is_a_lookup_and_an_output() {
    let flows = Flows::of(
        254,
        &[],
        "table=0,dl_dst=02:00:00:00:00:0a actions=output:1
         table=0,dl_dst=02:00:00:00:00:0b actions=output:2",
    );
    let optimised = optimised(&flows, Bail::default());
    let extracted = vec!["eth".to_string()];
    assert_eq!(
        left(&optimised),
        Left { blocks: 2, tables: 1, actions: 2, checksums: 0, extracted }
    );
}

//= openflow-1.3.5 §5.3: the entry of a destination address decides; what no entry knows floods.
#[test]
fn a_bridge_parses_addresses_only() {
    let flows = Flows::of(16, &[], BRIDGE);
    // Groups may look at anything, so only an engine that leaves them to another one parses less.
    let optimised = optimised(&flows, Bail::ALL);
    let left = left(&optimised);
    assert_eq!((left.extracted, left.tables, left.checksums), (vec!["eth".to_string()], 2, 0));
}

const BRIDGE: &str = "
    table=0,priority=10,dl_src=02:00:00:00:00:0a actions=goto_table:1
    table=0,priority=10,dl_src=02:00:00:00:00:0b actions=goto_table:1
    table=0,priority=0 actions=CONTROLLER:65535,goto_table:1
    table=1,priority=10,dl_dst=02:00:00:00:00:0a actions=output:1
    table=1,priority=10,dl_dst=02:00:00:00:00:0b actions=output:2
    table=1,priority=0 actions=FLOOD";

const ROUTER: &str = "
    table=0,priority=10,ip,dl_dst=02:00:00:00:00:ff actions=goto_table:1
    table=1,priority=8,ip,nw_dst=10.0.0.0/8 actions=dec_ttl,set_field:02:00:00:00:00:ff->eth_src,set_field:02:00:00:00:01:02->eth_dst,output:2
    table=1,priority=16,ip,nw_dst=10.1.0.0/16 actions=dec_ttl,set_field:02:00:00:00:00:ff->eth_src,set_field:02:00:00:00:01:03->eth_dst,output:3
    table=1,priority=32,ip,nw_dst=10.1.1.1 actions=drop";

//= openflow-1.3.5 §5.12: a router rewrites both addresses and decrements the TTL.
#[test]
fn a_router_parses_to_layer_3_and_adjusts_one_checksum() {
    let flows = Flows::of(16, &[], ROUTER);
    let optimised = optimised(&flows, Bail::default());
    let left = left(&optimised);
    assert_eq!(left.extracted, ["eth", "ipv4", "ipv6", "mpls", "snap", "vlan"]);
    assert_eq!((left.tables, left.actions, left.checksums), (2, 4, 1));
}

const BALANCER: &str = "
    priority=10,tcp,nw_dst=198.51.100.1,tp_dst=80 actions=group:1
    priority=10,tcp,in_port=2,tp_src=80 actions=set_field:198.51.100.1->ip_src,output:1
    priority=10,tcp,in_port=3,tp_src=80 actions=set_field:198.51.100.1->ip_src,output:1";

const BALANCED: &str = "group_id=1,type=select,\
     bucket=weight:1,actions=set_field:10.0.0.2->ip_dst,set_field:02:00:00:00:00:02->eth_dst,output:2,\
     bucket=weight:1,actions=set_field:10.0.0.3->ip_dst,set_field:02:00:00:00:00:03->eth_dst,output:3";

//= openflow-1.3.5 §5.6.1: a select group keeps the packets of a connection together.
#[test]
fn a_load_balancer_does_the_same() {
    let flows = Flows::of(16, &[BALANCED], BALANCER);
    optimised(&flows, Bail::default());
    let optimised = optimised(&flows, Bail::ALL);
    let left = left(&optimised);
    // What the source address is an input of: IPv4's, TCP's and UDP's, and the latter in first fragments.
    assert_eq!((left.tables, left.checksums), (1, 5));
    // TCP's ports are matched, and TCP may be behind IPv6, too.
    let idle = ["arp", "icmp", "icmpv6", "nd", "sctp", "itag"];
    assert!(!left.extracted.iter().any(|h| idle.contains(&h.as_str())), "{:?}", left.extracted);
}

const GATEWAY: &str = "
    table=0,priority=10,in_port=1,vlan_tci=0x1000/0x1000 actions=goto_table:1
    table=0,priority=10,in_port=2,ip actions=goto_table:3
    table=1,priority=10,ip,dl_vlan=101,nw_src=10.0.0.101 actions=pop_vlan,set_field:203.0.113.1->ip_src,write_metadata:0x65,goto_table:2
    table=1,priority=10,ip,dl_vlan=102,nw_src=10.0.0.102 actions=pop_vlan,set_field:203.0.113.2->ip_src,write_metadata:0x66,goto_table:2
    table=2,priority=20,ip,metadata=0x66,nw_dst=198.51.100.0/24 actions=drop
    table=2,priority=10,ip actions=dec_ttl,output:2
    table=3,priority=10,ip,nw_dst=203.0.113.1 actions=set_field:10.0.0.101->ip_dst,push_vlan:0x8100,set_field:4197->vlan_vid,dec_ttl,output:1
    table=3,priority=10,ip,nw_dst=203.0.113.2 actions=set_field:10.0.0.102->ip_dst,push_vlan:0x8100,set_field:4198->vlan_vid,dec_ttl,output:1";

//= openflow-1.3.5 §5.9: metadata written in one table chooses the subscriber in a later one.
#[test]
fn an_access_gateway_has_four_tables() {
    let optimised = optimised(&Flows::of(16, &[], GATEWAY), Bail::default());
    let left = left(&optimised);
    assert_eq!((left.tables, left.checksums), (4, 5));
    // Of IPv6, the hop limit may be decremented; what is behind it does not change.
    let extracted = [
        "eth",
        "first_tcp",
        "first_udp",
        "ipv4",
        "ipv4_options",
        "ipv6",
        "mpls",
        "snap",
        "tcp",
        "udp",
        "vlan",
    ];
    assert_eq!(left.extracted, extracted);
    let ipv6 = optimised.program.parser.iter().find(|state| state.name == "ipv6").unwrap();
    assert_eq!((ipv6.ops.len(), &ipv6.next), (1, &ir::Transition::Accept));
}

const FIREWALL: &str = "
    priority=100,arp actions=NORMAL
    priority=90,ip,nw_src=192.0.2.66 actions=drop
    priority=80,tcp,in_port=1,nw_dst=10.0.0.80,tp_dst=80 actions=output:2
    priority=80,tcp,in_port=1,nw_dst=10.0.0.80,tp_dst=443 actions=output:2
    priority=70,tcp,in_port=1,nw_src=192.0.2.0/24,tp_dst=22 actions=output:2
    priority=60,icmp,in_port=1,icmp_type=8 actions=output:2
    priority=50,ip,in_port=2 actions=output:1
    priority=0 actions=drop";

//= openflow-1.3.5 §5.3: of all rules that match, the one of highest priority decides.
#[test]
fn a_firewall_has_no_checksums() {
    let optimised = optimised(&Flows::of(16, &[], FIREWALL), Bail::ALL);
    let left = left(&optimised);
    assert_eq!((left.tables, left.checksums), (3, 0));
    assert!(!left.extracted.iter().any(|h| ["arp", "sctp", "udp"].contains(&h.as_str())));
}

#[test]
fn of_an_action_set_only_what_can_be_in_it_is_executed() {
    let flows = Flows::of(
        254,
        &[],
        "table=0,dl_dst=02:00:00:00:00:0a actions=write_actions(output:2),goto_table:1
         table=1,priority=1,dl_src=02:00:00:00:00:0b actions=clear_actions
         table=1,priority=0 actions=drop",
    );
    let optimised = optimised(&flows, Bail::default());
    let left = left(&optimised);
    assert_eq!((left.tables, left.checksums), (2, 0));
    let execute = optimised.program.blocks.iter().find(|b| b.name == "as_execute").unwrap();
    let mut steps = 0;
    execute.ops.iter().for_each(|op| op.visit(&mut |_| steps += 1));
    // The reserved ports of an output, and no other kind of action.
    assert!((1..6).contains(&steps), "{:?}", execute.ops);
}

/// `cargo test --release -p opt --test openflow -- --ignored --nocapture`
#[test]
#[ignore = "prints what optimising takes, and judges nothing"]
fn how_long_it_takes() {
    let l2 = "table=0,dl_dst=02:00:00:00:00:0a actions=output:1";
    let cases = [
        ("l2", l2),
        ("bridge", BRIDGE),
        ("router", ROUTER),
        ("gateway", GATEWAY),
        ("firewall", FIREWALL),
    ];
    for (name, lines) in cases {
        let flows = Flows::of(254, &[], lines);
        let summary = contents(&flows.pipeline);
        for bail in [Bail::default(), Bail::ALL] {
            let options = Options { bail, ..Options::default() };
            let least = (0..60).map(|_| {
                let start = std::time::Instant::now();
                let out = opt::optimise(flows.pipeline.program(), &summary, &options);
                let took = start.elapsed();
                assert_eq!(out.program.blocks.len(), flows.pipeline.program().blocks.len());
                took
            });
            println!("{name} {bail:?}: {:?}", least.min());
        }
    }
}
