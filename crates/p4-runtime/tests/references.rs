//! `@refers_to`: what refers to nothing is refused, and so is to delete what is referred to. Restrictions and references of
//! the program's own entries.

#[allow(unreachable_pub)]
mod common;

use common::{Bed, action, batch, bed, exact, write};
use p4_runtime::proto::v1;
use v1::entity::Entity as E;
use v1::update::Type;

/// `nexthops` refer to `vrfs` and to pairs of `neighbors`; an action of `routes` to `nexthops`, another one to groups.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("", string) type bit<16> vrf_t;
header h_t { bit<16> a; bit<16> b; bit<8> c; }
struct headers { h_t h; }
struct metadata { vrf_t vrf; bit<16> hop; }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action_profile(8) hops;
    action none() { }
    action via(@refers_to(neighbors, router) bit<16> router, @refers_to(neighbors, neighbor) bit<16> neighbor) {
        m.hop = router + neighbor;
    }
    action to_hop(@refers_to(nexthops, hop) bit<16> hop) { m.hop = hop; }
    action flood(@refers_to(builtin::multicast_group_table, multicast_group_id) bit<16> group) { sm.mcast_grp = group; }
    table vrfs { key = { m.vrf: exact @name("vrf_id"); } actions = { none; } }
    table neighbors {
        key = { h.h.a: exact @name("router"); h.h.b: exact @name("neighbor"); }
        actions = { none; }
    }
    table nexthops {
        key = { h.h.a: exact @name("hop"); m.vrf: optional @name("vrf_id") @refers_to(vrfs, vrf_id); }
        actions = { via; none; }
    }
    table routes { key = { h.h.b: exact; } actions = { to_hop; flood; none; } default_action = none(); }
    table shared { key = { h.h.c: exact; } actions = { to_hop; none; } implementation = hops; }
    apply { vrfs.apply(); neighbors.apply(); nexthops.apply(); routes.apply(); shared.apply(); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply { } }
control U(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

fn optional(field: u32, value: &[u8]) -> v1::FieldMatch {
    let value = v1::field_match::Optional { value: value.to_vec() };
    let told = Some(v1::field_match::FieldMatchType::Optional(value));
    v1::FieldMatch { field_id: field, field_match_type: told }
}

fn call(id: u32, params: &[&[u8]]) -> v1::TableAction {
    let params = (1..).zip(params);
    let params =
        params.map(|(param_id, value)| v1::action::Param { param_id, value: value.to_vec() });
    let action = v1::Action { action_id: id, params: params.collect() };
    v1::TableAction { r#type: Some(v1::table_action::Type::Action(action)) }
}

struct Net(Bed);

impl Net {
    fn new() -> (Net, tokio::sync::mpsc::Receiver<p4_runtime::streams::Told>) {
        let bed = bed(PROGRAM);
        let told = bed.primary();
        (Net(bed), told)
    }

    fn entry(&self, table: &str, matches: Vec<v1::FieldMatch>, action: v1::TableAction) -> E {
        E::TableEntry(v1::TableEntry {
            table_id: self.0.id(table),
            r#match: matches,
            action: Some(action),
            ..v1::TableEntry::default()
        })
    }

    fn none(&self) -> v1::TableAction {
        action(self.0.id("none"), None)
    }

    fn vrf(&self, name: &str) -> E {
        self.entry("vrfs", vec![exact(1, name.as_bytes())], self.none())
    }

    fn neighbor(&self, router: u8, neighbor: u8) -> E {
        self.entry("neighbors", vec![exact(1, &[router]), exact(2, &[neighbor])], self.none())
    }

    fn hop(&self, hop: u8, vrf: Option<&str>, action: v1::TableAction) -> E {
        let mut matches = vec![exact(1, &[hop])];
        matches.extend(vrf.map(|name| optional(2, name.as_bytes())));
        let mut entry = self.entry("nexthops", matches, action);
        let E::TableEntry(e) = &mut entry else { unreachable!("it is one") };
        e.priority = 1;
        entry
    }

    fn route(&self, route: u8, action: v1::TableAction) -> E {
        self.entry("routes", vec![exact(1, &[route])], action)
    }

    fn member(&self, id: u32, hop: u8) -> E {
        let call = v1::Action {
            action_id: self.0.id("to_hop"),
            params: vec![v1::action::Param { param_id: 1, value: vec![hop] }],
        };
        E::ActionProfileMember(v1::ActionProfileMember {
            action_profile_id: self.0.id("hops"),
            member_id: id,
            action: Some(call),
        })
    }

    fn done(&self, kind: Type, entity: E) {
        self.0.done(&write(kind, entity));
    }

    fn refused(&self, kind: Type, entity: E) -> (i32, String) {
        self.0.refused(&write(kind, entity))
    }
}

#[test]
fn lines_of_p4_do_keep_to_references() {
    let (net, _told) = Net::new();
    let run = |line: &str| {
        let done = net.0.device.commands(line);
        done.wrong.first().map_or(String::new(), |wrong| wrong.text.clone())
    };
    let refused = |line: &str, words: &str| {
        let text = run(line);
        assert!(text.contains(words), "{line}: {text}");
    };
    // An entry, and what it refers to, by either way.
    refused("table_add routes to_hop 1 => 7", "`hop`: it refers to table");
    refused("table_add routes to_hop 1 => 7", "insert that first");
    net.done(Type::Insert, net.hop(7, None, net.none()));
    assert_eq!(run("table_add routes to_hop 1 => 7"), "");
    let (code, text) = net.refused(Type::Delete, net.hop(7, None, net.none()));
    assert!(code == 9 && text.contains("it is referred to 1 times"), "{text}");
    refused("table_delete nexthops 0", "it is referred to 1 times; delete what refers to it first");
    refused("table_clear nexthops", "it is referred to 1 times");
    refused("table_modify routes to_hop 0 9", "insert that first");
    // Something else refuses it: nothing has changed for references.
    refused("table_add routes to_hop 1 => 7", "already");
    assert_eq!(run("table_modify routes none 0"), "");
    assert_eq!(run("table_delete nexthops 0"), "");
    net.done(Type::Insert, net.hop(7, None, net.none()));
    net.done(Type::Modify, net.route(1, action(net.0.id("to_hop"), Some(&[7]))));
    refused("table_delete nexthops 1", "it is referred to 1 times");
    // Many lines at once, and all of a table.
    assert_eq!(run("table_clear routes\ntable_clear nexthops"), "");
    // Defaults and members.
    refused("table_set_default routes to_hop 3", "insert that first");
    refused("act_prof_create_member hops to_hop 3", "insert that first");
    net.done(Type::Insert, net.hop(3, None, net.none()));
    assert_eq!(run("table_set_default routes to_hop 3\nact_prof_create_member hops to_hop 3"), "");
    refused("table_clear nexthops", "it is referred to 2 times");
    assert_eq!(run("table_reset_default routes\nact_prof_delete_member hops 0"), "");
    assert_eq!(run("table_clear nexthops"), "");
}

#[test]
fn what_refers_to_nothing_is_refused() {
    let (net, _told) = Net::new();
    let hop = || net.hop(1, Some("blue"), net.none());
    let (code, text) = net.refused(Type::Insert, hop());
    assert_eq!(code, 5);
    assert_eq!(
        text,
        "table `I.nexthops`, key `vrf_id`: it refers to table `I.vrfs`, `vrf_id` = \"blue\", which is not there; insert \
         that first"
    );
    net.done(Type::Insert, net.vrf("blue"));
    net.done(Type::Insert, hop());
    // A field that is left out refers to nothing.
    net.done(Type::Insert, net.hop(2, None, net.none()));
    // Two parameters refer to one entry, both of them.
    let via = |router: u8, neighbor: u8| call(net.0.id("via"), &[&[router], &[0, neighbor]]);
    net.done(Type::Insert, net.neighbor(1, 2));
    net.done(Type::Insert, net.neighbor(3, 4));
    let (code, text) = net.refused(Type::Insert, net.hop(3, None, via(1, 4)));
    assert!(code == 5 && text.contains("`router`, `neighbor` = 0x01, 0x04"), "{text}");
    net.done(Type::Insert, net.hop(3, None, via(3, 4)));
    // A change is checked as well, and so are members, defaults and action sets.
    let (code, _) = net.refused(Type::Modify, net.hop(3, None, via(9, 9)));
    assert_eq!(code, 5);
    let to_hop = |hop: u8| call(net.0.id("to_hop"), &[&[hop]]);
    assert_eq!(net.refused(Type::Insert, net.route(1, to_hop(9))).0, 5);
    assert_eq!(net.refused(Type::Insert, net.member(1, 9)).0, 5);
    let default = |action| {
        E::TableEntry(v1::TableEntry {
            table_id: net.0.id("routes"),
            action,
            is_default_action: true,
            ..v1::TableEntry::default()
        })
    };
    assert_eq!(net.refused(Type::Modify, default(Some(to_hop(9)))).0, 5);
    net.done(Type::Modify, default(Some(to_hop(3))));
    let (code, text) = net.refused(Type::Delete, net.hop(3, None, net.none()));
    assert!(code == 9 && text.contains("referred to 1 times"), "{text}");
    net.done(Type::Modify, default(None));
    net.done(Type::Delete, net.hop(3, None, net.none()));
    // Groups are a table of their own.
    let flood = || net.route(7, call(net.0.id("flood"), &[&[7]]));
    let (code, text) = net.refused(Type::Insert, flood());
    assert!(code == 5 && text.contains("multicast group = 0x07"), "{text}");
    let group = || {
        use v1::packet_replication_engine_entry::Type as Pre;
        let group = v1::MulticastGroupEntry { multicast_group_id: 7, ..Default::default() };
        let r#type = Some(Pre::MulticastGroupEntry(group));
        E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type })
    };
    net.done(Type::Insert, group());
    net.done(Type::Insert, flood());
    net.done(Type::Modify, group());
    assert_eq!(net.refused(Type::Delete, group()).0, 9);
    net.done(Type::Delete, flood());
    net.done(Type::Delete, group());
}

#[test]
fn what_is_referred_to_stays() {
    let (net, _told) = Net::new();
    net.done(Type::Insert, net.vrf("blue"));
    for hop in [1, 2] {
        net.done(Type::Insert, net.hop(hop, Some("blue"), net.none()));
    }
    let (code, text) = net.refused(Type::Delete, net.vrf("blue"));
    assert_eq!(code, 9);
    assert_eq!(
        text,
        "table `I.vrfs`, `vrf_id` = \"blue\": it is referred to 2 times; delete what refers to it first"
    );
    net.done(Type::Delete, net.hop(1, Some("blue"), net.none()));
    assert_eq!(net.refused(Type::Delete, net.vrf("blue")).0, 9);
    net.done(Type::Delete, net.hop(2, Some("blue"), net.none()));
    net.done(Type::Delete, net.vrf("blue"));
    // Of two that have the same value one may go.
    net.done(Type::Insert, net.vrf("red"));
    net.done(Type::Insert, net.hop(5, None, net.none()));
    net.done(Type::Insert, net.hop(5, Some("red"), net.none()));
    net.done(Type::Insert, net.member(1, 5));
    net.done(Type::Delete, net.hop(5, Some("red"), net.none()));
    assert_eq!(net.refused(Type::Delete, net.hop(5, None, net.none())).0, 9);
    net.done(Type::Delete, net.member(1, 5));
    net.done(Type::Delete, net.hop(5, None, net.none()));
}

#[test]
fn a_batch_that_is_undone_leaves_no_references() {
    let (net, _told) = Net::new();
    let mut request = batch(vec![
        (Type::Insert, net.vrf("blue")),
        (Type::Insert, net.hop(1, Some("blue"), net.none())),
        (Type::Insert, net.hop(2, Some("green"), net.none())),
    ]);
    request.atomicity = v1::write_request::Atomicity::RollbackOnError as i32;
    assert!(net.0.device.write(&request).is_err());
    // Nothing of it is there: neither what refers nor what is referred to.
    assert_eq!(net.refused(Type::Insert, net.hop(1, Some("blue"), net.none())).0, 5);
    net.done(Type::Insert, net.vrf("blue"));
    net.done(Type::Delete, net.vrf("blue"));
    // In order within a batch.
    net.0.done(&batch(vec![
        (Type::Insert, net.vrf("blue")),
        (Type::Insert, net.hop(1, Some("blue"), net.none())),
        (Type::Delete, net.hop(1, Some("blue"), net.none())),
        (Type::Delete, net.vrf("blue")),
    ]));
}

/// The index that writes keep is that which is made of all entries, after whatever writes.
#[test]
fn random_writes_keep_the_index_right() {
    let (net, _told) = Net::new();
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 33) % n
    };
    // What is there: VRFs, neighbors, hops with what they refer to, by a plain model.
    let mut vrfs = [false; 3];
    let mut hops: [Option<Option<usize>>; 4] = [None; 4];
    let mut routes: [Option<usize>; 4] = [None; 4];
    let mut counts = [0; 2];
    let names = ["a", "b", "c"];
    for step in 0..4000 {
        let (v, h, r) = (below(3) as usize, below(4) as usize, below(4) as usize);
        // A hop's key has its VRF: it is named with the one that it has.
        let named = hops[h].unwrap_or((below(2) == 1).then_some(v));
        let vrf = net.vrf(names[v]);
        let hop = net.hop(h as u8, named.map(|v| names[v]), net.none());
        let route = net.route(r as u8, call(net.0.id("to_hop"), &[&[h as u8]]));
        let op = below(7);
        let (kind, entity, good) = match op {
            0 => (Type::Insert, vrf, !vrfs[v]),
            1 => (Type::Delete, vrf, vrfs[v] && !hops.contains(&Some(Some(v)))),
            2 => (Type::Insert, hop, hops[h].is_none() && named.is_none_or(|v| vrfs[v])),
            3 => (Type::Delete, hop, hops[h].is_some() && !routes.contains(&Some(h))),
            4 => (Type::Insert, route, routes[r].is_none() && hops[h].is_some()),
            5 => (Type::Modify, route, routes[r].is_some() && hops[h].is_some()),
            _ => (Type::Delete, route, routes[r].is_some()),
        };
        let done = net.0.device.write(&write(kind, entity)).is_ok();
        assert_eq!(done, good, "step {step}, operation {op}");
        counts[usize::from(done)] += 1;
        match (done, op) {
            (false, _) => {}
            (_, 0 | 1) => vrfs[v] = op == 0,
            (_, 2 | 3) => hops[h] = (op == 2).then_some(named),
            (_, _) => routes[r] = (op < 6).then_some(h),
        }
        // What text has changed is seen, too.
        if step % 100 == 99 {
            net.0.host.lock().unwrap().run("table_info nothing");
        }
    }
    assert!(counts.iter().all(|n| *n > 500), "{counts:?}");
}

fn pushed(program: &str) -> Result<(), (i32, String)> {
    let bed = bed(&PROGRAM.replace("@refers_to", "@unknown"));
    let _told = bed.primary();
    let built = p4_runtime::config::compile(program, p4::limits::Limits::default());
    let built = built.map_err(|e| (e.code as i32, e.text))?;
    let request = v1::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        action: v1::set_forwarding_pipeline_config_request::Action::VerifyAndCommit as i32,
        config: Some(v1::ForwardingPipelineConfig {
            p4info: Some(built.info),
            p4_device_config: program.as_bytes().to_vec(),
            cookie: None,
        }),
        ..v1::SetForwardingPipelineConfigRequest::default()
    };
    bed.device.set_pipeline(&request).map(drop).map_err(|e| (e.code as i32, e.text))
}

#[test]
fn wrong_references_are_refused_with_the_pipeline() {
    assert_eq!(pushed(PROGRAM), Ok(()));
    let refused = |from: &str, to: &str| {
        assert!(PROGRAM.contains(from), "{from}");
        let (code, text) = pushed(&PROGRAM.replace(from, to)).unwrap_err();
        assert_eq!(code, 3, "{text}");
        text
    };
    let text = refused("@refers_to(vrfs, vrf_id)", "@refers_to(vrfs, id)");
    assert!(
        text.contains("key `vrf_id`: the table `vrfs` has no key `id`; it has vrf_id"),
        "{text}"
    );
    let text = refused("@refers_to(nexthops, hop)", "@refers_to(hops, hop)");
    assert!(text.contains("parameter `hop`: it refers to the table `hops`"), "{text}");
    let text = refused("@refers_to(nexthops, hop)", "@refers_to(nexthops)");
    assert!(text.contains("needs a table and a field"), "{text}");
    let text = refused("@refers_to(nexthops, hop)", "@refers_to(vrfs, vrf_id)");
    assert!(text.contains("written in another way"), "{text}");
    let text = refused("multicast_group_id)", "replica.port)");
    assert!(text.contains("no field `replica.port`"), "{text}");
    let key = "key = { h.h.b: exact; } actions = { to_hop";
    let text = refused(key, "key = { h.h.b: lpm @refers_to(nexthops, hop); } actions = { to_hop");
    assert!(text.contains("it is lpm"), "{text}");
}

#[test]
fn the_program_s_own_entries_are_checked() {
    let routes = "table routes { key = { h.h.b: exact; } actions = { to_hop; flood; none; } default_action = none(); }";
    assert!(PROGRAM.contains(routes));
    let with = |entries: &str, annotation: &str| {
        let table =
            routes.replace("default_action", &format!("entries = {{ {entries} }} default_action"));
        let hops = "actions = { via; none; }\n";
        let own = "actions = { via; none; }\n        entries = { (1, _): none(); }\n";
        PROGRAM.replace(routes, &format!("{annotation} {table}")).replace(hops, own)
    };
    assert_eq!(
        pushed(&with("5: to_hop(1); 6: none();", "@entry_restriction(\"h.h.b < 7\")")),
        Ok(())
    );
    let (code, text) =
        pushed(&with("5: none(); 9: none();", "@entry_restriction(\"h.h.b < 7\")")).unwrap_err();
    assert_eq!(code, 3);
    assert_eq!(
        text,
        "table `I.routes`: the program's entry 2 violates @entry_restriction: h.h.b < 7"
    );
    let (code, text) = pushed(&with("5: to_hop(8);", "")).unwrap_err();
    assert_eq!(code, 3);
    assert!(
        text.contains("an entry of the program refers to table `I.nexthops`, `hop` = 0x08"),
        "{text}"
    );
    let restricted = with("5: to_hop(1);", "")
        .replace("action to_hop(", "@action_restriction(\"hop > 1\") action to_hop(");
    let (code, text) = pushed(&restricted).unwrap_err();
    assert_eq!(code, 3);
    assert!(text.contains("the program's entry 1: the arguments of `I.to_hop` violate @action_restriction: hop > 1"), "{text}");
}
