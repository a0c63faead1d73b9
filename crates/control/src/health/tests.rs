//! Questions to sockets of this machine, and what follows for the balancer.

use super::run::look;
use super::{balancers, probe};
use crate::program::services::add;
use crate::program::tables;
use service::balance::Health;
use service::balance::check::Check;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::time::{Duration, Instant};
use switch::Switch;
use tokio::runtime::Runtime;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn bed(line: &str) -> Switch {
    let switch = tables::start(1, Vec::new(), 1000, switch::EngineKind::Interp, None).unwrap();
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    add(&switch, &words).unwrap();
    switch
}

fn check(switch: &Switch) -> Check {
    balancers(switch)[0].spread().unwrap().check().unwrap().clone()
}

fn takes(switch: &Switch) -> Vec<Health> {
    let status = balancers(switch)[0].spread().unwrap().backends().status();
    status.iter().map(|one| one.takes).collect()
}

/// Looks again and again, until it is so.
fn until(switch: &Switch, runtime: &Runtime, what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        look(switch, runtime);
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(5)).await });
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}: {:?}", takes(switch));
    }
}

/// A server that answers each connection with this, until the listener is dropped.
fn serve(answer: &'static str) -> u16 {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut question = [0; 1000];
            let n = stream.read(&mut question).unwrap_or(0);
            let asked = String::from_utf8_lossy(&question[..n]).into_owned();
            assert!(asked.starts_with("GET /alive HTTP/1.1\r\nHost: web\r\n"), "{asked}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn http_is_judged_by_its_status() {
    let runtime = runtime();
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\n\r\n", Ok(())),
        ("HTTP/1.1 503 Busy\r\n\r\n", Err("status 503")),
        ("220 mail ready\r\n", Err("what it answers is no HTTP")),
        ("", Err("what it answers is no HTTP")),
    ] {
        let port = serve(answer);
        let switch = bed(&format!(
            "lb balancer backends=127.0.0.1 check=http check_port={port} check_path=/alive check_host=web"
        ));
        let told = runtime.block_on(probe::ask(&check(&switch), HERE)).map(|_| ());
        assert_eq!(told.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e));
    }
}

#[test]
fn a_port_that_refuses_and_one_that_is_silent_do_not_answer() {
    let runtime = runtime();
    // Nobody accepts, and the kernel answers none the less: only HTTP waits for more.
    let silent = TcpListener::bind((HERE, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let ask = |kind: &str, port: u16| {
        let line = "lb balancer backends=127.0.0.1 check_interval=100ms check_timeout=50ms";
        let switch = bed(&format!("{line} check={kind} check_port={port}"));
        runtime.block_on(probe::ask(&check(&switch), HERE))
    };
    assert!(ask("tcp", port).is_ok());
    assert_eq!(ask("http", port), Err("no answer within 50 ms".to_owned()));
    drop(silent);
    assert_eq!(ask("tcp", port), Err("connection refused".to_owned()));
}

#[test]
fn this_machine_answers_echo_requests() {
    let switch = bed("lb balancer backends=a,b hosts=a=127.0.0.1,b=::1 check=icmp");
    let runtime = runtime();
    let ask = |host: IpAddr| runtime.block_on(probe::ask(&check(&switch), host));
    match ask(HERE) {
        // Neither ping sockets nor raw ones are for this user.
        Err(why) if why.contains("not permitted") || why.contains("denied") => return,
        told => assert!(told.is_ok(), "{told:?}"),
    }
    // A network namespace may have no IPv6.
    if std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        let told = ask(Ipv6Addr::LOCALHOST.into());
        assert!(told.is_ok(), "{told:?}");
    }
}

#[test]
fn a_check_leaves_by_the_address_that_is_said() {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let line = format!("lb balancer backends=127.0.0.1 check=tcp check_port={port}");
    let switch = bed(&format!("{line} check_source=127.0.0.77"));
    assert!(runtime().block_on(probe::ask(&check(&switch), HERE)).is_ok());
    assert_eq!(listener.accept().unwrap().1.ip().to_string(), "127.0.0.77");
    let switch = bed(&format!("{line} check_device=nosuch0"));
    let told = runtime().block_on(probe::ask(&check(&switch), HERE));
    assert!(told.is_err(), "there is no such interface: {told:?}");
}

#[test]
fn a_backend_that_dies_gets_no_flows_until_it_answers_again() {
    use Health::{Down, Up};
    let both = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = both.local_addr().unwrap().port();
    let switch = bed(&format!(
        "lb balancer backends=a,b hosts=a=127.0.0.1,b=127.0.0.2 check=tcp check_port={port} \
         check_interval=20ms check_timeout=20ms check_rise=2 check_fall=2"
    ));
    let runtime = runtime();
    let found = || {
        let status = balancers(&switch)[0].spread().unwrap().backends().status();
        status.into_iter().map(|one| one.found.map_or(0, |found| found.checks)).collect::<Vec<_>>()
    };
    until(&switch, &runtime, "both are asked", || found().iter().all(|checks| *checks > 0));
    assert_eq!(takes(&switch), [Up, Up]);
    drop(both);
    let only_b = TcpListener::bind(("127.0.0.2", port)).unwrap();
    until(&switch, &runtime, "a dies", || takes(&switch) == [Down, Up]);
    let a = TcpListener::bind(("127.0.0.1", port)).unwrap();
    until(&switch, &runtime, "a comes back", || takes(&switch) == [Up, Up]);
    drop((a, only_b));
    // Both are gone, and by default checks do not count then.
    let dead = || {
        let status = balancers(&switch)[0].spread().unwrap().backends().status();
        status.iter().all(|one| one.found.as_ref().is_some_and(|found| !found.alive))
    };
    until(&switch, &runtime, "both die", dead);
    assert_eq!(takes(&switch), [Up, Up]);
}

#[test]
fn a_drain_ends_in_time() {
    let switch = bed("lb balancer backends=a,b");
    let backends = balancers(&switch)[0].spread().unwrap().backends().clone();
    backends.drain("a", Some(switch.now_ns() + 30_000_000)).unwrap();
    assert_eq!(takes(&switch), [Health::Draining, Health::Up]);
    until(&switch, &runtime(), "the drain ends", || takes(&switch) == [Health::Down, Health::Up]);
}
