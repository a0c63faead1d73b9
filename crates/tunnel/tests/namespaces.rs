//! A tunnel port, a port of the kind `internal` and an AF_PACKET port, against Linux's own tunnel devices at the other end.
//!
//! The loop below stands for a worker with two bridges: one joins the host's port and the network interface, the other one a
//! virtual machine's interface and the tunnel.

#[path = "../../port/tests/lab/mod.rs"]
mod lab;

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::tunnel::LEN;
use lab::{Lab, ping, sh};
use port::kind::{Environment, Kinds};
use port::local::Hops;
use port::spec::Spec;
use port::tap::{INTERNAL, Tap};
use port::{Burst, Pool, Port, RxQueue, TxQueue};
use tunnel::underlay::{Next, Underlay};
use tunnel::{Hub, Refused};

/// The kind of the port to the host.
static HOST: [&port::kind::Kind; 1] = [&INTERNAL];

/// One device, `phys`, and one neighbour.
struct Net {
    own: [IpAddr; 2],
    local_mac: [u8; 6],
    neighbour: [u8; 6],
}

impl Underlay for Net {
    fn version(&self) -> u64 {
        1
    }

    fn resolve(&self, to: IpAddr, _: Option<IpAddr>, _: u32) -> Option<Next> {
        let source = *self.own.iter().find(|own| own.is_ipv4() == to.is_ipv4())?;
        let (local_mac, neighbour) = (self.local_mac, Some(self.neighbour));
        Some(Next { device: 1, source, local_mac, gateway: to, neighbour, mtu: 1500 })
    }

    fn ask(&self, _: u32, _: IpAddr) {}

    fn is_local(&self, address: IpAddr) -> bool {
        self.own.contains(&address)
    }

    fn index_of(&self, name: &str) -> Option<u32> {
        (name == "phys").then_some(1)
    }
}

fn mac(text: &str) -> [u8; 6] {
    let octets: Vec<u8> =
        text.trim().split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    octets.try_into().unwrap()
}

/// Queues of a way, and what happens to descriptors on it.
struct Way {
    rx: Box<dyn RxQueue>,
    tx: usize,
    descriptor: Change,
}

#[derive(Clone, Copy)]
enum Change {
    None,
    Put,
    Take,
}

/// Runs ways until it is to stop; frames leave by transmit queues by their number.
fn run(mut ways: Vec<Way>, mut txs: Vec<Box<dyn TxQueue>>, stop: &AtomicBool) {
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    while !stop.load(Ordering::Relaxed) {
        let mut passed = 0;
        for way in &mut ways {
            passed += way.rx.rx(&mut burst, &mut pool).unwrap_or(0);
            for mut frame in burst.drain() {
                match way.descriptor {
                    Change::None => {}
                    Change::Put => frame.push_front(LEN).fill(0),
                    Change::Take => frame.pull_front(LEN),
                }
                // What is refused is counted by the hub, and the transfers below would not end.
                let _ = txs[way.tx].tx_owned(frame, &mut pool);
            }
            way.rx.done();
        }
        txs.iter_mut().for_each(|tx| drop(tx.flush()));
        if passed == 0 {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}

/// Pings and a transfer in each direction through a tunnel to a device of the kernel.
fn against_linux(spec: &str, device: &str, remote_is_ipv6: bool) {
    let Some(lab) = Lab::new() else { return };
    lab.veth("b", "p1", "10.88.0.2");
    lab.at("b", "ip addr add fd88::2/64 dev eth0 nodad");
    let made = sh(&format!("ip -n {} link add tun0 type {device}", lab.ns("b")));
    if !made.status.success() {
        println!("skipped: this kernel makes no tunnel of `{device}`");
        return;
    }
    lab.at("b", "ip addr add 192.168.7.2/24 dev tun0");
    lab.at("b", "ip link set tun0 mtu 1400 up");
    let neighbour = mac(&lab.at("b", "cat /sys/class/net/eth0/address"));
    let (own, local_mac) =
        (["10.88.0.1".parse().unwrap(), "fd88::1".parse().unwrap()], [2, 8, 8, 8, 8, 1]);
    let hub = Hub::new(Hops::new(1), Arc::new(Net { own, local_mac, neighbour }));
    let environment = Environment::default().with(hub.clone()).with(hub.terminal());
    let (phys, (nic_tx, nic_rx), vm) = lab.within("s", || {
        let phys = Spec::parse("internal:phys", Kinds(&HOST)).unwrap();
        let phys = phys.open(&environment).expect("phys");
        let mut nic = port::af_packet::AfPacket::open("p1").expect("p1");
        let nic = (nic.tx_queue().unwrap(), nic.rx_queue(0).unwrap());
        (phys, nic, Tap::open("vm").expect("vm"))
    });
    let (mut phys, mut vm): (Box<dyn Port>, Tap) = (phys, vm);
    assert_eq!((phys.info().rx_queues, phys.worker_of(0), phys.worker_of(1)), (2, None, Some(0)));
    // The interface is the bridge's alone: the kernel answers no ARP there for the address of another one.
    lab.at("s", "sysctl -qw net.ipv4.conf.all.arp_ignore=1");
    lab.at("s", "ip link set phys address 02:08:08:08:08:01");
    lab.at("s", "ip addr add 10.88.0.1/24 dev phys");
    lab.at("s", "ip addr add fd88::1/64 dev phys nodad");
    lab.give_tap("a", "vm", "192.168.7.1");
    lab.at("a", "ip link set eth0 mtu 1400");
    let spec = Spec::parse(spec, Kinds(&tunnel::kinds::KINDS)).unwrap();
    let mut port = spec.open(&environment).expect("the tunnel port");
    let txs =
        vec![phys.tx_queue().unwrap(), nic_tx, vm.tx_queue().unwrap(), port.tx_queue().unwrap()];
    let way = |rx, tx, descriptor| Way { rx, tx, descriptor };
    let ways = vec![
        way(phys.rx_queue(0).unwrap(), 1, Change::None),
        way(phys.rx_queue(1).unwrap(), 1, Change::None),
        way(nic_rx, 0, Change::None),
        way(vm.rx_queue(0).unwrap(), 3, Change::Put),
        way(port.rx_queue(0).unwrap(), 2, Change::Take),
    ];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| run(ways, txs, &stop));
        let result = std::panic::catch_unwind(|| {
            // The host behind `phys` is reached as before, by its own addresses.
            assert_eq!(ping(&lab, "b", "10.88.0.1", 5, "0.01"), 5);
            assert_eq!(ping(&lab, "a", "192.168.7.2", 20, "0.01"), 20);
            assert_eq!(ping(&lab, "b", "192.168.7.1 -s 1300", 20, "0.01"), 20);
            transfer(&lab, "a", "b", "192.168.7.2:7007");
            transfer(&lab, "b", "a", "192.168.7.1:7008");
        });
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            println!("{:?}", hub.refusals());
            std::panic::resume_unwind(panic);
        }
    });
    let unexpected = hub.refusals().into_iter().filter(|r| r.reason != Refused::NoPort);
    let unexpected: Vec<_> = unexpected.collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    assert_eq!(remote_is_ipv6, spec.to_string().contains("fd88"));
}

/// Sends 4 MB over TCP, with the offloads that hosts have by default.
fn transfer(lab: &Lab, from: &str, to: &str, address: &str) {
    let sent: Vec<u8> =
        (0..4_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let listener = lab.within(to, || TcpListener::bind(address).unwrap());
    let got = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut got = Vec::new();
            let mut client = listener.accept().unwrap().0;
            client.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
            client.read_to_end(&mut got).unwrap();
            got
        });
        let mut client = lab.within(from, || TcpStream::connect(address).unwrap());
        client.write_all(&sent).unwrap();
        drop(client);
        server.join().unwrap()
    });
    assert!(got == sent, "{} of {} octets", got.len(), sent.len());
}

#[test]
fn vxlan_with_linux() {
    let device = "vxlan id 7 remote 10.88.0.1 local 10.88.0.2 dstport 4789";
    against_linux("t=vxlan:remote_ip=10.88.0.2,key=7", device, false);
}

#[test]
fn geneve_with_linux_over_ipv6() {
    let device = "geneve id 9 remote fd88::1";
    against_linux("t=geneve:remote_ip=fd88::2,key=9", device, true);
}

#[test]
fn gre_with_linux() {
    let device = "gretap remote 10.88.0.1 local 10.88.0.2 key 5 csum";
    against_linux("t=gre:remote_ip=10.88.0.2,key=5,csum=true", device, false);
}
