//! A member without others: what it is asked, what it shows, its stripes.

use super::*;
use crate::bridges::BridgeConfig;
use crate::bridges::bed::bridges;
use crate::program::services::add;
use crate::replication::{shares, shown};
use openflow::ElementName;
use replication::Owner;
use replication::pool::Claims;
use std::sync::mpsc::channel as answer;
use switch::EngineKind;

/// An engine that takes all and brings nothing.
struct Silent;

impl Engine for Silent {
    fn publish(&self, _: Vec<u8>) -> bool {
        true
    }

    fn has_room(&self) -> bool {
        true
    }

    fn write(&self, _: &str, _: u64, _: Owner) {}

    fn claim(&self, _: &str, _: u64, _: Claims) {}
}

/// A member whose heartbeats may be late, with bridges of its own.
fn runner(words: &str) -> (Runner, Bridges) {
    let settings = Settings::parse(&format!(
        "group=gw member=a server=nats://127.0.0.1:1 listen=127.0.0.1:1 peer=b@127.0.0.1:2 interval=10ms misses=200 {words}"
    ));
    let settings = settings.unwrap();
    let bridges = bridges(1, EngineKind::Interp);
    bridges.add(BridgeConfig::named("br0")).unwrap();
    let shares = shares(&settings, &bridges);
    let shown = Arc::new(Mutex::new(shown(&settings).unwrap()));
    let runner = Runner::new(settings, bridges.clone(), shares, shown).unwrap();
    (runner, bridges)
}

impl Runner {
    fn asks<T>(&mut self, what: impl FnOnce(std::sync::mpsc::Sender<T>) -> Asked) -> T {
        let (to, from) = answer();
        self.asked(what(to), &Links::none(), &Silent);
        from.try_recv().unwrap()
    }

    fn drained(&self) -> bool {
        self.members.all()[0].is_drained()
    }
}

#[test]
fn a_drain_that_fails_changes_nothing() {
    for (words, stays) in [("rebalance=10s", true), ("", false)] {
        let (mut a, _bridges) = runner(words);
        a.asks(|to| Asked::Promote(None, to)).unwrap();
        let error = a.asks(|to| Asked::Drain(None, to)).unwrap_err();
        assert!(error.contains("no standby that lives has all connections"), "{error}");
        assert!(is_active(&a.members.all()[0]) && !a.drained());
        let its = a.members.all()[0].config();
        let beat = Heartbeat {
            group: its.group.clone(),
            from: "b".to_owned(),
            share: String::new(),
            epoch: 1,
            active: false,
            synced: true,
            ends: false,
            knows: true,
            priority: 100,
            seq: 1,
            digest: its.digest,
            incarnation: 1,
            number: 1,
        };
        // What it hears at once says nothing: it may have waited for it.
        a.hear(Heard::Beats(vec![beat.clone()]));
        std::thread::sleep(Duration::from_millis(20));
        a.hear(Heard::Beats(vec![beat]));
        assert_eq!(a.asks(|to| Asked::Drain(None, to)), Ok("b".to_owned()));
        assert!(!is_active(&a.members.all()[0]));
        // Where nothing comes back by itself, nothing is kept from it.
        assert_eq!(a.drained(), stays);
    }
}

#[test]
fn who_looks_sees_what_is_now_and_services_that_are_missing() {
    let (mut a, bridges) = runner("share=one services=home");
    let shown = a.shown.clone();
    let missing = || lock(&shown).missing.clone();
    a.asks(Asked::Show);
    assert_eq!(missing(), [["service home"]]);
    let words = "out nat direction=out addresses=10.0.2.101 group=home";
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let switch = bridges.first().unwrap().switch().clone();
    add(&switch, &words).unwrap();
    a.look();
    a.asks(Asked::Show);
    assert_eq!(missing(), [[""; 0]]);
    // It goes while the process runs.
    let elements = switch.services().elements().unwrap().clone();
    let number = ElementName::new("out").unwrap().number();
    assert!(elements.remove(number));
    a.look();
    a.asks(Asked::Show);
    assert_eq!(missing(), [["service home"]]);
    assert_eq!(lock(&shown).views[0].role, Role::Standby);
    a.asks(|to| Asked::Promote(None, to)).unwrap();
    assert_eq!(lock(&shown).views[0].role, Role::Active, "who has asked sees what came of it");
}

/// What a pool holds is claimed when ports run short, and used once the store has confirmed it.
#[test]
fn ports_that_run_short_are_claimed() {
    let (mut a, bridges) = runner("stripes=pool share=one services=home");
    let words = "out nat direction=out addresses=10.0.2.101 ports=1024-1279 group=home";
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    add(bridges.first().unwrap().switch(), &words).unwrap();
    a.look();
    let bits = |a: &Runner| (a.stripes(0).0 & !POOL, a.stripes(0).0 & POOL);
    assert_eq!(bits(&a).1, 0);
    a.asks(|to| Asked::Promote(None, to)).unwrap();
    a.bring(Brought::Connected(true), &Links::none(), &Silent);
    a.bring(Brought::Stored("one".to_owned(), 0, None), &Links::none(), &Silent);
    let me = Owner { epoch: 1, member: "a".to_owned() };
    a.bring(Brought::Stored("one".to_owned(), 1, Some(me)), &Links::none(), &Silent);
    assert!(a.members.all()[0].has_synced(), "the first there is");
    assert_eq!(bits(&a).0.count_ones(), 12 + 1, "of 16 of its own");
    let claims = |text: &str| Claims::decode(text.as_bytes());
    let claim = |a: &mut Runner, revision, text: &str| {
        let brought = Brought::Claims("one".to_owned(), revision, claims(text));
        a.bring(brought, &Links::none(), &Silent);
    };
    claim(&mut a, 3, "a f00000000,b f000000000");
    assert_eq!(bits(&a).1, 0xf_0000_0000);
    a.asks(Asked::Show);
    let shown = lock(&a.shown).stripes[0].unwrap();
    assert_eq!((shown.usable, shown.claimed, shown.free), (17, 4, 24));
    // Who is gone for good leaves what it had; who lives keeps it.
    let error = a.asks(|to| Asked::Forget("c".to_owned(), to)).unwrap_err();
    assert!(error.contains("no other member"), "{error}");
    a.asks(|to| Asked::Forget("b".to_owned(), to)).unwrap();
    claim(&mut a, 4, "a f00000000");
    assert_eq!(a.shown_stripes(0).unwrap().free, 28);
    let error = a.asks(|to| Asked::Forget("b".to_owned(), to)).unwrap_err();
    assert!(error.contains("has claimed nothing"), "{error}");
    let (mut own, _bridges) = runner("");
    let error = own.asks(|to| Asked::Forget("b".to_owned(), to)).unwrap_err();
    assert!(error.contains("without stripes=pool"), "{error}");
}

#[test]
fn no_stripe_is_two_members_own() {
    for count in 2..=16 {
        let sets = (64 / u64::from(count) / 4).clamp(1, 4);
        for (place, other) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))) {
            for (life, later) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
                let of = |place, knows, life| stripes((place, count), STRIPES, knows, life).0;
                let mine = of(place, true, life);
                assert!(mine.count_ones() >= 64 / count / 2, "{count} {place} {mine:x}");
                assert!(of(place, false, life) != 0, "{count} {place} {life}");
                if place != other {
                    assert_eq!(mine & of(other, true, later), 0);
                } else if life % sets != later % sets {
                    let earlier = "what an earlier self has given out";
                    assert_eq!(mine & of(place, false, later), 0, "{earlier}");
                }
            }
        }
    }
}
