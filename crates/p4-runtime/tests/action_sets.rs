//! Action sets with an action of the group, and members that are chosen at random, as packets see them.

#[allow(unreachable_pub)]
mod common;

use common::{bed, bed_with, lpm, write};
use p4_runtime::proto::v1;
use std::collections::BTreeSet;
use std::time::Duration;
use switch::EngineKind;
use v1::action_profile_action_set::ActionSelectionMode as M;
use v1::entity::Entity as E;
use v1::table_action::Type as A;
use v1::update::Type;

const PROFILES: &str = include_str!("../../../filetests/p4/profiles.p4");

/// `tag` is for groups, and comes before a member's action.
fn program() -> String {
    PROFILES
        .replace("action drop() {", "action tag(bit<8> value) { hdr.h.flow = value; hdr.h.by = 8w0; }\n    action drop() {")
        .replace("key = { hdr.h.key: lpm; hdr.h.flow: selector; }\n        actions = { send;", "key = { hdr.h.key: lpm; hdr.h.flow: selector; }\n        actions = { @groupaction tag; send;")
}

fn set(
    table_id: u32,
    mode: M,
    before: Option<v1::Action>,
    members: Vec<v1::Action>,
) -> v1::TableEntry {
    let one =
        |action| v1::ActionProfileAction { action: Some(action), weight: 1, watch_kind: None };
    let of = v1::ActionProfileActionSet {
        action_profile_actions: members.into_iter().map(one).collect(),
        action_selection_mode: mode as i32,
        size_semantics: 0,
        group_action: before,
    };
    v1::TableEntry {
        table_id,
        r#match: vec![lpm(1, &[0x10], 4)],
        action: Some(v1::TableAction { r#type: Some(A::ActionProfileActionSet(of)) }),
        ..v1::TableEntry::default()
    }
}

fn call(action_id: u32, params: &[u8]) -> v1::Action {
    let param = |(n, value): (u32, &u8)| v1::action::Param { param_id: n, value: vec![*value] };
    v1::Action { action_id, params: (1..).zip(params).map(param).collect() }
}

//= p4runtime-1.5.0 §9.2: a group_action comes before the action of the member that is chosen; RANDOM chooses by chance.
#[test]
fn groups_have_an_action_and_members_are_chosen_at_random() {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let bed = bed_with(&program(), None, engine.clone());
        let mut far = Vec::new();
        for number in 1..8 {
            let config = port::memory::Config::default();
            let (near, end) = port::memory::port(&format!("p{number}"), config).unwrap();
            bed.switch.add_port(Some(number), Box::new(near)).unwrap();
            far.push(end);
        }
        let _told = bed.primary();
        let (spread, send, mark, tag) =
            (bed.id("spread"), bed.id("I.send"), bed.id("I.mark"), bed.id("I.tag"));
        let members = || vec![call(send, &[5]), call(mark, &[6, 0x66])];
        // All of one flow: what the fields have of it, by the port that they leave by.
        let seen = || {
            let mut seen: BTreeSet<(u32, Vec<u8>)> = BTreeSet::new();
            for _ in 0..64 {
                let mut frame = vec![0; 60];
                frame[..3].copy_from_slice(&[0x12, 2, 3]);
                assert!(far[0].inject_bytes(&frame));
                let end = std::time::Instant::now() + Duration::from_secs(20);
                loop {
                    let took = [5, 6].into_iter().find_map(|port| {
                        Some((port, far[port as usize - 1].take_within(Duration::from_millis(1))?))
                    });
                    if let Some((port, frame)) = took {
                        seen.insert((port, frame.data()[..4].to_vec()));
                        break;
                    }
                    assert!(std::time::Instant::now() < end, "no frame");
                }
            }
            seen
        };
        let mut kind = Type::Insert;
        let mut put = |entry: &v1::TableEntry| {
            bed.done(&write(kind, E::TableEntry(entry.clone())));
            kind = Type::Modify;
            let all = v1::TableEntry { table_id: spread, ..v1::TableEntry::default() };
            assert_eq!(bed.read(E::TableEntry(all)), [E::TableEntry(entry.clone())]);
        };
        // By hash, one member has all of the flow; its action has the last word.
        put(&set(spread, M::Hash, Some(call(tag, &[0x44])), members()));
        let first = (5, vec![0x12, 0x44, 0, 0x88]);
        let second = (6, vec![0x12, 0x44, 0x66, 0x77]);
        let hashed = seen();
        assert!(
            hashed == BTreeSet::from([first.clone()]) || hashed == BTreeSet::from([second.clone()]),
            "{engine:?} {hashed:?}"
        );
        // By chance both have some of it.
        put(&set(spread, M::Random, Some(call(tag, &[0x44])), members()));
        assert_eq!(seen(), BTreeSet::from([first, second]), "{engine:?}");
        put(&set(spread, M::Random, None, members()));
        let plain = [(5, vec![0x12, 2, 3, 0x88]), (6, vec![0x12, 2, 0x66, 0x77])];
        assert_eq!(seen(), BTreeSet::from(plain), "{engine:?}");
    }
}

#[test]
fn an_action_of_groups_is_for_groups_alone() {
    let bed = bed(&program());
    let _told = bed.primary();
    let (spread, send, tag) = (bed.id("spread"), bed.id("I.send"), bed.id("I.tag"));
    let scope = |id| {
        let table = bed.info.tables.iter().find(|t| t.preamble.as_ref().unwrap().id == spread);
        let found = table.unwrap().action_refs.iter().find(|a| a.id == id);
        found.unwrap().scope
    };
    assert_eq!((scope(send), scope(tag)), (0, 3));
    let refused = |entry| bed.refused(&write(Type::Insert, E::TableEntry(entry)));
    let wrong = refused(set(spread, M::Hash, Some(call(send, &[5])), vec![call(send, &[5])]));
    assert!(
        wrong.0 == 3
            && wrong.1.contains("group_action is no action of the table with @groupaction"),
        "{wrong:?}"
    );
    assert!(wrong.1.contains("(I.tag)"), "{wrong:?}");
    let wrong = refused(set(spread, M::Hash, None, vec![call(tag, &[5])]));
    assert!(wrong.0 == 7 && wrong.1.contains("`I.tag` is for groups only"), "{wrong:?}");
    let member = v1::ActionProfileMember {
        action_profile_id: bed.id("balanced"),
        member_id: 1,
        action: Some(call(tag, &[5])),
    };
    assert_eq!(bed.refused(&write(Type::Insert, E::ActionProfileMember(member))).0, 3);
    // A default, neither.
    let default = v1::TableEntry {
        table_id: spread,
        is_default_action: true,
        action: Some(v1::TableAction { r#type: Some(A::Action(call(tag, &[5]))) }),
        ..v1::TableEntry::default()
    };
    assert_eq!(bed.refused(&write(Type::Modify, E::TableEntry(default))).0, 7);
    // Without a selector there are no groups.
    let lone = PROFILES.replace(
        "actions = { send; mark; drop; }\n        implementation = shared;",
        "actions = { @groupaction send; mark; drop; }\n        implementation = shared;",
    );
    assert_ne!(lone, PROFILES);
    let fault = p4_runtime::config::compile(&lone, p4::limits::Limits::default()).err().unwrap();
    assert!(
        fault.text.contains("has no action selector whose groups could have it"),
        "{}",
        fault.text
    );
}
