//! A learning switch: hosts that find each other by ARP (RFC 826) and ping (RFC 792), through
//! `actions=NORMAL`.
//!
//! Each host pings the others in turn, the next one when the reply is there, and now and then
//! forgets an address, so that it asks again. A reply must come from the host that was asked, and
//! carry what was sent. Once the switch had time to learn, a frame for one host must reach no other.

use super::frames::{grow, mac};
use super::scene::{Scene, Tally};
use port::memory::Handle;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wire::{EtherType, IpProtocol, MacAddr, arp, ethernet, icmpv4, ipv4};

const HOSTS: usize = 6;
/// Kind of the hosts' hardware addresses.
const HOST: u8 = 6;
/// A request without a reply for so long is an error.
const PATIENCE: Duration = Duration::from_secs(1);
/// By then, every host has sent and been learned.
const LEARNED_BY: Duration = Duration::from_secs(2);
/// Pings after which a host forgets whom it pinged.
const FORGET_EVERY: u64 = 500;
/// Pause between two updates of the notes.
const NOTES_EVERY: Duration = Duration::from_millis(400);
/// Bytes in a ping beside its time: what ping(8) sends.
const DATA: usize = 56;

/// The scene.
pub(super) struct Learning;

impl Learning {
    /// The scene.
    pub(super) fn new() -> Learning {
        Learning
    }
}

/// Whom a host waits for.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    for_ip: Ipv4Addr,
    since: Instant,
    /// The echo's number; `None` while it is still asking for the address.
    echo: Option<u16>,
}

struct Host {
    mac: MacAddr,
    ip: Ipv4Addr,
    known: HashMap<Ipv4Addr, MacAddr>,
    waiting: Option<Waiting>,
    /// Pings begun.
    pings: u64,
    /// Pings answered.
    answered: u64,
    /// ARP requests sent.
    asked: u64,
    fastest: Duration,
    slowest: Duration,
    total: Duration,
}

fn address(n: usize) -> Ipv4Addr {
    Ipv4Addr::from(Ipv4Addr::new(10, 0, 0, 1).to_bits() + n as u32)
}

impl Host {
    fn new(n: usize) -> Host {
        Host {
            mac: mac(HOST, n as u32 + 1),
            ip: address(n),
            known: HashMap::new(),
            waiting: None,
            pings: 0,
            answered: 0,
            asked: 0,
            fastest: Duration::MAX,
            slowest: Duration::ZERO,
            total: Duration::ZERO,
        }
    }

    /// The next request of a host that waits for nobody.
    fn begin(&mut self, number: usize, now: Instant) -> Vec<u8> {
        let step = 1 + self.pings as usize % (HOSTS - 1);
        let peer = address((number + step) % HOSTS);
        let (echo, frame) = match self.known.get(&peer) {
            Some(mac) => {
                self.pings += 1;
                let sequence = self.pings as u16;
                let header = icmpv4::Repr::EchoRequest { ident: number as u16, sequence };
                (Some(sequence), self.icmp(*mac, peer, header, &[sequence as u8; DATA]))
            }
            None => {
                self.asked += 1;
                (None, self.arp(arp::Operation::Request, MacAddr::BROADCAST, MacAddr::ZERO, peer))
            }
        };
        self.waiting = Some(Waiting { for_ip: peer, since: now, echo });
        frame
    }

    fn arp(
        &self,
        operation: arp::Operation,
        to: MacAddr,
        target_mac: MacAddr,
        target_ip: Ipv4Addr,
    ) -> Vec<u8> {
        let repr = arp::Repr {
            operation,
            sender_mac: self.mac,
            sender_ip: self.ip,
            target_mac,
            target_ip,
        };
        let ethernet = ethernet::Repr { dst: to, src: self.mac, ethertype: EtherType::ARP };
        let mut out = vec![0; ethernet.buffer_len() + repr.buffer_len()];
        let emitted =
            ethernet.emit(&mut out).and_then(|()| repr.emit(&mut out[ethernet.buffer_len()..]));
        emitted.expect("the buffer has the length that the headers say");
        // Ethernet's least length, IEEE 802.3 §4A.4.2, without the checksum.
        out.resize(60, 0);
        out
    }

    fn icmp(&self, to: MacAddr, dst: Ipv4Addr, header: icmpv4::Repr, data: &[u8]) -> Vec<u8> {
        let build = || -> Result<Vec<u8>, wire::Error> {
            let ethernet = ethernet::Repr { dst: to, src: self.mac, ethertype: EtherType::IPV4 };
            let ip =
                ipv4::Repr::new(self.ip, dst, IpProtocol::ICMP, header.buffer_len() + data.len());
            let mut out = vec![0; ethernet.buffer_len()];
            ethernet.emit(&mut out)?;
            let at = grow(&mut out, ip.buffer_len());
            ip.emit(&mut out[at..])?;
            let at = grow(&mut out, header.buffer_len());
            header.emit(&mut out[at..])?;
            out.extend(data);
            icmpv4::Packet::new_checked(&mut out[at..])?.fill_checksum();
            Ok(out)
        };
        build().expect("a ping is within every length's bounds")
    }

    /// What the host makes of a frame: an answer to send, if one is due.
    fn receive(
        &mut self,
        frame: &[u8],
        learned: bool,
        now: Instant,
    ) -> Result<Option<Vec<u8>>, String> {
        let shown = || wire::summary(frame);
        let ethernet = ethernet::Packet::new_checked(frame).map_err(|e| e.to_string())?;
        if ethernet.dst() != self.mac && !ethernet.dst().is_multicast() {
            // Flooded, as nobody knew where its host is.
            return if learned {
                Err(format!("{} got {}, which is not for it", self.ip, shown()))
            } else {
                Ok(None)
            };
        }
        match ethernet.ethertype() {
            EtherType::ARP => self.receive_arp(ethernet.payload()),
            EtherType::IPV4 => {
                let answer = self.receive_ip(ethernet.src(), ethernet.payload(), now);
                answer.map_err(|e| format!("{}: {e}", shown()))
            }
            _ => Err(format!("nobody sent {}", shown())),
        }
    }

    fn receive_arp(&mut self, payload: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let packet = arp::Packet::new_checked(payload).map_err(|e| e.to_string())?;
        let arp = arp::Repr::parse(&packet).map_err(|e| e.to_string())?;
        if arp.target_ip != self.ip {
            return Ok(None);
        }
        self.known.insert(arp.sender_ip, arp.sender_mac);
        match arp.operation {
            arp::Operation::Request => Ok(Some(self.arp(
                arp::Operation::Reply,
                arp.sender_mac,
                arp.sender_mac,
                arp.sender_ip,
            ))),
            _ => {
                self.waiting.take_if(|w| w.for_ip == arp.sender_ip && w.echo.is_none());
                Ok(None)
            }
        }
    }

    fn receive_ip(
        &mut self,
        from: MacAddr,
        payload: &[u8],
        now: Instant,
    ) -> Result<Option<Vec<u8>>, String> {
        let packet = ipv4::Packet::new_checked(payload).map_err(|e| e.to_string())?;
        let ip = ipv4::Repr::parse(&packet).map_err(|e| e.to_string())?;
        let icmp = icmpv4::Packet::new_checked(packet.payload()).map_err(|e| e.to_string())?;
        if !icmp.verify_checksum() {
            return Err("its checksum is wrong".to_string());
        }
        match icmpv4::Repr::parse(&icmp).map_err(|e| e.to_string())? {
            icmpv4::Repr::EchoRequest { ident, sequence } => {
                let header = icmpv4::Repr::EchoReply { ident, sequence };
                Ok(Some(self.icmp(from, ip.src, header, icmp.payload())))
            }
            icmpv4::Repr::EchoReply { sequence, .. } => {
                let asked = self.waiting.filter(|w| w.for_ip == ip.src && w.echo == Some(sequence));
                let Some(asked) = asked else {
                    return Err("nobody asked for this reply".to_string());
                };
                if icmp.payload() != [sequence as u8; DATA] || ip.ttl != 64 {
                    return Err("it does not carry what was sent".to_string());
                }
                self.waiting = None;
                let took = now.duration_since(asked.since);
                self.answered += 1;
                self.fastest = self.fastest.min(took);
                self.slowest = self.slowest.max(took);
                self.total += took;
                if self.answered.is_multiple_of(FORGET_EVERY) {
                    self.known.remove(&ip.src);
                }
                Ok(None)
            }
            other => Err(format!("nobody sends {other:?}")),
        }
    }

    /// A line for people.
    fn line(&self, port: usize) -> String {
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        let mean = us(self.total) / self.answered.max(1) as f64;
        let fastest = if self.answered == 0 { 0.0 } else { us(self.fastest) };
        format!(
            "port {port} {} {:<8} {:>8} pings {:>4} ARP  rtt {:.0}/{:.0}/{:.0} us",
            self.mac,
            self.ip.to_string(),
            self.answered,
            self.asked,
            fastest,
            mean,
            us(self.slowest)
        )
    }
}

/// Gives the switch a frame; the rings hold far more than all hosts have under way.
fn send(end: &Handle, frame: &[u8], tally: &Tally) {
    if end.inject_bytes(frame) {
        tally.sent.fetch_add(1, Relaxed);
    }
}

/// Waits until a host has something to read.
fn wait(ends: &[Handle]) {
    let mut fds: Vec<_> =
        ends.iter().map(|e| PollFd::from_borrowed_fd(e.fd(), PollFlags::IN)).collect();
    // Interrupted or timed out: the caller looks anyway.
    let _ = rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 }));
}

impl Scene for Learning {
    fn title(&self) -> String {
        format!("learning: {HOSTS} hosts ask by ARP and ping, through actions=NORMAL")
    }

    fn ports(&self) -> Vec<String> {
        (1..=HOSTS).map(|n| format!("host-{n}")).collect()
    }

    fn flows(&self) -> Vec<String> {
        vec!["priority=0,actions=NORMAL".to_string()]
    }

    fn play(&mut self, ends: &[Handle], stop: &AtomicBool, tally: &Tally) {
        let mut hosts: Vec<Host> = (0..HOSTS).map(Host::new).collect();
        let begun = Instant::now();
        let mut noted = begun;
        let mut quiet_since = begun;
        loop {
            let stopping = stop.load(Relaxed);
            let mut taken = 0;
            for (number, (host, end)) in hosts.iter_mut().zip(ends).enumerate() {
                while let Some(frame) = end.take() {
                    taken += 1;
                    let now = Instant::now();
                    tally.received.fetch_add(1, Relaxed);
                    match host.receive(frame.data(), begun.elapsed() > LEARNED_BY, now) {
                        Ok(answer) => {
                            tally.verified.fetch_add(1, Relaxed);
                            answer.iter().for_each(|a| send(end, a, tally));
                        }
                        Err(text) => tally.error(|| text),
                    }
                }
                let now = Instant::now();
                if let Some(late) = host.waiting.take_if(|w| now.duration_since(w.since) > PATIENCE)
                {
                    tally.error(|| {
                        format!("{} has no answer from {} after {PATIENCE:?}", host.ip, late.for_ip)
                    });
                }
                if host.waiting.is_none() && !stopping {
                    let frame = host.begin(number, now);
                    send(end, &frame, tally);
                }
            }
            let now = Instant::now();
            if now.duration_since(noted) > NOTES_EVERY || stopping {
                noted = now;
                tally.note(hosts.iter().zip(1..).map(|(h, port)| h.line(port)).collect());
            }
            if taken > 0 {
                quiet_since = now;
                continue;
            }
            let answered = hosts.iter().all(|h| h.waiting.is_none());
            if stopping && answered && quiet_since.elapsed() > Duration::from_millis(50) {
                return;
            }
            wait(ends);
        }
    }

    fn is_unicast(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hosts_meet() {
        let now = Instant::now();
        let (mut a, mut b) = (Host::new(0), Host::new(1));
        let ask = a.begin(0, now);
        let reply = b.receive(&ask, true, now).unwrap().unwrap();
        assert_eq!(a.receive(&reply, true, now), Ok(None));
        assert!(a.waiting.is_none());
        let ping = a.begin(0, now);
        let pong = b.receive(&ping, true, now).unwrap().unwrap();
        let later = now + Duration::from_micros(250);
        assert_eq!(a.receive(&pong, true, later), Ok(None));
        assert_eq!((a.answered, a.fastest), (1, Duration::from_micros(250)));
        assert!(a.receive(&pong, true, later).unwrap_err().contains("nobody asked"));
    }

    #[test]
    fn a_host_takes_only_what_is_its_own() {
        let now = Instant::now();
        let (mut a, mut c) = (Host::new(0), Host::new(2));
        let b = Host::new(1);
        a.known.insert(b.ip, b.mac);
        let ping = a.begin(0, now);
        assert_eq!(c.receive(&ping, false, now), Ok(None));
        assert!(c.receive(&ping, true, now).unwrap_err().contains("not for it"));
        assert!(c.receive(&ping[..9], true, now).is_err());
    }
}
