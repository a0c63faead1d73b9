//! Replies that come twice, or never.

use crate::lab::Lab;
use crate::lab::rounds;
use crate::shim::Lies;
use crate::shim::Which;
use gauge::module;
use gauge::module::Module;
use openflow::Message;
use openflow::Version;

#[test]
fn doubled_replies_are_found() {
    let cases: [(Which, &Module, &str, &str); 5] = [
        (
            |m| matches!(m, Message::EchoReply(_)),
            &module::echo::MODULE,
            "replies_doubled",
            "200 echo replies",
        ),
        (
            |m| matches!(m, Message::BarrierReply),
            &module::updates::INSERTION,
            "replies_doubled",
            "barrier replies",
        ),
        (
            |m| matches!(m, Message::MultipartReply(_)),
            &module::statistics::MODULE,
            "replies_doubled",
            "statistics replies",
        ),
        (
            |m| matches!(m, Message::MultipartReply(_)),
            &module::load::POLLING,
            "replies_doubled",
            "statistics replies",
        ),
        (
            |m| matches!(m, Message::PacketIn(_)),
            &module::punt::PACKET_IN,
            "packet_in_doubled",
            "100 of 100",
        ),
    ];
    for (doubles, module, what, text) in cases {
        let mut lab = Lab::new(Version::V13, Lies { doubles: Some(doubles), ..Lies::default() });
        let runs = lab.ask(module);
        // Without anything asked there is nothing to double.
        for run in runs.iter().filter(|r| r.label != "nothing asked") {
            let [found] = &run.findings[..] else { panic!("{}: {:?}", module.name, run.findings) };
            assert!(found.what == what && found.text.contains(text), "{}: {found:?}", module.name);
        }
    }
}

/// Parts of one answer are not taken for doubles of each other.
#[test]
fn long_answers_are_not_doubled() {
    let mut lab = Lab::new(Version::V13, Lies::default());
    lab.bench.as_mut().unwrap().settings.polled_entries = 3000;
    assert_eq!(lab.findings(&module::load::POLLING), [""; 0]);
}

#[test]
fn unanswered_echoes_are_found() {
    for _ in 0..rounds() {
        let mut lab = Lab::new(Version::V13, Lies { deaf: Some(50), ..Lies::default() });
        let runs = lab.ask(&module::echo::MODULE);
        assert_eq!(runs[0].findings[0].what, "echo_unanswered");
        assert_eq!(runs[0].value("unanswered"), Some(4.0));
    }
}
