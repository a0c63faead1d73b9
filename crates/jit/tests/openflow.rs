//! Generated code against the interpreter: OpenFlow pipelines, frames of every protocol.

#[path = "../../opt/tests/common/flows.rs"]
#[allow(dead_code)] // the rest serves other tests
mod flows;
#[allow(unreachable_pub)]
mod support;

use contract::tunnel::OptionMap;
use flows::{Flows, frames};
use ir::testing::Rng;
use jit::Cache;
use openflow::{FieldId, Match};
use support::{Both, TUNNEL_PORTS, Tally, Way, part, parts, unit};

/// Frames, some of them damaged, each with a port.
fn packets(rng: &mut Rng, all: &[Vec<u8>], n: usize, damage: usize) -> Vec<(u32, Vec<u8>)> {
    let one = |rng: &mut Rng| {
        let mut bytes = rng.pick(all);
        if let (Some(byte), true) = (bytes.get_mut(5), rng.one_in(2)) {
            *byte = rng.below(16) as u8;
        }
        if damage > 0 && rng.one_in(2) {
            for _ in 0..rng.below(damage) {
                let at = rng.below(bytes.len().max(1));
                match rng.below(4) {
                    0 if rng.one_in(3) => bytes.truncate(at),
                    _ => bytes.get_mut(at).into_iter().for_each(|b| *b = rng.next_u64() as u8),
                }
            }
        }
        (1 + rng.below(3) as u32, bytes)
    };
    (0..n).map(|_| one(rng)).collect()
}

/// All ways to compile a pipeline.
fn check(
    flows: &Flows,
    packets: &[(u32, Vec<u8>)],
    cache: &mut Cache,
    what: &str,
    whole: bool,
) -> Tally {
    let bail = opt::Bail { copies: false, groups: false, ..opt::Bail::ALL };
    let ways: [Way<'_>; 4] = [
        ("phased, not optimised", opt::Options::none(), &|_| false),
        ("direct, not optimised", opt::Options::none(), &|_| true),
        ("phased", opt::Options::default(), &|_| false),
        ("direct", opt::Options { bail, ..opt::Options::default() }, &|n| n < 9),
    ];
    let mut all = Tally::default();
    // What was not optimised takes long to compile, on an emulated machine for ever.
    for (way, options, direct) in ways.into_iter().skip(if whole { 0 } else { 2 }) {
        let unit = unit(&flows.pipeline, &options, direct);
        let mut both = Both::new(&flows.pipeline, &unit, cache);
        for burst in packets.chunks(32) {
            both.burst(burst, 5, &mut all, &format!("{what}, {way}"));
        }
        for frame in packets.iter().take(8) {
            both.burst(std::slice::from_ref(frame), 7, &mut all, &format!("{what}, {way}"));
        }
    }
    all
}

fn native(flows: &Flows, share: f64, what: &str) {
    let mut rng = Rng::new(1);
    let packets = packets(&mut rng, &frames(), 400, 0);
    let tally = check(flows, &packets, &mut Cache::new(), what, parts() == 1);
    tally.print(what);
    assert!(tally.share() >= share, "{what}: {:.1} % native", 100.0 * tally.share());
}

#[test]
fn a_bridge() {
    let flows = Flows::of(
        4,
        &[],
        "table=0,dl_dst=02:00:00:00:00:0a actions=output:1
         table=0,dl_dst=02:00:00:00:00:02 actions=output:2
         table=0,dl_dst=00:00:00:00:00:00/00:00:00:00:00:01 actions=output:3",
    );
    native(&flows, 0.99, "bridge");
}

#[test]
fn a_router() {
    let flows = Flows::of(
        4,
        &[],
        "table=0,priority=10,ip actions=goto_table:1
         table=0,priority=10,ipv6 actions=dec_ttl,output:2
         table=1,priority=8,ip,nw_dst=10.0.0.0/8 actions=dec_ttl,set_field:02:00:00:00:00:ff->eth_src,set_field:02:00:00:00:01:02->eth_dst,output:2
         table=1,priority=16,ip,nw_dst=10.1.0.0/16 actions=dec_ttl,set_field:02:00:00:00:00:ff->eth_src,set_field:02:00:00:00:01:03->eth_dst,output:3
         table=1,priority=0 actions=drop
         table=1,priority=32,ip,nw_dst=10.1.1.1 actions=drop",
    );
    native(&flows, 0.95, "router");
}

#[test]
fn an_access_gateway() {
    let flows = Flows::of(
        4,
        &[],
        "table=0,priority=10,vlan_tci=0x1000/0x1000 actions=goto_table:1
         table=0,priority=9,ip actions=goto_table:3
         table=1,priority=10,ip,dl_vlan=101,nw_src=10.0.0.101 actions=pop_vlan,set_field:203.0.113.1->ip_src,write_metadata:0x65,goto_table:2
         table=1,priority=10,ip actions=pop_vlan,set_field:203.0.113.2->ip_src,write_metadata:0x66,goto_table:2
         table=2,priority=20,ip,metadata=0x66,nw_dst=198.51.100.0/24 actions=drop
         table=2,priority=10,ip actions=dec_ttl,output:2
         table=3,priority=10,ip,nw_dst=192.0.2.7 actions=set_field:10.0.0.101->ip_dst,push_vlan:0x8100,set_field:4197->vlan_vid,dec_ttl,output:1
         table=3,priority=9,ip actions=push_vlan:0x8100,set_field:4198->vlan_vid,dec_ttl,output:1",
    );
    native(&flows, 0.93, "access gateway");
}

#[test]
fn set_fields_and_action_sets() {
    let flows = Flows::of(
        3,
        &[],
        "table=0,priority=9,tcp actions=set_field:80->tcp_dst,set_field:9.9.9.9->ipv4_dst,write_actions(output:2,set_field:1:2:3:4:5:6->eth_src),goto_table:1
         table=0,priority=8,udp actions=set_field:53->udp_dst,set_field:63->ip_dscp,set_queue:3,output:2,output:3
         table=0,priority=7,ipv6 actions=set_field:fe80::1->ipv6_src,output:2
         table=0,priority=6,mpls actions=dec_mpls_ttl,set_field:77->mpls_label,output:1
         table=0,priority=5,arp actions=set_field:2->arp_op,in_port
         table=0,priority=1 actions=push_vlan:0x88a8,push_vlan:0x8100,set_field:4103->vlan_vid,output:2
         table=1,priority=5,tcp,nw_dst=9.9.9.9 actions=write_actions(push_vlan:0x8100),goto_table:2
         table=2,priority=5,vlan_tci=0x1000/0x1000 actions=write_actions(pop_vlan)
         table=2,priority=5,tcp actions=output:1,clear_actions",
    );
    native(&flows, 0.95, "set fields");
}

const MATCHES: &[&str] = &[
    "",
    "in_port=1",
    "dl_dst=0:0:0:0:0:01/0:0:0:0:0:0f",
    "dl_dst=0:0:0:0:0:02/0:0:0:0:0:0f",
    "dl_dst=0:0:0:0:0:01/0:0:0:0:0:01",
    "vlan_tci=0x1000/0x1000",
    "ip",
    "ip,nw_dst=10.0.0.0/8",
    "ipv6",
    "ipv6,ipv6_src=fe80::/10",
    "ipv6,ipv6_exthdr=0x1/0x1",
    "tcp",
    "tcp,tp_dst=80",
    "udp",
    "tcp6,tp_dst=80",
    "udp6",
    "sctp",
    "icmp",
    "icmp6,icmp_type=135",
    "arp",
    "mpls",
    "mpls,mpls_bos=1",
    "dl_type=0x88e7",
    "metadata=0x5/0xf",
    "tun_id=0x7",
    "tun_metadata0=0x2",
    "tun_src=10.0.0.0/8",
];

const ACTIONS: &[&str] = &[
    "output:2",
    "output:3",
    "output:1",
    "output:2",
    "in_port",
    "push_vlan:0x8100",
    "push_vlan:0x88a8",
    "set_field:4103->vlan_vid",
    "pop_vlan",
    "pop_vlan",
    "push_mpls:0x8847",
    "set_field:77->mpls_label",
    "set_mpls_ttl:3",
    "dec_mpls_ttl",
    "copy_ttl_out",
    "copy_ttl_in",
    "pop_mpls:0x0800",
    "push_pbb:0x88e7",
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
    "set_field:10.0.0.9->tun_dst",
    "set_field:0x2->tun_metadata0",
    "delete_field:tun_metadata0",
    "set_queue:3",
    "group:1",
    "normal",
];

/// A packet of a tunnel port as it comes from there: with a descriptor, mostly a whole one of the right map.
fn tunnelled(rng: &mut Rng, (port, bytes): (u32, Vec<u8>)) -> (u32, Vec<u8>) {
    if !TUNNEL_PORTS.contains(&port) {
        return (port, bytes);
    }
    let map = OptionMap::new(1, &[(0, 0x102, 0x80, 4)]).unwrap();
    let fields = Match::new()
        .with(FieldId::TunnelId, rng.below(9) as u128)
        .with(FieldId::TunSrc, 0x0a00_0001)
        .with(FieldId::TunMetadata0, rng.below(3) as u128);
    let mut all = of_lower::tunnel::descriptor(&map, &fields);
    all.extend(bytes);
    match rng.below(20) {
        0 => all[1] ^= 1,
        1 => all.truncate(rng.below(all.len())),
        _ => {}
    }
    (port ^ contract::tunnel::IN_PORT, all)
}

fn random_flows(rng: &mut Rng, tunnels: bool) -> Flows {
    let mut flows = if tunnels { Flows::for_tunnels(4) } else { Flows::new(4) };
    flows.drop_fragments(rng.one_in(3));
    flows.station(0, 0x0200_0000_0002, 2);
    let kinds: Vec<&str> = (0..2 + rng.below(6)).map(|_| rng.pick(ACTIONS)).collect();
    let writes = rng.one_in(3);
    for n in 0..2 + rng.below(7) {
        // The first flows let packets through.
        let table = if n < 2 { n } else { rng.below(3) };
        let matches = if n < 2 { "" } else { rng.pick(MATCHES) };
        let mut words: Vec<String> = Vec::new();
        let some = |rng: &mut Rng, last: bool| -> Vec<&str> {
            let mut list: Vec<&str> = (0..rng.below(5)).map(|_| rng.pick(&kinds)).collect();
            // Outputs mostly come last.
            list.sort_by_key(|a| a.starts_with("output"));
            if last && !rng.one_in(3) {
                list.push("output:2");
            }
            list
        };
        words.extend(some(rng, true).iter().map(ToString::to_string));
        if writes && rng.one_in(2) {
            if rng.one_in(4) {
                words.push("clear_actions".into());
            }
            let list = some(rng, true);
            if !list.is_empty() && !list.contains(&"normal") {
                words.push(format!("write_actions({})", list.join(",")));
            }
        }
        if rng.one_in(4) {
            words.push("write_metadata:0x5/0xf".into());
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

fn random(seeds: std::ops::Range<u64>) -> Tally {
    let (mut cache, all) = (Cache::new(), frames());
    let mut total = Tally::default();
    for seed in seeds {
        let mut rng = Rng::new(seed ^ 0x0f10);
        let tunnels = seed % 2 == 1;
        let flows = random_flows(&mut rng, tunnels);
        let mut packets = packets(&mut rng, &all, 64, 4);
        if tunnels {
            packets = packets.into_iter().map(|packet| tunnelled(&mut rng, packet)).collect();
        }
        let whole = parts() == 1 && seed % 8 == 0;
        let tally = check(&flows, &packets, &mut cache, &format!("seed {seed}"), whole);
        total.add(tally);
    }
    total
}

#[test]
fn random_openflow() {
    let tally = random(part(0..16));
    tally.print("random OpenFlow");
    assert!(tally.share() > 0.6, "{:.1} % native", 100.0 * tally.share());
}

/// `JIT_SEEDS=1000..2000 cargo test -p jit --release --test openflow -- --ignored`
#[test]
#[ignore = "as many seeds as one likes; the test above takes some of them"]
fn much_random_openflow() {
    let seeds = std::env::var("JIT_SEEDS").unwrap_or_else(|_| "1000..1200".to_owned());
    let (from, to) = seeds.split_once("..").expect("a range");
    let number = |s: &str| s.parse::<u64>().expect("a number");
    random(number(from)..number(to)).print("random OpenFlow");
}
