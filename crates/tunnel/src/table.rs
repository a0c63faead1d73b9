//! Which tunnel port a packet is for, by kind, UDP port, addresses and key.
//!
//! Of ports that fit, the most specific one has it, in Open vSwitch's order: one whose key is a number goes before one
//! with `in_key=flow`; then one with the remote address before `remote_ip=flow`; then one with the local address, one
//! without, and one with `local_ip=flow`.
//!
//! A table is made anew when a port comes or goes, and never changes. Cost: a hash lookup for each shape of ports that
//! there is, 12 at most.
//! Checked by: the tests below against a search of all ports; `tests/octets.rs` against Open vSwitch.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::FixedState;

use crate::config::{Config, Given, Kind};
use crate::parse::{Kinds, Received};

/// Ports by what packets have.
#[derive(Debug)]
pub struct Table<V> {
    ports: HashMap<Key, V, FixedState>,
    /// Which shapes there are: a bit for each, the most specific one first.
    shapes: u16,
    udp: HashMap<u16, Kind, FixedState>,
    has_gre: bool,
    reassembles: bool,
}

impl<V> Default for Table<V> {
    fn default() -> Table<V> {
        let (ports, udp) = (HashMap::default(), HashMap::default());
        Table { ports, shapes: 0, udp, has_gre: false, reassembles: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Local {
    Fixed(IpAddr),
    Any,
    Flow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    udp_port: u16,
    id: Option<u64>,
    remote: Option<IpAddr>,
    local: Local,
}

impl Key {
    fn of(config: &Config) -> Key {
        Key {
            kind: config.kind,
            udp_port: config.dst_port,
            id: fixed(config.matched_key()),
            remote: fixed(config.remote),
            local: match config.local {
                Some(Given::Fixed(local)) => Local::Fixed(local),
                Some(Given::Flow) => Local::Flow,
                None => Local::Any,
            },
        }
    }

    /// Of a packet, for ports of a shape.
    fn shaped(received: &Received, shape: u32) -> Key {
        Key {
            kind: received.kind,
            udp_port: received.udp_port,
            id: (shape / 6 == 0).then_some(received.id),
            remote: (shape / 3).is_multiple_of(2).then_some(received.remote),
            local: match shape % 3 {
                0 => Local::Fixed(received.local),
                1 => Local::Any,
                _ => Local::Flow,
            },
        }
    }

    /// The shape's place in the order: 0 to 11.
    fn shape(&self) -> u32 {
        let local = match self.local {
            Local::Fixed(_) => 0,
            Local::Any => 1,
            Local::Flow => 2,
        };
        6 * u32::from(self.id.is_none()) + 3 * u32::from(self.remote.is_none()) + local
    }
}

fn fixed<T>(given: Given<T>) -> Option<T> {
    match given {
        Given::Fixed(value) => Some(value),
        Given::Flow => None,
    }
}

/// Why a port cannot be in a table beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another port takes the same packets.
    #[error("another tunnel port has the same remote_ip, local_ip, in_key and dst_port")]
    Same,
    /// A UDP port is of one kind.
    #[error("UDP port {port} is that of {kind} ports already; choose another dst_port")]
    UdpPort {
        /// The port.
        port: u16,
        /// The kind that has it.
        kind: Kind,
    },
}

impl<V> Table<V> {
    /// Adds a port, or says why not.
    pub fn add(&mut self, config: &Config, value: V) -> Result<(), Conflict> {
        let key = Key::of(config);
        if self.ports.contains_key(&key) {
            return Err(Conflict::Same);
        }
        if config.kind.udp_port().is_none() {
            self.has_gre = true;
        } else {
            match *self.udp.entry(config.dst_port).or_insert(config.kind) {
                kind if kind == config.kind => {}
                kind => return Err(Conflict::UdpPort { port: config.dst_port, kind }),
            }
        }
        self.reassembles |= config.reassemble;
        self.shapes |= 1 << key.shape();
        self.ports.insert(key, value);
        Ok(())
    }

    /// The port that a packet is for.
    pub fn find(&self, received: &Received) -> Option<&V> {
        let mut shapes = self.shapes;
        while shapes != 0 {
            let shape = shapes.trailing_zeros();
            shapes &= shapes - 1;
            if let Some(port) = self.ports.get(&Key::shaped(received, shape)) {
                return Some(port);
            }
        }
        None
    }

    /// Whether there are no ports.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// Whether a port takes outer packets that come in fragments.
    pub fn reassembles(&self) -> bool {
        self.reassembles
    }

    /// Whether there are ports of GRE or ERSPAN.
    pub fn takes_gre(&self) -> bool {
        self.has_gre
    }

    /// The UDP ports that are looked at, with their kinds.
    pub fn udp_ports(&self) -> impl Iterator<Item = (u16, Kind)> {
        self.udp.iter().map(|(port, kind)| (*port, *kind))
    }
}

impl<V> Kinds for Table<V> {
    fn of_udp(&self, port: u16) -> Option<Kind> {
        self.udp.get(&port).copied()
    }

    fn has_gre(&self) -> bool {
        self.has_gre
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inner::tests::udp4;
    use crate::tests::random::Random;

    /// A packet of GRE that came in.
    fn gre(remote: IpAddr, local: IpAddr, key: u32) -> Received {
        let (IpAddr::V4(remote), IpAddr::V4(local)) = (remote, local) else { panic!("IPv4") };
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 47, 0, 0];
        packet.extend(remote.octets());
        packet.extend(local.octets());
        packet.extend([0x20, 0, 0x65, 0x58]);
        packet.extend(key.to_be_bytes());
        packet.extend(udp4(1, 0));
        packet[3] = packet.len() as u8;
        let sum = wire::checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        struct Gre;
        impl Kinds for Gre {
            fn of_udp(&self, _: u16) -> Option<Kind> {
                None
            }
            fn has_gre(&self) -> bool {
                true
            }
        }
        Received::read(&packet, &Gre, false).unwrap().unwrap()
    }

    /// All ports that fit, the first one by the order of the head comment.
    fn search<'a>(ports: &'a [(Config, usize)], received: &Received) -> Option<&'a usize> {
        let fits = |config: &Config| {
            let id = fixed(config.matched_key()).is_none_or(|key| key == received.id);
            let remote = fixed(config.remote).is_none_or(|remote| remote == received.remote);
            let local = match config.local {
                Some(Given::Fixed(local)) => local == received.local,
                _ => true,
            };
            id && remote && local
        };
        let rank = |config: &Config| {
            let local = match config.local {
                Some(Given::Fixed(_)) => 0,
                None => 1,
                Some(Given::Flow) => 2,
            };
            (config.matched_key() == Given::Flow, config.remote == Given::Flow, local)
        };
        let fit = ports.iter().filter(|(config, _)| fits(config));
        fit.min_by_key(|(config, _)| rank(config)).map(|(_, port)| port)
    }

    #[test]
    fn finds_what_a_search_of_all_ports_finds() {
        let mut random = Random(5);
        let mut found = 0;
        for _ in 0..300 {
            let (mut table, mut ports) = (Table::default(), Vec::<(Config, usize)>::new());
            for port in 0..random.below(14) {
                let mut remote = ["10.0.0.1", "10.0.0.2", "flow"][random.below(3)];
                let local = ["", ",local_ip=10.9.0.1", ",local_ip=10.9.0.2", ",local_ip=flow"]
                    [random.below(4)];
                if local.ends_with("flow") {
                    remote = "flow";
                }
                let key = ["", ",key=1", ",key=2", ",key=flow"][random.below(4)];
                let text = format!("remote_ip={remote}{local}{key}");
                let config = Config::parse(Kind::Gre, &text).unwrap();
                let same = ports.iter().any(|(other, _)| Key::of(other) == Key::of(&config));
                let added = table.add(&config, port);
                assert_eq!(added, if same { Err(Conflict::Same) } else { Ok(()) }, "{text}");
                if !same {
                    ports.push((config, port));
                }
            }
            for _ in 0..30 {
                let remote = IpAddr::from([10, 0, 0, 1 + random.below(3) as u8]);
                let local = IpAddr::from([10, 9, 0, 1 + random.below(3) as u8]);
                let received = gre(remote, local, random.below(4) as u32);
                let expected = search(&ports, &received);
                found += usize::from(expected.is_some());
                assert_eq!(table.find(&received), expected, "{ports:?} {received:?}");
            }
        }
        assert!(found > 3000, "{found}");
    }

    #[test]
    fn a_udp_port_is_of_one_kind() {
        let mut table = Table::default();
        let of = |kind, text: &str| Config::parse(kind, text).unwrap();
        table.add(&of(Kind::Geneve, "remote_ip=1.2.3.4"), 1).unwrap();
        table.add(&of(Kind::Geneve, "remote_ip=1.2.3.5"), 2).unwrap();
        let vxlan = of(Kind::Vxlan, "remote_ip=1.2.3.4,dst_port=6081");
        let error = table.add(&vxlan, 3).unwrap_err();
        assert_eq!(
            error.to_string(),
            "UDP port 6081 is that of geneve ports already; choose another dst_port"
        );
        assert!(!table.has_gre() && table.of_udp(6081) == Some(Kind::Geneve));
        assert_eq!(table.udp_ports().collect::<Vec<_>>(), [(6081, Kind::Geneve)]);
    }
}
