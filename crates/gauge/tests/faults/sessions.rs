//! How a switch is reached and asked.

use crate::lab::Lab;
use crate::shim::Lies;
use gauge::Control;
use gauge::Peer;
use gauge::report::How;
use of_channel::Channel;
use of_channel::Config;
use of_channel::Listen;
use of_channel::TlsFiles;
use of_pipeline::Agent;
use of_pipeline::AgentConfig;
use openflow::Version;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::Mutex;

#[test]
fn the_channel_is_spoken_by_tls_too() {
    const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../of-channel/tests/tls");
    let files = |who: &str| TlsFiles {
        private_key: format!("{TLS}/{who}-privkey.pem").into(),
        certificate: format!("{TLS}/{who}-cert.pem").into(),
        ca_cert: Some(format!("{TLS}/ca.pem").into()),
        bootstrap: false,
        crl: None,
    };
    let lab = Lab::new(Version::V13, Lies::default());
    let agent = Agent::new(lab.switch.clone(), AgentConfig::default()).unwrap();
    let config = Config {
        listeners: vec![Listen::Tls { address: Ipv4Addr::LOCALHOST.into(), port: 0 }],
        tls: Some(files("switch")),
        ..Config::default()
    };
    let channel = Channel::start(lab.switch.clone(), Arc::new(Mutex::new(agent)), config).unwrap();
    let Listen::Tls { port, .. } = channel.listening()[0] else { unreachable!() };
    let peer: Peer = format!("tls:127.0.0.1:{port}").parse().unwrap();
    assert!(Control::open(&peer, &Version::ALL).is_err(), "without keys");
    let mut control =
        Control::open(&peer.clone().with_tls(files("controller")), &Version::ALL).unwrap();
    let echoes = gauge::module::echo::exchange(&mut control, 100, 1000.0, Default::default());
    assert_eq!(echoes.unwrap().unanswered, 0);
    assert!(Control::open(&peer.with_tls(files("stranger")), &Version::ALL).is_err());
}

#[test]
fn modules_are_asked_as_often_as_told() {
    let (report, left) =
        Lab::session(Version::V13, Lies::default(), &["echo", "packet_out"], |s| {
            s.repetitions = 3;
        });
    assert_eq!((report.ended.how, left), (How::Complete, 0), "{report}");
    for module in &report.modules {
        let repetitions: Vec<u32> = module.runs.iter().map(|r| r.repetition).collect();
        assert_eq!(repetitions, [0, 1, 2]);
    }
}
