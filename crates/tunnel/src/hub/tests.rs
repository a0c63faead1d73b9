//! Hubs with an underlay that tests make up, and without any interface: who attends to a port to the host is asked directly.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use contract::tunnel::{LEN, OptionMap};
use port::kind::Environment;
use port::local::{HOPS_MAX, Hops};
use port::terminal::{Attended, Take};
use port::{Burst, Csum, DropReason, Frame, Gso, GsoKind, Offload, Pool, Port, RxQueue, TxQueue};
use rustix::event::{EventfdFlags, eventfd};

use super::{Hub, Watch, Watched};
use crate::config::{Config, Kind};
use crate::descriptor::Fields;
use crate::inner::tests::udp4;
use crate::refused::Refused;
use crate::underlay::{Next, Sockets, Underlay};

mod fragments;

const DEVICE: u32 = 7;

/// A host with two addresses, behind one device.
struct Net {
    version: AtomicU64,
    addresses: Vec<IpAddr>,
    /// None: asked for and not known yet.
    neighbours: Mutex<HashMap<IpAddr, [u8; 6]>>,
    asked: Mutex<Vec<IpAddr>>,
    mtu: u32,
    sockets: Option<Arc<Queue>>,
}

impl Net {
    fn new(n: u8) -> Net {
        let addresses = vec![v4(n), v6(n)];
        let neighbours = [1, 2].into_iter().flat_map(|n| [(v4(n), [n; 6]), (v6(n), [n; 6])]);
        Net {
            version: AtomicU64::new(0),
            addresses,
            neighbours: Mutex::new(neighbours.collect()),
            asked: Mutex::default(),
            mtu: 1500,
            sockets: None,
        }
    }
}

fn v4(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

fn v6(n: u8) -> IpAddr {
    [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n].into()
}

impl Underlay for Net {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn resolve(&self, to: IpAddr, _: Option<IpAddr>, _: u32) -> Option<Next> {
        let source = *self.addresses.iter().find(|own| own.is_ipv4() == to.is_ipv4())?;
        if to == v4(99) {
            return None;
        }
        let neighbour = self.neighbours.lock().unwrap().get(&to).copied();
        let local_mac = [0xa; 6];
        Some(Next { device: DEVICE, source, local_mac, gateway: to, neighbour, mtu: self.mtu })
    }

    fn ask(&self, device: u32, gateway: IpAddr) {
        assert_eq!(device, DEVICE);
        self.asked.lock().unwrap().push(gateway);
    }

    fn is_local(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    fn index_of(&self, name: &str) -> Option<u32> {
        (name == "phys").then_some(DEVICE)
    }

    fn sockets(&self) -> Option<Arc<dyn Sockets>> {
        self.sockets.clone().map(|queue| queue as Arc<dyn Sockets>)
    }
}

/// The kernel's sockets: what is sent is what comes in.
struct Queue {
    packets: Mutex<VecDeque<Vec<u8>>>,
    listens: Mutex<Vec<(Vec<u16>, bool)>>,
    fd: OwnedFd,
}

impl Sockets for Queue {
    fn send(&self, packet: &[u8], mark: u32) -> io::Result<()> {
        if mark == 13 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.packets.lock().unwrap().push_back(packet.to_vec());
        Ok(())
    }

    fn listen(&self, udp_ports: &[u16], gre: bool) -> io::Result<()> {
        self.listens.lock().unwrap().push((udp_ports.to_vec(), gre));
        Ok(())
    }

    fn receive(&self, each: &mut dyn FnMut(&[u8], port::Offload)) -> usize {
        let packets = std::mem::take(&mut *self.packets.lock().unwrap());
        packets.iter().for_each(|packet| each(packet, port::Offload::NONE));
        packets.len()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One end: a hub with a port to the host and a tunnel port, each with the queues of all workers.
struct End {
    hub: Hub,
    _port: Box<dyn Port>,
    rx: Vec<Box<dyn RxQueue>>,
    tx: Vec<Box<dyn TxQueue>>,
    device: Vec<Box<dyn RxQueue>>,
    takers: Vec<Box<dyn Take>>,
    held: Box<dyn std::any::Any + Send>,
}

fn config(kind: Kind, text: &str) -> Config {
    Config::parse(kind, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn end(net: Arc<Net>, workers: usize, kind: Kind, text: &str) -> End {
    let hub = Hub::new(Hops::new(workers), net);
    let attended = hub.terminal().0.attend("phys").unwrap();
    let Attended { receive, takers, held, .. } = attended;
    let mut port = hub.open("t", config(kind, text)).unwrap();
    let rx = (0..workers).map(|worker| {
        assert_eq!(port.worker_of(worker), Some(worker));
        port.rx_queue(worker).unwrap()
    });
    let rx = rx.collect();
    let tx = (0..workers).map(|_| port.tx_queue().unwrap()).collect();
    End { hub, _port: port, rx, tx, device: receive, takers, held }
}

fn map() -> Arc<OptionMap> {
    Arc::new(OptionMap::new(9, &[(3, 0x102, 0x80, 8), (1, 7, 1, 4)]).unwrap())
}

/// A frame with a descriptor of a map.
fn described(fields: Fields, map: &OptionMap, options: &[u8], inner: &[u8]) -> Frame {
    let mut bytes = vec![0; LEN];
    Fields { map: map.number, ..fields }.write(bytes.first_chunk_mut().unwrap());
    bytes.extend(options);
    bytes.resize(map.descriptor_len(), 0);
    bytes.extend(inner);
    Frame::copy_of(&bytes)
}

fn plain(inner: &[u8]) -> Frame {
    described(Fields::default(), &OptionMap::default(), &[], inner)
}

fn take(queue: &mut dyn RxQueue) -> Vec<Frame> {
    let (mut burst, mut pool, mut all) = (Burst::new(), Pool::new(), Vec::new());
    while queue.rx(&mut burst, &mut pool).unwrap() > 0 {
        all.extend(burst.drain());
        queue.done();
    }
    all
}

/// What one end sends comes to the other one on the same worker.
fn carry(from: &mut End, to: &mut End, worker: usize) -> usize {
    let frames = take(&mut *from.device[worker]);
    let n = frames.len();
    for frame in frames {
        give(&mut *to.takers[worker], frame);
    }
    to.takers[worker].flush();
    n
}

/// Gives a frame that is wanted.
fn give(taker: &mut dyn Take, mut frame: Frame) {
    assert!(taker.wants(&frame), "{frame:?}");
    taker.take(&mut frame, &mut Pool::new());
}

fn refusals(hub: &Hub) -> Vec<(Option<String>, bool, Refused, u64)> {
    hub.refusals().into_iter().map(|r| (r.port, r.sending, r.reason, r.count)).collect()
}

#[test]
fn every_kind_carries_frames_and_what_belongs_to_them() {
    let keys = |kind| match kind {
        Kind::Erspan => 1023,
        Kind::Gre => 0xffff_ffff,
        _ => 0xff_ffff,
    };
    for kind in Kind::ALL {
        for is_ipv6 in [false, true] {
            let own = match kind {
                Kind::Vxlan => ",exts=gbp",
                Kind::Erspan => ",erspan_ver=flow,erspan_dir=flow,erspan_hwid=flow,erspan_idx=flow",
                Kind::Gre => ",csum=true,seq=true",
                Kind::Geneve => "",
            };
            let text = format!("remote_ip=flow,local_ip=flow,key=flow,ttl=9,tos=8{own}");
            let mut a = end(Arc::new(Net::new(1)), 2, kind, &text);
            let mut b = end(Arc::new(Net::new(2)), 2, kind, &text);
            let map = map();
            assert!(a.hub.set_options("t", map.clone()) && b.hub.set_options("t", map.clone()));
            assert!(!a.hub.set_options("u", map.clone()));
            let address = if is_ipv6 { v6 } else { v4 };
            let mut fields = Fields {
                id: keys(kind),
                src: Some(address(1)),
                dst: Some(address(2)),
                ..Fields::default()
            };
            let mut options = vec![0; map.len()];
            match kind {
                Kind::Geneve => {
                    (fields.flags, fields.present) = (1, 1 << 3 | 1 << 1);
                    options = (1..=map.len() as u8).collect();
                }
                Kind::Vxlan => (fields.gbp_id, fields.gbp_flags) = (77, 0x48),
                Kind::Gre => {}
                Kind::Erspan => {
                    (fields.erspan_ver, fields.erspan_dir, fields.erspan_hwid) = (2, 1, 5);
                }
            }
            for worker in [1, 0] {
                let inners: Vec<Vec<u8>> = (0..100).map(|n| udp4(n, 2)).collect();
                for inner in &inners {
                    let frame = described(fields, &map, &options, inner);
                    a.tx[worker].tx(&frame).unwrap();
                }
                let report = a.tx[worker].flush();
                assert_eq!((report.sent, report.sent_bytes), (100, 4200));
                assert_eq!(a.device[worker].local(), Some(true));
                assert_eq!(a.device[1 - worker].local(), Some(false));
                assert_eq!(carry(&mut a, &mut b, worker), 100);
                assert!(take(&mut *b.rx[1 - worker]).is_empty());
                let frames = take(&mut *b.rx[worker]);
                assert_eq!(frames.len(), 100);
                let tos = 8 | 2;
                let wanted = Fields { map: map.number, tos, ttl: 9, ..fields };
                for (frame, inner) in frames.iter().zip(&inners) {
                    let (descriptor, got) = frame.data().split_at(map.descriptor_len());
                    assert_eq!(got, inner, "{kind} {is_ipv6}");
                    assert_eq!(Fields::read(descriptor), Some(wanted), "{kind} {is_ipv6}");
                    assert_eq!(descriptor[LEN..], options);
                }
            }
            assert!(refusals(&a.hub).is_empty() && refusals(&b.hub).is_empty());
        }
    }
}

#[test]
fn what_is_no_tunnel_packet_for_this_host_is_left_to_it() {
    let mut a = end(Arc::new(Net::new(1)), 1, Kind::Geneve, "remote_ip=10.0.0.2,key=5");
    let mut b = end(Arc::new(Net::new(2)), 1, Kind::Geneve, "remote_ip=10.0.0.1,key=5");
    assert!(!b.takers[0].wants(&Frame::copy_of(&udp4(1, 0))));
    assert!(!b.takers[0].wants(&Frame::copy_of(&[0; 60])));
    a.tx[0].tx(&plain(&udp4(1, 0))).unwrap();
    a.tx[0].flush();
    let frame = take(&mut *a.device[0]).remove(0);
    assert_eq!(frame.data()[..12], [2, 2, 2, 2, 2, 2, 10, 10, 10, 10, 10, 10]);
    assert!(!a.takers[0].wants(&frame), "it is for the other host");
    assert!(b.takers[0].wants(&frame));
    let mut other = frame.clone();
    other.data_mut()[37] = 99;
    assert!(!b.takers[0].wants(&other), "another UDP port");
    // Padding is no part of the frame.
    let mut padded = frame.clone();
    padded.extend(&[0xee; 20]);
    give(&mut *b.takers[0], padded);
    b.takers[0].flush();
    assert_eq!(take(&mut *b.rx[0])[0].data()[LEN..], udp4(1, 0));
    // Another key.
    let mut stranger = frame.clone();
    stranger.data_mut()[48] = 6;
    give(&mut *b.takers[0], stranger);
    assert_eq!(refusals(&b.hub), [(None, false, Refused::NoPort, 1)]);
    // A port that is down.
    b._port.set_admin(false).unwrap();
    assert!(!b._port.link().is_up());
    give(&mut *b.takers[0], frame);
    assert_eq!(b._port.kernel_stats().rx_errors, 1);
    assert_eq!(b.tx[0].tx(&plain(&udp4(1, 0))), Err(DropReason::TxLinkDown));
    assert_eq!(
        refusals(&b.hub),
        [
            (None, false, Refused::NoPort, 1),
            (Some("t".into()), true, Refused::PortDown, 1),
            (Some("t".into()), false, Refused::PortDown, 1),
        ]
    );
}

#[test]
fn who_watches_a_port_has_frames_before_it() {
    let mut a = end(Arc::new(Net::new(1)), 1, Kind::Geneve, "remote_ip=10.0.0.2,key=flow");
    let mut b = end(Arc::new(Net::new(2)), 1, Kind::Geneve, "remote_ip=10.0.0.1,key=flow");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let watch = Watch::new(move |frame, key| {
        sees.lock().unwrap().push((frame.to_vec(), key));
        [Watched::Other, Watched::Taken, Watched::Lost][key as usize]
    });
    assert!(b.hub.set_watch("t", Some(watch)));
    assert!(!b.hub.set_watch("u", None));
    let mut round = |b: &mut End| {
        for id in 0..3 {
            let fields = Fields { id, ..Fields::default() };
            let inner = udp4(id as u16, 0);
            a.tx[0].tx(&described(fields, &OptionMap::default(), &[], &inner)).unwrap();
        }
        a.tx[0].flush();
        assert_eq!(carry(&mut a, b, 0), 3);
        let frames = take(&mut *b.rx[0]);
        frames.iter().map(|frame| frame.data()[LEN..].to_vec()).collect::<Vec<_>>()
    };
    let inners = [0, 1, 2].map(|id| udp4(id, 0));
    assert_eq!(round(&mut b), [inners[0].clone()]);
    let shown: Vec<_> = inners.iter().cloned().zip(0..3).collect();
    assert_eq!(*seen.lock().unwrap(), shown);
    assert_eq!(refusals(&b.hub), [(Some("t".into()), false, Refused::WatchQueue, 1)]);
    assert!(b.hub.set_watch("t", None));
    assert_eq!(round(&mut b), inners);
    assert_eq!(seen.lock().unwrap().len(), 3, "nobody watches");
}

#[test]
fn packets_wait_for_a_neighbour_a_few_for_a_while() {
    let net = Arc::new(Net::new(1));
    net.neighbours.lock().unwrap().clear();
    let mut a = end(net.clone(), 1, Kind::Vxlan, "remote_ip=10.0.0.2,key=5");
    for n in 0..10 {
        let expected = if n < 8 { Ok(()) } else { Err(DropReason::TunnelRefused) };
        assert_eq!(a.tx[0].tx(&plain(&udp4(n, 0))), expected);
    }
    a.tx[0].flush();
    assert_eq!(*net.asked.lock().unwrap(), [v4(2); 10]);
    assert_eq!(refusals(&a.hub), [(Some("t".into()), true, Refused::NeighbourQueue, 2)]);
    // The worker is woken to look, and looks until they can go.
    let long = Duration::from_secs(20);
    assert!(port::wait_readable(a.device[0].fd().unwrap(), long));
    assert!(take(&mut *a.device[0]).is_empty());
    net.neighbours.lock().unwrap().insert(v4(2), [0xbb; 6]);
    net.version.fetch_add(1, Ordering::AcqRel);
    let mut waited = Vec::new();
    while waited.is_empty() {
        assert!(port::wait_readable(a.device[0].fd().unwrap(), long));
        waited = take(&mut *a.device[0]);
    }
    assert_eq!(waited.len(), 8);
    assert!(waited.iter().all(|frame| frame.data()[..6] == [0xbb; 6]));
    assert_eq!(a.device[0].local(), Some(false));
    assert_eq!(refusals(&a.hub).len(), 1);
    // What waits for too long is dropped and counted.
    net.neighbours.lock().unwrap().clear();
    net.version.fetch_add(1, Ordering::AcqRel);
    a.tx[0].tx(&plain(&udp4(1, 0))).unwrap();
    let devices = a.hub.0.devices.load_full();
    let later = Instant::now() + Duration::from_secs(2);
    devices[0].pending[0].look(&*net, later, |_, _| panic!("nobody knows where to"));
    assert!(refusals(&a.hub).contains(&(Some("t".into()), true, Refused::NeighbourUnknown, 1)));
    assert_eq!(a._port.kernel_stats().tx_dropped, 1);
    // So is what waits while its device goes.
    a.tx[0].tx(&plain(&udp4(1, 0))).unwrap();
    a.held = Box::new(());
    assert!(refusals(&a.hub).contains(&(Some("t".into()), true, Refused::NeighbourUnknown, 2)));
    assert_eq!(a.tx[0].tx(&plain(&udp4(1, 0))), Err(DropReason::TunnelRefused));
    assert!(refusals(&a.hub).contains(&(Some("t".into()), true, Refused::NoDevice, 1)));
}

/// TCP over IPv4 behind a descriptor, as a sender's kernel hands it over.
fn tcp(payload: usize) -> Frame {
    let mut inner = vec![2; 12];
    inner.extend([8, 0, 0x45, 0]);
    inner.extend((40 + payload as u16).to_be_bytes());
    inner.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = wire::checksum::checksum(&inner[14..34]);
    inner[24..26].copy_from_slice(&sum.to_be_bytes());
    inner.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 1, 0, 0, 0, 0]);
    inner.resize(54 + payload, 7);
    let bare = wire::checksum::Pseudo::from((
        std::net::Ipv4Addr::new(10, 0, 0, 1),
        std::net::Ipv4Addr::new(10, 0, 0, 2),
    ));
    let bare = bare.sum(wire::IpProtocol::TCP, 20 + payload as u32).fold();
    inner[50..52].copy_from_slice(&bare.to_be_bytes());
    let mut frame = plain(&inner);
    frame.offload.csum = Csum::Partial { start: (LEN + 34) as u16, offset: 16 };
    frame
}

#[test]
fn offloads_are_completed_before_the_headers_come() {
    let text = "remote_ip=10.0.0.2,key=5,csum=true";
    let mut a = end(Arc::new(Net::new(1)), 1, Kind::Geneve, text);
    let mut b = end(Arc::new(Net::new(2)), 1, Kind::Geneve, "remote_ip=10.0.0.1,key=5");
    let mut pool = Pool::new();
    a.tx[0].tx_owned(tcp(100), &mut pool).unwrap();
    let mut long = tcp(5000);
    long.offload.gso =
        Some(Gso { kind: GsoKind::TcpV4, size: 1400, hdr_len: LEN as u16 + 54, ecn: false });
    a.tx[0].tx(&long).unwrap();
    let report = a.tx[0].flush();
    assert_eq!(report.sent, 5);
    assert_eq!(carry(&mut a, &mut b, 0), 2, "the segments of one frame leave together");
    let mut octets = 0;
    for frame in take(&mut *b.rx[0]) {
        for inner in cut(frame) {
            wire::offload::verify_checksums(&inner).unwrap();
            octets += inner.len() - 54;
        }
    }
    assert_eq!(octets, 5100);
    // One that cannot be cut.
    let mut wrong = plain(&udp4(1, 0));
    wrong.offload.gso = Some(Gso { kind: GsoKind::TcpV6, size: 10, hdr_len: 0, ecn: false });
    assert_eq!(a.tx[0].tx(&wrong), Err(DropReason::TxNoOffload));
    // Segments that are too long for the underlay.
    let mut large = tcp(3000);
    large.offload.gso = Some(Gso { kind: GsoKind::TcpV4, size: 1490, hdr_len: 0, ecn: false });
    a.tx[0].tx(&large).unwrap();
    let report = a.tx[0].flush();
    assert_eq!(report.sent, 1);
    assert_eq!(report.drops.iter().collect::<Vec<_>>(), [(DropReason::TxTooLong, 2)]);
    assert_eq!(
        refusals(&a.hub),
        [(Some("t".into()), true, Refused::Mtu, 2), (Some("t".into()), true, Refused::Offload, 1)]
    );
}

/// What an inner frame stands for, without its descriptor.
fn cut(mut frame: Frame) -> Vec<Vec<u8>> {
    frame.pull_front(LEN);
    packets(&frame)
}

/// What a frame stands for.
fn packets(frame: &Frame) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    port::gso::complete(frame, &mut Pool::new(), |part| all.push(part.data().to_vec())).unwrap();
    all
}

#[test]
fn packets_of_one_frame_leave_as_one_and_are_those_of_its_segments() {
    const PAYLOAD: usize = 60_000;
    for (kind, is_ipv6) in [Kind::Geneve, Kind::Vxlan].into_iter().zip([false, true]) {
        let n = |n| if is_ipv6 { v6(n) } else { v4(n) };
        let to = |to: u8| format!("remote_ip={},key=5,csum=true", n(to));
        let mut a = end(Arc::new(Net::new(1)), 1, kind, &to(2));
        let mut b = end(Arc::new(Net::new(2)), 1, kind, &to(1));
        let mut whole = tcp(PAYLOAD);
        whole.offload.gso =
            Some(Gso { kind: GsoKind::TcpV4, size: 1360, hdr_len: LEN as u16 + 54, ecn: false });
        let segments = cut(whole.clone());
        a.tx[0].tx(&whole).unwrap();
        let report = a.tx[0].flush();
        assert_eq!(report.sent, segments.len() as u64);
        assert_eq!(report.sent_bytes, segments.iter().map(|s| s.len() as u64).sum::<u64>());
        let joined = take(&mut *a.device[0]);
        assert_eq!(joined.len(), 1);
        // The same, one by one.
        for segment in &segments {
            a.tx[0].tx(&plain(segment)).unwrap();
        }
        a.tx[0].flush();
        let single = take(&mut *a.device[0]);
        let mut together = packets(&joined[0]);
        assert_eq!(together.len(), single.len());
        for (n, (one, other)) in together.iter_mut().zip(&single).enumerate() {
            wire::offload::verify_checksums(one).unwrap();
            if !is_ipv6 {
                assert_eq!(one[18..20], (n as u16).to_be_bytes(), "Linux counts so as well");
                one[18..20].copy_from_slice(&other.data()[18..20]);
                one[24..26].copy_from_slice(&other.data()[24..26]);
            }
            assert!(one == other.data(), "{kind}: packet {n}");
        }
        // However they come, what is inside becomes the frame that was sent.
        for frames in [joined, single] {
            for frame in frames {
                give(&mut *b.takers[0], frame);
            }
            b.takers[0].flush();
            let got = take(&mut *b.rx[0]);
            assert_eq!(got.len(), 1);
            assert_eq!(got[0].data().len(), whole.data().len());
            assert_eq!(got[0].data()[LEN..], whole.data()[LEN..]);
            assert_eq!(got[0].offload, whole.offload);
            assert!(cut(got[0].clone()) == segments);
        }
        assert!(refusals(&a.hub).is_empty() && refusals(&b.hub).is_empty());
    }
}

#[test]
fn what_fits_no_packet_leaves_as_several() {
    let text = "remote_ip=10.0.0.2,key=5,csum=true";
    let mut a = end(Arc::new(Net::new(1)), 1, Kind::Geneve, text);
    let mut b = end(Arc::new(Net::new(2)), 1, Kind::Geneve, "remote_ip=10.0.0.1,key=5");
    for size in [100, 1400] {
        let mut whole = tcp(65_000);
        whole.offload.gso =
            Some(Gso { kind: GsoKind::TcpV4, size, hdr_len: LEN as u16 + 54, ecn: false });
        let segments = cut(whole.clone());
        a.tx[0].tx(&whole).unwrap();
        assert_eq!(a.tx[0].flush().sent, segments.len() as u64);
        let joined = take(&mut *a.device[0]);
        assert_eq!(joined.len(), if size == 100 { 650usize.div_ceil(64) } else { 2 });
        assert_eq!(joined.iter().map(|f| packets(f).len()).sum::<usize>(), segments.len());
        for frame in joined {
            give(&mut *b.takers[0], frame);
        }
        b.takers[0].flush();
        let got: Vec<_> = take(&mut *b.rx[0]).into_iter().flat_map(cut).collect();
        assert!(got == segments);
    }
    // Without sums outside, with fragments allowed, and without UDP they leave one by one.
    for (kind, text) in [
        (Kind::Geneve, "csum=false"),
        (Kind::Geneve, "csum=true,df_default=false"),
        (Kind::Gre, "csum=true"),
    ] {
        let text = format!("remote_ip=10.0.0.2,{text}");
        let mut a = end(Arc::new(Net::new(1)), 1, kind, &text);
        let mut whole = tcp(5000);
        whole.offload.gso = Some(Gso { kind: GsoKind::TcpV4, size: 1400, hdr_len: 0, ecn: false });
        a.tx[0].tx(&whole).unwrap();
        a.tx[0].flush();
        let frames = take(&mut *a.device[0]);
        assert_eq!((frames.len(), frames[0].offload), (4, Offload::NONE), "{text}");
    }
    // They wait for a neighbour as one.
    let net = Arc::new(Net::new(1));
    net.neighbours.lock().unwrap().clear();
    let mut a = end(net, 1, Kind::Geneve, text);
    for _ in 0..9 {
        let mut whole = tcp(5000);
        whole.offload.gso = Some(Gso { kind: GsoKind::TcpV4, size: 1400, hdr_len: 0, ecn: false });
        a.tx[0].tx(&whole).unwrap();
    }
    let report = a.tx[0].flush();
    assert_eq!(report.sent, 32);
    assert_eq!(report.drops.iter().collect::<Vec<_>>(), [(DropReason::TunnelRefused, 4)]);
    assert_eq!(refusals(&a.hub), [(Some("t".into()), true, Refused::NeighbourQueue, 4)]);
}

#[test]
fn what_was_said_of_the_outer_sum_is_not_said_of_the_inner_one() {
    let mut a = end(Arc::new(Net::new(1)), 1, Kind::Vxlan, "remote_ip=10.0.0.2,csum=true");
    let mut b = end(Arc::new(Net::new(2)), 1, Kind::Vxlan, "remote_ip=10.0.0.1");
    a.tx[0].tx(&plain(&udp4(1, 0))).unwrap();
    a.tx[0].flush();
    let mut frame = take(&mut *a.device[0]).remove(0);
    frame.offload.csum = Csum::Valid;
    give(&mut *b.takers[0], frame);
    b.takers[0].flush();
    assert_eq!(take(&mut *b.rx[0])[0].offload, Offload::NONE);
}

#[test]
fn what_arrives_with_a_partial_sum_inside_keeps_it() {
    let mut a = end(Arc::new(Net::new(1)), 1, Kind::Vxlan, "remote_ip=10.0.0.2");
    let mut b = end(Arc::new(Net::new(2)), 1, Kind::Vxlan, "remote_ip=10.0.0.1");
    let mut sent = tcp(10);
    sent.offload = Offload::NONE;
    a.tx[0].tx(&sent).unwrap();
    a.tx[0].flush();
    let mut frame = take(&mut *a.device[0]).remove(0);
    frame.offload.csum = Csum::Partial { start: 50 + 34, offset: 16 };
    give(&mut *b.takers[0], frame);
    b.takers[0].flush();
    let frame = take(&mut *b.rx[0]).remove(0);
    assert_eq!(frame.offload.csum, Csum::Partial { start: (LEN + 34) as u16, offset: 16 });
}

/// As Linux's VXLAN device hands frames over by veth.
#[test]
fn a_packet_around_many_segments_stays_one() {
    let mut net = Net::new(1);
    net.mtu = 65_535;
    let mut a = end(Arc::new(net), 1, Kind::Vxlan, "remote_ip=10.0.0.2");
    let mut b = end(Arc::new(Net::new(2)), 1, Kind::Vxlan, "remote_ip=10.0.0.1");
    let mut whole = tcp(5000);
    let inner = whole.data()[LEN..].to_vec();
    whole.offload = Offload::NONE;
    a.tx[0].tx(&whole).unwrap();
    a.tx[0].flush();
    let mut frame = take(&mut *a.device[0]).remove(0);
    let gso = Gso { kind: GsoKind::TcpV4, size: 1400, hdr_len: 50 + 54, ecn: false };
    let csum = Csum::Partial { start: 50 + 34, offset: 16 };
    frame.offload = Offload { csum, gso: Some(gso) };
    give(&mut *b.takers[0], frame.clone());
    // A sum outside says that the outer flow is to be cut, which no TCP is.
    frame.offload.csum = Csum::Partial { start: 34, offset: 6 };
    give(&mut *b.takers[0], frame);
    b.takers[0].flush();
    let frames = take(&mut *b.rx[0]);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].data()[LEN..], inner);
    let start = (LEN + 34) as u16;
    let gso = Gso { hdr_len: LEN as u16 + 54, ..gso };
    let csum = Csum::Partial { start, offset: 16 };
    assert_eq!(frames[0].offload, Offload { csum, gso: Some(gso) });
    assert_eq!(refusals(&b.hub), [(None, false, Refused::Offload, 1)]);
}

#[test]
fn refusals_have_their_reasons() {
    let mut a = end(Arc::new(Net::new(1)), 1, Kind::Geneve, "remote_ip=flow,key=flow");
    let to = |n| Fields { dst: Some(v4(n)), ..Fields::default() };
    let empty = OptionMap::default();
    let inner = udp4(1, 0);
    for (frame, reason) in [
        (plain(&inner), Refused::NoRemote),
        (described(to(99), &empty, &[], &inner), Refused::Unreachable),
        (described(to(2), &map(), &[], &inner), Refused::StaleMap),
        (described(to(2), &empty, &[], &inner[..13]), Refused::TooShort),
        (Frame::copy_of(&[0; LEN - 1]), Refused::Descriptor),
        (described(to(2), &empty, &[], &[0; 1465]), Refused::Mtu),
        (described(to(2), &empty, &[], &[0; 65_530]), Refused::TooLong),
    ] {
        let before = a.hub.refusals();
        assert!(a.tx[0].tx(&frame).is_err(), "{reason}");
        let count = |all: &[super::Refusal]| {
            all.iter().filter(|r| r.reason == reason).map(|r| r.count).sum::<u64>()
        };
        assert_eq!(count(&a.hub.refusals()), count(&before) + 1, "{reason}");
    }
    assert!(a.tx[0].tx(&described(to(2), &empty, &[], &[0; 1464])).is_ok());
    assert_eq!(a.tx[0].flush().sent, 1);
    assert_eq!(a._port.kernel_stats().tx_errors, 7);
}

#[test]
fn circles_and_full_queues_end() {
    let mut a = end(Arc::new(Net::new(1)), 1, Kind::Gre, "remote_ip=10.0.0.2");
    // A bridge that sends back what it gets.
    let mut hops = 0;
    let outcome = loop {
        if let Err(reason) = a.tx[0].tx(&plain(&udp4(1, 0))) {
            break reason;
        }
        a.tx[0].flush();
        let mut burst = Burst::new();
        assert_eq!(a.device[0].rx(&mut burst, &mut Pool::new()).unwrap(), 1);
        hops += 1;
    };
    assert_eq!((outcome, hops), (DropReason::PatchLoop, HOPS_MAX));
    a.device[0].done();
    let full = (0..5000).find_map(|_| a.tx[0].tx(&plain(&udp4(1, 0))).err());
    assert_eq!(full, Some(DropReason::TxQueueFull));
    let reasons: Vec<_> = a.hub.refusals().iter().map(|r| r.reason).collect();
    assert_eq!(reasons, [Refused::Loop, Refused::QueueFull]);
}

#[test]
fn what_comes_for_a_queue_that_was_closed_is_counted() {
    let mut a = end(Arc::new(Net::new(1)), 1, Kind::Gre, "remote_ip=10.0.0.2");
    let mut b = end(Arc::new(Net::new(2)), 1, Kind::Gre, "remote_ip=10.0.0.1");
    for _ in 0..3 {
        a.tx[0].tx(&plain(&udp4(1, 0))).unwrap();
    }
    a.tx[0].flush();
    let mut frames = take(&mut *a.device[0]);
    give(&mut *b.takers[0], frames.remove(0));
    b.takers[0].flush();
    give(&mut *b.takers[0], frames.remove(0));
    b.rx.clear();
    assert_eq!(b._port.kernel_stats().rx_dropped, 1);
    b.takers[0].flush();
    give(&mut *b.takers[0], frames.remove(0));
    b.takers[0].flush();
    assert_eq!(b._port.kernel_stats().rx_dropped, 3);
}

#[test]
fn names_and_ends_are_there_once_and_go_with_their_port() {
    let hub = Hub::new(Hops::new(1), Arc::new(Net::new(1)));
    let open = |name, kind, text| hub.open(name, config(kind, text));
    let first = open("a", Kind::Geneve, "remote_ip=10.0.0.2").unwrap();
    let error = |port: Result<Box<dyn Port>, port::Error>| port.err().unwrap().to_string();
    assert_eq!(
        error(open("a", Kind::Gre, "remote_ip=10.0.0.2")),
        "a: the tunnel port of this name is open already; it can be opened once"
    );
    assert_eq!(
        error(open("b", Kind::Geneve, "remote_ip=10.0.0.2,key=0")),
        "b: another tunnel port has the same remote_ip, local_ip, in_key and dst_port"
    );
    assert!(error(open("b", Kind::Vxlan, "remote_ip=10.0.0.2,dst_port=6081")).contains("6081"));
    let names = |hub: &Hub| hub.ports().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&hub), ["a"]);
    drop(first);
    let again = Environment::default().with(hub.clone());
    let spec = port::spec::Spec::parse(
        "b=vxlan:remote_ip=10.0.0.2,dst_port=6081",
        port::kind::Kinds(&crate::kinds::KINDS),
    );
    let port = spec.unwrap().open(&again).unwrap();
    assert_eq!((names(&hub), port.info().kind), (vec!["b".to_owned()], "vxlan"));
}

#[test]
fn other_devices_are_reached_by_the_kernels_sockets() {
    let fd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let queue = Arc::new(Queue { packets: Mutex::default(), listens: Mutex::default(), fd });
    // Both ends of the tunnel are this host.
    let mut net = Net::new(1);
    net.addresses.push(v4(2));
    net.sockets = Some(queue.clone());
    net.neighbours.lock().unwrap().clear();
    let hub = Hub::new(Hops::new(2), Arc::new(net));
    let far = "remote_ip=10.0.0.2,local_ip=10.0.0.1,df_default=false";
    let mut a = hub.open("a", config(Kind::Geneve, far)).unwrap();
    let near = "remote_ip=10.0.0.1,local_ip=10.0.0.2";
    let mut b = hub.open("b", config(Kind::Geneve, near)).unwrap();
    assert_eq!(*queue.listens.lock().unwrap(), vec![(vec![6081], false); 2]);
    assert_eq!((b.info().rx_queues, b.worker_of(1), b.worker_of(2)), (3, Some(1), Some(0)));
    let (mut tx, mut of_a) = (a.tx_queue().unwrap(), a.rx_queue(2).unwrap());
    let (mut rx, mut of_b) = (b.rx_queue(0).unwrap(), b.rx_queue(2).unwrap());
    assert!(of_b.fd().is_some() && of_b.local().is_none());
    tx.tx(&plain(&udp4(1, 0))).unwrap();
    assert_eq!(tx.flush().sent, 1);
    // Any port takes what comes for another one.
    assert!(take(&mut *of_a).is_empty());
    assert_eq!(rx.local(), Some(true));
    assert_eq!(take(&mut *rx)[0].data()[LEN..], udp4(1, 0));
    // It goes in fragments where it may.
    let long = plain(&[0; 3000]);
    tx.tx(&long).unwrap();
    assert_eq!(b.tx_queue().unwrap().tx(&long), Err(DropReason::TxTooLong));
    let lens: Vec<usize> = queue.packets.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(lens, [1500, 1500, 20 + 8 + 8 + 3000 - 2 * 1480]);
    drop(take(&mut *of_b));
    let marked = "remote_ip=10.0.0.9,egress_pkt_mark=13";
    let mut c = hub.open("c", config(Kind::Gre, marked)).unwrap();
    assert_eq!(queue.listens.lock().unwrap().last(), Some(&(vec![6081], true)));
    assert_eq!(c.tx_queue().unwrap().tx(&plain(&udp4(1, 0))), Err(DropReason::TxRefused));
    drop((a, b, c));
    assert_eq!(queue.listens.lock().unwrap().last(), Some(&(vec![], false)));
}

#[test]
fn many_workers_send_and_take_while_ports_and_maps_change() {
    const WORKERS: usize = 4;
    const FRAMES: u16 = 2000;
    let text = "remote_ip=flow,key=flow";
    let mut a = end(Arc::new(Net::new(1)), WORKERS, Kind::Geneve, text);
    let mut b = end(Arc::new(Net::new(2)), WORKERS, Kind::Geneve, text);
    let (hub_a, hub_b) = (a.hub.clone(), b.hub.clone());
    let queues = (a.tx.drain(..).zip(a.device.drain(..)))
        .zip(b.takers.drain(..).zip(b.rx.drain(..)))
        .collect::<Vec<_>>();
    let fields = Fields { dst: Some(v4(2)), ..Fields::default() };
    let taken: u64 = std::thread::scope(|scope| {
        let workers = queues.into_iter().enumerate().map(
            |(worker, ((mut tx, mut device), (mut taker, mut rx)))| {
                scope.spawn(move || {
                    let (mut pool, mut taken) = (Pool::new(), 0);
                    for n in 0..FRAMES {
                        let fields = Fields { id: worker as u64, ..fields };
                        let frame = described(fields, &OptionMap::default(), &[], &udp4(n, 0));
                        // While another map is in force, it is refused.
                        let _ = tx.tx(&frame);
                        tx.flush();
                        for mut frame in take(&mut *device) {
                            assert!(taker.wants(&frame));
                            taker.take(&mut frame, &mut pool);
                        }
                        taker.flush();
                        for frame in take(&mut *rx) {
                            let fields = Fields::read(frame.data()).unwrap();
                            assert_eq!(fields.id, worker as u64, "frames stay on their worker");
                            taken += 1;
                        }
                    }
                    taken
                })
            },
        );
        let workers: Vec<_> = workers.collect();
        for n in 0..200u16 {
            let map = match n % 2 {
                0 => Arc::new(OptionMap::new(n + 1, &[]).unwrap()),
                _ => Arc::default(),
            };
            hub_a.set_options("t", map);
            let other = hub_b.open("u", config(Kind::Geneve, "remote_ip=10.9.9.9")).unwrap();
            drop(other);
        }
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let refused: u64 = hub_a.refusals().iter().map(|r| r.count).sum();
    assert!(hub_a.refusals().iter().all(|r| r.reason == Refused::StaleMap));
    assert!(hub_b.refusals().is_empty(), "{:?}", hub_b.refusals());
    assert_eq!(taken + refused, WORKERS as u64 * u64::from(FRAMES));
    assert!(taken > 0);
}
