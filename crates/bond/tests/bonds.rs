//! Bonds with carriers and partners that come and go, by a clock of the test.

use bond::bond::Admits;
use bond::lacp::{Link, LinkConfig, LinkStatus, Status};
use bond::{Bond, Command, LacpMode, MemberConfig, Mode, SLOTS, Sends, Settings};
use std::collections::BTreeMap;

fn members(ports: &[u32], key: u16) -> BTreeMap<String, MemberConfig> {
    let one = |port: &u32| {
        let link = LinkConfig { port: *port as u16, priority: 65535, key };
        let config = MemberConfig { port: *port, mac: [2, 0, 0, 0, 0, *port as u8], link };
        (format!("p{port}"), config)
    };
    ports.iter().map(one).collect()
}

fn bond(settings: Settings, ports: &[u32]) -> Bond {
    let mut bond = Bond::new("b", settings, [2, 0, 0, 0, 9, ports[0] as u8], 0);
    bond.set_members(members(ports, 0), 0);
    for port in ports {
        bond.set_carrier(&format!("p{port}"), true, 0);
    }
    bond
}

fn of(mode: Mode, lacp: LacpMode) -> Settings {
    Settings { mode, lacp, fast: true, ..Settings::default() }
}

/// Two bonds, port `n` of one being connected to port `10 + n` of the other.
struct Pair {
    a: Bond,
    b: Bond,
    now_ms: u64,
    /// Ports of `a` whose cable carries nothing, though both carriers are up.
    cut: Vec<u32>,
}

impl Pair {
    fn new(a: Settings, b: Settings) -> Pair {
        Pair { a: bond(a, &[1, 2]), b: bond(b, &[11, 12]), now_ms: 0, cut: Vec::new() }
    }

    /// Time goes on in tenths of a second.
    fn run(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        while self.now_ms < until {
            self.now_ms += 100;
            for frame in self.a.run(self.now_ms) {
                if !self.cut.contains(&frame.port) {
                    self.b.receive(frame.port + 10, &frame.bytes, self.now_ms);
                }
            }
            for frame in self.b.run(self.now_ms) {
                if !self.cut.contains(&(frame.port - 10)) {
                    self.a.receive(frame.port - 10, &frame.bytes, self.now_ms);
                }
            }
        }
    }
}

#[test]
fn the_active_member_fails_over_and_stays_there() {
    let mut bond = bond(of(Mode::ActiveBackup, LacpMode::Off), &[1, 2]);
    bond.run(0);
    assert_eq!(bond.sends(), Sends::One(Some(1)));
    assert_eq!(bond.admits(), BTreeMap::from([(1, Admits::All), (2, Admits::None)]));
    assert!(bond.take_learning() && !bond.take_learning());
    bond.set_carrier("p1", false, 10);
    bond.run(10);
    assert_eq!(bond.sends(), Sends::One(Some(2)));
    assert!(bond.take_learning(), "those elsewhere are told");
    bond.set_carrier("p1", true, 20);
    bond.run(20);
    assert_eq!(bond.sends(), Sends::One(Some(2)), "it stays");
    bond.set_carrier("p2", false, 30);
    bond.set_carrier("p1", false, 30);
    bond.run(30);
    assert_eq!(bond.sends(), Sends::One(None));
    assert_eq!(bond.active_mac(), [0; 6]);
}

#[test]
fn the_primary_member_is_used_whenever_it_can_be() {
    let primary = Some("p2".to_owned());
    let settings = Settings { primary, ..of(Mode::ActiveBackup, LacpMode::Off) };
    let mut bond = bond(settings, &[1, 2]);
    bond.run(0);
    assert_eq!(bond.sends(), Sends::One(Some(2)));
    bond.set_carrier("p2", false, 1);
    bond.run(1);
    assert_eq!(bond.sends(), Sends::One(Some(1)));
    bond.set_carrier("p2", true, 2);
    bond.run(2);
    assert_eq!(bond.sends(), Sends::One(Some(2)));
}

#[test]
fn delays_are_kept_but_not_where_nothing_else_is_up() {
    let delays = Settings { up_delay_ms: 500, down_delay_ms: 200, ..Settings::default() };
    let mut bond = bond(delays, &[1, 2]);
    bond.run(0);
    assert_eq!(bond.sends(), Sends::One(Some(1)), "the first is enabled at once");
    assert_eq!(bond.due_ms(), Some(500), "the second waits");
    bond.run(499);
    bond.set_carrier("p1", false, 499);
    bond.run(499);
    bond.run(500);
    bond.run(698);
    assert_eq!(bond.sends(), Sends::One(Some(1)), "down for less than the delay");
    bond.set_carrier("p1", true, 698);
    bond.run(698);
    assert_eq!(bond.due_ms(), None, "it came back in time");
    bond.set_carrier("p1", false, 700);
    bond.run(700);
    bond.run(900);
    assert_eq!(bond.sends(), Sends::One(Some(2)));
}

#[test]
fn slots_of_a_member_that_fails_go_to_the_others() {
    let mut bond = bond(of(Mode::BalanceSlb, LacpMode::Off), &[1, 2, 3]);
    let slots = |bond: &Bond| match bond.sends() {
        Sends::Source(slots) => slots,
        other => panic!("{other:?}"),
    };
    bond.run(0);
    let before = slots(&bond);
    for port in [1, 2, 3] {
        let own = before.iter().filter(|slot| **slot == Some(port)).count();
        assert!((85..=86).contains(&own), "{own}");
    }
    bond.set_carrier("p2", false, 1);
    bond.run(1);
    let after = slots(&bond);
    for at in 0..SLOTS {
        match before[at] {
            Some(2) => assert!(matches!(after[at], Some(1 | 3))),
            other => assert_eq!(after[at], other, "others stay"),
        }
    }
    let multicast = |port| bond.admits()[&port];
    assert_eq!(multicast(1), Admits::Unmoved { multicast: true });
    assert_eq!(multicast(3), Admits::Unmoved { multicast: false });
}

#[test]
fn all_members_take_packets_to_many_where_that_is_asked_for() {
    for (mode, both) in [(Mode::BalanceSlb, true), (Mode::ActiveBackup, false)] {
        let mut bond = bond(Settings { all_members: true, ..of(mode, LacpMode::Off) }, &[1, 2]);
        bond.run(0);
        let many = |how| matches!(how, Admits::All | Admits::Unmoved { multicast: true });
        assert_eq!(bond.admits().values().copied().all(many), both, "{mode:?}");
        assert_eq!(bond.show(0).contains("all members active: true"), both);
    }
}

#[test]
fn two_sides_agree_and_use_both_links() {
    let mut pair =
        Pair::new(of(Mode::BalanceTcp, LacpMode::Active), of(Mode::BalanceTcp, LacpMode::Passive));
    assert_eq!(pair.a.sends(), Sends::One(None), "nothing leaves before there is a partner");
    pair.run(1000);
    for side in [&pair.a, &pair.b] {
        assert_eq!(side.lacp_status(), LinkStatus::Negotiated);
        assert!(matches!(side.sends(), Sends::Layers(_)));
        assert!(side.admits().values().all(|how| *how == Admits::All));
        assert!(side.member_names().all(|name| side.lacp_current(name) == Some(true)));
    }
    let before = pair.a.show_lacp_stats().unwrap();
    pair.run(10_000);
    assert_ne!(pair.a.show_lacp_stats().unwrap(), before, "frames go on every second");
    // A cable that carries nothing though both ends have a carrier.
    pair.cut = vec![2];
    pair.run(3_500);
    let Sends::Layers(slots) = pair.a.sends() else { panic!("it is negotiated") };
    assert!(slots.iter().all(|slot| *slot == Some(1)));
    assert_eq!(pair.b.admits()[&12], Admits::None);
    pair.cut.clear();
    pair.run(3_000);
    assert!(pair.a.admits().values().all(|how| *how == Admits::All), "it is used again");
}

#[test]
fn two_passive_sides_say_nothing_and_fallback_uses_one_member() {
    let passive = of(Mode::BalanceTcp, LacpMode::Passive);
    let mut pair = Pair::new(passive.clone(), passive);
    pair.run(5_000);
    assert_eq!(pair.a.lacp_status(), LinkStatus::Configured);
    assert_eq!(pair.a.sends(), Sends::One(None));
    assert!(pair.a.show_lacp_stats().unwrap().contains("TX PDUs: 0"));
    let fallback = Settings { fallback_ab: true, ..of(Mode::BalanceTcp, LacpMode::Active) };
    let mut alone = bond(fallback, &[1, 2]);
    for ms in 0..80 {
        alone.run(ms * 100);
    }
    assert_eq!(alone.lacp_status(), LinkStatus::Configured);
    assert_eq!(alone.sends(), Sends::One(Some(1)), "as active-backup");
}

#[test]
fn links_to_two_systems_are_not_one_bond() {
    let mut a = bond(of(Mode::BalanceTcp, LacpMode::Active), &[1, 2]);
    let mut b = bond(of(Mode::BalanceTcp, LacpMode::Active), &[11]);
    let mut c = bond(of(Mode::BalanceTcp, LacpMode::Active), &[12]);
    for now_ms in (100..4000).step_by(100) {
        for frame in a.run(now_ms) {
            let to = if frame.port == 1 { &mut b } else { &mut c };
            to.receive(frame.port + 10, &frame.bytes, now_ms);
        }
        for frame in [b.run(now_ms), c.run(now_ms)].concat() {
            a.receive(frame.port - 10, &frame.bytes, now_ms);
        }
    }
    let used = a.admits().values().filter(|how| **how == Admits::All).count();
    assert_eq!(used, 1, "{}", a.show_lacp().unwrap());
    // Its own frames that come back are no partner's.
    let mut looped = bond(of(Mode::BalanceTcp, LacpMode::Active), &[1, 2]);
    for now_ms in (100..2000).step_by(100) {
        for frame in looped.run(now_ms) {
            looped.receive(3 - frame.port, &frame.bytes, now_ms);
        }
    }
    assert!(looped.admits().values().all(|how| *how == Admits::None));
}

#[test]
fn one_member_alone_is_a_port_as_any_other() {
    let mut alone = bond(of(Mode::ActiveBackup, LacpMode::Active), &[1]);
    let said = alone.run(0);
    assert_eq!(said.len(), 1, "it speaks");
    assert_eq!(alone.lacp_status(), LinkStatus::Negotiated, "a link that may have a partner");
    assert_eq!(alone.sends(), Sends::One(Some(1)));
    assert_eq!(alone.admits(), BTreeMap::from([(1, Admits::All)]));
    assert!(!alone.is_bonded());
}

#[test]
fn a_partner_that_falls_silent_is_expired_then_defaulted() {
    let mut pair = Pair::new(
        of(Mode::ActiveBackup, LacpMode::Active),
        of(Mode::ActiveBackup, LacpMode::Active),
    );
    pair.run(1000);
    pair.cut = vec![1, 2];
    pair.run(3_500);
    let shown = pair.a.show_lacp().unwrap();
    assert!(shown.contains("member: p1: expired"), "{shown}");
    pair.run(3_500);
    let shown = pair.a.show_lacp().unwrap();
    assert!(shown.contains("member: p1: defaulted detached"), "{shown}");
    assert!(shown.contains("partner sys_id: 00:00:00:00:00:00"), "{shown}");
    assert!(pair.a.show_lacp_stats().unwrap().contains("Link Defaulted: 1"));
    let (link, status): (Link, Status) = Default::default();
    assert_eq!(link.status, status);
}

#[test]
fn what_appctl_asks_is_done_in_its_words() {
    let mut bond = bond(of(Mode::BalanceSlb, LacpMode::Off), &[1, 2]);
    bond.run(0);
    let mut ask = |command| bond.command(command, |mac| usize::from(mac[5]));
    let migrate = |hash, member| Command::Migrate { hash, member };
    assert_eq!(ask(migrate("7", "p1")), Ok("migrated".to_owned()));
    assert_eq!(ask(migrate("00:00:00:00:00:08", "p1")), Ok("migrated".to_owned()));
    assert_eq!(ask(migrate("x", "p1")), Err("bad hash".to_owned()));
    assert_eq!(ask(migrate("7", "p9")), Err("no such member".to_owned()));
    assert_eq!(ask(Command::SetActive("p1")), Ok("no change".to_owned()));
    assert_eq!(ask(Command::SetActive("p2")), Ok("done".to_owned()));
    assert_eq!(ask(Command::Disable("p2")), Ok("disabled".to_owned()));
    assert_eq!(ask(Command::SetActive("p2")), Err("cannot make disabled member active".to_owned()));
    assert_eq!(ask(migrate("7", "p2")), Err("cannot migrate to disabled member".to_owned()));
    assert_eq!(ask(Command::Enable("p2")), Ok("enabled".to_owned()));
    let shown = bond.show(0);
    for line in [
        "---- b ----\nbond_mode: balance-slb\n",
        "next rebalance: 10000 ms\nlacp_status: off\n",
        "active member mac: 02:00:00:00:00:01(p1)\n\nmember p1: enabled\n  active member\n  may_enable: true\n",
        "member p2: enabled\n  may_enable: true\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    assert_eq!(bond.line(), "b\tbalance-slb\t0\tp1, p2\n");
    assert_eq!(bond.show_lacp(), None);
    let mut tcp = self::bond(of(Mode::BalanceTcp, LacpMode::Off), &[1, 2]);
    tcp.run(0);
    assert_eq!(tcp.sends(), Sends::One(None), "without LACP, balance-tcp sends nothing");
    let ask = tcp.command(migrate("7", "p1"), |_| 0);
    assert_eq!(ask, Err("not an SLB bond".to_owned()));
}
