//! Random changes, servers that are killed, switches that are: the switch comes to what the database says.

mod bed;

use bed::Bed;

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// One command at random, which may have nothing to do.
fn command(random: &mut Random) -> String {
    let bridge = format!("br{}", random.below(4));
    let port = format!("p{}", random.below(12));
    match random.below(9) {
        0 | 1 => format!("--may-exist add-br {bridge}"),
        2 => format!("--if-exists del-br {bridge}"),
        3..=5 => format!(
            "--if-exists del-port {port} -- --may-exist add-br {bridge} -- add-port {bridge} {port} tag={}",
            random.below(4095)
        ),
        6 => format!("--if-exists del-port {port}"),
        7 => format!("--if-exists set port {port} tag={}", random.below(4095)),
        _ => format!("--if-exists set interface {port} ofport_request={}", 1 + random.below(20)),
    }
}

/// The switch has exactly what `ovs-vsctl` lists, under the numbers that it lists.
fn agree(bed: &Bed) {
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let mut bridges = lines(bed.vsctl("list-br"));
    bridges.sort();
    let held: Vec<String> = bed.fake.held().bridges.keys().cloned().collect();
    assert_eq!(held, bridges);
    for bridge in bridges {
        let mut ports = lines(bed.vsctl(&format!("list-ports {bridge}")));
        ports.push(bridge.clone());
        ports.sort();
        let numbers = bed.numbers(&bridge);
        assert_eq!(numbers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), ports);
        for (name, number) in numbers {
            let told = bed.vsctl(&format!("get interface {name} ofport"));
            assert_eq!(told, number.to_string(), "{name}");
            if name != bridge {
                let tag = bed.vsctl(&format!("get port {name} tag"));
                let has = bed.fake.held().bridges[&bridge].ports[&name].vlan.tag;
                assert_eq!(tag, has.map_or("[]".to_owned(), |tag| tag.to_string()), "{name}");
            }
        }
    }
}

#[test]
fn after_random_changes_the_switch_is_what_the_database_says() {
    let Some(bed) = Bed::new() else { return };
    let mut random = Random(0x5eed);
    for round in 0..6 {
        for _ in 0..20 {
            bed.vsctl(&command(&mut random));
        }
        agree(&bed);
        let before = bed.fake.held().calls.len();
        bed.vsctl(&format!("set Open_vSwitch . external_ids:round={round}"));
        assert_eq!(bed.fake.held().calls.len(), before, "round {round}: nothing is left to do");
    }
}

#[test]
fn a_switch_or_server_that_is_killed_comes_back_to_what_the_database_says() {
    let Some(mut bed) = Bed::new() else { return };
    let mut random = Random(0xdead);
    let rounds = std::env::var("VSWITCH_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    for round in 0..rounds {
        for _ in 0..3 {
            bed.vsctl(&command(&mut random));
        }
        // Changes go on while one of the two is not there.
        match round % 2 {
            0 => {
                bed.vsctl(&format!("--no-wait {}", command(&mut random)));
                bed.stop_switch();
                bed.vsctl(&format!("--no-wait {}", command(&mut random)));
                bed.start_switch();
            }
            _ => {
                bed.vsctl(&format!("--no-wait {}", command(&mut random)));
                bed.kill_server();
                bed.start_server();
                bed.vsctl(&format!("--no-wait {}", command(&mut random)));
            }
        }
        // Returns when all is done.
        bed.vsctl(&format!("set Open_vSwitch . external_ids:round={round}"));
        agree(&bed);
    }
}

#[test]
fn a_port_costs_the_same_however_many_there_are() {
    let Some(bed) = Bed::new() else { return };
    let count: u64 =
        std::env::var("VSWITCH_PORTS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    bed.vsctl("add-br br0");
    let began = std::time::Instant::now();
    for n in 0..count {
        let at = std::time::Instant::now();
        bed.vsctl(&format!("add-port br0 q{n}"));
        if n % 100 == 99 {
            println!("port {n}: {:?}, {:?} since the first", at.elapsed(), began.elapsed());
        }
    }
    assert_eq!(bed.numbers("br0").len() as u64, count + 1);
    // Rounds do no more than what has changed.
    assert_eq!(bed.reconciler().watch().progress().steps, 2 * count + 3);
}
