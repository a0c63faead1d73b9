//! Whole pipelines, as operators write them: a bridge, a router, a load balancer, an access gateway
//! and a firewall, as flow and group lines, with frames in and out of memory ports.

use of_pipeline::lower::{self, ProgramConfig};
use of_pipeline::{Agent, AgentConfig, Event};
use openflow::syntax::{self, Context, parse_packet};
use openflow::{Message, Version};
use port::memory::{self, Handle};
use std::sync::Arc;
use std::time::Duration;
use switch::{Config, Switch};

const PATIENCE: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_millis(30);

struct Bed {
    agent: Agent,
    far: Vec<Handle>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.agent.switch().stop();
    }
}

impl Bed {
    /// A switch with so many ports, groups and then flows.
    fn new(name: &str, ports: usize, groups: &[&str], flows: &str) -> Bed {
        let program = ProgramConfig { tables: 16, table_capacity: 4096, normal_capacity: 64 };
        let (ir, _) = lower::program(&program);
        let config = Config {
            program: Arc::new(ir),
            workers: 1,
            cpus: vec![],
            punt_rate: 100_000,
            engine: Default::default(),
            validate: None,
        };
        let switch = Switch::start(config).unwrap();
        let mut far = Vec::new();
        for n in 1..=ports {
            let (near, handle) =
                memory::port(&format!("{name}{n}"), memory::Config::default()).unwrap();
            switch.add_port(None, Box::new(near)).unwrap();
            far.push(handle);
        }
        let agent = Agent::new(switch, AgentConfig { program, ..AgentConfig::default() }).unwrap();
        let mut bed = Bed { agent, far };
        let cx = Context::new(Version::V13);
        for line in groups {
            bed.ok(Message::GroupMod(syntax::parse_group(line, &cx).unwrap()));
        }
        for (_, line) in syntax::lines(flows) {
            bed.flow(line);
        }
        bed.agent.switch().sync();
        bed
    }

    fn ok(&mut self, message: Message) {
        if let Err(refusal) = self.agent.handle(Version::V13, message.clone()) {
            panic!("{refusal}: {message:?}");
        }
    }

    fn flow(&mut self, line: &str) {
        let flow = syntax::parse_flow(line.trim(), &Context::new(Version::V13));
        self.ok(Message::FlowMod(flow.unwrap_or_else(|error| panic!("{line}: {error}"))));
        self.agent.switch().sync();
    }

    fn send(&self, port: usize, packet: &str) {
        assert!(self.far[port - 1].inject_bytes(&frame(packet)));
    }

    /// A packet in by a port comes out of these ports as these packets, and nowhere else.
    fn carries(&self, port: usize, packet: &str, out: &[(usize, &str)]) {
        self.send(port, packet);
        for (to, expected) in out {
            let came = self.far[to - 1].take_within(PATIENCE);
            let came = came.unwrap_or_else(|| panic!("{packet}: nothing out of {to}"));
            assert_eq!(came.data(), frame(expected), "{packet} out of {to}");
        }
        if out.is_empty() {
            std::thread::sleep(SILENCE);
        }
        for (n, far) in self.far.iter().enumerate() {
            assert!(far.take().is_none(), "{packet}: out of {} too", n + 1);
        }
    }

    fn punted(&mut self) -> openflow::PacketIn {
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            let packet = self.agent.poll().into_iter().find_map(|event| match event {
                Event::PacketIn(packet) => Some(packet),
                _ => None,
            });
            if let Some(packet) = packet {
                return packet;
            }
            assert!(std::time::Instant::now() < until, "nothing was punted");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn frame(packet: &str) -> Vec<u8> {
    parse_packet(packet).unwrap_or_else(|error| panic!("{packet}: {error}")).bytes
}

//= openflow-1.3.5 §5.3: the entry of a destination address decides; what no entry knows floods.
#[test]
fn a_bridge() {
    let flows = "
        table=0,priority=10,dl_src=02:00:00:00:00:0a actions=goto_table:1
        table=0,priority=10,dl_src=02:00:00:00:00:0b actions=goto_table:1
        table=0,priority=0 actions=CONTROLLER:65535,goto_table:1
        table=1,priority=10,dl_dst=02:00:00:00:00:0a actions=output:1
        table=1,priority=10,dl_dst=02:00:00:00:00:0b actions=output:2
        table=1,priority=0 actions=FLOOD";
    let mut bed = Bed::new("l2-", 3, &[], flows);
    let to_b = "dl_src=02:00:00:00:00:0a,dl_dst=02:00:00:00:00:0b,dl_type=0x88b5";
    let to_a = "dl_src=02:00:00:00:00:0b,dl_dst=02:00:00:00:00:0a,dl_type=0x88b5";
    let to_all = "dl_src=02:00:00:00:00:0a,dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x88b5";
    bed.carries(1, to_b, &[(2, to_b)]);
    bed.carries(2, to_a, &[(1, to_a)]);
    bed.carries(1, to_all, &[(2, to_all), (3, to_all)]);
    // A station that nobody knows: its packet floods, and the controller hears of it.
    let new = "dl_src=02:00:00:00:00:0c,dl_dst=02:00:00:00:00:0a,dl_type=0x88b5";
    bed.carries(3, new, &[(1, new)]);
    let told = bed.punted();
    assert_eq!((told.in_port(), told.data), (openflow::PortNo(3), frame(new)));
    // A station back to where it came from goes nowhere.
    bed.carries(2, to_b, &[]);
}

//= openflow-1.3.5 §5.12: a router rewrites both addresses and decrements the TTL.
#[test]
fn a_router() {
    let flows = "
        table=0,priority=10,ip,dl_dst=02:00:00:00:00:ff actions=goto_table:1
        table=1,priority=8,ip,nw_dst=10.0.0.0/8 actions=dec_ttl,set_field:02:00:00:00:00:ff->eth_src,set_field:02:00:00:00:01:02->eth_dst,output:2
        table=1,priority=16,ip,nw_dst=10.1.0.0/16 actions=dec_ttl,set_field:02:00:00:00:00:ff->eth_src,set_field:02:00:00:00:01:03->eth_dst,output:3
        table=1,priority=32,ip,nw_dst=10.1.1.1 actions=drop";
    let mut bed = Bed::new("l3-", 3, &[], flows);
    let packet = |dst: &str, mac: &str, src: &str, ttl: u8| {
        format!(
            "udp,dl_src={src},dl_dst={mac},nw_src=192.0.2.1,nw_dst={dst},nw_ttl={ttl},tp_src=7,tp_dst=8"
        )
    };
    let asked = |dst, ttl| packet(dst, "02:00:00:00:00:ff", "02:00:00:00:00:01", ttl);
    let routed = |dst, hop, ttl| packet(dst, hop, "02:00:00:00:00:ff", ttl);
    bed.carries(1, &asked("10.9.9.9", 64), &[(2, &routed("10.9.9.9", "02:00:00:00:01:02", 63))]);
    bed.carries(1, &asked("10.1.9.9", 64), &[(3, &routed("10.1.9.9", "02:00:00:00:01:03", 63))]);
    bed.carries(1, &asked("10.1.1.1", 64), &[]);
    bed.carries(1, &asked("172.16.0.1", 64), &[]);
    // Not for the router.
    bed.carries(1, &packet("10.9.9.9", "02:00:00:00:00:01", "02:00:00:00:00:02", 64), &[]);
    bed.carries(1, &asked("10.9.9.9", 1), &[]);
    assert_eq!(bed.punted().reason, openflow::PacketInReason::InvalidTtl);
    // A better route comes while packets flow.
    bed.flow("table=1,priority=24,ip,nw_dst=10.9.9.0/24 actions=output:3");
    bed.carries(1, &asked("10.9.9.9", 64), &[(3, &asked("10.9.9.9", 64))]);
}

//= openflow-1.3.5 §5.6.1: a select group keeps the packets of a connection together.
#[test]
fn a_load_balancer() {
    let groups = ["group_id=1,type=select,\
         bucket=weight:1,actions=set_field:10.0.0.2->ip_dst,set_field:02:00:00:00:00:02->eth_dst,output:2,\
         bucket=weight:1,actions=set_field:10.0.0.3->ip_dst,set_field:02:00:00:00:00:03->eth_dst,output:3"];
    let flows = "
        priority=10,tcp,nw_dst=198.51.100.1,tp_dst=80 actions=group:1
        priority=10,tcp,in_port=2,tp_src=80 actions=set_field:198.51.100.1->ip_src,output:1
        priority=10,tcp,in_port=3,tp_src=80 actions=set_field:198.51.100.1->ip_src,output:1";
    let bed = Bed::new("lb-", 3, &groups, flows);
    let mut served = [0; 2];
    for client in 0..64 {
        let packet = |dst: &str, mac: &str| {
            format!(
                "tcp,dl_dst={mac},nw_src=192.0.2.{client},nw_dst={dst},tp_src={},tp_dst=80",
                1024 + client
            )
        };
        let asked = packet("198.51.100.1", "02:00:00:00:00:ff");
        let mut backends = Vec::new();
        for _ in 0..2 {
            bed.send(1, &asked);
            let until = std::time::Instant::now() + PATIENCE;
            let (n, came) = loop {
                let came = [1, 2].into_iter().find_map(|n| Some((n - 1, bed.far[n].take()?)));
                if let Some(came) = came {
                    break came;
                }
                assert!(std::time::Instant::now() < until, "client {client} is not served");
                std::thread::yield_now();
            };
            let n: usize = n;
            let [ip, mac] =
                [["10.0.0.2", "02:00:00:00:00:02"], ["10.0.0.3", "02:00:00:00:00:03"]][n];
            assert_eq!(came.data(), frame(&packet(ip, mac)), "client {client}, checksums included");
            backends.push(n);
        }
        assert_eq!(backends[0], backends[1], "client {client} stays with its server");
        served[backends[0]] += 1;
    }
    assert!(served.iter().all(|n| *n > 12), "{served:?}");
    let answer = |src: &str| format!("tcp,nw_src={src},nw_dst=192.0.2.1,tp_src=80,tp_dst=1024");
    bed.carries(3, &answer("10.0.0.3"), &[(1, &answer("198.51.100.1"))]);
    let other = "tcp,nw_dst=198.51.100.1,tp_dst=443";
    bed.carries(1, other, &[]);
}

//= openflow-1.3.5 §5.9: metadata written in one table chooses the subscriber in a later one.
#[test]
fn an_access_gateway() {
    // Port 1: subscribers, one VLAN each; port 2: the network. Table 1: who it is; 2: routes.
    let flows = "
        table=0,priority=10,in_port=1,vlan_tci=0x1000/0x1000 actions=goto_table:1
        table=0,priority=10,in_port=2,ip actions=goto_table:3
        table=1,priority=10,ip,dl_vlan=101,nw_src=10.0.0.101 actions=pop_vlan,set_field:203.0.113.1->ip_src,write_metadata:0x65,goto_table:2
        table=1,priority=10,ip,dl_vlan=102,nw_src=10.0.0.102 actions=pop_vlan,set_field:203.0.113.2->ip_src,write_metadata:0x66,goto_table:2
        table=2,priority=20,ip,metadata=0x66,nw_dst=198.51.100.0/24 actions=drop
        table=2,priority=10,ip actions=dec_ttl,output:2
        table=3,priority=10,ip,nw_dst=203.0.113.1 actions=set_field:10.0.0.101->ip_dst,push_vlan:0x8100,set_field:4197->vlan_vid,dec_ttl,output:1
        table=3,priority=10,ip,nw_dst=203.0.113.2 actions=set_field:10.0.0.102->ip_dst,push_vlan:0x8100,set_field:4198->vlan_vid,dec_ttl,output:1";
    let bed = Bed::new("gw-", 2, &[], flows);
    let up = |vlan: u16, src: &str, dst: &str| {
        format!("udp,dl_vlan={vlan},nw_src={src},nw_dst={dst},nw_ttl=64,tp_src=9,tp_dst=9")
    };
    let plain = |src: &str, dst: &str, ttl: u8| {
        format!("udp,nw_src={src},nw_dst={dst},nw_ttl={ttl},tp_src=9,tp_dst=9")
    };
    let framed = |text: &str, vlan: Option<u16>| {
        // The tag goes into a frame that is otherwise the same.
        let mut bytes = frame(text);
        if let Some(vlan) = vlan {
            let [high, low] = vlan.to_be_bytes();
            bytes.splice(12..12, [0x81, 0, high, low]);
        }
        bytes
    };
    let exchange = |port: usize, bytes: &[u8], to: usize, expected: &[u8]| {
        assert!(bed.far[port - 1].inject_bytes(bytes));
        let came = bed.far[to - 1].take_within(PATIENCE).expect("it comes out");
        assert_eq!(&came.data()[..expected.len()], expected);
    };
    let net = "192.0.2.9";
    for (vlan, inside, outside) in
        [(101, "10.0.0.101", "203.0.113.1"), (102, "10.0.0.102", "203.0.113.2")]
    {
        exchange(
            1,
            &framed(&plain(inside, net, 64), Some(vlan)),
            2,
            &framed(&plain(outside, net, 63), None),
        );
        exchange(
            2,
            &framed(&plain(net, outside, 64), None),
            1,
            &framed(&plain(net, inside, 63), Some(vlan)),
        );
    }
    // A stolen address, an unknown subscriber, a place that one of them may not go to.
    bed.carries(1, &up(102, "10.0.0.101", net), &[]);
    bed.carries(1, &up(103, "10.0.0.103", net), &[]);
    bed.carries(1, &up(102, "10.0.0.102", "198.51.100.7"), &[]);
    bed.carries(2, &plain(net, "203.0.113.3", 64), &[]);
}

//= openflow-1.3.5 §5.3: of all rules that match, the one of highest priority decides.
#[test]
fn a_firewall() {
    let flows = "
        priority=100,arp actions=NORMAL
        priority=90,ip,nw_src=192.0.2.66 actions=drop
        priority=80,tcp,in_port=1,nw_dst=10.0.0.80,tp_dst=80 actions=output:2
        priority=80,tcp,in_port=1,nw_dst=10.0.0.80,tp_dst=443 actions=output:2
        priority=70,tcp,in_port=1,nw_src=192.0.2.0/24,tp_dst=22 actions=output:2
        priority=60,icmp,in_port=1,icmp_type=8 actions=output:2
        priority=50,ip,in_port=2 actions=output:1
        priority=0 actions=drop";
    let mut bed = Bed::new("fw-", 2, &[], flows);
    let pass = |bed: &Bed, packet: &str| bed.carries(1, packet, &[(2, packet)]);
    let stop = |bed: &Bed, packet: &str| bed.carries(1, packet, &[]);
    pass(&bed, "tcp,nw_src=203.0.113.5,nw_dst=10.0.0.80,tp_dst=80");
    pass(&bed, "tcp,nw_src=203.0.113.5,nw_dst=10.0.0.80,tp_dst=443");
    stop(&bed, "tcp,nw_src=203.0.113.5,nw_dst=10.0.0.80,tp_dst=22");
    pass(&bed, "tcp,nw_src=192.0.2.5,nw_dst=10.0.0.80,tp_dst=22");
    stop(&bed, "tcp,nw_src=192.0.2.66,nw_dst=10.0.0.80,tp_dst=80");
    stop(&bed, "udp,nw_src=203.0.113.5,nw_dst=10.0.0.80,tp_dst=80");
    pass(&bed, "icmp,nw_src=203.0.113.5,nw_dst=10.0.0.80,icmp_type=8,icmp_code=0");
    stop(&bed, "icmp,nw_src=203.0.113.5,nw_dst=10.0.0.80,icmp_type=5,icmp_code=0");
    stop(&bed, "tcp6,tp_dst=80");
    let out = "tcp,nw_src=10.0.0.80,nw_dst=203.0.113.5,tp_src=80";
    bed.carries(2, out, &[(1, out)]);
    // One more to be kept out, from the next packet on.
    bed.flow("priority=90,ip,nw_src=203.0.113.5 actions=drop");
    stop(&bed, "tcp,nw_src=203.0.113.5,nw_dst=10.0.0.80,tp_dst=80");
}
