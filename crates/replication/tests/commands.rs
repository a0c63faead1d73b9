//! What a member does that somebody has told what to be, and one that hears another by the engine alone.

use replication::member::{Config, Member, SETTLES_NS};
use replication::message::Part;
use replication::{Action, Owner, Role};

const SECOND: u64 = 1_000_000_000;

fn alone() -> Member {
    named("a", "b")
}

fn named(name: &str, peer: &str) -> Member {
    let config = Config {
        group: "gw".to_owned(),
        name: name.to_owned(),
        share: String::new(),
        peers: vec![peer.to_owned()],
        priority: 100,
        interval_ns: 10_000_000,
        misses: 3,
        hold_ns: SECOND,
        settles_ns: SETTLES_NS,
        digest: 1,
        incarnation: 1,
        returns_ns: None,
    };
    Member::new(config, 0).unwrap()
}

#[test]
fn a_standby_that_was_demoted_goes_on_only_when_it_is_promoted() {
    let mut free = alone();
    free.tick(5 * SECOND, 0);
    assert_eq!(free.role(), Role::Active, "nobody has told it anything");
    let mut told = alone();
    told.demote_by_command(0);
    told.tick(5 * SECOND, 0);
    assert_eq!(told.role(), Role::Standby);
    told.promote_by_command(6 * SECOND).unwrap();
    assert_eq!(told.role(), Role::Active);
    told.demote_by_command(7 * SECOND);
    told.tick(20 * SECOND, 0);
    assert_eq!(told.role(), Role::Standby);
}

#[test]
fn who_is_heard_by_the_engine_alone_lives() {
    let (mut a, mut b) = (named("a", "b"), named("b", "a"));
    let ms = 1_000_000;
    b.promote_by_command(0).unwrap();
    let mut now = 0;
    // Both, then messages alone, then nothing.
    for (until, beats, messages, role) in [
        (2000 * ms, true, true, Role::Standby),
        (8000 * ms, false, true, Role::Standby),
        (8100 * ms, false, false, Role::Active),
    ] {
        while now < until {
            now += 10 * ms;
            b.tick(now, now);
            for action in b.take_actions() {
                match action {
                    Action::Beat(beat) if beats => a.heard(now, beat),
                    Action::Send(message) if messages => a.received(now, message),
                    _ => {}
                }
            }
            a.tick(now, now);
            for action in a.take_actions() {
                if let Action::Beat(beat) = action
                    && beats
                {
                    b.heard(now, beat);
                }
            }
        }
        assert_eq!(a.role(), role, "at {now}");
    }
}

#[test]
fn who_stays_active_tells_the_network_when_another_gives_way() {
    let (mut a, mut b) = (named("a", "b"), named("b", "a"));
    let ms = 1_000_000;
    // Neither hears the other, and both are active.
    a.promote_by_command(0).unwrap();
    b.promote_by_command(0).unwrap();
    b.demote_by_command(0);
    b.promote_by_command(0).unwrap();
    let (mut told, mut now) = (0, 0);
    while now < 500 * ms {
        now += 10 * ms;
        a.tick(now, now);
        for action in a.take_actions() {
            if let Action::Beat(beat) = action {
                b.heard(now, beat);
            }
        }
        b.tick(now, now);
        for action in b.take_actions() {
            match action {
                Action::Beat(beat) if now > 200 * ms => a.heard(now, beat),
                Action::Announce => told += 1,
                _ => {}
            }
        }
    }
    assert_eq!((a.role(), b.role()), (Role::Standby, Role::Active));
    assert_eq!(told, 1);
}

#[test]
fn an_epoch_of_an_earlier_self_is_not_used_again() {
    let mut a = alone();
    a.tick(2 * SECOND, 0);
    assert_eq!((a.role(), a.epoch()), (Role::Active, 1), "it knows of no store");
    a.take_actions();
    a.connected(true);
    let before = Owner { epoch: 3, member: "a".to_owned() };
    a.stored(2 * SECOND, 7, Some(before));
    assert_eq!((a.role(), a.epoch()), (Role::Active, 4));
    let now = Owner { epoch: 4, member: "a".to_owned() };
    assert!(a.take_actions().contains(&Action::Write(7, now)));
}

#[test]
fn who_starts_anew_in_the_same_epoch_is_followed_from_its_first_message_on() {
    let (mut a, mut b) = (named("a", "b"), named("b", "a"));
    let tell = |from: &mut Member, to: &mut Member, now: u64| {
        from.tick(now, now);
        for action in from.take_actions() {
            match action {
                Action::Beat(beat) => to.heard(now, beat),
                Action::Send(message) => to.received(now, message),
                _ => {}
            }
        }
    };
    a.promote_by_command(0).unwrap();
    tell(&mut a, &mut b, 1);
    let (id, begins) = a.all_begins(2, 2, "b").unwrap();
    b.received(2, begins);
    let some = |n: u64| vec![Part { tracker: "ct".to_owned(), records: vec![n as u8] }];
    (0..5).for_each(|n| b.received(3, a.part_of_all(3, 3, id, some(n)).unwrap()));
    b.received(4, a.all_ends(4, 4, id).unwrap());
    assert!(b.is_synced());
    // Its next life knows of no epoch either.
    let config = Config { incarnation: 2, ..a.config().clone() };
    let mut a = Member::new(config, 5).unwrap();
    a.promote_by_command(5).unwrap();
    tell(&mut a, &mut b, 6);
    assert!(!b.is_synced(), "it has nothing of this life's");
    b.take_actions();
    b.received(7, a.changes(7, 7, some(9)).unwrap());
    assert_eq!(b.take_actions(), [Action::Apply(some(9))]);
}

#[test]
fn who_stood_still_hands_over_to_nobody_by_what_it_heard_before() {
    let (mut a, mut b) = (named("a", "b"), named("b", "a"));
    let ms = 1_000_000;
    a.promote_by_command(0).unwrap();
    let mut beat = None;
    for n in 1..20 {
        let now = n * 10 * ms;
        b.tick(now, now);
        for action in b.take_actions() {
            if let Action::Beat(mut said) = action {
                (said.synced, said.epoch) = (true, 1);
                a.heard(now, said.clone());
                beat = Some(said);
            }
        }
        a.tick(now, now);
    }
    assert_eq!(a.heir(190 * ms).as_deref(), Some("b"));
    // Stopped, and gone on: what has waited in a socket meanwhile is as old.
    let (now, mut old) = (5 * SECOND, beat.unwrap());
    old.number += 1;
    a.heard(now, old.clone());
    a.tick(now, now);
    assert_eq!(a.heir(now), None);
    assert!(a.hand_over(now, now).unwrap_err().contains("no standby"), "and it stays active");
    assert_eq!(a.role(), Role::Active);
    old.number += 1;
    a.heard(now + 10 * ms, old);
    assert_eq!(a.heir(now + 10 * ms).as_deref(), Some("b"));
}

#[test]
fn who_has_all_of_an_earlier_epoch_is_no_heir() {
    let (mut a, mut b) = (named("a", "b"), named("b", "a"));
    let ms = 1_000_000;
    a.promote_by_command(0).unwrap();
    let mut number = 0;
    let mut said = |epoch, a: &mut Member, now| {
        b.tick(now, now);
        let beat = b.take_actions().into_iter().find_map(|action| match action {
            Action::Beat(beat) => Some(beat),
            _ => None,
        });
        number += 1;
        a.tick(now, now);
        a.heard(now, replication::Heartbeat { synced: true, epoch, number, ..beat.unwrap() });
    };
    said(1, &mut a, 20 * ms);
    assert_eq!(a.heir(20 * ms).as_deref(), Some("b"));
    a.demote_by_command(20 * ms);
    a.promote_by_command(20 * ms).unwrap();
    assert_eq!((a.epoch(), a.heir(20 * ms)), (2, None));
    said(2, &mut a, 30 * ms);
    assert_eq!(a.heir(30 * ms).as_deref(), Some("b"));
    // A standby says so itself, when it hears of an epoch by the store alone.
    let mut c = named("c", "a");
    c.heard(0, {
        a.tick(40 * ms, 0);
        let beats = a.take_actions().into_iter();
        let mut beats = beats.filter_map(|action| match action {
            Action::Beat(beat) => Some(beat),
            _ => None,
        });
        beats.next_back().unwrap()
    });
    let (id, begins) = a.all_begins(0, 0, "c").unwrap();
    c.received(0, begins);
    c.received(0, a.all_ends(0, 0, id).unwrap());
    assert!(c.is_synced());
    c.stored(0, 9, Some(Owner { epoch: 3, member: "b".to_owned() }));
    assert!(!c.is_synced());
}

#[test]
fn who_goes_on_without_all_connections_tells_nobody_that_these_are_all() {
    let ms = 1_000_000;
    for (loses, knows) in [(false, true), (true, false)] {
        let (mut a, mut b) = (named("a", "b"), named("b", "a"));
        a.connected(true);
        a.stored(0, 0, None);
        a.promote_by_command(0).unwrap();
        a.stored(0, 1, Some(Owner { epoch: 1, member: "a".to_owned() }));
        assert!(a.has_synced(), "the first there is");
        b.connected(true);
        let beats = |from: &mut Member, now| {
            from.tick(now, now);
            let beats = from.take_actions().into_iter();
            let beats = beats.filter_map(|action| match action {
                Action::Beat(beat) => Some(beat),
                _ => None,
            });
            beats.collect::<Vec<_>>()
        };
        beats(&mut a, 10 * ms).into_iter().for_each(|beat| b.heard(10 * ms, beat));
        let (id, begins) = a.all_begins(0, 0, "b").unwrap();
        b.received(11 * ms, begins);
        b.received(11 * ms, a.all_ends(0, 0, id).unwrap());
        beats(&mut a, 20 * ms).into_iter().for_each(|beat| b.heard(20 * ms, beat));
        assert!(b.has_synced());
        if loses {
            b.connected(false);
        }
        b.closed(25 * ms, "a");
        let said = beats(&mut b, 26 * ms);
        assert_eq!((b.role(), b.has_synced()), (Role::Active, true));
        assert!(said.last().is_some_and(|beat| beat.active && beat.knows == knows), "{loses}");
    }
}

/// Beats of one member are heard by the other; which are lost.
fn beats(from: &mut Member, to: &mut Member, now: u64) {
    from.tick(now, now);
    for action in from.take_actions() {
        if let Action::Beat(beat) = action {
            to.heard(now, beat);
        }
    }
}

#[test]
fn who_was_not_run_opens_nothing_until_it_knows_what_happened() {
    let ms = 1_000_000;
    for heard in [true, false] {
        let (mut a, mut b) = (named("a", "b"), named("b", "a"));
        assert_eq!(a.opens_for(0), 0, "a standby opens nothing");
        a.promote_by_command(0).unwrap();
        let mut now = 0;
        while now < 500 * ms {
            beats(&mut a, &mut b, now);
            beats(&mut b, &mut a, now);
            assert_eq!(a.opens_for(now), 30 * ms, "as long as the others take for silence");
            now += 10 * ms;
        }
        now -= 10 * ms;
        assert_eq!(a.opens_for(now + 29 * ms), ms, "its last heartbeat counts");
        // It stands still; what has waited for it is heard first, and says nothing of what happened.
        now += 60 * ms;
        beats(&mut b, &mut a, now);
        beats(&mut a, &mut b, now);
        assert_eq!((a.role(), a.opens_for(now)), (Role::Active, 0));
        for n in 1..=5 {
            now += 10 * ms;
            if heard {
                beats(&mut b, &mut a, now);
            }
            beats(&mut a, &mut b, now);
            let knows = heard || n > 3;
            assert_eq!(a.opens_for(now), if knows { 30 * ms } else { 0 }, "{heard} {n}");
        }
        // The other one has gone on.
        b.promote_by_command(now).unwrap();
        beats(&mut b, &mut a, now);
        assert_eq!((a.role(), a.opens_for(now)), (Role::Standby, 0));
        assert_eq!(b.opens_for(now), 30 * ms, "at once");
    }
}

/// The others go on as soon as they hear that it ends, and may hear it late.
#[test]
fn who_ends_opens_nothing() {
    let ms = 1_000_000;
    let mut a = named("a", "b");
    a.promote_by_command(0).unwrap();
    a.tick(10 * ms, 0);
    assert_eq!(a.opens_for(10 * ms), 30 * ms);
    a.end();
    assert_eq!((a.role(), a.opens_for(10 * ms)), (Role::Active, 0));
}

#[test]
fn who_is_alone_opens_at_once() {
    let ms = 1_000_000;
    let mut a = alone();
    a.promote_by_command(0).unwrap();
    a.tick(10 * ms, 0);
    a.tick(500 * ms, 0);
    assert_eq!(a.opens_for(500 * ms), 30 * ms, "nobody was there who could have gone on");
    a.tick(500 * ms + SECOND, 0);
    assert_eq!(a.opens_for(500 * ms + SECOND), 0, "somebody may have started since");
}
