use super::*;
use crate::fake::Fake;
use crate::reconcile::Watch;
use crate::switch::Switch;
use crate::vlog::Levels;
use std::collections::BTreeSet;
use std::sync::Arc;

fn context() -> Context {
    let fake = Fake::default();
    for name in ["br0", "br1"] {
        let settings =
            crate::desired::bridge::BridgeSettings { name: name.to_owned(), ..Default::default() };
        fake.add_bridge(&settings).expect("a bridge");
    }
    let interface = |name: &str, kind: &str| crate::desired::interface::InterfaceSettings {
        name: name.to_owned(),
        kind: kind.to_owned(),
        ..Default::default()
    };
    fake.add_interface("br0", 1, &interface("v1", "system")).expect("an interface");
    let mut patch = interface("pa", "patch");
    patch.options.insert("peer".to_owned(), "pb".to_owned());
    fake.add_interface("br0", 3, &patch).expect("an interface");
    Context {
        switch: Arc::new(fake),
        watch: Watch::default(),
        levels: Arc::new(Levels::new(&["vswitch"])),
        log_file: Box::new(|what| Ok(format!("{what:?}"))),
        exit: Box::new(|| {}),
        version: "millrace 0".to_owned(),
        counts: Counts::default(),
    }
}

fn ask(context: &Context, line: &str) -> Answer {
    let mut words = line.split(' ').map(str::to_owned);
    let name = words.next().expect("a command");
    answer(context, &name, &words.collect::<Vec<_>>())
}

#[test]
fn wrong_words_are_refused_as_open_vswitch_refuses_them() {
    let context = context();
    let refused = |line: &str| ask(&context, line).expect_err("refused");
    assert_eq!(
        refused("nosuch"),
        "\"nosuch\" is not a valid command (use \"list-commands\" to see a list of valid commands)"
    );
    assert_eq!(refused("fdb/show"), "\"fdb/show\" command requires at least 1 arguments");
    assert_eq!(refused("version x"), "\"version\" command takes at most 0 arguments");
    assert_eq!(refused("fdb/show nobr"), "no such bridge");
    assert_eq!(refused("ofproto/trace nobr in_port=1"), "nobr: unknown bridge");
    assert_eq!(
        refused("ofproto/trace br0"),
        "syntax error at br0 (or the bridge name was omitted)"
    );
    assert!(refused("upcall/show").contains("there is no flow cache"));
    assert_eq!(context.counts.missing.load(Ordering::Relaxed), 2);
}

#[test]
fn every_command_is_there_once_and_none_of_them_is_told_to_be_missing() {
    let names: Vec<&str> = all().iter().map(|command| command.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    for name in names {
        assert_eq!(missing::why(name), None, "{name}");
    }
}

#[test]
fn ports_and_addresses_are_shown_in_the_form_of_open_vswitch() {
    let context = context();
    assert_eq!(
        ask(&context, "dpif/show").expect("an answer"),
        "netdev@millrace: hit:0 missed:7\n  br0:\n    pa 3/none: (patch: peer=pb)\n    v1 1/2: (system)\n  br1:\n"
    );
    ask(&context, "fdb/add br0 v1 10 50:54:00:00:00:01").expect("an answer");
    assert_eq!(
        ask(&context, "fdb/show br0").expect("an answer"),
        " port  VLAN  MAC                Age\n    1    10  50:54:00:00:00:01  static\n"
    );
    ask(&context, "fdb/del br0 10 50:54:00:00:00:01").expect("an answer");
    assert_eq!(ask(&context, "fdb/show br0").expect("an answer").lines().count(), 1);
    assert_eq!(ask(&context, "ofproto/list").expect("an answer"), "br0\nbr1\n");
    assert!(ask(&context, "fdb/add br0 v1 4096 50:54:00:00:00:01").is_err());
}

#[test]
fn connections_and_their_limits() {
    let context = context();
    ask(&context, "dpctl/ct-set-limits default=10 zone=1,limit=5").expect("an answer");
    let limits = ask(&context, "dpctl/ct-get-limits").expect("an answer");
    assert_eq!(limits, "default limit=10\nzone=1,limit=5,count=0\n");
    ask(&context, "dpctl/ct-del-limits zone=1").expect("an answer");
    assert_eq!(
        ask(&context, "dpctl/ct-get-limits zone=1").expect("an answer"),
        "default limit=10\nzone=1,limit=10,count=3\n"
    );
    let stats = ask(&context, "dpctl/ct-stats-show").expect("an answer");
    assert_eq!(stats, "Connections Stats:\n    Total: 3\n    TCP: 2\n    UDP: 1\n");
    assert_eq!(ask(&context, "dpctl/dump-conntrack zone=5").expect("an answer"), "tcp,zone=5\n");
    assert!(ask(&context, "dpctl/ct-set-limits zone=1").is_err());
    ask(&context, "dpctl/ct-del-limits netdev@millrace default").expect("an answer");
    assert!(
        ask(&context, "dpctl/ct-get-limits").expect("an answer").starts_with("default limit=0")
    );
    assert!(ask(&context, "dpctl/ct-del-limits all").is_err());
}

#[test]
fn a_trace_takes_a_flow_and_maybe_a_packet() {
    let context = context();
    assert_eq!(
        ask(&context, "ofproto/trace br0 in_port=1 --names").expect("a trace"),
        "br0 in_port=1 None"
    );
    let packet = "ff".repeat(14);
    let traced = ask(&context, &format!("ofproto/trace br0 in_port=1 {packet}")).expect("a trace");
    assert!(traced.contains("Some([255, 255"), "{traced}");
    assert!(ask(&context, "ofproto/trace br0 in_port=1 -odd").is_err());
}

#[test]
fn the_log_can_be_set() {
    let context = context();
    assert!(ask(&context, "vlog/set vswitch:file:dbg").is_ok());
    assert!(
        ask(&context, "vlog/list")
            .expect("a list")
            .contains("vswitch           INFO       INFO        DBG")
    );
    assert_eq!(ask(&context, "vlog/reopen").expect("an answer"), "Reopen");
}
