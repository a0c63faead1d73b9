//! Lines that are read, and what is wrong with others.

use super::*;

const LEAST: &str =
    "group=gw member=b server=nats://10.0.0.9 listen=10.0.0.2:7400 peer=a@10.0.0.1:7400";

#[test]
fn a_line_is_read() {
    let read = Settings::parse(LEAST).unwrap();
    assert_eq!((read.place(), read.misses, read.interval.as_millis()), ((1, 2), 3, 10));
    let more = "group=gw member=b server=nats://x,tls://y listen=10.0.0.2:7400,[fd00::2]:7400 \
                peer=a@10.0.0.1:7400,[fd00::1]:7400 peer=c@10.0.0.3:1,[fd00::3]:1 address=lan,10.1.0.1,02:00:00:00:00:01 \
                address=wan,2001:db8::1,02:00:00:00:00:02,100 interval=5ms misses=4 hold=2s priority=7 batch=2ms min-age=3s \
                ca=/ca certificate=/c key=/k credentials=/x";
    let read = Settings::parse(more).unwrap();
    assert_eq!((read.place(), read.peers.len(), read.addresses[1].vlan), ((1, 3), 2, Some(100)));
    assert_eq!(read.addresses[0].mac, [2, 0, 0, 0, 0, 1]);
}

#[test]
fn shares_are_read() {
    let line = format!(
        "{LEAST} share=one services=nat1,arp1 address=lan,10.1.0.1,02:00:00:00:00:01 prefer=b share=two services=nat2"
    );
    let read = Settings::parse(&line).unwrap();
    assert_eq!(read.rebalance, Some(REBALANCE));
    let [one, two] = &read.shares[..] else { panic!("two") };
    assert_eq!((&*one.name, one.services.len(), one.addresses.len()), ("one", 2, 1));
    assert_eq!((&*two.name, two.prefer.len()), ("two", 0));
    let members = read.members(7, 8).unwrap();
    assert_eq!((members.all().len(), members.all()[0].config().priority), (2, 255));
    let never = Settings::parse(&line.replace(" share=one", " rebalance=never share=one"));
    assert_eq!(never.unwrap().rebalance, None);
    let alone = Settings::parse(LEAST).unwrap();
    assert_eq!((alone.rebalance, alone.members(1, 1).unwrap().all().len()), (None, 1));
}

#[test]
fn a_confined_process_starts_programs_only_where_it_may() {
    let read = Settings::parse(&format!("{LEAST} notify=/opt/gw/role")).unwrap();
    let may = |confine, paths: &[&str]| {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        may_notify(Some(&read), confine, &paths).map_err(Failure::text)
    };
    assert_eq!((may(false, &[]), may(true, &["/opt/gw"])), (Ok(()), Ok(())));
    for paths in [&[][..], &["/opt/g"], &["/etc"]] {
        assert!(may(true, paths).unwrap_err().contains("notify=/opt/gw/role: a confined"));
    }
    assert!(may_notify(None, true, &[]).is_ok());
}

#[test]
fn what_is_wrong_is_named() {
    for (line, why) in [
        ("", "group= is missing"),
        ("group", "KEY=VALUE"),
        (&format!("{LEAST} group=x"), "group= is there twice"),
        (&format!("{LEAST} colour=red"), "there are group="),
        (&format!("{LEAST} address=lan,10.1.0.1"), "PORT,IP,MAC"),
        (&format!("{LEAST} address=lan,10.1.0.1,02:00:00:00:00:01,4095"), "PORT,IP,MAC"),
        (&format!("{LEAST} interval=0ms"), "a time as 10ms"),
        (&format!("{LEAST} interval=10"), "a time as 10ms"),
        (&format!("{LEAST} batch=1s"), "up to 100ms"),
        (&format!("{LEAST} min-age=5m"), "up to 60s"),
        (&format!("{LEAST} misses=1"), "at least 2"),
        (&format!("{LEAST} key=/k"), "go together"),
        (&format!("{LEAST} notify=x"), "the whole path"),
        (&format!("{LEAST} peer=c@10.0.0.3:1,10.0.0.4:1"), "one of each makes a path"),
        (&format!("{LEAST} peer=a@10.0.0.1:1"), "two members are named a"),
        (&format!("{LEAST} peer=b@10.0.0.1:1"), "two members are named b"),
        (&format!("{LEAST} services=x"), "behind share=NAME"),
        (&format!("{LEAST} rebalance=soon"), "a time as 10s, or never"),
        (&format!("{LEAST} stripes=some"), "own or pool was expected"),
        (&format!("{LEAST} share=s"), "services= is missing"),
        (&format!("{LEAST} share=s services=x share=t services=x"), "x is there twice"),
        (&format!("{LEAST} share=s services=x share=s services=y"), "two shares are named s"),
        (&format!("{LEAST} share=s services=x prefer=z"), "no member"),
        (&format!("{LEAST} share=s services=x hold=1s"), "before the first share="),
        (&format!("{LEAST} registers=r share=s services=x"), "belong to no share"),
        (&format!("{LEAST} priority=7 share=s services=x"), "prefer=MEMBER instead"),
        (&format!("{LEAST} address=l,10.1.0.1,02:00:00:00:00:01 share=s services=x"), "to a share"),
        (&LEAST.replace("member=b", "member=b.c"), "no name of a member"),
    ] {
        let error = Settings::parse(line).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
}
