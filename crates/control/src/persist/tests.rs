use super::kept::{Kept, Opened, Owner};
use super::openflow::whole;
use super::place::Place;
use crate::program::tables::{self, Told, tell};
use crate::sync::lock;
use journal::Sync;
use of_pipeline::Agent;
use openflow::{
    FlowMod, FlowModCommand, FragmentHandling, Message, PortNo, SwitchConfig, TableId, TableMod,
    TlvMapping, TlvTableCommand, TlvTableMod, Version,
};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use switch::EngineKind;

/// A switch whose changes are kept in a folder, with what was there put back.
struct Bed {
    agent: Arc<Mutex<Agent>>,
    kept: Kept,
}

fn place(folder: &Path) -> Place {
    Place { folder: folder.to_owned(), sync: Sync::Never }
}

fn try_start(folder: &Path) -> Result<Bed, String> {
    let switch = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None).unwrap();
    let agent = Arc::new(Mutex::new(tables::agent(&switch, Some(1)).unwrap()));
    let mut opened =
        Opened::open(&place(folder), "br0", Owner::OpenFlow).map_err(|failure| failure.text())?;
    if !opened.is_fresh() {
        opened.put_back(&agent).map_err(|failure| failure.text())?;
    }
    let kept = opened.begin(&agent).map_err(|failure| failure.text())?;
    Ok(Bed { agent, kept })
}

fn start(folder: &Path) -> Bed {
    try_start(folder).unwrap()
}

impl Bed {
    fn tell(&self, what: Told, line: &str) {
        let done = tell(&mut lock(&self.agent), what, line, &|_| None);
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    fn ask(&self, message: Message) -> Result<Vec<Message>, String> {
        lock(&self.agent).handle(Version::V15, message).map_err(|refusal| refusal.to_string())
    }

    /// All that there is, in an order that does not depend on ids.
    fn state(&self) -> Vec<String> {
        let agent = lock(&self.agent);
        let mut all: Vec<String> = Vec::new();
        for table in 0..agent.flows().tables() as u8 {
            all.extend(agent.flows().iter(table).map(|(_, flow)| {
                let stats = flow.stats(TableId(table));
                format!("{stats:?}")
            }));
        }
        all.extend(agent.groups().iter().map(|(id, group)| {
            format!("{id} {:?} {:?} {:?}", group.group_type, group.selection, group.buckets)
        }));
        all.extend(
            agent
                .meters()
                .iter()
                .map(|(id, meter)| format!("{id} {:?} {:?}", meter.flags, meter.bands)),
        );
        all.push(format!("{:?}", agent.set_config()));
        all.push(format!("{:?}", agent.options()));
        all.push(format!("{:?}", agent.table_messages()));
        all.sort();
        all
    }

    /// As a killed process leaves it: what was flushed is in the folder, and the lock is free.
    fn kill(self) -> Vec<String> {
        let state = self.state();
        self.kept.flush();
        lock(&self.agent).switch().stop();
        self.kept.close();
        state
    }
}

#[test]
fn all_that_was_programmed_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    bed.tell(Told::Meter, "meter=1 kbps burst bands=type=drop rate=1000 burst_size=100");
    bed.tell(Told::Meter, "meter=2 pktps bands=type=drop rate=5");
    bed.tell(Told::Group, "group_id=1,type=all,bucket=output:1,bucket=output:2");
    // One that leads to a group of a greater number.
    bed.tell(Told::Group, "group_id=9,type=indirect,bucket=output:3");
    bed.tell(Told::Group, "group_id=2,type=all,bucket=group:9");
    bed.tell(
        Told::Group,
        "group_id=3,type=select,selection_method=hash,fields(ip_src),bucket=weight:3,output:1,bucket=weight:1,output:2",
    );
    bed.tell(
        Told::Flow,
        "table=0,priority=5,cookie=0x77,ip,nw_dst=10.0.0.0/8,actions=meter:1,group:2",
    );
    bed.tell(Told::Flow, "table=0,priority=0,importance=3,actions=goto_table:1");
    bed.tell(
        Told::Flow,
        "table=1,idle_timeout=60,send_flow_rem,tcp,tp_dst=80,actions=dec_ttl,output:1",
    );
    bed.tell(
        Told::Flow,
        "table=1,priority=7,udp,actions=learn(table=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
    );
    bed.tell(Told::Flow, "table=3,conj_id=5,ip,actions=output:1");
    bed.tell(Told::Flow, "table=3,ip,nw_src=10.0.0.1,actions=conjunction(5,1/2)");
    bed.tell(Told::Flow, "table=3,ip,nw_dst=10.0.0.2,actions=conjunction(5,2/2)");
    let config = SwitchConfig { fragments: FragmentHandling::Drop, miss_send_len: 99 };
    bed.ask(Message::SetConfig(config)).unwrap();
    let eviction = openflow::table::TABLE_EVICTION;
    let request =
        TableMod { table_id: TableId(4), config: eviction, eviction: None, vacancy: None };
    bed.ask(Message::TableMod(request)).unwrap();
    let mapping = TlvMapping { class: 0x102, kind: 0x80, len: 4, index: 0 };
    let request = TlvTableMod { command: TlvTableCommand::Add, mappings: vec![mapping] };
    lock(&bed.agent).change_options(&request).unwrap();
    bed.tell(Told::Flow, "table=5,tun_metadata0=0x1,actions=output:1");
    // What is changed and goes again.
    bed.tell(Told::Flow, "table=6,priority=1,actions=output:1");
    let delete = FlowMod {
        table_id: TableId(6),
        command: FlowModCommand::Delete,
        ..FlowMod::add(Default::default(), Default::default())
    };
    bed.ask(Message::FlowMod(delete)).unwrap();
    let before = bed.kill();
    assert!(before.iter().any(|line| line.contains("119")), "{before:#?}");
    let bed = start(dir.path());
    assert_eq!(bed.state(), before);
    // And once more, from the snapshot alone.
    assert_eq!(bed.kill(), before);
    let bed = start(dir.path());
    assert_eq!(bed.state(), before);
}

#[test]
fn a_request_is_one_record_and_a_bundle_is() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    let add = |n: u32| {
        let line = format!("table=0,priority={n},actions=output:1");
        let context = openflow::syntax::Context { version: Version::V15, ports: &|_| None };
        Message::FlowMod(openflow::syntax::parse_flow(&line, &context).unwrap())
    };
    lock(&bed.agent).bundle(Version::V15, (1..=50).map(add).collect()).unwrap();
    assert_eq!(bed.kept.status().records, 1);
    // A refused one leaves none of its entries.
    let mut requests: Vec<Message> = (60..70).map(add).collect();
    let bad =
        FlowMod { table_id: TableId(254), ..FlowMod::add(Default::default(), Default::default()) };
    requests.push(Message::FlowMod(bad));
    assert!(lock(&bed.agent).bundle(Version::V15, requests).is_err());
    let delete = FlowMod {
        table_id: TableId::ALL,
        command: FlowModCommand::Delete,
        ..FlowMod::add(Default::default(), Default::default())
    };
    let records = bed.kept.status().records;
    bed.ask(Message::FlowMod(delete)).unwrap();
    assert_eq!(bed.kept.status().records, records + 1);
    lock(&bed.agent).bundle(Version::V15, (1..=5).map(add).collect()).unwrap();
    let before = bed.kill();
    let bed = start(dir.path());
    assert_eq!(lock(&bed.agent).flows().total().0, 5);
    assert_eq!(bed.state(), before);
}

#[test]
fn groups_take_their_entries_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    bed.tell(Told::Group, "group_id=1,type=all,bucket=output:1");
    bed.tell(Told::Flow, "table=0,priority=1,actions=group:1");
    bed.tell(Told::Flow, "table=0,priority=2,actions=output:1");
    let context = openflow::syntax::Context { version: Version::V15, ports: &|_| None };
    let mut group = openflow::syntax::parse_group("group_id=1,type=all", &context).unwrap();
    group.command = openflow::GroupModCommand::Delete;
    let records = bed.kept.status().records;
    bed.ask(Message::GroupMod(group)).unwrap();
    assert_eq!(bed.kept.status().records, records + 1, "the cascade is part of the record");
    let before = bed.kill();
    let bed = start(dir.path());
    assert_eq!(lock(&bed.agent).flows().total().0, 1);
    assert_eq!(bed.state(), before);
}

#[test]
fn time_goes_on_while_no_switch_runs() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    bed.tell(Told::Flow, "table=0,priority=1,hard_timeout=1,actions=output:1");
    bed.tell(Told::Flow, "table=0,priority=2,hard_timeout=500,actions=output:1");
    bed.tell(Told::Flow, "table=0,priority=3,idle_timeout=1,actions=output:1");
    bed.kill();
    std::thread::sleep(Duration::from_millis(1100));
    let bed = start(dir.path());
    let agent = lock(&bed.agent);
    let mut left: Vec<_> =
        agent.flows().iter(0).map(|(_, flow)| (flow.priority, flow.hard_timeout)).collect();
    left.sort_unstable();
    // An idle timeout begins anew.
    assert_eq!(left, [(2, 499), (3, 0)]);
}

#[test]
fn what_timed_out_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    bed.tell(Told::Flow, "table=0,priority=3,idle_timeout=1,actions=output:1");
    bed.tell(Told::Flow, "table=0,priority=4,actions=output:1");
    let began = std::time::Instant::now();
    while lock(&bed.agent).flows().total().0 == 2 {
        assert!(began.elapsed() < Duration::from_secs(20));
        lock(&bed.agent).poll();
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = bed.kill();
    let bed = start(dir.path());
    assert_eq!(bed.state(), before);
}

#[test]
fn changes_and_the_whole_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    for n in 1..100u32 {
        bed.tell(Told::Flow, &format!("table={},priority={n},actions=output:{n}", n % 3));
        if n % 4 == 0 {
            bed.tell(Told::Group, &format!("group_id={n},type=all,bucket=output:1"));
        }
    }
    let bytes = {
        let whole = whole(&lock(&bed.agent));
        whole.len()
    };
    assert_eq!(bytes, 99 + 24);
    bed.kill();
    let bed = start(dir.path());
    assert_eq!(whole(&lock(&bed.agent)).len(), 99 + 24);
}

#[test]
fn what_cannot_be_put_back_stops_the_start_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let bed = start(dir.path());
    let mapping = TlvMapping { class: 0x102, kind: 0x80, len: 4, index: 0 };
    let request = TlvTableMod { command: TlvTableCommand::Add, mappings: vec![mapping] };
    lock(&bed.agent).change_options(&request).unwrap();
    bed.tell(Told::Flow, "table=5,priority=8,actions=output:1");
    bed.kill();
    // A switch that takes fewer entries.
    let switch = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None).unwrap();
    let agent = Mutex::new(tables::limited_agent(&switch, Some(1), &[], 0).unwrap());
    let mut opened = Opened::open(&place(dir.path()), "br0", Owner::OpenFlow).unwrap();
    let text = opened.put_back(&agent).unwrap_err().text();
    assert!(
        text.contains("flow entry (table 5, priority 8) that was kept is refused now"),
        "{text}"
    );
    assert!(text.contains("move the folder away to begin without what was kept"), "{text}");
    switch.stop();
    drop(opened);
    assert_eq!(lock(&start(dir.path()).agent).flows().total().0, 1);
}

#[test]
fn ports_are_configured_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let with_port = |folder: &Path| {
        try_start_with(folder, |switch| {
            let (port, _) = port::memory::port("kept", port::memory::Config::default()).unwrap();
            switch.add_port(Some(7), Box::new(port)).unwrap();
        })
    };
    let bed = with_port(dir.path());
    let view = lock(&bed.agent).switch().port(7).unwrap();
    let request = openflow::PortMod {
        port_no: PortNo(7),
        hw_addr: openflow::MacAddr(view.info.mac),
        config: openflow::PortConfig::NO_FLOOD | openflow::PortConfig::NO_FWD,
        mask: openflow::PortConfig::NO_FLOOD | openflow::PortConfig::NO_FWD,
        advertise: openflow::PortFeatures::empty(),
    };
    bed.ask(Message::PortMod(request)).unwrap();
    bed.kill();
    let bed = with_port(dir.path());
    let (message, _) = lock(&bed.agent).port_message(7).unwrap();
    let wanted = openflow::PortConfig::NO_FLOOD | openflow::PortConfig::NO_FWD;
    assert_eq!(message.config & wanted, wanted);
    bed.kill();
    // A switch without that port starts all the same.
    start(dir.path());
}

fn try_start_with(folder: &Path, before: impl FnOnce(&switch::Switch)) -> Bed {
    let switch = tables::start(1, Vec::new(), 1000, EngineKind::Interp, None).unwrap();
    before(&switch);
    let agent = Arc::new(Mutex::new(tables::agent(&switch, Some(1)).unwrap()));
    let mut opened = Opened::open(&place(folder), "br0", Owner::OpenFlow).unwrap();
    if !opened.is_fresh() {
        opened.put_back(&agent).unwrap();
    }
    let kept = opened.begin(&agent).unwrap();
    Bed { agent, kept }
}
