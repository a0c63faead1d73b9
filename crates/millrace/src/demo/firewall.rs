//! A firewall between an inside, an outside and servers: an allow-list, after figure 1 of Molnár et
//! al. (SIGCOMM 2016), which admits the inside to everywhere and the outside to one web server.
//!
//! Here there are 48 servers of three services each; networks outside that are blocked altogether,
//! with some servers that even they may see; and replies to the inside from a few services. What no
//! entry allows is dropped.
//!
//! The streams' outcome is given by [`passes`], the policy written a second time, by hand.

use super::frames::{Datagram, PAYLOAD_MIN, Transport, mac};
use super::scene::{Scene, Tally};
use super::traffic::{self, Stream};
use port::memory::Handle;
use port::prng::Prng;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;

/// Indices of the ports.
const INSIDE: usize = 0;
const OUTSIDE: usize = 1;
const DMZ: usize = 2;

const SERVERS: u8 = 48;
/// Networks that are blocked: 198.18.0.0/24 and the following ones, RFC 2544's.
const BLOCKED: u8 = 32;
const STREAMS: u32 = 3000;
/// Replies from these TCP ports come in from outside.
const REPLIES: [u16; 4] = [22, 80, 443, 993];
/// The inside: 10.0.0.0/8. The servers: 192.0.2.0/24.
const INSIDE_NET: &str = "10.0.0.0/8";
const DMZ_NET: &str = "192.0.2.0/24";

/// What server `n` offers to everybody.
fn services(n: u8) -> [(Transport, u16); 3] {
    use Transport::{Tcp, Udp};
    match n % 4 {
        0 => [(Tcp, 80), (Tcp, 443), (Udp, 443)],
        1 => [(Tcp, 25), (Tcp, 465), (Tcp, 993)],
        2 => [(Tcp, 53), (Udp, 53), (Tcp, 853)],
        _ => [(Tcp, 22), (Tcp, 80), (Udp, 123)],
    }
}

fn word(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    }
}

fn server(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, n + 1)
}

/// The policy: where a frame from a port may go.
fn passes(port: usize, d: &Datagram) -> Option<usize> {
    let inside = |a: Ipv4Addr| a.octets()[0] == 10;
    let in_dmz = |a: Ipv4Addr| a.octets()[..3] == [192, 0, 2];
    let number = |a: Ipv4Addr| a.octets()[3].checked_sub(1).filter(|n| in_dmz(a) && *n < SERVERS);
    let offers = |a, port| number(a).is_some_and(|n| services(n).contains(&(d.transport, port)));
    match port {
        INSIDE if inside(d.src) => Some(if in_dmz(d.dst) { DMZ } else { OUTSIDE }),
        // Servers answer, and begin nothing.
        DMZ if offers(d.src, d.src_port) => Some(if inside(d.dst) { INSIDE } else { OUTSIDE }),
        // Nobody outside has an address of the inside.
        OUTSIDE if inside(d.src) => None,
        OUTSIDE => {
            let [a, b, c, _] = d.src.octets();
            if (a, b) == (198, 18) && c < BLOCKED {
                // Even those may ask the names' server.
                return (d.dst == server(2) && d.dst_port == 53 && d.transport == Transport::Udp)
                    .then_some(DMZ);
            }
            if offers(d.dst, d.dst_port) {
                return Some(DMZ);
            }
            let reply = d.transport == Transport::Tcp && REPLIES.contains(&d.src_port);
            (inside(d.dst) && reply).then_some(INSIDE)
        }
        _ => None,
    }
}

/// The scene.
pub(super) struct Firewall {
    streams: Vec<Stream>,
}

impl Firewall {
    /// The scene, the same each time.
    pub(super) fn new() -> Firewall {
        let mut random = Prng::new(0x6677);
        // Two thirds pass.
        let mut fitting = |n: u32| loop {
            let stream = stream(n, &mut random);
            if stream.out.is_some() != n.is_multiple_of(3) {
                return stream;
            }
        };
        Firewall { streams: (0..STREAMS).map(&mut fitting).collect() }
    }
}

/// A frame from anywhere to anywhere, often near to what is allowed.
fn stream(n: u32, random: &mut Prng) -> Stream {
    let mut pick = |bound: u64| random.below(bound);
    let somewhere = |r: u64| match r % 8 {
        0 | 1 => Ipv4Addr::new(10, (r >> 8) as u8, (r >> 16) as u8, 1 + (r >> 24) as u8 % 250),
        2..5 => server((r >> 8) as u8 % (SERVERS + 4)),
        5 => Ipv4Addr::new(198, 18, (r >> 8) as u8 % (BLOCKED + 8), (r >> 16) as u8),
        _ => Ipv4Addr::new(203, 0, 113, (r >> 8) as u8),
    };
    let known = [22, 25, 53, 80, 123, 443, 465, 853, 993, 3389];
    let port_number = |r: u64| {
        if r.is_multiple_of(3) {
            1024 + (r >> 8) as u16 % 60_000
        } else {
            known[(r >> 8) as usize % 10]
        }
    };
    let port = pick(3) as usize;
    let datagram = Datagram {
        src_mac: mac(4, n),
        dst_mac: mac(5, pick(1000) as u32),
        vlan: None,
        src: somewhere(pick(u64::MAX)),
        dst: somewhere(pick(u64::MAX)),
        ttl: 64,
        transport: if pick(3) == 0 { Transport::Udp } else { Transport::Tcp },
        src_port: port_number(pick(u64::MAX)),
        dst_port: port_number(pick(u64::MAX)),
        payload: [PAYLOAD_MIN, PAYLOAD_MIN, 512, 1400][pick(4) as usize],
    };
    let frame = datagram.bytes(n);
    let out = passes(port, &datagram).map(|to| (to, frame.clone()));
    Stream { port, frame, out }
}

impl Scene for Firewall {
    fn title(&self) -> String {
        format!("firewall: inside, outside and {SERVERS} servers; what no entry allows is dropped")
    }

    fn ports(&self) -> Vec<String> {
        ["inside", "outside", "dmz"].map(String::from).to_vec()
    }

    fn flows(&self) -> Vec<String> {
        let (inside, outside, dmz) = (INSIDE + 1, OUTSIDE + 1, DMZ + 1);
        let mut lines = vec![
            format!(
                "priority=300,in_port={inside},ip,nw_src={INSIDE_NET},nw_dst={DMZ_NET},actions=output:{dmz}"
            ),
            format!(
                "priority=200,in_port={inside},ip,nw_src={INSIDE_NET},actions=output:{outside}"
            ),
            format!("priority=600,in_port={outside},ip,nw_src={INSIDE_NET},actions=drop"),
            format!(
                "priority=500,in_port={outside},udp,nw_dst={},tp_dst=53,actions=output:{dmz}",
                server(2)
            ),
        ];
        for n in 0..BLOCKED {
            lines.push(format!(
                "priority=400,in_port={outside},ip,nw_src=198.18.{n}.0/24,actions=drop"
            ));
        }
        for n in 0..SERVERS {
            let server = server(n);
            for (transport, port) in services(n) {
                let word = word(transport);
                lines.push(format!("priority=300,in_port={outside},{word},nw_dst={server},tp_dst={port},actions=output:{dmz}"));
                lines.push(format!(
                    "priority=300,in_port={dmz},{word},nw_src={server},nw_dst={INSIDE_NET},tp_src={port},actions=output:{inside}"
                ));
                lines.push(format!("priority=200,in_port={dmz},{word},nw_src={server},tp_src={port},actions=output:{outside}"));
            }
        }
        for port in REPLIES {
            lines.push(format!("priority=200,in_port={outside},tcp,nw_dst={INSIDE_NET},tp_src={port},actions=output:{inside}"));
        }
        lines
    }

    fn play(&mut self, ends: &[Handle], stop: &AtomicBool, tally: &Tally) {
        traffic::play(&self.streams, ends, stop, tally);
    }

    fn is_unicast(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_pass_everywhere_and_some_nowhere() {
        let firewall = Firewall::new();
        for port in [INSIDE, OUTSIDE, DMZ] {
            let entering = || firewall.streams.iter().filter(|s| s.port == port);
            assert!(entering().any(|s| s.out.is_some()), "nothing passes from port {port}");
            assert!(entering().any(|s| s.out.is_none()), "everything passes from port {port}");
        }
        assert!(firewall.flows().len() > 200);
    }
}
