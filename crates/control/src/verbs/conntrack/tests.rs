//! Lists of all trackers, page by page; counts; what is refused.

use super::row::side;
use super::*;
use crate::program::services::add;
use crate::program::tables;
use serde_json::json;
use service::conntrack::image::{Image, Writer};
use service::conntrack::{Config, Outcome, Request, Role, Tuple};
use service::craft::Frame;
use service::packet::Packet;
use std::net::IpAddr;

fn text(value: serde_json::Value) -> String {
    Conntrack::text(&serde_json::from_value(value).unwrap())
}

#[test]
fn connections_are_shown_line_by_line() {
    let end = |n: u8| json!({"src": format!("10.0.0.{n}"), "dst": "10.0.0.9", "src_port": 1, "dst_port": 80});
    let value = json!({"held": 1, "half_open": 0, "memory_bytes": 7, "counters": {"new": 2, "invalid": 0},
        "trackers": [{"name": "ct", "kind": "ct", "held": 1}, {"name": "out", "kind": "nat", "held": 0}],
        "connections": [{"protocol": "tcp", "zone": 5, "original": end(1), "reply": end(2), "state": "Established",
        "mark": 3, "label": "0x0", "replied": true, "assured": true, "timeout": 60, "tracker": "ct",
        "packets": [3, 2], "octets": [180, 120]}], "next": "ct:256:1"});
    let expected = "\
1 connections, 0 of them half open, 7 bytes
  new=2
service out: nat, 0 connections
tcp,orig=(src=10.0.0.1,dst=10.0.0.9,sport=1,dport=80),reply=(src=10.0.0.2,dst=10.0.0.9,sport=1,dport=80),zone=5,timeout=60,state=Established,mark=3,packets=3/2,octets=180/120,tracker=ct
more: --after ct:256:1
";
    assert_eq!(text(value), expected);
    assert_eq!(text(json!({"flushed": 3})), "3 connections forgotten\n");
    let counted = json!({"counted": [{"of": "7", "connections": 2}, {"of": "0", "connections": 1, "packets": 5, "octets": 300}]});
    assert!(text(counted).ends_with("        2 7\n        1 0 packets=5 octets=300\n"));
}

#[test]
fn a_ping_is_shown_by_type_code_and_identifier() {
    let (zone, protocol, role) = (7, wire::IpProtocol::ICMP, Role::Request);
    let (src, dst, src_port, dst_port) = (0x0a00_0001, 0x0a00_0002, 77, 8 << 8);
    let ping = Tuple { src, dst, src_port, dst_port, zone, protocol, v6: false, role };
    let (original, reply) = (side(&ping), side(&ping.inverted()));
    let (protocol, label) = ("icmp".to_owned(), "0x0".to_owned());
    let timeout = 30;
    let one = One { protocol, zone, original, reply, label, timeout, ..One::default() };
    let line = "icmp,orig=(src=10.0.0.1,dst=10.0.0.2,id=77,type=8,code=0),\
        reply=(src=10.0.0.2,dst=10.0.0.1,id=77,type=0,code=0),zone=7,timeout=30";
    assert_eq!(one.line(), line);
}

/// An image of UDP connections from these ports, in this zone.
fn image(zone: u16, ports: std::ops::Range<u16>) -> Vec<u8> {
    let mut tracker = service::conntrack::Tracker::new(Config::new(5000, 1), 0);
    let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    for port in ports {
        let mut frame = Frame::udp((a, port), (b, 53), 9).bytes();
        let request = Request { commit: true, zone, ..Request::default() };
        tracker.process(0, &request, &mut [Packet::of(&mut frame)], &mut [Outcome::default()]);
    }
    let (mut writer, mut out) = Writer::new(&tracker, 0);
    loop {
        let more = writer.slice(&mut tracker, 0, 1000);
        out.extend(writer.frame());
        if !more {
            out.extend(writer.end());
            return out;
        }
    }
}

/// A switch whose `ct` knows 600 connections of zone 1, and a service `fw` of its own 10.
fn bed() -> Switch {
    let switch = tables::start(1, Vec::new(), 5000, switch::EngineKind::Interp, None).unwrap();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    add(&switch, &words("fw conntrack accounting=yes")).unwrap();
    add(&switch, &words("lb balancer backends=a,b")).unwrap();
    add(&switch, &words("out nat direction=out addresses=192.0.2.1 group=home")).unwrap();
    add(&switch, &words("back nat direction=in addresses=192.0.2.1 group=home")).unwrap();
    let ct = switch.services().connections().unwrap();
    let mut image_of_ct = Image::read(image(1, 1000..1600)).unwrap();
    assert_eq!(ct.import(&mut image_of_ct, &|| 1).connections, 600);
    let list = switch.services().elements().unwrap().list();
    let fw = list.iter().find(|named| named.name == "fw").unwrap();
    assert_eq!(fw.import(1, image(0, 2000..2010)), Ok(10));
    switch
}

fn known(switch: &Switch, question: &Conntrack) -> Known {
    match question.clone().answer(&At::alone(switch)) {
        Ok(Reply::Answer(Answer::Known(known))) => known,
        Ok(_) => panic!("nothing was to be forgotten"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn one_list_over_all_trackers_is_told_page_by_page_without_a_gap() {
    let switch = bed();
    let all = known(&switch, &Conntrack { limit: 1000, ..Conntrack::default() });
    assert_eq!((all.held, all.connections.len(), all.next.as_deref()), (610, 610, None));
    let names: Vec<_> = all.trackers.iter().map(|one| (&*one.name, one.held)).collect();
    assert_eq!(names, [("ct", 600), ("back", 0), ("fw", 10), ("lb", 0)], "out shares back's state");
    let of_fw: Vec<_> = all.connections.iter().filter(|one| one.tracker == "fw").collect();
    assert!(of_fw.len() == 10 && of_fw[0].packets == Some([0, 0]) && of_fw[0].zone == 0);
    assert!(all.connections[0].packets.is_none(), "ct's are not counted");
    for limit in [1, 7, 256, 300, 609, 610] {
        let mut question = Conntrack { limit, ..Conntrack::default() };
        let (mut ports, mut pages) = (Vec::new(), 0);
        loop {
            let page = known(&switch, &question);
            ports.extend(page.connections.iter().map(|one| (one.zone, one.original.src_port)));
            pages += 1;
            assert!(page.connections.len() <= limit);
            question.after = page.next;
            if question.after.is_none() {
                break;
            }
        }
        let count = ports.len();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!((ports.len(), count), (610, 610), "limit {limit}");
        assert_eq!(pages, 610_usize.div_ceil(limit));
    }
}

#[test]
fn filters_choose_and_counts_sum_up_to_all() {
    let switch = bed();
    let ask = |question: Conntrack| known(&switch, &Conntrack { limit: 1000, ..question });
    let rows = |question: Conntrack| ask(question).connections.len();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(rows(Conntrack { zone: Some(1), ..Conntrack::default() }), 600);
    assert_eq!(rows(Conntrack { service: some("fw"), ..Conntrack::default() }), 10);
    assert_eq!(rows(Conntrack { port: Some(2003), ..Conntrack::default() }), 1);
    assert_eq!(rows(Conntrack { protocol: some("tcp"), ..Conntrack::default() }), 0);
    assert_eq!(rows(Conntrack { src: some("10.0.0.0/24"), ..Conntrack::default() }), 610);
    for (by, expected) in [
        (By::Zone, vec![("1", 600), ("0", 10)]),
        (By::Service, vec![("ct", 600), ("fw", 10)]),
        (By::Proto, vec![("udp", 610)]),
        (By::State, vec![("unreplied", 610)]),
        (By::Backend, vec![("none", 610)]),
    ] {
        let counted = ask(Conntrack { count_by: Some(by), ..Conntrack::default() });
        let all: Vec<_> = counted.counted.iter().map(|one| (&*one.of, one.connections)).collect();
        assert_eq!(all, expected, "{by:?}");
        assert!(counted.connections.is_empty());
    }
}

#[test]
fn what_cannot_be_is_refused_and_a_flush_forgets_one_tracker() {
    let switch = bed();
    let at = At::alone(&switch);
    let some = |text: &str| Some(text.to_owned());
    for (question, why) in [
        (Conntrack { service: some("x"), ..Conntrack::default() }, "there are ct, back, fw, lb"),
        (Conntrack { after: some("x:1:2"), ..Conntrack::default() }, "no `next`"),
        (Conntrack { after: some("ct:1"), ..Conntrack::default() }, "no `next`"),
        (Conntrack { state: some("x"), ..Conntrack::default() }, "there are syn_sent"),
        (Conntrack { flush: true, port: Some(1), ..Conntrack::default() }, "ct-flush"),
        (Conntrack { flush: true, service: some("lb"), ..Conntrack::default() }, "service drain"),
    ] {
        let Err(error) = question.answer(&at) else { panic!("it is refused: {why}") };
        assert!(error.contains(why), "{error}");
    }
    let flush = |service: Option<String>| {
        let question = Conntrack { flush: true, service, ..Conntrack::default() };
        match question.answer(&at) {
            Ok(Reply::Answer(Answer::Flushed { flushed })) => flushed,
            _ => panic!("they are forgotten"),
        }
    };
    assert_eq!(flush(some("fw")), 10);
    assert_eq!(flush(None), 600);
    assert_eq!(known(&switch, &Conntrack::default()).held, 0);
}
