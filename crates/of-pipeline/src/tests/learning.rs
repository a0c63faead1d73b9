//! `learn` with `result_dst`: a packet knows what came of what it wanted to be learned. And `learn` without it: an entry is told
//! of once, and again as it goes or changes.

use super::bed::*;
use openflow::syntax::{Context, parse_flow};
use openflow::{FlowMod, FlowModCommand, Match, TableId, Version};
use switch::EngineKind;

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(Version::V15));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// One that was learned goes by port 2, one that was not by port 3.
const TOLD: [&str; 2] =
    ["table=1,reg0=0x11/0x11 actions=output:2", "table=1,reg0=0x10/0x11 actions=output:3"];

fn each(flows: &[&str], f: impl Fn(&mut Bed)) {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        let mut bed = Bed::by(engine, program(), 3);
        for line in flows.iter().chain(&TOLD) {
            bed.ok(flow(line));
        }
        f(&mut bed);
    }
}

/// The ports by which packets of these senders leave.
fn ports(bed: &Bed, senders: impl IntoIterator<Item = u64>) -> Vec<usize> {
    let one = |sender: u64| {
        bed.send(1, &frame(1, sender));
        let by = |port: usize| bed.taken(port).is_some().then_some(port);
        by(2).or_else(|| by(3)).expect("it leaves")
    };
    senders.into_iter().map(one).collect()
}

const LEARN: &str = "in_port=1 actions=set_field:0x11->reg0,\
    learn(table=6,cookie=7,limit=2,result_dst=NXM_NX_REG0[0],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
    output:NXM_OF_IN_PORT[]),resubmit(,1)";

#[test]
fn a_packet_is_told_whether_its_entry_is_there_or_its_limit_forbids_it() {
    each(&[LEARN], |bed| {
        // At once, before the control side has made any of them.
        assert_eq!(ports(bed, [0x21, 0x21, 0x22, 0x23, 0x22, 0x24]), [2, 2, 2, 3, 2, 3]);
        bed.until("two are learned", |bed| bed.agent.flows().len(6) == 2);
        bed.until("two are refused", |bed| bed.agent.learning().refused == 2);
        assert_eq!(ports(bed, [0x21, 0x23, 0x22]), [2, 3, 2]);
        // There is room again.
        bed.ok(FlowMod { table_id: TableId(6), ..delete(Match::new()) });
        assert_eq!(ports(bed, [0x23, 0x21, 0x22]), [2, 2, 3]);
        bed.until("two are learned", |bed| bed.agent.flows().len(6) == 2);
    });
}

#[test]
fn the_limit_counts_entries_of_its_cookie_whoever_made_them() {
    let before = "table=6,cookie=7,dl_dst=00:00:00:00:00:55 actions=output:2";
    each(&[before, "table=6,cookie=8,dl_dst=00:00:00:00:00:56 actions=output:2", LEARN], |bed| {
        assert_eq!(ports(bed, [0x21, 0x22]), [2, 3]);
        bed.until("one is learned", |bed| bed.agent.flows().len(6) == 3);
        // One that is there already needs no room, though the controller made it; one with another action does.
        bed.ok(flow("table=6,cookie=7,dl_dst=00:00:00:00:00:22 actions=output:1"));
        bed.ok(flow("table=6,cookie=7,dl_dst=00:00:00:00:00:23 actions=output:3"));
        assert_eq!(ports(bed, [0x22, 0x23, 0x24]), [2, 3, 3]);
        bed.ok(flow("table=6,cookie=9,dl_dst=00:00:00:00:00:21 actions=output:1"));
        assert_eq!(ports(bed, [0x21]), [3], "it has another cookie now");
    });
}

#[test]
fn an_entry_that_packets_keep_is_added_anew_though_there_is_no_room() {
    let line = LEARN.replace("limit=2", "limit=1,idle_timeout=100");
    each(&[&line], |bed| {
        assert_eq!(ports(bed, [0x21, 0x22]), [2, 3]);
        bed.until("one is learned", |bed| bed.agent.flows().len(6) == 1);
        let since = |bed: &Bed| bed.agent.flows().iter(6).next().map(|(_, flow)| flow.created_ns);
        let first = since(bed);
        std::thread::sleep(std::time::Duration::from_millis(600));
        assert_eq!(ports(bed, [0x21, 0x22]), [2, 3]);
        bed.until("its time begins anew", |bed| since(bed) != first);
        assert_eq!(ports(bed, [0x21, 0x22]), [2, 3]);
    });
}

#[test]
fn without_a_limit_all_are_learned_and_the_bit_alone_is_written() {
    let line = LEARN.replace("limit=2,", "").replace("reg0,", "reg0,set_field:0xf0->reg1,");
    let line = line.replace("REG0[0]", "REG1[31]").replace("resubmit(,1)", "resubmit(,2)");
    let whole = "table=2,reg0=0x11,reg1=0x800000f0 actions=output:2";
    each(&[&line, whole], |bed| {
        assert_eq!(ports(bed, 0x21..0x29), [2; 8]);
        bed.until("all are learned", |bed| bed.agent.flows().len(6) == 8);
    });
}

#[test]
fn what_is_written_by_buckets_and_in_clones_is_told_there() {
    let in_clone = LEARN.replace("actions=", "actions=clone(") + "),output:1";
    each(&[&in_clone.replace(",output:1", ",in_port")], |bed| {
        assert_eq!(ports(bed, [0x21, 0x22, 0x23]), [2, 2, 3]);
        assert_eq!(bed.receive(1), frame(1, 0x21));
    });
}

#[test]
fn what_must_not_be_written_is_no_place_for_a_result() {
    let mut bed = Bed::new(2);
    let line = LEARN.replace("NXM_NX_REG0[0]", "NXM_NX_CT_STATE[0]");
    assert!(parse_flow(&line, &Context::new(Version::V15)).is_err());
    bed.ok(flow(LEARN));
}

/// Learns where a station is, and drops what comes from it.
const STATION: &str = "table=0 actions=learn(table=6,cookie=7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
    NXM_OF_VLAN_TCI[],output:NXM_OF_IN_PORT[])";

/// The station is learned at this port, and nothing else is.
fn is_at(bed: &Bed, port: u32) -> bool {
    let at = format!("PortNo({port})");
    let mut flows = bed.agent.flows().iter(6);
    let first = flows.next().map(|(_, flow)| format!("{:?}", flow.instructions));
    first.is_some_and(|instructions| instructions.contains(&at)) && flows.next().is_none()
}

#[test]
fn an_entry_is_told_of_once_for_many_packets() {
    let mut bed = Bed::new(3);
    bed.ok(flow(STATION));
    bed.send(1, &frame(1, 0x21));
    bed.until("it is learned", |bed| is_at(bed, 1));
    // Until there is code, each packet tells.
    bed.until("there is code", |bed| bed.agent.switch().is_settled());
    let before = bed.agent.learning().messages;
    for _ in 0..1000 {
        bed.send(1, &frame(1, 0x21));
    }
    bed.send(1, &frame(1, 0x22));
    bed.until("all have come", |bed| bed.agent.flows().len(6) == 2);
    // For more, packets would have to come an eighth of a second apart.
    let messages = bed.agent.learning().messages - before;
    assert!((1..500).contains(&messages), "{messages} of 1,001");
}

/// One packet each time: nothing waits for what was told to get old.
#[test]
fn an_entry_is_told_of_again_at_once_as_it_goes_or_changes() {
    each(&[STATION], |bed| {
        let came = |bed: &mut Bed, port: usize| {
            bed.send(port, &frame(1, 0x21));
            bed.until("it is learned", |bed| is_at(bed, port as u32));
        };
        came(bed, 1);
        // There and back.
        for port in [2, 1, 3, 1] {
            came(bed, port);
        }
        // The controller deletes it.
        bed.ok(FlowMod { table_id: TableId(6), ..delete(Match::new()) });
        assert_eq!(bed.agent.flows().len(6), 0);
        came(bed, 1);
        // The controller changes it.
        let command = FlowModCommand::Modify;
        let other = FlowMod { table_id: TableId(6), command, ..flow("actions=output:3") };
        bed.ok(other);
        assert!(is_at(bed, 3));
        came(bed, 1);
        // Another one learns from it.
        bed.ok(FlowMod { table_id: TableId(0), ..delete(Match::new()) });
        bed.ok(flow(&STATION.replace("table=6", "table=7")));
        bed.send(1, &frame(1, 0x21));
        bed.until("the other table has it", |bed| bed.agent.flows().len(7) == 1);
        // And both.
        bed.ok(flow(&STATION.replace("table=0", "table=0,priority=40000,in_port=2")));
        bed.send(2, &frame(1, 0x21));
        bed.until("it moved", |bed| is_at(bed, 2));
        bed.send(1, &frame(1, 0x21));
        bed.until("the other table keeps it", |bed| bed.agent.flows().len(7) == 1);
    });
}
